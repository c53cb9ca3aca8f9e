/* counters.h - counts of events, without samples and rings.  Thread: main.
 *
 *   events   the events of one group are on a CPU together, or not at all
 *   targets  a thread, a CPU, a thread or a cgroup on one CPU; each belongs to a row of the result
 *
 * An event that shares its hardware counter with others runs a part of the time only; its count is scaled by
 * enabled / running, and the result has both times. */
#pragma once

#include "perf/source.h"

enum { COUNTERS_EVENTS = 64, COUNTERS_TARGETS = 1 << 16 };

enum counter_state {
	COUNTER_COUNTED,
	COUNTER_NOT_COUNTED,   /* it never ran: no target did, or no counter was free */
	COUNTER_NOT_SUPPORTED, /* the machine does not have this counter */
	COUNTER_NOT_PERMITTED,
};

struct counters_options {
	const struct perf_spec *specs; /* borrowed while the counters live */
	const uint8_t *
		groups; /* of each event: the number of its group, 0: alone; borrowed.  The events of one
				  group are neighbours */
	size_t n;	/* at most COUNTERS_EVENTS */
	bool inherit;	     /* threads and processes that a target starts count with it */
	bool enable_on_exec; /* else counters_enable() */
};

struct counters_target {
	pid_t tid;     /* -1: all of the CPU */
	int cpu;       /* -1: all */
	int cgroup_fd; /* of the cgroup's folder; -1: none; then tid is -1, and there is a CPU */
	uint32_t row;
};

struct counters_value {
	enum counter_state state;
	uint64_t value;			 /* scaled; of cpu-clock and task-clock ns */
	uint64_t enabled_ns, running_ns; /* sums of all targets of the row */
};

struct counters;

int counters_new(const struct counters_options *options, struct counters **ret_counters);
struct counters *counters_free(struct counters *counters);
/* Opens all events for one more target.  0; COUNTERS_GONE: the thread has ended, or the CPU is offline.  < 0: no further
 * target can be added, and @error has a line for the user.  An event that is refused gets a state. */
enum { COUNTERS_GONE = 1 };
int counters_add(struct counters *counters, const struct counters_target *target, char *error,
		 size_t error_size);
/* Is an event open? */
bool counters_any(const struct counters *counters);
/* Why an event was refused for *ret_refused targets, a line for the user; NULL: for none. */
const char *counters_why(const struct counters *counters, size_t event, size_t *ret_refused);
/* Does it count user code only, as the kernel's part was refused? */
bool counters_kernel_refused(const struct counters *counters, size_t event);
int counters_enable(struct counters *counters);
/* Reads all.  From then on counters_value() has what was counted between this read and the read before it, or the
 * start. */
int counters_read(struct counters *counters);
/* @row of the result, event by its index. */
void counters_value(const struct counters *counters, uint32_t row, size_t event,
		    struct counters_value *ret_value);
