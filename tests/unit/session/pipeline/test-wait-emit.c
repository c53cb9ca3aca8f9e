/* test-wait-emit.c - the frame and the slice of a wait. */
#include <time.h>

#include "proc/process.h"
#include "session/pipeline/emit-private.h"
#include "session/pipeline/wait-reason.h"
#include "protos/trace.pb-c.h"
#include "tests/unit/cmocka.h"

static void test_wait(void **state)
{
	const struct writer_options options = {
		.leader = {.counter = 1}, .period = 1, .clock = CLOCK_MONOTONIC, .sequence_id = 2};
	struct outcome o = {.info = {.pid = 7,
				     .tid = 8,
				     .time = 9000,
				     .weight = 5000,
				     .began = 6000,
				     .ended = 8500,
				     .reason = WAIT_PIPE}};
	struct writer *writer;
	struct sink *sink;
	uint32_t frame, same;
	const void *data;
	Pb__Trace *t;
	size_t len;

	(void)state;
	assert_int_equal(sink_memory_new(&sink), 0);
	assert_int_equal(writer_new(&options, sink, &writer), 0);
	assert_int_equal(writer_start(writer), 0);
	sink_memory_clear(sink);
	assert_int_equal(wait_emit(writer, &o, NULL, &frame), 0);
	o.info.began = o.info.ended = 0; /* the sum of several waits: no slice */
	assert_int_equal(wait_emit(writer, &o, NULL, &same), 0);
	assert_int_equal(same, frame);
	data = sink_memory_data(sink, &len);
	t = pb__trace__unpack(NULL, len, data);
	assert_non_null(t);
	assert_int_equal(t->n_packet, 3);
	assert_int_equal(t->packet[0]->track_descriptor->thread->tid, 8);
	assert_int_equal(t->packet[1]->timestamp, 6000);
	assert_string_equal(t->packet[1]->track_event->name, "pipe or socket");
	assert_int_equal(t->packet[2]->timestamp,
			 8500); /* the wait, not what its weight stands for */
	pb__trace__free_unpacked(t, NULL);
	writer_free(writer);
	sink_free(sink);
}

/* The frames of a waker, and outside of these the frame with its name. */
static void test_waker(void **state)
{
	const struct writer_options options = {
		.leader = {.counter = 1}, .period = 1, .clock = CLOCK_MONOTONIC, .sequence_id = 2};
	struct outcome o = {.info = {.pid = 7, .tid = 8, .time = 9000}};
	uint32_t ids[WAIT_WAKER_IDS + 100] = {11, 12, 13}, named, other;
	struct process_table *processes;
	struct uw_modules *modules;
	struct writer *writer;
	struct sink *sink;
	size_t n = 3;

	(void)state;
	assert_int_equal(sink_memory_new(&sink), 0);
	assert_int_equal(writer_new(&options, sink, &writer), 0);
	assert_int_equal(writer_start(writer), 0);
	assert_int_equal(wait_emit_waker(writer, &o, ids, &n), 0); /* no name is known */
	assert_int_equal(n, 4);
	assert_int_equal(ids[0], 11);
	assert_int_equal(ids[2], 13);
	other = ids[3];

	assert_int_equal(uw_modules_new(&modules), 0);
	assert_int_equal(process_table_new(modules, 16, &processes), 0);
	assert_int_equal(process_comm(processes, 7, 8, "client", false, 1), 0);
	o.info.process = process_find(processes, 7);
	n = 0;
	assert_int_equal(wait_emit_waker(writer, &o, ids, &n), 0);
	assert_int_equal(n, 1);
	named = ids[0];
	assert_int_not_equal(named, other);
	/* a deep stack: the innermost frames */
	n = WAIT_WAKER_IDS + 50;
	assert_int_equal(wait_emit_waker(writer, &o, ids, &n), 0);
	assert_int_equal(n, WAIT_WAKER_IDS);
	assert_int_equal(ids[n - 1], named);
	writer_free(writer);
	sink_free(sink);
	(void)process_table_free(processes);
	(void)uw_modules_free(modules);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_wait),
					   cmocka_unit_test(test_waker)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
