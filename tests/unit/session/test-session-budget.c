/* test-session-budget.c - --max-cpu lowers the rate of the events, and raises it again; weights stay right. */
#include <sys/epoll.h>

#include "session/pipeline/thin.h"
#include "session/session-private.h"
#include "tests/unit/session/session-fixture.h"

enum { HZ = 4000, MANY = 100000 };
#define LESS "samples are taken less often or left out"
#define EXCEEDED "--max-cpu is not kept"

/* No tick of the session itself: its clock is another one than the test's. */
static void start(struct fixture *f)
{
	fixture_start(f);
	loop_timer_remove(f->loop, &f->session->tick);
}

/* The next second, by the clock of the budget alone, with the samples of @ms in it. */
static void pass_second(struct fixture *f, uint64_t *now, uint64_t ms)
{
	fixture_run_ms(f, ms);
	*now += NSEC_PER_SEC;
	session_budget_tick(f->session, *now);
}

static uint64_t rate(const struct fixture *f)
{
	return perf_source_options(f->session->source)->frequency;
}

static bool is_noted(const struct fixture *f, const char *text)
{
	for (size_t i = 0; i < f->session->n_notes; i++)
		if (strstr(f->session->notes[i], text))
			return true;
	return false;
}

/* The end needs the session's tick: what waits without a hurry is taken then. */
static void add_tick(struct fixture *f)
{
	struct loop_timer *tick = &f->session->tick;

	assert_int_equal(loop_timer_add(f->loop, tick, NSEC_PER_MSEC,
					SESSION_TICK_MS * NSEC_PER_MSEC, tick->expired),
			 0);
}

static void stop(struct fixture *f)
{
	add_tick(f);
	fixture_stop(f);
}

static bool is_read(const struct fixture *f, pid_t pid)
{
	const struct process *process = process_find(f->session->processes, (uint32_t)pid);

	return process && process->maps_state != PROCESS_MAPS_UNKNOWN;
}

/* A process that has no sample: it is stopped when this returns. */
static pid_t stopped(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			(void)raise(SIGSTOP);
	}
	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
	return pid;
}

static void test_rate(void **state)
{
	pid_t other = stopped();
	struct fixture f;
	uint64_t now;
	int i;

	(void)state;
	fixture_init(&f);
	f.options.frequency = HZ;
	f.options.max_cpu_ppm = 1;
	start(&f);
	now = f.session->started_at;
	assert_false(is_noted(&f, LESS));
	pass_second(&f, &now, 100);
	assert_true(f.session->budget.saving);
	assert_int_equal(rate(&f), HZ);
	/* As many steps at once as it takes.  How many are left out in some time depends on the machine's other processes: many more. */
	f.session->budget.received -= MANY;
	pass_second(&f, &now, 100);
	assert_true(rate(&f) <= HZ / 16);
	assert_true(is_noted(&f, LESS));
	assert_false(is_read(&f, other)); /* it has no sample */
	fixture_end_child(&other);
	for (i = 0; i < 10; i++)
		pass_second(&f, &now, 1);
	assert_true(rate(&f) >= 10); /* no target is unseen */
	/* The test's own CPU time is more than a millionth: reported once, when ten seconds have shown it. */
	for (i = 0; i < 10; i++) {
		assert_true(!is_noted(&f, EXCEEDED) ||
			    f.session->budget.n_turns >= 6 + SESSION_BUDGET_S);
		pass_second(&f, &now, 1);
	}
	assert_true(is_noted(&f, EXCEEDED));
	/* A budget without end. */
	f.session->options.max_cpu_ppm = 100000000;
	while (rate(&f) < HZ)
		pass_second(&f, &now, 1);
	stop(&f);
	assert_int_equal(session_error(f.session, NULL), 0);
	fixture_deinit(&f);
}

/* The same of a process: first its copies and wake-ups, then the rate. */
static void test_process(void **state)
{
	struct session_budget *b;
	struct fixture f;
	uint64_t now;
	uint32_t pid;
	int i;

	(void)state;
	fixture_init(&f);
	pid = (uint32_t)f.child;
	f.options.machine = false;
	f.options.pids = &pid;
	f.options.n_pids = 1;
	f.options.frequency = HZ;
	f.options.max_cpu_ppm = 1;
	start(&f);
	b = &f.session->budget;
	f.session->early_ticks = UINT32_MAX;
	now = f.session->started_at;
	while (!b->saving)
		pass_second(&f, &now, 100);
	assert_int_equal(b->steps, 0);
	while (b->steps < PERF_RATE_STEPS) {
		pass_second(&f, &now, 100);
		(void)perf_source_settle(f.session->source);
	}
	assert_int_equal(session_read_ns(f.session), SESSION_SAVING_MS * NSEC_PER_MSEC);
	for (i = 0; i < 10; i++) {
		fixture_run_ms(&f, 100);
		assert_int_equal(session_second(f.session), 0);
	}
	f.session->options.max_cpu_ppm = 100000000;
	while (b->saving) { /* seconds with a burst of samples do not count */
		pass_second(&f, &now, 1);
		(void)perf_source_settle(f.session->source);
	}
	assert_int_equal(b->steps, 0);
	f.session->early_ticks = 0;
	assert_int_equal(session_read_ns(f.session), SESSION_TICK_MS * NSEC_PER_MSEC);
	fixture_deinit(&f);
}

