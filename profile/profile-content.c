/* profile-content.c - strings, modules, frames and stacks of a profile, each once: equal content of
 * several sequences, generations or processes becomes one. */
#include <errno.h>

#include "base/error.h"
#include "profile/profile-reader.h"
#include "symbols/demangle.h"
#include "protos/trace.fields.h"

enum {
	MAX_NAME = 8192,
	INDEX_BYTES = 11, /* of an entry in a hash_index, at most */
	NAME_BYTES = sizeof(struct string_entry) + INDEX_BYTES + 24, /* 24: malloc's own */
	MAX_ID = UINT32_MAX - 1, /* of anything that is counted */
};

int reader_string(struct reader *r, const void *data, size_t len, uint32_t *ret_id)
{
	bool is_new;
	int e;

	if (r->profile->strings.n_entries >= MAX_ID)
		return fail(-E2BIG);
	e = string_table_add(&r->profile->strings, data ? data : "", len, ret_id, &is_new);
	if (e >= 0 && is_new) {
		e = reader_hold(r, HELD_TEXT, len, len);
		if (e >= 0)
			e = reader_hold(r, HELD_NAMES, 1, NAME_BYTES);
	}
	return e < 0 ? trace(e) : 0;
}

static bool is_mangled(const uint8_t *data, size_t len)
{
	return len > 2 && len < MAX_NAME && data[0] == '_' && data[1] && strchr("_ZRD", data[1]);
}

/* Each once: generations repeat them, and to read one takes some time. */
static int demangled(struct reader *r, const uint8_t *data, size_t len, uint32_t *ret_id)
{
	char mangled[MAX_NAME], name[MAX_NAME];
	size_t n = r->mangled.n_entries;
	uint32_t number;
	bool is_new;
	int e = string_table_add(&r->mangled, data, len, &number, &is_new);

	if (e < 0)
		return trace(e);
	if (!is_new) {
		*ret_id = r->demangled[number - 1];
		return 0;
	}
	e = reader_hold(r, HELD_TEXT, len, len);
	if (e >= 0)
		e = reader_hold(r, HELD_NAMES, 1, NAME_BYTES + sizeof(*r->demangled));
	if (e >= 0)
		e = ROOM_FOR_ONE(r->demangled, n, r->room_demangled);
	if (e < 0)
		return trace(e);
	memcpy(mangled, data, len);
	mangled[len] = 0;
	uw_demangle(mangled, name, sizeof(name));
	e = reader_hold(r, HELD_DEMANGLED, strlen(name), 0);
	if (e >= 0)
		e = reader_string(r, name, strlen(name), &r->demangled[n]);
	if (e < 0)
		return trace(e);
	*ret_id = r->demangled[n];
	return 0;
}

/* A function's name as people read it.  Names of perfwind's own traces are demangled already. */
static int reader_function(struct reader *r, const uint8_t *data, size_t len, uint32_t *ret_id)
{
	int e;

	if (!len) {
		*ret_id = 0;
		return 0;
	}
	e = is_mangled(data, len) ? demangled(r, data, len, ret_id)
				  : reader_string(r, data, min_u64(len, MAX_NAME), ret_id);
	return e < 0 ? trace(e) : 0;
}

/* ---- content to index ---- */
static bool build_id_is(const struct profile_module *m, const uint8_t *id, size_t len)
{
	return m->build_id_len == len && (!len || !memcmp(m->build_id, id, len));
}

/* "/[vdso]" is how the format must write "[vdso]". */
static int module_path(struct reader *r, const char *path, size_t len, bool has_build_id,
		       uint32_t *ret_path, bool *ret_kernel)
{
	*ret_kernel = (len == 7 && !memcmp(path, "/kernel", 7) && !has_build_id) ||
		      (len >= 17 && (!memcmp(path, "[kernel.kallsyms]", 17) ||
				     (len >= 18 && !memcmp(path, "/[kernel.kallsyms]", 18))));
	if (*ret_kernel)
		return reader_string(r, "[kernel]", 8, ret_path);
	if (len > 2 && path[0] == '/' && path[1] == '[') {
		path++;
		len--;
	}
	return reader_string(r, path, len, ret_path);
}

