/* test-waits-calls.c - each allocation with which waits are made, and threads with held stacks and wakers come to them, fails once: an error, and
 * nothing is left. */
#include <errno.h>
#include <string.h>

#include "proc/process.h"
#include "session/pipeline/waits.h"
#include "tests/unit/fail-calls.h"

enum { MS = 1000000, PID = 7, THREADS = 40 };

struct made {
	struct uw_modules *modules;
	struct process_table *processes;
	struct process *process;
	struct account account;
	struct waits *waits;
	uint64_t count;
};

static uint64_t *count_of(void *arg, uint32_t cpu)
{
	(void)cpu;
	return &((struct made *)arg)->count;
}

static int write_sample(void *arg, const struct outcome *o)
{
	struct made *m = arg;

	m->account.answered++;
	m->account.emitted++;
	(void)process_unref(o->info.process);
	return 0;
}

static int switches(struct made *m, uint32_t tid, uint64_t ms, bool out)
{
	const struct wait_switch s = {
		.process = m->process, .time = ms * MS, .tid = tid, .out = out};

	return waits_switch(m->waits, &s);
}

/* The stack of @tid, which waits; @waker: of the task that wakes it. */
static int answer(struct made *m, uint32_t tid, uint32_t wait)
{
	union {
		struct outcome o;
		uint8_t room[sizeof(struct outcome) + sizeof(uint64_t)];
	} u = {.o = {.kind = OUTCOME_SAMPLE, .n_user = 1}};

	u.o.info = (struct sample_info){
		.process = process_ref(m->process), .pid = PID, .tid = tid, .wait = wait};
	m->account.received++;
	m->account.queued++;
	return waits_outcome(m->waits, &u.o);
}

/* A thread that waits, with a stack and a waker. */
static int add_thread(struct made *m, uint32_t tid)
{
	int r = tid % 2 ? waits_thread(m->waits, m->process, tid)
			: waits_fork(m->waits, m->process, tid, 1001 * (uint64_t)MS);

	if (r >= 0)
		r = switches(m, tid, 1002, false);
	if (r >= 0)
		r = switches(m, tid, 1003, true);
	if (r >= 0 && waits_wants(m->waits, m->process, tid))
		r = answer(m, tid, waits_sampled(m->waits, tid));
	if (r >= 0 && waits_wants_waker(m->waits, tid, 1004 * (uint64_t)MS))
		r = answer(m, tid, waits_waker(m->waits, tid));
	return r;
}

static int make_waits(void *arg)
{
	struct made *m = arg;
	const struct waits_options options = {.running = true, .stacks = true, .cpu_wide = true};
	const struct waits_context context = {&m->account, count_of, write_sample, m};
	int r = waits_new(&options, &context, &m->waits);

	if (r < 0)
		return r;
	waits_start(m->waits, 1000 * (uint64_t)MS);
	for (uint32_t tid = PID; r >= 0 && tid < PID + THREADS; tid++)
		r = add_thread(m, tid);
	if (r < 0)
		m->waits = waits_free(m->waits);
	return r;
}

static void end_waits(void *arg)
{
	struct made *m = arg;

	assert_int_equal(waits_finish(m->waits, 1010 * (uint64_t)MS), 0);
	m->waits = waits_free(m->waits);
}

static void test_waits(void **state)
{
	struct made m = {.count = 0};
	const struct calls_made of = {"waits", make_waits, end_waits, &m};

	(void)state;
	assert_int_equal(uw_modules_new(&m.modules), 0);
	assert_int_equal(process_table_new(m.modules, 16, &m.processes), 0);
	m.process = process_get(m.processes, PID);
	calls_sweep(&of);
	assert_true(m.account.emitted > 0);
	(void)process_table_free(m.processes);
	(void)uw_modules_free(m.modules);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_waits)};

	return cmocka_run_group_tests_name("waits-calls", tests, NULL, NULL);
}
