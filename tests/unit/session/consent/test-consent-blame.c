/* test-consent-blame.c - a process is blamed until it ends, its user after three; over a fake /proc.
 *
 * consent.c is compiled into this file: the tests reach into its tables. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "session/consent/consent.c"
#undef fail /* cmocka has one too */
#include "tests/unit/cmocka.h"

static char root[64];

static void put(uint32_t pid, const char *name, const char *text)
{
	char path[256];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/proc/%u", root, pid);
	(void)mkdir(path, 0755);
	(void)snprintf(path, sizeof(path), "%s/proc/%u/%s", root, pid, name);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void process(uint32_t pid, uint32_t uid, unsigned start)
{
	char text[512];

	(void)snprintf(text, sizeof(text),
		       "%u (some name) S 1 1 1 0 -1 0 0 0 0 0 5 6 0 0 20 0 1 0 %u 1 1 1\n", pid,
		       start);
	put(pid, "stat", text);
	(void)snprintf(text, sizeof(text), "Name:\tsome name\nUid:\t%u\t%u\t%u\t%u\nNSpid:\t%u\n",
		       uid, uid, uid, uid, pid);
	put(pid, "status", text);
}

static int set_up(void **state)
{
	char path[128];

	(void)state;
	(void)snprintf(root, sizeof(root), "/tmp/test-consent-blame-XXXXXX");
	if (!mkdtemp(root))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/proc", root);
	return mkdir(path, 0755);
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	(void)snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

static void test_process(void **state)
{
	struct blame b = {0};

	(void)state;
	process(10, 1000, 77);
	process(11, 1000, 78);
	assert_false(blame_has(&b, root, 10));
	blame_put(&b, root, 10, 1000);
	assert_true(blame_has(&b, root, 10));
	assert_false(blame_has(&b, root, 11));
	assert_false(blame_has(&b, root, 12)); /* not there */
	process(10, 1000, 99);		       /* the pid is another's */
	assert_false(blame_has(&b, root, 10));
	table_deinit(&b.processes);
	table_deinit(&b.users);
}

static void test_user(void **state)
{
	struct blame b = {0};

	(void)state;
	process(20, 1000, 1);
	process(21, 1001, 1);
	for (uint32_t i = 0; i < CONSENT_BLAMES; i++) {
		assert_false(blame_has(&b, root, 20));
		blame_put(&b, root, 100 + i, 1000); /* gone already: its user is known */
	}
	assert_true(blame_has(&b, root, 20));
	assert_false(blame_has(&b, root, 21));
	table_deinit(&b.processes);
	table_deinit(&b.users);
}

static void test_bounded(void **state)
{
	struct blame b = {0};

	(void)state;
	process(30, 1, 5);
	for (uint32_t i = 0; i < 5000; i++)
		blame_put(&b, root, 30, 1000 + i);
	assert_true(b.processes.n_used <= 1024 && b.users.n_used <= 1024);
	assert_true(blame_has(&b, root, 30));
	table_deinit(&b.processes);
	table_deinit(&b.users);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_process, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_user, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_bounded, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
