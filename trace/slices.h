/* slices.h - states of threads as slices on the thread's track in the Perfetto UI (TrackEvent packets).  Thread: main.
 *
 * Readers sort packets by time, so slices may be written in any order; the slices of one thread must not overlap. */
#pragma once

#include "trace/writer.h"

struct writer_slice {
	uint32_t pid, tid;
	uint64_t begin,
		end; /* the session's clock, ns; nothing is written of a slice without a length */
	const char *category; /* "wait" */
	const char *name;
};
/* Ids of frames and callstacks stay valid: the tables are not touched.  Errors: -ENOMEM; the sink's. */
int writer_slice(struct writer *writer, const struct writer_slice *slice);
