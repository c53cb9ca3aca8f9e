/* test-session-parts.c - what the parts of a session decide, without waiting for it: choices by the options, notes, CPU time,
 * the sleep of a session with nothing to do. */
#include "session/session-private.h"
#include "tests/unit/session/session-fixture.h"

/* By default copies and wake-ups follow the stacks; an option that depends on them leaves them as they are. */
static void test_choices(void **state)
{
	struct deep *deep = (struct deep *)state; /* any address */
	struct at_sample with = {.deep = deep}, without = {0};
	const struct session_options usual = {.engine = UW_ENGINE_NATIVE, .n_specs = 1};
	struct session_options o;
	struct session s = {0};

	assert_true(session_may_choose_copies(&usual) && session_may_read_soon(&usual));
	o = usual;
	o.stack_bytes = 4096;
	assert_false(session_may_choose_copies(&o));
	assert_true(session_may_read_soon(&o));
	o = usual;
	o.waits = SESSION_WAITS_WALL;
	assert_false(session_may_choose_copies(&o) || session_may_read_soon(&o));
	o = usual;
	o.poll_ms = 100;
	assert_false(session_may_choose_copies(&o) || session_may_read_soon(&o));
	o = usual;
	o.n_specs = 2; /* followers */
	assert_true(session_may_choose_copies(&o));
	assert_false(session_may_read_soon(&o));
	o = usual;
	o.engine = UW_ENGINE_LIBDW;
	assert_false(session_may_read_soon(&o));
	o = usual;
	o.at_sample = &without;
	assert_true(session_may_read_soon(&o));
	o.at_sample = &with; /* deep stacks are copied at the sample */
	assert_false(session_may_read_soon(&o));
	assert_null(session_deep(&s));
	assert_null(session_python(&s));
	s.options.at_sample = &with;
	assert_ptr_equal(session_deep(&s), deep);
	assert_null(session_python(&s));
}

/* Each line once, and no more than a summary has room for. */
static void test_notes(void **state)
{
	struct session *s = calloc(1, sizeof(*s));
	char line[32];

	(void)state;
	assert_non_null(s);
	for (int i = 0; i < SESSION_NOTES; i++) {
		(void)snprintf(line, sizeof(line), "line %d", i);
		assert_true(session_keep_note(s, line));
		assert_false(session_keep_note(s, line));
	}
	assert_false(session_keep_note(s, "one too many"));
	assert_int_equal(s->n_notes, SESSION_NOTES);
	assert_true(session_has_note(s, "line 0"));
	for (size_t i = 0; i < s->n_notes; i++)
		free(s->notes[i]);
	free(s);
}

/* A process that ended before it was read is no failure; of the others the first is reported. */
static void test_unread_vm(void **state)
{
	struct session *s = calloc(1, sizeof(*s));
	struct load_answer a = {.request = {.kind = LOAD_UNWIND, .pid = 7}, .vm_error = -ESRCH};

	(void)state;
	assert_non_null(s);
	assert_int_equal(uw_module_new(UW_MODULE_JIT, "", NULL, &a.request.module), 0);
	session_note_answer(s, &a);
	assert_int_equal(s->n_notes, 0);
	a.vm_error = -EACCES;
	session_note_answer(s, &a);
	session_note_answer(s, &a);
	assert_int_equal(s->n_notes, 1);
	assert_non_null(strstr(s->notes[0], "Permission denied"));
	assert_non_null(strstr(s->notes[0], "direct = yes"));
	free(s->notes[0]);
	free(s);
	assert_null(uw_module_unref(a.request.module));
}

static void burn(uint64_t ns)
{
	uint64_t until = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns;

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < until)
		;
}

/* Sessions of one process count their own work in main, where --max-cpu needs it. */
static void test_own_time(void **state)
{
	struct session_shared *shared;
	struct session s = {0};
	uint64_t first;

	(void)state;
	assert_int_equal(session_shared_new(&shared), 0);
	s.options.shared = shared;
	s.options.max_cpu_ppm = 10000;
	session_budget_enter(&s);
	burn(NSEC_PER_MSEC);
	session_budget_leave(&s);
	first = s.budget.main_ns;
	assert_true(first >= NSEC_PER_MSEC);
	burn(NSEC_PER_MSEC); /* another session's */
	session_budget_enter(&s);
	session_budget_leave(&s);
	assert_true(s.budget.main_ns < first + NSEC_PER_MSEC);
	s.options.max_cpu_ppm = 0;
	first = s.budget.main_ns;
	session_budget_enter(&s);
	burn(NSEC_PER_MSEC);
	session_budget_leave(&s);
	assert_int_equal(s.budget.main_ns, first);
	assert_int_equal(session_cache(&s), -1); /* a service writes no files */
	assert_null(session_shared_free(shared));
}

