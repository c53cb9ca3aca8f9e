/* task-polls.h - the ends of tasks without taskstats: the values of the last poll, with their age.  Thread: any.
 *
 * /proc is read now and then; a task that was there at the last poll and is not at this one has ended.  A task that begins and ends
 * between two polls is not seen.  A poll's own CPU time decides when the next one comes. */
#pragma once

#include "trace/sink.h"
#include "tracing/task-table.h"

enum {
	TASK_POLLS_TASKS = 8192, /* further ones are not followed */
	TASK_POLLS_MIN_MS = 1000,
	TASK_POLLS_MAX_MS = 60000,
	TASK_POLLS_SHARE =
		1000, /* a poll takes at most one part of these of the time until the next one */
};

struct task_polls;
/* Borrows @table.  Allocates and touches all that task_polls_poll() needs.  Returns new. */
int task_polls_new(struct task_table *table, struct task_polls **ret_polls);
struct task_polls *task_polls_free(struct task_polls *polls);
/* Reads all tasks at @now (CLOCK_BOOTTIME ns), and writes a packet for each that has ended since the last poll: its row with
 * `ended` and `age_ns`.  The first poll writes none.  Allocates nothing.  < 0: from @to, or /proc cannot be read. */
int task_polls_poll(struct task_polls *polls, uint64_t now, struct sink *to);
/* ms from a poll that used @cpu_ns to the next one. */
uint32_t task_polls_wait_ms(uint64_t cpu_ns);
