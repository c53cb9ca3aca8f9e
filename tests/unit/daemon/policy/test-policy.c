/* test-policy.c - permissions to record: by user, by group, own processes only; and which events. */
#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/policy/policy.h"
#include "tests/unit/cmocka.h"

static struct settings settings;
static struct policy policy;

static enum policy_scope scope_of(uint32_t uid, uint32_t group, uint32_t second)
{
	uint32_t groups[] = {group, second};
	struct policy_requester requester = {.uid = uid, .groups = groups, .n_groups = 2};

	policy_of(&settings, &policy);
	return policy_scope(&policy, &requester);
}

static void test_defaults(void **state)
{
	(void)state;
	settings = settings_default;
	assert_int_equal(scope_of(0, 0, 0), POLICY_ALL);
	assert_int_equal(scope_of(1000, 1000, 5000), POLICY_OWN);
	settings.own_processes = false;
	assert_int_equal(scope_of(1000, 1000, 5000), POLICY_NOTHING);
	assert_int_equal(scope_of(0, 0, 0), POLICY_ALL);
}

static void test_lists(void **state)
{
	(void)state;
	settings = settings_default;
	(void)snprintf(settings.all_groups, sizeof(settings.all_groups), "70001,  70002");
	(void)snprintf(settings.all_users, sizeof(settings.all_users), " 80001\t80002, ");
	assert_int_equal(scope_of(1000, 1000, 70002), POLICY_ALL);
	assert_int_equal(scope_of(1000, 70001, 1000), POLICY_ALL); /* the primary one */
	assert_int_equal(scope_of(1000, 1000, 7000), POLICY_OWN);
	assert_int_equal(scope_of(80001, 1000, 1000), POLICY_ALL);
	assert_int_equal(scope_of(80002, 1000, 1000), POLICY_ALL);
	/* A user's number is not a group's. */
	assert_int_equal(scope_of(70001, 1000, 1000), POLICY_OWN);
	assert_int_equal(scope_of(1000, 80001, 1000), POLICY_OWN);
}

static void test_names(void **state)
{
	(void)state;
	settings = settings_default;
	(void)snprintf(settings.all_users, sizeof(settings.all_users), "root,no-such-user-here");
	(void)snprintf(settings.all_groups, sizeof(settings.all_groups), "root no-such-group-here");
	policy_of(&settings, &policy);
	assert_int_equal(policy.all.n_users, 1);
	assert_int_equal(policy.all.users[0], 0);
	assert_int_equal(policy.all.n_groups, 1);
	assert_int_equal(policy.all.groups[0], 0);
	/* None at all: no user, and not every user. */
	settings.all_groups[0] = settings.all_users[0] = 0;
	assert_int_equal(scope_of(1000, 0, 1000), POLICY_OWN);
}

