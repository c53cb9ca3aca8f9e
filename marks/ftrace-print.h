/* ftrace-print.h - what programs write to trace_marker, read from the kernel's tracer (entries ftrace:print).  Thread: main.
 *
 * ftrace:print is not an event for perf_event_open().  The tracer gets an instance of its own (tracefs, instances/perfwind-PID) with
 * copy_trace_marker: buffers and a clock that no other user of the tracer sees.  A small process removes it when this one has
 * ended, however it ends; where both were killed, the next recording removes it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ftrace_print;
struct ftrace_print_sink {
	/* A line as it was written; @tid wrote it.  < 0 ends the turn. */
	int (*line)(void *arg, uint32_t tid, uint64_t time_ns, const char *text, size_t len);
	void *arg;
};

/* @clock: CLOCK_MONOTONIC, _BOOTTIME or _MONOTONIC_RAW.  Makes the instance: before privileges are dropped.  -ENOENT: tracefs is not
 * mounted, -EACCES: it is closed to this user, -EOPNOTSUPP: the kernel has no copy_trace_marker, or this is a pid namespace. */
int ftrace_print_new(int clock, struct ftrace_print **ret_print);
/* Removes the instance. */
struct ftrace_print *ftrace_print_free(struct ftrace_print *print);
/* The lines so far, or a share of each CPU's.  Lines of one thread are in order of time, lines of different CPUs are not. */
int ftrace_print_turn(struct ftrace_print *print, const struct ftrace_print_sink *sink);
/* Lines that the buffers had no room for, as the kernel counts them. */
uint64_t ftrace_print_lost(const struct ftrace_print *print);

/* One page of trace_pipe_raw (kernel: include/linux/ring_buffer.h; events/header_page, header_event of tracefs).  Entries of other
 * ids than @print_id are passed over.  *ret_lost: entries that were overwritten before it, as far as it counts them.
 * -EBADMSG: damaged; the lines before the damage were given. */
int ftrace_print_page(const void *page, size_t len, uint16_t print_id,
		      const struct ftrace_print_sink *sink, uint64_t *ret_lost);
