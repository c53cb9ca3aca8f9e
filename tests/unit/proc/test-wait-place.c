/* test-wait-place.c - wait-place.h: lines of the kernel, damaged ones, and a thread of this process. */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc/wait-place.h"
#include "tests/unit/cmocka.h"

static void test_lines(void **state)
{
	struct wait_place p = {0};

	(void)state;
	assert_int_equal(
		wait_place_parse(
			"230 0x1 0x0 0x7ffd10 0x7ffd10 0x0 0x0 0x7ffd12345678 0x7f1234567890\n",
			&p),
		0);
	assert_int_equal(p.number, 230);
	assert_int_equal(p.argument, 1);
	assert_int_equal(p.sp, 0x7ffd12345678);
	assert_int_equal(p.pc, 0x7f1234567890);
	assert_false(p.is_pipe);
	assert_int_equal(wait_place_parse("-1 0x7ffd0 0x401000\n", &p), 0);
	assert_int_equal(p.number, -1);
	assert_int_equal(p.sp, 0x7ffd0);
	assert_int_equal(wait_place_parse("running\n", &p), -EAGAIN);
}

static void test_damaged(void **state)
{
	static const char *const lines[] = {
		"",
		"\n",
		"-1 0x1\n",
		"-1 0x1 0x2 0x3\n",
		"5 0x1 0x2\n",
		"0 0x1 0x2 0x3 0x4 0x5 0x6 0x7\n",
		"0 0x1 0x2 0x3 0x4 0x5 0x6 0x7 0x8 0x9\n",
		"0 0x1 0x2 0x3 0x4 0x5 0x6 0x7 0x8x\n",
		"0 0x1 0x2 0x3 0x4 0x5 0x6 0x7 0x11112222333344445\n",
		"0 0x1 0x2 0x3 0x4 0x5 0x6 0x7 0x000000000000000000000000000000001\n",
		"--1 0x1 0x2\n",
		"-1 -0x1 0x2\n",
	};
	struct wait_place p = {.number = 77};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		assert_int_equal(wait_place_parse(lines[i], &p), -EBADMSG);
	assert_int_equal(p.number, 77);
}

/* A child that waits in a read from a pipe. */
static void test_live(void **state)
{
	int fds[2], tries = 0, r;
	uint64_t stack[16];
	struct wait_place p;
	pid_t pid;
	char c;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		(void)close(fds[1]);
		(void)!read(fds[0], &c, 1);
		_exit(0);
	}
	do {
		r = wait_place_read("", (uint32_t)pid, (uint32_t)pid, &p);
		if (r == -EACCES || r == -EPERM || r == -ENOENT) {
			(void)close(fds[1]);
			print_message("the kernel does not show system calls: %s\n", strerror(-r));
			skip();
		}
		(void)usleep(1000);
	} while ((r == -EAGAIN || p.number != SYS_read) && tries++ < 10000);
	assert_int_equal(r, 0);
	assert_int_equal(p.number, SYS_read);
	assert_int_equal(p.argument, fds[0]);
	wait_place_find_file("", (uint32_t)pid, &p);
	assert_true(p.is_pipe);
	assert_int_equal(wait_place_stack("", (uint32_t)pid, p.sp, stack, sizeof(stack)),
			 sizeof(stack));
	assert_true(wait_place_stack("", (uint32_t)pid, 8, stack, sizeof(stack)) < 0);
	(void)close(fds[1]);
	(void)waitpid(pid, NULL, 0);
	assert_true(wait_place_read("", (uint32_t)pid, (uint32_t)pid, &p) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_live),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
