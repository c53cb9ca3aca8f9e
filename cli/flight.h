/* flight.h - `record --flight-recorder`: requests for a snapshot, and the file it goes to.  Thread: main.
 *
 *   SIGUSR2 ──────────────────────────────────┐
 *   perfwind snapshot (flight-protocol.h) ────┴─► cut ─► flush ─► FILE-1.pftrace ..., or the client's file
 *   end of the recording ──────────────────────────────────────► FILE
 *
 * Requests while a snapshot is made get that one.  With flight_switch() each of our files goes on where the one before it ends. */
#pragma once

#include "base/loop.h"
#include "trace/sink.h"
#include "tracing/recorder.h"

/* Collectors besides the session. */
struct flight_collect {
	bool tasks;	/* the table of tasks at a snapshot, and the ends of tasks */
	bool addresses; /* kernel frames have their addresses: by the session */
	bool system;	/* counters of the machine once a second */
};

struct flight;
/* Borrows @path, the trace (not "-").  *ret_sink belongs to the flight recorder; sink_free() of it does nothing. */
int flight_new(const char *path, const struct recorder_options *options,
	       const struct flight_collect *collect, struct flight **ret_flight,
	       struct sink **ret_sink);
/* Waits for a snapshot in progress, 60 s at most. */
struct flight *flight_free(struct flight *flight);
/* Before the session makes threads and the list of system calls applies: blocks SIGUSR2, listens, and reads both in @loop.
 * @flush: hands over the samples in flight, then calls flushed(); < 0: it cannot. */
int flight_watch(struct flight *flight, struct loop *loop,
		 int (*flush)(void *arg, void (*flushed)(void *), void *flushed_arg), void *arg);
/* Before flight_begin(): nothing is collected until a client asks for it; then for the time that it gives, by @sample,
 * with the @arg of flight_watch().  -errno of @sample goes to the client. */
void flight_arm(struct flight *flight, int (*sample)(void *arg, bool on));
/* Before flight_begin(): each of our own files holds the samples since the previous one, and the trace the rest.  @every_ns: the
 * time between two files; 0: only SIGUSR2 begins one. */
void flight_switch(struct flight *flight, uint64_t every_ns);
/* The session has written its head. */
int flight_begin(struct flight *flight);
/* After the last packet: writes the trace with its end mark, and sets `bytes` and `written` of the sink to those of
 * the file. */
int flight_end(struct flight *flight);
/* At once, without the samples in flight: the same, and reports it.  Nothing before flight_begin(). */
void flight_leave(struct flight *flight);
