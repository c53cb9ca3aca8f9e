/* test-waits.c - waits.h: records and outcomes in every order into samples, also where records were lost. */
#include <errno.h>
#include <string.h>

#include "proc/process.h"
#include "session/pipeline/waits.h"
#include "tests/unit/cmocka.h"

enum { MS = 1000000, PID = 7, SAMPLES = 64 };

struct written {
	uint32_t tid, cpu, n_user;
	uint64_t time, weight, count, frame, waker, began, ended;
	uint8_t reason, skipped;
};

struct fixture {
	struct uw_modules *modules;
	struct process_table *processes;
	struct process *process;
	struct account account;
	struct waits *waits;
	uint64_t counts[4];
	struct written written[SAMPLES];
	size_t n;
};

static uint64_t *count_of(void *arg, uint32_t cpu)
{
	return &((struct fixture *)arg)->counts[cpu];
}

static int write_sample(void *arg, const struct outcome *o)
{
	struct fixture *f = arg;

	assert_true(f->n < SAMPLES);
	f->written[f->n++] = (struct written){
		.tid = o->info.tid,
		.cpu = o->info.cpu,
		.n_user = o->n_user,
		.time = o->info.time,
		.weight = o->info.weight,
		.count = o->info.count,
		.began = o->info.began,
		.ended = o->info.ended,
		.frame = o->n_user ? o->frames[o->n_kernel] : 0,
		.waker = o->waker ? o->waker->frames[o->waker->n_kernel] : 0,
		.reason = o->info.reason,
		.skipped = o->skipped,
	};
	f->account.answered++;
	f->account.emitted++;
	(void)process_unref(o->info.process);
	return 0;
}

static struct fixture *fixture_of(const struct waits_options *options)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_int_equal(uw_modules_new(&f->modules), 0);
	assert_int_equal(process_table_new(f->modules, 16, &f->processes), 0);
	f->process = process_get(f->processes, PID);
	assert_int_equal(waits_new(options,
				   &(struct waits_context){&f->account, count_of, write_sample, f},
				   &f->waits),
			 0);
	waits_start(f->waits, 1000 * (uint64_t)MS);
	return f;
}

static struct fixture *fixture_new(bool running, bool stacks, bool cpu_wide)
{
	const struct waits_options options = {
		.running = running, .stacks = stacks, .cpu_wide = cpu_wide};

	return fixture_of(&options);
}

static void fixture_free(struct fixture *f)
{
	assert_true(account_holds(&f->account));
	(void)waits_free(f->waits);
	(void)process_table_free(f->processes);
	(void)uw_modules_free(f->modules);
	free(f);
}

/* Times in ms. */
static void out(struct fixture *f, uint32_t tid, uint64_t ms, bool preempted)
{
	const struct wait_switch s = {.process = f->process,
				      .time = ms * MS,
				      .tid = tid,
				      .out = true,
				      .preempted = preempted};

	assert_int_equal(waits_switch(f->waits, &s), 0);
}

static void in(struct fixture *f, uint32_t tid, uint64_t ms, uint32_t cpu)
{
	const struct wait_switch s = {
		.process = f->process, .time = ms * MS, .tid = tid, .cpu = cpu};

	assert_int_equal(waits_switch(f->waits, &s), 0);
}

/* As the reader does: false: not wanted. */
static uint32_t sample(struct fixture *f, uint32_t tid)
{
	if (!waits_wants(f->waits, f->process, tid))
		return 0;
	f->account.received++;
	f->account.queued++;
	return waits_sampled(f->waits, tid);
}

static void answer(struct fixture *f, uint32_t tid, uint32_t wait, uint64_t frame)
{
	union {
		struct outcome o;
		uint8_t room[sizeof(struct outcome) + sizeof(uint64_t)];
	} u = {.o = {.kind = OUTCOME_SAMPLE, .n_user = 1}};

	u.o.info = (struct sample_info){.process = process_ref(f->process),
					.pid = PID,
					.tid = tid,
					.wait = wait,
					.guessed = true};
	memcpy(u.room + sizeof(struct outcome), &frame, sizeof(frame));
	assert_int_equal(waits_outcome(f->waits, &u.o), 0);
}

/* A sample of the task that wakes @tid, as the reader has it; 0: not wanted. */
static uint32_t waker(struct fixture *f, uint32_t tid, uint64_t ms)
{
	if (!waits_wants_waker(f->waits, tid, ms * MS))
		return 0;
	f->account.received++;
	f->account.queued++;
	return waits_waker(f->waits, tid);
}

