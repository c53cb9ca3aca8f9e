/* mark-tracks.h - marks -> slices, counters and instants of the trace.  Thread: main.
 *
 *	B, E      nested slices on the track of the thread that wrote them, where its samples and waits are
 *	I         an instant there
 *	C         a counter of the process
 *	S, F      a slice on a track of the process that has the mark's name
 *	G, H, N   slices and instants on a track of the process that the program names
 *
 * The trace stays whole whatever a program writes: an end without a beginning is dropped, a slice without an end is closed when
 * its thread exits, execs, or the recording ends; depth, open slices and names have bounds.  Each case is counted.
 * Events of one thread must come in time order. */
#pragma once

#include "marks/mark.h"
#include "trace/writer.h"

enum {
	MARK_DEPTH_MAX = 128,	 /* slices that are open on one thread's track */
	MARK_TRACKS_MAX = 16384, /* threads with an open slice */
	MARK_ASYNC_MAX = 1024, /* S and G that are open, of all processes; a quarter of it of one */
};

struct mark_tracks;
struct mark_counts {
	uint64_t marks;	    /* written */
	uint64_t end_alone; /* an end without a beginning: dropped */
	uint64_t
		begin_alone; /* a beginning without an end: closed at the exit, the exec or the end */
	uint64_t too_many;   /* over a bound above: dropped */
	uint64_t other_pid; /* named another process than the writer's; written as the writer's */
	uint64_t left;	    /* functions left by an exception or longjmp */
};

/* Borrows @writer. */
int mark_tracks_new(struct writer *writer, struct mark_tracks **ret_tracks);
struct mark_tracks *mark_tracks_free(struct mark_tracks *tracks);
/* -ENOMEM; the sink's. */
int mark_tracks_add(struct mark_tracks *tracks, const struct mark *mark);
/* The thread has exited, or its process has run exec (@tid is then its main thread): its slices end at @time_ns.
 * @process: slices that belong to the whole process end too. */
int mark_tracks_exit(struct mark_tracks *tracks, int32_t pid, int32_t tid, bool process,
		     uint64_t time_ns);
/* The recording ends: all slices do. */
int mark_tracks_finish(struct mark_tracks *tracks, uint64_t time_ns);
const struct mark_counts *mark_tracks_counts(const struct mark_tracks *tracks);
