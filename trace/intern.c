/* intern.c - see intern.h: content to ids.  What is written of it: intern_write.c. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "trace/intern.h"
#include "trace/intern-write.h"

enum {
	FIRST_SLOTS = 4096,
	PATH_MAX_BYTES = 4096,
	NAME_MAX_BYTES =
		16 << 10, /* a demangled name is cut before; anything longer is an accident */
	BUILD_ID_MAX_BYTES = 64,
};

int intern_init(struct intern *in)
{
	uint32_t kernel;
	int r;

	*in = (struct intern){.generation = 1, .first_frame = 1, .frame_generation = 1};
	stacks_init(&in->stacks, 1);
	/* Ids count from 1, so the first mapping made is WRITER_KERNEL_MAPPING. */
	r = intern_mapping(in, "kernel", NULL, 0, 0, 0, &kernel);
	if (r < 0) {
		intern_deinit(in);
		return trace(r);
	}
	return 0;
}

void intern_deinit(struct intern *in)
{
	for (size_t i = 0; i < in->n_mappings; i++) {
		free(in->mappings[i].components);
		buffer_deinit(&in->mappings[i].symbols);
	}
	free(in->mappings);
	table_deinit(&in->mapping_of_hash);
	free(in->frames);
	free(in->frame_slots);
	free(in->names_written.written);
	free(in->paths_written.written);
	free(in->build_ids_written.written);
	string_table_deinit(&in->names);
	string_table_deinit(&in->places);
	stacks_deinit(&in->stacks);
	buffer_deinit(&in->pending);
	*in = (struct intern){0};
}

/* ---- mappings ---- */

/* "a//b/[c]" -> "/a/b/[c]", which is what readers make of the components.  Interns these on the
 * way. */
static int intern_path(struct intern *in, const char *path, struct intern_mapping *m)
{
	char normal[PATH_MAX_BYTES + 1];
	size_t len = 0;
	int r;

	while (*path && len + 1 < PATH_MAX_BYTES) {
		size_t n = strcspn(path, "/");
		uint32_t *more;

		if (n > PATH_MAX_BYTES - 1 - len)
			n = PATH_MAX_BYTES - 1 - len;
		if (n) {
			more = reallocarray(m->components, m->n_components + 1, sizeof(*more));
			if (!more)
				return fail(-ENOMEM);
			m->components = more;
			r = string_table_add(&in->places, path, n, &more[m->n_components], NULL);
			if (r < 0)
				return trace(r);
			m->n_components++;
			normal[len++] = '/';
			memcpy(normal + len, path, n);
			len += n;
		}
		path += n;
		path += *path == '/';
	}
	r = string_table_add(&in->places, normal, len, &m->path, NULL);
	return r < 0 ? trace(r) : 0;
}

static bool same_mapping(const struct intern_mapping *a, const struct intern_mapping *b)
{
	return a->path == b->path && a->build_id == b->build_id && a->load_bias == b->load_bias &&
	       a->exact_offset == b->exact_offset;
}

static void components_freep(struct intern_mapping *m)
{
	free(m->components);
}

static uint64_t mapping_hash(const struct intern_mapping *m)
{
	return hash_u64(m->path ^ hash_u64(m->build_id ^ hash_u64(m->load_bias)) ^
			hash_u64(~m->exact_offset));
}

/* The id of the one that is the same, or 0. */
static uint32_t find_mapping(const struct intern *in, const struct intern_mapping *m,
			     uint64_t first)
{
	uint32_t id = (uint32_t)first;

	while (id && !same_mapping(&in->mappings[id - 1], m))
		id = in->mappings[id - 1].next;
	return id;
}

int intern_mapping(struct intern *in, const char *path, const void *build_id, size_t build_id_len,
		   uint64_t load_bias, uint64_t exact_offset, uint32_t *ret_mapping)
{
	_cleanup_(components_freep) struct intern_mapping m = {.load_bias = load_bias,
							       .exact_offset = exact_offset};
	uint64_t first = 0;
	uint32_t id;
	int r;

	if (build_id_len > BUILD_ID_MAX_BYTES)
		return fail(-EINVAL);
	r = intern_path(in, path, &m);
	if (r < 0)
		return trace(r);
	if (build_id_len) {
		r = string_table_add(&in->places, build_id, build_id_len, &m.build_id, NULL);
		if (r < 0)
			return trace(r);
	}
	(void)table_get(&in->mapping_of_hash, mapping_hash(&m), &first);
	id = find_mapping(in, &m, first);
	if (id) {
		*ret_mapping = id;
		return 0;
	}
	m.next = (uint32_t)first;
	if (in->n_mappings == in->room_mappings) {
		size_t room = in->room_mappings ? in->room_mappings * 2 : 64;
		struct intern_mapping *more = reallocarray(in->mappings, room, sizeof(*more));

		if (!more)
			return fail(-ENOMEM);
		in->mappings = more;
		in->room_mappings = room;
	}
	r = table_put(&in->mapping_of_hash, mapping_hash(&m), in->n_mappings + 1);
	if (r < 0)
		return trace(r);
	in->mappings[in->n_mappings++] = m;
	m.components = NULL;
	*ret_mapping = (uint32_t)in->n_mappings;
	return 0;
}

