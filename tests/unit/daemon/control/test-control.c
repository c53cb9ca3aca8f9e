/* test-control.c - the socket: how many may be there at once, and its end. */
#include "base/log.h"
#include "daemon/control/control.c"
#include "tests/unit/daemon/control/control-fixture.h"

enum { ALICE = 61002 };

static struct control_fixture f;

static int set_up(void **state)
{
	(void)state;
	control_fixture_init(&f);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	control_fixture_deinit(&f);
	return 0;
}

static size_t n_clients(void)
{
	for (int i = 0; i < 20; i++)
		assert_int_equal(loop_run_once(&f.loop, 1), 0);
	return f.control->n_clients;
}

static void test_kept_connections(void **state)
{
	enum { FOR_ALL = CONTROL_CLIENTS - CONTROL_RESERVED_CLIENTS };
	struct control_stream clients[FOR_ALL];

	(void)state;
	need_root();
	for (size_t i = 0; i < FOR_ALL; i++) {
		control_fixture_connect(&f, ALICE + (uid_t)(i / CONTROL_USER_CLIENTS));
		clients[i] = f.client;
		control_stream_init(&f.client, -1, CONTROL_REPLY_MAX);
		if (i % 64 == 63) /* the queue of those that wait is no longer than 128 */
			(void)n_clients();
	}
	assert_int_equal(n_clients(), FOR_ALL);
	/* Of a user with a full share, and of one without any. */
	control_fixture_connect(&f, ALICE);
	assert_int_equal(n_clients(), FOR_ALL);
	control_fixture_connect(&f, ALICE + 1000);
	assert_int_equal(n_clients(), FOR_ALL);
	control_fixture_connect(&f, 0);
	assert_int_equal(n_clients(), FOR_ALL + 1);
	for (size_t i = 0; i < FOR_ALL; i++)
		control_stream_deinit(&clients[i]);
}

/* A stop of the socket stops the recordings: each is completed. */
static void test_stop(void **state)
{
	Pb__ControlRequest q = control_fixture_request(&f);
	const char *text = "";
	uint32_t type;
	size_t len = 0;

	(void)state;
	control_fixture_connect(&f, geteuid());
	control_fixture_begin(&f, &q);
	control_stop(f.control);
	while ((type = control_fixture_hear(&f, &text, &len)) == CONTROL_NOTE)
		;
	assert_int_equal(type, CONTROL_DONE);
	control_fixture_expect(&f, 0, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define EACH(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
		EACH(test_kept_connections),
		EACH(test_stop),
#undef EACH
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
