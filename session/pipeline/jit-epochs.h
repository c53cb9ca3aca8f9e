/* jit-epochs.h - which code was at an address of JIT code, for frames.  Thread: main.
 *
 * A trace knows a frame by its address, and names can come after its samples.  A JIT compiler uses memory again, so one address
 * can stand for several functions.  Each use of an address is an epoch, and the number of the epoch is in the upper bits of
 * the frame's address:
 *
 *     63 guessed | 62..48 epoch | 47..0 address           epoch 0: the first use
 *
 * A new epoch begins where a jitdump shows that other code is at an address than when its first sample was taken, and, once a
 * jitdump has shown that memory is used again, each second for an address without a name.  While the reading of a dump is
 * late, its code is not known: all addresses begin a new epoch each time slice then, so a late reading finds the code of each
 * slice.
 *
 * A name that was looked up before the dump was read up to the time of its frame is unsure: it is looked up again after. */
#pragma once

#include "base/table.h"
#include "symbols/module.h"

struct jit_epochs {
	struct table
		current; /* address -> its epoch, and the slice of it << 32, where they are not 0 */
	struct table first; /* key -> time of its first sample */
	uint64_t
		next; /* where the next reading goes on in it: each looks at a part of a large one */
	uint64_t known;	    /* CLOCK_MONOTONIC ns: until when the dump was read */
	uint64_t sliced_at; /* ... when the slice began */
	uint32_t slice;
	uint64_t *unsure;			 /* keys, in the order of their first samples */
	size_t n_unsure, unsure_at, unsure_room; /* unsure_at: those before are sure */
};
#define JIT_ADDRESS ((1ull << 48) - 1)

void jit_epochs_deinit(struct jit_epochs *epochs);
/* The address of a frame: @address (an address of the process, with or without WRITER_GUESSED) in its epoch.  @time: of the
 * sample, CLOCK_MONOTONIC ns.  -ENOMEM. */
int jit_epochs_key(struct jit_epochs *epochs, uint64_t address, uint64_t time, uint64_t *ret_key);
/* A sample of @time, CLOCK_MONOTONIC ns: begins a slice where the dump was read, and the last slice began, more than @length ns before.
 * true: keys of addresses have changed. */
bool jit_epochs_slice(struct jit_epochs *epochs, uint64_t time, uint64_t length);
/* The frame of @key gets its name now: notes it, where that is unsure.  -ENOMEM. */
int jit_epochs_note(struct jit_epochs *epochs, uint64_t key);
/* The dump was read until @time. */
void jit_epochs_read(struct jit_epochs *epochs, uint64_t time);
/* The next unsure key with a name that is sure now.  false: none. */
bool jit_epochs_settle(struct jit_epochs *epochs, uint64_t *ret_key);
/* When the first sample of a key was taken; UINT64_MAX: not known. */
uint64_t jit_epochs_time(const struct jit_epochs *epochs, uint64_t key);
/* After names were read: begins the epochs that they show; @unnamed: and epochs of addresses without a name.  > 0: some; -ENOMEM. */
int jit_epochs_begin(struct jit_epochs *epochs, const struct uw_module *module, bool unnamed);
/* @time of the events' clock @clock (CLOCK_*) as CLOCK_MONOTONIC; UINT64_MAX: it cannot be known. */
uint64_t jit_epochs_monotonic(int clock, uint64_t time);
