/* test-control-limits.c - what the limits of one user leave of what is asked for.  Other users are only to be had as root. */
#include <dirent.h>
#include <grp.h>

#include "base/log.h"
#include "config/config.h"
#include "daemon/control/control.c"
#include "tests/unit/daemon/control/control-fixture.h"

enum { ALICE = 61002 };

static struct control_fixture f;
static pid_t alices, others; /* 0: not root */

/* A process of @uid, in the group that its requests come from: it waits. */
static pid_t process_of(uid_t uid)
{
	int done[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe2(done, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		if (setgroups(0, NULL) < 0 || setresuid(uid, uid, uid) < 0)
			_exit(1);
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)prctl(PR_SET_DUMPABLE, 1); /* as after an exec */
		(void)!write(done[1], "", 1);
		pause();
	}
	close(done[1]);
	assert_int_equal(read(done[0], &byte, 1), 1);
	close(done[0]);
	return pid;
}

static int set_up(void **state)
{
	(void)state;
	alices = geteuid() ? 0 : process_of(ALICE);
	others = geteuid() ? 0 : process_of(ALICE + 1);
	control_fixture_init(&f);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	control_fixture_deinit(&f);
	fixture_end_child(&alices);
	fixture_end_child(&others);
	return 0;
}

/* Bytes of perf rings that this process has mapped. */
static uint64_t ring_bytes(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	uint64_t sum = 0;
	char line[512];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		unsigned long from, to;

		if (strstr(line, "[perf_event]") && sscanf(line, "%lx-%lx", &from, &to) == 2)
			sum += to - from;
	}
	fclose(file);
	return sum;
}

/* A user's memory, by the number of recordings that may run: 16 MiB each here, three quarters of it
 * rings. */
static void test_memory(void **state)
{
	Pb__ControlRequest q = control_fixture_request(&f);
	struct settings huge = f.settings;
	const char *text = "";
	uint64_t limited;
	size_t len = 0;

	(void)state;
	need_root();
	q.n_pids = 0;
	q.has_machine = q.machine = true;
	q.frequency = 2000;
	q.has_stack_bytes = true;
	q.stack_bytes = 65528;
	control_fixture_connect(&f, ALICE);
	control_fixture_ask(&f, &q);
	while (control_fixture_hear(&f, &text, &len) == CONTROL_NOTE)
		;
	limited = ring_bytes();
	/* The meta page of each ring comes before its data. */
	assert_true(limited > 0 && limited <= (12 << 20) + (1 << 20));
	/* It is the limit that does it. */
	huge.user_memory = 1 << 30;
	control_set_settings(f.control, &huge);
	control_fixture_connect(&f, ALICE);
	for (int i = 0; i < 2000 && ring_bytes(); i++)
		assert_int_equal(loop_run_once(&f.loop, 10), 0);
	assert_int_equal(ring_bytes(), 0);
	control_fixture_ask(&f, &q);
	while (control_fixture_hear(&f, &text, &len) == CONTROL_NOTE)
		;
	assert_true(ring_bytes() > limited);
}

static void test_rate(void **state)
{
	Pb__ControlRequest q = control_fixture_request(&f);

	(void)state;
	need_root();
	q.n_pids = 0;
	q.has_machine = q.machine = true;
	q.frequency = 2001;
	control_fixture_denied(
		&f, ALICE, &q,
		"2001 samples a second of a CPU are asked for in all, 2000 are allowed");
	f.settings.max_recordings = 0;
	control_set_settings(f.control, &f.settings);
	control_fixture_denied(&f, 0, &q, "0 recordings are running (max-recordings)");
}

/* A second connection, besides the fixture's. */
static void keep_client(struct control_stream *kept)
{
	*kept = f.client;
	kept->carried = f.packets; /* closed with it */
	f.packets = -1;
	control_stream_init(&f.client, -1, CONTROL_REPLY_MAX);
}

