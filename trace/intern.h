/* intern.h - the interned tables of one packet sequence.  Private to trace/.  Thread: main.
 *
 * Content gets an id when it is first asked for, and an entry in the trace when it is first used by
 * a stack: the entry is appended to `pending`, which the next sample packet takes along as its
 * InternedData.  `written` of each thing is the generation in which that was done;
 * intern_new_generation() makes all be written again.
 *
 *   callstack ─► frame ─► name (a string of its own table)
 *                  └────► mapping ─► path components, build id (one set a module)
 *
 * The id spaces are separate, as the trace format looks ids up by table.
 *
 * Callstacks by content (struct stacks), an array of frame ids -> a small id:
 *
 *   slots   open addressing, power of two, at most 1/2 full: { print of the stack, index + 1 }
 *
 * A stack is recognised by a print of 96 bits.  To keep and compare its ids took more cache lines than all else here.  The
 * keys of the print are random (AT_RANDOM), so a target cannot choose stacks with equal prints; that two of ten million
 * stacks have one by chance has a probability of 1e-15.
 *
 * There is no deletion: stacks_clear() drops all at once, when an owner's bound is reached.  Ids go
 * on where they stopped, so that an id never means two stacks. */
#pragma once

#include <string.h>

#include "base/bytes.h"
#include "base/table.h"
#include "base/util.h"

struct stacks {
	struct stacks_slot {
		uint64_t print;
		uint32_t more; /* of the print */
		uint32_t index;
	} * slots;
	size_t n_slots, n_entries;
	uint32_t base; /* id of index 0 */
	uint64_t keys[4];
};

void stacks_init(struct stacks *s, uint32_t first_id);
void stacks_deinit(struct stacks *s);
/* The id of @ids[0..n), made if new.  -ENOMEM. */
int stacks_add(struct stacks *s, const uint32_t *ids, size_t n, uint32_t *ret_id, bool *ret_new);
/* Forgets all, keeps the memory. */
static inline void stacks_clear(struct stacks *s)
{
	s->base += (uint32_t)s->n_entries;
	s->n_entries = 0;
	if (s->slots)
		memset(s->slots, 0, s->n_slots * sizeof(*s->slots));
}
/* Forgets all, and frees the memory. */
static inline void stacks_free(struct stacks *s)
{
	uint32_t base = s->base + (uint32_t)s->n_entries;

	stacks_deinit(s);
	stacks_init(s, base);
}
/* in use, not reserved */
static inline size_t stacks_bytes(const struct stacks *s)
{
	return s->n_entries * 2 * sizeof(*s->slots);
}

struct intern_frame {
	uint64_t rel_pc;
	uint32_t mapping, name; /* name 0: none yet */
	bool written;		/* in any generation */
	uint8_t kind;		/* enum frame_kind */
};
struct intern_mapping {
	uint32_t path, build_id; /* in places; 0: none.  path: normalised, as readers show it */
	uint32_t written;
	uint32_t *components; /* in places */
	uint32_t n_components;
	uint64_t load_bias, exact_offset;
	uint32_t next;	       /* id of another one of the same hash; 0: none */
	struct buffer symbols; /* AddressSymbols waiting for a flush */
};

struct intern {
	uint32_t generation; /* of the sequence's incremental state, from 1 */
	struct buffer pending;

	struct intern_frame *frames;
	uint32_t *frame_slots; /* index + 1 */
	uint64_t *
		frames_written; /* a bit each: in this generation.  A new stack asks for all of its frames */
	size_t n_frames, room_frames, n_frame_slots;
	uint32_t first_frame;	   /* id of frames[0] */
	uint32_t frame_generation; /* counts forgettings, from 1 */
	struct string_table names;
	size_t name_bytes;

	struct intern_mapping *mappings; /* id 1 first */
	size_t n_mappings, room_mappings;
	struct table mapping_of_hash; /* -> id */
	struct string_table places;

	struct marks { /* `written` by string id */
		uint32_t *written;
		size_t room;
	} names_written, paths_written, build_ids_written;
	struct stacks stacks;
};

int intern_init(struct intern *in);
void intern_deinit(struct intern *in);

/* As writer_mapping(), writer_frame() ... of writer.h. */
int intern_mapping(struct intern *in, const char *path, const void *build_id, size_t build_id_len,
		   uint64_t load_bias, uint64_t exact_offset, uint32_t *ret_mapping);
/* @name: an id of intern_name(), 0: none yet. */
int intern_frame(struct intern *in, uint32_t mapping, uint64_t rel_pc, uint32_t name,
		 uint32_t *ret_frame);
/* Nothing for a frame of an older generation. */
static inline void intern_frame_kind(struct intern *in, uint32_t frame, unsigned kind)
{
	if (frame >= in->first_frame && frame - in->first_frame < in->n_frames)
		in->frames[frame - in->first_frame].kind = (uint8_t)kind;
}
int intern_callstack(struct intern *in, const uint32_t *ids, size_t n, uint32_t *ret_callstack);
/* The frame of an address, or NULL. */
struct intern_frame *intern_find_frame(const struct intern *in, uint32_t mapping, uint64_t rel_pc);
int intern_name(struct intern *in, const char *name, uint32_t *ret_name);

/* Everything is written again at its next use; callstacks are forgotten. */
void intern_new_generation(struct intern *in);
/* Forgets frames, names and all mappings but the kernel's too, and frees the memory: their ids become stale.  Implies a new
 * generation.  Symbols that wait in mappings must be written before.  -ENOMEM. */
int intern_forget_frames(struct intern *in);
static inline size_t intern_frame_bytes(const struct intern *in)
{
	return in->n_frames * (sizeof(*in->frames) + 2 * sizeof(*in->frame_slots)) + in->name_bytes;
}
