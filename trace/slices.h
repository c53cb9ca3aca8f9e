/* slices.h - slices, instants and counters on tracks of the Perfetto UI (TrackDescriptor, TrackEvent).  Thread: main.
 *
 * Readers sort packets by time, so events may be written in any order; the slices of one track must be nested.  Ids of frames
 * and callstacks stay valid: the tables of the writer are not touched.  Errors: -ENOMEM; the sink's. */
#pragma once

#include "trace/writer.h"

/* A thread's track (tid), a process's (tid 0), or one below a process's with a name. */
struct writer_track {
	uint32_t pid, tid;
	const char *name; /* NULL: the thread's or process's own */
	uint64_t
		number; /* of named tracks: it differs between tracks of one name, which pictures show as one */
	bool counter;
};
enum writer_event_type {
	WRITER_BEGIN = 1,
	WRITER_END,
	WRITER_INSTANT,
	WRITER_COUNTER
}; /* TrackEvent.Type */
struct writer_track_event {
	enum writer_event_type type;
	uint64_t time;	      /* the session's clock, ns */
	const char *category; /* "wait", "mark"; NULL: none */
	const char *name;     /* NULL: none (WRITER_END, WRITER_COUNTER) */
	int64_t value;	      /* of a counter */
	/* One annotation; key NULL: none. */
	const char *key, *text;
};
/* Writes the track's descriptor where a reader may not know it yet, and the event. */
int writer_track_event(struct writer *writer, const struct writer_track *track,
		       const struct writer_track_event *event);

struct writer_slice {
	uint32_t pid, tid;
	uint64_t begin,
		end; /* the session's clock, ns; nothing is written of a slice without a length */
	const char *category; /* "wait" */
	const char *name;
};
/* Both ends of a slice on a thread's track. */
int writer_slice(struct writer *writer, const struct writer_slice *slice);
