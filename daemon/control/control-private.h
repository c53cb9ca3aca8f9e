/* control-private.h - the parts of the control socket; shared by control*.c only.  Thread: main. */
#pragma once

#include <time.h>

#include "base/closer.h"
#include "daemon/control/control.h"
#include "daemon/control/control-protocol.h"
#include "daemon/control/output.h"
#include "daemon/policy/policy.h"
#include "tracing/trace-session.h"

enum {
	CONTROL_TICK_MS = 250,
	CONTROL_ERROR = 512,
	/* What is said waits for its reader up to that. */
	CONTROL_SAID_MAX = 64 << 10,
	/* Of packets in the kernel that are not read yet, each costing more than its bytes.  The
	 * client could ask for any room in its socket: it is our control group's memory. */
	CONTROL_OUTPUT_ROOM = 128 << 10,
	CONTROL_OUTPUT_UNREAD = 512 << 10,
	CONTROL_BLAMES = 64,
	CONTROL_TURNS = 64,
};

static inline uint64_t control_now_ms(void)
{
	return clock_ns(CLOCK_MONOTONIC) / NSEC_PER_MSEC;
}

enum client_state { CLIENT_ASKING, CLIENT_RUNNING, CLIENT_LEAVING };

struct client {
	struct control *control;
	struct client *next;
	struct loop_source source;
	struct loop_source life; /* of the process that asks: its end is told */
	struct control_stream stream;
	/* For the packets; fd -1: not here yet, or nobody reads any more. */
	struct control_stream output;
	struct loop_source output_source;
	bool output_watches_out;
	uint64_t streamed; /* bytes that it has got, or still gets */
	/* Its connection is not read meanwhile: by control-output.c; until client_may_open(). */
	enum { CLIENT_AWAITS_NOTHING, CLIENT_WAITS, CLIENT_LOOKED_AT, CLIENT_AWAITS_TURN } awaits;
	unsigned tries;
	struct asker asker;
	/* As of its connection: whose limits it counts in (policy_person()); may record everything. */
	uint32_t person;
	bool trusted;
	char confined[160]; /* by which profile (policy_confined()); empty: by none */
	enum client_state state;
	bool watches_out;
	uint64_t deadline; /* CLOCK_MONOTONIC; ASKING, LEAVING */
	uint64_t told_at;  /* progress, the same */

	/* What it asked for. */
	enum policy_scope scope;
	Pb__ControlRequest *request;
	struct perf_spec specs[1 + PERF_MAX_FOLLOWERS];
	size_t n_specs;
	uint32_t *cpus;
	struct config *config;
	uint64_t rate;		     /* of its sessions together */
	uint32_t sessions;	     /* one, or one a data source */
	struct session *session;     /* one of them */
	struct trace_session *trace; /* or none */
	bool renews;		     /* CONTROL_RENEW is not answered yet */
	bool renew_waits;	     /* its work has not begun: it came too early */
	uint64_t renew_from;	     /* CLOCK_MONOTONIC, ms */
	char step[512];		     /* the step from own rights to us, for the trace */

	/* control-sink.c */
	struct sink sink;
	size_t max_waiting;
	bool lost, renewing;
};

/* control-output.c */
struct control_outputs {
	struct helper *helper; /* NULL: not needed yet */
	struct loop_source source;
	enum { OUTPUTS_IDLE, OUTPUTS_LOOKS, OUTPUTS_CLOSES } state;
	struct client *client; /* whose connection it has; NULL: gone */
	uint32_t person;       /* whose descriptors it closes */
	uint64_t deadline;     /* CLOCK_MONOTONIC, ms */
	struct output_blame {
		uint32_t person, times;
		uint64_t until; /* the same */
	} blames[CONTROL_BLAMES];
};

/* control-limits.c: when a person's next recording may be opened. */
struct control_turn {
	uint32_t person;
	uint64_t from; /* CLOCK_MONOTONIC, ns */
};

struct control {
	struct control_options options;
	struct control_turn turns[CONTROL_TURNS];
	struct policy policy;
	struct loop *loop;
	struct loop_source listener;
	struct closer closer;
	struct control_outputs outputs;
	bool paused; /* no descriptor for the next connection: until the tick */
	struct loop_timer tick;
	struct client *clients;
	size_t n_clients;
	uint64_t stop_by; /* CLOCK_MONOTONIC; 0: not stopping */
	bool stopped;
	struct control_counts counts;
};

/* control-request.c: opens and starts what @request (consumed) asks for.  < 0: a line in @error. */
int client_open(struct client *client, Pb__ControlRequest *request, char *error, size_t error_size);
void client_close(struct client *client);
/* -EPERM, and the line in @error. */
int control_denied(char *error, size_t size, const char *format, ...) _printf_(3, 4);

/* control-limits.c.  Is there a place for its connection? */
bool client_has_place(const struct client *client);
/* Is it its person's turn to have one opened?  Main was held for it since @from (CLOCK_MONOTONIC, ns). */
bool client_may_open(const struct client *client);
void client_charge(struct client *client, uint64_t from);
/* May it have one more recording, ... */
int client_check_sessions(const struct client *client, char *error, size_t size);
/* ... of @rate samples a second?  Then it has. */
int client_add_session(struct client *client, uint64_t rate, char *error, size_t size);
/* What one recording of a user may take of what all of theirs may. */
uint32_t client_share(const struct client *client, uint32_t of_all);
uint64_t client_memory_share(const struct client *client);
/* The processes of a session and the descriptors of their events. */
void client_limit_targets(const struct client *client, struct session_options *options);
/* A recording's packets, rings, processes and descriptors. */
void client_limit(struct client *client, struct session_options *options);
/* The buffers of its trace config. */
uint64_t client_buffers_kb(const struct client *client);
int client_check_buffers(const struct client *client, char *error, size_t size);
/* Whose it is, and what else it holds. */
void client_own(struct client *client, struct session_options *options);

/* control-client.c.  Consumes @fd, also on failure. */
int client_new(struct control *control, int fd);
void client_free(struct client *client);
/* What it records ends, and it is told. */
void client_stop(struct client *client);
/* @client may be gone after it. */
void client_tick(struct client *client, uint64_t now_ms);
/* For the session: tells its end, and each line for a person. */
void client_done(void *client);
void client_noted(void *client, const char *line);

/* Its end, with a line that says why.  @c may be gone after it. */
void client_deny(struct client *client, const char *why);
/* The descriptor for its packets (consumed), or why it is none; the same. */
void client_output(struct client *client, enum output_verdict verdict, int fd);

/* control-output.c */
void control_outputs_init(struct control *control);
void control_outputs_deinit(struct control *control);
void control_outputs_tick(struct control *control, uint64_t now_ms);
/* The first byte of its connection brings descriptors: client_output() or client_deny() is called,
 * maybe before this returns. */
void client_output_look(struct client *client);
void control_outputs_forget(struct client *client);
extern const char control_not_looked_at[];

/* control-sink.c */
void client_sink_init(struct client *client, size_t max_waiting);
/* Sends what the sockets take and watches for room.  < 0: the peer is gone. */
int client_send(struct client *client);
/* Bytes that wait for it. */
size_t client_waiting(const struct client *client);
/* Nobody reads the packets any more, or all have been told. */
void client_output_close(struct client *client);
/* control-summary.c */
int control_send_summary(struct client *client, enum control_type type);
