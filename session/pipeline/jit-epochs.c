/* jit-epochs.c - see jit-epochs.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "session/pipeline/jit-epochs.h"
#include "trace/writer.h"

enum {
	EPOCH_AT = 48,
	EPOCHS_MAX = (1 << 15) - 1,
	FRAMES_MAX = 1 << 16,
	/* Frames looked at in a second: each costs a search of the dump's codes, which can all overlap. */
	LOOK_MAX = 1 << 14,
	SLICED_MAX = FRAMES_MAX / 2, /* keys: beyond it there are no slices */
	NAME_MAX_LOOKED = 1024,	     /* characters */
	UNSURE_MAX = 1 << 17,
};

void jit_epochs_deinit(struct jit_epochs *epochs)
{
	table_deinit(&epochs->current);
	table_deinit(&epochs->first);
	free(epochs->unsure);
}

/* Of an address that is in use. */
static uint64_t key_of(const struct jit_epochs *epochs, uint64_t address)
{
	uint64_t epoch = 0;

	(void)table_get(&epochs->current, address, &epoch);
	return address | (epoch & EPOCHS_MAX) << EPOCH_AT;
}

/* The address is used for the first time in this slice: a use in an earlier one is another epoch. */
static int enter_slice(struct jit_epochs *epochs, uint64_t address)
{
	uint64_t epoch = 0, first;

	(void)table_get(&epochs->current, address, &epoch);
	if (epoch >> 32 == epochs->slice || epochs->first.n_used >= SLICED_MAX)
		return 0;
	epoch &= EPOCHS_MAX;
	if (epoch < EPOCHS_MAX && table_get(&epochs->first, address | epoch << EPOCH_AT, &first))
		epoch++;
	return trace(table_put(&epochs->current, address, epoch | (uint64_t)epochs->slice << 32));
}

/* Is other code at @address at @time than at the time @first? */
static bool has_changed(const struct uw_module *module, uint64_t address, uint64_t first,
			uint64_t time)
{
	struct uw_symbol then, now;

	return uw_module_symbol_at(module, address, first, &then) &&
	       uw_module_symbol_at(module, address, time, &now) &&
	       (then.start != now.start || strncmp(then.name, now.name, NAME_MAX_LOOKED) != 0);
}

/* The next epoch of an address. */
static int next_epoch(struct jit_epochs *epochs, uint64_t address, uint64_t epoch)
{
	return trace(
		table_put(&epochs->current, address, (epoch + 1) | (uint64_t)epochs->slice << 32));
}

/* The address has other code than at the first sample of its epoch. */
static int enter_code(struct jit_epochs *epochs, const struct uw_module *module, uint64_t address,
		      uint64_t time)
{
	uint64_t key = key_of(epochs, address), first;

	if (key >> EPOCH_AT == EPOCHS_MAX || !table_get(&epochs->first, key, &first) ||
	    !has_changed(module, address, first, time))
		return 0;
	return trace(next_epoch(epochs, address, key >> EPOCH_AT));
}

int jit_epochs_key(struct jit_epochs *epochs, const struct uw_module *module, uint64_t address,
		   uint64_t time, uint64_t *ret_key)
{
	uint64_t guessed = address & WRITER_GUESSED, key, first;
	int r;

	if (address & ~WRITER_GUESSED & ~JIT_ADDRESS) { /* no address of a program */
		*ret_key = address;
		return 0;
	}
	r = enter_slice(epochs, address & JIT_ADDRESS);
	if (r >= 0 && uw_module_symbols_overlap(module))
		r = enter_code(epochs, module, address & JIT_ADDRESS, time);
	if (r < 0)
		return trace(r);
	key = key_of(epochs, address & JIT_ADDRESS);
	if (!table_get(&epochs->first, key, &first) && epochs->first.n_used < FRAMES_MAX) {
		r = table_put(&epochs->first, key, time);
		if (r < 0)
			return trace(r);
	}
	*ret_key = key | guessed;
	return 0;
}

uint64_t jit_epochs_time(const struct jit_epochs *epochs, uint64_t key)
{
	uint64_t time;

	return table_get(&epochs->first, key & ~WRITER_GUESSED, &time) ? time : UINT64_MAX;
}

int jit_epochs_begin(struct jit_epochs *epochs, const struct uw_module *module)
{
	const struct table *first = &epochs->first;
	size_t looked = 0;
	int begun = 0;

	for (size_t i = 0; i < first->n_slots && looked < LOOK_MAX; i++) {
		const struct table_slot *slot = &first->slots[epochs->next++ % first->n_slots];
		uint64_t address = slot->key & JIT_ADDRESS, epoch = slot->key >> EPOCH_AT;
		struct uw_symbol symbol;
		int r;

		looked += slot->used;
		if (!slot->used || epoch == EPOCHS_MAX || slot->key != key_of(epochs, address) ||
		    uw_module_symbol_at(module, address, slot->value, &symbol))
			continue;
		r = next_epoch(epochs, address, epoch);
		if (r < 0)
			return trace(r);
		begun = 1;
	}
	return begun;
}

bool jit_epochs_has_changed(struct jit_epochs *epochs, const struct uw_module *module,
			    uint64_t time)
{
	time = min_u64(time, UINT64_MAX - 1); /* not known: the last code */
	if (time >= epochs->since && time < epochs->until)
		return false;
	uw_module_code_lasts(module, time, &epochs->since, &epochs->until);
	return true;
}

bool jit_epochs_slice(struct jit_epochs *epochs, uint64_t time, uint64_t length)
{
	if (time == UINT64_MAX || epochs->first.n_used >= SLICED_MAX)
		return false;
	/* (The dump may have been read after the sample.) */
	if (time < epochs->known || time - epochs->known <= length || time < epochs->sliced_at ||
	    time - epochs->sliced_at <= length)
		return false;
	epochs->sliced_at = time;
	epochs->slice++;
	return true;
}

int jit_epochs_note(struct jit_epochs *epochs, uint64_t key)
{
	uint64_t time = jit_epochs_time(epochs, key);

	if (time == UINT64_MAX || time <= epochs->known)
		return 0;
	if (epochs->n_unsure == epochs->unsure_room) {
		if (epochs->unsure_room * 2 > UNSURE_MAX)
			return 0;
		if (!array_grow(epochs->unsure, epochs->unsure_room, 256))
			return fail(-ENOMEM);
	}
	epochs->unsure[epochs->n_unsure++] = key & ~WRITER_GUESSED;
	return 0;
}

void jit_epochs_read(struct jit_epochs *epochs, uint64_t time, bool more)
{
	epochs->known = max_u64(epochs->known, time);
	if (more)
		epochs->since = epochs->until = 0;
}

bool jit_epochs_settle(struct jit_epochs *epochs, uint64_t *ret_key)
{
	if (epochs->unsure_at < epochs->n_unsure &&
	    jit_epochs_time(epochs, epochs->unsure[epochs->unsure_at]) <= epochs->known) {
		*ret_key = epochs->unsure[epochs->unsure_at++];
		return true;
	}
	if (epochs->unsure_at == epochs->n_unsure)
		epochs->unsure_at = epochs->n_unsure = 0;
	return false;
}

uint64_t jit_epochs_monotonic(int clock, uint64_t time)
{
	switch (clock) {
	case CLOCK_MONOTONIC:
		return time;
	case CLOCK_BOOTTIME: /* ahead by the time that the machine was suspended */
		return time - (clock_ns(CLOCK_BOOTTIME) - clock_ns(CLOCK_MONOTONIC));
	default:
		return UINT64_MAX;
	}
}