static uint64_t hash_of_module(const void *owner, uint32_t number)
{
	const struct reader *r = owner;
	const struct profile_module *m = &r->profile->modules[number];

	return hash_seeded(r->seed ^ m->path, m->build_id, m->build_id_len);
}

/* The module of a path and build id, made if new.  UINT32_MAX: neither is known. */
static int reader_module(struct reader *r, const char *path, size_t path_len, const uint8_t *id,
			 size_t id_len, uint64_t load_bias, uint32_t *ret_module)
{
	struct profile *p = r->profile;
	struct profile_module m = {.load_bias = load_bias};
	uint64_t hash;
	int e;

	if (!path_len && !id_len) {
		*ret_module = UINT32_MAX;
		return 0;
	}
	e = module_path(r, path, path_len, id_len, &m.path, &m.kernel);
	if (e < 0)
		return trace(e);
	if (m.kernel)
		m.load_bias = 0; /* stock producers write what they like there */
	m.build_id_len = (uint32_t)min_u64(id_len, sizeof(m.build_id));
	if (m.build_id_len)
		memcpy(m.build_id, id, m.build_id_len);
	hash = hash_seeded(r->seed ^ m.path, m.build_id, m.build_id_len);
	hash_index_for_each(&r->modules, hash, i)
	{
		struct profile_module *known = &p->modules[i];

		if (known->path == m.path && build_id_is(known, m.build_id, m.build_id_len)) {
			if (!known->load_bias)
				known->load_bias = load_bias;
			*ret_module = (uint32_t)i;
			return 0;
		}
	}
	e = reader_hold(r, HELD_MODULES, 1, sizeof(m) + INDEX_BYTES);
	if (e >= 0)
		e = ROOM_FOR_ONE(p->modules, p->n_modules, r->room_modules);
	if (e >= 0)
		e = hash_index_add(&r->modules, hash, hash_of_module, r);
	if (e < 0)
		return trace(e);
	*ret_module = (uint32_t)p->n_modules;
	p->modules[p->n_modules++] = m;
	return 0;
}

static int reader_line(struct reader *r, const struct profile_line *line)
{
	struct profile *p = r->profile;
	int e;

	if (p->n_lines >= MAX_ID)
		return fail(-E2BIG);
	e = reader_hold(r, HELD_LINES, 1, sizeof(*line));
	if (e >= 0)
		e = ROOM_FOR_ONE(p->lines, p->n_lines, r->room_lines);
	if (e < 0)
		return trace(e);
	p->lines[p->n_lines++] = *line;
	return 0;
}

static uint64_t hash_frame(const struct reader *r, uint32_t module, uint64_t rel_pc,
			   const struct profile_line *line)
{
	const uint64_t key[] = {rel_pc, (uint64_t)module << 32 | line->function,
				(uint64_t)line->file << 32 | line->line, line->kind};

	return hash_seeded(r->seed, key, sizeof(key));
}

static uint64_t hash_of_frame(const void *owner, uint32_t number)
{
	const struct reader *r = owner;
	const struct profile_frame *f = &r->profile->frames[number];

	return hash_frame(r, f->module, f->rel_pc, &r->profile->lines[f->first_line]);
}

static int reader_frame(struct reader *r, uint32_t module, uint64_t rel_pc, bool guessed,
			const struct profile_line *line, uint32_t *ret_frame)
{
	struct profile *p = r->profile;
	uint64_t hash = hash_frame(r, module, rel_pc, line);
	int e;

	hash_index_for_each(&r->frames, hash, i)
	{
		const struct profile_frame *f = &p->frames[i];

		if (f->module == module && f->rel_pc == rel_pc && f->guessed == guessed &&
		    !memcmp(&p->lines[f->first_line], line, sizeof(*line))) {
			*ret_frame = (uint32_t)i;
			return 0;
		}
	}
	e = reader_hold(r, HELD_FRAMES, 1, sizeof(*p->frames) + INDEX_BYTES);
	if (e >= 0)
		e = ROOM_FOR_ONE(p->frames, p->n_frames, r->room_frames);
	if (e >= 0)
		e = reader_line(r, line);
	if (e >= 0)
		e = hash_index_add(&r->frames, hash, hash_of_frame, r);
	if (e < 0)
		return trace(e);
	*ret_frame = (uint32_t)p->n_frames;
	p->frames[p->n_frames++] =
		(struct profile_frame){module, rel_pc, (uint32_t)p->n_lines - 1, 1, guessed};
	return 0;
}

