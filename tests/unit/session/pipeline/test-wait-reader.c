/* test-wait-reader.c - the reader's part of waits.h: wake-ups, and stacks that are read while threads wait. */
#include "session/pipeline/waits.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/perf/fake-ring.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MS = 1000000, TID = 8 };
#define SP 0x7ffd00001000ull

struct fixture {
	struct uw_modules *modules;
	struct process_table *processes;
	struct process *process;
	struct loader *loader;
	struct account account;
	struct waits *waits;
	struct park park;
	uint64_t count, weights[8];
	size_t n;
	struct scope scope;
};

static uint64_t *count_of(void *arg, uint32_t cpu)
{
	(void)cpu;
	return &((struct fixture *)arg)->count;
}

static int write_sample(void *arg, const struct outcome *o)
{
	struct fixture *f = arg;

	assert_true(f->n < ARRAY_SIZE(f->weights));
	f->weights[f->n++] = o->info.weight;
	f->account.answered++;
	f->account.emitted++;
	(void)process_unref(o->info.process);
	return 0;
}

static void fixture_init(struct fixture *f, bool read)
{
	const struct waits_options options = {.stacks = true, .read = read};

	*f = (struct fixture){.count = 0};
	assert_int_equal(uw_modules_new(&f->modules), 0);
	assert_int_equal(process_table_new(f->modules, 16, &f->processes), 0);
	f->process = process_get(f->processes, (uint32_t)getpid());
	assert_non_null(f->process);
	assert_int_equal(loader_new_inline("", &f->loader), 0);
	assert_int_equal(park_init(&f->park, 1 << 20), 0);
	assert_int_equal(waits_new(&options,
				   &(struct waits_context){&f->account, count_of, write_sample, f},
				   &f->waits),
			 0);
	waits_start(f->waits, 1000 * (uint64_t)MS);
	f->scope.c = (struct reader_context){.processes = f->processes,
					     .loader = f->loader,
					     .account = &f->account,
					     .waits = f->waits};
	f->scope.options.clock = CLOCK_MONOTONIC;
}

static void fixture_deinit(struct fixture *f)
{
	(void)loader_free(f->loader);
	(void)waits_free(f->waits);
	park_deinit(&f->park);
	(void)process_table_free(f->processes);
	(void)uw_modules_free(f->modules);
}

static void switched(struct fixture *f, uint32_t tid, uint64_t ms, bool out)
{
	const struct wait_switch s = {
		.process = f->process, .time = ms * MS, .tid = tid, .out = out};

	assert_int_equal(waits_switch(f->waits, &s), 0);
}

/* A sample at the switch of TID out of its CPU, and its stack. */
static void sampled(struct fixture *f, uint64_t ms)
{
	union {
		struct outcome o;
		uint64_t words[sizeof(struct outcome) / sizeof(uint64_t) + 1];
	} u = {.o = {.kind = OUTCOME_SAMPLE, .n_user = 1}};

	assert_true(waits_wants(f->waits, f->process, TID));
	f->account.received++;
	f->account.queued++;
	u.o.info = (struct sample_info){.process = process_ref(f->process),
					.pid = f->process->pid,
					.tid = TID,
					.wait = waits_sampled(f->waits, TID)};
	switched(f, TID, ms, true);
	assert_int_equal(waits_outcome(f->waits, &u.o), 0);
}

/* sched:sched_waking: time, the length of the fields (28), then the fields, of which pid is the last, at 24. */
static const struct perf_event_header *waking(uint64_t ms, uint32_t tid, uint32_t len)
{
	static struct fake_record rec;

	fake_begin(&rec, PERF_RECORD_SAMPLE, 0);
	fake_word(&rec, ms * MS);
	fake_pair(&rec, len, 0);
	fake_word(&rec, 0);
	fake_word(&rec, 0);
	fake_pair(&rec, 0, tid);
	return fake_end(&rec);
}

/* A sample of the task that wakes a thread is of use where that thread waits with a stack, once. */
static void test_waker(void **state)
{
	uint8_t raw[28] = {0};
	const uint32_t tid = TID;
	const struct record_sample s = {
		.time = 1020 * (uint64_t)MS, .raw = raw, .raw_len = sizeof(raw)};
	struct record_sample cut = s;
	uint32_t number;
	struct fixture f;

	(void)state;
	memcpy(raw + 24, &tid, sizeof(tid));
	cut.raw_len = 27;
	fixture_init(&f, false);
	assert_false(wait_reader_wants_waker(&f.scope, &s)); /* it is not known */
	switched(&f, TID, 1000, false);
	sampled(&f, 1010);
	assert_true(wait_reader_wants_waker(&f.scope, &s));
	assert_false(wait_reader_wants_waker(&f.scope, &cut));
	f.account.received++;
	f.account.queued++;
	number = wait_reader_waker(&f.scope, &s);
	assert_true(number > 0);
	assert_false(wait_reader_wants_waker(&f.scope, &s)); /* it has one */
	f.scope.c.waits = NULL;
	assert_false(wait_reader_wants_waker(&f.scope, &s));
	fixture_deinit(&f);
}

