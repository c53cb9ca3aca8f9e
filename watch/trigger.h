/* trigger.h - one rule against its measured values: when an episode begins and ends.  Thread: main.
 *
 *          value >= above            for hold            value < below for calm, or longest
 *   CALM ─────────────────► RISING ─────────► HIGH ──────────────────────────────► AFTER ──► CALM
 *     ▲        value < below  │                                                      after: the episode is written
 *     └───────────────────────┘
 *
 * Times are of one clock, in ns; a step that comes late counts for the whole time since the last one. */
#pragma once

#include "watch/rules.h"

enum trigger_state { TRIGGER_CALM, TRIGGER_RISING, TRIGGER_HIGH, TRIGGER_AFTER };
enum trigger_event {
	TRIGGER_NOTHING,
	TRIGGER_FIRED,
	TRIGGER_ENDED,	    /* trigger_episode() has the episode, which can be written now */
	TRIGGER_SUPPRESSED, /* it would have fired: within the cooldown, or over the number of a day */
};

struct trigger {
	enum trigger_state state;
	uint64_t since, end;	 /* the first value above, the last one */
	uint64_t calm_since;	 /* HIGH: 0: it is above */
	uint64_t last;		 /* step */
	double weighted, peak;	 /* since `since`: value times ns */
	double calm_weighted;	 /* of it since calm_since, which counts if the value rises again */
	uint32_t peak_pid;	 /* 0: none */
	uint64_t cooldown_until; /* 0: none */
	uint64_t day;		 /* begin of the day that per_day counts */
	uint32_t n_of_day;
	bool suppressed; /* reported for this rise */
};

struct trigger_episode {
	uint64_t start, end; /* begin of the rise, last value above */
	double average, peak;
	uint32_t pid; /* 0: the rule is not of a process */
};

enum trigger_event trigger_step(struct trigger *t, const struct watch_rule *rule, uint64_t now,
				double value, uint32_t pid);
/* Ends what is going on, as watch itself ends or the rule was removed: TRIGGER_ENDED or TRIGGER_NOTHING. */
enum trigger_event trigger_stop(struct trigger *t, const struct watch_rule *rule, uint64_t now);
/* The episode was not kept: the cooldown ends at @until at the latest, and the day does not count it. */
void trigger_retry(struct trigger *t, uint64_t until);
/* After TRIGGER_ENDED. */
struct trigger_episode trigger_episode(const struct trigger *t);
