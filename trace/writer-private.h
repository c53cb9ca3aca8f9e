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
	bool any_packet;      /* the first packet of a sequence has a mark */
	/* Memory bounds of the tables; when one is passed, the next sample is followed by a new
	 * generation. */
	size_t max_stack_bytes, max_frame_bytes, max_symbol_bytes;
	size_t symbol_bytes; /* waiting in the mappings */
	struct table tracks; /* of slices: written since incremental state was cleared */
};

/* Packs and hands over @packet; fills in the sequence's fields. */
int writer_packet(struct writer *writer, Pb__TracePacket *packet);