/* Its wait ends with the wake-up, and that for a CPU begins.  Damaged records are refused; one with fields that end before the
 * thread has no effect. */
static void test_woken(void **state)
{
	const struct record_layout layout = {.sample_type = PERF_SAMPLE_TIME | PERF_SAMPLE_RAW};
	struct fixture f;

	(void)state;
	fixture_init(&f, false);
	switched(&f, TID, 1000, false);
	sampled(&f, 1010);
	assert_int_equal(wait_reader_woken(&f.scope, &layout, waking(1020, TID, 20)), 0);
	assert_true(wait_reader_woken(&f.scope, &layout, waking(1030, TID, 4096)) < 0);
	assert_int_equal(f.n, 0);
	assert_int_equal(wait_reader_woken(&f.scope, &layout, waking(1050, TID, 28)), 0);
	switched(&f, TID, 1100, false);
	assert_int_equal(f.n, 2);
	assert_int_equal(f.weights[0], 40 * MS);
	assert_int_equal(f.weights[1], 50 * MS);
	f.scope.c.waits = NULL;
	assert_int_equal(wait_reader_woken(&f.scope, &layout, waking(1200, TID, 28)), 0);
	fixture_deinit(&f);
}

/* Each thread that waits for long is asked for once; an answer is an entry with its bytes in the park. */
static void test_read(void **state)
{
	uint64_t stack[4] = {0};
	struct load_answer a;
	struct entry e = {.block = NULL};
	struct fixture f;

	(void)state;
	if (UW_ARCH_HOST != UW_ARCH_X86_64)
		skip();
	fixture_init(&f, true);
	switched(&f, TID, 1000, false);
	switched(&f, TID, 1010, true);
	wait_reader_ask(&f.scope, 1005 * (uint64_t)MS); /* it ran then */
	assert_int_equal(f.scope.stacks_in_flight, 0);
	wait_reader_ask(&f.scope, 1015 * (uint64_t)MS);
	wait_reader_ask(&f.scope, 1015 * (uint64_t)MS);
	assert_int_equal(f.scope.stacks_in_flight, 1);

	assert_true(loader_answer(f.loader,
				  &a)); /* no thread of ours has this number: its own stack then */
	assert_int_equal(a.request.kind, LOAD_WAIT);
	assert_int_equal(a.request.tag, TID);
	assert_ptr_equal(a.request.process, f.process);
	free(a.stack);
	a.stack = (uint8_t *)stack;
	a.stack_len = sizeof(stack);
	a.wait = (struct wait_place){.number = -1, .sp = SP, .pc = 0x401000};
	a.wait_from = 1016 * (uint64_t)MS;
	a.wait_until = 1017 * (uint64_t)MS;
	a.error = -EAGAIN; /* it ran */
	f.scope.stacks_in_flight = 2;
	assert_false(wait_reader_answer(&f.scope, &f.park, &a, &e));
	a.error = 0;
	assert_true(wait_reader_answer(&f.scope, &f.park, &a, &e));
	assert_int_equal(f.scope.stacks_in_flight, 0);
	assert_true(e.info.wait > 0);
	assert_int_equal(e.info.stack_len, sizeof(stack));
	assert_int_equal(f.scope.enqueued_bytes, sizeof(stack));
	assert_int_equal(f.account.queued, 1);
	assert_true(e.stack != (uint8_t *)stack && !memcmp(e.stack, stack, sizeof(stack)));
	park_free(&f.park, (uintptr_t)f.process, e.block, entry_bytes(&e));
	(void)process_unref(e.info.process);

	/* A second stack of one wait is of no use, and neither is one of a program that was replaced. */
	f.scope.stacks_in_flight = 2;
	assert_false(wait_reader_answer(&f.scope, &f.park, &a, &e));
	f.process->replaced = true;
	assert_false(wait_reader_answer(&f.scope, &f.park, &a, &e));
	assert_int_equal(f.account.queued, 1);
	assert_int_equal(f.park.n_free, f.park.n_pages);
	a.stack = NULL;
	(void)process_unref(a.request.process);
	load_answer_deinit(&a);
	fixture_deinit(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_waker),
		cmocka_unit_test(test_woken),
		cmocka_unit_test(test_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
