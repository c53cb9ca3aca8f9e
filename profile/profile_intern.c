/* profile_intern.c - interned tables of a sequence become modules, frames and stacks of the
 * profile.
 *
 * Entries are resolved as they come, in the order strings, mappings, frames, stacks within a
 * packet, so that no pointer into the file (or into an unpacked piece of it) is kept.  The first
 * entry of an iid in a generation stands, as in the format's other readers. */
#include <errno.h>

#include "daemon/base/error.h"
#include "profile/profile_reader.h"

enum { /* of InternedData */
       LIST_FUNCTION_NAMES = 5,
       LIST_FRAMES = 6,
       LIST_CALLSTACKS = 7,
       LIST_BUILD_IDS = 16,
       LIST_MAPPING_PATHS = 17,
       LIST_SOURCE_PATHS = 18,
       LIST_MAPPINGS = 19,
};
enum {
	ENTRY_IID = 1,
	STRING_STR = 2,
	MAPPING_BUILD_ID = 2,
	MAPPING_LOAD_BIAS = 6,
	MAPPING_PATH_STRING_IDS = 7,
	FRAME_FUNCTION_NAME_ID = 2,
	FRAME_MAPPING_ID = 3,
	FRAME_REL_PC = 4,
	FRAME_KIND_STR = 8,
	FRAME_SOURCE_PATH_IID = 5,
	FRAME_LINE_NUMBER = 6,
	CALLSTACK_FRAME_IDS = 2,
};
enum {
	MAX_STACK = 8192, /* frames; the outermost are kept */
	MAX_PATH = 8192,
};

void sequence_forget(struct sequence *s)
{
	/* Freed, not cleared: clearing costs what the largest generation needed, each time. */
	table_deinit(&s->function_names);
	table_deinit(&s->mapping_paths);
	table_deinit(&s->build_ids);
	table_deinit(&s->source_paths);
	table_deinit(&s->mappings);
	table_deinit(&s->frames);
	table_deinit(&s->callstacks);
	s->default_clock = 0;
}

void sequence_deinit(struct sequence *s)
{
	sequence_forget(s);
	free(s->clocks);
}

/* ---- entries ---- */
static int put_first(struct table *t, uint64_t iid, uint64_t value)
{
	uint64_t old;
	int e;

	if (table_get(t, iid, &old))
		return 0;
	e = table_put(t, iid, value);
	return e < 0 ? trace(e) : 0;
}

/* The string of an iid that something refers to; 0 is what is not set. */
static int get_string(struct reader *r, const struct table *t, uint64_t iid, uint32_t *ret_id)
{
	uint64_t id = 0;

	if (!table_get(t, iid, &id) && iid) {
		*ret_id = 0;
		return reader_count_add(r, STAT_stackprofile_invalid_string_id, -1, 1);
	}
	*ret_id = (uint32_t)id;
	return 0;
}

