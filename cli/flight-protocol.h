/* flight-protocol.h - between `perfwind snapshot` and a flight recorder.  Thread: main.
 *
 *   connect to @perfwind-recorder-PID ─► flight_request [+ a descriptor] ─► flight_answer, end
 *
 * The socket is abstract: nothing is left behind by kill -9.  Any process could listen at this name, so both sides
 * check the other one by SO_PEERCRED: the recorder serves its own user and root only, and a client trusts a listener
 * of the right pid and user only.  Both structures go between two processes of one build of perfwind: `version` differs else. */
#pragma once

#include <limits.h>

#include "base/util.h"

#define FLIGHT_SOCKET "@perfwind-recorder-%u"

enum { FLIGHT_VERSION = 2, FLIGHT_SOCKET_MAX = 64 };

struct flight_request {
	uint32_t version,
		wants_file; /* wants_file: no descriptor comes along, the recorder makes the file */
	uint64_t asked_at;  /* CLOCK_MONOTONIC, ns */
	uint64_t last_ns;   /* 0: all */
	uint64_t
		arm_ns; /* not 0: no snapshot, but sampling for this time (--armed); wants_file is set */
	char name[PATH_MAX]; /* of the descriptor's file, for other clients; with a NUL */
};

struct flight_answer {
	uint32_t version;
	int32_t error;	 /* -errno; 0 */
	uint32_t joined; /* the snapshot of an earlier request: the descriptor was not written to */
	uint64_t samples, bytes;
	uint64_t cut_ns;     /* from asked_at to the cut, or until all events were on */
	char name[PATH_MAX]; /* of the file; with a NUL */
};
