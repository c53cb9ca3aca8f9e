/* test-own-session.c - when the daemon is asked, what is held back until that is known, and the system
 * calls that are left. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "cli/own-session.h"
#include "base/log.h"
#include "tests/unit/cli/daemon-fixture.h"
#include "tests/unit/session/rights-fixture.h"

static void play(struct control_stream *s)
{
	(void)s;
}

/* Only for missing privileges, and only where a daemon runs. */
static void test_refused(void **state)
{
	struct own_session own = {.may_ask = true, .socket = "/nowhere/control.sock"};
	struct fake_daemon fake;

	(void)state;
	assert_int_equal(own_session_refused(&own, -EACCES), -EACCES);
	assert_string_equal(own.lacks, "cannot record: Permission denied");
	fake_daemon_start(&fake, play);
	own = (struct own_session){.may_ask = true, .socket = fake.path, .lacks = "a reason"};
	assert_int_equal(own_session_refused(&own, -EACCES), OWN_ASK);
	assert_int_equal(own_session_refused(&own, -EPERM), OWN_ASK);
	assert_int_equal(own_session_refused(&own, -ENOSYS), OWN_ASK);
	assert_string_equal(own.lacks, "a reason");
	assert_int_equal(own_session_refused(&own, -ESRCH), -ESRCH);
	own.may_ask = false;
	assert_int_equal(own_session_refused(&own, -EACCES), -EACCES);
	fake_daemon_end(&fake);
}

static void test_enough(void **state)
{
	struct own_session own = {.may_ask = true, .socket = "/nowhere/control.sock"};
	struct fake_daemon fake;

	(void)state;
	assert_int_equal(own_session_enough(&own, true), 0);
	fake_daemon_start(&fake, play);
	own.socket = fake.path;
	assert_int_equal(own_session_enough(&own, false), 0);
	assert_int_equal(own_session_enough(&own, true), OWN_ASK_FOR_KERNEL);
	assert_non_null(strstr(own.lacks, "kernel"));
	own.may_ask = false;
	assert_int_equal(own_session_enough(&own, true), 0);
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
	struct own_session own = {0};
	char text[8192];

	(void)state;
	log_level = LOG_LEVEL_NORMAL;
	begin();
	own_session_noted(&own, NULL, "first");
	own_session_noted(&own, NULL, "second");
	end(text);
	assert_string_equal(text, "");
	begin();
	own_session_sure(&own);
	own_session_noted(&own, NULL, "third");
	own_session_noted(&own, NULL, "third");
	own_session_noted(&own, NULL, "second");
	own_session_sure(&own); /* nothing twice */
	end(text);
	log_level = LOG_LEVEL_QUIET;
	assert_string_equal(text, "perfwind: first\nperfwind: second\nperfwind: third\n");
	/* More than there is room for is reported at once. */
	own = (struct own_session){0};
	log_level = LOG_LEVEL_NORMAL;
	begin();
	for (int i = 0; i <= OWN_LINES; i++) {
		char line[32];

		(void)snprintf(line, sizeof(line), i == OWN_LINES ? "too many" : "held %d", i);
		own_session_noted(&own, NULL, line);
		own_session_noted(&own, NULL,
				  i < OWN_LINES ? line : "held 0"); /* equal lines are one */
	}
	end(text);
	log_level = LOG_LEVEL_QUIET;
	assert_string_equal(text, "perfwind: too many\n");
}

/* A limit, another note, and a second limit if there is the line @rings of it. */
static void expect_notes(int level, const char *rings, const char *expected)
{
	struct own_session own = {0};
	char text[8192];

	log_level = level;
	begin();
	own_session_noted(&own, "no kernel frames", "a kernel line");
	own_session_noted(&own, NULL, "other");
	if (rings)
		own_session_noted(&own, "small rings", rings);
	own_session_sure(&own);
	end(text);
	log_level = LOG_LEVEL_QUIET;
	assert_string_equal(text, expected);
}

