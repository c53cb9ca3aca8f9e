/* flight.h - a flight recorder: packets stay in memory, at most SIZE bytes, the latest, until a user
 * needs them.  SIGUSR2 writes them to a file of their own while the recording goes on; the end of the
 * recording writes them to the trace.  Thread: main.
 *
 *   session ─► sink ─┬─ until flight_begin(): the head (clocks, system), kept
 *                    └─ then: a central buffer that overwrites its oldest packets
 *   SIGUSR2 ─► fork: the child has a copy of the buffer as of this moment ─► FILE-1.pftrace ... */
#pragma once

#include "base/loop.h"
#include "trace/sink.h"

struct flight;
#define FLIGHT_BYTES_MIN (1ull << 20)
#define FLIGHT_BYTES_MAX (64ull << 30)
/* Borrows @path, the trace (not "-").  The memory is touched and, within RLIMIT_MEMLOCK, locked.
 * *ret_sink belongs to the flight recorder; sink_free() of it does nothing. */
int flight_new(const char *path, uint64_t bytes, bool plain, struct flight **ret_flight,
	       struct sink **ret_sink);
/* Waits for a snapshot in progress, 60 s at most. */
struct flight *flight_free(struct flight *flight);
/* Before the session makes threads and the list of system calls applies: blocks SIGUSR2, and reads it in @loop.
 * @flush: hands over the samples in flight, then calls flushed(); < 0: it cannot. */
int flight_watch(struct flight *flight, struct loop *loop,
		 int (*flush)(void *arg, void (*flushed)(void *), void *flushed_arg), void *arg);
/* The session has written its head. */
void flight_begin(struct flight *flight);
/* After the last packet: writes the trace with its end mark, and sets `bytes` and `written` of the sink to those of
 * the file. */
int flight_end(struct flight *flight);
/* "DIR/NAME-3.pftrace" of "DIR/NAME.pftrace". */
void flight_snapshot_name(const char *path, unsigned number, char *name, size_t size);
