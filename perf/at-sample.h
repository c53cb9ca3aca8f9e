/* at-sample.h - the BPF program of a session and what it serves.  Thread: main.
 *
 * Made by a command with its own session, before its privileges are dropped; the session borrows it
 * (session_options.at_sample).  Where it cannot be made the session runs without: each part has a
 * fallback.
 *
 * Loading takes 10 to 80 ms of CPU time, and most commands need no program.  `later`: it is loaded by a helper process, once
 * at_sample_want() was called.
 *
 *   events ─► jump ─ tail call ─► place 0 of an array ◄─ the program     inherited events of children have the jump, too:
 *                                    ▲                                    they could not be given a program later
 *   main ── at_sample_want() ──► pw-bpf: makes maps, loads, puts it there */
#pragma once

#include "base/features.h"
#include "perf/deep.h"
#include "perf/python-stack.h"

struct helper;

enum { AT_SAMPLE_MAPS = 4 };

struct at_sample {
	int program_fd;		      /* for events: the program, or the jump */
	struct deep *deep;	      /* NULL: not used */
	struct python_stacks *python; /* the same */
	/* private */
	int array_fd;		  /* `later`: of the jump; else -1 */
	int maps[AT_SAMPLE_MAPS]; /* received, not mapped yet; -1: none */
	struct helper *helper;	  /* until the program runs */
	uint32_t step;		  /* of the requests to it; 0: not asked */
};

struct at_sample_options {
	const struct features *features; /* probe_bpf() was called */
	bool deep, python;
	bool later;
};

/* Call while there are the privileges for it.  0; *ret_sample is NULL where nothing is wanted, or FEATURE_BPF is missing, or the program is refused:
 * then @why has one line, empty where nothing was wanted.  -ENOMEM. */
int at_sample_new(const struct at_sample_options *options, struct at_sample **ret_sample, char *why,
		  size_t why_size);
/* The clock of the session that gets it, before its first sample. */
void at_sample_set_clock(struct at_sample *sample, int clock);
struct at_sample *at_sample_free(struct at_sample *sample);

/* `later`: the program is needed.  Returns a descriptor that is readable when at_sample_answer() has work to do; -1: none, the
 * program runs, was refused, or is being loaded. */
int at_sample_want(struct at_sample *sample);
enum { AT_SAMPLE_WAITS = 1, AT_SAMPLE_REFUSED };
/* 0: the program runs, deep_fd() can be polled.  Any other result but AT_SAMPLE_WAITS: there is none, which was logged. */
int at_sample_answer(struct at_sample *sample);
