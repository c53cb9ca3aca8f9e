/* test-marks-calls.c - each allocation and system call with which the parts of marks are made fails once. */
#include "marks/mark-functions.h"
#include "marks/mark-rings.h"
#include "marks/mark-threads.h"
#include "marks/mark-tracks.h"
#include "tests/unit/fail-calls.h"

static int make_rings(void *arg)
{
	const struct mark_rings_options options = {.clock = CLOCK_MONOTONIC, .mask = 1};

	return mark_rings_new(&options, arg);
}
static void end_rings(void *arg)
{
	(void)mark_rings_free(*(struct mark_rings **)arg);
}

static int none(void *arg, const struct mark_function_slice *slice)
{
	(void)arg;
	(void)slice;
	return 0;
}
static int make_functions(void *arg)
{
	const struct mark_functions_options options = {.slice = none};

	return mark_functions_new(&options, arg);
}
static void end_functions(void *arg)
{
	(void)mark_functions_free(*(struct mark_functions **)arg);
}

struct threads {
	struct mark_walk *walk;
	struct mark_threads *threads;
};
static int make_threads(void *arg)
{
	struct threads *made = arg;
	const uint32_t pid = (uint32_t)getpid();
	int r = mark_walk_new("", &made->walk);

	if (r >= 0) {
		r = mark_threads_new(made->walk, pid, pid, &made->threads);
		if (r < 0)
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
	struct writer *writer;
	struct mark_tracks *tracks;
};
static int make_tracks(void *arg)
{
	struct tracks *made = arg;

	return mark_tracks_new(made->writer, &made->tracks);
}
static void end_tracks(void *arg)
{
	(void)mark_tracks_free(((struct tracks *)arg)->tracks);
}

static void test_all(void **state)
{
	struct mark_rings *rings;
	struct mark_functions *functions;
	struct threads threads;
	struct tracks tracks;
	const struct writer_options writer = {.clock = CLOCK_MONOTONIC};
	struct sink *sink;
	const struct calls_made all[] = {
		{"rings", make_rings, end_rings, &rings},
		{"functions", make_functions, end_functions, &functions},
		{"threads", make_threads, end_threads, &threads},
		{"tracks", make_tracks, end_tracks, &tracks},
	};

	(void)state;
	assert_int_equal(sink_memory_new(&sink), 0);
	assert_int_equal(writer_new(&writer, sink, &tracks.writer), 0);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		calls_sweep(&all[i]);
	(void)writer_free(tracks.writer);
	(void)sink_free(sink);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};

	return cmocka_run_group_tests_name("marks-calls", tests, NULL, NULL);
}
