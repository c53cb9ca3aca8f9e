/* test-spawn.c - a command held back and let go, or not; how it ended, as a status. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/job.h"
#include "tests/unit/capture.h"
#include "tests/unit/cmocka.h"

static char sh[] = "sh", dash_c[] = "-c", true_[] = "true", no_program[] = "/etc/passwd";

static int status_of(char *script)
{
	char *argv[] = {sh, dash_c, script, NULL};
	struct spawn spawn;
	siginfo_t info;
	int status = -1;

	assert_int_equal(spawn_new(argv, false, &spawn), 0);
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

/* What it prints does not get among the data on our standard output. */
static void test_aside(void **state)
{
	char script[] = "echo aside", *argv[] = {sh, dash_c, script, NULL};
	struct capture out, err;
	struct spawn spawn;
	int status = -1;
	char *text;

	(void)state;
	capture_begin(&out, STDOUT_FILENO);
	capture_begin(&err, STDERR_FILENO);
	assert_int_equal(spawn_new(argv, true, &spawn), 0);
	assert_int_equal(spawn_go(&spawn), 0);
	while (status < 0)
		assert_int_equal(spawn_reap(&spawn, &status), 0);
	text = capture_end(&err);
	assert_string_equal(text, "aside\n");
	free(text);
	text = capture_end(&out);
	assert_string_equal(text, "");
	free(text);
	spawn_deinit(&spawn);
}

/* Somebody else has waited for it. */
static void test_taken(void **state)
{
	char *argv[] = {true_, NULL};
	struct spawn spawn;
	int status = -1;

	(void)state;
	assert_int_equal(spawn_new(argv, false, &spawn), 0);
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
	assert_int_equal(spawn_new(argv, false, &spawn), 0);
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
	assert_int_equal(spawn_new(argv, false, &spawn), 0);
	assert_int_equal(spawn_go(&spawn), EACCES);
	(void)waitpid(spawn.pid, NULL, 0);
	spawn_deinit(&spawn);
}

/* @name fails with @e, which ends perfwind with @status and this @message. */
static void assert_message(const char *name, int e, int status, const char *message)
{
	struct capture c;
	char *printed;

	capture_begin(&c, STDERR_FILENO);
	assert_int_equal(spawn_cannot_run(name, e, true), status);
	printed = capture_end(&c);
	assert_string_equal(printed, message);
	free(printed);
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(close(fd), 0);
}

static void test_why_not(void **state)
{
	char folder[] = "/tmp/spawn-XXXXXX", before[4096];

	(void)state;
	assert_non_null(getcwd(before, sizeof(before)));
	assert_non_null(mkdtemp(folder));
	assert_int_equal(chdir(folder), 0);
	put("script", "");
	assert_message("absent", ENOENT, 127, "perfwind: absent: command not found in $PATH\n");
	assert_message(
		"script", ENOENT, 127,
		"perfwind: script: command not found in $PATH (the file here is ./script)\n");
	assert_message("12,345", ENOENT, 127,
		       "perfwind: 12,345: command not found in $PATH (processes are given "
		       "with -p 12,345)\n");
	assert_message("./absent", ENOENT, 127, "perfwind: ./absent: No such file or directory\n");
	assert_message("./script", ENOENT, 127,
		       "perfwind: ./script: No such file or directory (the file is there: the "
		       "loader that it names is not)\n");
	put("script", "#! /no/such/shell -x\n");
	assert_message("./script", ENOENT, 127,
		       "perfwind: ./script: No such file or directory (the file is there: its "
		       "interpreter /no/such/shell is not)\n");
	put("script", "#!/bin/sh\r\n");
	assert_message("./script", ENOENT, 127,
		       "perfwind: ./script: No such file or directory (its interpreter '/bin/sh' "
		       "ends in a carriage return: sed -i 's/\\r$//' ./script)\n");
	put("script", "#!/no/\033shell");
	assert_message("./script", ENOENT, 127,
		       "perfwind: ./script: No such file or directory (the file is there: its "
		       "interpreter /no/?shell is not)\n");
	assert_message("/tmp", EACCES, 126, "perfwind: /tmp: Permission denied (it is a folder)\n");
	assert_message("./script", EACCES, 126,
		       "perfwind: ./script: Permission denied (it is not executable: chmod +x, "
		       "or its interpreter in front)\n");
	assert_int_equal(unlink("script"), 0);
	assert_int_equal(chdir(before), 0);
	assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_status),	   cmocka_unit_test(test_aside),
		cmocka_unit_test(test_taken),	   cmocka_unit_test(test_never_let_go),
		cmocka_unit_test(test_cannot_run), cmocka_unit_test(test_why_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
