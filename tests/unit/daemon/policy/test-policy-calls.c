/* test-policy-calls.c - each allocation and system call with which settings, ranges of ids, a requester and the owner of a process are
 * read fails once: an error with a line, no requester gets more than without it, and nothing is left. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/policy/policy.h"
#include "tests/unit/fake-root.h"
#include "tests/unit/cli/with-line.h"
#include "tests/unit/fail-calls.h"

static void end_nothing(void *arg)
{
	(void)arg;
}

static int read_settings(void *arg)
{
	struct settings settings = settings_default;
	char path[256], error[256] = "";
	int r;

	(void)arg;
	(void)snprintf(path, sizeof(path), "%s/settings", root);
	r = settings_read(path, &settings, error, sizeof(error));
	if (r < 0)
		assert_true(error[0] && settings.max_sources == settings_default.max_sources);
	else
		assert_int_equal(settings.max_sources, 7);
	return r;
}

static int read_ranges(void *arg)
{
	struct policy *policy = arg;
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/subuid", root);
	policy_subids_read(path, policy);
	return policy->n_subids == 1 ? 0 : -ENOMEM;
}
static int make_ranges(void *arg)
{
	return with_line("ranges", read_ranges, arg);
}

static int read_requester(void *arg)
{
	struct policy_requester requester;
	int r = policy_requester_of(*(int *)arg, &requester);

	if (r < 0)
		return r;
	assert_true(requester.n_groups > 0 && requester.pid == (uint32_t)getpid());
	policy_requester_deinit(&requester);
	return 0;
}

/* false is also the answer without memory. */
static int read_owner(void *arg)
{
	const struct policy_requester requester = {.uid = geteuid(), .gid = getegid()};

	(void)arg;
	return policy_owns(root, &requester, 5) ? 0 : -EACCES;
}

/* All names exist: a failed lookup gives fewer ids, never a user with any group. */
static int read_names(void *arg)
{
	struct settings settings = settings_default;
	struct policy_traced traced;
	struct policy policy;
	struct policy_ids services;

	(void)arg;
	settings.traced_set = true;
	(void)snprintf(settings.traced_users, sizeof(settings.traced_users), "root, 0");
	(void)snprintf(settings.traced_groups, sizeof(settings.traced_groups), "root");
	(void)snprintf(settings.all_users, sizeof(settings.all_users), "root");
	(void)snprintf(settings.all_groups, sizeof(settings.all_groups), "root");
	(void)snprintf(settings.traced_service_users, sizeof(settings.traced_service_users),
		       "root");
	policy_traced_of(&settings, true, &traced);
	policy_services_of(&settings, &services);
	policy_of(&settings, &policy);
	for (size_t i = 0; i < traced.ids.n_users; i++)
		assert_int_equal(traced.user_gids[i], 0);
	return traced.ids.n_users + traced.ids.n_groups + services.n_users + policy.all.n_users +
				       policy.all.n_groups ==
			       6
		       ? 0
		       : -EMFILE;
}
static int make_names(void *arg)
{
	return with_line("names", read_names, arg);
}

static void test_all(void **state)
{
	static struct policy policy;
	char status[256];
	int pair[2];
	const struct calls_made all[] = {{"settings", read_settings, end_nothing, NULL},
					 {"ranges", make_ranges, end_nothing, &policy},
					 {"requester", read_requester, end_nothing, &pair[0]},
					 {"owner", read_owner, end_nothing, NULL},
					 {"names", make_names, end_nothing, NULL}};

	(void)state;
	put("/settings", "max-sources = 7\nall-groups = 61100\n");
	(void)snprintf(status, sizeof(status),
		       "Name:\tx\nUid:\t%u\t%u\t%u\t%u\nGid:\t%u\t%u\t%u\t%u\nCapPrm:\t0\n",
		       geteuid(), geteuid(), geteuid(), geteuid(), getegid(), getegid(), getegid(),
		       getegid());
	put("/proc/5/status", status);
	put("/subuid", "root:100000:65536\n");
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		calls_sweep(&all[i]);
	(void)close(pair[0]);
	(void)close(pair[1]);
}

static int remove_root(void **state)
{
	(void)state;
	return fake_root_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};

	fake_root_make();
	return cmocka_run_group_tests_name("policy-calls", tests, NULL, remove_root);
}
