/* instance.h - an instance of a data source: its session, its sink, its answers.  Thread: main.
 *
 * What each command does to it:
 *
 *            │ start           stop              the session ends by itself   all is committed
 *   ─────────┼──────────────────────────────────────────────────────────────────────────────────
 *   (none)   │ as setup+start  answered at once
 *   READY    │ ─► RUNNING      answered, gone
 *   RUNNING  │ nothing         ─► DRAINING       ─► SETTLING ─► ENDED
 *   DRAINING │ nothing         nothing           ─► SETTLING
 *   SETTLING │ nothing         (noted)                                        answered, gone
 *   ENDED    │ nothing         answered, gone
 *
 * DRAINING: the session processes the samples that were taken.  SETTLING: the session is gone, its packets still wait
 * for free chunks.  ENDED: the config was rejected, the session could not be opened, or it has stopped itself
 * (guardrail, error): the service has yet to send its stop.  A flush is answered when every instance that it names
 * has finished it, and not before the flushes before it: an answer covers all of them. */
#pragma once

#include "daemon/producer/daemon.h"
#include "daemon/producer/producer.h"
#include "config/perf-config.h"
#include "session/session.h"
#include "daemon/policy/policy.h"

enum {
	DAEMON_TICK_MS = 100,
	DAEMON_SETTLE_MS = 1500, /* an answer waits so long for free chunks */
	DAEMON_FLUSHES = 1024,	 /* in progress; for one more the oldest is answered */
};
#define TRACED_OWNER UINT32_MAX /* of all sessions: the service does not report its clients */

enum instance_kind { INSTANCE_PERF, INSTANCE_METATRACE };
enum instance_state {
	INSTANCE_READY,
	INSTANCE_RUNNING,
	INSTANCE_DRAINING,
	INSTANCE_SETTLING,
	INSTANCE_ENDED
};

struct instance {
	struct daemon *daemon;
	struct instance *next;
	uint64_t id;
	enum instance_kind kind;
	enum instance_state state;
	bool stop_asked;
	Pb__DataSourceConfig *data_source; /* borrowed by config */
	struct perf_config *config;	   /* NULL: metatrace, or rejected */
	struct share *share;		   /* of its tracing session; NULL: it has none */
	uint32_t target_buffer;
	struct policy_traced policy; /* as it was at its start */
	struct session *session;
	uint64_t rate, stack_bytes; /* its part of settings.traced_*; 0 without a session */

	/* The session's packets go into the shared memory. */
	struct sink sink;
	struct smb_writer *writer;
	size_t max_waiting; /* bytes of it */
	bool lost;	    /* packets: all that follow, until incremental state is written again */
	bool renewing;	    /* the session was asked to do that */

	/* Flushes that wait for this instance, by number, oldest first; the session has finished the first
	 * n_through, which wait for free chunks until the deadline. */
	uint64_t flushes[DAEMON_FLUSHES];
	size_t n_flushes, n_through;
	uint64_t settle_by; /* CLOCK_MONOTONIC; 0: no wait */
};

/* Data sources of one tracing session that sample a share of the processes sample the same share. */
struct share {
	struct share *next;
	uint64_t tracing_session;
	size_t users;
	struct perf_config_share share;
};

struct daemon {
	struct daemon_options options;
	struct loop *loop;
	struct producer *producer;
	struct smb *smb; /* NULL: none yet */
	struct instance *instances;
	size_t n_instances;
	struct share *shares;
	struct policy_traced policy;
	struct policy_ids services;    /* policy_trusts_service() */
	struct session_shared *shared; /* of all sessions */
	struct loop_timer tick;	       /* runs while there are instances, and to the end */
	uint64_t stop_by;	       /* CLOCK_MONOTONIC; 0: not stopping */
	bool leaving, stopped;
	bool asked; /* instances_ask_committed(): not answered yet */

	/* Number n is at [n % DAEMON_FLUSHES], first <= n < next. */
	struct flush {
		uint64_t request;
		size_t left; /* instances that have yet to finish it */
	} flushes[DAEMON_FLUSHES];
	uint64_t first_flush, next_flush;
};

/* The service's commands. */
void instance_setup(struct daemon *d, uint64_t id, const void *config, size_t len);
void instance_start(struct daemon *d, uint64_t id, const void *config, size_t len);
void instance_stop(struct daemon *d, uint64_t id);
void instances_flush(struct daemon *d, uint64_t request, const uint64_t *ids, size_t n);
/* Ends its session, without a command. */
void instance_end(struct instance *in);
/* Without an answer to the service. */
void instance_free(struct instance *in);

/* Asks the service to report when it has taken the committed chunks. */
void instances_ask_committed(struct daemon *d);
/* Uses chunks that have become free, and gives the answers that waited for them.  Instances may be gone after it. */
void instances_pump(struct daemon *d);

/* For tests: the sink. */
int instance_open_sink(struct instance *in);
void instance_close_sink(struct instance *in);
size_t instance_waiting(const struct instance *in);
/* After a loss: once there is room, asks the session to write its incremental state again. */
void instance_renew(struct instance *in);
