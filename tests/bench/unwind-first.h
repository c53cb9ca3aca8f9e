/* unwind-first.h - what the first sample of a program costs: no module is loaded, no rule is known,
 * and the files are in the page cache.  Thread: one.
 *
 * Measured is the native engine on one stack of the recording: the deepest WHOLE one through the
 * largest file that any of these stacks leads through.  As in a session it answers PENDING at a module that is not loaded,
 * that is loaded, and it goes on. */
#pragma once

#include "tests/differential/agree.h"

struct first_figures {
	double ms, load_ms; /* from the snapshot to WHOLE; of it in loading */
	uint32_t frames;
	size_t n_modules;    /* that were loaded */
	uint64_t file_bytes; /* of the largest file */
	char file[128];	     /* its name */
	uint64_t held;	     /* bytes of unwind sections in memory, of all files */
	uint64_t cies, fdes; /* that were read */
};

/* Of @rounds the lower quartile.  -ENODATA: no stack is whole; -ENOMEM; -EBADMSG: it is not whole when
 * unwound alone. */
int first_measure(const struct samples *samples, const struct answers *native, uint64_t rounds,
		  struct first_figures *ret_figures);
