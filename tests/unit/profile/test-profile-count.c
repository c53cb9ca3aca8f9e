/* test-profile-count.c - what a trace has lost: each statistic from packets written down by hand,
 * and the two traces of a stock service. */
#include <errno.h>

#include "tests/unit/cmocka.h"

#include "profile/profile.h"
#include "profile/trace-stats.h"
#include "protos/trace.pb-c.h"
#include "protos/trace_config.pb-c.h"

enum { MAX_PACKETS = 32, CLEARED = 1, NEEDS = 2 };

static Pb__TracePacket packets[MAX_PACKETS];
static size_t n_packets;
static struct profile profile;
static char error[256];

static Pb__TracePacket *add(uint32_t sequence, uint32_t flags)
{
	Pb__TracePacket *p = &packets[n_packets++];

	assert_true(n_packets <= MAX_PACKETS);
	pb__trace_packet__init(p);
	p->has_trusted_packet_sequence_id = p->has_sequence_flags = true;
	p->trusted_packet_sequence_id = sequence;
	p->sequence_flags = flags;
	p->has_timestamp = true;
	p->timestamp = 1000 + n_packets;
	return p;
}

static void read_all(void)
{
	Pb__TracePacket *list[MAX_PACKETS];
	Pb__Trace trace = PB__TRACE__INIT;
	uint8_t data[8192];
	size_t len;

	for (size_t i = 0; i < n_packets; i++)
		list[i] = &packets[i];
	trace.packet = list;
	trace.n_packet = n_packets;
	assert_true(pb__trace__get_packed_size(&trace) <= sizeof(data));
	len = pb__trace__pack(&trace, data);
	assert_int_equal(profile_parse(data, len, &profile, error, sizeof(error)), 0);
	n_packets = 0;
}

/* -1: the row does not exist. */
static int64_t value(enum trace_stat stat, int32_t index)
{
	for (size_t i = 0; i < profile.n_counts; i++)
		if (profile.counts[i].stat == stat && profile.counts[i].index == index)
			return (int64_t)profile.counts[i].value;
	return -1;
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(trace_stat_info(STAT_perf_cpu_lost_records)->name,
			    "perf_cpu_lost_records");
	assert_true(trace_stat_info(STAT_perf_cpu_lost_records)->indexed);
	for (unsigned i = 0; i < TRACE_STAT_COUNT; i++) {
		const struct trace_stat_info *info = trace_stat_info((enum trace_stat)i);
		const struct trace_stat_words *words = trace_stat_words((enum trace_stat)i);

		assert_non_null(info->name);
		/* whatever went wrong has its text */
		assert_true(info->severity == TRACE_STAT_INFO || words->meaning);
		assert_true(words->meaning || !words->hint);
	}
	assert_string_equal(trace_stat_severity_name(TRACE_STAT_DATA_LOSS), "data_loss");
}

static void test_samples(void **state)
{
	static const struct {
		int reason;
		uint32_t lost;
	} cases[] = {{1, 0}, {2, 0}, {3, 0}, {3, 0}, {4, 0}, {0, 0}, {-1, 5}, {-1, 7}};
	Pb__PerfSample samples[ARRAY_SIZE(cases)], guardrail = PB__PERF_SAMPLE__INIT,
						   stackless = PB__PERF_SAMPLE__INIT;
	Pb__PerfSample__ProducerEvent event = PB__PERF_SAMPLE__PRODUCER_EVENT__INIT;

	(void)state;
	add(2, CLEARED);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		pb__perf_sample__init(&samples[i]);
		samples[i].has_cpu = true;
		samples[i].cpu = 3;
		if (cases[i].reason >= 0) {
			samples[i].optional_sample_skipped_reason_case =
				PB__PERF_SAMPLE__OPTIONAL_SAMPLE_SKIPPED_REASON_SAMPLE_SKIPPED_REASON;
			samples[i].sample_skipped_reason =
				(Pb__PerfSample__SampleSkipReason)cases[i].reason;
		}
		samples[i].has_kernel_records_lost = cases[i].lost > 0;
		samples[i].kernel_records_lost = cases[i].lost;
		add(2, NEEDS)->perf_sample = &samples[i];
	}
	stackless.has_callstack_iid = true;
	stackless.callstack_iid = 77;
	add(2, NEEDS)->perf_sample = &stackless;
	event.optional_source_stop_reason_case =
		PB__PERF_SAMPLE__PRODUCER_EVENT__OPTIONAL_SOURCE_STOP_REASON_SOURCE_STOP_REASON;
	event.source_stop_reason =
		PB__PERF_SAMPLE__PRODUCER_EVENT__DATA_SOURCE_STOP_REASON__PROFILER_STOP_GUARDRAIL;
	guardrail.producer_event = &event;
	add(2, NEEDS)->perf_sample = &guardrail;
	packets[n_packets - 1].timestamp = 4242;
	read_all();
	assert_int_equal(value(STAT_perf_samples_skipped, -1), 2);
	assert_int_equal(value(STAT_perf_samples_skipped_dataloss, -1), 2);
	assert_int_equal(value(STAT_perf_cpu_lost_records, 3), 12);
	assert_int_equal(value(STAT_perf_guardrail_stop_ts, 0), 4242);
	assert_int_equal(value(STAT_stackprofile_invalid_callstack_id, -1), 1);
	assert_int_equal(value(STAT_packet_skipped_seq_needs_incremental_state_invalid, -1), -1);
	profile_deinit(&profile);
}

