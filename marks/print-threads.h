/* print-threads.h - the recorded process of a thread that wrote to trace_marker: the tracer names threads alone.  Thread: main.
 *
 * /proc shows it while the thread runs; of a thread that has ended the records of the recording do.  The number in a line's text is the
 * writer's claim: it only names the process in which the thread is looked for. */
#pragma once

#include "base/table.h"
#include "proc/process.h"

struct print_threads {
	const char *root; /* as of proc/procfs.h; borrowed */
	struct table known;
	struct table strangers; /* threads of no process that is recorded */
};

enum { PRINT_THREADS_MAX = 1 << 16 /* remembered */ };
void print_threads_init(struct print_threads *threads, const char *root);
void print_threads_deinit(struct print_threads *threads);
/* The process; 0: none that is recorded.  @all: each process is.  @named: the claim of the line; 0: none. */
uint32_t print_threads_process(struct print_threads *threads, struct process_table *processes,
			       bool all, uint32_t tid, uint32_t named);
/* The thread has ended. */
void print_threads_exit(struct print_threads *threads, uint32_t tid);
/* Strangers are looked at again: one may be recorded now. */
void print_threads_again(struct print_threads *threads);
/* Ends of threads were missed: any number may be another thread's. */
void print_threads_forget(struct print_threads *threads);