static void traced(Pb__ControlRequest *q, char *bytes, size_t size, const char *text)
{
	struct config *config;
	char error[CONFIG_ERROR_SIZE];
	size_t len;

	assert_int_equal(
		config_read("test", text, strlen(text), CONFIG_TEXT, &config, error, sizeof(error)),
		0);
	len = pb__trace_config__get_packed_size(config->message);
	assert_true(len <= size);
	*q = (Pb__ControlRequest)PB__CONTROL_REQUEST__INIT;
	q->has_version = q->has_trace_config = true;
	q->version = CONTROL_VERSION;
	q->trace_config.data = (uint8_t *)bytes;
	q->trace_config.len = pb__trace_config__pack(config->message, (uint8_t *)bytes);
	(void)config_free(config);
}

/* Messages before that are left out. */
static void answered(uid_t uid, Pb__ControlRequest *q, uint32_t wanted, const char *why)
{
	const char *text = "";
	char copy[1024] = "";
	uint32_t type;
	size_t len = 0;

	control_fixture_connect(&f, uid);
	control_fixture_ask(&f, q);
	while ((type = control_fixture_hear(&f, &text, &len)) == CONTROL_NOTE)
		;
	(void)snprintf(copy, sizeof(copy), "%.*s", (int)len, text);
	if (type != wanted || !strstr(copy, why))
		fail_msg("message %u: %s", type, copy);
}

/* The limits of one user hold over all that is theirs: recordings, traces, and the data sources of
 * these.  Another's, and root's, are not touched by them. */
static void test_traces(void **state)
{
#define SOURCE(hz)                                                                                 \
	"data_sources { config { name: 'linux.perf' perf_event_config { timebase { frequency: " hz \
	" counter: SW_CPU_CLOCK timestamp_clock: PERF_CLOCK_MONOTONIC } "                          \
	"callstack_sampling {} } } } "
	static char one[256], two[512], three[1024], huge[512], large[64];
	Pb__ControlRequest q;
	struct control_stream kept;

	(void)state;
	need_root();
	f.settings.user_recordings = 3;
	f.settings.user_memory = 48 << 20;
	control_set_settings(f.control, &f.settings);
	traced(&q, two, sizeof(two), "buffers { size_kb: 64 } " SOURCE("1100") SOURCE("1000"));
	answered(ALICE, &q, CONTROL_DENIED,
		 "2100 samples a second of a CPU are asked for in all, 2000 are allowed");
	/* Not by a sum that goes round. */
	traced(&q, huge, sizeof(huge),
	       "buffers { size_kb: 64 } " SOURCE("100") SOURCE("18446744073709551615"));
	answered(ALICE, &q, CONTROL_DENIED,
		 "18446744073709551615 samples a second of a CPU are asked for in all, 2000 are");
	traced(&q, three, sizeof(three),
	       "buffers { size_kb: 64 } " SOURCE("1") SOURCE("1") SOURCE("1") SOURCE("1"));
	answered(ALICE, &q, CONTROL_DENIED, "you have 3 recordings running");
	traced(&q, one, sizeof(one), "buffers { size_kb: 64 } " SOURCE("1500"));
	answered(ALICE, &q, CONTROL_ACCEPTED, "");
	keep_client(&kept);
	answered(ALICE, &q, CONTROL_DENIED,
		 "3000 samples a second of a CPU are asked for in all, 2000 are allowed");
	answered(ALICE + 1, &q, CONTROL_ACCEPTED, "");
	traced(&q, two, sizeof(two), "buffers { size_kb: 64 } " SOURCE("5000") SOURCE("5000"));
	answered(0, &q, CONTROL_ACCEPTED, "");
	/* Nor does the memory of root's buffers stand in a share. */
	traced(&q, large, sizeof(large), "buffers { size_kb: 8192 }");
	answered(ALICE, &q, CONTROL_DENIED,
		 "buffers of 8192 KiB are asked for, a recording may have 4096");
	traced(&q, two, sizeof(two), "buffers { size_kb: 8192 } " SOURCE("10"));
	answered(0, &q, CONTROL_ACCEPTED, "");
	control_stream_deinit(&kept);
}

