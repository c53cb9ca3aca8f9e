/* test-head-past.c - the head of a trace of a recording that was made before: its machine, its clocks,
 * and nothing of ours. */
#include <string.h>

#include "trace/head.h"
#include "trace/writer.h"
#include "tests/unit/cmocka.h"

static Pb__TracePacket *got;

static int put(void *arg, Pb__TracePacket *packet)
{
	uint8_t bytes[4096];
	size_t len = pb__trace_packet__get_packed_size(packet);

	assert_ptr_equal(arg, &got);
	assert_true(len <= sizeof(bytes));
	assert_int_equal(pb__trace_packet__pack(packet, bytes), len);
	got = pb__trace_packet__unpack(NULL, len, bytes);
	assert_non_null(got);
	return 0;
}

static int refuse(void *arg, Pb__TracePacket *packet)
{
	(void)arg;
	(void)packet;
	return -28;
}

static void test_snapshot(void **state)
{
	struct writer_past past = {.first_time = 1234, .wall_clock = 1600000000000000000};

	(void)state;
	assert_int_equal(head_past_snapshot(&past, put, &got), 0);
	assert_non_null(got->clock_snapshot);
	assert_int_equal(got->clock_snapshot->n_clocks, 2);
	assert_int_equal(got->clock_snapshot->clocks[0]->clock_id, 6); /* BOOTTIME */
	assert_int_equal(got->clock_snapshot->clocks[0]->timestamp, 1234);
	assert_int_equal(got->clock_snapshot->clocks[1]->clock_id, 1); /* REALTIME */
	assert_true(got->clock_snapshot->clocks[1]->timestamp == 1600000000000000000);
	assert_int_equal(got->clock_snapshot->primary_trace_clock, 6);
	pb__trace_packet__free_unpacked(got, NULL);
	past.wall_clock = 0; /* the recording has none */
	assert_int_equal(head_past_snapshot(&past, put, &got), 0);
	assert_int_equal(got->clock_snapshot->n_clocks, 1);
	pb__trace_packet__free_unpacked(got, NULL);
	assert_int_equal(head_past_snapshot(&past, refuse, NULL), -28);
}

static void test_info(void **state)
{
	struct writer_past past = {
		.release = "5.10.0-old", .machine = "aarch64", .n_cpus = 3, .ram_bytes = 4096};

	(void)state;
	assert_int_equal(head_past_info(&past, "a tool", put, &got), 0);
	assert_non_null(got->system_info);
	assert_string_equal(got->system_info->utsname->release, "5.10.0-old");
	assert_string_equal(got->system_info->utsname->machine, "aarch64");
	assert_string_equal(got->system_info->tracing_service_version, "a tool");
	assert_int_equal(got->system_info->num_cpus, 3);
	assert_int_equal(got->system_info->system_ram_bytes, 4096);
	pb__trace_packet__free_unpacked(got, NULL);
	past.n_cpus = 0;
	past.ram_bytes = 0;
	assert_int_equal(head_past_info(&past, "a tool", put, &got), 0);
	assert_false(got->system_info->has_num_cpus);
	assert_false(got->system_info->has_system_ram_bytes);
	pb__trace_packet__free_unpacked(got, NULL);
	assert_int_equal(head_past_info(&past, "a tool", refuse, NULL), -28);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_snapshot),
		cmocka_unit_test(test_info),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
