/* test-slices.c - slices of threads, decoded by protobuf-c: a track once for each state of the sequence, a beginning and an end. */
#include <errno.h>
#include <time.h>

#include "trace/slices.h"
#include "trace/writer-private.h"
#include "tests/unit/cmocka.h"

struct fixture {
	struct sink *sink;
	struct writer *writer;
	Pb__Trace *trace;
};

static struct fixture fixture_new(void)
{
	const struct writer_options options = {
		.leader = {.counter = 1}, .period = 1, .clock = CLOCK_MONOTONIC, .sequence_id = 2};
	struct fixture f = {0};

	assert_int_equal(sink_memory_new(&f.sink), 0);
	assert_int_equal(writer_new(&options, f.sink, &f.writer), 0);
	assert_int_equal(writer_start(f.writer), 0);
	sink_memory_clear(f.sink);
	return f;
}

static void fixture_free(struct fixture *f)
{
	pb__trace__free_unpacked(f->trace, NULL);
	writer_free(f->writer);
	sink_free(f->sink);
}

/* The packets since the last call. */
static const Pb__Trace *decode(struct fixture *f)
{
	size_t len;
	const void *data = sink_memory_data(f->sink, &len);

	pb__trace__free_unpacked(f->trace, NULL);
	f->trace = pb__trace__unpack(NULL, len, data);
	assert_non_null(f->trace);
	sink_memory_clear(f->sink);
	return f->trace;
}

static void slice(struct fixture *f, uint32_t tid, uint64_t begin, uint64_t end)
{
	const struct writer_slice s = {.pid = 300,
				       .tid = tid,
				       .begin = begin,
				       .end = end,
				       .category = "wait",
				       .name = "sleep"};

	assert_int_equal(writer_slice(f->writer, &s), 0);
}

static void check_event(const Pb__TracePacket *packet, uint64_t track, int type, uint64_t time)
{
	assert_non_null(packet->track_event);
	assert_int_equal(packet->timestamp, time);
	assert_false(packet->has_timestamp_clock_id); /* that of the samples */
	assert_int_equal(packet->trusted_packet_sequence_id, 2);
	assert_int_equal(packet->sequence_flags,
			 PB__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_NEEDS_INCREMENTAL_STATE);
	assert_int_equal(packet->track_event->track_uuid, track);
	assert_int_equal(packet->track_event->type, type);
}

static void test_slices(void **state)
{
	struct fixture f = fixture_new();
	const Pb__Trace *t;
	uint64_t track;

	(void)state;
	slice(&f, 301, 1000, 3000);
	slice(&f, 301, 4000, 4001);
	slice(&f, 301, 5000, 5000); /* of no length */
	slice(&f, 301, 6000, 5000);
	t = decode(&f);
	assert_int_equal(t->n_packet, 5);
	assert_non_null(t->packet[0]->track_descriptor);
	track = t->packet[0]->track_descriptor->uuid;
	assert_true(track != 0);
	assert_int_equal(t->packet[0]->track_descriptor->thread->pid, 300);
	assert_int_equal(t->packet[0]->track_descriptor->thread->tid, 301);
	check_event(t->packet[1], track, 1, 1000);
	assert_string_equal(t->packet[1]->track_event->name, "sleep");
	assert_int_equal(t->packet[1]->track_event->n_categories, 1);
	assert_string_equal(t->packet[1]->track_event->categories[0], "wait");
	check_event(t->packet[2], track, 2, 3000);
	assert_null(t->packet[2]->track_event->name);
	check_event(t->packet[3], track, 1, 4000);
	check_event(t->packet[4], track, 2, 4001);

	slice(&f, 302, 1000, 2000); /* another thread has another track */
	t = decode(&f);
	assert_int_equal(t->n_packet, 3);
	assert_true(t->packet[0]->track_descriptor->uuid != track);
	check_event(t->packet[1], t->packet[0]->track_descriptor->uuid, 1, 1000);

	/* a reader that begins here knows no track */
	assert_int_equal(writer_clear_incremental_state(f.writer), 0);
	(void)decode(&f);
	slice(&f, 301, 7000, 8000);
	t = decode(&f);
	assert_int_equal(t->n_packet, 3);
	assert_int_equal(t->packet[0]->track_descriptor->uuid, track);
	fixture_free(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_slices)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
