/* thin.h - samples that are left out on purpose, with their weight kept.  Thread: main.
 *
 * The stages behind the reader may be allowed fewer samples than there are: by --max-cpu, or because the rings fill up.
 * What is allowed is shared out by process: each gets the same number in a window of time, and what one does not need
 * goes to the others (max-min fairness).  So a process with many samples is thinned before the others lose one:
 *
 *   samples in a window   A 1000, B 10, C 10      40 allowed ─► A 20, B 10, C 10
 *
 * The windows are long, and a ring may fill up in less.  So there is a bound at any moment, too: of several processes one may
 * have as many samples behind the reader as there is room for more, but not more.  A process that alone makes more samples than
 * the stages take gets half of the room, and a sample of the others always finds some.
 *
 * The weight of a sample that is left out goes to the next sample of its process that is kept.  So does the weight of a sample that
 * was kept and got no stack in the stages behind: it may stand for many.  Where no sample comes for THIN_QUIET windows, or the
 * process or the session ends, the weight is settled: the owner writes it as a sample of that process.  It never goes to another
 * process: each one has at most one written for all of its samples that were left out in between, however many processes there are. */
#pragma once

#include "base/util.h"

struct process;

enum { THIN_WINDOW_MS = 100, THIN_QUIET = 10 };

struct thin {
	bool on;
	uint64_t window;
	uint64_t cap;		 /* for each process in a window, fixed point */
	uint64_t received, kept; /* in this window */
	uint64_t pressed;	 /* allowed in a window since a ring filled up; 0: no limit */
	uint64_t own;		 /* weight of the last sample that was kept, alone */
	int64_t extra;		 /* ... and what it got of `owed` */
	uint64_t sampled;	 /* of all samples, kept or not */
	int64_t owed;		 /* thin_owe() */
	uint64_t last;		 /* serial of the process that had a sample last */
	bool several,
		crowded; /* in this window: samples of several processes; one was left out for lack of room */
	bool several_before; /* in the window before */
	uint64_t random;
	/* References, linked by process_share.next: with samples in this window or the one before it, or with weight. */
	struct process *seen;
	/* Writes @weight, ns or counts, which no sample of @process has. */
	void (*settle)(void *arg, struct process *process, uint64_t weight);
	void *arg;
};

void thin_init(struct thin *thin,
	       void (*settle)(void *arg, struct process *process, uint64_t weight), void *arg);
/* What is not settled is lost. */
void thin_deinit(struct thin *thin);
/* Begins the next window, in which @allowed samples are to be kept; UINT64_MAX: all.  @pressed: a ring is about to lose
 * samples, so fewer are kept if several processes share it. */
void thin_next(struct thin *thin, uint64_t allowed, bool pressed);
/* Is this sample of @process kept?  Then *weight, its own, becomes what it stands for; else its weight is kept for a later one.
 * @room: how many more samples the stages behind the reader can take now. */
bool thin_keeps(struct thin *thin, struct process *process, uint64_t room, uint64_t *weight);
/* A sample that others have left out, without its weight. */
void thin_passed(struct thin *thin, uint64_t weight);
/* A sample that was kept goes to the stages behind; it comes back from there. */
void thin_sent(struct process *process);
void thin_back(struct process *process);
/* The session ends: settles all weights that wait for a sample. */
void thin_settle(struct thin *thin);
/* Processes with samples in this window or the one before it; 0 while nothing is left out. */
size_t thin_n_active(const struct thin *thin);
/* A sample that was kept got no stack: its weight goes to the next one of its process. */
void thin_return(struct thin *thin, struct process *process, uint64_t weight);
/* Time that is in no sample of any process, or (< 0) in too many: each of the samples to come weighs up to twice, or half, as much. */
void thin_owe(struct thin *thin, int64_t weight);
/* Takes the last `true` back: the sample, of @weight, cannot be taken now and comes again. */
void thin_again(struct thin *thin, struct process *process, uint64_t weight);

/* How many samples to take in the next second, which may spend @ns, when @kept samples and all else have spent
 * @used_ns: in proportion, but at most four times as many, and not less than a quarter: one second may load modules that
 * later ones have. */
uint64_t thin_afford(uint64_t ns, uint64_t used_ns, uint64_t kept);