static uint64_t sum(const struct fixture *f, uint32_t tid)
{
	uint64_t ns = 0;

	for (size_t i = 0; i < f->n; i++)
		ns += f->written[i].tid == tid ? f->written[i].weight : 0;
	return ns;
}

static uint64_t sum_of(const struct fixture *f, enum wait_reason reason)
{
	uint64_t ns = 0;

	for (size_t i = 0; i < f->n; i++)
		ns += f->written[i].reason == reason ? f->written[i].weight : 0;
	return ns;
}

static void test_either_order(void **state)
{
	struct fixture *f = fixture_new(false, true, false);
	uint32_t first, second;

	(void)state;
	assert_int_equal(waits_fork(f->waits, f->process, 8, 1000 * (uint64_t)MS), 0);
	in(f, 8, 1000, 0);
	/* the outcome before the end of the wait */
	first = sample(f, 8);
	out(f, 8, 1010, false);
	answer(f, 8, first, 0x111);
	assert_int_equal(f->n, 0);
	in(f, 8, 1110, 1);
	assert_int_equal(f->n, 1);
	/* ... and behind it, when another wait has begun */
	second = sample(f, 8);
	out(f, 8, 1120, true);
	in(f, 8, 1150, 1);
	assert_int_equal(f->n, 1);
	answer(f, 8, second, 0x222);
	assert_int_equal(f->n, 2);

	assert_int_equal(f->written[0].weight, 100 * MS);
	assert_int_equal(f->written[0].time, 1110 * (uint64_t)MS);
	assert_int_equal(f->written[0].cpu, 1);
	assert_int_equal(f->written[0].frame, 0x111 | UW_FRAME_GUESSED);
	assert_int_equal(f->written[0].reason, WAIT_OTHER);
	assert_int_equal(f->written[1].weight, 30 * MS);
	assert_int_equal(f->written[1].count, 130 * MS);
	assert_int_equal(f->written[1].reason, WAIT_PREEMPTED);
	assert_int_equal(f->account.waits, 3);
	fixture_free(f);
}

/* The stack of the waker is joined to that of the wait, in whatever order the three come; it is not a sample of its own. */
static void test_wakers(void **state)
{
	struct fixture *f = fixture_new(false, true, false);
	uint32_t stack, woken;

	(void)state;
	assert_int_equal(waits_fork(f->waits, f->process, 8, 1000 * (uint64_t)MS), 0);
	in(f, 8, 1000, 0);
	assert_int_equal(waker(f, 8, 1005), 0); /* it runs */
	assert_int_equal(waker(f, 9, 1005), 0); /* it is not known */
	/* both outcomes before the end of the wait */
	stack = sample(f, 8);
	out(f, 8, 1010, false);
	assert_int_equal(waker(f, 8, 1009), 0); /* of an earlier wait */
	woken = waker(f, 8, 1050);
	assert_int_equal(waker(f, 8, 1050), 0); /* it has one */
	answer(f, 9, woken, 0x900);
	answer(f, 8, stack, 0x100);
	assert_int_equal(f->n, 0);
	in(f, 8, 1060, 0);
	assert_int_equal(f->n, 1);
	assert_int_equal(f->written[0].frame, 0x100 | UW_FRAME_GUESSED);
	assert_int_equal(f->written[0].waker, 0x900);
	/* the waker's is the last one */
	stack = sample(f, 8);
	out(f, 8, 1110, false);
	woken = waker(f, 8, 1150);
	in(f, 8, 1160, 0);
	answer(f, 8, stack, 0x101);
	assert_int_equal(f->n, 1);
	answer(f, 9, woken, 0x901);
	assert_int_equal(f->n, 2);
	assert_int_equal(f->written[1].waker, 0x901);
	assert_int_equal(f->written[1].weight, 50 * MS);
	/* preempted: it was not woken; without a stack: there is nothing to join to */
	stack = sample(f, 8);
	out(f, 8, 1210, true);
	assert_int_equal(waker(f, 8, 1215), 0);
	in(f, 8, 1220, 0);
	answer(f, 8, stack, 0x102);
	assert_int_equal(f->written[2].waker, 0);
	out(f, 8, 1230, false);
	assert_int_equal(waker(f, 8, 1235), 0);
	in(f, 8, 1240, 0);
	/* the wait will not be shown */
	stack = sample(f, 8);
	out(f, 8, 1310, false);
	woken = waker(f, 8, 1320);
	assert_int_equal(waits_exit(f->waits, 8, 1330 * (uint64_t)MS), 0);
	answer(f, 8, stack, 0x103);
	answer(f, 9, woken, 0x903);
	for (size_t i = 0; i < f->n; i++)
		assert_int_not_equal(f->written[i].waker, 0x903);
	assert_int_equal(account_in_flight(&f->account), 0);
	fixture_free(f);
}

