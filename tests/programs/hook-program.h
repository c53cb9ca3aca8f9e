/* hook-program.h - what the programs share that a hook is loaded into: PROGRAM MODE [NUMBER] prints
 * "ready" on standard output, then does what the mode demands until it ends, at the end of
 * standard input.  Ends with 0, or with a line on standard error and 1.  Thread: any. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t own_calls;

static inline void own_handler(int signal)
{
	(void)signal;
	own_calls++;
}

static inline void check(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s\n", what);
	exit(1);
}

static inline int count_files(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Until standard input has a line or ends; a signal does not end it. */
static inline void await_end(void)
{
	char c;

	puts("ready");
	fflush(stdout);
	while (read(0, &c, 1) < 0 && errno == EINTR)
		;
}

static inline void await_child(pid_t child, int wanted, const char *what)
{
	int status = 0;

	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	check(status == wanted, what);
}

struct mode {
	const char *name;
	void (*run)(int number);
};

static inline int run_mode(const struct mode *modes, size_t n, int argc, char **argv)
{
	for (size_t i = 0; argc >= 2 && i < n; i++) {
		if (strcmp(argv[1], modes[i].name))
			continue;
		modes[i].run(argc > 2 ? atoi(argv[2]) : 0);
		return 0;
	}
	fprintf(stderr, "usage: PROGRAM MODE [NUMBER]\n");
	return 2;
}
