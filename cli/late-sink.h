/* late-sink.h - the file of a recording, opened with its first packet.  Thread: main.
 * An old trace is not put aside for a session that cannot start. */
#pragma once

#include "trace/sink.h"

/* Borrows @path.  @plain: packets as they are, not deflated.  Returns new. */
int late_sink_new(const char *path, bool plain, struct sink **ret_sink);
/* The same, compressed and written in a thread beside (sink_beside_new). */
int late_sink_new_beside(const char *path, bool plain, struct sink **ret_sink);
/* Before the first packet: what was sampled longer ago than this is in the file at any moment.  The
 * file records it.  Without this call no bound is known. */
void late_sink_behind(struct sink *sink, uint32_t ms);
/* All packets have been given: writes the end mark (trace/mark.h) and flushes.  @full: the file
 * ended at its largest size.  LATE_SINK_CUT: no mark, since there is no file, or a packet was not
 * taken before, or it is another sink. */
enum { LATE_SINK_CUT = 1 };
int late_sink_end(struct sink *sink, bool full);
/* Says in one line that the file could not be made, if that is so.  Of any sink. */
bool late_sink_tell(const struct sink *sink);
