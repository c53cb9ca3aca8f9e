/* test-control-output.c - the descriptor for a client's packets: none, a bad one, a good one; a helper
 * that is lost, one that is stuck, and whose fault that is. */
#include <fcntl.h>
#include <signal.h>

#include "base/log.h"
#include "daemon/control/control-private.h"
#include "tests/unit/daemon/control/control-fixture.h"

enum { ALICE = 61002, BOB = 61003 };

static struct control_fixture f;
static Pb__ControlRequest request;

static int set_up(void **state)
{
	(void)state;
	control_fixture_init(&f);
	request = control_fixture_request(&f);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	control_fixture_deinit(&f);
	return 0;
}

static struct control_counts counts(void)
{
	struct control_counts c;

	control_counts(f.control, &c);
	return c;
}

static void run_until(bool (*done)(void))
{
	for (int i = 0; i < 2000 && !done(); i++)
		assert_int_equal(loop_run_once(&f.loop, 10), 0);
	assert_true(done());
}

static void served(void)
{
	control_fixture_connect(&f, geteuid());
	control_fixture_begin(&f, &request);
}

/* @fd is consumed. */
static void denied(uid_t uid, int fd, const char *why)
{
	control_fixture_connect_alone(&f, uid);
	if (fd >= 0)
		assert_int_equal(control_carry(&f.client, fd), 0);
	control_fixture_ask(&f, &request);
	control_fixture_expect(&f, CONTROL_DENIED, why);
	control_fixture_expect(&f, 0, NULL);
}

/* An old client sends no descriptor, another one forgets it: each is told. */
static void test_none(void **state)
{
	(void)state;
	denied(geteuid(), -1, "no descriptor for the packets");
	request.version = 1;
	denied(geteuid(), -1, "the request is of version 1");
	assert_int_equal(counts().denied, 2);
	assert_int_equal(counts().accepted, 0);
}

/* Each is told why not, and the next client is served. */
static void test_bad(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	denied(geteuid(), fds[0], "is no socket");
	denied(geteuid(), fds[1], "is no socket");
	denied(geteuid(), open("/dev/null", O_RDWR | O_CLOEXEC), "is no socket");
	denied(geteuid(), socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), "not SOCK_STREAM");
	assert_int_equal(counts().outputs, 4);
	served();
}

/* Its own connection: we would hold its other end, and never see it go. */
static void test_connection(void **state)
{
	(void)state;
	control_fixture_connect_alone(&f, geteuid());
	assert_int_equal(control_carry(&f.client, fcntl(f.client.fd, F_DUPFD_CLOEXEC, 0)), 0);
	control_fixture_ask(&f, &request);
	control_fixture_expect(&f, CONTROL_DENIED, "a socket with a name");
}

/* Many at once: one after the other, and none is forgotten. */
static void test_many(void **state)
{
	struct control_stream clients[8];
	const char *text = "";
	size_t len = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++) {
		control_fixture_connect_alone(&f, geteuid());
		assert_int_equal(control_carry(&f.client, open("/dev/null", O_RDWR | O_CLOEXEC)),
				 0);
		control_fixture_ask(&f, &request);
		clients[i] = f.client;
		control_stream_init(&f.client, -1, CONTROL_REPLY_MAX);
	}
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++) {
		f.client = clients[i];
		assert_int_equal(control_fixture_hear(&f, &text, &len), CONTROL_DENIED);
		control_stream_deinit(&f.client);
	}
	assert_int_equal(counts().outputs, ARRAY_SIZE(clients));
}

static bool is_looked_at(void)
{
	return f.control->outputs.state == OUTPUTS_LOOKS;
}

static bool is_idle(void)
{
	return f.control->outputs.state == OUTPUTS_IDLE;
}

/* A client that is gone meanwhile: what was found is let go. */
static void test_gone(void **state)
{
	(void)state;
	served();
	assert_int_equal(kill(helper_pid(f.control->outputs.helper), SIGSTOP), 0);
	control_fixture_connect(&f, geteuid());
	control_fixture_ask(&f, &request);
	run_until(is_looked_at);
	control_stream_deinit(&f.client);
	for (int i = 0; i < 10; i++)
		assert_int_equal(loop_run_once(&f.loop, 5), 0);
	assert_null(f.control->outputs.client);
	assert_int_equal(kill(helper_pid(f.control->outputs.helper), SIGCONT), 0);
	run_until(is_idle);
	served();
}

