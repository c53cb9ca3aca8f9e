/* child-process.h - real programs and processes for a test: built by the compiler that built the test,
 * stopped at a known place, and ended by their pid. */
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

/* A folder of its own, and a file name in it. */
static inline void temp_dir(char dir[static 64])
{
	strcpy(dir, "/tmp/perfwind-proc-XXXXXX");
	assert_non_null(mkdtemp(dir));
}

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static inline void remove_dir(const char *dir)
{
	(void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(close(fd), 0);
}

static inline int run(char *const argv[])
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		execvp(argv[0], argv);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* A program or shared library of @source with a build id. */
static inline void compile(const char *source, const char *path, bool shared)
{
	char from[300];
	char *argv[] = {(char *)"cc",
			(char *)"-O1",
			(char *)"-Wl,--build-id",
			shared ? (char *)"-shared" : (char *)"-pie",
			(char *)"-fPIC",
			(char *)"-o",
			(char *)path,
			from,
			NULL};

	(void)snprintf(from, sizeof(from), "%s.c", path);
	write_file(from, source);
	assert_int_equal(run(argv), 0);
}

struct child {
	pid_t pid;
	int to, from; /* one byte each way */
};

/* Runs @body in a child; it waits for us by child_wait(). */
static inline struct child child_new(void (*body)(int in, int out, void *arg), void *arg)
{
	int down[2], up[2];
	struct child c;

	assert_int_equal(pipe2(down, O_CLOEXEC), 0);
	assert_int_equal(pipe2(up, O_CLOEXEC), 0);
	c.pid = fork();
	if (!c.pid) {
		close(down[1]);
		close(up[0]);
		body(down[0], up[1], arg);
		_exit(0);
	}
	close(down[0]);
	close(up[1]);
	c.to = down[1];
	c.from = up[0];
	return c;
}

/* Until the child has written one byte. */
static inline void child_hear(const struct child *c)
{
	char byte;

	assert_int_equal(read(c->from, &byte, 1), 1);
}

static inline void child_go_on(const struct child *c)
{
	assert_int_equal(write(c->to, "g", 1), 1);
}

static inline void child_end(struct child *c)
{
	int status;

	close(c->to);
	close(c->from);
	if (c->pid > 0) {
		(void)kill(c->pid, SIGKILL);
		assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
	}
}

/* In the child: writes a byte, waits for one; the end of the pipe ends the child. */
static inline void child_stop(int in, int out)
{
	char byte;

	if (write(out, "s", 1) != 1 || read(in, &byte, 1) != 1)
		_exit(1);
}
