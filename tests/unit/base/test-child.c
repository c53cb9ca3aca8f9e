/* test-child.c - base/child.h: what a child has and has not, and one that does not die at once. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "tests/unit/cmocka.h"

#define NAME "test-child"

/* What it sees, a byte of '0' or '1' each, on the descriptor it was given. */
static void look(void *arg)
{
	const int *fds = arg;
	sigset_t blocked;
	char comm[16] = "", seen[5];
	int n = 0;

	(void)prctl(PR_GET_NAME, comm);
	(void)sigprocmask(SIG_SETMASK, NULL, &blocked);
	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	seen[0] = (char)('0' + !strcmp(comm, NAME));
	seen[1] = (char)('0' + (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1));
	seen[2] = (char)('0' + (sigismember(&blocked, SIGINT) == 1 &&
				sigismember(&blocked, SIGSYS) == 0));
	seen[3] = (char)('0' + n);
	seen[4] = (char)('0' + (fcntl(fds[2], F_GETFD) < 0));
	(void)!write(fds[0], seen, sizeof(seen));
}

static void expect_seen(int first, int second, int other, const char *wanted)
{
	int fds[3] = {first, second, other}, pair[2];
	struct child c = {.name = NAME, .keep = {first, second}, .run = look, .arg = fds};
	char seen[6] = "";
	pid_t pid;

	(void)pair;
	assert_int_equal(child_start(&c, &pid), 0);
	(void)close(first);
	assert_int_equal(recv(other, seen, 5, MSG_WAITALL), 5);
	assert_string_equal(seen, wanted);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* The standard three and what it was to keep, in whatever order. */
static void test_has(void **state)
{
	int pair[2], more[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	expect_seen(pair[1], -1, pair[0], "11141");
	assert_int_equal(pipe2(more, O_CLOEXEC), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	expect_seen(pair[1], more[0], pair[0], "11151");
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	expect_seen(pair[1], 0, pair[0], "11141"); /* one of the three itself */
	(void)close(more[0]);
	(void)close(more[1]);
}

static void stay(void *arg)
{
	(void)arg;
	for (;;)
		(void)pause();
}

static void test_ends(void **state)
{
	struct child c = {.name = NAME, .keep = {-1, -1}, .run = stay};
	pid_t pid;

	(void)state;
	assert_int_equal(child_start(&c, &pid), 0);
	while (child_runnable(pid))
		(void)poll(NULL, 0, 1);
	child_end(pid, NAME, 20000);
	assert_false(child_runnable(pid));
	assert_int_equal(child_left(NAME), 0);
	assert_int_equal(waitpid(pid, NULL, 0), -1);
	assert_int_equal(errno, ECHILD);
	/* Not waited for: the next check reaps it. */
	assert_int_equal(child_start(&c, &pid), 0);
	child_end(pid, NAME, 0);
	while (child_left(NAME))
		(void)poll(NULL, 0, 1);
	assert_int_equal(waitpid(pid, NULL, 0), -1);
	assert_int_equal(child_left("another"), 0);
}

/* vfork's parent sleeps where SIGKILL does not count until its child is gone: one that is left. */
static void hang(void *arg)
{
	const int *fds = arg;

	if (!vfork()) {
		char byte;

		(void)!write(fds[0], "v", 1);
		(void)!read(fds[0], &byte, 1);
		_exit(0);
	}
	_exit(0);
}

static void test_left(void **state)
{
	int pair[2];
	struct child c = {.name = NAME, .run = hang, .arg = pair};
	char byte;
	pid_t pid;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	c.keep[0] = pair[0];
	c.keep[1] = -1;
	assert_int_equal(child_start(&c, &pid), 0);
	assert_int_equal(read(pair[1], &byte, 1), 1);
	child_end(pid, NAME, 0);
	while (child_left(NAME))
		(void)poll(NULL, 0, 1);
	(void)close(pair[0]);
	(void)close(pair[1]);
}

/* What is given works, nothing else is reached. */
static void reach(void *arg)
{
	const int *fds = arg;
	char seen[3];

	seen[0] = (char)('0' + (open("/etc/passwd", O_RDONLY | O_CLOEXEC) < 0));
	seen[1] = (char)('0' + (open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC) < 0));
	seen[2] = (char)('0' + (access("/etc/passwd", F_OK) == 0)); /* no right of Landlock's */
	(void)!write(fds[0], seen, sizeof(seen));
}

static void expect_reached(enum child_calls calls, const char *wanted)
{
	int pair[2];
	struct child c = {.name = NAME, .calls = calls, .run = reach, .arg = pair};
	char seen[4] = "";
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	c.keep[0] = pair[0];
	c.keep[1] = -1;
	assert_int_equal(child_start(&c, &pid), 0);
	(void)close(pair[0]);
	assert_int_equal(recv(pair[1], seen, 3, MSG_WAITALL), 3);
	assert_string_equal(seen, wanted);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	(void)close(pair[1]);
}

static void test_landlock(void **state)
{
	(void)state;
	if (syscall(444, NULL, 0, 1) < 1)
		skip(); /* a kernel without */
	expect_reached(CHILD_CALLS_GIVEN, "001");
	child_landlock(true);
	expect_reached(CHILD_CALLS_OPEN, "001");
	expect_reached(CHILD_CALLS_GIVEN, "111");
	child_landlock(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_has),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_left),
		cmocka_unit_test(test_landlock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
