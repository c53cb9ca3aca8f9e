/* test-service-packets.c - the packets of a service, read back. */
#include <time.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

#include "tracing/service-packets.h"

static Pb__Trace *unpack(const struct buffer *b)
{
	Pb__Trace *t = pb__trace__unpack(NULL, b->len, b->data);

	assert_non_null(t);
	for (size_t i = 0; i < t->n_packet; i++) {
		assert_int_equal(t->packet[i]->trusted_packet_sequence_id, 1);
		assert_true(t->packet[i]->has_trusted_uid);
		assert_int_equal(t->packet[i]->trusted_uid, 1000);
		assert_int_equal(t->packet[i]->first_packet_on_sequence, i == 0);
	}
	return t;
}

static void test_head(void **state)
{
	_cleanup_(buffer_deinit) struct buffer b = {0}, config = {0};
	struct service s = {.uid = 1000, .tool = "perfwind 7"};
	const int64_t uuid[2] = {-5, 6};
	Pb__Trace *t;

	(void)state;
	buffer_append(&config, "\x18\x07", 2);
	assert_int_equal(service_marker(&s, &b), 0);
	assert_int_equal(service_clocks(&s, &b), 0);
	assert_int_equal(service_config(&s, &config, &b), 0);
	assert_int_equal(service_uuid(&s, uuid, &b), 0);
	assert_int_equal(service_uuid(&s, NULL, &b), 0);
	assert_int_equal(service_system_info(&s, &b), 0);
	t = unpack(&b);
	assert_int_equal(t->n_packet, 6);
	assert_int_equal(t->packet[0]->synchronization_marker.len, 16);
	assert_int_equal(t->packet[1]->clock_snapshot->clocks[0]->clock_id, 6);
	assert_int_equal(t->packet[1]->clock_snapshot->primary_trace_clock, 6);
	assert_int_equal(t->packet[2]->trace_config.len, 2);
	assert_memory_equal(t->packet[2]->trace_config.data, "\x18\x07", 2);
	assert_int_equal(t->packet[3]->trace_uuid->msb, -5);
	assert_int_equal(t->packet[3]->trace_uuid->lsb, 6);
	assert_true(t->packet[4]->trace_uuid->msb != 0 || t->packet[4]->trace_uuid->lsb != 0);
	assert_string_equal(t->packet[5]->system_info->tracing_service_version, "perfwind 7");
	assert_int_equal(t->packet[5]->system_info->page_size, sysconf(_SC_PAGESIZE));
	pb__trace__free_unpacked(t, NULL);
}

static void test_clocks(void **state)
{
	_cleanup_(buffer_deinit) struct buffer b = {0};
	struct service s = {.uid = 1000};
	size_t len;

	(void)state;
	assert_int_equal(service_clocks(&s, &b), 0);
	len = b.len;
	assert_true(len > 0);
	/* nothing has moved */
	assert_int_equal(service_clocks(&s, &b), 0);
	assert_int_equal(b.len, len);
	/* a user has set the time of day, forth or back */
	s.clocks.others[0] += 20 * NSEC_PER_MSEC;
	assert_int_equal(service_clocks(&s, &b), 0);
	assert_true(b.len > len);
	len = b.len;
	s.clocks.others[1] -= 20 * NSEC_PER_MSEC;
	assert_int_equal(service_clocks(&s, &b), 0);
	assert_true(b.len > len);
	len = b.len;
	assert_int_equal(service_clocks(&s, &b), 0);
	assert_int_equal(b.len, len);
}

static void test_events(void **state)
{
	static const Pb__TracingServiceEvent__EventTypeCase events[] = {
		PB__TRACING_SERVICE_EVENT__EVENT_TYPE_TRACING_STARTED,
		PB__TRACING_SERVICE_EVENT__EVENT_TYPE_READ_TRACING_BUFFERS_COMPLETED};
	_cleanup_(buffer_deinit) struct buffer b = {0};
	struct service s = {.uid = 1000};
	const struct trace_buffer_options options = {.size = 8192};
	const struct service_writer writer = {5, 0};
	struct trace_buffer *buffer;
	struct service_totals totals = {
		.n_buffers = 1, .writers = &writer, .n_writers = 1, .flushes_requested = 3};
	const Pb__TraceStats *stats;
	uint64_t before = clock_ns(CLOCK_BOOTTIME);
	Pb__Trace *t;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(events); i++)
		assert_int_equal(service_event(&s, events[i], &b), 0);
	assert_int_equal(trace_buffer_new(&options, &buffer), 0);
	totals.buffers = (const struct trace_buffer *const *)&buffer;
	assert_int_equal(service_stats(&s, &totals, &b), 0);
	assert_int_equal(service_clone_trigger(&s, "go", 7, 99, &b), 0);
	t = unpack(&b);
	assert_int_equal(t->n_packet, 4);
	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		assert_int_equal(t->packet[i]->service_event->event_type_case, events[i]);
		assert_true(t->packet[i]->service_event->tracing_started);
		assert_int_equal(t->packet[i]->timestamp_clock_id, 6);
		assert_in_range(t->packet[i]->timestamp, before, clock_ns(CLOCK_BOOTTIME));
	}
	stats = t->packet[2]->trace_stats;
	assert_int_equal(stats->n_buffer_stats, 1);
	assert_int_equal(stats->buffer_stats[0]->buffer_size, 8192);
	assert_int_equal(stats->n_writer_stats, 1);
	assert_int_equal(stats->writer_stats[0]->sequence_id, 5);
	assert_int_equal(stats->flushes_requested, 3);
	assert_int_equal(t->packet[3]->timestamp, 99);
	assert_string_equal(t->packet[3]->clone_snapshot_trigger->trigger_name, "go");
	assert_int_equal(t->packet[3]->clone_snapshot_trigger->trusted_producer_uid, 7);
	pb__trace__free_unpacked(t, NULL);
	(void)trace_buffer_free(buffer);
}

/* A trigger that the session took: its name, and its owner. */
static void test_trigger(void **state)
{
	_cleanup_(buffer_deinit) struct buffer b = {0};
	struct service s = {.uid = 1000};
	Pb__Trace *t;

	(void)state;
	assert_int_equal(service_marker(&s, &b), 0);
	assert_int_equal(service_trigger(&s, "slow-request", 77, &b), 0);
	t = unpack(&b);
	assert_int_equal(t->n_packet, 2);
	assert_non_null(t->packet[1]->trigger);
	assert_string_equal(t->packet[1]->trigger->trigger_name, "slow-request");
	assert_int_equal(t->packet[1]->trigger->trusted_producer_uid, 77);
	assert_true(t->packet[1]->has_timestamp);
	pb__trace__free_unpacked(t, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_head),
		cmocka_unit_test(test_clocks),
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_trigger),
	};

	return cmocka_run_group_tests_name("service", tests, NULL, NULL);
}