/* One person may be many users: of what all have together a part is root's and members'. */
static void test_kept_recordings(void **state)
{
#define ONE SOURCE("1")
	static char seven[2048], one[256];
	Pb__ControlRequest q;
	struct control_stream kept;

	(void)state;
	need_root();
	f.settings.max_recordings = 8;
	f.settings.user_recordings = 8;
	control_set_settings(f.control, &f.settings);
	traced(&q, seven, sizeof(seven), "buffers { size_kb: 64 } " ONE ONE ONE ONE ONE ONE ONE);
	answered(ALICE, &q, CONTROL_ACCEPTED, "");
	keep_client(&kept);
	traced(&q, one, sizeof(one), "buffers { size_kb: 64 } " ONE);
	answered(ALICE + 1, &q, CONTROL_DENIED, "7 recordings are running (max-recordings)");
	answered(0, &q, CONTROL_ACCEPTED, "");
	control_stream_deinit(&kept);
#undef ONE
}

static uint64_t in_an_hour(void)
{
	return clock_ns(CLOCK_MONOTONIC) + 3600 * NSEC_PER_SEC;
}

static bool awaits_turn(void)
{
	for (int i = 0; i < 2000; i++) {
		for (const struct client *c = f.control->clients; c; c = c->next)
			if (c->waiting)
				return true;
		assert_int_equal(loop_run_once(&f.loop, 10), 0);
	}
	return false;
}

/* Main is held while a recording is opened and closed: of one person not as often as he likes. */
static void test_turns(void **state)
{
	Pb__ControlRequest q = control_fixture_request(&f);
	struct recording_turn *turn = NULL;

	(void)state;
	need_root();
	q.n_pids = 0;
	q.has_machine = q.machine = true;
	answered(ALICE, &q, CONTROL_ACCEPTED, "");
	for (size_t i = 0; i < RECORDING_TURNS; i++)
		if (f.control->recordings.turns[i].person == ALICE)
			turn = &f.control->recordings.turns[i];
	assert_non_null(turn);
	assert_true(turn->from > 0);
	/* After one more at once it is others' turn, for a while. */
	answered(ALICE, &q, CONTROL_ACCEPTED, "");
	turn->from = in_an_hour();
	control_fixture_connect(&f, ALICE);
	control_fixture_ask(&f, &q);
	assert_true(awaits_turn());
	turn->from = 1;
	answered(ALICE, &q, CONTROL_ACCEPTED, "");
	/* He does not wait for it. */
	turn->from = in_an_hour();
	control_fixture_connect(&f, ALICE);
	control_fixture_ask(&f, &q);
	assert_true(awaits_turn());
	answered(ALICE + 1, &q, CONTROL_ACCEPTED, "");
	for (int i = 0; i < 2000 && f.control->n_clients > 1; i++)
		assert_int_equal(loop_run_once(&f.loop, 5), 0);
	assert_int_equal(f.control->n_clients, 1);
	/* In vain. */
	control_fixture_connect(&f, ALICE);
	control_fixture_ask(&f, &q);
	assert_true(awaits_turn());
	f.control->clients->deadline = 0;
	control_fixture_expect(&f, CONTROL_DENIED, "keep the daemon from serving others");
	control_fixture_expect(&f, 0, NULL);
}

static void test_trace_memory(void **state)
{
	/* TraceConfig: buffers { size_kb: 4097 }, one linux.perf; 4 MiB are a quarter of 16. */
	static uint8_t config[] = {0x0a, 0x03, 0x08, 0x81, 0x20, 0x12, 0x0e, 0x0a, 0x0c, 0x0a, 0x0a,
				   'l',	 'i',  'n',  'u',  'x',	 '.',  'p',  'e',  'r',	 'f'};
	Pb__ControlRequest q = PB__CONTROL_REQUEST__INIT;

	(void)state;
	need_root();
	q.has_version = q.has_trace_config = true;
	q.version = CONTROL_VERSION;
	q.trace_config.data = config;
	q.trace_config.len = sizeof(config);
	answered(ALICE, &q, CONTROL_DENIED,
		 "buffers of 4097 KiB are asked for, a recording may have 4096");
}

/* Perf events that this process has open. */
static size_t open_events(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	size_t n = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		char target[64] = "";

		(void)!readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
		n += !strcmp(target, "anon_inode:[perf_event]");
	}
	(void)closedir(dir);
	return n;
}

