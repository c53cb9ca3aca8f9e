/* terminal.c - see terminal.h.
 * A program that exits without restoring echo leaves the shell blind.  The saved settings are global, for the handlers
 * of fatal signals. */
#include <signal.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "cli/terminal.h"
#include "base/log.h"

enum { USUAL_COLUMNS = 80, USUAL_ROWS = 24 };

static bool terminal_size(struct winsize *ret_size)
{
	if (!isatty(STDOUT_FILENO))
		return false;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, ret_size) < 0)
		*ret_size = (struct winsize){0};
	return true;
}

int terminal_columns(void)
{
	struct winsize size;

	if (!terminal_size(&size))
		return 0;
	return size.ws_col ? size.ws_col : USUAL_COLUMNS;
}

int terminal_rows(void)
{
	struct winsize size;

	if (!terminal_size(&size))
		return 0;
	return size.ws_row ? size.ws_row : USUAL_ROWS;
}

bool terminal_refuses_output(const char *command, const char *output)
{
	if (!output || strcmp(output, "-") != 0 || !isatty(STDOUT_FILENO))
		return false;
	log_error("%s: -o -: the output is not text for a terminal (hint: redirect it, or -o FILE)",
		  command);
	return true;
}

void terminal_output_reported(void)
{
	__fpurge(stdout);
	clearerr(stdout);
}

bool terminal_colour(void)
{
	const char *no = getenv("NO_COLOR"), *terminal = getenv("TERM");

	return isatty(STDOUT_FILENO) && (!no || !*no) && terminal && strcmp(terminal, "dumb");
}

static struct termios usual; /* valid while `owner` is set */
static volatile sig_atomic_t
	owner; /* the process that changed it; forked helpers do not restore it */

void terminal_restore(void)
{
	if (owner != getpid())
		return;
	(void)tcsetattr(STDIN_FILENO, TCSANOW, &usual);
	owner = 0;
}

/* SA_RESETHAND: the signal, raised again, has its default action. */
static void fatal(int sig)
{
	terminal_restore();
	(void)raise(sig);
}

static void restore_on_faults(void)
{
	static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGQUIT};
	const struct sigaction action = {.sa_handler = fatal,
					 .sa_flags = (int)SA_RESETHAND | SA_NODEFER};
	struct sigaction is;

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		(void)sigaction(signals[i], &action, NULL);
	/* SIGSYS has a handler where denied system calls are logged (session/rights.h): not fatal. */
	if (sigaction(SIGSYS, NULL, &is) == 0 && is.sa_handler == SIG_DFL)
		(void)sigaction(SIGSYS, &action, NULL);
}

bool terminal_keys(void)
{
	struct termios keys;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) ||
	    tcgetpgrp(STDIN_FILENO) != getpgrp() || tcgetattr(STDIN_FILENO, &keys) < 0)
		return false;
	if (!owner) { /* else it is saved already (SIGSTOP and SIGCONT) */
		usual = keys;
		restore_on_faults();
	}
	owner = getpid();
	keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	keys.c_cc[VMIN] = keys.c_cc[VTIME] = 0; /* O_NONBLOCK would affect the shell as well */
	if (tcsetattr(STDIN_FILENO, TCSANOW, &keys) == 0)
		return true;
	owner = 0;
	return false;
}
