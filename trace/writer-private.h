/* writer-private.h - what the files of the writer share.  Private to trace/.  Thread: main. */
#pragma once

#include "trace/intern.h"
#include "trace/writer.h"
#include "protos/trace.pb-c.h"

struct writer {
	struct writer_options options;
	struct sink *sink;
	struct intern intern;
	struct buffer packet; /* the one being put together */
	bool any_packet;      /* the first of a sequence says so */
	/* Memory bounds of the tables; when one is passed, the next sample is followed by a new
	 * generation. */
	size_t max_stack_bytes, max_frame_bytes, max_symbol_bytes;
	size_t symbol_bytes; /* waiting in the mappings */
};

/* The trace format's number of a CLOCK_*; 0: none that it knows. */
uint32_t writer_clock_id(int clock);
/* The packets that a generation begins with. */
int writer_defaults(struct writer *w);
/* Packs and hands over @packet; fills in the sequence's fields. */
int writer_packet(struct writer *w, Pb__TracePacket *packet);
/* Begins a packet put together by hand: room for @len bytes of content, of which the tag and length
 * are written already.  The caller appends exactly @len and calls writer_packet_end(). */
uint8_t *writer_packet_begin(struct writer *w, size_t len);
int writer_packet_end(struct writer *w, const uint8_t *end);
/* CLOCK_BOOTTIME for packets that are of no sample. */
uint64_t writer_now(const struct writer *w);
