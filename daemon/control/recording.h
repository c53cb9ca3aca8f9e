/* recording.h - a recording on request: the request is checked against policy and limits, then a session or
 * a trace session is opened for it.  Thread: main.
 *
 *   request ──► fields checked ──► policy ──► limits ──► session opened ──► targets checked again ──► started
 *
 * The limits of a user hold for all recordings of the person behind the user id (policy_person()).  The
 * mapping from ids to persons is not always known, so one person may use up what the daemon gives to all
 * users together; a part of it is reserved for requesters that may record everything. */
#pragma once

#include "base/loop.h"
#include "config/config.h"
#include "daemon/policy/policy.h"
#include "protos/control.pb-c.h"
#include "session/session.h"
#include "tracing/trace-session.h"

enum { RECORDING_TURNS = 64 };

/* Time of the main thread that a person's recordings have used. */
struct recording_turn {
	uint32_t person;
	uint64_t from; /* CLOCK_MONOTONIC, ns: used up to here */
};

/* What the recordings of a daemon share.  Set by its owner: options, features, shared, loop. */
struct recordings {
	struct settings settings;
	struct policy policy; /* policy_of() of the settings */
	struct features features;
	struct session_shared *shared; /* borrowed */
	struct loop *loop;	       /* borrowed */
	struct recording *first;       /* that are open */
	struct recording_turn turns[RECORDING_TURNS];
};

struct requester {
	struct policy_requester ids;
	uint32_t person;    /* the limits that it counts in */
	bool trusted;	    /* may record everything */
	char confined[160]; /* the AppArmor profile that confines it; empty: none */
};

struct recording {
	/* Set by its owner, which is the argument of the functions. */
	struct recordings *all;
	const struct requester *requester;
	struct sink *sink;
	void (*noted)(void *owner, const char *brief, const char *line);
	void (*done)(void *owner);
	uint64_t (*holds)(void *owner); /* bytes that the owner keeps for the requester */
	void *owner;

	/* From recording_open() to recording_close(). */
	struct recording *next;
	struct session *session;     /* either */
	struct trace_session *trace; /* or */
	Pb__ControlRequest *request;
	struct perf_spec specs[1 + PERF_MAX_FOLLOWERS];
	size_t n_specs;
	size_t max_waiting; /* bytes of packets that may wait for the requester */
	enum policy_scope scope;
	uint32_t *cpus;
	struct config *config;
	uint64_t rate;	   /* samples a second of a CPU, of all its sessions */
	uint32_t sessions; /* one, or one for each data source */
	char step[512];	   /* the note that the daemon records for this user */
	bool listed;
};

/* false: the person has used its share of the main thread's time; ask again later. */
bool recording_may_open(const struct recording *r);
/* Consumes @request.  < 0: a line in @error, or the error's number alone. */
int recording_open(struct recording *r, Pb__ControlRequest *request, char *error,
		   size_t error_size);
int recording_start(struct recording *r);
/* A message CONTROL_TRIGGER for its trace session: the verdict.  -EBADMSG: it is damaged, or there is no trace session. */
int recording_trigger(struct recording *r, const void *data, size_t len);
/* Also after an error, and of a recording that was never opened. */
void recording_close(struct recording *r);
