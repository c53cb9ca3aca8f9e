/* own-terminal.h - a terminal of the test's own: a child with it as standard input and output, in a session
 * and the foreground of it. */
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

struct own_terminal {
	int control; /* what is typed is written here */
	int terminal;
	struct termios before;
	pid_t child;
};

/* False: none can be made. */
static inline bool own_terminal_open(struct own_terminal *t)
{
	t->control = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (t->control < 0 || grantpt(t->control) < 0 || unlockpt(t->control) < 0)
		return false;
	t->terminal = open(ptsname(t->control), O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(t->terminal >= 0);
	assert_int_equal(tcgetattr(t->terminal, &t->before), 0);
	return true;
}

/* The same.  @play's return is the child's exit status; it may not assert. */
static inline bool own_terminal_start(struct own_terminal *t, int (*play)(void))
{
	if (!own_terminal_open(t))
		return false;
	(void)fflush(NULL);
	t->child = fork();
	assert_true(t->child >= 0);
	if (!t->child) {
		if (setsid() < 0 || ioctl(t->terminal, TIOCSCTTY, 0) < 0 ||
		    dup2(t->terminal, STDIN_FILENO) < 0 || dup2(t->terminal, STDOUT_FILENO) < 0)
			_exit(99);
		_exit(play());
	}
	return true;
}

/* How the child ended, as wait has it. */
static inline int own_terminal_wait(struct own_terminal *t)
{
	int status;

	assert_int_equal(waitpid(t->child, &status, 0), t->child);
	return status;
}

static inline void own_terminal_end(struct own_terminal *t)
{
	close(t->control);
	close(t->terminal);
}

static inline bool same_modes(const struct termios *a, const struct termios *b)
{
	return a->c_lflag == b->c_lflag && a->c_iflag == b->c_iflag && a->c_oflag == b->c_oflag &&
	       !memcmp(a->c_cc, b->c_cc, sizeof(a->c_cc));
}

static inline void assert_as_before(const struct own_terminal *t)
{
	struct termios now;

	assert_int_equal(tcgetattr(t->terminal, &now), 0);
	assert_true(same_modes(&now, &t->before));
}

/* @play goes well in a terminal of its own, which is then as it was; @typed there, if not NULL. */
static inline void own_terminal_plays(int (*play)(void), const char *typed)
{
	struct own_terminal t;
	int status;

	if (!own_terminal_start(&t, play))
		skip();
	if (typed)
		assert_int_equal(write(t.control, typed, strlen(typed)), strlen(typed));
	status = own_terminal_wait(&t);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_as_before(&t);
	own_terminal_end(&t);
}