/* Limits of the machine: one line for two, the line itself for one and with --verbose; other notes stay. */
static void test_limits(void **state)
{
	static const struct {
		int level;
		const char *rings, *expected;
	} cases[] = {
		{LOG_LEVEL_NORMAL, "a line of rings",
		 "perfwind: limited here: no kernel frames, small rings (hints: perfwind doctor)\n"
		 "perfwind: other\n"},
		{LOG_LEVEL_NORMAL, NULL, "perfwind: a kernel line\nperfwind: other\n"},
		{LOG_LEVEL_VERBOSE, "a line of rings",
		 "perfwind: a kernel line\nperfwind: other\nperfwind: a line of rings\n"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		expect_notes(cases[i].level, cases[i].rings, cases[i].expected);
}

/* Limits that an earlier command has shown are a short line; what is new is shown again, with all others. */
static void test_limits_as_before(void **state)
{
	static const struct {
		int level;
		const char *rings, *expected;
	} cases[] = {
		{LOG_LEVEL_NORMAL, NULL, "perfwind: a kernel line\nperfwind: other\n"},
		{LOG_LEVEL_NORMAL, NULL,
		 "perfwind: limited here: no kernel frames (hints: perfwind doctor)\n"
		 "perfwind: other\n"},
		{LOG_LEVEL_VERBOSE, NULL, "perfwind: a kernel line\nperfwind: other\n"},
		{LOG_LEVEL_QUIET, "rings of 1", ""}, /* not shown, so not known */
		{LOG_LEVEL_NORMAL, "rings of 1",
		 "perfwind: limited here: no kernel frames, small rings (hints: perfwind doctor)\n"
		 "perfwind: other\n"},
		{LOG_LEVEL_NORMAL, "rings of 1",
		 "perfwind: limited here: no kernel frames, small rings (hints: perfwind doctor)\n"
		 "perfwind: other\n"},
		{LOG_LEVEL_NORMAL, "rings of 2",
		 "perfwind: limited here: no kernel frames, small rings (hints: perfwind doctor)\n"
		 "perfwind: other\n"},
		{LOG_LEVEL_NORMAL, NULL,
		 "perfwind: limited here: no kernel frames (hints: perfwind doctor)\n"
		 "perfwind: other\n"},
	};
	char folder[] = "/tmp/test-own-session-XXXXXX", path[64];

	(void)state;
	assert_non_null(mkdtemp(folder));
	assert_int_equal(setenv("XDG_CACHE_HOME", folder, 1), 0);
	assert_int_equal(unsetenv("PERFWIND_NOTES"), 0);
	(void)snprintf(path, sizeof(path), "%s/perfwind/limits", folder);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		expect_notes(cases[i].level, cases[i].rings, cases[i].expected);
	/* a damaged file knows nothing; it is replaced */
	for (int i = 0; i < 2; i++) {
		struct own_session own = {0};
		char text[8192];

		if (!i) {
			FILE *f = fopen(path, "we");

			assert_non_null(f);
			for (int k = 0; k < 20000; k++)
				(void)fputc(k % 256, f);
			(void)fputs("a kernel line", f); /* no end */
			(void)fclose(f);
		}
		log_level = LOG_LEVEL_NORMAL;
		begin();
		own_session_noted(&own, "no kernel frames", "a kernel line");
		own_session_sure(&own);
		end(text);
		log_level = LOG_LEVEL_QUIET;
		assert_string_equal(text, i ? "perfwind: limited here: no kernel frames (hints: "
					      "perfwind doctor)\n"
					    : "perfwind: a kernel line\n");
	}
	(void)unlink(path);
	*strrchr(path, '/') = 0;
	(void)rmdir(path);
	(void)rmdir(folder);
	assert_int_equal(setenv("XDG_CACHE_HOME", "/dev/null", 1), 0);
}

/* An output's file can be put aside, no program can be run; neither is reported without -v. */
static const struct features none;

static int filter(void)
{
	char text[8192], *const argv[] = {(char *)(uintptr_t) "true", NULL};

	begin();
	own_session_give_up(&none, false);
	end(text);
	EXPECT(!*text);
	EXPECT(prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2);
	EXPECT(rename("/nowhere-1", "/nowhere-2") < 0 && errno == ENOENT);
	EXPECT(execve("/bin/true", argv, NULL) < 0 && errno == EPERM);
	return 0;
}

static int filter_reported(void)
{
	char text[8192], *const argv[] = {(char *)(uintptr_t) "true", NULL};

	log_level = LOG_LEVEL_VERBOSE;
	begin();
	own_session_give_up(&none, false);
	EXPECT(execve("/bin/true", argv, NULL) < 0 && errno == EPERM);
	end(text);
	EXPECT(strstr(text, "perfwind: system calls are filtered\n"));
	EXPECT(strstr(text, "perfwind: the filter refuses system call "));
	return 0;
}

/* Where filters cannot be had, as in some containers, it goes on without and reports it with -v only. */
static int filter_refused(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {.len = ARRAY_SIZE(code), .filter = code};
	char quiet[8192], verbose[8192];

	EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
	log_level = LOG_LEVEL_NORMAL;
	begin();
	own_session_give_up(&none, false);
	end(quiet);
	log_level = LOG_LEVEL_VERBOSE;
	begin();
	own_session_give_up(&none, false);
	end(verbose);
	EXPECT(!*quiet);
	EXPECT(strstr(verbose, "the filter of system calls cannot be loaded: Invalid argument\n"));
	EXPECT(syscall(SYS_ptrace, 12345, 0, 0, 0) < 0 && errno != EPERM);
	return 0;
}

CHILD(filter)
CHILD(filter_reported)
CHILD(filter_refused)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),		 cmocka_unit_test(test_enough),
		cmocka_unit_test(test_held_back),	 cmocka_unit_test(test_limits),
		cmocka_unit_test(test_limits_as_before), cmocka_unit_test(test_filter),
		cmocka_unit_test(test_filter_reported),	 cmocka_unit_test(test_filter_refused),
	};

	(void)setenv("XDG_CACHE_HOME", "/dev/null", 1);
	log_level = LOG_LEVEL_QUIET;
	(void)unsetenv("PERFWIND_REFUSED");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
