/* mark-functions.h - from the begins and ends of functions (-finstrument-functions) to slices of one process.  Thread: main.
 *
 * A function that is left by an exception or longjmp() reports no end.  The stack pointer closes it: a live caller's frame
 * lies above the frames of what it calls, so a function that begins or ends at stack pointer S has outlived all functions of
 * the same stack below S.  At S itself there may be callers that the function is inlined into: these have the same call site.
 * (An end that is reported by a jump comes when the frame is gone: the outermost function below S ends.)
 * Functions on another stack (of a signal handler, of a coroutine) are not compared with functions of this one. */
#pragma once

#include "base/util.h"

enum mark_functions_end {
	MARK_FUNCTION_RETURNED,
	MARK_FUNCTION_LEFT, /* by an exception or longjmp(): the end is the time of the thread's latest mark */
	MARK_FUNCTION_LOST,  /* as LEFT, but its end may be among marks that were lost */
	MARK_FUNCTION_ENDED, /* with its thread, program or recording */
};
struct mark_function_slice {
	uint32_t tid;
	uint64_t begin, end, address;
	enum mark_functions_end how;
	uint32_t
		depth; /* slices of the thread that are open around it, and were or will be given */
	bool resumed;  /* the rest of one that was open while its caller on another stack ended */
};

struct mark_functions_options {
	uint64_t min_ns; /* shorter slices are left out */
	/* < 0 is passed on. */
	int (*slice)(void *arg, const struct mark_function_slice *slice);
	void *arg;
	/* The room for open functions in all programs of the recording, which share this; 0 at first.  Borrowed; NULL: this
	 * program has all of it. */
	size_t *rooms;
};

struct mark_functions;
int mark_functions_new(const struct mark_functions_options *options,
		       struct mark_functions **ret_functions);
struct mark_functions *mark_functions_free(struct mark_functions *functions);

struct mark_function {
	uint32_t tid;
	uint64_t time, address, site, sp;
	uint64_t frame;	  /* of a begin: where its frame begins, above @sp; 0: not known */
	uint8_t uncaught; /* exceptions in flight */
	bool tail;	  /* of an end: @sp is the end of the caller's frame */
};
/* < 0: -ENOMEM; the callback's. */
int mark_functions_enter(struct mark_functions *functions, const struct mark_function *at);
int mark_functions_leave(struct mark_functions *functions, const struct mark_function *at);
/* [@start, @end) is a stack of its own from now on. */
int mark_functions_stack(struct mark_functions *functions, uint64_t start, uint64_t end);
/* Marks of this thread were lost. */
void mark_functions_gap(struct mark_functions *functions, uint32_t tid);
int mark_functions_thread_end(struct mark_functions *functions, uint32_t tid, uint64_t time);
/* Closes all at the time of each thread's latest mark. */
int mark_functions_end(struct mark_functions *functions);
/* Begins that found no room (deeper than MARK_FUNCTIONS_DEPTH, more threads than MARK_FUNCTIONS_THREADS, more than
 * MARK_FUNCTIONS_OPEN in the recording: 56 MiB). */
enum { MARK_FUNCTIONS_DEPTH = 4096, MARK_FUNCTIONS_THREADS = 4096, MARK_FUNCTIONS_OPEN = 1 << 20 };
uint64_t mark_functions_dropped(const struct mark_functions *functions);