/* ---- stacks ----
 *
 * A stack's nodes are found by the hashes of its outer frames, one for each length: how long an outer
 * part is there already is a matter of some five looks, not one for each frame.  32 bits of a hash are
 * kept; what they lead to is compared, from its end to where a recent stack is the same. */

static uint64_t hash_of_node(const void *owner, uint32_t number)
{
	return ((const struct reader *)owner)->node_hash[number];
}

static int add_node(struct reader *r, uint32_t up, uint32_t frame, uint32_t hash,
		    uint32_t *ret_node)
{
	struct profile *p = r->profile;
	size_t slots = r->nodes.n_slots;
	int e;

	e = ROOM_FOR_ONE(p->nodes, p->n_nodes, r->room_nodes);
	if (e >= 0)
		e = ROOM_FOR_ONE(r->node_hash, p->n_nodes, r->room_node_hash);
	if (e >= 0)
		e = hash_index_add(&r->nodes, hash, hash_of_node, r);
	if (e >= 0)
		e = reader_hold(r, HELD_NODES, 1,
				sizeof(*p->nodes) + sizeof(hash) +
					(r->nodes.n_slots - slots) * sizeof(*r->nodes.slots));
	if (e < 0)
		return trace(e);
	p->nodes[p->n_nodes] = (struct profile_node){up, frame};
	r->node_hash[p->n_nodes] = hash;
	*ret_node = (uint32_t)p->n_nodes++;
	return 0;
}

/* Of the recent stacks the one that has most of the outer frames in r->scratch: *ret_n frames. */
static const struct recent_stack *nearest_stack(const struct reader *r, size_t *ret_n)
{
	const struct recent_stack *best = NULL;
	size_t most = 0;

	for (size_t i = 0; i < RECENT_STACKS; i++) {
		const struct recent_stack *s = &r->recent[i];
		size_t end = min_u64(s->n, r->n_scratch), n = 0;

		if (end <= most || s->frames[most] != r->scratch[most])
			continue;
		while (n < end && s->frames[n] == r->scratch[n])
			n++;
		if (n > most) {
			most = n;
			best = s;
		}
	}
	*ret_n = most;
	return best;
}

static int recent_room(struct recent_stack *s, size_t n)
{
	size_t room = round_up_power_of_two(max_u64(n, 64));
	uint32_t **const all[] = {&s->frames, &s->nodes, &s->hashes};

	if (n <= s->room)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		uint32_t *more = reallocarray(*all[i], room, sizeof(*more));

		if (!more)
			return fail(-ENOMEM);
		*all[i] = more;
	}
	s->room = room;
	return 0;
}

/* The node of the outer @n frames of @s by its hash, of which the first @known are known and @n > known;
 * UINT32_MAX: none.  Notes the nodes in between. */
static uint32_t seek_node(const struct reader *r, struct recent_stack *s, size_t known, size_t n)
{
	const struct profile_node *nodes = r->profile->nodes;

	hash_index_for_each(&r->nodes, s->hashes[n - 1], i)
	{
		uint32_t at = (uint32_t)i;
		size_t k = n;

		if (r->node_hash[i] != s->hashes[n - 1])
			continue;
		while (k > known && at != UINT32_MAX && nodes[at].frame == s->frames[k - 1]) {
			s->nodes[--k] = at;
			at = nodes[at].up;
		}
		if (k == known && at == (known ? s->nodes[known - 1] : UINT32_MAX))
			return (uint32_t)i;
	}
	return UINT32_MAX;
}

