/* test-terminal.c - sizes, colours and keys, on a terminal of our own and without one. */
#include <signal.h>

#include "cli/terminal.h"
#include "tests/unit/cli/own-terminal.h"

static int standard = -1;

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
	struct own_terminal t;
	int columns[2], rows[2];
	bool colour[3], refused[2];

	(void)state;
	if (!own_terminal_open(&t))
		skip();
	assert_int_equal(ioctl(t.terminal, TIOCSWINSZ, &size), 0);
	become(t.terminal);
	refused[0] = terminal_refuses_output("record", "-");
	refused[1] = terminal_refuses_output("record", "x.pftrace");
	columns[0] = terminal_columns(); /* it does not report it */
	rows[0] = terminal_rows();
	size = (struct winsize){.ws_row = 7, .ws_col = 133};
	(void)ioctl(t.terminal, TIOCSWINSZ, &size);
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
	own_terminal_end(&t);
	assert_true(refused[0]);
	assert_false(refused[1]);
	assert_int_equal(columns[0], 80);
	assert_int_equal(rows[0], 24);
	assert_int_equal(columns[1], 133);
	assert_int_equal(rows[1], 7);
	assert_true(colour[0]);
	assert_false(colour[1]);
	assert_false(colour[2]);
}

/* ---- keys ---- */

/* Again and again, put back by its owner only.  The step that went wrong, 0: none. */
static int play_keys(void)
{
	struct termios before, now;
	pid_t child;

	if (tcgetattr(STDIN_FILENO, &before) < 0 || !terminal_keys() || !terminal_keys())
		return 1;
	if (tcgetattr(STDIN_FILENO, &now) < 0 || now.c_lflag & (ICANON | ECHO) ||
	    !(now.c_lflag & ISIG))
		return 2;
	if (read(STDIN_FILENO, &now, 1) != 0) /* no key was typed */
		return 3;
	child = fork();
	if (!child) {
		terminal_restore();
		_exit(0);
	}
	if (waitpid(child, NULL, 0) != child || tcgetattr(STDIN_FILENO, &now) < 0 ||
	    now.c_lflag & (ICANON | ECHO))
		return 4;
	terminal_restore();
	if (tcgetattr(STDIN_FILENO, &now) < 0 || !same_modes(&now, &before))
		return 5;
	terminal_restore();
	return terminal_keys() ? (terminal_restore(), 0) : 6;
}

static void test_keys(void **state)
{
	(void)state;
	own_terminal_plays(play_keys, NULL);
}

static int play_fault(void)
{
	if (!terminal_keys())
		return 1;
	(void)raise(SIGFPE);
	return 2;
}

/* It dies of the fault all the same. */
static void test_fault(void **state)
{
	struct own_terminal t;
	int status;

	(void)state;
	if (!own_terminal_start(&t, play_fault))
		skip();
	status = own_terminal_wait(&t);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGFPE);
	assert_as_before(&t);
	own_terminal_end(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_fault),
	};

	standard = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
