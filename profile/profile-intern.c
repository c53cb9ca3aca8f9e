/* profile-intern.c - interned tables of a sequence become modules, frames and stacks of the
 * profile.
 *
 * Entries are resolved as they come, in the order strings, mappings, frames, stacks within a
 * packet, so that no pointer into the file (or into an unpacked piece of it) is kept.  The first
 * entry of an iid in a generation stands, as in the format's other readers. */
#include <errno.h>

#include "base/error.h"
#include "profile/profile-reader.h"
#include "protos/trace.fields.h"

enum {
	MAX_STACK = 8192, /* frames; the outermost are kept */
	MAX_PATH = 8192,
	DENSE_LEAST = 1 << 18, /* iids that an array may always have: 1 MiB */
};

/* ---- iid to value ---- */
static void iids_forget(struct reader *r, struct iids *t)
{
	reader_release(r, HELD_INTERNED, t->n, t->bytes);
	free(t->dense);
	table_deinit(&t->sparse);
	*t = (struct iids){0};
}

static int hold_entry(struct reader *r, struct iids *t, uint64_t bytes)
{
	t->n++;
	t->bytes += bytes;
	return reader_hold(r, HELD_INTERNED, 1, bytes);
}

/* Up to where the array goes while its entries take no more than in a table; 0: no further. */
static uint32_t dense_room(const struct iids *t, uint64_t at)
{
	uint64_t room = at < 1u << 31 ? round_up_power_of_two(max_u64(at + 1, 32)) : UINT64_MAX;

	return room <= max_u64(16 * ((uint64_t)t->n + 1), DENSE_LEAST) ? (uint32_t)room : 0;
}

/* Not there before. */
static int iids_put(struct reader *r, struct iids *t, uint64_t iid, uint32_t value)
{
	uint32_t *more, room;
	uint64_t at;
	int e;

	if (!t->n) /* the next ones may be less */
		t->base = iid < 2 * DENSE_LEAST ? 0 : iid - DENSE_LEAST / 2;
	at = iid - t->base; /* far beyond when it is less */
	room = at < t->room ? t->room : dense_room(t, at);
	if (!room) {
		e = hold_entry(r, t, TABLE_ENTRY_BYTES);
		if (e >= 0)
			e = table_put(&t->sparse, iid, value);
		return e < 0 ? trace(e) : 0;
	}
	e = hold_entry(r, t, (room - t->room) * sizeof(*more));
	if (e < 0)
		return trace(e);
	if (room > t->room) {
		more = reallocarray(t->dense, room, sizeof(*more));
		if (!more)
			return fail(-ENOMEM);
		memset(more + t->room, 0, (room - t->room) * sizeof(*more));
		t->dense = more;
		t->room = room;
	}
	t->dense[at] = value + 1;
	return 0;
}

static int put_first(struct reader *r, struct iids *t, uint64_t iid, uint32_t value)
{
	uint32_t old;
	int e;

	if (iids_get(t, iid, &old))
		return 0;
	e = iids_put(r, t, iid, value);
	return e < 0 ? trace(e) : 0;
}

void sequence_forget(struct reader *r, struct sequence *s)
{
	struct iids *const all[] = {&s->function_names, &s->mapping_paths, &s->build_ids,
				    &s->source_paths,	&s->mappings,	   &s->frames,
				    &s->callstacks};

	/* Freed, not cleared: clearing costs what the largest generation needed, each time. */
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		iids_forget(r, all[i]);
	s->default_clock = 0;
}

void sequence_deinit(struct reader *r, struct sequence *s)
{
	sequence_forget(r, s);
	free(take(s->clocks));
	s->n_clocks = s->room_clocks = 0;
}

/* ---- entries ---- */

/* The string of an iid that something refers to; 0 is what is not set. */
static int get_string(struct reader *r, const struct iids *t, uint64_t iid, uint32_t *ret_id)
{
	*ret_id = 0;
	if (!iids_get(t, iid, ret_id) && iid)
		return reader_count_add(r, STAT_stackprofile_invalid_string_id, -1, 1);
	return 0;
}