static void test_requester(void **state)
{
	struct policy_requester requester;
	bool primary = false;
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	assert_int_equal(policy_requester_of(fds[0], &requester), 0);
	assert_int_equal(requester.uid, getuid());
	assert_int_equal(requester.pid, getpid());
	for (size_t i = 0; i < requester.n_groups; i++)
		primary |= requester.groups[i] == getgid();
	assert_true(primary);
	policy_requester_deinit(&requester);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

static bool event(enum policy_scope scope, struct perf_spec spec)
{
	char error[256] = "";
	bool may = policy_event(scope, "some-key", &spec, error, sizeof(error));

	/* What no setting allows names none. */
	assert_true(may || spec.probe_path || strstr(error, "some-key"));
	return may;
}

static void test_events(void **state)
{
	const struct perf_spec clock = {.type = PERF_TYPE_SOFTWARE, .code = FRAMES_ALL},
			       kernel = {.code = FRAMES_KERNEL},
			       point = {.type = PERF_TYPE_TRACEPOINT,
					.code = FRAMES_ALL,
					.tracepoint = "sched:x"},
			       device = {.type = 40, .code = FRAMES_ALL},
			       memory = {.type = PERF_TYPE_BREAKPOINT, .code = FRAMES_ALL};
	struct perf_spec probe = {
		.type = 8, .code = FRAMES_ALL, .probe_path = (char *)(uintptr_t) "/bin/ls"};

	(void)state;
	assert_true(event(POLICY_OWN, clock));
	assert_true(event(POLICY_OWN,
			  (struct perf_spec){.type = PERF_TYPE_HARDWARE, .code = FRAMES_ALL}));
	assert_true(
		event(POLICY_OWN, (struct perf_spec){.type = PERF_TYPE_RAW, .code = FRAMES_ALL}));
	assert_false(event(POLICY_OWN, kernel));
	assert_false(event(POLICY_OWN, point));
	assert_false(event(POLICY_OWN, device));
	assert_false(event(POLICY_OWN, memory));
	assert_true(event(POLICY_ALL, kernel));
	assert_true(event(POLICY_ALL, point));
	assert_true(event(POLICY_ALL, device));
	assert_false(event(POLICY_ALL, probe));
	assert_false(event(POLICY_OWN, probe));
}

static void test_words(void **state)
{
	char error[256];

	(void)state;
	assert_true(policy_event_words("cycles:u,instructions", error, sizeof(error)));
	assert_true(policy_event_words("sched:sched_switch", error, sizeof(error)));
	assert_false(policy_event_words("uprobe:/tmp/fifo:main", error, sizeof(error)));
	assert_false(policy_event_words("cycles,uprobe/config1=4096/", error, sizeof(error)));
	assert_false(policy_event_words("kprobe:do_exit", error, sizeof(error)));
	assert_false(policy_event_words("../../../tmp/x/event/", error, sizeof(error)));
}

static void test_rate(void **state)
{
	const struct perf_spec time = {.weight = PERF_WEIGHT_TIME}, events = {0};

	(void)state;
	assert_int_equal(policy_rate(&events, 999, 0), 999);
	assert_int_equal(policy_rate(&time, 0, 1000000), 1000);
	assert_int_equal(policy_rate(&events, 0, 1000000), 10000);
	assert_int_equal(policy_rate(&events, 0, 1), 10000000000ll);
}

static void test_session_rate(void **state)
{
	struct perf_spec spec = {.type = PERF_TYPE_TRACEPOINT, .weight = PERF_WEIGHT_EVENTS};
	struct session_options so = {.specs = &spec, .n_specs = 1, .period = 1};

	(void)state;
	/* The rate of a tracepoint is not known: a quarter of the limit, at least 1. */
	assert_int_equal(policy_session_rate(&so, 8000), 2000);
	assert_int_equal(policy_session_rate(&so, 3), 1);
	assert_int_equal(policy_session_rate(&so, 0), 10000000000ll);
	so.period = 10000000; /* known to be rarer than that */
	assert_int_equal(policy_session_rate(&so, 8000), 1000);
	so.frequency = 5000;
	assert_int_equal(policy_session_rate(&so, 8000), 5000);
	spec.type = PERF_TYPE_HARDWARE;
	so.frequency = 0;
	so.period = 1000000;
	assert_int_equal(policy_session_rate(&so, 8000), 10000);
	so.poll_ms = 100;
	assert_int_equal(policy_session_rate(&so, 8000), 11);
}

static void test_stack_bytes(void **state)
{
	struct session_options so = {.frames = FRAMES_ALL, .engine = UW_ENGINE_NATIVE};

	(void)state;
	assert_int_equal(policy_stack_bytes(&so), 65528);
	so.stack_bytes = 4096;
	assert_int_equal(policy_stack_bytes(&so), 4096);
	so.engine = UW_ENGINE_FP;
	assert_int_equal(policy_stack_bytes(&so), 0);
	so.engine = UW_ENGINE_NATIVE;
	so.frames = FRAMES_KERNEL;
	assert_int_equal(policy_stack_bytes(&so), 0);
	so.frames = FRAMES_ALL;
	so.poll_ms = 100;
	assert_int_equal(policy_stack_bytes(&so), 0);
}

/* A child that has become something: is it @uid's, or (@p) one that is shown? */
static bool as_child(void (*become)(void), const struct policy_traced *p, uint32_t uid)
{
	int ready[2], end[2];
	char byte;
	pid_t pid;
	bool is;

	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(end), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		(void)close(end[1]);
		become();
		(void)!write(ready[1], "", 1);
		(void)!read(end[0], &byte, 1);
		_exit(0);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	is = p ? policy_shows(p, "", (uint32_t)pid)
	       : policy_owns("", &(struct policy_requester){.uid = uid, .gid = getgid()},
			     (uint32_t)pid);
	(void)close(end[1]);
	(void)waitpid(pid, NULL, 0);
	(void)close(end[0]);
	(void)close(ready[0]);
	(void)close(ready[1]);
	return is;
}

static bool owned(uint32_t uid, void (*become)(void))
{
	return as_child(become, NULL, uid);
}

static void nothing(void)
{
}

static void hidden(void)
{
	(void)prctl(PR_SET_DUMPABLE, 0);
}

static void real_only(void)
{
	(void)!setresuid(54321, 0, 0);
	(void)prctl(PR_SET_DUMPABLE, 1);
}

static void saved_root(void)
{
	(void)!setresuid(54321, 54321, 0);
	(void)prctl(PR_SET_DUMPABLE, 1);
}

static void dropped(void)
{
	(void)!setresuid(54321, 54321, 54321);
	(void)prctl(PR_SET_DUMPABLE, 1);
}

static void other_group(void)
{
	(void)!setresgid(61101, 61101, 61101);
	dropped();
}

static void saved_group(void)
{
	(void)!setresgid(getgid(), getgid(), 61101);
	dropped();
}

/* As a service with AmbientCapabilities is. */
static void with_right(void)
{
	(void)prctl(PR_SET_KEEPCAPS, 1);
	dropped();
}

static void test_owns(void **state)
{
	(void)state;
	assert_true(owned(getuid(), nothing));
	assert_false(owned(getuid() + 1, nothing));
	assert_false(policy_owns("", &(struct policy_requester){.uid = getuid(), .gid = getgid()},
				 0x7ffffff0));
	if (getuid() != 0) {
		assert_false(owned(getuid(), hidden));
		return;
	}
	/* Of root's the file is root's in any case: the others are recognised by that. */
	assert_false(owned(54321, real_only));
	assert_false(owned(54321, saved_root));
	assert_true(owned(54321, dropped));
	assert_false(owned(0, dropped));
	assert_false(owned(54321, other_group));
	assert_false(owned(54321, saved_group));
	assert_false(owned(54321, with_right));
}

static void dropped_hidden(void)
{
	(void)!setresuid(54321, 54321, 54321);
	(void)prctl(PR_SET_DUMPABLE, 0);
}

static void test_owns_hidden(void **state)
{
	(void)state;
	if (getuid() != 0) {
		print_message("needs root: a process of another user\n");
		skip();
	}
	assert_false(owned(54321, dropped_hidden));
}

/* ---- through a tracing service ---- */

static struct policy_traced traced(const char *users, const char *groups, bool kernel,
				   bool beyond_user)
{
	struct settings s = settings_default;
	struct policy_traced p;

	if (users) {
		(void)snprintf(s.traced_users, sizeof(s.traced_users), "%s", users);
		(void)snprintf(s.traced_groups, sizeof(s.traced_groups), "%s", groups);
		s.traced_kernel = kernel;
		s.traced_set = true;
	}
	policy_traced_of(&s, beyond_user, &p);
	return p;
}

static void test_traced(void **state)
{
	struct policy_traced p;

	(void)state;
	/* No setting: as the daemon's user could by themselves, or no user. */
	p = traced(NULL, NULL, false, false);
	assert_true(p.everyone && p.kernel);
	p = traced(NULL, NULL, false, true);
	assert_false(p.everyone || p.kernel || p.ids.n_users || p.ids.n_groups);
	/* A setting that is given holds for any user of the daemon. */
	for (int beyond_user = 0; beyond_user < 2; beyond_user++) {
		p = traced("70001, 70002", "80001", false, beyond_user);
		assert_false(p.everyone || p.kernel);
		assert_int_equal(p.ids.n_users, 2);
		assert_int_equal(p.ids.users[1], 70002);
		assert_int_equal(p.ids.n_groups, 1);
		assert_int_equal(p.ids.groups[0], 80001);
		p = traced("", "", true, beyond_user);
		assert_false(p.everyone || p.ids.n_users);
		assert_true(p.kernel);
		p = traced("70001 *", "", false, beyond_user);
		assert_true(p.everyone);
		assert_false(p.kernel);
		p = traced("*x", "*", false, beyond_user);
		assert_false(p.everyone || p.ids.n_users || p.ids.n_groups);
	}
}

/* The users that may run the tracing service: no user is trusted that is not named, the default name included. */
static void test_services(void **state)
{
	struct settings s = settings_default;
	struct policy_ids ids;

	(void)state;
	s.traced_service_users[0] = 0;
	policy_services_of(&s, &ids);
	assert_true(policy_trusts_service(&ids, 0));
	assert_true(policy_trusts_service(&ids, geteuid()));
	assert_false(policy_trusts_service(&ids, geteuid() + 70001));
	(void)snprintf(s.traced_service_users, sizeof(s.traced_service_users),
		       "%u,nobody-of-that-name", geteuid() + 70001);
	policy_services_of(&s, &ids);
	assert_true(policy_trusts_service(&ids, geteuid() + 70001));
	assert_false(policy_trusts_service(&ids, geteuid() + 70002));
	assert_false(policy_trusts_service(&ids, UINT32_MAX));
	/* "*" is a word of traced-users and no user here. */
	(void)snprintf(s.traced_service_users, sizeof(s.traced_service_users), "*");
	policy_services_of(&s, &ids);
	assert_int_equal(ids.n_users, 0);
}

/* /proc/5 under @root, of a process with these words in its stat and status. */
static void fake_process(const char *root, unsigned flags, const char *status)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/proc", root);
	(void)mkdir(path, 0700);
	(void)snprintf(path, sizeof(path), "%s/proc/5", root);
	(void)mkdir(path, 0700);
	for (int i = 0; i < 2; i++) {
		_cleanup_(file_closep) FILE *f = NULL;

		(void)snprintf(path, sizeof(path), "%s/proc/5/%s", root, i ? "status" : "stat");
		f = fopen(path, "we");
		assert_non_null(f);
		if (i)
			(void)fputs(status, f);
		else
			(void)fprintf(f,
				      "5 (x) S 1 5 5 0 -1 %u 0 0 0 0 0 0 0 0 20 0 1 0 1000 0 0 0 0 "
				      "0 0 0 0 0 0 0 0 0 0 0 0 0\n",
				      flags);
	}
}

