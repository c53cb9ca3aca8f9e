/* test-trace-calls.c - each allocation and system call with which a sink, a file from its first packet to its end mark, a writer or
 * its tables are made fails once: an error, or all packets. */
#include <stdio.h>
#include <stdlib.h>

#include "base/util.h"
#include "tests/unit/fail-calls.h"
#include "trace/late-sink.h"
#include "trace/module-symbols.h"
#include "trace/slices.h"
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
/* A whole file, of which one before it is kept. */
static int whole(void *arg)
{
	static const uint8_t packet[] = {10, 2, 8, 1};
	struct sink **sink = arg;
	int r = late_sink_new(path, false, sink);

	if (r < 0)
		return r;
	late_sink_behind(*sink, 7);
	r = (*sink)->write(*sink, packet, sizeof(packet));
	if (r >= 0)
		r = late_sink_end(*sink, false);
	assert_true(r != LATE_SINK_CUT);
	assert_int_equal(late_sink_report(*sink), r < 0);
	if (r < 0)
		(void)sink_free(*sink);
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

/* ---- tables ---- */

struct tables {
	struct sink_count count; /* of all packets; 0: not known yet */
	uint32_t frames[40];
};

static int put_frames(struct writer *w, struct tables *t, uint32_t mapping)
{
	int r = 0;

	for (uint32_t i = 0; r >= 0 && i < ARRAY_SIZE(t->frames); i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "f%u", i);
		r = writer_frame(w, mapping, 0x1000 + i, i % 2 ? name : NULL, &t->frames[i]);
	}
	return r;
}

static int put_sample(struct writer *w, struct tables *t, uint32_t mapping)
{
	struct writer_sample sample = {.time = 1, .pid = 2, .tid = 3, .count = 4};
	int r = put_frames(w, t, mapping);

	if (r >= 0)
		r = writer_callstack(w, t->frames, ARRAY_SIZE(t->frames), &sample.callstack);
	return r < 0 ? r : writer_sample(w, &sample);
}

static int put_names(struct writer *w, uint32_t mapping)
{
	const struct writer_line lines[] = {{"inlined", "/x.c", 1, FRAME_INLINED},
					    {"late", NULL, 0, FRAME_NATIVE}};
	int r = writer_symbol(w, mapping, 0x1000, lines, ARRAY_SIZE(lines));

	return r < 0 ? r : writer_symbols_flush(w);
}

static int put_others(struct writer *w)
{
	static const char *const notes[] = {"a note"};
	static const struct writer_stat stat = {"a.stat", 1};
	const struct writer_process process = {
		.pid = 2, .comm = "x", .cmdline = "x\0y", .cmdline_len = 4, .cgroup = "/a"};
	const struct writer_track track = {.pid = 2, .name = "a track"};
	const struct writer_track_event event = {
		.type = WRITER_INSTANT, .time = 5, .category = "mark", .name = "now"};
	int r = writer_process(w, &process, 6);

	if (r >= 0)
		r = writer_thread(w, 2, 3, "y", 6);
	if (r >= 0)
		r = writer_slice(w, &(struct writer_slice){2, 3, 7, 8, "wait", "a wait"});
	if (r >= 0)
		r = writer_track_event(w, &track, &event);
	return r < 0 ? r : writer_stats(w, &stat, 1, notes, 1, 9);
}

/* A packet of names on its own, as symbolize makes it. */
static int put_symbols(void)
{
	const struct writer_line line = {"f", "/x.c", 1, FRAME_NATIVE};
	struct buffer symbols = {0}, packet = {0};
	int r = module_symbols_add(&symbols, 0x1000, &line, 1);

	if (r >= 0)
		r = module_symbols_packet(&packet, "/bin/x", (const uint8_t *)"id", 2, &symbols);
	if (r >= 0)
		r = memory->write(memory, packet.data, packet.len);
	buffer_deinit(&symbols);
	buffer_deinit(&packet);
	return r;
}

/* Two generations of all tables. */
static int put_all(struct writer *w, struct tables *t)
{
	uint32_t mapping;
	int r = writer_start(w);

	for (int i = 0; r >= 0 && i < 2; i++) {
		r = writer_mapping(w, "/usr/bin/x", "id", 2, 0, 0x1000, &mapping);
		if (r >= 0)
			r = put_sample(w, t, mapping);
		if (r >= 0)
			r = put_names(w, mapping);
		if (r >= 0)
			r = writer_forget(w);
	}
	if (r >= 0)
		r = put_others(w);
	return r < 0 ? r : put_symbols();
}

static int make_tables(void *arg)
{
	struct sink_count count = {0};
	struct tables *t = arg;
	struct writer *w;
	const void *data;
	size_t len;
	int r = sink_memory_new(&memory);

	if (r < 0)
		return r;
	r = writer(&w);
	if (r >= 0) {
		r = put_all(w, t);
		(void)writer_free(w);
	}
	data = sink_memory_data(memory, &len);
	sink_count_add(&count, data, len);
	(void)sink_free(memory);
	if (r >= 0 && t->count.packets && t->count.packets != count.packets)
		fail_msg("call %lu: %lu packets of %lu", calls_fail_at, count.packets,
			 t->count.packets);
	if (r >= 0)
		t->count = count;
	return r;
}
static void end_tables(void *arg)
{
	(void)arg;
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
		{"whole", whole, end_sink, &sink},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		calls_sweep(&all[i]);
	(void)unlink(path);
	(void)snprintf(path + strlen(path), sizeof(path) - strlen(path), ".old");
	(void)unlink(path);
}

static void test_writer(void **state)
{
	struct writer *made;
	struct tables tables = {.count = {0}};

	(void)state;
	assert_int_equal(sink_memory_new(&memory), 0);
	calls_sweep(&(struct calls_made){"writer", writer, end_writer, &made});
	(void)sink_free(memory);
	calls_sweep(&(struct calls_made){"tables", make_tables, end_tables, &tables});
	assert_int_equal(tables.count.samples, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_sinks),
					   cmocka_unit_test(test_writer)};

	(void)snprintf(path, sizeof(path), "/tmp/perfwind-trace-calls-%d", getpid());
	return cmocka_run_group_tests_name("trace-calls", tests, NULL, NULL);
}
