/* test-signals.c - signals as something that a loop waits for. */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "cli/signals.h"
#include "tests/unit/cmocka.h"

static int seen[4], n_seen;

static int ready(struct loop_source *source, uint32_t events)
{
	(void)events;
	while (n_seen < 4 && (seen[n_seen] = signals_next(source)))
		n_seen++;
	return 0;
}

static void test_come(void **state)
{
	static const int signals[] = {SIGUSR1, SIGUSR2};
	struct loop_source source = {.fd = -1};
	struct loop loop;
	int fd;

	(void)state;
	assert_int_equal(loop_init(&loop), 0);
	assert_int_equal(signals_watch(&loop, &source, signals, 2, ready), 0);
	fd = source.fd;
	assert_int_equal(raise(SIGUSR1), 0);
	assert_int_equal(raise(SIGUSR2), 0);
	assert_int_equal(loop_run_once(&loop, -1), 0);
	assert_int_equal(n_seen, 2);
	assert_int_equal(seen[0] + seen[1], SIGUSR1 + SIGUSR2);
	assert_int_equal(signals_next(&source), 0);
	signals_unwatch(&loop, &source);
	assert_int_equal(source.fd, -1);
	assert_int_equal(close(fd), -1);
	assert_int_equal(errno, EBADF);
	loop_deinit(&loop);
}

/* A reader that went away is an error of writing. */
static void test_pipe(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	close(fds[0]);
	assert_int_equal(write(fds[1], "x", 1), -1);
	assert_int_equal(errno, EPIPE);
	close(fds[1]);
}

/* A signal from this process, and none: then the sender stays as it was. */
static void test_sender(void **state)
{
	static const int signals[] = {SIGUSR1};
	struct loop_source source = {.fd = -1};
	struct loop loop;
	uint32_t pid = 7;

	(void)state;
	assert_int_equal(loop_init(&loop), 0);
	assert_int_equal(signals_watch(&loop, &source, signals, 1, ready), 0);
	assert_int_equal(signals_next_from(&source, &pid), 0);
	assert_int_equal(pid, 7);
	assert_int_equal(raise(SIGUSR1), 0);
	assert_int_equal(signals_next_from(&source, &pid), SIGUSR1);
	assert_int_equal(pid, getpid());
	signals_unwatch(&loop, &source);
	loop_deinit(&loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_come),
		cmocka_unit_test(test_pipe),
		cmocka_unit_test(test_sender),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
