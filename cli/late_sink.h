/* late_sink.h - the file of a recording, opened with its first packet.  Thread: main.
 * An old trace is not put aside for a session that cannot start. */
#pragma once

#include "daemon/out/sink.h"

/* Borrows @path.  @plain: packets as they are, not deflated.  Returns new. */
int late_sink_new(const char *path, bool plain, struct sink **ret_sink);
/* The same, compressed and written in a thread beside (sink_beside_new). */
int late_sink_new_beside(const char *path, bool plain, struct sink **ret_sink);
/* Says in one line that the file could not be made, if that is so.  Of any sink. */
bool late_sink_tell(const struct sink *sink);
