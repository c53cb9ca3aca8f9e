/* late-sink.h - the file of a recording, opened when the first packet arrives: a session that
 * cannot start leaves an existing trace in place.  Thread: main. */
#pragma once

#include "trace/sink.h"

/* Borrows @path.  @plain: packets are not compressed.  Returns new. */
int late_sink_new(const char *path, bool plain, struct sink **ret_sink);
/* The same, compressed and written by a thread of its own (sink_threaded_new). */
int late_sink_new_threaded(const char *path, bool plain, struct sink **ret_sink);
/* Records in the file the largest delay from sample to file, in ms: if the recording is killed,
 * older samples are in the file.  Call before the first packet.  Without this call no bound is
 * recorded. */
void late_sink_behind(struct sink *sink, uint32_t ms);
/* Call after the last packet: writes the end mark (trace/file-mark.h) and flushes.  @full: the file
 * reached its largest size. LATE_SINK_CUT: no mark was written, because there is no file, a packet
 * was rejected before, or @sink is another kind of sink. */
enum { LATE_SINK_CUT = 1 };
int late_sink_end(struct sink *sink, bool full);
/* Nothing was recorded: the file goes away when the sink is freed, and an older one gets its name back.  Accepts any
 * sink or NULL; what a pipe or device has received stays. */
void late_sink_discard(struct sink *sink);
/* The line for a file that was not created or written. */
void late_sink_report_error(const char *path, int error);
/* Logs one line if the file could not be created or written.  Accepts any sink. */
bool late_sink_report(const struct sink *sink);
