/* test-marks-calls.c - each allocation and system call with which the parts of marks are made and marks come to them fails once:
 * an error and nothing is kept, or the marks are right. */
#include <sched.h>
#include <sys/mount.h>

#include "marks/ftrace-print.h"
#include "marks/mark-functions.h"
#include "marks/mark-rings.h"
#include "marks/mark-text.h"
#include "marks/mark-tracks.h"
#include "marks/print-threads.h"
#include "tests/unit/fail-calls.h"

static int make_rings(void *arg)
{
	const struct mark_rings_options options = {.clock = CLOCK_MONOTONIC, .mask = 1};
	struct mark_rings **rings = arg;
	int r = mark_rings_new(&options, rings);

	if (r < 0)
		return r;
	r = mark_rings_allow(*rings, (uint32_t)getpid());
	if (r < 0)
		*rings = mark_rings_free(*rings);
	return r;
}
static void end_rings(void *arg)
{
	(void)mark_rings_free(*(struct mark_rings **)arg);
}

/* The memory that fill_memory() made is found, or there is an error.  The process that closes descriptors is there already. */
static int make_invitation(void *arg)
{
	int r = mark_rings_invite(*(struct mark_rings **)arg, (uint32_t)getpid());

	if (r > 0)
		fail_msg("call %lu: %d", calls_fail_at, r);
	return r;
}
static void end_nothing(void *arg)
{
	(void)arg;
}

/* The memory of a target, and a mark that has its number as value. */
struct ring {
	int fd;
	struct mark_ring_room *room;
	struct mark_ring *ring;
	uint64_t value;
};
static int see_mark(void *arg, const struct mark_ring_mark *mark)
{
	((struct ring *)arg)->value = mark->value;
	return 0;
}
static void fill_memory(int fd)
{
	struct marks_head head = {
		.magic = MARKS_MAGIC, .version = MARKS_VERSION, .pid = (uint32_t)getpid()};
	struct marks_slot slot = {.head = 1ull << 32 | MARKS_MARK_WORDS};
	uint64_t words[MARKS_MARK_WORDS] = {(uint64_t)MARKS_MARK_WORDS << 32 |
					    (uint64_t)MARKS_INSTANT << 48};

	words[2] = (uint64_t)getpid();
	words[3] = 4711;
	assert_int_equal(ftruncate(fd, (off_t)MARKS_BYTES), 0);
	assert_int_equal(pwrite(fd, &head, sizeof(head), 0), sizeof(head));
	assert_int_equal(pwrite(fd, &slot, sizeof(slot), MARKS_SLOTS_AT), sizeof(slot));
	assert_int_equal(pwrite(fd, words, sizeof(words), MARKS_DATA_AT), sizeof(words));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
}
static int make_ring(void *arg)
{
	struct ring *made = arg;
	int r = mark_ring_new(dup(made->fd), made->room, &made->ring);

	if (r < 0)
		return r;
	made->value = 0;
	r = mark_ring_read(made->ring, 10, see_mark, made);
	if (r < 0)
		made->ring = mark_ring_free(made->ring);
	else
		assert_int_equal(made->value, 4711);
	return r;
}
static void end_ring(void *arg)
{
	(void)mark_ring_free(((struct ring *)arg)->ring);
}

