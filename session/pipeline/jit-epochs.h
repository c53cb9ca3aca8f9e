/* jit-epochs.h - which code was at an address of JIT code, for frames.  Thread: main.
 *
 * A trace knows a frame by its address, and names can come after its samples.  A JIT compiler uses memory again, so one address
 * can stand for several functions.  Each use of an address is an epoch, and the number of the epoch is in the upper bits of
 * the frame's address:
 *
 *     63 guessed | 62..48 epoch | 47..0 address           epoch 0: the first use
 *
 * A new epoch begins where a jitdump shows that other code is at an address than when its first sample was taken, and, once a
 * jitdump has shown that memory is used again, each second for an address without a name. */
#pragma once

#include "base/table.h"
#include "symbols/module.h"

struct jit_epochs {
	struct table current; /* address -> its epoch, where it is not 0 */
	struct table first;   /* key -> time of its first sample */
	uint64_t
		next; /* where the next reading goes on in it: each looks at a part of a large one */
};
#define JIT_ADDRESS ((1ull << 48) - 1)

void jit_epochs_deinit(struct jit_epochs *epochs);
/* The address of a frame: @address (an address of the process, with or without WRITER_GUESSED) in its epoch.  @time: of the
 * sample, CLOCK_MONOTONIC ns.  -ENOMEM. */
int jit_epochs_key(struct jit_epochs *epochs, uint64_t address, uint64_t time, uint64_t *ret_key);
/* When the first sample of a key was taken; UINT64_MAX: not known. */
uint64_t jit_epochs_time(const struct jit_epochs *epochs, uint64_t key);
/* After names were read: begins the epochs that they show; @unnamed: and epochs of addresses without a name.  > 0: some; -ENOMEM. */
int jit_epochs_begin(struct jit_epochs *epochs, const struct uw_module *module, bool unnamed);
/* @time of the events' clock @clock (CLOCK_*) as CLOCK_MONOTONIC; UINT64_MAX: it cannot be known. */
uint64_t jit_epochs_monotonic(int clock, uint64_t time);
