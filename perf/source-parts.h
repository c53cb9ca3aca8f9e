/* source-parts.h - shared by source.c (the source, its events and rings) and source-count.c (counts,
 * the change of stack size).  Thread: main.
 *
 *   source ─ tasks[] ─ groups[n_cpus]     the sampling event, its followers, the sideband event
 *          │                               (machine: one task, tid -1)
 *          ├ cpus[]                        what belongs to a CPU whatever its events are
 *          └ rings[2 * n_cpus]             of cpus[i]: 2i samples, 2i + 1 sideband */
#pragma once

#include "base/error.h"
#include "base/table.h"
#include "perf/source.h"

enum {
	SOURCE_SIDEBAND_BYTES = 256 << 10,
	SOURCE_SWITCHES_BYTES = 4 << 20, /* with records of switches: 40 bytes each, two a switch */
	SOURCE_SIDEBAND_MIN = 32 << 10,
	SOURCE_WAKE_RECORDS = 192, /* see source.c */
	SOURCE_SPANS = 16, /* events of one CPU that followed each other; records of older ones are
			      long read */
};

/* Of source_group.fds: each switch is a sample, and one switch in many. */
enum {
	FD_SWITCH = 1 + PERF_MAX_FOLLOWERS,
	FD_SWITCH_THIN,
	FD_WAKING,
	FD_WAKER,
	FD_WATCH,
	FD_SOON, /* from here on: they sample in turn */
	FD_MIDDLE,
	FD_SMALL,
	FD_SLOW, /* PERF_RATE_STEPS of these */
	FDS = FD_SLOW + PERF_RATE_STEPS
};

/* An index of source_group.fds in place of an event's id, for the events of all tasks. */
enum { SPAN_TASKS = 1 };

/* An event of tasks is to take the place of another one, or has just done so. */
enum turn_state { TURN_SETTLED, TURN_BOTH, TURN_REPEAT };

/* What an event has counted. */
struct source_count {
	uint64_t value, enabled_ns, running_ns, lost;
};

struct source_group {
	int fds[FDS]; /* leader first; -1: the CPU does not have this counter */
	int sideband;
	uint8_t turn;		   /* fds[turn] samples: 0, or one of FD_SOON ... */
	uint64_t id;		   /* of the leader */
	struct source_count first; /* TURN_BOTH: of the next one, when it was enabled */
	struct source_count
		twice; /* by events that ran while another one's samples were the good ones */
};

struct source_task {
	pid_t tid;    /* -1: the machine */
	int clock_fd; /* tasks: counts CPU time */
	struct source_group *groups;
};

struct source_cpu {
	uint32_t cpu;
	uint32_t stack_bytes;
	bool soon;		    /* samples wake the reader at once */
	enum turn_state state;	    /* tasks */
	uint8_t turn, next, before; /* of source_group.fds; TURN_BOTH: next; TURN_REPEAT: before */
	uint64_t settle_at;	    /* CLOCK_MONOTONIC */
	bool counted, dead;	    /* enabled_ns is known; it stands still */
	uint64_t enabled_ns;	    /* of the leader, when the counts were read last */
	uint64_t sideband_lost;	    /* of sideband events that were replaced */
	struct source_count closed; /* of events that were replaced; value: scaled */
	/* A sample of event id is good within [from, until): the others of that time are doubles.
	 * tasks: id is SPAN_TASKS + index, for the events of all tasks. */
	struct {
		uint64_t id, from, until;
	} spans[SOURCE_SPANS];
	size_t n_spans; /* 0: the event was never replaced */
};

struct source_ring {
	struct perf_ring ring;
	void *base;
	size_t len;
};

struct perf_source {
	size_t living;		     /* index of a task that was alive when last looked at */
	struct perf_options options; /* after the ladder; strings and cpus are our own copies */
	uint32_t *option_cpus;
	struct merge *merge;
	struct source_cpu *cpus;
	size_t n_cpus;
	struct source_ring *rings; /* NULL until the first events are open */
	size_t n_rings;
	struct source_task *tasks;
	size_t n_tasks, tasks_room;
	struct table tid_of_id,
		added;		 /* tasks: event id -> thread it was opened for; those threads */
	struct table switch_ids; /* event id -> 1 */
	struct table turn_ids;	 /* tasks: event id -> SPAN_TASKS + index; not of leaders */
	bool samples_switches, samples_wakers, thin;
	bool wakings_wide; /* tasks: wake-ups are events of CPUs, in the first task's groups */
	size_t n_watches;  /* open, of all tasks */
	bool unwatched;	   /* a task has none */
	size_t n_turns[FDS - FD_SOON];	    /* open, of all tasks */
	bool no_turn[FDS - FD_SOON];	    /* a task has none */
	uint32_t turns_used;		    /* bits: have ever been enabled */
	size_t n_settling;		    /* CPUs */
	bool settled;			    /* the ladder has been walked: layouts are fixed */
	bool kernel_refused, enabled, held; /* held: no sampling */
	uint64_t ring_bytes, sideband_bytes;
	bool small_rings;		/* by the limit of locked memory */
	const struct perf_spec *failed; /* the event that the last open stumbled over */
	bool failed_filter;		/* it opened, but its filter was refused */
};

/* Where an answer about a refusal goes. */
struct source_answer {
	enum perf_gate *gate;
	char *error;
	size_t error_size;
};

/* source-group.c */
void source_group_init(struct source_group *group);
void source_group_deinit(struct source_group *group);
void source_attach_program(const struct perf_source *source, int fd);
/* Leader and followers on cpus[@cpu_index], disabled. */
int source_group_open(struct perf_source *source, pid_t tid, size_t cpu_index, uint32_t stack_bytes,
		      struct source_group *group);

/* Of a sampling event, 0: the watermark of its ring decides.  After the rings are mapped that is known: for events with copies of less than
 * options.stack_bytes. */
uint32_t source_wakeup_events(const struct perf_source *source, bool soon, uint32_t stack_bytes);

/* Do the sampling events run? */
static inline bool source_samples(const struct perf_source *source)
{
	return source->enabled && !source->held;
}
/* source.c.  @sampling_only: sideband events stay as they are.  The first error. */
int source_switch_all(struct perf_source *source, bool on, bool sampling_only);
/* source-group.c */
/* @request (PERF_EVENT_IOC_ENABLE ...) to the sideband events of a group, or to those that sample now.  The first error. */
int source_switch_request(const struct perf_source *source, const struct source_group *group,
			  bool sideband, unsigned long request);
int source_switch_remember(struct perf_source *source, const struct source_task *task);
/* Redirects the events of task->groups[@cpu_index], where the sideband event has its ring, and adds the events of wake-ups. */
int source_switch_output(struct perf_source *source, const struct source_task *task,
			 size_t cpu_index);

/* source-count.c: after the rings.  A refusal is not a failure: the tasks are then not watched. */
void source_watch_open(struct perf_source *source, const struct source_task *task);

/* After the rings; a refusal is not a failure. */
void source_turns_open(struct perf_source *source, struct source_task *task);
/* No change is in progress any more: the events are about to be disabled. */
void source_turns_stop(struct perf_source *source);