/* All time of each thread, once: running + runnable + blocked. */
static void test_all_time(void **state)
{
	struct fixture *f = fixture_new(true, true, false);
	uint64_t weight;

	(void)state;
	assert_int_equal(waits_thread(f->waits, f->process, 7), 0); /* no record at all */
	assert_int_equal(waits_thread(f->waits, f->process, 9), 0);
	out(f, 9, 1004, false); /* it ran since the start */
	in(f, 9, 1100, 0);
	assert_int_equal(waits_fork(f->waits, f->process, 8, 1200 * (uint64_t)MS), 0);
	in(f, 8, 1203, 1);
	weight = waits_run(f->waits, f->process, 8, 1250 * (uint64_t)MS);
	assert_int_equal(weight, 47 * MS);
	out(f, 8, 1260, true);
	in(f, 8, 1300, 1);
	assert_int_equal(waits_exit(f->waits, 8, 1400 * (uint64_t)MS), 0);
	assert_int_equal(waits_finish(f->waits, 2000 * (uint64_t)MS), 0);
	for (size_t i = 1; i < f->n; i++)
		assert_true(f->written[i].time >= f->written[i - 1].time);
	assert_int_equal(sum(f, 7), 1000 * (uint64_t)MS);
	assert_int_equal(sum(f, 9), 1000 * (uint64_t)MS);
	assert_int_equal(sum(f, 8) + weight, 200 * MS);
	assert_int_equal(sum_of(f, WAIT_RUNNABLE), 3 * MS);
	assert_int_equal(sum_of(f, WAIT_PREEMPTED), 40 * MS);
	assert_int_equal(sum_of(f, WAIT_RUNNING), (904 + 110) * (uint64_t)MS);
	assert_int_equal(sum_of(f, WAIT_OTHER), (1000 + 96) * (uint64_t)MS);
	fixture_free(f);
}

/* A sample of a running thread that got no stack: its time is running time; with --off-cpu it is what it was. */
static void test_run_without_stack(void **state)
{
	(void)state;
	for (int running = 0; running < 2; running++) {
		struct fixture *f = fixture_new(running, true, false);
		struct outcome o = {.kind = OUTCOME_SAMPLE, .skipped = SKIP_MAPS_TIMEOUT};

		o.info = (struct sample_info){.process = process_ref(f->process),
					      .pid = PID,
					      .tid = 8,
					      .weight = 47 * MS};
		f->account.received++;
		f->account.queued++;
		assert_int_equal(waits_run_outcome(f->waits, &o), 0);
		assert_int_equal(f->n, 1);
		assert_int_equal(f->written[0].skipped, running ? SKIP_NONE : SKIP_MAPS_TIMEOUT);
		assert_int_equal(f->written[0].reason, running ? WAIT_RUNNING : 0);
		assert_int_equal(f->written[0].weight, 47 * MS);
		assert_int_equal(f->account.run_unsampled_ns, running ? 47 * MS : 0);
		fixture_free(f);
	}
}

/* Short waits without a stack weigh on the next with one, of their own kind; a long one stands alone. */
static void test_thinned(void **state)
{
	struct fixture *f = fixture_new(false, true, false);
	uint32_t wait;

	(void)state;
	assert_int_equal(waits_fork(f->waits, f->process, 8, 1000 * (uint64_t)MS), 0);
	in(f, 8, 1000, 0);
	for (uint64_t i = 0; i < 20; i++) {
		out(f, 8, 1010 + 10 * i, i % 2);
		in(f, 8, 1012 + 10 * i, 0);
	}
	assert_int_equal(f->n, 0);
	wait = sample(f, 8);
	out(f, 8, 1300, false);
	answer(f, 8, wait, 0x111);
	in(f, 8, 1303, 0);
	assert_int_equal(f->n, 1);
	assert_int_equal(f->written[0].weight, 23 * MS);
	assert_int_equal(f->written[0].began, 1300 * (uint64_t)MS); /* the wait itself */
	assert_int_equal(f->written[0].ended, 1303 * (uint64_t)MS);
	assert_int_equal(f->account.waits_thinned, 10);
	assert_int_equal(f->account.thinned_ns, 20 * MS);
	out(f, 8, 1400, false);
	in(f, 8, 1450, 0);
	assert_int_equal(f->n, 2);
	assert_int_equal(f->written[1].n_user, 0);
	assert_int_equal(f->written[1].weight, 50 * MS);
	assert_int_equal(f->written[1].began, 1400 * (uint64_t)MS);
	assert_int_equal(f->written[1].ended, 1450 * (uint64_t)MS);
	assert_int_equal(waits_finish(f->waits, 1500 * (uint64_t)MS), 0);
	assert_int_equal(f->n, 3); /* the preempted ones never got a stack */
	assert_int_equal(f->written[2].weight, 20 * MS);
	assert_int_equal(f->written[2].began, 0);
	assert_int_equal(f->written[2].reason, WAIT_PREEMPTED);
	fixture_free(f);
}

