/* service-packets.h - the packets that a tracing service adds to a trace, for traces without one.
 * Thread: main.  They are a sequence of their own, the first of the trace, and are appended to a
 * buffer as whole Trace.packet fields. */
#pragma once

#include "base/bytes.h"
#include "tracing/trace-buffer.h"
#include "protos/trace.pb-c.h"

enum { SERVICE_SEQUENCE = 1 };

struct service {
	int32_t uid;
	const char *tool; /* "perfwind 0.1" */
	bool any_packet;
	struct service_clocks { /* of the last snapshot, ns */
		uint64_t boottime, others[3];
	} clocks;
};

/* What the statistics at the end of a trace are made of; all borrowed. */
struct service_totals {
	const struct trace_buffer *const *buffers;
	size_t n_buffers;
	/* The buffer of each sequence: without it readers cannot match losses to sequences. */
	const struct service_writer {
		uint32_t sequence, buffer;
	} * writers;
	size_t n_writers;
	uint64_t flushes_requested, flushes_succeeded, flushes_failed;
	bool late; /* a data source did not end in time */
};

/* All return 0 or -ENOMEM.  Sync marker, uuid (NULL: a random one), the config as it was given
 * (NULL: left out), the machine. */
int service_marker(struct service *service, struct buffer *to);
int service_uuid(struct service *service, const int64_t uuid[2], struct buffer *to);
int service_config(struct service *service, const struct buffer *config, struct buffer *to);
int service_system_info(struct service *service, struct buffer *to);
/* A clock snapshot: the first time, and when a clock has moved by 10 ms or more against the others
 * since the last one. */
int service_clocks(struct service *service, struct buffer *to);
int service_event(struct service *service, Pb__TracingServiceEvent__EventTypeCase event,
		  struct buffer *to);
/* @uid: of the process that sent the trigger. */
int service_trigger(struct service *service, const char *name, uint32_t uid, struct buffer *to);
/* The trigger that made this snapshot.  @at: CLOCK_BOOTTIME ns, when it came. */
int service_clone_trigger(struct service *service, const char *name, uint32_t uid, uint64_t at,
			  struct buffer *to);
int service_stats(struct service *service, const struct service_totals *totals, struct buffer *to);
