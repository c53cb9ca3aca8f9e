/* file-mark.h - the first and the last packet of a file that perfwind writes, by which a reader knows that
 * the file is complete (protos/perfwind.proto).  Thread: any. */
#pragma once

#include "trace/sink.h"

/* Both packets together take no more room than this in a file, deflated or not. */
enum { FILE_MARK_BYTES = 160 };

/* @behind_ms: samples older than this are in the file; 0: no bound is known.  @latest_only: earlier samples were
 * not kept (a flight recorder). */
int file_mark_begin(struct sink *sink, uint32_t behind_ms, bool latest_only);
/* @count: all that was written behind file_mark_begin().  @full: the file ended at its largest size. */
int file_mark_end(struct sink *sink, const struct sink_count *count, bool full);
