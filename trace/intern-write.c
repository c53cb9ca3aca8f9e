/* intern-write.c - see intern_write.h.  By hand, as this is half of the bytes of a trace.
 *
 * The order is strings, mapping, frame, callstack, as a stock producer has it, although readers
 * resolve an id only when it is used.  Fields that are 0 are left out: 0 is their default for every
 * reader. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "trace/intern-write.h"
#include "protos/wire.h"
#include "trace/writer.h"
#include "protos/trace.fields.h"

/* Was string @id written in this generation?  Marks it. */
static int mark(struct marks *marks, uint32_t id, uint32_t generation)
{
	if (id >= marks->room) {
		size_t room = round_up_power_of_two((uint64_t)id + 256);
		uint32_t *more = reallocarray(marks->written, room, sizeof(*more));

		if (!more)
			return fail(-ENOMEM);
		memset(more + marks->room, 0, (room - marks->room) * sizeof(*more));
		marks->written = more;
		marks->room = room;
	}
	if (marks->written[id] == generation)
		return 0;
	marks->written[id] = generation;
	return 1;
}

static int write_string(struct intern *in, struct marks *marks, const struct string_table *strings,
			uint32_t list, uint32_t id)
{
	const struct string_entry *s = &strings->entries[id - 1];
	size_t body = pack_number_size(INTERNED_STRING__IID, id) +
		      pack_bytes_size(INTERNED_STRING__STR, s->len);
	uint8_t *p;
	int r;

	p = buffer_reserve(&in->pending, pack_bytes_size(list, body));
	if (!p)
		return fail(-ENOMEM);
	r = mark(marks, id, in->generation);
	if (r <= 0)
		return r < 0 ? trace(r) : 0;
	p = pack_number(pack_head(p, list, body), INTERNED_STRING__IID, id);
	p = pack_bytes(p, INTERNED_STRING__STR, s->data, s->len);
	in->pending.len = (size_t)(p - in->pending.data);
	return 0;
}

static int write_mapping_entry(struct intern *in, const struct intern_mapping *m, uint32_t id)
{
	size_t body = pack_number_size(INTERNED_STRING__IID, id);
	uint8_t *p;

	body += m->build_id ? pack_number_size(MAPPING__BUILD_ID, m->build_id) : 0;
	body += m->load_bias ? pack_number_size(MAPPING__LOAD_BIAS, m->load_bias) : 0;
	body += m->exact_offset ? pack_number_size(MAPPING__EXACT_OFFSET, m->exact_offset) : 0;
	for (uint32_t i = 0; i < m->n_components; i++)
		body += pack_number_size(MAPPING__PATH_STRING_IDS, m->components[i]);
	p = buffer_reserve(&in->pending, pack_bytes_size(INTERNED_DATA__MAPPINGS, body));
	if (!p)
		return fail(-ENOMEM);
	p = pack_number(pack_head(p, INTERNED_DATA__MAPPINGS, body), INTERNED_STRING__IID, id);
	if (m->build_id)
		p = pack_number(p, MAPPING__BUILD_ID, m->build_id);
	if (m->load_bias)
		p = pack_number(p, MAPPING__LOAD_BIAS, m->load_bias);
	for (uint32_t i = 0; i < m->n_components; i++)
		p = pack_number(p, MAPPING__PATH_STRING_IDS, m->components[i]);
	if (m->exact_offset)
		p = pack_number(p, MAPPING__EXACT_OFFSET, m->exact_offset);
	in->pending.len = (size_t)(p - in->pending.data);
	return 0;
}

static int write_mapping(struct intern *in, uint32_t id)
{
	struct intern_mapping *m = &in->mappings[id - 1];
	int r;

	if (m->written == in->generation)
		return 0;
	if (m->build_id) {
		r = write_string(in, &in->build_ids_written, &in->places, INTERNED_DATA__BUILD_IDS,
				 m->build_id);
		if (r < 0)
			return trace(r);
	}
	for (uint32_t i = 0; i < m->n_components; i++) {
		r = write_string(in, &in->paths_written, &in->places, INTERNED_DATA__MAPPING_PATHS,
				 m->components[i]);
		if (r < 0)
			return trace(r);
	}
	r = write_mapping_entry(in, m, id);
	if (r < 0)
		return trace(r);
	m->written = in->generation;
	return 0;
}

static int write_frame(struct intern *in, uint32_t id)
{
	struct intern_frame *f = &in->frames[id - in->first_frame];
	size_t body = pack_number_size(INTERNED_STRING__IID, id) +
		      pack_number_size(FRAME__MAPPING_ID, f->mapping);
	static const char guessed[] = "guessed";
	const size_t guess = f->rel_pc & WRITER_GUESSED ? sizeof(guessed) - 1 : 0;
	uint64_t rel_pc = f->rel_pc & ~WRITER_GUESSED;
	uint8_t *p;
	int r;

	r = write_mapping(in, f->mapping);
	if (r < 0)
		return trace(r);
	if (f->name) {
		r = write_string(in, &in->names_written, &in->names, INTERNED_DATA__FUNCTION_NAMES,
				 f->name);
		if (r < 0)
			return trace(r);
		body += pack_number_size(FRAME__FUNCTION_NAME_ID, f->name);
	}
	body += rel_pc ? pack_number_size(FRAME__REL_PC, rel_pc) : 0;
	body += guess ? pack_bytes_size(FRAME__KIND_STR, guess) : 0;
	p = buffer_reserve(&in->pending, pack_bytes_size(INTERNED_DATA__FRAMES, body));
	if (!p)
		return fail(-ENOMEM);
	p = pack_number(pack_head(p, INTERNED_DATA__FRAMES, body), INTERNED_STRING__IID, id);
	if (f->name)
		p = pack_number(p, FRAME__FUNCTION_NAME_ID, f->name);
	p = pack_number(p, FRAME__MAPPING_ID, f->mapping);
	if (rel_pc)
		p = pack_number(p, FRAME__REL_PC, rel_pc);
	if (guess)
		p = (uint8_t *)memcpy(pack_head(p, FRAME__KIND_STR, guess), guessed, guess) + guess;
	in->pending.len = (size_t)(p - in->pending.data);
	f->written = in->generation;
	return 0;
}

int intern_write_callstack(struct intern *in, uint32_t id, const uint32_t *ids, size_t n)
{
	uint8_t *p, *body, *end;
	int r;

	for (size_t i = 0; i < n; i++) {
		if (in->frames[ids[i] - in->first_frame].written == in->generation)
			continue;
		r = write_frame(in, ids[i]);
		if (r < 0)
			return trace(r);
	}
	p = buffer_reserve(&in->pending, (n + 2) * PACK_FIELD_MAX);
	if (!p)
		return fail(-ENOMEM);
	/* Moving 150 bytes costs less than counting them before they are there. */
	body = p + PACK_FIELD_MAX;
	end = pack_number(body, INTERNED_STRING__IID, id);
	for (size_t i = n; i-- > 0;)
		end = pack_number(end, CALLSTACK__FRAME_IDS, ids[i]);
	p = pack_head(p, INTERNED_DATA__CALLSTACKS, (size_t)(end - body));
	memmove(p, body, (size_t)(end - body));
	in->pending.len = (size_t)(p + (end - body) - in->pending.data);
	return 0;
}