static void test_state(void **state)
{
	Pb__TraceStats__WriterStats writers[] = {PB__TRACE_STATS__WRITER_STATS__INIT,
						 PB__TRACE_STATS__WRITER_STATS__INIT},
				    *writer_list[] = {&writers[0], &writers[1]};
	Pb__TraceStats stats = PB__TRACE_STATS__INIT;
	Pb__InternedData interned = PB__INTERNED_DATA__INIT;
	Pb__PerfSample sample = PB__PERF_SAMPLE__INIT;
	Pb__TracePacket *p;

	(void)state;
	/* 2: two holes, one overwritten; between them and the next beginning, one packet */
	p = add(2, CLEARED);
	p->has_previous_packet_dropped = true;
	p->previous_packet_dropped = 1; /* before the first: no news */
	p = add(2, NEEDS);
	p->has_previous_packet_dropped = true;
	p->previous_packet_dropped = 1 | 64;
	p->perf_sample = &sample;
	add(2, NEEDS)->interned_data = &interned;
	p = add(2, CLEARED);
	p->has_previous_packet_dropped = true;
	p->previous_packet_dropped = 1;
	add(2, NEEDS)->perf_sample = &sample;
	/* 3: never begins */
	add(3, NEEDS)->perf_sample = &sample;
	/* 4: no service reports where it is */
	add(4, CLEARED);
	p = add(4, NEEDS);
	p->has_previous_packet_dropped = true;
	p->previous_packet_dropped = 1 | 256;
	for (size_t i = 0; i < 2; i++) {
		writers[i].has_sequence_id = writers[i].has_buffer = true;
		writers[i].sequence_id = 2 + i;
		writers[i].buffer = (uint32_t)i;
	}
	stats.writer_stats = writer_list;
	stats.n_writer_stats = 2;
	add(1, 0)->trace_stats = &stats;
	read_all();
	assert_int_equal(value(STAT_traced_buf_sequence_packet_loss, 0), 2);
	assert_int_equal(value(STAT_traced_buf_data_loss_overwrite, 0), 1);
	assert_int_equal(value(STAT_traced_buf_data_loss_smb_full, 0), 0);
	assert_int_equal(value(STAT_traced_buf_incremental_sequences_dropped, 0), 0);
	assert_int_equal(value(STAT_traced_buf_sequence_packet_loss, 1), 0);
	assert_int_equal(value(STAT_traced_buf_incremental_sequences_dropped, 1), 1);
	assert_int_equal(value(STAT_traced_buf_sequence_packet_loss, -1), 1);
	assert_int_equal(value(STAT_traced_buf_data_loss_smb_full, -1), 1);
	/* 2: the sample and the names behind the hole; 3: its sample; 4: the one that reports it */
	assert_int_equal(value(STAT_packet_skipped_seq_needs_incremental_state_invalid, -1), 4);
	assert_int_equal(value(STAT_interned_data_skipped_incremental_state_invalid, -1), 1);
	profile_deinit(&profile);
}

