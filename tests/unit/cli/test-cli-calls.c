/* test-cli-calls.c - each allocation and system call with which the parts of commands are made fails once: the socket of triggers, a
 * held-back command, a request to a daemon, a flight recorder, files of raw records and snapshots, what is counted and recorded,
 * events, marks, the name of a session, and the table of `top`.  An error has a line, and nothing is kept. */
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/unit/cli/with-line.h"
#include "tests/unit/fail-calls.h"

#include "base/log.h"
#include "cli/ask.h"
#include "cli/cmd-stat.h"
#include "cli/flight.h"
#include "cli/job.h"
#include "cli/raw.h"
#include "cli/record-ask.h"
#include "cli/record-marks.h"
#include "cli/record-scope.h"
#include "cli/snapshot-file.h"
#include "cli/stat-targets.h"
#include "cli/debuginfod.h"
#include "cli/top.h"
#include "cli/cmd-trace.h"
#include "cli/trigger-socket.h"
#include "tests/unit/cli/daemon-fixture.h"

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

	return spawn_new(argv, false, arg);
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

/* ---- what is counted and recorded ---- */

struct scopes {
	struct stat_scope scope;
	struct stat_targets targets;
	size_t n; /* 0: not known yet */
};
static int open_targets(void *arg)
{
	struct scopes *made = arg;

	return stat_targets_init(&made->targets, &made->scope);
}
static void end_targets(void *arg)
{
	stat_targets_deinit(&((struct scopes *)arg)->targets);
}
static int make_targets(void *arg)
{
	struct scopes *made = arg;
	int r = with_line("targets", open_targets, made);

	if (r >= 0 && made->n && made->targets.n != made->n)
		fail_msg("call %lu: %zu targets of %zu", calls_fail_at, made->targets.n, made->n);
	if (r < 0)
		end_targets(made);
	else
		made->n = made->targets.n;
	if (r == -ESRCH || r == -EINVAL)
		fail_msg("call %lu: what exists is not there: %d", calls_fail_at, r);
	return r;
}

static int open_scope(void *arg)
{
	return record_scope_init(arg, "root", "/");
}
static int make_scope(void *arg)
{
	int r = with_line("scope", open_scope, arg);

	if (r == -EINVAL)
		fail_msg("call %lu: what exists is not there", calls_fail_at);
	return r;
}
static void end_nothing(void *arg)
{
	(void)arg;
}

static int make_events(void *arg)
{
	char error[512] = "";
	struct event_list *list = arg;
	int r;

	*list = (struct event_list){.n = 0};
	r = event_list_add(list, "{page-faults,uprobe:/proc/self/exe:main},cpu-clock", error,
			   sizeof(error));
	if (r < 0 && !error[0])
		fail_msg("call %lu: %d without a line", calls_fail_at, r);
	if (r < 0)
		event_list_deinit(list);
	return r;
}
static void end_events(void *arg)
{
	event_list_deinit(arg);
}

struct marks {
	struct record_args args;
	struct record_marks marks;
};
static int open_marks(void *arg)
{
	struct marks *made = arg;

	return record_marks_open(&made->args, false, true, &made->marks);
}
static int make_marks(void *arg)
{
	struct marks *made = arg;
	int r;

	made->marks = (struct record_marks){.rings = NULL};
	r = with_line("marks", open_marks, made);
	if (r < 0)
		record_marks_close(&made->marks);
	return r;
}
static void end_marks(void *arg)
{
	record_marks_close(&((struct marks *)arg)->marks);
}

/* ---- names and files ---- */

static int make_name(void *arg)
{
	return trace_name_take("calls", arg);
}
static void end_fd(void *arg)
{
	(void)close(*(int *)arg);
}

struct snapshots {
	char trace[64], name[80];
	int fd;
};
static int make_snapshot(void *arg)
{
	struct snapshots *made = arg;

	made->fd = snapshot_file_open(made->trace, made->name, sizeof(made->name));
	return made->fd;
}
static void end_snapshot(void *arg)
{
	const struct snapshots *made = arg;

	(void)close(made->fd);
	assert_int_equal(unlink(made->name), 0);
}

static int open_later(void *arg)
{
	return symbolize_later_start(arg, true, "x");
}
static int make_later(void *arg)
{
	return with_line("later", open_later, arg);
}
static void end_later(void *arg)
{
	symbolize_later_end(arg, NULL);
}

