/* test-trace-calls.c - each allocation and system call with which a sink or a writer is made fails once. */
#include <stdio.h>
#include <stdlib.h>

#include "base/util.h"
#include "tests/unit/fail-calls.h"
#include "trace/late-sink.h"
#include "trace/writer.h"

static char path[64];
static struct sink *memory; /* a writer's */

static int file(void *arg)
{
	return sink_file_new(path, arg);
}
static int descriptor(void *arg)
{
	return sink_fd_new(-1, arg);
}
static int in_memory(void *arg)
{
	return sink_memory_new(arg);
}
static int deflate(void *arg)
{
	struct sink *inner;
	int r = sink_memory_new(&inner);

	return r < 0 ? r : sink_deflate_new(inner, arg);
}
static int threaded(void *arg)
{
	struct sink *inner;
	int r = sink_file_new(path, &inner);

	return r < 0 ? r : sink_threaded_new(inner, arg);
}
/* The file is made at the first packet. */
static int late(void *arg)
{
	static const uint8_t packet[] = {10, 2, 8, 1};
	struct sink **sink = arg;
	int r = late_sink_new_threaded(path, false, sink);

	if (r >= 0) {
		r = (*sink)->write(*sink, packet, sizeof(packet));
		if (r >= 0)
			r = (*sink)->flush(*sink);
		if (r < 0)
			(void)sink_free(*sink);
	}
	return r;
}
static void end_sink(void *arg)
{
	(void)sink_free(*(struct sink **)arg);
}

static int writer(void *arg)
{
	const struct writer_event follower = {.counter = 2};
	const struct writer_options options = {.leader = {.counter = 1},
					       .followers = &follower,
					       .n_followers = 1,
					       .frequency = 99,
					       .clock = CLOCK_MONOTONIC,
					       .tool = "test"};
	int r = writer_new(&options, memory, arg);

	if (r >= 0) {
		r = writer_start(*(struct writer **)arg);
		if (r < 0)
			(void)writer_free(*(struct writer **)arg);
	}
	return r;
}
static void end_writer(void *arg)
{
	(void)writer_free(*(struct writer **)arg);
}

static void test_sinks(void **state)
{
	struct sink *sink;
	const struct calls_made all[] = {
		{"file", file, end_sink, &sink},
		{"descriptor", descriptor, end_sink, &sink},
		{"memory", in_memory, end_sink, &sink},
		{"deflate", deflate, end_sink, &sink},
		{"threaded", threaded, end_sink, &sink},
		{"late", late, end_sink, &sink},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		calls_sweep(&all[i]);
	(void)unlink(path);
}

static void test_writer(void **state)
{
	struct writer *made;
	const struct calls_made of = {"writer", writer, end_writer, &made};

	(void)state;
	assert_int_equal(sink_memory_new(&memory), 0);
	calls_sweep(&of);
	(void)sink_free(memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_sinks),
					   cmocka_unit_test(test_writer)};

	(void)snprintf(path, sizeof(path), "/tmp/perfwind-trace-calls-%d", getpid());
	return cmocka_run_group_tests_name("trace-calls", tests, NULL, NULL);
}
