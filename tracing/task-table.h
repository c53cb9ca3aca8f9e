/* task-table.h - all processes and threads at one moment, as ProcessStats packets.  Thread: any.
 *
 * A field that the kernel does not have or refuses is absent, never 0. */
#pragma once

#include "trace/sink.h"

struct task_table;
/* @root: "" on a machine; borrowed.  Allocates and touches all that task_table_write() needs.  Returns new. */
int task_table_new(const char *root, struct task_table **ret_table);
struct task_table *task_table_free(struct task_table *table);
/* Reads /proc, and writes packets of some processes each.  Allocates nothing.  < 0: from @to, or /proc
 * cannot be read. */
int task_table_write(struct task_table *table, struct sink *to);

/* A task, for a row.  `has`: bits of TASK_... */
enum {
	TASK_COMM = 1 << 0,
	TASK_PPID = 1 << 1,
	TASK_STATE = 1 << 2,
	TASK_CPU = 1 << 3, /* utime and stime */
	TASK_WAIT = 1 << 4,
	TASK_IO = 1 << 5,
	TASK_RSS = 1 << 6,
	TASK_OOM = 1 << 7,
	TASK_CGROUP = 1 << 8,
	TASK_PEAK_RSS = 1 << 9,
};
struct task_row {
	uint32_t pid, ppid, has;
	char comm[16]; /* not NUL-terminated if full */
	char state;
	uint64_t utime_ns, stime_ns, wait_ns, read_bytes, write_bytes, cancelled_bytes, rss_kb,
		peak_rss_kb;
	uint64_t age_ns;      /* the values are this old; 0: they are of the row's time */
	uint64_t start_ticks; /* of /proc/PID/stat: not in a row, a pid can be used again */
	int64_t oom_score_adj;
	const char *cgroup; /* borrowed, not NUL-terminated */
	size_t cgroup_len;
	bool ended;
};
/* Reads /proc: @each gets each process, and behind it each of its threads but the first one.  @process: its pid, row->pid: the
 * thread's number; both are equal for a process.  Allocates nothing.  < 0: /proc cannot be read. */
int task_table_each(struct task_table *table,
		    void (*each)(void *arg, uint32_t process, const struct task_row *row),
		    void *arg);
/* Writes a packet with the row of one task of @process.  < 0: from @to. */
int task_row_write(uint32_t process, const struct task_row *row, struct sink *to);
/* A ProcessStats.Process of @row and, behind it, @threads (packed fields `threads`), into @p with room for
 * TASK_ROW_MAX + n_threads.  Returns the end. */
enum { TASK_ROW_MAX = 4096 + 512 };
uint8_t *task_row_pack(uint8_t *p, const struct task_row *row, const uint8_t *threads,
		       size_t n_threads);
