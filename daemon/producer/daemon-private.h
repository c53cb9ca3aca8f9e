/* daemon-private.h - the parts of the daemon; shared by daemon*.c only.  Thread: main.
 *
 * An instance, and what each command does to it:
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
 * DRAINING: the session works off what was sampled.  SETTLING: the session is gone, its packets
 * still wait for free chunks.  ENDED: a config that was refused, a session that could not be opened
 * or has stopped itself (guardrail, error): the service has yet to say stop.  A flush is answered
 * when it has come through in every instance that it names, and not before the flushes before it:
 * an answer answers all of them. */
#pragma once

#include "daemon/producer/daemon.h"
#include "daemon/producer/producer.h"
#include "config/perf-config.h"
#include "session/session.h"
#include "daemon/policy/policy.h"

enum {
	DAEMON_TICK_MS = 100,
	DAEMON_SETTLE_MS = 1500, /* how long an answer waits for free chunks */
	DAEMON_FLUSHES = 1024,	 /* under way at once; the oldest is then answered */
};
#define TRACED_OWNER UINT32_MAX /* of all its sessions: who asks the service is not known */

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
	struct perf_config *config; /* NULL: metatrace, or refused */
	struct share *share;	    /* of its tracing session; NULL: it has none */
	uint32_t target_buffer;
	struct policy_traced policy; /* as it was at its start */
	struct session *session;
	uint64_t rate,
		stack_bytes; /* that it asked for, of settings.traced_*; 0 without a session */

	/* daemon-sink.c: the session's packets into the shared memory */
	struct sink sink;
	struct smb_writer *writer;
	size_t max_waiting; /* bytes of it */
	bool lost;	    /* packets: all that follow, until incremental state is written anew */
	bool renewing;	    /* the writer is asked for that */

	/* Flushes that go through this instance, by number, oldest first; the first n_through have
	 * left the session and wait for free chunks until the deadline. */
	uint64_t flushes[DAEMON_FLUSHES];
	size_t n_flushes, n_through;
	uint64_t settle_by; /* CLOCK_MONOTONIC; 0: nothing is waited for */
};

/* Data sources of one tracing session that take a share of the processes take the same one. */
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
	bool asked; /* daemon_ask_committed(): not answered yet */

	/* daemon-flush.c: number n stands at [n % DAEMON_FLUSHES], first <= n < next */
	struct flush {
		uint64_t request;
		size_t left; /* instances that have not said that it is through */
	} flushes[DAEMON_FLUSHES];
	uint64_t first_flush, next_flush;
};

/* daemon-instance.c */
void instance_setup(struct daemon *d, uint64_t id, const void *config, size_t len);
void instance_start(struct daemon *d, uint64_t id, const void *config, size_t len);
void instance_stop(struct daemon *d, uint64_t id);
/* The end of its session begins, without a command. */
void instance_end(struct instance *in);
struct instance *instance_find(const struct daemon *d, uint64_t id);
/* Chunks may have become free: goes on with what waited for them.  @in may be gone after it. */
void instance_settle(struct instance *in);
/* Without an answer to anybody. */
void instance_free(struct instance *in);

/* daemon-sink.c */
int instance_open_sink(struct instance *in);
void instance_close_sink(struct instance *in);
size_t instance_waiting(const struct instance *in);
/* After a loss: once there is room, everything that readers need is to be written anew. */
void instance_renew(struct instance *in);
/* One packet about ourselves, for metatrace. */
void instance_write_metatrace(struct instance *in);

/* daemon-flush.c */
void flush_begin(struct daemon *d, uint64_t request, const uint64_t *ids, size_t n);
/* Flush @number is through in one instance. */
void flush_through(struct daemon *d, uint64_t number);

/* daemon.c */
/* Asks the service to say when it has taken what was committed. */
void daemon_ask_committed(struct daemon *d);
/* Frees chunks are used, answers given.  Instances may be gone after it. */
void daemon_pump(struct daemon *d);
