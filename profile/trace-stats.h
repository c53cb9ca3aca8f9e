/* trace-stats.h - the statistics of a trace that report data loss, as trace_processor's table
 * `stats` has them: names, severities, and what each means for the author of the config.
 * Thread: any. */
#pragma once

#include "base/util.h"

enum trace_stat_severity {
	TRACE_STAT_INFO,
	TRACE_STAT_NOTICE,
	TRACE_STAT_ERROR,
	TRACE_STAT_DATA_LOSS,
};

/* X(name, indexed, severity): in the order of the table. */
#define TRACE_STATS(X)                                                       \
	X(perf_cpu_lost_records, true, DATA_LOSS)                            \
	X(perf_guardrail_stop_ts, true, DATA_LOSS)                           \
	X(perf_samples_skipped, false, ERROR)                                \
	X(perf_samples_skipped_dataloss, false, DATA_LOSS)                   \
	X(perf_process_shard_count, true, INFO)                              \
	X(perf_chosen_process_shard, true, INFO)                             \
	X(packet_skipped_seq_needs_incremental_state_invalid, false, NOTICE) \
	X(interned_data_skipped_incremental_state_invalid, false, NOTICE)    \
	X(stackprofile_empty_callstack, false, ERROR)                        \
	X(stackprofile_invalid_string_id, false, ERROR)                      \
	X(stackprofile_invalid_mapping_id, false, ERROR)                     \
	X(stackprofile_invalid_frame_id, false, ERROR)                       \
	X(stackprofile_invalid_callstack_id, false, ERROR)                   \
	X(clock_sync_failure_unknown_source_clock, false, ERROR)             \
	X(clock_sync_failure_undeferrable_packet_loss, false, DATA_LOSS)     \
	X(config_write_into_file_no_flush, false, ERROR)                     \
	X(config_write_into_file_discard, true, DATA_LOSS)                   \
	X(long_trace_mode_bytes_overwritten, true, DATA_LOSS)                \
	X(traced_buf_sequence_packet_loss, true, DATA_LOSS)                  \
	X(traced_buf_incremental_sequences_dropped, true, DATA_LOSS)         \
	X(traced_buf_data_loss_read_gap, true, DATA_LOSS)                    \
	X(traced_buf_data_loss_chunk_corrupted, true, DATA_LOSS)             \
	X(traced_buf_data_loss_orphan_continuation, true, DATA_LOSS)         \
	X(traced_buf_data_loss_reassembly_gap, true, DATA_LOSS)              \
	X(traced_buf_data_loss_reassembly_broken_chain, true, DATA_LOSS)     \
	X(traced_buf_data_loss_overwrite, true, DATA_LOSS)                   \
	X(traced_buf_data_loss_writer_abort, true, DATA_LOSS)                \
	X(traced_buf_data_loss_smb_full, true, DATA_LOSS)                    \
	X(traced_buf_trace_writer_packet_loss, true, DATA_LOSS)              \
	X(traced_buf_patches_failed, true, DATA_LOSS)                        \
	X(traced_buf_abi_violations, true, DATA_LOSS)                        \
	X(traced_buf_chunks_discarded, true, INFO)                           \
	X(traced_buf_chunks_overwritten, true, INFO)                         \
	X(traced_buf_bytes_overwritten, true, INFO)                          \
	X(traced_buf_buffer_size, true, INFO)                                \
	X(traced_buf_bytes_read, true, INFO)                                 \
	X(traced_buf_bytes_written, true, INFO)                              \
	X(traced_buf_chunks_read, true, INFO)                                \
	X(traced_buf_chunks_relocated, true, INFO)                           \
	X(traced_buf_chunks_rewritten, true, INFO)                           \
	X(traced_buf_chunks_written, true, INFO)                             \
	X(traced_buf_chunks_committed_out_of_order, true, INFO)              \
	X(traced_buf_padding_bytes_cleared, true, INFO)                      \
	X(traced_buf_padding_bytes_written, true, INFO)                      \
	X(traced_buf_patches_succeeded, true, INFO)                          \
	X(traced_buf_readaheads_failed, true, INFO)                          \
	X(traced_buf_readaheads_succeeded, true, INFO)                       \
	X(traced_buf_write_wrap_count, true, INFO)                           \
	X(traced_final_flush_failed, false, DATA_LOSS)                       \
	X(traced_final_flush_succeeded, false, INFO)                         \
	X(traced_flushes_failed, false, DATA_LOSS)                           \
	X(traced_flushes_requested, false, INFO)                             \
	X(traced_flushes_succeeded, false, INFO)                             \
	X(traced_chunks_discarded, false, INFO)                              \
	X(traced_patches_discarded, false, INFO)                             \
	X(traced_data_sources_registered, false, INFO)                       \
	X(traced_data_sources_seen, false, INFO)                             \
	X(traced_producers_connected, false, INFO)                           \
	X(traced_producers_seen, false, INFO)                                \
	X(traced_total_buffers, false, INFO)                                 \
	X(traced_tracing_sessions, false, INFO)                              \
	/* Ours: trace_processor lacks these rows. */                        \
	X(perfwind_end_missing, false, DATA_LOSS)                            \
	X(perfwind_packets_missing, false, DATA_LOSS)

enum trace_stat {
#define X(name, indexed, severity) STAT_##name,
	TRACE_STATS(X)
#undef X
		TRACE_STAT_COUNT
};

struct trace_stat_info {
	const char *name;
	bool indexed; /* by CPU, perf session or buffer */
	enum trace_stat_severity severity;
};
const struct trace_stat_info *trace_stat_info(enum trace_stat stat);
/* What a value that is not 0 means, and what of the config to change; NULL: nothing to change. */
struct trace_stat_words {
	const char *meaning, *hint;
};
const struct trace_stat_words *trace_stat_words(enum trace_stat stat);
/* Bytes that RING_BUFFER buffers let go for newer ones, as they are meant to: of those that were not to
 * be written into a file before. */
struct profile;
uint64_t trace_stat_overwritten(const struct profile *profile);
const char *trace_stat_severity_name(enum trace_stat_severity severity);
