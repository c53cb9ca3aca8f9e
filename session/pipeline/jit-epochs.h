/* jit-epochs.h - which code was at an address of JIT code, for frames.  Thread: main.
 *
 * A trace knows a frame by its address, and names can come after its samples.  A JIT compiler uses memory again, so one address
 * can stand for several functions.  Each use of an address is an epoch, and the number of the epoch is in the upper bits of
 * the frame's address:
 *
 *     63 guessed | 62..48 epoch | 47..0 address           epoch 0: the first use
 *
 * A new epoch begins at a sample for which a jitdump shows other code at its address than at the first sample of the epoch.
 * Samples wait until the dump was read up to their time (emit_waits()), so this is exact; caches of frames hold from one change
 * of code to the next.  Once a jitdump has shown that memory is used again, an address without a name has a new epoch each second.
 * Where the reading of a dump is late nevertheless, its code is not known: all addresses begin a new epoch each time slice
 * then, so a late reading finds the code of each slice.
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
	uint64_t since,
		until; /* ... what caches have holds for samples from since to before until; equal: for none */
	uint32_t slice;
	uint64_t *unsure;			 /* keys, in the order of their first samples */
	size_t n_unsure, unsure_at, unsure_room; /* unsure_at: those before are sure */
};
#define JIT_ADDRESS ((1ull << 48) - 1)

void jit_epochs_deinit(struct jit_epochs *epochs);
/* The address of a frame: @address (an address of the process, with or without WRITER_GUESSED) in its epoch.  @time: of the
 * sample, CLOCK_MONOTONIC ns.  -ENOMEM. */
int jit_epochs_key(struct jit_epochs *epochs, const struct uw_module *module, uint64_t address,
		   uint64_t time, uint64_t *ret_key);
/* A sample of @time, CLOCK_MONOTONIC ns.  true: its code is not that of the sample before, so keys of addresses may differ. */
bool jit_epochs_has_changed(struct jit_epochs *epochs, const struct uw_module *module,
			    uint64_t time);
/* A sample of @time, CLOCK_MONOTONIC ns: begins a slice where the dump was read, and the last slice began, more than @length ns before.
 * true: keys of addresses have changed. */
bool jit_epochs_slice(struct jit_epochs *epochs, uint64_t time, uint64_t length);
/* The frame of @key gets its name now: notes it, where that is unsure.  -ENOMEM. */
int jit_epochs_note(struct jit_epochs *epochs, uint64_t key);
/* The dump was read until @time; @more: there was more, so what caches have may be former code. */
void jit_epochs_read(struct jit_epochs *epochs, uint64_t time, bool more);
/* The next unsure key with a name that is sure now.  false: none. */
bool jit_epochs_settle(struct jit_epochs *epochs, uint64_t *ret_key);
/* When the first sample of a key was taken; UINT64_MAX: not known. */
uint64_t jit_epochs_time(const struct jit_epochs *epochs, uint64_t key);
/* Begins epochs of addresses without a name: a later name may be that of later code.  > 0: some; -ENOMEM. */
int jit_epochs_begin(struct jit_epochs *epochs, const struct uw_module *module);
/* @time of the events' clock @clock (CLOCK_*) as CLOCK_MONOTONIC; UINT64_MAX: it cannot be known. */
uint64_t jit_epochs_monotonic(int clock, uint64_t time);
