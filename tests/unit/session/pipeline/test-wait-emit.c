/* test-wait-emit.c - the frame and the slice of a wait. */
#include <time.h>

#include "session/pipeline/wait-emit.h"
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

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_wait)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
