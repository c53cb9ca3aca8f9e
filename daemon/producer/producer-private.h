/* producer-private.h - one connection's state; shared by producer*.c only. */
#pragma once

#include "daemon/producer/frame.h"
#include "daemon/producer/producer.h"

enum producer_method {
	METHOD_INITIALIZE,
	METHOD_REGISTER_SOURCE,
	METHOD_UNREGISTER_SOURCE,
	METHOD_COMMIT,
	METHOD_GET_COMMAND,
	METHOD_REGISTER_WRITER,
	METHOD_UNREGISTER_WRITER,
	METHOD_STARTED,
	METHOD_STOPPED,
	METHOD_SYNC,
	N_METHODS
};

enum producer_state {
	PRODUCER_WAITING, /* for the next try; all below have a connection */
	PRODUCER_BINDING,
	PRODUCER_OPENING,
	PRODUCER_REGISTERING,
	PRODUCER_SERVING,
	PRODUCER_LEAVING,
};

enum { PRODUCER_SOURCES_MAX = 4 };

struct producer {
	struct producer_options options;
	const struct producer_events *events;
	void *arg;
	struct loop *loop;
	struct loop_timer retry;
	uint32_t wait_ms; /* before the try under way */
	bool told;	  /* that the service is not there: once */
	uint32_t
		distrusted; /* the user whose service was refused last, logged once; UINT32_MAX: none */

	enum producer_state state;
	struct frame_stream stream;
	struct loop_source source;
	bool writable_wanted;
	const char *refused;			 /* why the connection is to end */
	uint32_t service_id, methods[N_METHODS]; /* 0: the service does not have it */
	uint64_t last_request;
	/* Requests that wait for an answer; 0: none. */
	uint64_t bind, initialize, command, sync, commit;
	uint64_t registering[PRODUCER_SOURCES_MAX];
	bool commit_again; /* one more was asked for while `commit` is under way */
};

/* producer-calls.c */
void producer_bind(struct producer *p);
void producer_open(struct producer *p);
void producer_register(struct producer *p);
/* From a bind reply: service and method ids.  false: what cannot be missing is. */
bool producer_take_methods(struct producer *p, const Pb__IPCFrame__BindServiceReply *reply);
/* producer-events.c: one IPCFrame that has come in. */
void producer_dispatch(struct producer *p, const Pb__IPCFrame *frame);