static void waits_as(struct control_stream *kept, uid_t uid)
{
	control_fixture_connect_alone(&f, uid);
	assert_int_equal(control_carry(&f.client, open("/dev/null", O_RDWR | O_CLOEXEC)), 0);
	control_fixture_ask(&f, &request);
	for (int i = 0; i < 10; i++)
		assert_int_equal(loop_run_once(&f.loop, 5), 0);
	*kept = f.client;
	control_stream_init(&f.client, -1, CONTROL_REPLY_MAX);
}

/* Whoever may record everything does not stand behind those who may not. */
static void test_order(void **state)
{
	struct control_outputs *o = &f.control->outputs;
	const struct client *first = NULL, *c;
	struct control_stream kept[3];

	(void)state;
	if (geteuid())
		skip();
	served();
	run_until(is_idle);
	assert_int_equal(kill(helper_pid(o->helper), SIGSTOP), 0);
	waits_as(&kept[0], ALICE);
	waits_as(&kept[1], BOB);
	waits_as(&kept[2], 0);
	first = o->client;
	assert_non_null(first);
	assert_int_equal(first->asker.uid, ALICE);
	assert_int_equal(kill(helper_pid(o->helper), SIGCONT), 0);
	for (c = first; c == first || !c; c = o->client) /* an answer is a turn */
		assert_int_equal(loop_run_once(&f.loop, 10), 0);
	assert_int_equal(c->asker.uid, 0);
	run_until(is_idle);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		control_stream_deinit(&kept[i]);
}

/* In its queue till its time is over: told so, and not as one who sent nothing. */
static void test_waits_too_long(void **state)
{
	(void)state;
	served();
	run_until(is_idle);
	assert_int_equal(kill(helper_pid(f.control->outputs.helper), SIGSTOP), 0);
	control_fixture_connect(&f, geteuid());
	control_fixture_ask(&f, &request);
	run_until(is_looked_at);
	f.control->outputs.client->deadline = 0;
	control_fixture_expect(&f, CONTROL_DENIED, "cannot be looked at now");
	assert_null(f.control->outputs.client);
	assert_int_equal(kill(helper_pid(f.control->outputs.helper), SIGCONT), 0);
	run_until(is_idle);
	served();
}

/* Its work is another one's; whoever waits is served. */
static void test_lost(void **state)
{
	(void)state;
	served();
	assert_int_equal(kill(helper_pid(f.control->outputs.helper), SIGKILL), 0);
	served();
	assert_int_equal(kill(helper_pid(f.control->outputs.helper), SIGSTOP), 0);
	served(); /* not before it is past its deadline */
}

/* One that does not come back from closing is abandoned, and the sender is refused for a while. */
static void test_stuck(void **state)
{
	struct control_outputs *o = &f.control->outputs;
	uint8_t what = OUTPUT_LET_GO;
	int stuck;

	(void)state;
	if (geteuid())
		skip();
	served();
	run_until(is_idle);
	stuck = helper_pid(o->helper);
	assert_int_equal(kill(stuck, SIGSTOP), 0);
	assert_int_equal(helper_ask(o->helper, &what, 1, -1), 0);
	while (helper_runnable(o->helper)) /* until the signal is there */
		(void)usleep(1000);
	o->state = OUTPUTS_CLOSES;
	o->person = ALICE;
	o->deadline = 0;
	control_outputs_tick(f.control, 1);
	assert_null(o->helper);
	assert_int_equal(o->state, OUTPUTS_IDLE);
	denied(ALICE, open("/dev/null", O_RDWR | O_CLOEXEC), "could not be closed: not now");
	denied(BOB, open("/dev/null", O_RDWR | O_CLOEXEC), "is no socket");
	served();
	assert_int_not_equal(helper_pid(o->helper), stuck);
	/* It is over after a while. */
	for (size_t i = 0; i < CONTROL_BLAMES; i++)
		o->blames[i].until = 0;
	denied(ALICE, open("/dev/null", O_RDWR | O_CLOEXEC), "is no socket");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define EACH(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
		EACH(test_none),  EACH(test_bad),   EACH(test_connection),
		EACH(test_many),  EACH(test_gone),  EACH(test_lost),
		EACH(test_stuck), EACH(test_order), EACH(test_waits_too_long),
#undef EACH
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