static int read_string(struct reader *r, struct table *t, bool function, struct cursor c)
{
	struct wire_field f, text = {0};
	uint64_t iid = 0, old;
	bool has_iid = false;
	uint32_t id;
	int e;

	while (wire_next(&c, &f)) {
		if (wire_is(&f, ENTRY_IID)) {
			iid = f.value;
			has_iid = true;
		} else if (wire_is_bytes(&f, STRING_STR)) {
			text = f;
		}
	}
	if (c.bad)
		return READER_BROKEN;
	if (!has_iid || table_get(t, iid, &old))
		return 0;
	e = function ? reader_function(r, text.data, text.len, &id)
		     : reader_string(r, text.data, text.len, &id);
	if (e < 0)
		return trace(e);
	return put_first(t, iid, id);
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
		if (wire_is(&f, ENTRY_IID))
			iid = f.value;
		else if (wire_is(&f, MAPPING_BUILD_ID))
			build_id = f.value;
		else if (wire_is(&f, MAPPING_LOAD_BIAS))
			load_bias = f.value;
		else if (wire_is(&f, MAPPING_PATH_STRING_IDS)) {
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
	return put_first(&s->mappings, iid, module);
}

static int read_frame(struct reader *r, struct sequence *s, struct cursor c)
{
	uint64_t iid = 0, mapping = 0, rel_pc = 0, function = 0, path = 0, module = UINT32_MAX, old;
	struct profile_line line = {0};
	bool guessed = false;
	struct wire_field f;
	uint32_t frame;
	int e;

	while (wire_next(&c, &f)) {
		if (wire_is(&f, ENTRY_IID))
			iid = f.value;
		else if (wire_is(&f, FRAME_FUNCTION_NAME_ID))
			function = f.value;
		else if (wire_is(&f, FRAME_MAPPING_ID))
			mapping = f.value;
		else if (wire_is(&f, FRAME_REL_PC))
			rel_pc = f.value;
		else if (wire_is_bytes(&f, FRAME_KIND_STR))
			guessed = f.data && f.len == strlen("guessed") &&
				  !memcmp(f.data, "guessed", f.len);
		else if (wire_is(&f, FRAME_SOURCE_PATH_IID))
			path = f.value;
		else if (wire_is(&f, FRAME_LINE_NUMBER))
			line.line = (uint32_t)min_u64(f.value, UINT32_MAX);
	}
	if (c.bad)
		return READER_BROKEN;
	if (table_get(&s->frames, iid, &old))
		return 0;
	e = get_string(r, &s->function_names, function, &line.function);
	if (e >= 0)
		e = get_string(r, &s->source_paths, path, &line.file);
	if (e >= 0 && !table_get(&s->mappings, mapping, &module) && mapping)
		e = reader_count_add(r, STAT_stackprofile_invalid_mapping_id, -1, 1);
	if (e < 0)
		return trace(e);
	e = reader_frame(r, (uint32_t)module, rel_pc, guessed, &line, &frame);
	if (e < 0)
		return trace(e);
	return put_first(&s->frames, iid, frame);
}

static int read_callstack(struct reader *r, struct sequence *s, struct cursor c)
{
	uint64_t iid = 0, frame, old;
	bool broken = false;
	struct wire_field f;
	uint32_t stack;
	int e;

	r->n_scratch = 0;
	while (wire_next(&c, &f)) {
		if (wire_is(&f, ENTRY_IID)) {
			iid = f.value;
		} else if (wire_is(&f, CALLSTACK_FRAME_IDS) && r->n_scratch < MAX_STACK) {
			if (!table_get(&s->frames, f.value, &frame)) {
				broken = true;
				continue;
			}
			e = ROOM_FOR_ONE(r->scratch, r->n_scratch, r->room_scratch);
			if (e < 0)
				return trace(e);
			r->scratch[r->n_scratch++] = (uint32_t)frame;
		}
	}
	if (c.bad)
		return READER_BROKEN;
	if (table_get(&s->callstacks, iid, &old))
		return 0;
	/* a stack with a hole would be another stack */
	if (broken || !r->n_scratch)
		return put_first(&s->callstacks, iid, broken ? STACK_BROKEN : STACK_EMPTY);
	for (size_t i = 0, j = r->n_scratch - 1; i < j; i++, j--) { /* to innermost first */
		uint32_t outer = r->scratch[i];

		r->scratch[i] = r->scratch[j];
		r->scratch[j] = outer;
	}
	e = reader_stack(r, &stack);
	if (e < 0)
		return trace(e);
	return put_first(&s->callstacks, iid, stack);
}

static int read_entry(struct reader *r, struct sequence *s, unsigned pass,
		      const struct wire_field *f)
{
	static const uint8_t passes[] = {
		[LIST_FUNCTION_NAMES] = 1, [LIST_BUILD_IDS] = 1, [LIST_MAPPING_PATHS] = 1,
		[LIST_SOURCE_PATHS] = 1,   [LIST_MAPPINGS] = 2,	 [LIST_FRAMES] = 3,
		[LIST_CALLSTACKS] = 4,
	};

	if (f->wire != WIRE_BYTES || f->number >= ARRAY_SIZE(passes) || passes[f->number] != pass)
		return 0;
	switch (f->number) {
	case LIST_FUNCTION_NAMES:
		return read_string(r, &s->function_names, true, wire_message(f));
	case LIST_BUILD_IDS:
		return read_string(r, &s->build_ids, false, wire_message(f));
	case LIST_MAPPING_PATHS:
		return read_string(r, &s->mapping_paths, false, wire_message(f));
	case LIST_SOURCE_PATHS:
		return read_string(r, &s->source_paths, false, wire_message(f));
	case LIST_MAPPINGS:
		return read_mapping(r, s, wire_message(f));
	case LIST_FRAMES:
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
