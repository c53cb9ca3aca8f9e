/* test-filter.c - the target filter: order of the rules, patterns, names of command lines.  Pids
 * and names of the first tests are from the reference's own tests (tests/README.md). */
#include <stdlib.h>

#include "tests/unit/cmocka.h"

#include "proc/filter.h"

static struct filter *make(const struct filter_scope *scope)
{
	struct filter *f;

	assert_int_equal(filter_new(scope, &f), 0);
	return f;
}

static void filter_freep(struct filter **f)
{
	*f = filter_free(*f);
}

static bool wants(struct filter *f, uint32_t pid, const char *cmdline)
{
	return filter_wanted(f, pid, cmdline, cmdline ? strlen(cmdline) : 0);
}

static void test_empty(void **state)
{
	const int32_t excluded[] = {42};
	_cleanup_(filter_freep) struct filter *f = make(&(struct filter_scope){0});
	_cleanup_(filter_freep) struct filter *g =
		make(&(struct filter_scope){.exclude_pids = excluded, .n_exclude_pids = 1});

	(void)state;
	assert_true(wants(f, 77, NULL));
	assert_true(wants(f, 42, "/bin/echo"));
	assert_true(filter_is_empty(f));
	assert_false(filter_by_cmdline(f));
	assert_true(wants(g, 77, NULL));
	assert_true(wants(g, 77, "/bin/echo"));
	assert_false(wants(g, 42, NULL));
	assert_false(filter_is_empty(g));
	assert_false(filter_by_cmdline(g));
}

static void test_pids(void **state)
{
	const int32_t wanted[] = {42, -1, 7}, excluded[] = {43};
	_cleanup_(filter_freep) struct filter *f =
		make(&(struct filter_scope){.target_pids = wanted, .n_target_pids = 3});
	_cleanup_(filter_freep) struct filter *g =
		make(&(struct filter_scope){.exclude_pids = excluded, .n_exclude_pids = 1});

	(void)state;
	assert_true(wants(f, 42, NULL));
	assert_true(wants(f, 7, "/bin/echo"));
	assert_false(wants(f, 77, NULL));
	assert_false(wants(f, UINT32_MAX, NULL)); /* no process has pid -1 */
	assert_false(wants(g, 43, "/bin/echo"));
	assert_true(wants(g, 42, NULL));
}

static void test_cmdlines(void **state)
{
	const char *const names[] = {"echo", "/bin/cat"};
	_cleanup_(filter_freep) struct filter *f =
		make(&(struct filter_scope){.target_cmdlines = names, .n_target_cmdlines = 2});
	_cleanup_(filter_freep) struct filter *g =
		make(&(struct filter_scope){.exclude_cmdlines = names, .n_exclude_cmdlines = 2});

	(void)state;
	assert_true(filter_by_cmdline(f) && filter_by_cmdline(g));
	assert_true(wants(f, 1, "/bin/echo"));
	assert_true(wants(f, 1, "echo"));
	assert_true(wants(f, 1, "/bin/cat"));
	assert_false(wants(f, 1, "/sbin/cat"));
	assert_false(wants(f, 1, "/bin/top"));
	assert_false(wants(f, 1, NULL)); /* a kernel thread has no name to go by */
	assert_false(wants(g, 1, "/bin/echo"));
	assert_false(wants(g, 1, "/bin/cat"));
	assert_true(wants(g, 1, "/sbin/cat"));
	assert_true(wants(g, 1, NULL));
}

static void test_exclusion_first(void **state)
{
	const int32_t pids[] = {42};
	const char *const names[] = {"echo"}, *const all[] = {"*"};
	_cleanup_(filter_freep) struct filter *by_pid =
		make(&(struct filter_scope){.target_pids = pids,
					    .n_target_pids = 1,
					    .exclude_pids = pids,
					    .n_exclude_pids = 1});
	_cleanup_(filter_freep) struct filter *by_name =
		make(&(struct filter_scope){.target_cmdlines = names,
					    .n_target_cmdlines = 1,
					    .exclude_cmdlines = names,
					    .n_exclude_cmdlines = 1});
	_cleanup_(filter_freep) struct filter *crossed =
		make(&(struct filter_scope){.target_pids = pids,
					    .n_target_pids = 1,
					    .exclude_cmdlines = all,
					    .n_exclude_cmdlines = 1});

	(void)state;
	assert_false(wants(by_pid, 42, "/bin/echo"));
	assert_false(wants(by_name, 7, "/bin/echo"));
	assert_false(wants(crossed, 42, "/bin/echo"));
	assert_true(wants(crossed, 42, NULL));
}

