/* test-record-usdt.c - which of a process's files are searched for a static probe: a copy of this program, which has one. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/record-usdt.h"
#include "tests/unit/cmocka.h"

/* A note of sys/sdt.h. */
static void probe(void)
{
	__asm__ volatile("990: nop\n"
			 ".pushsection .note.stapsdt,\"\",%note\n"
			 ".balign 4\n"
			 ".4byte 992f-991f, 994f-993f, 3\n"
			 "991: .asciz \"stapsdt\"\n"
			 "992: .balign 4\n"
			 "993: .8byte 990b\n.8byte 0\n.8byte 0\n"
			 ".asciz \"unit\"\n.asciz \"tick\"\n.asciz \"\"\n"
			 "994: .balign 4\n"
			 ".popsection\n");
}

static const char *own_program;
static char top[] = "/tmp/perfwind-usdt-XXXXXX", dir[64], program[96];

static void copy_program(const char *to)
{
	int in = open(own_program, O_RDONLY | O_CLOEXEC);
	int out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	char bytes[65536];
	ssize_t n;

	assert_true(in >= 0 && out >= 0);
	while ((n = read(in, bytes, sizeof(bytes))) > 0)
		assert_int_equal(write(out, bytes, (size_t)n), n);
	(void)close(in);
	assert_int_equal(close(out), 0);
}

/* The copy runs until its standard input ends.  Returns when it does. */
static pid_t start(const char *path, int *ret_stop)
{
	int in[2], out[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		(void)dup2(in[0], STDIN_FILENO);
		(void)dup2(out[1], STDOUT_FILENO);
		(void)execl(path, path, "wait", (char *)NULL);
		_exit(127);
	}
	(void)close(in[0]);
	(void)close(out[1]);
	assert_true(pid > 0);
	assert_int_equal(read(out[0], &c, 1), 1);
	(void)close(out[0]);
	*ret_stop = in[1];
	return pid;
}

static void stop(pid_t pid, int fd)
{
	(void)close(fd);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* The event that becomes of unit:tick; @ret_message: what was logged. */
static const char *searched(pid_t pid, char to[SPEC_EVENT_MAX], char message[4096])
{
	int fd = memfd_create("stderr", MFD_CLOEXEC), was = dup(STDERR_FILENO);
	const uint32_t pids[] = {(uint32_t)pid};
	const char *event;
	ssize_t n;

	assert_true(fd >= 0 && was >= 0);
	assert_true(dup2(fd, STDERR_FILENO) >= 0);
	event = record_usdt("usdt:unit:tick", NULL, pids, 1, to);
	assert_true(dup2(was, STDERR_FILENO) >= 0);
	n = pread(fd, message, 4095, 0);
	message[n > 0 ? n : 0] = 0;
	(void)close(fd);
	(void)close(was);
	return event;
}

static void expect_found(pid_t pid)
{
	char to[SPEC_EVENT_MAX], message[4096], expected[SPEC_EVENT_MAX];

	(void)snprintf(expected, sizeof(expected), "usdt:%s:unit:tick", program);
	assert_string_equal(searched(pid, to, message), expected);
	assert_string_equal(message, "");
}

static void expect_passed(pid_t pid, const char *path)
{
	char to[SPEC_EVENT_MAX], message[4096], hint[256];

	(void)snprintf(hint, sizeof(hint), "-e usdt:%s:unit:tick", path);
	assert_string_equal(searched(pid, to, message), "usdt:unit:tick");
	assert_non_null(strstr(message, hint));
}

static void test_trust(void **state)
{
	int fd;
	pid_t pid = start(program, &fd);

	(void)state;
	expect_found(pid);
	assert_int_equal(chmod(program, 0775), 0);
	expect_passed(pid, program);
	assert_int_equal(chmod(program, 0755), 0);
	assert_int_equal(chmod(dir, 0777), 0);
	expect_passed(pid, program);
	assert_int_equal(chmod(dir, 0755), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(program, 65534, 65534), 0);
		expect_passed(pid, program);
		assert_int_equal(chown(program, 0, 0), 0);
	}
	expect_found(pid);
	stop(pid, fd);
}

/* What ends the path in an event's text. */
static void test_path(void **state)
{
	static const char *const names[] = {"a,b", "a:b"};
	char path[128];
	pid_t pid;
	int fd;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		copy_program(path);
		pid = start(path, &fd);
		expect_passed(pid, path);
		stop(pid, fd);
		(void)unlink(path);
	}
}

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(top))
		return -1;
	(void)snprintf(dir, sizeof(dir), "%s/d", top);
	(void)snprintf(program, sizeof(program), "%s/program", dir);
	if (mkdir(dir, 0755) < 0)
		return -1;
	copy_program(program);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	(void)unlink(program);
	(void)rmdir(dir);
	return rmdir(top);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trust),
		cmocka_unit_test(test_path),
	};
	char c;

	probe();
	if (argc > 1) { /* the process that is searched */
		return write(STDOUT_FILENO, "x", 1) == 1 && read(STDIN_FILENO, &c, 1) == 0 ? 0 : 1;
	}
	own_program = argv[0];
	log_level = LOG_LEVEL_NORMAL;
	return cmocka_run_group_tests(tests, setup, teardown);
}
