/* trace-buffer.h - a central buffer of a trace session without a tracing service: packets wait in
 * memory until they are read out into a file.  Thread: main.
 *
 * As a service's buffer: RING overwrites the oldest packets, DISCARD takes no more once it was
 * full.  A sequence's packets are read in the order they were written; the first one after a loss
 * has a mark. */
#pragma once

#include "trace/sink.h"

enum trace_buffer_policy { TRACE_BUFFER_RING, TRACE_BUFFER_DISCARD };

struct trace_buffer_options {
	size_t size; /* bytes, at least 4096; touched as it fills */
	/* A flight recorder: touched at once, shared with processes that are forked later, and locked in
	 * memory as far as RLIMIT_MEMLOCK allows.  To overwrite is its purpose: no packet is marked for it,
	 * and packets that can no longer be read, because the definitions were overwritten, are left out.
	 * An eighth stays free for packets that arrive while it is sealed. */
	bool recorder;
	enum trace_buffer_policy policy;
	/* What a service adds behind each packet (trusted_uid, trusted_pid). */
	int32_t uid, pid;
};

/* As TraceStats.BufferStats has them.  There are no chunks here: each packet counts as one, so a
 * packet that is overwritten before it was read counts in chunks_overwritten.  Bytes are those of
 * the buffer, the record's head and rounding included, and at any time
 * bytes_written = bytes_read + bytes_overwritten + what waits.  What the names here do not have
 * (patches, readaheads, padding, order, scraping) cannot happen and is 0. */
struct trace_buffer_stats {
	uint64_t buffer_size;
	uint64_t bytes_written, bytes_overwritten, bytes_read;
	uint64_t chunks_written, chunks_overwritten, chunks_read;
	uint64_t chunks_discarded; /* after a DISCARD buffer was full */
	uint64_t write_wrap_count;
	uint64_t
		trace_writer_packet_loss; /* packets larger than the buffer, or without room in a sealed one */
};

struct trace_buffer;
int trace_buffer_new(const struct trace_buffer_options *options, struct trace_buffer **ret_buffer);
/* After its sinks. */
struct trace_buffer *trace_buffer_free(struct trace_buffer *buffer);
/* A packet sequence, for one writer with a sequence_id of 0: @sequence_id is added to its
 * packets, and first_packet_on_sequence to the first.  Its flush does nothing: packets are in the
 * buffer at once.  In a RING buffer it asks for renewal (sink.h) in time. */
int trace_buffer_sink_new(struct trace_buffer *buffer, uint32_t sequence_id,
			  struct sink **ret_sink);
/* Moves what waits to @to, whole packets in order of writing, until @to has taken @max_bytes in all
 * (UINT64_MAX: everything): then TRACE_BUFFER_MORE, and the packet that did not fit waits on.  < 0:
 * from @to. */
enum { TRACE_BUFFER_MORE = 1 };
int trace_buffer_read(struct trace_buffer *buffer, struct sink *to, uint64_t max_bytes);
void trace_buffer_stats(const struct trace_buffer *buffer, struct trace_buffer_stats *ret_stats);

/* ---- a flight recorder's range for another process ----
 *
 *   ...│ read out │ sealed, not read yet │ new packets │ free (an eighth at least) │...
 *                 └──── a forked process reads these ──┘
 *
 * Nothing here allocates, but for a packet of more than TRACE_BUFFER_PACKET bytes. */
enum { TRACE_BUFFER_PACKET = 1 << 20 };
struct trace_buffer_range {
	uint64_t from, to; /* positions */
	bool overwritten;  /* packets before it were */
	/* Samples outside are left out, their interned data stays.  The default clock of their sequence, ns;
	 * both are included. */
	uint64_t since, until;
};
/* Packets in the buffer are not overwritten before the other process has read them.  New ones without room are lost,
 * counted, and announced in the next one. */
void trace_buffer_seal(struct trace_buffer *buffer);
void trace_buffer_unseal(struct trace_buffer *buffer);
/* Sets from, to and overwritten: all packets that are there. */
void trace_buffer_range(const struct trace_buffer *buffer, struct trace_buffer_range *ret_range);
/* In the forked process, or in the buffer's own at the end: moves them to @to.  < 0: from @to. */
int trace_buffer_read_range(struct trace_buffer *buffer, const struct trace_buffer_range *range,
			    struct sink *to);
/* In the forked process, once: allocates and touches the memory that reading needs. */
int trace_buffer_prepare(struct trace_buffer *buffer);
