/* test-session-own.c - events for the processes of a requester and never for a CPU: those that run, what they
 * start, those that begin elsewhere, and limits.  All over real events; the requester's are a process group. */
#include <dirent.h>

#include "base/log.h"
#include "session/session-private.h"
#include "tests/unit/session/session-fixture.h"

struct own {
	struct fixture f;
	pid_t group;
	size_t n_asked, deny_from; /* allowed() denies from this question on */
};

static bool is_in_group(void *arg, uint32_t pid)
{
	struct own *o = arg;

	return getpgid((pid_t)pid) == o->group && o->n_asked++ < o->deny_from;
}

static void init(struct own *o)
{
	memset(o, 0, sizeof(*o));
	fixture_init(&o->f);
	assert_int_equal(setpgid(o->f.child, 0), 0);
	o->group = o->f.child;
	o->deny_from = SIZE_MAX;
	o->f.options.tasks_only = true;
	o->f.options.code = FRAMES_USER;
	o->f.options.frames = FRAMES_USER;
	o->f.options.allowed = is_in_group;
	o->f.options.allowed_arg = o;
}

/* A process of the group that is not a descendant of one of its processes. */
static pid_t work_unrelated(const struct own *o)
{
	pid_t pid = fixture_work();

	assert_int_equal(setpgid(pid, o->group), 0);
	return pid;
}

static size_t open_events(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	size_t n = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		char target[64] = "";

		(void)!readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
		n += !strcmp(target, "anon_inode:[perf_event]");
	}
	(void)closedir(dir);
	return n;
}

static bool is_sampled(struct own *o, pid_t pid)
{
	const Pb__Trace *t = fixture_decode(&o->f);

	for (size_t i = 0; i < t->n_packet; i++)
		if (fixture_is_of(t->packet[i], pid) &&
		    t->packet[i]->perf_sample->has_callstack_iid)
			return true;
	return false;
}

static bool has_note(const struct session *s, const char *begins)
{
	for (size_t i = 0; i < s->n_notes; i++)
		if (!strncmp(s->notes[i], begins, strlen(begins)))
			return true;
	return false;
}

/* No sample is taken of a process that belongs to no requester, not even one to be left out. */
static void test_no_others(void **state)
{
	struct own o;
	pid_t other;

	(void)state;
	init(&o);
	other = fixture_work();
	fixture_start(&o.f);
	assert_true(perf_source_options(o.f.session->source)->tasks);
	fixture_run_ms(&o.f, 200);
	while (fixture_used_ns(other) < 100 * NSEC_PER_MSEC)
		assert_int_equal(loop_run_once(o.f.loop, 5), 0);
	fixture_stop(&o.f);
	assert_true(is_sampled(&o, o.f.child));
	assert_true(o.f.session->account.received > 50);
	assert_int_equal(o.f.session->account.skipped[SKIP_NOT_ALLOWED], 0);
	assert_int_equal(o.f.session->account.skipped[SKIP_NOT_IN_SCOPE], 0);
	fixture_end_child(&other);
	fixture_deinit(&o.f);
}

/* A child of a recorded process inherits; one of another process is found by a later walk, when it is old enough. */
static void test_begins_later(void **state)
{
	struct own o;
	int ready[2];
	pid_t unrelated, parent, child = 0;

	(void)state;
	init(&o);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	parent = fork();
	if (!parent) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		raise(SIGSTOP);
		child = fixture_work();
		(void)!write(ready[1], &child, sizeof(child));
		pause();
	}
	assert_int_equal(waitpid(parent, NULL, WUNTRACED), parent);
	assert_int_equal(setpgid(parent, o.group), 0);
	fixture_start(&o.f);
	unrelated = work_unrelated(&o);
	assert_int_equal(kill(parent, SIGCONT), 0);
	assert_int_equal(read(ready[0], &child, sizeof(child)), sizeof(child));
	fixture_run_ms(&o.f, 50);
	while (!perf_source_has_task(o.f.session->source, unrelated))
		assert_int_equal(loop_run_once(o.f.loop, 5), 0);
	/* Covered by what it inherited: no events of its own. */
	assert_false(perf_source_has_task(o.f.session->source, child));
	while (o.f.session->own.n_walks < 3 || !is_sampled(&o, unrelated) || !is_sampled(&o, child))
		fixture_run_ms(&o.f, 50);
	assert_false(perf_source_has_task(o.f.session->source, child));
	fixture_stop(&o.f);
	assert_int_equal(o.f.session->account.skipped[SKIP_DOUBLE], 0);
	assert_int_equal(kill(child, SIGKILL), 0);
	fixture_end_child(&parent);
	fixture_end_child(&unrelated);
	close(ready[0]);
	close(ready[1]);
	fixture_deinit(&o.f);
}

/* A process with descriptors that do not fit is left out, with a note; one that fits is recorded. */
static void test_descriptors(void **state)
{
	struct own o;
	size_t rings, each;
	pid_t unrelated;

	(void)state;
	init(&o);
	unrelated = work_unrelated(&o);
	fixture_start(&o.f);
	assert_int_equal(perf_source_n_tasks(o.f.session->source), 2);
	each = perf_source_fds_per_task(perf_source_options(o.f.session->source));
	rings = open_events() - 2 * each;
	o.f.session = session_free(o.f.session);
	assert_int_equal(open_events(), 0);

	o.f.options.max_descriptors = (uint32_t)(2 * each - 1);
	fixture_start(&o.f);
	assert_int_equal(open_events(), rings + each);
	assert_true(has_note(o.f.session, "1 of your 2 processes are not recorded"));
	/* None is looked for any more. */
	fixture_run_ms(&o.f, 50);
	assert_true(o.f.session->own.full);
	assert_null(o.f.session->own.walk);
	fixture_end_child(&unrelated);
	fixture_deinit(&o.f);
}

/* A process that was the requester's before its events were open, and is not afterwards, keeps no event. */
static void test_changes_hands(void **state)
{
	struct own o;
	int r;

	(void)state;
	init(&o);
	o.deny_from = 1;
	r = fixture_open(&o.f);
	if (r == -EACCES || r == -EPERM) {
		print_message("%s\n", o.f.error);
		fixture_deinit(&o.f);
		skip();
	}
	assert_int_equal(r, -ESRCH);
	assert_int_equal(o.n_asked, 2);
	assert_non_null(strstr(o.f.error, "none of your processes can be recorded"));
	assert_int_equal(open_events(), 0);
	fixture_deinit(&o.f);
}

/* Whole CPUs do not stand in for too many threads. */
static void test_no_stand_in(void **state)
{
	struct own o;
	uint32_t pid;

	(void)state;
	init(&o);
	pid = (uint32_t)o.f.child;
	o.f.options.machine = false;
	o.f.options.pids = &pid;
	o.f.options.n_pids = 1;
	o.f.options.max_descriptors = 2;
	assert_int_equal(fixture_open(&o.f), -EMFILE);
	assert_non_null(strstr(o.f.error, "user-descriptors"));
	assert_int_equal(open_events(), 0);
	fixture_deinit(&o.f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_others),   cmocka_unit_test(test_begins_later),
		cmocka_unit_test(test_descriptors), cmocka_unit_test(test_changes_hands),
		cmocka_unit_test(test_no_stand_in),
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
