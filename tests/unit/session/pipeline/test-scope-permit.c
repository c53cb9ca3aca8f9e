/* test-scope-permit.c - processes that the policy allows, and those that are asked for consent instead.  The reader is
 * made by hand; where a target is asked, it is real. */
#include "base/log.h"
#include "tests/unit/session/pipeline/scope-fixture.h"

static int n_judged;
static bool good_is_good;
static uint32_t good; /* the process exists */

static bool allowed(void *arg, uint32_t pid)
{
	assert_ptr_equal(arg, &n_judged);
	n_judged++;
	return pid == good && good_is_good;
}

static bool wanted(void *arg, uint32_t pid, const char *cmdline, size_t len)
{
	(void)arg;
	(void)pid;
	(void)len;
	return cmdline && !strcmp(cmdline, "good");
}

static struct scope scope(void)
{
	n_judged = 0;
	good_is_good = true;
	good = (uint32_t)getpid();
	return (struct scope){
		.options = {.frames = FRAMES_ALL},
		.c = {.allowed = allowed, .allowed_arg = &n_judged},
	};
}

static enum skip_reason sampled(struct scope *rd, struct process *p, uint64_t ms)
{
	const struct record_sample s = {.regs_abi = 2, .time = 1000000 + ms * NSEC_PER_MSEC};

	return scope_skips_sample(rd, p, &s);
}

static void test_by_policy(void **state)
{
	struct scope rd = scope();
	struct process mine = {.pid = good, .given_maps = -1}, other = {.pid = 8, .given_maps = -1};

	(void)state;
	assert_true(scope_may_open(&rd, &mine));
	assert_false(scope_may_open(&rd, &other));
	for (uint64_t ms = 1; ms <= 100; ms++) {
		assert_int_equal(sampled(&rd, &mine, ms), SKIP_NONE);
		assert_int_equal(sampled(&rd, &other, ms), SKIP_NOT_ALLOWED);
	}
	assert_int_equal(n_judged, 2);
	assert_int_equal(other.permit, PERMIT_DENIED); /* and is not asked for consent */
	assert_false(other.consent_asked);
	rd.c.allowed = NULL; /* everybody */
	assert_true(scope_may_open(&rd, &other));
	assert_int_equal(sampled(&rd, &other, 1), SKIP_NONE);
}

/* It becomes another user's, and comes back, without an exec. */
static void test_again(void **state)
{
	struct scope rd = scope();
	struct process p = {.pid = good, .given_maps = -1};

	(void)state;
	assert_int_equal(sampled(&rd, &p, 0), SKIP_NONE);
	good_is_good = false;
	assert_int_equal(sampled(&rd, &p, 100), SKIP_NONE); /* not looked at yet */
	assert_int_equal(sampled(&rd, &p, 101), SKIP_NOT_ALLOWED);
	assert_false(scope_may_open(&rd, &p));
	good_is_good = true;
	assert_int_equal(sampled(&rd, &p, 1101), SKIP_NOT_ALLOWED); /* a second at most */
	assert_int_equal(sampled(&rd, &p, 50), SKIP_NOT_ALLOWED);   /* times step back */
	assert_int_equal(sampled(&rd, &p, 1102), SKIP_NONE);
	assert_int_equal(n_judged, 3);
}

