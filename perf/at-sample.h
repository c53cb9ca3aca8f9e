/* at-sample.h - the BPF program of a session and what it serves.  Thread: main.
 *
 * Made by a command with its own session, before its privileges are dropped; the session borrows it
 * (session_options.at_sample).  Where it cannot be made the session runs without: each part has a
 * fallback.
 *
 * Loading takes 10 to 80 ms of CPU time, and most commands need no program.  `later`: it is loaded by a helper process, once
 * at_sample_want() was called.  The part for deep stacks alone is loaded in a third of the time, and a program with all parts
 * takes its place where interpreters are found.
 *
 *   events ─► jump ─ tail call ─► place 0 of an array ◄─ the program     inherited events of children have the jump, too:
 *                                    ▲                                    they could not be given a program later
 *   main ── at_sample_want() ──► pw-bpf: makes maps, loads, puts it there */
#pragma once

#include "base/features.h"
#include "perf/at-sample-records.h"
#include "perf/bpf.h"

struct deep;
struct python_stacks;
struct helper;

enum { AT_SAMPLE_MAPS = 4 };

struct at_sample {
	int program_fd;		      /* for events: the program, or the jump */
	struct deep *deep;	      /* NULL: not used */
	struct python_stacks *python; /* the same */
	/* private */
	int array_fd;		  /* `later`: of the jump; else -1 */
	int maps[AT_SAMPLE_MAPS]; /* received, not mapped yet; -1: none */
	struct helper *helper;	  /* until all parts were asked for */
	uint32_t step;		  /* of the requests to it; 0: none is under way */
	uint32_t wanted, asked;	  /* AT_SAMPLE_DEEP, AT_SAMPLE_PYTHON */
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

/* `later`: these parts are needed, too (0: those that were wanted while others were loaded).  The part for interpreters comes with
 * that for deep stacks, which their C code may need.  Returns a descriptor that is readable when at_sample_answer() has work to
 * do; -1: none, the parts run, were refused, or a program is being loaded. */
enum { AT_SAMPLE_DEEP = 1, AT_SAMPLE_PYTHON = 2 };
int at_sample_want(struct at_sample *sample, uint32_t parts);
enum { AT_SAMPLE_WAITS = 1, AT_SAMPLE_REFUSED };
/* 0: the program runs, deep_fd() and python_stacks_fd() of its parts can be polled.  Any other result but AT_SAMPLE_WAITS: there
 * is no new one, which was logged. */
int at_sample_answer(struct at_sample *sample);

/* ---- user stacks beyond the kernel's copy of 65,528 bytes, copied at the moment of the sample ----
 *
 *   sample of a thread ─► has it a class? ─► is its stack longer than the copy? ─► whole pages from the
 *     stack pointer up, as many as its class allows (64 KiB to 1 MiB), there is time for, or the stack has, into a ring
 *   main: deep_find() joins the record with its sample; deep_learn() chooses the class of the thread
 *
 * A thread that was not seen yet may have four times a copy.  One that needs no more than its copies (a
 * goroutine in the heap has readable memory behind its stack) gets 0 and costs nothing from then on,
 * until a stack ends at its copy. */

enum { DEEP_MAX = 1 << 20 /* bytes of one stack */ };

/* The ring, to poll: readable when a quarter of it is in use.  -1: none yet. */
int deep_fd(const struct deep *deep);
/* The smallest size of the kernel's copies: stacks that are no longer are left alone. */
void deep_set_room(struct deep *deep, uint32_t bytes);
/* At most @hz samples (> 0) a second and CPU: a copy may take a quarter of the time from one to the next, the share that the
 * kernel leaves to sampling (perf_cpu_time_max_percent).  A copy that takes longer than a period costs samples: the kernel's timer
 * skips periods without a count. */
void deep_set_rate(struct deep *deep, uint64_t hz);

/* A sample with a full copy. */
struct deep_sample {
	uint32_t tid;
	uint64_t sp, time; /* time: of the session's clock */
	const uint8_t *copy;
	uint32_t copy_len;
};
struct deep_stack {
	const uint8_t *stack; /* from sp up */
	uint32_t len;
	bool full;	   /* the stack may go on beyond it */
	uint64_t position; /* for deep_put() */
};
/* The longer copy of this sample; samples come in time order.  It must be put.  false: there is none. */
bool deep_find(struct deep *deep, const struct deep_sample *sample, struct deep_stack *ret_stack);
void deep_put(struct deep *deep, uint64_t position);
/* Drops records without a sample that are older than @now (the session's clock) by DEEP_KEEP_MS.  Once a
 * round.  -EBADMSG: the ring is damaged; no record is read from then on. */
enum { DEEP_KEEP_MS = 50 };
int deep_expire(struct deep *deep, uint64_t now);
/* The stack of a sample with a full copy of @room bytes used @used bytes; not @whole: at least. */
void deep_learn(struct deep *deep, uint32_t tid, uint64_t used, uint32_t room, bool whole);

/* Does the program run, and copy a stack of @used bytes? */
bool deep_copies(const struct deep *deep, uint64_t used);

struct deep_counts {
	uint64_t copied; /* stacks that were joined */
	uint64_t lost;	 /* no room in the ring */
	uint64_t unused; /* no sample for it */
};
void deep_count(const struct deep *deep, struct deep_counts *ret_counts);

/* ---- the frames of CPython's functions, copied at the moment of the sample ----
 *
 *   process with a known Python ─► its thread states ─► that of the sampled thread ─► its frames, innermost first, into a ring
 *   main: python_stacks_add() names the processes; python_stacks_find() joins the record with its sample
 *
 * Later the frames would be others': the interpreter reuses their memory. */

bool python_stacks_run(const struct python_stacks *stacks); /* it has begun */
/* The ring, to poll: readable where a function of Python, PHP or Ruby is in a sample for the first time.  It may be freed before its name
 * is read.  -1: none yet. */
int python_stacks_fd(const struct python_stacks *stacks);

/* Go: the goroutine's stack, where its thread is on its own (unwinder/native-go.c).
 *
 * Where the threads of a process are: addresses and offsets of its Python (symbols/image.h). */
struct python_threads {
	uint32_t kind;	      /* PYTHON_IS_* with its low byte */
	uint64_t interpreter; /* as struct python_process has it */
	uint16_t threads, next, native, frame, context, through;
	uint64_t code_type;
};
/* Samples of process @tgid have their frames from now on, in place of another process with the same place in the
 * table. */
void python_stacks_add(struct python_stacks *stacks, uint32_t tgid,
		       const struct python_threads *threads);

struct python_stack {
	/* PYTHON_STACK_WORDS of each frame, as struct python_record has them. */
	const uint64_t *frames;
	uint32_t n;
	uint64_t position; /* for python_stacks_put() */
};
/* The frames of a sample of @tid at @time (the session's clock) with the user stack pointer @sp; samples come in time order.
 * It must be put.  false: there are none. */
bool python_stacks_find(struct python_stacks *stacks, uint32_t tid, uint64_t sp, uint64_t time,
			struct python_stack *ret_stack);
void python_stacks_put(struct python_stacks *stacks, uint64_t position);
/* How many further samples the program has room for; SIZE_MAX: it does not run. */
size_t python_stacks_room(const struct python_stacks *stacks);
/* Drops records without a sample that are older than @now by PYTHON_STACK_KEEP_MS.  Once a round. */
enum { PYTHON_STACK_KEEP_MS = 200 };
void python_stacks_expire(struct python_stacks *stacks, uint64_t now);
