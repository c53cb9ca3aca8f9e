/* intern.c - see intern.h: content to ids, and new entries to packets.
 * A look-up of a callstack costs one pass over the ids and one cache line. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/table.h"
#include "base/unshared.h"
#include "protos/trace.fields.h"
#include "protos/wire.h"
#include "trace/intern.h"
#include "trace/writer.h"

enum { FIRST_SLOTS = 4096 };

void stacks_init(struct stacks *s, uint32_t first_id)
{
	*s = (struct stacks){.base = first_id};
	for (size_t i = 0; i < ARRAY_SIZE(s->keys); i++)
		s->keys[i] = hash_u64(hash_seed() + (i + 1) * 0x9e3779b97f4a7c15ull);
}

void stacks_deinit(struct stacks *s)
{
	unshared_free(s->slots, s->n_slots * sizeof(*s->slots));
	*s = (struct stacks){0};
}

/* Both halves of the product depend on all bits of both. */
static uint64_t fold(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Two chains of products with keys, which take the words in a different order. */
static struct stacks_slot print_of(const struct stacks *s, const uint32_t *ids, size_t n)
{
	uint64_t a = s->keys[0] ^ n, b = s->keys[1] + n;

	for (size_t i = 0; i < n; i += 4) {
		uint64_t w[2] = {0};

		if (n - i >= 4)
			memcpy(w, ids + i, sizeof(w));
		else
			for (size_t k = 0; k < n - i; k++)
				w[k / 2] |= (uint64_t)ids[i + k] << 32 * (k % 2);
		a = fold(w[0] ^ s->keys[2], w[1] ^ a);
		b = fold(w[1] ^ s->keys[3], w[0] ^ b);
	}
	return (struct stacks_slot){.print = hash_u64(a), .more = (uint32_t)hash_u64(b)};
}

/* The slot of the stack, or the free one where it would go. */
static struct stacks_slot *slot_of(const struct stacks *s, const struct stacks_slot *print)
{
	size_t i = print->print & (s->n_slots - 1);

	while (s->slots[i].index &&
	       (s->slots[i].print != print->print || s->slots[i].more != print->more))
		i = (i + 1) & (s->n_slots - 1);
	return &s->slots[i];
}

static int grow(struct stacks *s)
{
	struct stacks more = {.n_slots = s->n_slots ? s->n_slots * 2 : FIRST_SLOTS};

	more.slots = unshared_new(more.n_slots * sizeof(*more.slots));
	if (!more.slots)
		return fail(-ENOMEM);
	for (size_t i = 0; i < s->n_slots; i++)
		if (s->slots[i].index)
			*slot_of(&more, &s->slots[i]) = s->slots[i];
	unshared_free(s->slots, s->n_slots * sizeof(*s->slots));
	s->slots = more.slots;
	s->n_slots = more.n_slots;
	return 0;
}

int stacks_add(struct stacks *s, const uint32_t *ids, size_t n, uint32_t *ret_id, bool *ret_new)
{
	struct stacks_slot print = print_of(s, ids, n), *slot = NULL;
	int r;

	if (s->n_slots) {
		slot = slot_of(s, &print);
		if (slot->index) {
			*ret_id = s->base + slot->index - 1;
			*ret_new = false;
			return 0;
		}
	}
	if (s->n_entries >= UINT32_MAX - 1 - s->base)
		return fail(-E2BIG);
	if ((s->n_entries + 1) * 2 > s->n_slots) {
		r = grow(s);
		if (r < 0)
			return trace(r);
		slot = slot_of(s, &print);
	}
	print.index = (uint32_t)++s->n_entries;
	*slot = print;
	*ret_id = s->base + print.index - 1;
	*ret_new = true;
	return 0;
}

enum {
	FRAMES_A_WORD = 64, /* of frames_written */
	PATH_MAX_BYTES = 4096,
	NAME_MAX_BYTES =
		16 << 10, /* a demangled name is cut before; anything longer is an accident */
	BUILD_ID_MAX_BYTES = 64,
};

/* Ids count from 1, so the first mapping made is WRITER_KERNEL_MAPPING. */
static int first_mapping(struct intern *in)
{
	uint32_t kernel;

	return trace(intern_mapping(in, "kernel", NULL, 0, 0, 0, &kernel));
}

int intern_init(struct intern *in)
{
	int r;

	*in = (struct intern){.generation = 1, .first_frame = 1, .frame_generation = 1};
	stacks_init(&in->stacks, 1);
	r = first_mapping(in);
	if (r < 0) {
		intern_deinit(in);
		return trace(r);
	}
	return 0;
}

static void drop_mappings(struct intern *in)
{
	for (size_t i = 0; i < in->n_mappings; i++) {
		free(in->mappings[i].components);
		buffer_deinit(&in->mappings[i].symbols);
	}
	free(take(in->mappings));
	in->n_mappings = in->room_mappings = 0;
	table_deinit(&in->mapping_of_hash);
	free(in->paths_written.written);
	free(in->build_ids_written.written);
	in->paths_written = in->build_ids_written = (struct marks){0};
	string_table_deinit(&in->places);
}

void intern_deinit(struct intern *in)
{
	drop_mappings(in);
	unshared_free(in->frames, in->room_frames * sizeof(*in->frames));
	unshared_free(in->frame_slots, in->n_frame_slots * sizeof(*in->frame_slots));
	free(in->frames_written);
	free(in->names_written.written);
	string_table_deinit(&in->names);
	stacks_deinit(&in->stacks);
	buffer_deinit(&in->pending);
	*in = (struct intern){0};
}

/* ---- mappings ---- */

/* "a//b/[c]" -> "/a/b/[c]", which is what readers make of the components.  Interns these too. */
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
	if (in->n_mappings == in->room_mappings && !array_grow(in->mappings, in->room_mappings, 64))
		return fail(-ENOMEM);
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

/* By address, except that frames of address 0 (the kernel's, which are not written) go by
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

/* Room for @n frames. */
static int bits_grow(struct intern *in, size_t n)
{
	size_t before = in->room_frames / FRAMES_A_WORD, words = n / FRAMES_A_WORD;
	uint64_t *more = reallocarray(in->frames_written, words, sizeof(*more));

	if (!more)
		return fail(-ENOMEM);
	memset(more + before, 0, (words - before) * sizeof(*more));
	in->frames_written = more;
	return 0;
}

static int frames_grow(struct intern *in)
{
	size_t n_slots = in->n_frame_slots ? in->n_frame_slots * 2 : FIRST_SLOTS;
	struct intern_frame *frames;
	uint32_t *slots;
	int r = bits_grow(in, n_slots / 2);

	if (r < 0)
		return trace(r);
	slots = unshared_new(n_slots * sizeof(*slots));
	if (!slots)
		return fail(-ENOMEM);
	frames = unshared_resize(in->frames, in->room_frames * sizeof(*frames),
				 n_slots / 2 * sizeof(*frames));
	if (!frames) {
		unshared_free(slots, n_slots * sizeof(*slots));
		return fail(-ENOMEM);
	}
	unshared_free(in->frame_slots, in->n_frame_slots * sizeof(*slots));
	in->frames = frames;
	in->frame_slots = slots;
	in->n_frame_slots = n_slots;
	in->room_frames = n_slots / 2;
	for (size_t i = 0; i < in->n_frames; i++)
		*frame_slot(in, frames[i].mapping, frames[i].rel_pc, frames[i].name) =
			(uint32_t)i + 1;
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

/* ---- entries as fields of InternedData ----
 * Packed by hand, as they are half of the bytes of a trace.  The order is strings, mapping, frame,
 * callstack, as a stock producer writes them, although readers resolve an id only when it is used.
 * Fields that are 0 are left out: 0 is their default for every reader. */

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

/* The words of Frame.kind_str, as trace.proto lists them; 0: none. */
static size_t kind_text(const struct intern_frame *f, char to[static 64])
{
	const char *kind = f->kind > FRAME_KERNEL ? frame_kind_name(f->kind) : "";
	const char *guessed = f->rel_pc & WRITER_GUESSED ? FRAME_KIND_GUESSED : "";

	if (!*kind && !*guessed) /* nearly all */
		return 0;
	return (size_t)snprintf(to, 64, "%s%s%s", kind, *kind && *guessed ? " " : "", guessed);
}

static int write_frame(struct intern *in, uint32_t id)
{
	const uint32_t index = id - in->first_frame;
	struct intern_frame *f = &in->frames[index];
	size_t body = pack_number_size(INTERNED_STRING__IID, id) +
		      pack_number_size(FRAME__MAPPING_ID, f->mapping);
	char kind[64];
	const size_t kind_len = kind_text(f, kind);
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
	body += kind_len ? pack_bytes_size(FRAME__KIND_STR, kind_len) : 0;
	p = buffer_reserve(&in->pending, pack_bytes_size(INTERNED_DATA__FRAMES, body));
	if (!p)
		return fail(-ENOMEM);
	p = pack_number(pack_head(p, INTERNED_DATA__FRAMES, body), INTERNED_STRING__IID, id);
	if (f->name)
		p = pack_number(p, FRAME__FUNCTION_NAME_ID, f->name);
	p = pack_number(p, FRAME__MAPPING_ID, f->mapping);
	if (rel_pc)
		p = pack_number(p, FRAME__REL_PC, rel_pc);
	if (kind_len)
		p = pack_bytes(p, FRAME__KIND_STR, kind, kind_len);
	in->pending.len = (size_t)(p - in->pending.data);
	f->written = true;
	in->frames_written[index / FRAMES_A_WORD] |= 1ull << index % FRAMES_A_WORD;
	return 0;
}

/* Appends the entry of the callstack, and before it the entries of frames, names and mappings that the
 * generation lacks, to in->pending.  @ids innermost first.  -ENOMEM: the sequence cannot go on. */
static int write_callstack(struct intern *in, uint32_t id, const uint32_t *ids, size_t n)
{
	uint8_t *p, *body, *end;
	int r;

	for (size_t i = 0; i < n; i++) {
		uint32_t index = ids[i] - in->first_frame;

		if (in->frames_written[index / FRAMES_A_WORD] >> index % FRAMES_A_WORD & 1)
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
		r = write_callstack(in, id, ids, n);
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
	if (in->frames_written)
		memset(in->frames_written, 0, in->room_frames / 8);
	stacks_clear(&in->stacks);
}

int intern_forget_frames(struct intern *in)
{
	intern_new_generation(in);
	stacks_free(&in->stacks);
	in->first_frame += (uint32_t)in->n_frames;
	in->frame_generation++;
	unshared_free(in->frames, in->room_frames * sizeof(*in->frames));
	in->frames = NULL;
	unshared_free(in->frame_slots, in->n_frame_slots * sizeof(*in->frame_slots));
	in->frame_slots = NULL;
	free(take(in->frames_written));
	in->n_frames = in->room_frames = in->n_frame_slots = 0;
	free(in->names_written.written);
	in->names_written = (struct marks){0};
	string_table_deinit(&in->names);
	in->name_bytes = 0;
	drop_mappings(in);
	return first_mapping(in);
}