/* PID's AppArmor label under @root; NULL: none. */
static void fake_label(const char *root, const char *pid, const char *label)
{
	static const char *const folders[] = {"", "/attr", "/attr/apparmor"};
	_cleanup_(file_closep) FILE *f = NULL;
	char path[128];

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		(void)snprintf(path, sizeof(path), "%s/proc/%s%s", root, pid, folders[i]);
		(void)mkdir(path, 0700);
	}
	(void)snprintf(path, sizeof(path), "%s/proc/%s/attr/apparmor/current", root, pid);
	(void)unlink(path);
	if (!label)
		return;
	f = fopen(path, "we");
	assert_non_null(f);
	(void)fputs(label, f);
}

static void test_confined(void **state)
{
	static const struct {
		const char *own, *label, *why; /* why NULL: it is not */
	} cases[] = {
		{NULL, NULL, NULL}, /* no AppArmor */
		{"unconfined\n", "unconfined\n", NULL},
		{"unconfined\n", "a-test (enforce)\n", "AppArmor profile a-test (enforce)"},
		{"unconfined\n", "a-test (kill)\n", "AppArmor profile a-test (kill)"},
		{"unconfined\n", "a//&b (mixed)\n", "AppArmor profile a//&b (mixed)"},
		{"unconfined\n", "a-test (complain)\n", NULL},
		{"unconfined\n", "a-test (unconfined)\n", NULL},
		{"unconfined\n", "", "AppArmor profile unknown"},
		{"unconfined\n", NULL, "AppArmor profile unknown"},
		/* In one container with us. */
		{"a-test (enforce)\n", "a-test (enforce)\n", NULL},
		{"a-test (enforce)\n", "b-test (enforce)\n", "AppArmor profile b-test (enforce)"},
		{"a-test (enforce)\n", "unconfined\n", NULL},
	};
	char root[] = "/tmp/perfwind-policy-XXXXXX", path[128];

	(void)state;
	assert_non_null(mkdtemp(root));
	fake_process(root, 0, ""); /* 5, a child of 1 */
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *wanted = cases[i].why;
		char why[160] = "";

		fake_label(root, "self", cases[i].own);
		fake_label(root, "5", cases[i].label);
		assert_int_equal(policy_confined(root, -1, 5, why, sizeof(why)), wanted != NULL);
		assert_string_equal(why, wanted ? wanted : "");
		assert_int_equal(policy_shares_sandbox(root, 1, wanted ? wanted : "x", 5),
				 wanted != NULL);
		assert_false(policy_shares_sandbox(root, 2, wanted ? wanted : "x", 5));
		assert_false(policy_shares_sandbox(root, 1, "AppArmor profile c (enforce)", 5));
	}
	(void)snprintf(path, sizeof(path), "rm -r %s", root);
	assert_int_equal(system(path), 0);
}