/* Of processes, and of the machine. */
static void test_used_time(void **state)
{
	uint32_t pids[2] = {(uint32_t)getpid(), UINT32_MAX}; /* the second has ended */
	struct session s = {.scope_pids = pids, .n_scope_pids = 2};
	uint64_t before, own;

	(void)state;
	s.options.proc_root = "";
	before = session_used_ns(&s);
	burn(100 * NSEC_PER_MSEC);
	own = session_used_ns(&s) - before;
	assert_in_range(own, 50 * NSEC_PER_MSEC, 5 * NSEC_PER_SEC);
	s.n_scope_pids = 0;
	assert_int_equal(session_used_ns(&s), 0);
	s.options.machine = true;
	s.options.proc_root = "/nonexistent";
	assert_int_equal(session_used_ns(&s), 0);
}

/* A process that does not run: main's timer goes off, until the session is needed. */
static void test_sleep(void **state)
{
	struct fixture f;
	struct session *s;
	uint64_t now;
	uint32_t pid;

	(void)state;
	fixture_init(&f);
	pid = (uint32_t)f.child;
	assert_int_equal(kill(f.child, SIGSTOP), 0);
	f.options.machine = false;
	f.options.pids = &pid;
	f.options.n_pids = 1;
	fixture_start(&f);
	s = f.session;
	while (loader_pending(s->loader) || account_in_flight(&s->account))
		assert_int_equal(loop_run_once(f.loop, 100), 0);
	loop_timer_remove(f.loop, &s->tick); /* the clock is the test's */
	assert_int_equal(s->idle.state, SESSION_AWAKE);
	now = clock_ns(CLOCK_MONOTONIC) + NSEC_PER_SEC;
	if (perf_source_can_watch(s->source)) {
		s->idle.quiet_at = now;
		s->idle.received = s->account.received;
		s->eager_until = 0;
		assert_false(session_idle_tick(s, now));
		session_sleep(s); /* not yet */
		assert_int_equal(s->idle.state, SESSION_AWAKE);
		now += NSEC_PER_SEC;
		assert_false(session_idle_tick(s, now));
		assert_int_equal(s->idle.state, SESSION_LISTENING);
		s->idle.received--; /* a sample came */
		assert_false(session_idle_tick(s, now));
		assert_int_equal(s->idle.state, SESSION_AWAKE);
		now += NSEC_PER_SEC;
		assert_false(session_idle_tick(s, now));
		now += NSEC_PER_SEC;
		assert_true(session_idle_tick(s, now));
		/* Without the timer it cannot fall asleep; it stays awake. */
		session_sleep(s);
		assert_int_equal(s->idle.state, SESSION_AWAKE);
		session_wake_up(s);
		session_idle_deinit(s);
		assert_int_equal(s->idle.n_ends, 0);
	}
	fixture_deinit(&f);
}

