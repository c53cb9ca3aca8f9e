/* triggers.h - the triggers of a TraceConfig: which names are accepted, and how often.  Thread: main.
 * Time and chance are parameters. */
#pragma once

#include "protos/trace_config.pb-c.h"
#include "base/util.h"

enum {
	TRIGGER_NAME_MAX = 255,	   /* bytes */
	TRIGGERS_MAX = 256,	   /* of a config */
	TRIGGER_LIMIT_MAX = 65536, /* max_per_24_h */
};

/* The values are also the answers of a session to `perfwind trigger`, and of the daemon to its client. */
enum trigger_verdict {
	TRIGGER_ACCEPTED = 1,
	TRIGGER_UNKNOWN,       /* not in the config, or the session is at its end */
	TRIGGER_LIMITED,       /* max_per_24_h */
	TRIGGER_SKIPPED,       /* skip_probability */
	TRIGGER_BUSY,	       /* as many snapshots as possible wait or are being written */
	TRIGGER_STARTED = 100, /* the answers to a start (deferred_start) */
	TRIGGER_REFUSED,
};

struct triggers;

/* Refuses what a service refuses, and what cannot be done here.  -EINVAL with a line that begins with the field. */
int triggers_check(const Pb__TraceConfig *config, char *error, size_t error_size);
/* Does the config wait for triggers? */
bool triggers_wanted(const Pb__TraceConfig *config);
/* UNSPECIFIED without triggers; CLONE_SNAPSHOT also for STOP_TRACING with use_clone_snapshot_if_available. */
Pb__TraceConfig__TriggerConfig__TriggerMode triggers_mode(const Pb__TraceConfig *config);
/* Borrows @config, which triggers_check() has accepted. */
int triggers_new(const Pb__TraceConfig__TriggerConfig *config, struct triggers **ret_triggers);
struct triggers *triggers_free(struct triggers *triggers);
/* @now: ns, of a clock that does not go back; @chance: 0 <= chance < 1.  ACCEPTED sets *ret_delay_ms to the trigger's
 * stop_delay_ms. */
enum trigger_verdict triggers_take(struct triggers *triggers, const char *name, uint64_t now,
				   double chance, uint32_t *ret_delay_ms);
