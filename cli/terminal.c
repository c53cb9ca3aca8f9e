/* terminal.c - see terminal.h. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/terminal.h"

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

bool terminal_colour(void)
{
	const char *no = getenv("NO_COLOR"), *terminal = getenv("TERM");

	return isatty(STDOUT_FILENO) && (!no || !*no) && terminal && strcmp(terminal, "dumb");
}
