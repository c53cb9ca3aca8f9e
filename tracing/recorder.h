/* recorder.h - a flight recorder: packets stay in memory, at most SIZE bytes, the latest, until they are
 * needed.  Thread: main.
 *
 *   session ─► sink ─┬─ until recorder_begin(): the head (clocks, system), kept
 *                    └─ then: a central buffer that overwrites its oldest packets
 *   recorder_seal() ─► the oldest packets are kept; samples after this moment are left out
 *   recorder_write() ─► pw-snapshot, a process made by recorder_begin(), writes them to a descriptor
 *
 * A snapshot makes no process and allocates nothing: the buffer is memory shared with pw-snapshot, and what that
 * process needs was allocated and touched when it began.  Recording goes on meanwhile (trace-buffer.h).
 *
 * The ends of tasks without taskstats (struct task_polls): the values of the last poll, with their age.  /proc is read now and then; a task that was there at the last poll and is not at this one has ended.  A task that begins and ends
 * between two polls is not seen.  A poll's own CPU time decides when the next one comes. */
#pragma once

#include "base/loop.h"
#include "trace/sink.h"
#include "tracing/task-table.h"

#define RECORDER_BYTES_MIN (1ull << 20)
#define RECORDER_BYTES_MAX (64ull << 30)
/* Of a recorder that is bounded by time alone. */
#define RECORDER_BYTES_USUAL (64ull << 20)

struct recorder_options {
	uint64_t
		bytes; /* of the buffer, RECORDER_BYTES_MIN to _MAX; touched and, within RLIMIT_MEMLOCK, locked */
	uint64_t max_ns; /* older samples are not written; 0: no bound */
	int clock;	 /* CLOCK_*, of the samples */
	bool plain;	 /* packets are not compressed */
	bool tasks;	 /* a snapshot, and the end, have the table of all tasks (task-table.h) */
	bool polls;	 /* with `tasks`: the ends of tasks come from polls of /proc */
};

struct recorder_result {
	int error; /* 0, or -errno of the write: the file ends in its last whole packet */
	uint64_t bytes;
	struct sink_count written;
};

struct recorder;
/* *ret_sink belongs to the recorder; sink_free() of it does nothing. */
int recorder_new(const struct recorder_options *options, struct recorder **ret_recorder,
		 struct sink **ret_sink);
/* A snapshot in progress is waited for, 60 s at most. */
struct recorder *recorder_free(struct recorder *recorder);
/* Before recorder_begin(), with options.tasks: options.polls. */
void recorder_poll_tasks(struct recorder *recorder);
/* Ends of tasks that polls find are left out, or kept again. */
void recorder_pause(struct recorder *recorder, bool paused);
/* The session has written its head; its list of system calls applies.  Makes pw-snapshot, which answers in @loop. */
int recorder_begin(struct recorder *recorder, struct loop *loop);

/* The cut of a snapshot.  Before another one: recorder_write() and its result, or recorder_cancel(). */
void recorder_seal(struct recorder *recorder);
void recorder_cancel(struct recorder *recorder);
/* As @last_ns: the samples since the cut of the latest snapshot that was made with it, each in one file. */
#define RECORDER_NEXT (UINT64_MAX - 1)
/* After recorder_seal() and a flush of the samples in flight.  Borrows @fd.  @last_ns: samples of this time before the cut;
 * 0: all.  @done: with the result, from the loop.  < 0: there will be none, and the recorder is as after recorder_cancel(). */
int recorder_write(struct recorder *recorder, int fd, uint64_t last_ns,
		   void (*done)(void *arg, const struct recorder_result *result), void *arg);

/* After the last packet: writes all, or with RECORDER_NEXT the rest, to @file in this process (consumed). */
int recorder_end(struct recorder *recorder, struct sink *file, uint64_t last_ns,
		 struct recorder_result *ret_result);
/* Had the latest RECORDER_NEXT lost packets, as the buffer is too small for the time between two files? */
bool recorder_had_gap(const struct recorder *recorder);

/* ---- polls of tasks: for tests.  Thread: any ---- */

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
