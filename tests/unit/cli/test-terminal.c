/* test-terminal.c - sizes and colours, on a terminal of our own and without one. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/terminal.h"
#include "tests/unit/cmocka.h"

static int standard = -1, control = -1;

/* Standard output becomes @fd. */
static void become(int fd)
{
	assert_int_equal(dup2(fd, STDOUT_FILENO), STDOUT_FILENO);
}

static void test_none(void **state)
{
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	int columns, rows;
	bool colour;

	(void)state;
	become(fd);
	columns = terminal_columns();
	rows = terminal_rows();
	colour = terminal_colour();
	become(standard);
	close(fd);
	assert_int_equal(columns, 0);
	assert_int_equal(rows, 0);
	assert_false(colour);
}

static void test_sizes(void **state)
{
	struct winsize size = {0};
	int terminal, columns[2], rows[2];
	bool colour[3];

	(void)state;
	control = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (control < 0 || grantpt(control) < 0 || unlockpt(control) < 0)
		skip();
	terminal = open(ptsname(control), O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(terminal >= 0);
	assert_int_equal(ioctl(terminal, TIOCSWINSZ, &size), 0);
	become(terminal);
	columns[0] = terminal_columns(); /* it does not say */
	rows[0] = terminal_rows();
	size = (struct winsize){.ws_row = 7, .ws_col = 133};
	(void)ioctl(terminal, TIOCSWINSZ, &size);
	columns[1] = terminal_columns();
	rows[1] = terminal_rows();
	unsetenv("NO_COLOR");
	setenv("TERM", "xterm", 1);
	colour[0] = terminal_colour();
	setenv("TERM", "dumb", 1);
	colour[1] = terminal_colour();
	setenv("TERM", "xterm", 1);
	setenv("NO_COLOR", "1", 1);
	colour[2] = terminal_colour();
	become(standard);
	close(terminal);
	close(control);
	assert_int_equal(columns[0], 80);
	assert_int_equal(rows[0], 24);
	assert_int_equal(columns[1], 133);
	assert_int_equal(rows[1], 7);
	assert_true(colour[0]);
	assert_false(colour[1]);
	assert_false(colour[2]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_sizes),
	};

	standard = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
