/* test-cli-calls.c - each allocation and system call with which the socket of triggers, a held-back command, a request to a daemon,
 * a flight recorder and a file of raw records are made fails once. */
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/unit/fail-calls.h"

#include "cli/ask.h"
#include "cli/flight.h"
#include "cli/raw.h"
#include "cli/spawn.h"
#include "cli/trigger-socket.h"
#include "daemon/control/control-protocol.h"

static struct loop loop;

static int no_trigger(void *arg, const char *name, uint32_t uid)
{
	(void)arg;
	(void)name;
	(void)uid;
	return 1;
}

static int no_start(void *arg)
{
	(void)arg;
	return 1;
}

static int make_trigger_socket(void *arg)
{
	static const struct trigger_events events = {no_trigger, no_start, NULL};

	return trigger_socket_new(&events, &loop, arg);
}
static void end_trigger_socket(void *arg)
{
	(void)trigger_socket_free(*(struct trigger_socket **)arg);
}

static int make_spawn(void *arg)
{
	static char name[] = "true";
	char *argv[] = {name, NULL};

	return spawn_new(argv, arg);
}
static void end_spawn(void *arg)
{
	spawn_deinit(arg);
}

/* The connection is not accepted: the request stays in the socket. */
struct requests {
	struct sockaddr_un address;
	struct sink *sink;
	struct ask *ask;
	int listener;
};
static int make_ask(void *arg)
{
	struct requests *made = arg;
	Pb__ControlRequest q = PB__CONTROL_REQUEST__INIT;
	const struct ask_options options = {
		.socket = made->address.sun_path, .request = &q, .sink = made->sink};
	char error[256] = "";
	int r;

	q.has_version = true;
	q.version = CONTROL_VERSION;
	r = ask_new(&options, &loop, &made->ask, error, sizeof(error));
	if (r < 0 && !error[0])
		fail_msg("call %lu: %d without a line", calls_fail_at, r);
	return r;
}
static void end_ask(void *arg)
{
	struct requests *made = arg;
	int fd;

	(void)ask_free(made->ask);
	fd = accept(made->listener, NULL, NULL);
	(void)close(fd);
}

struct recorders {
	char path[64];
	struct flight *flight;
	struct sink *in;
};
static int make_flight(void *arg)
{
	const struct recorder_options options = {
		.bytes = RECORDER_BYTES_MIN, .clock = CLOCK_MONOTONIC, .plain = true};
	const struct flight_collect collect = {.tasks = true, .system = true};
	struct recorders *made = arg;

	return flight_new(made->path, &options, &collect, &made->flight, &made->in);
}
static void end_flight(void *arg)
{
	(void)flight_free(((struct recorders *)arg)->flight);
}

/* The file of before has its name again after an error, and is "FILE.old" next to a new one. */
struct raws {
	char path[64], old[70];
	bool replaced;
	struct perfdata_out *raw;
};
static int make_raw(void *arg)
{
	struct raws *made = arg;
	int r = raw_open(made->path, 1, &made->replaced, &made->raw);

	if (access(made->path, F_OK) < 0 || (access(made->old, F_OK) == 0) != (r >= 0))
		fail_msg("call %lu: %d, and the file of before is not in its place", calls_fail_at,
			 r);
	return r;
}
static void end_raw(void *arg)
{
	struct raws *made = arg;

	(void)perfdata_out_free(made->raw);
	raw_discard(made->path, made->replaced);
}

static void test_all(void **state)
{
	char folder[] = "/tmp/perfwind-calls.XXXXXX";
	struct requests requests = {.address = {.sun_family = AF_UNIX}};
	struct recorders recorders = {0};
	struct raws raws = {0};
	struct trigger_socket *triggers;
	struct spawn spawn;
	const struct calls_made all[] = {
		{"triggers", make_trigger_socket, end_trigger_socket, &triggers},
		{"spawn", make_spawn, end_spawn, &spawn},
		{"ask", make_ask, end_ask, &requests},
		{"flight", make_flight, end_flight, &recorders},
		{"raw", make_raw, end_raw, &raws},
	};

	(void)state;
	assert_non_null(mkdtemp(folder));
	(void)snprintf(requests.address.sun_path, sizeof(requests.address.sun_path), "%s/s",
		       folder);
	(void)snprintf(recorders.path, sizeof(recorders.path), "%s/t.pftrace", folder);
	(void)snprintf(raws.path, sizeof(raws.path), "%s/raw", folder);
	(void)snprintf(raws.old, sizeof(raws.old), "%s.old", raws.path);
	assert_int_equal(close(open(raws.path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)), 0);
	assert_int_equal(sink_memory_new(&requests.sink), 0);
	requests.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(requests.listener, (struct sockaddr *)&requests.address,
			      sizeof(requests.address)),
			 0);
	assert_int_equal(listen(requests.listener, 8), 0);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		calls_sweep(&all[i]);
	(void)close(requests.listener);
	(void)unlink(requests.address.sun_path);
	(void)sink_free(requests.sink);
	assert_int_equal(unlink(raws.path), 0);
	assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};

	assert_int_equal(loop_init(&loop), 0);
	return cmocka_run_group_tests_name("cli-calls", tests, NULL, NULL);
}