static int read_string(struct reader *r, struct iids *t, bool function, struct cursor c)
{
	struct wire_field f, text = {0};
	uint64_t iid = 0;
	bool has_iid = false;
	uint32_t id;
	int e;

	while (wire_next(&c, &f)) {
		if (wire_is(&f, INTERNED_STRING__IID)) {
			iid = f.value;
			has_iid = true;
		} else if (wire_is_bytes(&f, INTERNED_STRING__STR)) {
			text = f;
		}
	}
	if (c.bad)
		return READER_BROKEN;
	if (!has_iid || iids_get(t, iid, &id))
		return 0;
	e = function ? reader_function(r, text.data, text.len, &id)
		     : reader_string(r, text.data, text.len, &id);
	if (e < 0)
		return trace(e);
	return put_first(r, t, iid, id);
}

static int read_mapping(struct reader *r, struct sequence *s, struct cursor c)
{
	const struct string_table *strings = &r->profile->strings;
	uint64_t iid = 0, build_id = 0, load_bias = 0;
	char path[MAX_PATH];
	struct wire_field f;
	size_t len = 0;
	uint32_t module, id;
	int e;

	while (wire_next(&c, &f)) {
		if (wire_is(&f, INTERNED_STRING__IID))
			iid = f.value;
		else if (wire_is(&f, MAPPING__BUILD_ID))
			build_id = f.value;
		else if (wire_is(&f, MAPPING__LOAD_BIAS))
			load_bias = f.value;
		else if (wire_is(&f, MAPPING__PATH_STRING_IDS)) {
			e = get_string(r, &s->mapping_paths, f.value, &id);
			if (e < 0)
				return trace(e);
			if (!id || !strings->entries[id - 1].len)
				continue;
			if (strings->entries[id - 1].len + 1 > sizeof(path) - len)
				continue;
			if (strings->entries[id - 1].data[0] != '/')
				path[len++] = '/';
			memcpy(path + len, strings->entries[id - 1].data,
			       strings->entries[id - 1].len);
			len += strings->entries[id - 1].len;
		}
	}
	if (c.bad)
		return READER_BROKEN;
	e = get_string(r, &s->build_ids, build_id, &id);
	if (e < 0)
		return trace(e);
	e = reader_module(r, path, len, id ? (const uint8_t *)strings->entries[id - 1].data : NULL,
			  id ? strings->entries[id - 1].len : 0, load_bias, &module);
	if (e < 0)
		return trace(e);
	return put_first(r, &s->mappings, iid, module == UINT32_MAX ? MODULE_NONE : module);
}

static int read_frame(struct reader *r, struct sequence *s, struct cursor c)
{
	uint64_t iid = 0, mapping = 0, rel_pc = 0, function = 0, path = 0;
	struct profile_line line = {0};
	bool guessed = false;
	struct wire_field f;
	uint32_t frame, module = MODULE_NONE;
	int e;

	while (wire_next(&c, &f)) {
		if (wire_is(&f, INTERNED_STRING__IID))
			iid = f.value;
		else if (wire_is(&f, FRAME__FUNCTION_NAME_ID))
			function = f.value;
		else if (wire_is(&f, FRAME__MAPPING_ID))
			mapping = f.value;
		else if (wire_is(&f, FRAME__REL_PC))
			rel_pc = f.value;
		else if (wire_is_bytes(&f, FRAME__KIND_STR))
			guessed = f.data && f.len == strlen("guessed") &&
				  !memcmp(f.data, "guessed", f.len);
		else if (wire_is(&f, FRAME__SOURCE_PATH_IID))
			path = f.value;
		else if (wire_is(&f, FRAME__LINE_NUMBER))
			line.line = (uint32_t)min_u64(f.value, UINT32_MAX);
	}
	if (c.bad)
		return READER_BROKEN;
	if (iids_get(&s->frames, iid, &frame))
		return 0;
	e = get_string(r, &s->function_names, function, &line.function);
	if (e >= 0)
		e = get_string(r, &s->source_paths, path, &line.file);
	if (e >= 0 && !iids_get(&s->mappings, mapping, &module) && mapping)
		e = reader_count_add(r, STAT_stackprofile_invalid_mapping_id, -1, 1);
	if (e < 0)
		return trace(e);
	e = reader_frame(r, module == MODULE_NONE ? UINT32_MAX : module, rel_pc, guessed, &line,
			 &frame);
	if (e < 0)
		return trace(e);
	return put_first(r, &s->frames, iid, frame);
}

