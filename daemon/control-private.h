/* control-private.h - the parts of the control socket; shared by control*.c only.  Thread: main. */
#pragma once

#include "daemon/base/closer.h"
#include "daemon/control.h"
#include "daemon/ipc/control.h"
#include "daemon/policy.h"
#include "daemon/trace-session.h"

enum { CONTROL_TICK_MS = 250, CONTROL_ERROR = 512 };

enum client_state { CLIENT_ASKING, CLIENT_RUNNING, CLIENT_LEAVING };

struct client {
	struct control *control;
	struct client *next;
	struct loop_source source;
	struct control_stream stream;
	struct asker asker;
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
	bool renew_waits;	     /* its work has not begun: it came before renew_from */
	uint64_t renew_from;	     /* CLOCK_MONOTONIC, ms */
	char step[512];		     /* the step from own rights to us, for the trace */

	/* control-sink.c */
	struct sink sink;
	size_t max_waiting;
	bool lost, renewing;
};

struct control {
	struct control_options options;
	struct policy policy;
	struct loop *loop;
	struct loop_source listener;
	struct closer closer;
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
/* control.c, for the session: tells its end, and each line for a person. */
void client_done(void *client);
void client_noted(void *client, const char *line);

/* control-sink.c */
void client_sink_init(struct client *client, size_t max_waiting);
/* Sends what the socket takes and watches for room.  < 0: the peer is gone. */
int client_send(struct client *client);
/* control-summary.c */
int control_send_summary(struct client *client, enum control_type type);