/* Without a budget it stays, and processes without samples are read, too. */
static void test_stays(void **state)
{
	pid_t other = stopped();
	struct fixture f;
	uint64_t now;

	(void)state;
	fixture_init(&f);
	f.options.frequency = HZ;
	start(&f);
	now = f.session->started_at;
	for (int i = 0; i < 8; i++)
		pass_second(&f, &now, 1);
	assert_int_equal(rate(&f), HZ);
	assert_false(is_noted(&f, LESS));
	while (!is_read(&f, other))
		fixture_run_ms(&f, 1);
	fixture_end_child(&other);
	stop(&f);
	fixture_deinit(&f);
}

/* Time that is in no sample is added to samples to come at high rates, except for time in which the kernel throttled.  More than what is
 * missing was not throttled. */
static void test_skipped(void **state)
{
	enum { SKIPPED_MS = 200 };
	struct session_summary summary;
	struct session *s;
	uint64_t clock, seen;
	struct fixture f;
	int64_t missing;
	uint32_t pid;

	(void)state;
	for (int throttled = 0; throttled < 3; throttled++) { /* nothing, a half, all and more */
		fixture_init(&f);
		pid = (uint32_t)f.child;
		f.options.machine = false;
		f.options.pids = &pid;
		f.options.n_pids = 1;
		f.options.frequency = HZ;
		start(&f);
		s = f.session;
		fixture_run_ms(&f, 100);
		reader_weights(s->reader)->sampled -=
			SKIPPED_MS * NSEC_PER_MSEC; /* as if skipped */
		if (throttled)
			s->account.throttled_ns += throttled == 1 ? SKIPPED_MS / 2 * NSEC_PER_MSEC
								  : 3600 * NSEC_PER_SEC;
		assert_int_equal(kill(f.child, SIGSTOP), 0);
		while (session_has_records(s, false))
			assert_int_equal(session_ring_ready(&s->rings[0].source, EPOLLIN), 0);
		clock = s->budget.clock;
		while (s->budget.clock == clock) {
			s->counts_due = 0;
			session_budget_add_skipped(s, clock_ns(CLOCK_MONOTONIC));
		}
		/* What the kernel has really lost or not sampled is missing, too. */
		missing = (int64_t)(s->budget.clock - reader_weights(s->reader)->sampled -
				    s->counts.lost_samples * NSEC_PER_SEC / HZ);
		assert_true(missing > (int64_t)(SKIPPED_MS / 2 * NSEC_PER_MSEC));
		assert_int_equal(
			s->budget.missing,
			missing - (int64_t)min_u64(s->account.throttled_ns, (uint64_t)missing));
		assert_int_equal(kill(f.child, SIGCONT), 0);
		fixture_run_ms(&f, 3 * SKIPPED_MS);
		stop(&f);
		assert_int_equal(session_summary(s, &summary), 0);
		clock = s->counts.task_clock_ns;
		assert_true(summary.account.throttled_ns <=
			    clock - min_u64(s->account.weight, clock));
		seen = s->account.weight + s->counts.lost_samples * NSEC_PER_SEC / HZ;
		if (throttled == 0)
			assert_true(seen > clock + SKIPPED_MS / 2 * NSEC_PER_MSEC);
		else if (throttled == 2)
			assert_true(s->account.weight < clock + SKIPPED_MS / 2 * NSEC_PER_MSEC);
		fixture_deinit(&f);
	}
}

/* Samples were left out, and no later one comes before the stop: their weight is in a sample with the last stack of their process.
 * @late: it comes back when the time for that is over. */
static void check_owed_at_stop(bool late)
{
	const uint64_t owed = 5 * NSEC_PER_SEC;
	const Pb__PerfSample *last = NULL, *before = NULL;
	const Pb__Trace *trace;
	struct fixture f;
	uint64_t weight;

	fixture_init(&f);
	start(&f);
	fixture_run_ms(&f, 100);
	while (!f.session->account.whole) /* until its files were read */
		fixture_run_ms(&f, 10);
	assert_int_equal(kill(f.child, SIGSTOP), 0);
	while (session_has_records(f.session, false) || account_in_flight(&f.session->account))
		assert_int_equal(loop_run_once(f.loop, 5), 0);
	assert_int_equal(perf_source_disable(f.session->source), 0);
	weight = f.session->account.weight;
	if (late) {
		session_stop(f.session);
		f.session->state = SESSION_NAMING; /* as where samples are not answered in time */
	}
	thin_return(reader_weights(f.session->reader),
		    process_find(f.session->processes, (uint32_t)f.child), owed);
	if (late) {
		add_tick(&f);
		fixture_await(&f, &f.n_done, 1);
	} else {
		stop(&f);
	}
	assert_true(f.session->account.weight >= weight + owed);
	trace = fixture_decode(&f);
	for (size_t i = 0; i < trace->n_packet; i++) {
		if (!fixture_is_of(trace->packet[i], f.child))
			continue;
		before = last;
		last = trace->packet[i]->perf_sample;
	}
	assert_non_null(before);
	assert_int_equal(last->callstack_iid, before->callstack_iid);
	assert_true(last->callstack_iid);
	fixture_deinit(&f);
}

static void test_owed_at_stop(void **state)
{
	(void)state;
	check_owed_at_stop(false);
	check_owed_at_stop(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rate),	     cmocka_unit_test(test_process),
		cmocka_unit_test(test_stays),	     cmocka_unit_test(test_skipped),
		cmocka_unit_test(test_owed_at_stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