/* Without any stacks: not a packet for each switch, and no time is missing. */
static void test_no_stacks(void **state)
{
	struct fixture *f = fixture_new(false, false, false);

	(void)state;
	assert_int_equal(waits_fork(f->waits, f->process, 8, 1000 * (uint64_t)MS), 0);
	in(f, 8, 1000, 0);
	for (uint64_t i = 0; i < 100; i++) {
		out(f, 8, 1001 + 2 * i, false);
		in(f, 8, 1002 + 2 * i, 0);
	}
	assert_int_equal(waits_finish(f->waits, 1300 * (uint64_t)MS), 0);
	assert_in_range(f->n, 1, 25);
	assert_int_equal(sum(f, 8), 100 * MS);
	fixture_free(f);
}

/* A second event that samples the same switch, and a stack without a recorded switch. */
static void test_doubles(void **state)
{
	struct fixture *f = fixture_new(false, true, false);
	uint32_t first;

	(void)state;
	assert_int_equal(waits_fork(f->waits, f->process, 8, 1000 * (uint64_t)MS), 0);
	in(f, 8, 1000, 0);
	first = sample(f, 8);
	assert_int_not_equal(first, 0);
	assert_int_equal(sample(f, 8), 0);
	in(f, 8, 1050, 0); /* the switch out was lost: all since the last record is unknown */
	assert_int_equal(f->n, 1);
	assert_int_equal(f->written[0].reason, WAIT_UNKNOWN);
	assert_int_equal(f->written[0].weight, 50 * MS);
	answer(f, 8, first, 0x111);
	assert_int_equal(f->n, 1);
	assert_int_equal(f->account.skipped[SKIP_DOUBLE], 1);
	assert_int_not_equal(sample(f, 8), 0); /* the number is free again */
	f->account.skipped[SKIP_UNANSWERED]++;
	f->account.answered++;
	fixture_free(f);
}

static void test_lost(void **state)
{
	struct fixture *f = fixture_new(true, true, false);
	uint32_t wait;

	(void)state;
	assert_int_equal(waits_fork(f->waits, f->process, 8, 1000 * (uint64_t)MS), 0);
	in(f, 8, 1000, 0);
	wait = sample(f, 8);
	out(f, 8, 1010, false);
	answer(f, 8, wait, 0x111);
	out(f, 8, 1040, false); /* between the two it ran, for an unknown time */
	in(f, 8, 1060, 0);
	assert_int_equal(waits_exit(f->waits, 8, 1100 * (uint64_t)MS), 0);
	assert_int_equal(sum_of(f, WAIT_UNKNOWN), 30 * MS);
	assert_int_equal(sum_of(f, WAIT_OTHER), 20 * MS);
	assert_int_equal(sum_of(f, WAIT_RUNNING), 50 * MS);
	assert_int_equal(sum(f, 8), 100 * MS);
	assert_int_equal(f->account.unknown_ns, 30 * MS);
	/* the end of a thread that waits, as far as is known */
	assert_int_equal(waits_fork(f->waits, f->process, 9, 1000 * (uint64_t)MS), 0);
	in(f, 9, 1000, 0);
	out(f, 9, 1010, false);
	assert_int_equal(waits_exit(f->waits, 9, 1100 * (uint64_t)MS), 0);
	assert_int_equal(sum(f, 9), 100 * MS);
	/* ... and one with an end that was lost, when its number is used again */
	assert_int_equal(waits_fork(f->waits, f->process, 10, 1000 * (uint64_t)MS), 0);
	in(f, 10, 1000, 0);
	assert_int_equal(waits_fork(f->waits, f->process, 10, 1200 * (uint64_t)MS), 0);
	assert_int_equal(waits_finish(f->waits, 1300 * (uint64_t)MS), 0);
	assert_int_equal(sum(f, 10), 300 * MS);
	fixture_free(f);
}

