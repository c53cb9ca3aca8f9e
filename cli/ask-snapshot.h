/* ask-snapshot.h - a snapshot of the daemon's flight recorder, over its control socket.  Thread: main. */
#pragma once

#include "trace/sink.h"

struct ask_snapshot {
	uint64_t samples, bytes;
	char why[512]; /* of a failure, a line */
};
/* Asks at @socket and writes to @file (of sink_file_new()) until all is there.  @last_ns: as of a struct flight_request.  < 0:
 * ret->why is set. */
int ask_snapshot(const char *socket, uint64_t last_ns, struct sink *file, struct ask_snapshot *ret);
