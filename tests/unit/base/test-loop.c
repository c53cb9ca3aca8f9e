/* test-loop.c - sources, removal from within a callback, timers, errors. */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/loop.h"
#include "tests/unit/cmocka.h"

struct item {
	struct loop_source source;
	struct loop *loop;
	struct item *victim;
	int calls, result;
};

static int item_ready(struct loop_source *source, uint32_t events)
{
	struct item *item = container_of(source, struct item, source);

	assert_true(events & EPOLLIN);
	item->calls++;
	if (item->victim)
		loop_remove(item->loop, &item->victim->source);
	return item->result;
}

static int ready_fd(void)
{
	return eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
}

static void test_remove_within(void **state)
{
	struct loop loop;
	struct item a = {.loop = &loop}, b = {.loop = &loop};
	int fd_a = ready_fd(), fd_b = ready_fd();

	(void)state;
	assert_int_equal(loop_init(&loop), 0);
	a.victim = &b;
	b.victim = &a;
	assert_int_equal(loop_add(&loop, &a.source, fd_a, EPOLLIN, item_ready), 0);
	assert_int_equal(loop_add(&loop, &b.source, fd_b, EPOLLIN, item_ready), 0);
	/* Both are ready; the first callback removes the other source, the event of which is already
	 * fetched. */
	assert_int_equal(loop_run_once(&loop, 0), 0);
	assert_int_equal(a.calls + b.calls, 1);
	loop_remove(&loop, &a.source);
	loop_remove(&loop, &b.source); /* twice is fine */
	loop_remove(&loop, &b.source);
	loop_deinit(&loop);
	(void)close(fd_a);
	(void)close(fd_b);
}

static void test_error_ends(void **state)
{
	struct loop loop;
	struct item a = {.loop = &loop, .result = -EPROTO};
	int fd = ready_fd();

	(void)state;
	assert_int_equal(loop_init(&loop), 0);
	assert_int_equal(loop_add(&loop, &a.source, fd, EPOLLIN, item_ready), 0);
	assert_int_equal(loop_run(&loop), -EPROTO);
	loop_remove(&loop, &a.source);
	loop_deinit(&loop);
	(void)close(fd);
}

static struct loop timer_loop;
static int ticks;

static int tick(struct loop_timer *timer)
{
	(void)timer;
	if (++ticks == 3)
		loop_quit(&timer_loop);
	return 0;
}

static void test_timer(void **state)
{
	struct loop_timer timer = {.source.fd = -1};

	(void)state;
	assert_int_equal(loop_init(&timer_loop), 0);
	assert_int_equal(loop_timer_add(&timer_loop, &timer, NSEC_PER_MSEC, NSEC_PER_MSEC, tick),
			 0);
	assert_int_equal(loop_run(&timer_loop), 0);
	assert_int_equal(ticks, 3);
	assert_int_equal(loop_timer_set(&timer, 0, 0), 0); /* stopped */
	assert_int_equal(loop_run_once(&timer_loop, 20), 0);
	assert_int_equal(ticks, 3);
	loop_timer_remove(&timer_loop, &timer);
	loop_deinit(&timer_loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_remove_within),
		cmocka_unit_test(test_error_ends),
		cmocka_unit_test(test_timer),
	};

	return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