/* Events of CPUs see the last switch of a thread that has ended. */
static void test_cpu_wide_end(void **state)
{
	struct fixture *f = fixture_new(true, true, true);

	(void)state;
	in(f, 8, 1100, 0); /* it is older than the recording */
	assert_int_equal(waits_exit(f->waits, 8, 1150 * (uint64_t)MS), 0);
	out(f, 8, 1151, false);
	assert_int_equal(waits_finish(f->waits, 1500 * (uint64_t)MS), 0);
	assert_int_equal(sum(f, 8), 150 * MS);
	fixture_free(f);
}

static void test_no_room(void **state)
{
	struct fixture *f = fixture_new(false, true, false);
	uint32_t n = 0;

	(void)state;
	for (uint32_t tid = 100; tid < 100 + 8192; tid++) {
		uint32_t wait = sample(f, tid);

		out(f, tid, 1010, false);
		if (!wait)
			continue;
		n++;
		answer(f, tid, wait, 0x111);
	}
	assert_in_range(n, 1000, 8191);
	in(f, 100, 1030, 0);
	assert_int_equal(f->written[0].weight, 20 * MS);
	assert_int_equal(f->written[0].frame, 0x111 | UW_FRAME_GUESSED);
	in(f, 100 + 8191, 1030, 0); /* without a stack, but with its time */
	assert_int_equal(f->written[1].n_user, 0);
	assert_int_equal(f->written[1].weight, 20 * MS);
	assert_int_not_equal(sample(f, 100), 0);
	fixture_free(f);
}

/* Stacks that were read from the process, some of them too late. */
static void test_read(void **state)
{
	struct fixture *f = fixture_of(&(struct waits_options){.stacks = true, .read = true});
	uint64_t ms = 1000 * (uint64_t)MS;
	uint32_t tid, wait;

	(void)state;
	assert_int_equal(waits_thread(f->waits, f->process, 7), 0);
	in(f, 8, 1000, 0);
	out(f, 8, 1010, false);
	out(f, 9, 1020, true); /* preempted: it waits for nothing */
	assert_null(waits_next_bare(f->waits, ms - 1, &tid));
	assert_ptr_equal(waits_next_bare(f->waits, ms + 15 * MS, &tid), f->process);
	assert_int_equal(tid, 7);
	assert_ptr_equal(waits_next_bare(f->waits, ms + 15 * MS, &tid), f->process);
	assert_int_equal(tid, 8);
	assert_null(waits_next_bare(f->waits, ms + 900 * MS, &tid)); /* each once in a wait */

	assert_int_equal(waits_read(f->waits, 8, ms + 9 * MS, ms + 12 * MS), 0); /* it ran then */
	assert_int_equal(waits_read(f->waits, 9, ms + 21 * MS, ms + 22 * MS), 0);
	f->account.received += 2;
	f->account.queued += 2;
	wait = waits_read(f->waits, 8, ms + 12 * MS, ms + 13 * MS);
	answer(f, 8, wait, 0x111);
	in(f, 8, 1060, 0);
	assert_int_equal(f->n, 1);
	assert_int_equal(f->written[0].weight, 50 * MS);
	assert_int_equal(f->written[0].frame, 0x111 | UW_FRAME_GUESSED);

	/* The record of the end comes behind the answer: the stack was of a later wait. */
	out(f, 8, 1100, false);
	assert_non_null(waits_next_bare(f->waits, ms + 150 * MS, &tid));
	wait = waits_read(f->waits, 8, ms + 140 * MS, ms + 141 * MS);
	in(f, 8, 1120, 0);
	answer(f, 8, wait, 0x222);
	assert_int_equal(f->n, 2);
	assert_int_equal(f->written[1].n_user, 0);
	assert_int_equal(f->written[1].weight, 20 * MS);
	assert_int_equal(f->account.skipped[SKIP_DOUBLE], 1);
	assert_int_equal(waits_exit(f->waits, 8, ms + 130 * MS), 0); /* of no list any more */
	assert_int_equal(waits_exit(f->waits, 7, ms + 130 * MS), 0);
	assert_null(waits_next_bare(f->waits, ms + 900 * MS, &tid));
	fixture_free(f);
}

