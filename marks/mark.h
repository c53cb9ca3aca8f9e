/* mark.h - one mark of a program: what every source of marks ends in.  Thread: main.
 *
 * Sources: marks/mark-text.h (lines of trace_marker), marks/ftrace-print.h, USDT probes, the ring of libperfwind-marks.so.
 * A mark belongs to the thread that wrote it (pid, tid: the kernel's, or checked), whatever process its text names. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mark_kind {
	MARK_BEGIN = 1,	    /* B: a slice on the thread's track; slices of a thread are nested */
	MARK_END,	    /* E: of the innermost open one */
	MARK_INSTANT,	    /* I, and text of no form */
	MARK_COUNTER,	    /* C: value, on a track of the process */
	MARK_ASYNC_BEGIN,   /* S: value is the cookie; begin and end may be on different threads */
	MARK_ASYNC_END,	    /* F */
	MARK_TRACK_INSTANT, /* N: on the track that the program names */
	MARK_TRACK_BEGIN,   /* G: value is the cookie */
	MARK_TRACK_END,	    /* H */
};
#define MARK_NAME_MAX 1024 /* bytes of a name; longer ones are cut at a character */

struct mark {
	uint64_t time_ns; /* the clock of the samples */
	int32_t pid, tid; /* of the writer */
	int32_t named_pid; /* the pid in the mark's text, 0: none.  Never trusted: compared with pid, and reported */
	uint8_t kind;	   /* enum mark_kind */
	bool left;	   /* MARK_END: the function was left by an exception or longjmp */
	const char *name;  /* not NUL-terminated; borrowed from the source until its next mark */
	size_t name_len;   /* 0: no name (MARK_END, a function) */
	const char *track; /* MARK_TRACK_*: the track's name; else NULL */
	size_t track_len;
	int64_t value;	   /* counter, cookie */
	uint64_t sp;	   /* functions: stack pointer; 0: unknown */
	uint64_t address;  /* functions: address in the process; 0: a named mark */
	uint64_t category; /* bits of ATRACE_TAG_*, 0: unknown */
};