/* ---- frames ---- */
int intern_name(struct intern *in, const char *name, uint32_t *ret_name)
{
	size_t len = strnlen(name, NAME_MAX_BYTES);
	bool new;
	int r;

	r = string_table_add(&in->names, name, len, ret_name, &new);
	if (r < 0)
		return trace(r);
	if (new)
		in->name_bytes += len + sizeof(struct string_entry) + sizeof(struct table_slot) * 2;
	return 0;
}

/* By address, except that frames of address 0 (the kernel's, whose addresses are not told) go by
 * name. */
static uint64_t frame_hash(uint32_t mapping, uint64_t rel_pc, uint32_t name)
{
	return hash_u64(rel_pc ^ (uint64_t)mapping << 40 ^ (rel_pc ? 0 : (uint64_t)name << 20));
}

static uint32_t *frame_slot(const struct intern *in, uint32_t mapping, uint64_t rel_pc,
			    uint32_t name)
{
	size_t i = frame_hash(mapping, rel_pc, name) & (in->n_frame_slots - 1);

	for (; in->frame_slots[i]; i = (i + 1) & (in->n_frame_slots - 1)) {
		const struct intern_frame *f = &in->frames[in->frame_slots[i] - 1];

		if (f->rel_pc == rel_pc && f->mapping == mapping && (rel_pc || f->name == name))
			break;
	}
	return &in->frame_slots[i];
}

static int frames_grow(struct intern *in)
{
	size_t n_slots = in->n_frame_slots ? in->n_frame_slots * 2 : FIRST_SLOTS;
	struct intern_frame *frames;
	uint32_t *slots, *old = in->frame_slots;

	frames = reallocarray(in->frames, n_slots / 2, sizeof(*frames));
	if (!frames)
		return fail(-ENOMEM);
	in->frames = frames;
	slots = calloc(n_slots, sizeof(*slots));
	if (!slots)
		return fail(-ENOMEM);
	in->frame_slots = slots;
	in->n_frame_slots = n_slots;
	in->room_frames = n_slots / 2;
	for (size_t i = 0; i < in->n_frames; i++)
		*frame_slot(in, frames[i].mapping, frames[i].rel_pc, frames[i].name) =
			(uint32_t)i + 1;
	free(old);
	return 0;
}

int intern_frame(struct intern *in, uint32_t mapping, uint64_t rel_pc, uint32_t name,
		 uint32_t *ret_frame)
{
	uint32_t *slot;
	int r;

	if (!mapping || mapping > in->n_mappings || name > in->names.n_entries)
		return fail(-EINVAL);
	if (in->n_frames == in->room_frames) {
		r = frames_grow(in);
		if (r < 0)
			return trace(r);
	}
	slot = frame_slot(in, mapping, rel_pc, name);
	if (!*slot) {
		in->frames[in->n_frames++] =
			(struct intern_frame){.rel_pc = rel_pc, .mapping = mapping};
		*slot = (uint32_t)in->n_frames;
	}
	/* A name that comes after the frame was written is the business of ModuleSymbols, and of
	 * the next generation's entry. */
	if (!in->frames[*slot - 1].name)
		in->frames[*slot - 1].name = name;
	*ret_frame = in->first_frame + *slot - 1;
	return 0;
}

struct intern_frame *intern_find_frame(const struct intern *in, uint32_t mapping, uint64_t rel_pc)
{
	uint32_t index;

	if (!in->n_frame_slots || !rel_pc)
		return NULL;
	index = *frame_slot(in, mapping, rel_pc, 0);
	return index ? &in->frames[index - 1] : NULL;
}

/* ---- callstacks ---- */
int intern_callstack(struct intern *in, const uint32_t *ids, size_t n, uint32_t *ret_callstack)
{
	uint32_t id;
	bool new;
	int r;

	if (!n) { /* an empty stack is an error row to readers; none is not */
		*ret_callstack = 0;
		return 0;
	}
	for (size_t i = 0; i < n; i++)
		if (ids[i] - in->first_frame >= in->n_frames)
			return fail(-ESTALE);
	r = stacks_add(&in->stacks, ids, n, &id, &new);
	if (r < 0)
		return trace(r);
	if (new) {
		r = intern_write_callstack(in, id, ids, n);
		if (r < 0)
			return trace(r);
	}
	*ret_callstack = id;
	return 0;
}

void intern_new_generation(struct intern *in)
{
	in->generation++;
	in->pending.len = 0;
	stacks_clear(&in->stacks);
}

void intern_forget_frames(struct intern *in)
{
	intern_new_generation(in);
	in->first_frame += (uint32_t)in->n_frames;
	in->frame_generation++;
	in->n_frames = 0;
	if (in->frame_slots)
		memset(in->frame_slots, 0, in->n_frame_slots * sizeof(*in->frame_slots));
	string_table_deinit(&in->names);
	in->name_bytes = 0;
}

size_t intern_frame_bytes(const struct intern *in)
{
	return in->n_frames * (sizeof(*in->frames) + 2 * sizeof(*in->frame_slots)) + in->name_bytes;
}