static int make_view(void *arg)
{
	static const struct top_args args = {.limit = 10};

	return top_view_init(arg, &args);
}
static void end_view(void *arg)
{
	top_view_deinit(arg);
}

/* ---- a recording by the daemon, from the request to the answer ---- */

static void play(struct control_stream *s)
{
	fake_send(s, CONTROL_ACCEPTED, "cpu-clock");
	(void)fake_hear(s);
}
struct asked {
	struct fake_daemon fake;
	struct job job;
	struct record_args args;
	struct record_ask ask;
};
static void end_asked(void *arg)
{
	struct asked *made = arg;

	record_ask_deinit(&made->ask);
	job_deinit(&made->job);
	fake_daemon_end(&made->fake);
	(void)unlink(made->args.output);
}
/* The daemon's own calls do not fail. */
static int make_asked(void *arg)
{
	static char name[] = "true", *argv[] = {name, NULL};
	struct asked *made = arg;
	unsigned long n = calls_fail_at;
	int r;

	calls_fail(0);
	fake_daemon_start(&made->fake, play);
	calls_fail(n);
	made->args.socket = made->fake.path;
	job_init(&made->job, argv);
	r = record_ask_open(&made->ask, &made->args, &made->job, "", false);
	if (r > 0 || (r < 0 && !made->ask.run.why[0]))
		fail_msg("call %lu: %d without a line", n, r);
	if (r < 0) {
		unsigned long calls = calls_made;

		calls_fail(0);
		end_asked(made);
		calls_made = calls;
	}
	return r;
}

static void sweep_all(const struct calls_made *all, size_t n)
{
	for (size_t i = 0; i < n; i++)
		calls_sweep(&all[i]);
}

static void test_scopes(void **state)
{
	const uint32_t self = (uint32_t)getpid();
	struct scopes threads = {.scope = {.by = STAT_THREAD,
					   .pids = &self,
					   .n_pids = 1,
					   .tids = &self,
					   .n_tids = 1,
					   .cpus = "0-3"}};
	struct scopes cpus = {.scope = {.by = STAT_CPU, .all = true}};
	struct scopes cgroups = {.scope = {.cgroups = "/"}};
	static struct event_list events;
	static struct marks marks = {.args = {.marks = true, .mark_categories = 1}};
	struct record_scope scope;
	struct top_view view;
	const struct calls_made all[] = {
		{"scope", make_scope, end_nothing, &scope},
		{"threads", make_targets, end_targets, &threads},
		{"CPUs", make_targets, end_targets, &cpus},
		{"events", make_events, end_events, &events},
		{"top", make_view, end_view, &view},
	};

	(void)state;
	sweep_all(all, ARRAY_SIZE(all));
	if (access("/sys/fs/cgroup/cgroup.procs", F_OK) == 0)
		calls_sweep(&(struct calls_made){"cgroups", make_targets, end_targets, &cgroups});
	marks.args.pids[0] = self;
	marks.args.n_pids = 1;
	calls_of_children = true;
	calls_sweep(&(struct calls_made){"marks", make_marks, end_marks, &marks});
	calls_of_children = false;
	no_child_is_left();
}

static void test_names(void **state)
{
	char folder[] = "/tmp/perfwind-calls.XXXXXX";
	static struct asked asked = {.args = {.frequency = 999, .plain = true}};
	static struct symbolize_later later;
	struct snapshots snapshots;
	char output[64];
	int fd;
	const struct calls_made all[] = {
		{"name", make_name, end_fd, &fd},
		{"snapshot", make_snapshot, end_snapshot, &snapshots},
		{"later", make_later, end_later, &later},
		{"recording", make_asked, end_asked, &asked},
	};

	(void)state;
	assert_non_null(mkdtemp(folder));
	(void)snprintf(snapshots.trace, sizeof(snapshots.trace), "%s/t.pftrace", folder);
	(void)snprintf(output, sizeof(output), "%s/o.pftrace", folder);
	asked.args.output = output;
	assert_int_equal(setenv("DEBUGINFOD_URLS", "http://127.0.0.1:9", 1), 0);
	sweep_all(all, ARRAY_SIZE(all));
	no_child_is_left();
	assert_int_equal(rmdir(folder), 0);
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
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_all),
					   cmocka_unit_test(test_scopes),
					   cmocka_unit_test(test_names)};

	assert_int_equal(loop_init(&loop), 0);
	return cmocka_run_group_tests_name("cli-calls", tests, NULL, NULL);
}