static void test_shows(void **state)
{
	enum { KTHREAD = 0x200000 };
	char root[] = "/tmp/perfwind-policy-XXXXXX", command[64];
	unsigned me = getuid(), group = getgid();
	char mine[256], half[256], none[] = "Name:\tx\n";
	struct policy_traced users, groups, kernel = traced("", "", true, true);

	(void)state;
	assert_non_null(mkdtemp(root));
	(void)snprintf(command, sizeof(command), "%u", me);
	users = traced(command, "", false, true);
	groups = traced("", "81, 80", false, true);
	(void)snprintf(mine, sizeof(mine),
		       "Name:\tx\nUid:\t%u\t%u\t%u\t%u\nGid:\t%u\t%u\t%u\t%u\nGroups:\t3 80 9 \n"
		       "CapPrm:\t0000000000000000\n",
		       me, me, me, me, group, group, group, group);
	(void)snprintf(half, sizeof(half),
		       "Name:\tx\nUid:\t%u\t%u\t%u\t%u\nGid:\t80\t7\t7\t7\nGroups:\t3 80\n", me, me,
		       me, me + 1);
	fake_process(root, 0, mine);
	assert_true(policy_shows(&users, root, 5));
	assert_int_equal(policy_shows(&groups, root, 5), me != 0); /* root's not by a group */
	assert_false(policy_shows(&kernel, root, 5));
	assert_false(policy_shows(&users, root, 6)); /* there is none */
	fake_process(root, 0, half);		     /* a set-user-ID program: two users' */
	assert_false(policy_shows(&users, root, 5));
	assert_false(policy_shows(&groups, root, 5));
	fake_process(root, 0, none);
	assert_false(policy_shows(&users, root, 5));
	/* A kernel thread is root's by its ids, and the kernel's all the same. */
	fake_process(root, KTHREAD, mine);
	assert_int_equal(policy_shows(&users, root, 5), me != 0); /* there are no others */
	assert_true(policy_shows(&kernel, root, 5));
	assert_true(policy_shows(&kernel, root, 0));
	assert_false(policy_shows(&users, root, 0));
	(void)snprintf(command, sizeof(command), "rm -r %s", root);
	assert_int_equal(system(command), 0);
}