/* May there be a node of the outer @n frames? */
static bool is_known_hash(const struct reader *r, uint32_t hash)
{
	hash_index_for_each(&r->nodes, hash, i)
	{
		if (r->node_hash[i] == hash)
			return true;
	}
	return false;
}

/* How many of the outer frames of @s are there already, their nodes noted; at least @known frames. */
static size_t known_nodes(const struct reader *r, struct recent_stack *s, size_t known, size_t n)
{
	size_t low = known, high = n;

	for (size_t i = 1; i < 8 && n - known >= 8; i++) /* where the first three looks may go */
		hash_index_prefetch(&r->nodes, s->hashes[known + (n - known) * i / 8]);
	while (low < high) {
		size_t middle = high - (high - low) / 2;

		if (is_known_hash(r, s->hashes[middle - 1]))
			low = middle;
		else
			high = middle - 1;
	}
	/* Of equal hashes some other may have been meant: then one by one. */
	if (low > known && seek_node(r, s, known, low) == UINT32_MAX)
		for (low = known; low < n && seek_node(r, s, low, low + 1) != UINT32_MAX;)
			low++;
	return low;
}

static void hash_frames(const struct reader *r, struct recent_stack *s, size_t n)
{
	uint64_t hash = r->seed;

	for (size_t i = 0; i < n; i++) {
		hash = (hash ^ s->frames[i]) * 0x94d049bb133111ebull;
		hash ^= hash >> 29;
		s->hashes[i] = (uint32_t)(hash >> 8);
	}
}

/* UINT32_MAX: neither a path nor a build id. */
static int reader_stack(struct reader *r, uint32_t *ret_stack)
{
	struct recent_stack *to = &r->recent[r->next_recent];
	const struct recent_stack *from;
	size_t n, end = r->n_scratch;
	int e = recent_room(to, end);

	if (e < 0)
		return trace(e);
	from = nearest_stack(r, &n);
	if (n == end) { /* that one, or a part of it */
		*ret_stack = from->nodes[n - 1];
		return 0;
	}
	if (n && from != to)
		memcpy(to->nodes, from->nodes, n * sizeof(*to->nodes));
	memcpy(to->frames, r->scratch, end * sizeof(*to->frames));
	to->n = 0; /* until it is whole */
	hash_frames(r, to, end);
	for (n = known_nodes(r, to, n, end); n < end; n++) {
		e = add_node(r, n ? to->nodes[n - 1] : UINT32_MAX, to->frames[n], to->hashes[n],
			     &to->nodes[n]);
		if (e < 0)
			return trace(e);
	}
	to->n = end;
	r->next_recent = (r->next_recent + 1) % RECENT_STACKS;
	*ret_stack = to->nodes[end - 1];
	return 0;
}

/* ---- interned tables ----
 *
 * Interned tables of a sequence become modules, frames and stacks of the
 * profile.
 *
 * Entries are resolved as they come, in the order strings, mappings, frames, stacks within a
 * packet, so that no pointer into the file (or into an unpacked piece of it) is kept.  The first
 * entry of an iid in a generation stands, as in the format's other readers. */

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

/* The words of Frame.kind_str.  true: a guess. */
static bool read_kind(const struct wire_field *f, uint32_t *ret_kind)
{
	const size_t word = strlen(FRAME_KIND_GUESSED);
	size_t len = f->len;
	bool guessed = len >= word && !memcmp(f->data + len - word, FRAME_KIND_GUESSED, word) &&
		       (len == word || f->data[len - word - 1] == ' ');

	if (guessed)
		len -= len == word ? word : word + 1;
	*ret_kind = len ? frame_kind_of(f->data, len) : FRAME_NATIVE;
	return guessed;
}