static void test_interned(void **state)
{
	uint64_t paths[] = {9}, gone[] = {99};
	Pb__Mapping mapping = PB__MAPPING__INIT, *mappings[] = {&mapping};
	Pb__Frame frame = PB__FRAME__INIT, *frames[] = {&frame};
	Pb__Callstack empty = PB__CALLSTACK__INIT, broken = PB__CALLSTACK__INIT,
		      *stacks[] = {&empty, &broken};
	Pb__InternedData interned = PB__INTERNED_DATA__INIT;
	Pb__PerfSample with_empty = PB__PERF_SAMPLE__INIT, with_broken = PB__PERF_SAMPLE__INIT;
	Pb__ModuleSymbols symbols = PB__MODULE_SYMBOLS__INIT, nothing = PB__MODULE_SYMBOLS__INIT;

	(void)state;
	/* ids without a definition: a path, a build id; a function's name, a mapping; a frame */
	mapping.has_iid = mapping.has_build_id = true;
	mapping.iid = 1;
	mapping.build_id = 5;
	mapping.path_string_ids = paths;
	mapping.n_path_string_ids = 1;
	frame.has_iid = frame.has_function_name_id = frame.has_mapping_id = true;
	frame.iid = 1;
	frame.function_name_id = 4;
	frame.mapping_id = 2;
	empty.has_iid = broken.has_iid = true;
	empty.iid = 1;
	broken.iid = 2;
	broken.frame_ids = gone;
	broken.n_frame_ids = 1;
	interned.mappings = mappings;
	interned.frames = frames;
	interned.callstacks = stacks;
	interned.n_mappings = interned.n_frames = 1;
	interned.n_callstacks = 2;
	with_empty.has_callstack_iid = with_broken.has_callstack_iid = true;
	with_empty.callstack_iid = 1;
	with_broken.callstack_iid = 2;
	add(2, CLEARED);
	add(2, NEEDS)->interned_data = &interned;
	add(2, NEEDS)->perf_sample = &with_empty;
	add(2, NEEDS)->perf_sample = &with_empty;
	add(2, NEEDS)->perf_sample = &with_broken;
	/* names in a mapping that is not in the trace; of no mapping at all */
	symbols.path = (char *)"/never";
	add(2, 0)->module_symbols = &symbols;
	add(2, 0)->module_symbols = &nothing;
	read_all();
	assert_int_equal(value(STAT_stackprofile_invalid_string_id, -1), 3);
	assert_int_equal(value(STAT_stackprofile_invalid_mapping_id, -1), 3);
	assert_int_equal(value(STAT_stackprofile_empty_callstack, -1), 2);
	assert_int_equal(value(STAT_stackprofile_invalid_frame_id, -1), 1);
	assert_int_equal(value(STAT_stackprofile_invalid_callstack_id, -1), -1);
	assert_int_equal(profile.n_samples, 3);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(profile.samples[i].stack, UINT32_MAX);
	profile_deinit(&profile);
}

static void test_clocks(void **state)
{
	Pb__PerfSample sample = PB__PERF_SAMPLE__INIT;
	Pb__TracePacket *p;

	(void)state;
	add(2, CLEARED);
	for (int i = 0; i < 2; i++) {
		p = add(2, NEEDS);
		p->perf_sample = &sample;
		p->has_timestamp_clock_id = true;
		p->timestamp_clock_id = i ? 5 : 6; /* MONOTONIC_RAW, which no snapshot has */
	}
	read_all();
	assert_int_equal(value(STAT_clock_sync_failure_undeferrable_packet_loss, -1), 1);
	assert_int_equal(value(STAT_clock_sync_failure_unknown_source_clock, -1), 1);
	profile_deinit(&profile);
}

static void add_config(const Pb__TraceConfig *config, uint8_t *wire)
{
	Pb__TracePacket *p = add(1, 0);

	p->has_trace_config = true;
	p->trace_config.len = pb__trace_config__pack(config, wire);
	p->trace_config.data = wire;
}