/* Nothing depends on the next reading: the rings wait for SESSION_CALM_MS. */
static void test_calm(void **state)
{
	enum { TICK = SESSION_TICK_MS * NSEC_PER_MSEC };
	struct load_answer script = {.request.kind = LOAD_UNWIND};
	struct session_options usual;
	struct fixture f;
	struct session *s;
	uint64_t now;
	uint32_t pid;

	(void)state;
	fixture_init(&f);
	pid = (uint32_t)f.child;
	assert_int_equal(kill(f.child, SIGSTOP), 0);
	f.options.machine = false;
	f.options.pids = &pid;
	f.options.n_pids = 1;
	fixture_start(&f);
	s = f.session;
	while (loader_pending(s->loader) || account_in_flight(&s->account) ||
	       session_has_records(s, true))
		assert_int_equal(loop_run_once(f.loop, 100), 0);
	loop_timer_remove(f.loop, &s->tick);
	usual = s->options;
	assert_true(s->urgent_at >= s->started_at); /* not in the first second */
	s->early_ticks = s->never_calm = 0;
	s->eager_until = s->names_until = s->n_soon = 0;
	now = s->worked_at = clock_ns(CLOCK_MONOTONIC);
	s->urgent_at = now - 10 * NSEC_PER_SEC;
	assert_true(session_is_calm(s, now));
	assert_true(session_is_calm(s, now + 4 * TICK));
	assert_false(session_is_calm(s, now + 5 * TICK - TICK / 4)); /* timers are not exact */
	s->n_soon = 1;
	assert_false(session_is_calm(s, now));
	s->n_soon = 0;
	s->account.queued++; /* a sample that the unwinder has */
	assert_false(session_is_calm(s, now));
	s->account.queued--;
	s->options.read_ms = 100; /* a service chose its pace */
	assert_false(session_is_calm(s, now));
	s->options = usual;
	s->options.max_cpu_ppm = 1;
	assert_false(session_is_calm(s, now));
	s->options = usual;
	assert_true(session_is_calm(s, now));
	/* Frames of a script are read after their samples: for a service, too. */
	assert_int_equal(
		uw_modules_add(s->modules, UW_MODULE_JIT, UW_PHP_PATH, &script.request.module), 0);
	s->options.producer = true;
	assert_true(session_is_calm(s, now));
	session_script_answer(s, &script);
	assert_false(session_is_calm(s, now));
	(void)uw_module_unref(script.request.module);
	s->never_calm = false;
	/* A record of a process: for a while each tick reads. */
	assert_int_equal(kill(f.child, SIGCONT), 0);
	assert_int_equal(kill(f.child, SIGKILL), 0);
	while (!session_has_records(s, true))
		(void)usleep(1000);
	assert_false(session_is_calm(s, now));
	assert_int_equal(s->urgent_at, now);
	s->urgent_at = now - 10 * NSEC_PER_SEC;
	s->never_calm = true;
	assert_false(session_is_calm(s, now));
	fixture_deinit(&f);
}

/* A stack that goes on beyond its copy: the next one is read at once, if the program does not copy it. */
static void test_read_soon(void **state)
{
	static struct features features = {.has[FEATURE_BPF] = true};
	const struct at_sample_options options = {.features = &features, .deep = true};
	struct outcome o = {.result = UW_CUT, .reason = UW_MEMORY}, whole;
	struct at_sample *at = NULL;
	char why[256] = "";
	struct fixture f;
	struct session *s;
	uint32_t pid;

	(void)state;
	if (bpf_try() >= 0)
		assert_int_equal(at_sample_new(&options, &at, why, sizeof(why)), 0);
	fixture_init(&f);
	pid = (uint32_t)f.child;
	assert_int_equal(kill(f.child, SIGSTOP), 0);
	f.options.machine = false;
	f.options.pids = &pid;
	f.options.n_pids = 1;
	fixture_start(&f);
	s = f.session;
	s->eager_until = 0;
	o.info.cpu = perf_source_options(s->source)->cpus[0];
	o.info.stack_len = o.info.full_copy = 65288;
	/* The sample has a longer copy with the whole stack: so will the next one. */
	whole = (struct outcome){.result = UW_WHOLE, .stack_used = 140000, .info = o.info};
	whole.info.stack_len = 146000;
	assert_int_equal(session_copies.outcome(s, &whole), 0);
	assert_true(!s->eager_until && !s->n_soon);
	if (at) {
		s->options.at_sample = at;
		assert_int_equal(session_copies.outcome(s, &o), 0);
		assert_true(!s->eager_until && !s->n_soon);
		o.info.stack_len = DEEP_MAX - 128; /* not even the program's has its end */
	}
	assert_int_equal(session_copies.outcome(s, &o), 0);
	assert_true(s->eager_until || s->n_soon);
	s->options.at_sample = NULL;
	fixture_deinit(&f);
	(void)at_sample_free(at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_choices),	  cmocka_unit_test(test_notes),
		cmocka_unit_test(test_unread_vm), cmocka_unit_test(test_own_time),
		cmocka_unit_test(test_used_time), cmocka_unit_test(test_sleep),
		cmocka_unit_test(test_calm),	  cmocka_unit_test(test_read_soon),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
