/* trace-stats.c - see trace-stats.h.  Names and severities are facts of trace_processor; the words are for the author of the
 * config. */
#include "profile/trace-stats.h"

#include "profile/profile.h"

static const struct trace_stat_info infos[] = {
#define X(name, indexed, severity) [STAT_##name] = {#name, indexed, TRACE_STAT_##severity},
	TRACE_STATS(X)
#undef X
};

/* Those that somebody can do something about. */
static const struct trace_stat_words words[TRACE_STAT_COUNT] = {
	[STAT_perf_cpu_lost_records] =
		{"samples of this CPU that found the kernel's ring full: they are not in the trace",
		 "record -m with more pages, or a lower -F; in a TraceConfig: a larger "
		 "perf_event_config.ring_buffer_pages, a shorter ring_buffer_read_period_ms, or a "
		 "lower timebase.frequency"},
	[STAT_perf_guardrail_stop_ts] =
		{"when the profiler ended this data source because it used too much memory (ns)",
		 "a larger perf_event_config.max_daemon_memory_kb, or a narrower "
		 "callstack_sampling.scope"},
	[STAT_perf_samples_skipped] =
		{"samples without a stack: the process was gone, or could "
		 "not be looked into in time",
		 "record --realtime, as root, or a lower -F; in a TraceConfig: a "
		 "longer perf_event_config.remote_descriptor_timeout_ms"},
	[STAT_perf_samples_skipped_dataloss] =
		{"samples without a stack: the unwinder had too much to do",
		 "record with a lower -F; in a TraceConfig: a lower timebase.frequency, a narrower "
		 "callstack_sampling.scope, or a larger "
		 "perf_event_config.max_enqueued_footprint_kb"},
	[STAT_packet_skipped_seq_needs_incremental_state_invalid] =
		{"packets that cannot be read, because data that they refer to was lost",
		 "incremental_state_config.clear_period_ms (for example 5000), or a larger "
		 "buffers.size_kb"},
	[STAT_interned_data_skipped_incremental_state_invalid] =
		{"names and stacks that cannot be used, because their packets were lost",
		 "incremental_state_config.clear_period_ms (for example 5000), or a larger "
		 "buffers.size_kb"},
	[STAT_stackprofile_empty_callstack] = {"samples with a stack of no frames", NULL},
	[STAT_stackprofile_invalid_string_id] = {"a name is referred to that is not in the trace",
						 NULL},
	[STAT_stackprofile_invalid_mapping_id] =
		{"a mapping is referred to that is not in the trace", NULL},
	[STAT_stackprofile_invalid_frame_id] = {"a frame is referred to that is not in the trace",
						NULL},
	[STAT_stackprofile_invalid_callstack_id] = {"samples with a stack that is not in the trace",
						    NULL},
	[STAT_clock_sync_failure_unknown_source_clock] =
		{"times of a clock that is in no clock snapshot of the trace",
		 "no builtin_data_sources.disable_clock_snapshotting, or another "
		 "timebase.timestamp_clock"},
	[STAT_clock_sync_failure_undeferrable_packet_loss] =
		{"packets left out, because their time is unknown",
		 "no builtin_data_sources.disable_clock_snapshotting, or another "
		 "timebase.timestamp_clock"},
	[STAT_config_write_into_file_no_flush] =
		{"the file was written without flushes: readers must hold all of it to sort it",
		 "flush_period_ms"},
	[STAT_config_write_into_file_discard] = {"a DISCARD buffer takes nothing more once it was "
						 "full, although it is read into the file",
						 "buffers.fill_policy: RING_BUFFER"},
	[STAT_long_trace_mode_bytes_overwritten] =
		{"bytes of this buffer that were overwritten before they were written into the "
		 "file",
		 "a larger buffers.size_kb, or a shorter file_write_period_ms"},
	[STAT_traced_buf_sequence_packet_loss] =
		{"holes in the packets of data sources that write into this buffer",
		 "a larger buffers.size_kb, or write_into_file with a shorter "
		 "file_write_period_ms"},
	[STAT_traced_buf_incremental_sequences_dropped] =
		{"data sources of which nothing can be read, because what their packets refer to "
		 "was lost",
		 "incremental_state_config.clear_period_ms (for example 5000), or a larger "
		 "buffers.size_kb"},
	[STAT_traced_buf_data_loss_read_gap] = {"of the holes: found while reading", NULL},
	[STAT_traced_buf_data_loss_chunk_corrupted] =
		{"of the holes: a producer's data was damaged", NULL},
	[STAT_traced_buf_data_loss_orphan_continuation] =
		{"of the holes: a packet without its begin", NULL},
	[STAT_traced_buf_data_loss_reassembly_gap] = {"of the holes: a packet without its middle",
						      NULL},
	[STAT_traced_buf_data_loss_reassembly_broken_chain] =
		{"of the holes: a packet in wrong parts", NULL},
	[STAT_traced_buf_data_loss_overwrite] = {"of the holes: overwritten in the ring buffer",
						 "a larger buffers.size_kb"},
	[STAT_traced_buf_data_loss_writer_abort] = {"of the holes: a producer gave up a packet",
						    NULL},
	[STAT_traced_buf_data_loss_smb_full] = {"of the holes: a producer's shared memory was full",
						"a larger producers.shm_size_kb"},
	[STAT_traced_buf_trace_writer_packet_loss] =
		{"packets that producers could not write, or that are larger than the buffer",
		 "a larger producers.shm_size_kb, or a larger buffers.size_kb"},
	[STAT_traced_buf_patches_failed] =
		{"parts of packets that came after their packets were overwritten",
		 "a larger buffers.size_kb"},
	[STAT_traced_buf_abi_violations] = {"data of a producer that breaks the rules", NULL},
	[STAT_traced_buf_chunks_discarded] =
		{"came when this DISCARD buffer was full",
		 "a larger buffers.size_kb, or buffers.fill_policy: RING_BUFFER"},
	[STAT_traced_buf_chunks_overwritten] =
		{"the oldest in this RING_BUFFER made room for newer ones",
		 "a larger buffers.size_kb, or write_into_file with a shorter "
		 "file_write_period_ms"},
	[STAT_traced_buf_bytes_overwritten] =
		{"bytes of these chunks: no loss, a RING_BUFFER keeps the newest data",
		 "a larger buffers.size_kb keeps more"},
	[STAT_traced_final_flush_failed] =
		{"the data sources did not hand over everything before the end",
		 "a longer data_source_stop_timeout_ms or flush_timeout_ms"},
	[STAT_perfwind_end_missing] = /* profile_end_text() knows how much */
	{"the file ended without its end mark",
	 "more room on the disk; a recording that is ended by Ctrl-C or SIGTERM, not by "
	 "SIGKILL"},
	[STAT_perfwind_packets_missing] = {"packets that the end mark counts and that are not in "
					   "the file",
					   NULL},
	[STAT_traced_flushes_failed] = {"flushes that were not answered in time",
					"a longer flush_timeout_ms"},
};

const struct trace_stat_info *trace_stat_info(enum trace_stat stat)
{
	return &infos[stat];
}

const struct trace_stat_words *trace_stat_words(enum trace_stat stat)
{
	return &words[stat];
}

uint64_t trace_stat_overwritten(const struct profile *profile)
{
	uint64_t sum = 0, lost = 0;

	for (size_t i = 0; i < profile->n_counts; i++) {
		if (profile->counts[i].stat == STAT_traced_buf_bytes_overwritten)
			sum += profile->counts[i].value;
		else if (profile->counts[i].stat == STAT_long_trace_mode_bytes_overwritten)
			lost += profile->counts[i].value;
	}
	return sum > lost ? sum - lost : 0;
}

const char *trace_stat_severity_name(enum trace_stat_severity severity)
{
	static const char *const names[] = {"info", "notice", "error", "data_loss"};

	return names[severity];
}
