/* test-own_rights.c - when the daemon is asked, and what is held back until that is known. */
#include <errno.h>
#include <fcntl.h>

#include "cli/own_rights.h"
#include "daemon/base/log.h"
#include "tests/unit/cli/daemon-fixture.h"

static void play(struct control_stream *s)
{
	(void)s;
}

/* Only what rights are missing for, and only where somebody can be asked. */
static void test_refused(void **state)
{
	struct own_rights own = {.may_ask = true, .socket = "/nowhere/control.sock"};
	struct fake_daemon fake;

	(void)state;
	assert_int_equal(own_rights_refused(&own, -EACCES), -EACCES);
	assert_string_equal(own.lacks, "cannot record: Permission denied");
	fake_daemon_start(&fake, play);
	own = (struct own_rights){.may_ask = true, .socket = fake.path, .lacks = "a reason"};
	assert_int_equal(own_rights_refused(&own, -EACCES), OWN_ASK);
	assert_int_equal(own_rights_refused(&own, -EPERM), OWN_ASK);
	assert_string_equal(own.lacks, "a reason");
	assert_int_equal(own_rights_refused(&own, -ESRCH), -ESRCH);
	own.may_ask = false;
	assert_int_equal(own_rights_refused(&own, -EACCES), -EACCES);
	fake_daemon_end(&fake);
}

static void test_enough(void **state)
{
	struct own_rights own = {.may_ask = true, .socket = "/nowhere/control.sock"};
	struct fake_daemon fake;

	(void)state;
	assert_int_equal(own_rights_enough(&own, true), 0);
	fake_daemon_start(&fake, play);
	own.socket = fake.path;
	assert_int_equal(own_rights_enough(&own, false), 0);
	assert_int_equal(own_rights_enough(&own, true), OWN_ASK_FOR_KERNEL);
	assert_non_null(strstr(own.lacks, "kernel"));
	own.may_ask = false;
	assert_int_equal(own_rights_enough(&own, true), 0);
	fake_daemon_end(&fake);
}

/* Standard error, as it was written between begin() and end(). */
static int saved_fd, read_fd_;

static void begin(void)
{
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	saved_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	assert_true(dup2(fds[1], STDERR_FILENO) >= 0);
	close(fds[1]);
	read_fd_ = fds[0];
}

static void end(char text[static 8192])
{
	size_t len = 0;
	ssize_t n;

	fflush(stderr);
	assert_true(dup2(saved_fd, STDERR_FILENO) >= 0);
	close(saved_fd);
	while ((n = read(read_fd_, text + len, 8191 - len)) > 0)
		len += (size_t)n;
	close(read_fd_);
	text[len] = 0;
}

static void test_held_back(void **state)
{
	struct own_rights own = {0};
	char text[8192];

	(void)state;
	log_level = LOG_LEVEL_NORMAL;
	begin();
	own_rights_noted(&own, "first");
	own_rights_noted(&own, "second");
	end(text);
	assert_string_equal(text, "");
	begin();
	own_rights_sure(&own);
	own_rights_noted(&own, "third");
	own_rights_sure(&own); /* nothing twice */
	end(text);
	log_level = LOG_LEVEL_QUIET;
	assert_string_equal(text, "perfwind: first\nperfwind: second\nperfwind: third\n");
	/* More than there is room for is told at once. */
	own = (struct own_rights){0};
	log_level = LOG_LEVEL_NORMAL;
	begin();
	for (int i = 0; i <= OWN_LINES; i++)
		own_rights_noted(&own, i == OWN_LINES ? "too many" : "held");
	end(text);
	log_level = LOG_LEVEL_QUIET;
	assert_string_equal(text, "perfwind: too many\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_enough),
		cmocka_unit_test(test_held_back),
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
