/* test-child.c - base/child.h: what a child has and has not, and one that does not die at once. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
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

struct seer {
	int keep[CHILD_KEPT];
	const void *page; /* of the maker */
	pid_t maker;
};

/* What a child of the spare sees: not the page, the descriptor, its maker as its parent. */
static void look_for_page(void *arg)
{
	const struct seer *s = arg;
	unsigned char resident;
	char seen[3];

	seen[0] = (char)('0' + (mincore((void *)(uintptr_t)s->page, 1, &resident) == 0));
	seen[1] = (char)('0' + (getppid() == s->maker));
	seen[2] = (char)('0' + (s->keep[1] == -1));
	(void)!write(s->keep[0], seen, sizeof(seen));
}

static bool sees_page(const void *page)
{
	struct seer seer = {.page = page, .maker = getpid()};
	struct child c = {
		.name = NAME, .run = look_for_page, .arg = &seer, .arg_size = sizeof(seer)};
	char seen[4] = "";
	int pair[2];
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	c.keep[0] = seer.keep[0] = pair[0];
	c.keep[1] = seer.keep[1] = -1;
	assert_int_equal(child_start(&c, &pid), 0);
	(void)close(pair[0]);
	assert_int_equal(recv(pair[1], seen, 3, MSG_WAITALL), 3);
	assert_string_equal(seen + 1, "11");
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	(void)close(pair[1]);
	return seen[0] == '1';
}

/* On a busy machine the spare may not run for long; then the child is forked from here. */
static void expect_no_page(const void *page)
{
	int tries = 0;

	while (sees_page(page))
		assert_true(++tries < 100);
}

static pid_t only_child(void)
{
	_cleanup_(freep) char *text = NULL;

	assert_int_equal(read_file("/proc/thread-self/children", 4096, &text, NULL), 0);
	return (pid_t)strtol(text, NULL, 10); /* NOLINT */
}

static void *late_page(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(page != MAP_FAILED);
	return memset(page, 1, 4096);
}

static void test_spare(void **state)
{
	void *page;
	pid_t spare;

	(void)state;
	child_spare();
	child_spare(); /* another user of the same */
	page = late_page();
	for (int i = 0; i < 3; i++)
		expect_no_page(page);
	child_spare_end();
	expect_no_page(page);
	child_spare_end();
	while (child_left("pw-spare"))
		(void)poll(NULL, 0, 1);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_true(sees_page(page));
	/* One that is killed is missed by no child. */
	child_spare();
	page = late_page();
	expect_no_page(page);
	spare = only_child();
	assert_true(spare > 0);
	assert_int_equal(kill(spare, SIGKILL), 0);
	assert_int_equal(waitid(P_PID, (id_t)spare, NULL, WEXITED | WNOWAIT), 0);
	assert_true(sees_page(page));
	child_spare_end();
}

/* The kernel's counters of memory are off by some pages of each CPU. */
enum { MIB = 1 << 20, USED = 24, LEAST_KB = (USED - 1) << 10 };

static void use_memory(void *arg)
{
	const int *fds = arg;
	void *memory =
		mmap(NULL, USED * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char byte;

	if (memory != MAP_FAILED) {
		memset(memory, 1, USED * MIB);
		(void)munmap(memory, USED * MIB);
	}
	(void)!write(fds[0], "x", 1);
	(void)!read(fds[0], &byte, 1);
}

static pid_t start_user(int pair[static 2])
{
	struct child c = {.name = NAME, .calls = CHILD_CALLS_GIVEN, .run = use_memory, .arg = pair};
	char byte;
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	c.keep[0] = pair[0];
	c.keep[1] = -1;
	assert_int_equal(child_start(&c, &pid), 0);
	(void)close(pair[0]);
	assert_int_equal(read(pair[1], &byte, 1), 1);
	return pid;
}

/* Of children that run at a time the sum counts, of those that follow each other the most; also of one that ends by itself. */
static void test_peak(void **state)
{
	int pairs[2][2];
	pid_t pids[2];
	uint64_t one, two;

	(void)state;
	one = child_peak_kb();
	assert_true(one < USED * MIB >> 10);
	pids[0] = start_user(pairs[0]);
	(void)close(pairs[0][1]);
	assert_int_equal(waitid(P_PID, (id_t)pids[0], NULL, WEXITED | WNOWAIT), 0);
	child_end(pids[0], NAME, 20000);
	one = child_peak_kb();
	assert_true(one >= LEAST_KB);
	for (int i = 0; i < 2; i++) {
		pids[i] = start_user(pairs[i]);
		child_end(pids[i], NAME, 20000);
		(void)close(pairs[i][1]);
	}
	two = child_peak_kb();
	assert_true(two < 2 * USED * MIB >> 10);
	for (int i = 0; i < 2; i++)
		pids[i] = start_user(pairs[i]);
	for (int i = 0; i < 2; i++) {
		child_end(pids[i], NAME, 20000);
		(void)close(pairs[i][1]);
	}
	assert_true(child_peak_kb() >= 2 * LEAST_KB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_has),   cmocka_unit_test(test_ends),
		cmocka_unit_test(test_left),  cmocka_unit_test(test_landlock),
		cmocka_unit_test(test_spare), cmocka_unit_test(test_peak),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
