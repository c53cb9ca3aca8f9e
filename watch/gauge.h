/* gauge.h - the value of a rule, measured at each poll.  Thread: main.
 *
 * Reads /proc, /sys/fs/cgroup and counters of perf events; nothing is sampled.  A process is named by its pid or its
 * name; a process that starts later is found at the next poll, one that changes its name within 5 s.  Marks are counted by the flight
 * recorder, in memory that it shares with this process. */
#pragma once

#include "watch/rules.h"

struct gauge;
struct shared_counts;
/* Opens what the rule measures.  @root: "" on a machine, a folder with a fake proc/ and sys/ in tests.  @marks: the counts of the
 * recorder, NULL: rules of marks are refused.  Borrows @rule and @marks.
 * -errno with one line in @error: an event that cannot be counted, a cgroup that does not exist ... */
int gauge_new(const struct watch_rule *rule, const char *root, struct shared_counts *marks,
	      struct gauge **ret_gauge, char *error, size_t error_size);
struct gauge *gauge_free(struct gauge *gauge);
/* The value at @now (CLOCK_BOOTTIME ns), and for a rule about a process its pid (else 0; of marks the last one's process).  The first poll, and one without
 * a process, gives 0. */
void gauge_poll(struct gauge *gauge, uint64_t now, double *ret_value, uint32_t *ret_pid);
/* The rule at another place, equal to the one of gauge_new(). */
void gauge_move(struct gauge *gauge, const struct watch_rule *rule);
