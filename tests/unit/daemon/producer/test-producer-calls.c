/* test-producer-calls.c - each allocation and system call with which a producer, or the daemon, is made fails once. */
#include "daemon/producer/daemon.h"
#include "tests/unit/daemon/producer/fake-service.h"
#include "tests/unit/fail-calls.h"

static struct service s;

static int make_producer(void *arg)
{
	const struct producer_options options = {
		.socket = s.name, .name = "a.producer", .sources = note_sources, .n_sources = 2};

	return producer_new(&options, &note_events, &s, &s.loop, arg);
}
static void end_producer(void *arg)
{
	(void)producer_free(*(struct producer **)arg);
}

static int make_daemon(void *arg)
{
	const struct daemon_options options = {
		.socket = s.name, .producer_name = "a.producer", .settings = settings_default};

	return daemon_new(&options, &s.loop, arg);
}
static void end_daemon(void *arg)
{
	(void)daemon_free(*(struct daemon **)arg);
}

static void test_all(void **state)
{
	struct producer *producer;
	struct daemon *daemon;
	const struct calls_made all[] = {{"producer", make_producer, end_producer, &producer},
					 {"daemon", make_daemon, end_daemon, &daemon}};

	(void)state;
	service_init_alone(&s, "calls");
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		calls_sweep(&all[i]);
	loop_deinit(&s.loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};

	return cmocka_run_group_tests_name("producer-calls", tests, NULL, NULL);
}
