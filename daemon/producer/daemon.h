/* daemon.h - perfwind as a producer of the tracing service: its data sources.  Thread: main.
 *
 *   traced ◄─ producer ─► commands ─► instances, each a session with a sink ─► smb writer
 *     ▲                                                                             │
 *     └── reads and frees chunks ◄── CommitData ◄── shared memory (smb) ◄───────────┘
 *
 * Two data sources: linux.perf (a session for each instance) and perfetto.metatrace (counters of the daemon itself), any
 * number of instances of any number of tracing sessions.  Each command is answered once and in order, in any state:
 * see daemon.c. */
#pragma once

#include "base/features.h"
#include "base/loop.h"
#include "daemon/policy/settings.h"

struct daemon_options {
	const char *socket;	   /* NULL: as a stock producer finds it */
	const char *producer_name; /* in configs: TraceConfig.producers, producer_name_filter */
	struct settings settings;
	bool privileged;  /* rights_held() */
	bool beyond_user; /* rights_beyond_user(): clients of the service would use them */
	struct features features;
	struct consent *consent; /* of all sessions; borrowed, may be NULL */
	/* The service has our data sources / the connection is lost (and tried again). */
	void (*serving)(void *arg);
	void (*lost)(void *arg);
	/* daemon_stop() is done. */
	void (*stopped)(void *arg);
	void *arg;
};

struct daemon;
struct session_shared;
/* Borrows @options' strings and @loop. */
int daemon_new(const struct daemon_options *options, struct loop *loop, struct daemon **ret_daemon);
struct daemon *daemon_free(struct daemon *daemon);
/* Sessions drain, their packets are committed, stops and flushes are answered, the data sources are unregistered;
 * then stopped(), after DAEMON_STOP_MS at the latest. */
enum { DAEMON_STOP_MS = 8000 };
void daemon_stop(struct daemon *daemon);
/* Sessions that run keep their settings. */
void daemon_set_settings(struct daemon *daemon, const struct settings *settings);
/* The data that its sessions share, for other sessions of the process; borrowed. */
struct session_shared *daemon_shared(const struct daemon *daemon);
/* Instances of both data sources, in any state. */
size_t daemon_n_instances(const struct daemon *daemon);