static int read_frame(struct reader *r, struct sequence *s, struct cursor c)
{
	uint64_t iid = 0, mapping = 0, rel_pc = 0, function = 0, path = 0;
	struct profile_line line = {0};
	bool guessed = false;
	struct wire_field f;
	uint32_t frame = 0, module = MODULE_NONE;
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
			guessed = read_kind(&f, &line.kind);
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
	uint32_t frame = 0, stack = 0;
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

/* ---- ModuleSymbols ----
 *
 * ModuleSymbols: names and inlined calls of addresses, separate from the
 * frames. Collected here, applied at the end (profile-finish.c): a frame may come before or after
 * its names. */

enum {
	MAX_LINES = 256, /* inlined into one address */
};

static int read_line(struct reader *r, struct cursor c)
{
	struct profile_line line = {0};
	struct wire_field f;
	int e = 0;

	while (wire_next(&c, &f)) {
		if (wire_is_bytes(&f, LINE__FUNCTION_NAME))
			e = reader_function(r, f.data, f.len, &line.function);
		else if (wire_is_bytes(&f, LINE__SOURCE_FILE_NAME) && f.len)
			e = reader_string(r, f.data, f.len, &line.file);
		else if (wire_is(&f, LINE__LINE_NUMBER))
			line.line = (uint32_t)min_u64(f.value, UINT32_MAX);
		else if (wire_is_bytes(&f, LINE__PERFWIND_KIND) && f.len)
			line.kind = frame_kind_of(f.data, f.len);
		if (e < 0)
			return trace(e);
	}
	if (c.bad)
		return READER_BROKEN;
	e = reader_line(r, &line);
	return e < 0 ? trace(e) : 0;
}

static int read_address(struct reader *r, uint32_t module, struct cursor c)
{
	struct reader_symbol symbol = {.module = module,
				       .first_line = (uint32_t)r->profile->n_lines};
	struct wire_field f;
	int e;

	while (wire_next(&c, &f)) {
		if (wire_is(&f, ADDRESS_SYMBOLS__ADDRESS)) {
			symbol.address = f.value;
		} else if (wire_is_bytes(&f, ADDRESS_SYMBOLS__LINES) &&
			   symbol.n_lines < MAX_LINES) {
			e = read_line(r, wire_message(&f));
			if (e)
				return e < 0 ? trace(e) : e;
			symbol.n_lines++;
		}
	}
	if (c.bad)
		return READER_BROKEN;
	if (!symbol.n_lines)
		return 0;
	if (r->n_symbols >= UINT32_MAX)
		return fail(-E2BIG);
	e = reader_hold(r, HELD_SYMBOLS, 1, sizeof(symbol));
	if (e >= 0)
		e = ROOM_FOR_ONE(r->symbols, r->n_symbols, r->room_symbols);
	if (e < 0)
		return trace(e);
	symbol.order = (uint32_t)r->n_symbols;
	r->symbols[r->n_symbols++] = symbol;
	return 0;
}

int reader_module_symbols(struct reader *r, struct cursor c)
{
	struct wire_field f, path = {0}, build_id = {0};
	struct cursor again = c;
	size_t n_modules;
	uint32_t module;
	int e;

	while (wire_next(&c, &f)) {
		if (wire_is_bytes(&f, MODULE_SYMBOLS__PATH))
			path = f;
		else if (wire_is_bytes(&f, MODULE_SYMBOLS__BUILD_ID))
			build_id = f;
	}
	if (c.bad)
		return READER_BROKEN;
	n_modules = r->profile->n_modules;
	e = reader_module(r, (const char *)path.data, path.len, build_id.data, build_id.len, 0,
			  &module);
	/* Other readers take names only of what they know already.  A flight recorder has names of code although its
	 * samples were overwritten. */
	if (e >= 0 && (module == UINT32_MAX || module >= n_modules) && !r->profile->latest_only)
		e = reader_count_add(r, STAT_stackprofile_invalid_mapping_id, -1, 1);
	if (e < 0)
		return trace(e);
	while (module != UINT32_MAX && wire_next(&again, &f)) {
		if (!wire_is_bytes(&f, MODULE_SYMBOLS__ADDRESS_SYMBOLS))
			continue;
		e = read_address(r, module, wire_message(&f));
		if (e)
			return e < 0 ? trace(e) : e;
	}
	return 0;
}