/* From the wake-up on a thread waits for a CPU; short times are put together. */
static void test_woken(void **state)
{
	struct fixture *f = fixture_new(false, true, false);
	uint64_t ms = 1000 * (uint64_t)MS;
	uint32_t wait;

	(void)state;
	in(f, 8, 1000, 0);
	wait = sample(f, 8);
	out(f, 8, 1010, false);
	answer(f, 8, wait, 0x111);
	waits_woken(f->waits, 99, ms);	       /* not known */
	waits_woken(f->waits, 8, ms + 5 * MS); /* before the wait: a wake-up that came too early */
	waits_woken(f->waits, 8, ms + 50 * MS);
	waits_woken(f->waits, 8, ms + 55 * MS);
	in(f, 8, 1060, 0);
	assert_int_equal(f->n, 2);
	assert_int_equal(f->written[0].weight, 40 * MS);
	assert_int_equal(f->written[0].reason, WAIT_OTHER);
	assert_int_equal(f->written[1].weight, 10 * MS);
	assert_int_equal(f->written[1].reason, WAIT_RUNNABLE);
	assert_int_equal(f->written[0].ended, ms + 50 * MS);
	assert_int_equal(f->written[1].began, ms + 50 * MS);
	assert_int_equal(f->written[1].ended, ms + 60 * MS);
	assert_int_equal(f->written[1].frame, f->written[0].frame);
	assert_int_equal(f->written[1].time, f->written[0].time);
	assert_int_equal(f->written[1].count, f->written[0].count + 10 * MS);
	/* 40 us each: kept until they are 100 us */
	for (uint64_t i = 0; i < 4; i++) {
		wait = sample(f, 8);
		out(f, 8, 1100 + 10 * i, false);
		answer(f, 8, wait, 0x111);
		waits_woken(f->waits, 8, ms + (102 + 10 * i) * MS - 40000);
		in(f, 8, 1102 + 10 * i, 0);
	}
	assert_int_equal(f->n, 2 + 4 + 1);
	assert_int_equal(sum_of(f, WAIT_RUNNABLE), 10 * MS + 120000);
	/* preempted: it could run all the time */
	out(f, 8, 1200, true);
	waits_woken(f->waits, 8, ms + 210 * MS);
	in(f, 8, 1220, 0);
	assert_int_equal(waits_finish(f->waits, ms + 300 * MS), 0);
	assert_int_equal(sum_of(f, WAIT_PREEMPTED), 20 * MS);
	assert_int_equal(sum_of(f, WAIT_RUNNABLE), 10 * MS + 160000);
	fixture_free(f);
}

/* A record behind the end: sums of weights and times must still agree in their order. */
static void test_late_record(void **state)
{
	struct fixture *f = fixture_new(true, true, false);

	(void)state;
	for (uint32_t tid = 10; tid < 20; tid++)
		in(f, tid, 1000 + tid, 0);
	in(f, 13, 1600, 0); /* of a switch out that was lost */
	f->n = 0;
	assert_int_equal(waits_finish(f->waits, 1500 * (uint64_t)MS), 0);
	assert_int_equal(f->n, 9); /* 13 has just begun to run */
	for (size_t i = 1; i < f->n; i++) {
		assert_int_equal(f->written[i].time, f->written[0].time);
		assert_true(f->written[i].count > f->written[i - 1].count);
	}
	fixture_free(f);
}

static void test_bad_number(void **state)
{
	struct fixture *f = fixture_new(false, true, false);
	const struct outcome o = {.kind = OUTCOME_SAMPLE, .info = {.wait = UINT32_MAX}};

	(void)state;
	assert_int_equal(waits_outcome(f->waits, &o), -EINVAL);
	fixture_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_either_order), cmocka_unit_test(test_wakers),
		cmocka_unit_test(test_all_time),     cmocka_unit_test(test_thinned),
		cmocka_unit_test(test_no_stacks),    cmocka_unit_test(test_doubles),
		cmocka_unit_test(test_lost),	     cmocka_unit_test(test_cpu_wide_end),
		cmocka_unit_test(test_no_room),	     cmocka_unit_test(test_bad_number),
		cmocka_unit_test(test_read),	     cmocka_unit_test(test_woken),
		cmocka_unit_test(test_late_record),  cmocka_unit_test(test_run_without_stack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