static void test_shards(void **state)
{
	const int32_t excluded[] = {41}, wanted[] = {2};
	struct filter_scope scope = {.shard_count = 4,
				     .shard = 1,
				     .exclude_pids = excluded,
				     .n_exclude_pids = 1,
				     .target_pids = wanted,
				     .n_target_pids = 1,
				     .additional_cmdlines = 5};
	_cleanup_(filter_freep) struct filter *f = make(&scope);

	(void)state;
	assert_true(wants(f, 1, NULL));
	assert_false(wants(f, 0, NULL));
	assert_false(wants(f, 42, "/bin/echo")); /* final: no additional command lines after it */
	assert_true(wants(f, 45, "/bin/echo"));
	assert_false(wants(f, 41, NULL));
	assert_true(wants(f, 2, NULL));
	assert_int_equal(filter_n_additional(f), 0);
	assert_false(filter_by_cmdline(f));
}

static void test_additional(void **state)
{
	_cleanup_(filter_freep) struct filter *f =
		make(&(struct filter_scope){.additional_cmdlines = 2});
	char line[600];

	(void)state;
	assert_true(filter_by_cmdline(f));
	assert_true(wants(f, 42, "/bin/echo"));
	assert_true(wants(f, 43, "/bin/echo"));
	assert_int_equal(filter_n_additional(f), 1);
	/* arguments count */
	memset(line, 'x', sizeof(line));
	assert_true(filter_wanted(f, 44, line, 600));
	assert_int_equal(filter_n_additional(f), 2);
	assert_false(wants(f, 45, "/bin/top"));
	assert_false(filter_wanted(f, 45, "/bin/echo\0-n", 12));
	assert_true(wants(f, 46, "/bin/echo"));
	/* only the first 511 bytes do */
	line[FILTER_CMDLINE] = 'y';
	assert_true(filter_wanted(f, 47, line, 600));
	line[FILTER_CMDLINE - 1] = 'y';
	assert_false(filter_wanted(f, 48, line, 600));
	assert_false(wants(f, 49, NULL));
}

static void test_additional_without_end(void **state)
{
	_cleanup_(filter_freep) struct filter *f =
		make(&(struct filter_scope){.additional_cmdlines = UINT32_MAX});
	char line[32];

	(void)state;
	for (unsigned i = 0; i < 20000; i++) {
		(void)snprintf(line, sizeof(line), "/bin/%u", i);
		assert_true(wants(f, i, line));
	}
	assert_int_equal(filter_n_additional(f), 16384); /* what is kept is bounded */
}

static bool match(const char *pattern, const char *cmdline, size_t len)
{
	return filter_match(pattern, cmdline, len);
}
#define MATCH(pattern, cmdline) match(pattern, cmdline, sizeof(cmdline) - 1)

static void test_names(void **state)
{
	(void)state;
	assert_true(MATCH("surfaceflinger", "surfaceflinger"));
	assert_true(MATCH("surfaceflinger", "surfaceflinger\0--flag\0with-arg"));
	assert_true(MATCH("surfaceflinger", "/system/bin/surfaceflinger\0--flag"));
	assert_true(MATCH("surfaceflinger", "/system/bin/surfaceflinger\0/with/slashes"));
	assert_true(MATCH("app@1.0-service", "/vendor/bin/app@1.0-service\0"));
	assert_true(MATCH("com.app:remote", "com.app:remote"));
	assert_true(MATCH("chrome --type=renderer", "/opt/chrome --type=renderer"));
	/* no name at all */
	assert_true(MATCH("", ""));
	assert_true(MATCH("", "\0foo"));
	assert_true(MATCH("", "/foo/"));
	assert_true(MATCH("", "/"));
	assert_true(MATCH("", "foo/"));
	assert_false(MATCH("foo", "foo/"));
}

static void test_patterns(void **state)
{
	static const char full[] = "/system/bin/surfaceflinger";

	(void)state;
	assert_true(MATCH("/system/bin/surfaceflinger", full));
	assert_true(MATCH("/*/surfaceflinger", full));
	assert_true(MATCH("surfaceflinger", full));
	assert_true(MATCH("???faceflinger", full));
	assert_true(MATCH("*", full));
	assert_false(MATCH("/system", full));
	assert_false(MATCH("bin/surfaceflinger", full));
	assert_false(MATCH("?system/bin/surfaceflinger", full));
	assert_false(MATCH("*/surfaceflinger", full));
	assert_true(MATCH("top", "./top"));
	assert_true(MATCH("*", "./top"));
	assert_true(MATCH("[st]op", "./top"));
	assert_true(MATCH("a\\b", "/a\\b")); /* no escapes */
	assert_false(MATCH("\\*", "/x"));
}

/* What is slow with a matcher that tries everything. */
static void test_many_stars(void **state)
{
	char pattern[402], line[512];

	(void)state;
	for (size_t i = 0; i < 400; i += 2)
		memcpy(pattern + i, "*a", 2);
	memcpy(pattern + 400, "b", 2);
	memset(line, 'a', sizeof(line));
	assert_false(filter_match(pattern, line, sizeof(line)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_pids),
		cmocka_unit_test(test_cmdlines),
		cmocka_unit_test(test_exclusion_first),
		cmocka_unit_test(test_shards),
		cmocka_unit_test(test_additional),
		cmocka_unit_test(test_additional_without_end),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_many_stars),
	};

	return cmocka_run_group_tests_name("filter", tests, NULL, NULL);
}