/* Nested functions of threads, one of which has a second stack: each has a slice, or is counted. */
enum { THREADS = 5, DEPTH = 100, STACK = 0x100000 };
struct slices {
	struct mark_functions *functions;
	size_t n;
};
static int count_slice(void *arg, const struct mark_function_slice *slice)
{
	(void)slice;
	((struct slices *)arg)->n++;
	return 0;
}
static int call(struct mark_functions *f, uint32_t tid, uint64_t depth, bool leave)
{
	const struct mark_function at = {.tid = tid,
					 .time = leave ? 3 * DEPTH - depth : depth + 1,
					 .address = depth + 1,
					 .site = depth + 0x1000,
					 .sp = STACK * (uint64_t)tid - depth * 64};

	return leave ? mark_functions_leave(f, &at) : mark_functions_enter(f, &at);
}
static int make_functions(void *arg)
{
	struct slices *made = arg;
	const struct mark_functions_options options = {.slice = count_slice, .arg = made};
	int r = mark_functions_new(&options, &made->functions);

	made->n = 0;
	if (r < 0)
		return r;
	r = mark_functions_stack(made->functions, STACK, 2 * STACK);
	for (uint32_t tid = 1; r >= 0 && tid <= THREADS; tid++)
		for (uint64_t depth = 0; r >= 0 && depth < DEPTH; depth++)
			r = call(made->functions, tid, depth, false);
	for (uint64_t depth = DEPTH; r >= 0 && depth-- > 0;)
		r = call(made->functions, 1, depth, true);
	if (r >= 0)
		r = mark_functions_end(made->functions);
	if (r >= 0 && made->n + mark_functions_dropped(made->functions) != THREADS * DEPTH)
		fail_msg("call %lu: %zu slices", calls_fail_at, made->n);
	if (r < 0)
		made->functions = mark_functions_free(made->functions);
	return r;
}
static void end_functions(void *arg)
{
	(void)mark_functions_free(((struct slices *)arg)->functions);
}

struct threads {
	struct mark_walk *walk;
	struct mark_threads *threads;
};
static int make_threads(void *arg)
{
	struct threads *made = arg;
	const uint32_t pid = (uint32_t)getpid();
	uint32_t tid = 0;
	int r = mark_walk_new("", &made->walk);

	if (r < 0)
		return r;
	/* As in a pid namespace, in which the process has another number: its threads are looked for. */
	r = mark_threads_new(made->walk, pid, pid + 1, &made->threads);
	if (r < 0) {
		(void)mark_walk_free(made->walk);
		return r;
	}
	for (int turns = 0;
	     turns < 3 && (r = mark_threads_find(made->threads, pid, &tid)) == MARK_THREADS_LATER;
	     turns++)
		if ((r = mark_walk_turn(made->walk)) < 0)
			break;
	if (r >= 0 && tid != pid)
		fail_msg("call %lu: thread %u is %u", calls_fail_at, pid, tid);
	if (r < 0) {
		(void)mark_threads_free(made->threads);
		(void)mark_walk_free(made->walk);
	}
	return r;
}
static void end_threads(void *arg)
{
	(void)mark_threads_free(((struct threads *)arg)->threads);
	(void)mark_walk_free(((struct threads *)arg)->walk);
}

struct tracks {
	struct sink *sink;
	struct writer *writer;
	struct mark_tracks *tracks;
};
static int make_tracks(void *arg)
{
	static const char *const texts[] = {"B|1|x",   "C|1|c|5",    "S|1|a|7", "G|1|t|n|8",
					    "N|1|t|i", "I|1|i",	     "F|1|a|7", "H|1|t|8",
					    "E|1",     "S|1|open|9", "free"};
	struct tracks *made = arg;
	uint64_t now = 1000;
	int r = mark_tracks_new(made->writer, &made->tracks);

	if (r < 0)
		return r;
	for (int tid = 1; tid < 100 && r >= 0; tid++)
		for (size_t i = 0; i < ARRAY_SIZE(texts) && r >= 0; i++) {
			struct mark m;

			(void)mark_text_parse(texts[i], strlen(texts[i]), &m);
			m.pid = 1;
			m.tid = tid;
			m.time_ns = now++;
			r = mark_tracks_add(made->tracks, &m);
		}
	if (r >= 0)
		r = mark_tracks_exit(made->tracks, 1, 1, true, now);
	if (r >= 0)
		r = mark_tracks_finish(made->tracks, now);
	if (r < 0)
		made->tracks = mark_tracks_free(made->tracks);
	sink_memory_clear(made->sink);
	return r;
}
static void end_tracks(void *arg)
{
	(void)mark_tracks_free(((struct tracks *)arg)->tracks);
}