/* Of the kernel's own text: groups, the primary and the others, and a user that changes. */
static void in_groups(void)
{
	const gid_t other[] = {5, 61100};

	(void)!setgroups(2, other);
	(void)!setresgid(61101, 61101, 61101);
	dropped();
}

static bool shown(const struct policy_traced *p, void (*become)(void))
{
	return as_child(become, p, 0);
}

static void test_shows_real(void **state)
{
	struct policy_traced user = traced("54321", "", false, true),
			     other = traced("", "61100", false, true),
			     primary = traced("", "61101", false, true),
			     neither = traced("54322", "61102", false, true);

	(void)state;
	if (getuid() != 0) {
		print_message("needs root: a process of another user\n");
		skip();
	}
	assert_true(shown(&user, in_groups));
	assert_true(shown(&other, in_groups));
	assert_true(shown(&primary, in_groups));
	assert_false(shown(&neither, in_groups));
	assert_false(shown(&user, with_right));
	assert_false(shown(&other, with_right));
	assert_false(shown(&user, saved_group));
	assert_false(shown(&user, real_only));
	assert_false(shown(&user, saved_root));
	assert_false(shown(&user, dropped_hidden));
	assert_false(shown(&user, nothing));
}

/* A process that has gone, or with a status that is none. */
static void test_owns_fake(void **state)
{
	char root[] = "/tmp/perfwind-policy-XXXXXX", path[128], dir[128];
	static const char *const texts[] = {"", "Name:\tx\n", "Name:\tx\nUid:\t1 2\n",
					    "Name:\tx\nUid:\tall of them\n"};
	const struct policy_requester me = {.uid = getuid(), .gid = getgid()};

	(void)state;
	assert_non_null(mkdtemp(root));
	(void)snprintf(path, sizeof(path), "%s/proc", root);
	assert_int_equal(mkdir(path, 0700), 0);
	(void)snprintf(dir, sizeof(dir), "%s/proc/5", root);
	assert_int_equal(mkdir(dir, 0700), 0);
	(void)snprintf(path, sizeof(path), "%s/proc/5/status", root);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		_cleanup_(file_closep) FILE *f = fopen(path, "we");

		assert_non_null(f);
		(void)fputs(texts[i], f);
		(void)fflush(f);
		assert_false(policy_owns(root, &me, 5));
	}
	(void)unlink(path);
	(void)rmdir(dir);
	(void)snprintf(path, sizeof(path), "%s/proc", root);
	(void)rmdir(path);
	(void)rmdir(root);
}

