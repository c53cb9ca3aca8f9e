/* test-spawn.c - a command held back and let go, or not; how it ended, as a status. */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/spawn.h"
#include "tests/unit/cmocka.h"

static char sh[] = "sh", dash_c[] = "-c", true_[] = "true", no_program[] = "/etc/passwd";

static int status_of(char *script)
{
	char *argv[] = {sh, dash_c, script, NULL};
	struct spawn spawn;
	siginfo_t info;
	int status = -1;

	assert_int_equal(spawn_new(argv, &spawn), 0);
	assert_int_equal(spawn_reap(&spawn, &status), 0);
	assert_int_equal(status, -1); /* it waits */
	assert_int_equal(spawn_go(&spawn), 0);
	assert_int_equal(waitid(P_PID, (id_t)spawn.pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(spawn_reap(&spawn, &status), 0);
	assert_true(status >= 0);
	assert_int_equal(spawn_reap(&spawn, &status), 0); /* and again: nothing more */
	spawn_deinit(&spawn);
	return spawn_exit_status(status);
}

static void test_status(void **state)
{
	char fine[] = "exit 0", own[] = "exit 7", killed[] = "kill -TERM $$";

	(void)state;
	assert_int_equal(status_of(fine), 0);
	assert_int_equal(status_of(own), 7);
	assert_int_equal(status_of(killed), 128 + SIGTERM);
}

/* Somebody else has waited for it. */
static void test_taken(void **state)
{
	char *argv[] = {true_, NULL};
	struct spawn spawn;
	int status = -1;

	(void)state;
	assert_int_equal(spawn_new(argv, &spawn), 0);
	assert_int_equal(spawn_go(&spawn), 0);
	assert_int_equal(waitpid(spawn.pid, NULL, 0), spawn.pid);
	assert_int_equal(spawn_reap(&spawn, &status), -ECHILD);
	assert_int_equal(spawn_exit_status(status), 1);
	spawn_deinit(&spawn);
}

static void test_never_let_go(void **state)
{
	char *argv[] = {true_, NULL};
	struct spawn spawn;

	(void)state;
	assert_int_equal(spawn_new(argv, &spawn), 0);
	spawn_deinit(&spawn);
	assert_int_equal(waitpid(spawn.pid, NULL, WNOHANG), -1); /* nothing is left behind */
	assert_int_equal(errno, ECHILD);
}

static void test_cannot_run(void **state)
{
	char *argv[] = {no_program, NULL};
	struct spawn spawn;

	(void)state;
	/* A folder of it that may not be looked into is another error. */
	assert_int_equal(setenv("PATH", "/usr/bin:/bin", 1), 0);
	assert_int_equal(spawn_check("no-such-command-here"), ENOENT);
	assert_int_equal(spawn_check("/etc/passwd"), EACCES);
	assert_int_equal(spawn_check("sh"), 0);
	assert_int_equal(spawn_new(argv, &spawn), 0);
	assert_int_equal(spawn_go(&spawn), EACCES);
	(void)waitpid(spawn.pid, NULL, 0);
	spawn_deinit(&spawn);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_taken),
		cmocka_unit_test(test_never_let_go),
		cmocka_unit_test(test_cannot_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