/* Its last samples are read when it is gone: what it was holds for them. */
static void test_gone(void **state)
{
	struct scope rd = scope();
	struct process p = {.given_maps = -1}, late = {.given_maps = -1};
	siginfo_t info;
	pid_t pid = fork();

	(void)state;
	if (!pid)
		for (;;)
			pause();
	p.pid = late.pid = good = (uint32_t)pid;
	assert_int_equal(sampled(&rd, &p, 0), SKIP_NONE);
	good_is_good = false; /* as of one that can not be looked into any more */
	kill(pid, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(sampled(&rd, &p, 200), SKIP_NONE); /* a zombie */
	p.permit_uid++; /* its other threads may have become another's */
	assert_int_equal(sampled(&rd, &p, 400), SKIP_NOT_ALLOWED);
	p.permit_uid--;
	p.permit = PERMIT_BY_POLICY;
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(sampled(&rd, &p, 600), SKIP_NONE);
	assert_int_equal(sampled(&rd, &late, 600), SKIP_NOT_ALLOWED); /* not seen before */
}

/* What it gave holds until its exec or end, whatever its user; and only where consent does. */
static void test_consented(void **state)
{
	struct scope rd = scope();
	struct process p = {.pid = 8, .given_maps = 1};

	(void)state;
	assert_int_equal(sampled(&rd, &p, 0), SKIP_NOT_ALLOWED);
	rd.options.consent_allows = true;
	p.permit = PERMIT_UNKNOWN;
	assert_int_equal(sampled(&rd, &p, 0), SKIP_NONE);
	assert_int_equal(p.permit, PERMIT_BY_CONSENT);
	assert_false(scope_may_open(&rd, &p)); /* by its descriptors, not by our own privileges */
	assert_int_equal(sampled(&rd, &p, 5000), SKIP_NONE);
	assert_int_equal(n_judged, 2);
}

/* The filter comes first: a process that is not wanted is out of scope, and a process with an unknown command line
 * yet is not opened meanwhile. */
static void test_with_filter(void **state)
{
	struct scope rd = scope();
	struct process evil = {
		.pid = good, .cmdline = (char *)(uintptr_t) "evil", .cmdline_len = 5};
	struct process other = {.pid = 8,
				.given_maps = -1,
				.cmdline = (char *)(uintptr_t) "good",
				.cmdline_len = 5};

	(void)state;
	rd.c.wanted = wanted;
	rd.options.wanted_by_cmdline = true;
	assert_int_equal(scope_of(&rd, &other), PROCESS_UNDECIDED);
	assert_false(scope_may_open(&rd, &other));
	scope_process_read(&rd, &other);
	assert_int_equal(sampled(&rd, &other, 0), SKIP_NOT_ALLOWED);
	scope_process_read(&rd, &evil);
	assert_int_equal(sampled(&rd, &evil, 0), SKIP_NOT_IN_SCOPE);
	assert_int_equal(n_judged, 1);
}

/* ---- with a target to ask ---- */

static struct process *given_up; /* its samples are answered */
static struct scope asking;

static int send_space(void *arg, struct process *process, bool known)
{
	assert_ptr_equal(arg, &asking);
	assert_false(known);
	given_up = process;
	return 0;
}

static int set_up(void **state)
{
	(void)state;
	given_up = NULL;
	if (scope_fixture_init() < 0)
		return -1;
	asking = scope();
	asking.options.consent_allows = true;
	asking.options.maps_wait_ns = NSEC_PER_MSEC;
	asking.c.consent = consent;
	asking.c.processes = processes;
	asking.send_space = send_space;
	asking.reader = &asking;
	asking.c.note = note;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	scope_fixture_deinit(&asking);
	return 0;
}

static void tick_until(const struct process *p, enum process_permit permit)
{
	for (int i = 0; i < 20000 && p->permit != permit; i++) {
		(void)usleep(1000);
		assert_int_equal(scope_tick(&asking), 0);
	}
	assert_int_equal(p->permit, permit);
}

/* The process is asked, and its samples wait.  Without an answer they are skipped as not allowed. */
static void test_unanswered(void **state)
{
	struct process *p;

	(void)state;
	start_target(true);
	p = process_get(processes, (uint32_t)child);
	assert_int_equal(sampled(&asking, p, 0), SKIP_NONE);
	assert_int_equal(scope_of(&asking, p), PROCESS_UNDECIDED);
	assert_int_equal(p->permit, PERMIT_ASKED);
	assert_false(scope_may_open(&asking, p));
	assert_int_equal(sampled(&asking, p, 5000), SKIP_NONE);
	assert_non_null(strstr(notes, "are asked for their consent"));
	assert_non_null(strstr(notes, "traced-users"));
	tick_until(p, PERMIT_DENIED);
	assert_int_equal(sampled(&asking, p, 5000), SKIP_NOT_ALLOWED);
	assert_ptr_equal(given_up, p);
	assert_int_equal(scope_skips_process(&asking, p), SKIP_NOT_ALLOWED);
	assert_int_equal(asking.counts.asked, 1);
	assert_int_equal(asking.counts.unanswered, 1);
}

/* The samples of a process that cannot be asked do not wait; the note has a hint. */
static void test_no_hook(void **state)
{
	struct process *p;

	(void)state;
	start_target(false);
	p = process_get(processes, (uint32_t)child);
	assert_int_equal(sampled(&asking, p, 0), SKIP_NOT_ALLOWED);
	assert_int_equal(asking.n_asked, 1); /* to be looked at again */
	for (int i = 0; i < 20000 && asking.n_asked; i++) {
		(void)usleep(1000);
		assert_int_equal(scope_tick(&asking), 0);
	}
	assert_int_equal(asking.n_asked, 0);
	assert_non_null(strstr(notes, "are not shown"));
	assert_non_null(strstr(notes, "perfwind run"));
	assert_int_equal(sampled(&asking, p, 1), SKIP_NOT_ALLOWED);
	assert_int_equal(asking.n_asked, 0);
	/* The new program of an exec is asked again. */
	assert_int_equal(process_comm(processes, (uint32_t)child, (uint32_t)child, "new", true, 1),
			 0);
	p = process_get(processes, (uint32_t)child);
	assert_int_equal(p->permit, PERMIT_UNKNOWN);
	assert_int_equal(sampled(&asking, p, 2), SKIP_NOT_ALLOWED);
	assert_int_equal(asking.n_asked, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_policy),
		cmocka_unit_test(test_again),
		cmocka_unit_test(test_gone),
		cmocka_unit_test(test_consented),
		cmocka_unit_test(test_with_filter),
		cmocka_unit_test_setup_teardown(test_unanswered, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_hook, set_up, tear_down),
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests_name("scope-permit", tests, NULL, NULL);
}