/* A line of this process: it is of this process, or not yet known. */
struct prints {
	struct uw_modules *modules;
	struct process_table *processes;
	struct print_threads threads;
};
static int make_prints(void *arg)
{
	const uint32_t pid = (uint32_t)getpid();
	struct prints *made = arg;

	print_threads_init(&made->threads, "");
	for (int tries = 0; tries < 2; tries++)
		if (print_threads_process(&made->threads, made->processes, true, pid, 0) == pid)
			return 0;
	fail_msg("call %lu: the process is not found the second time", calls_fail_at);
	return -1;
}
static void end_prints(void *arg)
{
	print_threads_deinit(&((struct prints *)arg)->threads);
}

static int no_line(void *arg, uint32_t tid, uint64_t time, const char *text, size_t len)
{
	(void)arg;
	(void)tid;
	(void)time;
	(void)text;
	(void)len;
	return 0;
}
static int make_tracer(void *arg)
{
	static const struct ftrace_print_sink sink = {.line = no_line};
	struct ftrace_print **print = arg;
	int r = ftrace_print_new(CLOCK_MONOTONIC, print);

	if (r < 0)
		return r;
	r = ftrace_print_turn(*print, &sink);
	if (r < 0)
		*print = ftrace_print_free(*print);
	return r;
}
static void end_tracer(void *arg)
{
	(void)ftrace_print_free(*(struct ftrace_print **)arg);
}

static void test_all(void **state)
{
	struct ring ring = {.fd = memfd_create(MARKS_MEMFD, MFD_CLOEXEC | MFD_ALLOW_SEALING),
			    .room = calloc(1, sizeof(*ring.room))};
	const struct writer_options writer = {
		.leader = {.counter = 1}, .period = 1, .clock = CLOCK_MONOTONIC, .sequence_id = 2};
	struct mark_rings *rings;
	struct slices slices;
	struct threads threads;
	struct tracks tracks;
	struct prints prints;
	const struct calls_made all[] = {
		{"ring", make_ring, end_ring, &ring},
		{"rings", make_rings, end_rings, &rings},
		{"functions", make_functions, end_functions, &slices},
		{"threads", make_threads, end_threads, &threads},
		{"tracks", make_tracks, end_tracks, &tracks},
		{"prints", make_prints, end_prints, &prints},
	};

	(void)state;
	fill_memory(ring.fd);
	assert_int_equal(sink_memory_new(&tracks.sink), 0);
	assert_int_equal(writer_new(&writer, tracks.sink, &tracks.writer), 0);
	assert_int_equal(writer_start(tracks.writer), 0);
	assert_int_equal(uw_modules_new(&prints.modules), 0);
	assert_int_equal(process_table_new(prints.modules, 16, &prints.processes), 0);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		calls_sweep(&all[i]);
	assert_int_equal(make_rings(&rings), 0);
	calls_sweep(&(struct calls_made){"invitation", make_invitation, end_nothing, &rings});
	end_rings(&rings);
	no_child_is_left();
	(void)process_table_free(prints.processes);
	(void)uw_modules_free(prints.modules);
	(void)writer_free(tracks.writer);
	(void)sink_free(tracks.sink);
	free(ring.room);
	(void)close(ring.fd);
}

static void test_tracer(void **state)
{
	struct ftrace_print *print;
	int r = make_tracer(&print);

	(void)state;
	if (r < 0) {
		print_message("no instance of the tracer here: %s\n", strerror(-r));
		skip();
	}
	end_tracer(&print);
	calls_of_children = true;
	calls_sweep(&(struct calls_made){"tracer", make_tracer, end_tracer, &print});
	calls_of_children = false;
	no_child_is_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_all),
					   cmocka_unit_test(test_tracer)};

	/* A tracefs of its own, whatever the machine has mounted. */
	if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("nodev", "/sys/kernel/tracing", "tracefs", 0, NULL) != 0)
		print_message("no tracefs of its own: %s\n", strerror(errno));
	return cmocka_run_group_tests_name("marks-calls", tests, NULL, NULL);
}