static void test_service(void **state)
{
	Pb__TraceStats__BufferStats buffers[] = {PB__TRACE_STATS__BUFFER_STATS__INIT,
						 PB__TRACE_STATS__BUFFER_STATS__INIT},
				    *list[] = {&buffers[0], &buffers[1]};
	Pb__TraceConfig__BufferConfig buffer_configs[] = {PB__TRACE_CONFIG__BUFFER_CONFIG__INIT,
							  PB__TRACE_CONFIG__BUFFER_CONFIG__INIT},
				      *config_list[] = {&buffer_configs[0], &buffer_configs[1]};
	Pb__TraceStats stats = PB__TRACE_STATS__INIT;
	Pb__TraceConfig config = PB__TRACE_CONFIG__INIT;
	Pb__SystemInfo info = PB__SYSTEM_INFO__INIT;
	uint8_t wire[128];

	(void)state;
	buffers[0].has_bytes_overwritten = buffers[0].has_chunks_discarded = true;
	buffers[0].bytes_overwritten = 99;
	buffers[0].chunks_discarded = 3;
	buffers[1].has_patches_failed = buffers[1].has_trace_writer_packet_loss = true;
	buffers[1].patches_failed = 4;
	buffers[1].trace_writer_packet_loss = 5;
	stats.buffer_stats = list;
	stats.n_buffer_stats = 2;
	stats.has_flushes_failed = stats.has_final_flush_outcome = true;
	stats.flushes_failed = 6;
	stats.final_flush_outcome = PB__TRACE_STATS__FINAL_FLUSH_OUTCOME__FINAL_FLUSH_FAILED;
	config.buffers = config_list;
	config.n_buffers = 2;
	buffer_configs[1].has_fill_policy = true;
	buffer_configs[1].fill_policy = PB__TRACE_CONFIG__BUFFER_CONFIG__FILL_POLICY__DISCARD;
	config.has_write_into_file = config.write_into_file = true;
	for (int modern = 0; modern < 2; modern++) {
		add_config(&config, wire);
		info.tracing_service_version = (char *)(modern ? "Perfetto v54.0" : "Perfetto v53");
		add(1, 0)->system_info = &info;
		add(1, 0)->trace_stats = &stats;
		add(1, 0)->trace_stats = &stats; /* again, as while a file is written */
		read_all();
		assert_int_equal(value(STAT_config_write_into_file_no_flush, -1), modern ? -1 : 1);
		assert_int_equal(value(STAT_config_write_into_file_discard, 1), 1);
		assert_int_equal(value(STAT_config_write_into_file_discard, 0), -1);
		assert_int_equal(value(STAT_long_trace_mode_bytes_overwritten, 0), 99);
		assert_int_equal(value(STAT_traced_buf_chunks_discarded, 0), 3);
		assert_int_equal(value(STAT_traced_buf_chunks_discarded, 1), 0);
		assert_int_equal(value(STAT_traced_buf_patches_failed, 1), 4);
		assert_int_equal(value(STAT_traced_buf_trace_writer_packet_loss, 1), 5);
		assert_int_equal(value(STAT_traced_flushes_failed, -1), 6);
		assert_int_equal(value(STAT_traced_final_flush_failed, -1), 2);
		assert_int_equal(value(STAT_traced_total_buffers, -1), 0);
		profile_deinit(&profile);
	}
}

static void test_shards(void **state)
{
	Pb__PerfEvents__Timebase timebase = PB__PERF_EVENTS__TIMEBASE__INIT;
	Pb__PerfSampleDefaults perf = PB__PERF_SAMPLE_DEFAULTS__INIT;
	Pb__TracePacketDefaults defaults = PB__TRACE_PACKET_DEFAULTS__INIT;
	Pb__PerfSample sample = PB__PERF_SAMPLE__INIT;

	(void)state;
	perf.timebase = &timebase;
	perf.has_process_shard_count = perf.has_chosen_process_shard = true;
	perf.process_shard_count = 8;
	perf.chosen_process_shard = 3;
	defaults.perf_sample_defaults = &perf;
	add(2, CLEARED)->trace_packet_defaults = &defaults;
	add(2, NEEDS)->perf_sample = &sample;
	read_all();
	assert_int_equal(value(STAT_perf_process_shard_count, 0), 8);
	assert_int_equal(value(STAT_perf_chosen_process_shard, 0), 3);
	profile_deinit(&profile);
}

/* What a stock trace_processor reports of these two. */
static void test_stock(void **state)
{
	uint64_t bad = 0;

	(void)state;
	assert_int_equal(
		profile_read("tests/data/stock-50hz.pftrace", &profile, error, sizeof(error)), 0);
	for (size_t i = 0; i < profile.n_counts; i++)
		if (trace_stat_info((enum trace_stat)profile.counts[i].stat)->severity !=
		    TRACE_STAT_INFO)
			bad += profile.counts[i].value;
	assert_int_equal(bad, 0);
	assert_int_equal(value(STAT_traced_buf_buffer_size, 0), 8388608);
	assert_int_equal(value(STAT_traced_buf_chunks_rewritten, 0), 4);
	assert_int_equal(value(STAT_traced_flushes_succeeded, -1), 4);
	assert_int_equal(value(STAT_traced_final_flush_succeeded, -1), 1);
	assert_int_equal(value(STAT_traced_buf_sequence_packet_loss, 0), 0);
	profile_deinit(&profile);
	assert_int_equal(profile_read("tests/data/stock-1000hz-lossy.pftrace", &profile, error,
				      sizeof(error)),
			 0);
	assert_int_equal(value(STAT_perf_cpu_lost_records, 0), 2506);
	assert_int_equal(value(STAT_perf_cpu_lost_records, 1), 83);
	profile_deinit(&profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),  cmocka_unit_test(test_samples),
		cmocka_unit_test(test_state),  cmocka_unit_test(test_interned),
		cmocka_unit_test(test_clocks), cmocka_unit_test(test_service),
		cmocka_unit_test(test_shards), cmocka_unit_test(test_stock),
	};

	return cmocka_run_group_tests_name("profile-count", tests, NULL, NULL);
}