/* Accepted, or denied with these words; how many events that took. */
static size_t events_of(uid_t uid, const Pb__ControlRequest *q, const char *why)
{
	Pb__ControlRequest copy = *q;
	size_t n;

	answered(uid, &copy, why ? CONTROL_DENIED : CONTROL_ACCEPTED, why ? why : "");
	n = open_events();
	control_stream_deinit(&f.client);
	for (int i = 0; i < 500 && open_events(); i++)
		assert_int_equal(loop_run_once(&f.loop, 10), 0);
	assert_int_equal(open_events(), 0);
	return n;
}

/* A process that is named often is one; how many may be named stands in the settings. */
static void test_processes(void **state)
{
	Pb__ControlRequest q = control_fixture_request(&f);
	uint32_t pids[600];
	size_t once;

	(void)state;
	need_root();
	once = events_of(0, &q, NULL);
	assert_true(once > 0);
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++)
		pids[i] = (uint32_t)f.child;
	q.has_children = q.children = true;
	q.pids = pids;
	q.n_pids = ARRAY_SIZE(pids);
	assert_int_equal(events_of(0, &q, NULL), once);
	f.settings.user_processes = 9; /* of two recordings */
	control_set_settings(f.control, &f.settings);
	for (uint32_t i = 0; i < 5; i++)
		pids[i] = i + 1;
	q.n_pids = 5;
	(void)events_of(ALICE, &q,
			"5 processes are asked for, a recording may have 4 (user-processes)");
	/* Few processes are named; with their children they are many: ours is a child. */
	f.settings.user_processes = 2;
	f.settings.all_groups[0] = 0;
	(void)snprintf(f.settings.all_users, sizeof(f.settings.all_users), "%u", ALICE);
	control_set_settings(f.control, &f.settings);
	pids[0] = (uint32_t)getpid();
	q.n_pids = 1;
	(void)events_of(ALICE, &q,
			"processes with their children are requested, but the limit of a");
}

/* Events of each thread are so many descriptors on each CPU: whole CPUs stand in where these are
 * past half of a user's share. */
static void test_descriptors(void **state)
{
	Pb__ControlRequest q = control_fixture_request(&f);
	size_t each, cpus;

	(void)state;
	need_root();
	(void)snprintf(f.settings.all_users, sizeof(f.settings.all_users), "%u", ALICE);
	control_set_settings(f.control, &f.settings);
	each = events_of(ALICE, &q, NULL);
	/* A CPU: two of the task's and two that hold the rings; and the task's clock. */
	assert_int_equal(each % 4, 1);
	cpus = each / 4;
	f.settings.user_descriptors = (uint32_t)(2 * cpus + 1) * 4; /* half of half */
	control_set_settings(f.control, &f.settings);
	assert_int_equal(events_of(ALICE, &q, NULL), each);
	f.settings.user_descriptors--;
	control_set_settings(f.control, &f.settings);
	assert_int_equal(events_of(ALICE, &q, NULL) % 2, 0); /* whole CPUs: no clock of a task */
	assert_int_equal(events_of(0, &q, NULL), each);
}

/* A user that may record their own processes gets events of these, whatever is asked for, and none of a CPU:
 * where the descriptors do not suffice the request is denied. */
static void test_own_events(void **state)
{
	Pb__ControlRequest q = control_fixture_request(&f);
	size_t each, rings;
	uint32_t pid;

	(void)state;
	need_root();
	each = events_of(0, &q, NULL);
	rings = each / 2; /* two for each CPU */
	pid = (uint32_t)alices;
	q.pids = &pid;
	assert_int_equal(events_of(ALICE, &q, NULL), each);
	/* Others may run as this user. */
	q.n_pids = 0;
	q.has_machine = q.machine = true;
	assert_int_equal((events_of(ALICE, &q, NULL) - rings) % (each - rings), 0);
	f.settings.user_descriptors = 2; /* of two recordings */
	control_set_settings(f.control, &f.settings);
	(void)events_of(ALICE, &q,
			"none of your processes can be recorded within the limit of 1 descriptors");
	q.n_pids = 1;
	q.machine = false;
	(void)events_of(ALICE, &q, "1 threads on");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define EACH(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
		EACH(test_memory),	    EACH(test_processes),
		EACH(test_descriptors),	    EACH(test_rate),
		EACH(test_trace_memory),    EACH(test_traces),
		EACH(test_kept_recordings), EACH(test_turns),
		EACH(test_own_events),
#undef EACH
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