/* The kernel's rule, id by id. */
static void test_owns_text(void **state)
{
#define UID "\nUid:\t54321\t54321\t54321\t54321"
#define NONE "\nCapPrm:\t0000000000000000\n"
	static const struct {
		const char *text;
		bool owns, shown; /* by them; where their primary group is not known */
	} cases[] = {
		{"Name:\tx" UID "\nGid:\t7\t7\t7\t7" NONE, true, true},
		{"Name:\tx" UID "\nGid:\t8\t8\t8\t8" NONE, false, true},
		{"Name:\tx" UID "\nGid:\t8\t7\t7\t7" NONE, false, false},
		{"Name:\tx" UID "\nGid:\t7\t8\t7\t7" NONE, false, false},
		{"Name:\tx" UID "\nGid:\t7\t7\t8\t7" NONE, false, false},
		{"Name:\tx" UID "\nGid:\t7\t7\t7\t8" NONE, false, false},
		{"Name:\tx" UID "\nGid:\t0\t0\t0\t0" NONE, false, true},
		{"Name:\tx" UID NONE, false, false},
		{"Name:\tx" UID "\nGid:\t7\t7\t7\t7\nCapPrm:\t0000000000001000\n", false, false},
		{"Name:\tx" UID "\nGid:\t7\t7\t7\t7\nCapPrm:\t8000000000000000\n", false, false},
		{"Name:\tx" UID "\nGid:\t7\t7\t7\t7\nCapEff:\t0000000000000000\n", false, false},
		{"Name:\tx" UID "\nGid:\t7\t7\t7\t7\nCapPrm:\tnone\n", false, false},
	};
	const struct policy_requester them = {.uid = 54321, .gid = 7};
	struct policy_traced named = traced("54321", "", false, true), known = named;
	char root[] = "/tmp/perfwind-policy-XXXXXX", path[128];

	(void)state;
	if (getuid() != 0) {
		print_message("needs root: a process of another user\n");
		skip();
	}
	known.user_gids[0] = 7;
	assert_non_null(mkdtemp(root));
	(void)snprintf(path, sizeof(path), "%s/proc/5/status", root);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		fake_process(root, 0, cases[i].text);
		assert_int_equal(chown(path, them.uid, 0), 0);
		assert_int_equal(policy_owns(root, &them, 5), cases[i].owns);
		assert_int_equal(policy_shows(&known, root, 5), cases[i].owns);
		assert_int_equal(policy_shows(&named, root, 5), cases[i].shown);
	}
	(void)snprintf(path, sizeof(path), "rm -r %s", root);
	assert_int_equal(system(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),    cmocka_unit_test(test_lists),
		cmocka_unit_test(test_names),	    cmocka_unit_test(test_requester),
		cmocka_unit_test(test_events),	    cmocka_unit_test(test_words),
		cmocka_unit_test(test_rate),	    cmocka_unit_test(test_session_rate),
		cmocka_unit_test(test_stack_bytes), cmocka_unit_test(test_owns),
		cmocka_unit_test(test_owns_hidden), cmocka_unit_test(test_owns_fake),
		cmocka_unit_test(test_services),    cmocka_unit_test(test_confined),
		cmocka_unit_test(test_traced),	    cmocka_unit_test(test_shows),
		cmocka_unit_test(test_shows_real),  cmocka_unit_test(test_owns_text),
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