static int read_callstack(struct reader *r, struct sequence *s, struct cursor c)
{
	uint64_t iid = 0;
	bool broken = false;
	struct wire_field f;
	uint32_t frame, stack;
	int e;

	r->n_scratch = 0;
	while (wire_next(&c, &f)) {
		if (wire_is(&f, INTERNED_STRING__IID)) {
			iid = f.value;
		} else if (wire_is(&f, CALLSTACK__FRAME_IDS) && r->n_scratch < MAX_STACK) {
			if (!iids_get(&s->frames, f.value, &frame)) {
				broken = true;
				continue;
			}
			e = ROOM_FOR_ONE(r->scratch, r->n_scratch, r->room_scratch);
			if (e < 0)
				return trace(e);
			r->scratch[r->n_scratch++] = frame;
		}
	}
	if (c.bad)
		return READER_BROKEN;
	if (iids_get(&s->callstacks, iid, &stack))
		return 0;
	/* a stack with a hole would be another stack */
	if (broken || !r->n_scratch)
		return put_first(r, &s->callstacks, iid, broken ? STACK_BROKEN : STACK_EMPTY);
	e = reader_stack(r, &stack);
	if (e < 0)
		return trace(e);
	return put_first(r, &s->callstacks, iid, stack);
}

static int read_entry(struct reader *r, struct sequence *s, unsigned pass,
		      const struct wire_field *f)
{
	static const uint8_t passes[] = {
		[INTERNED_DATA__FUNCTION_NAMES] = 1, [INTERNED_DATA__BUILD_IDS] = 1,
		[INTERNED_DATA__MAPPING_PATHS] = 1,  [INTERNED_DATA__SOURCE_PATHS] = 1,
		[INTERNED_DATA__MAPPINGS] = 2,	     [INTERNED_DATA__FRAMES] = 3,
		[INTERNED_DATA__CALLSTACKS] = 4,
	};

	if (f->wire != WIRE_BYTES || f->number >= ARRAY_SIZE(passes) || passes[f->number] != pass)
		return 0;
	switch (f->number) {
	case INTERNED_DATA__FUNCTION_NAMES:
		return read_string(r, &s->function_names, true, wire_message(f));
	case INTERNED_DATA__BUILD_IDS:
		return read_string(r, &s->build_ids, false, wire_message(f));
	case INTERNED_DATA__MAPPING_PATHS:
		return read_string(r, &s->mapping_paths, false, wire_message(f));
	case INTERNED_DATA__SOURCE_PATHS:
		return read_string(r, &s->source_paths, false, wire_message(f));
	case INTERNED_DATA__MAPPINGS:
		return read_mapping(r, s, wire_message(f));
	case INTERNED_DATA__FRAMES:
		return read_frame(r, s, wire_message(f));
	default:
		return read_callstack(r, s, wire_message(f));
	}
}

int reader_interned_data(struct reader *r, struct sequence *s, struct cursor c)
{
	for (unsigned pass = 1; pass <= 4; pass++) {
		struct cursor again = c;
		struct wire_field f;

		while (wire_next(&again, &f)) {
			int e = read_entry(r, s, pass, &f);

			if (e)
				return e < 0 ? trace(e) : e;
		}
		if (again.bad)
			return READER_BROKEN;
	}
	return 0;
}
