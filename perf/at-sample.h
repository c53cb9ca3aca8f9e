/* at-sample.h - the BPF program of a session and what it serves.  Thread: main.
 *
 * Made by a command with its own session, before its privileges are dropped; the session borrows it
 * (session_options.at_sample).  Where it cannot be made the session runs without: each part has a
 * fallback. */
#pragma once

#include "base/features.h"
#include "perf/deep.h"
#include "perf/python-stack.h"

struct at_sample {
	int program_fd;
	struct deep *deep;	      /* NULL: not used */
	struct python_stacks *python; /* the same */
};

struct at_sample_options {
	const struct features *features; /* probe_bpf() was called */
	bool deep, python;
};

/* Call while there are the privileges for it.  0; *ret_sample is NULL where nothing is wanted, or FEATURE_BPF is missing, or the program is refused:
 * then @why has one line, empty where nothing was wanted.  -ENOMEM. */
int at_sample_new(const struct at_sample_options *options, struct at_sample **ret_sample, char *why,
		  size_t why_size);
/* The clock of the session that gets it, before its first sample. */
void at_sample_set_clock(struct at_sample *sample, int clock);
struct at_sample *at_sample_free(struct at_sample *sample);
