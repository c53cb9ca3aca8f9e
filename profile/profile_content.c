/* profile_content.c - strings, modules, frames and stacks of a profile, each once: equal content of
 * several sequences, generations or processes becomes one. */
#include <errno.h>

#include "daemon/base/error.h"
#include "profile/profile_reader.h"
#include "unwinder/names.h"

enum {
	MAX_NAME = 8192,
	MAX_ID = UINT32_MAX - 1, /* of anything that is counted */
};

int reader_string(struct reader *r, const void *data, size_t len, uint32_t *ret_id)
{
	int e;

	if (r->profile->strings.n_entries >= MAX_ID)
		return fail(-E2BIG);
	e = string_table_add(&r->profile->strings, data ? data : "", len, ret_id, NULL);
	return e < 0 ? trace(e) : 0;
}

/* A function's name as people read it.  Names of perfwind's own traces are demangled already. */
int reader_function(struct reader *r, const uint8_t *data, size_t len, uint32_t *ret_id)
{
	char mangled[MAX_NAME], name[MAX_NAME];
	int e;

	if (!len) {
		*ret_id = 0;
		return 0;
	}
	if (len > 2 && len < MAX_NAME && data[0] == '_' && strchr("_ZRD", data[1]) && data[1]) {
		memcpy(mangled, data, len);
		mangled[len] = 0;
		uw_demangle(mangled, name, sizeof(name));
		e = reader_string(r, name, strlen(name), ret_id);
	} else {
		e = reader_string(r, data, min_u64(len, MAX_NAME), ret_id);
	}
	return e < 0 ? trace(e) : 0;
}

/* ---- content to index ---- */
static int link_by_hash(struct table *heads, uint32_t **next, size_t *room, uint64_t hash,
			size_t index)
{
	uint64_t first = 0;
	int e;

	if (index >= MAX_ID)
		return fail(-E2BIG);
	e = ROOM_FOR_ONE(*next, index, *room);
	if (e < 0)
		return trace(e);
	(void)table_get(heads, hash, &first);
	(*next)[index] = (uint32_t)first; /* index + 1; 0 ends */
	e = table_put(heads, hash, index + 1);
	return e < 0 ? trace(e) : 0;
}

static uint32_t first_by_hash(const struct table *heads, uint64_t hash)
{
	uint64_t first = 0;

	(void)table_get(heads, hash, &first);
	return (uint32_t)first;
}

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

/* The module of a path and build id, made if new.  UINT32_MAX: neither is known. */
int reader_module(struct reader *r, const char *path, size_t path_len, const uint8_t *id,
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
	hash = hash_u64(hash_bytes(m.build_id, m.build_id_len) + m.path);
	for (uint32_t i = first_by_hash(&r->module_by_hash, hash); i; i = r->module_next[i - 1]) {
		struct profile_module *known = &p->modules[i - 1];

		if (known->path == m.path && build_id_is(known, m.build_id, m.build_id_len)) {
			if (!known->load_bias)
				known->load_bias = load_bias;
			*ret_module = i - 1;
			return 0;
		}
	}
	e = ROOM_FOR_ONE(p->modules, p->n_modules, r->room_modules);
	if (e < 0)
		return trace(e);
	e = link_by_hash(&r->module_by_hash, &r->module_next, &r->room_module_next, hash,
			 p->n_modules);
	if (e < 0)
		return trace(e);
	*ret_module = (uint32_t)p->n_modules;
	p->modules[p->n_modules++] = m;
	return 0;
}

int reader_line(struct reader *r, const struct profile_line *line)
{
	struct profile *p = r->profile;
	int e;

	if (p->n_lines >= MAX_ID)
		return fail(-E2BIG);
	e = ROOM_FOR_ONE(p->lines, p->n_lines, r->room_lines);
	if (e < 0)
		return trace(e);
	p->lines[p->n_lines++] = *line;
	return 0;
}

int reader_frame(struct reader *r, uint32_t module, uint64_t rel_pc, bool guessed,
		 const struct profile_line *line, uint32_t *ret_frame)
{
	struct profile *p = r->profile;
	const uint64_t key[] = {rel_pc, (uint64_t)module << 32 | line->function,
				(uint64_t)line->file << 32 | line->line};
	uint64_t hash = hash_bytes(key, sizeof(key));
	int e;

	for (uint32_t i = first_by_hash(&r->frame_by_hash, hash); i; i = r->frame_next[i - 1]) {
		const struct profile_frame *f = &p->frames[i - 1];

		if (f->module == module && f->rel_pc == rel_pc && f->guessed == guessed &&
		    !memcmp(&p->lines[f->first_line], line, sizeof(*line))) {
			*ret_frame = i - 1;
			return 0;
		}
	}
	e = ROOM_FOR_ONE(p->frames, p->n_frames, r->room_frames);
	if (e < 0)
		return trace(e);
	e = reader_line(r, line);
	if (e < 0)
		return trace(e);
	e = link_by_hash(&r->frame_by_hash, &r->frame_next, &r->room_frame_next, hash, p->n_frames);
	if (e < 0)
		return trace(e);
	*ret_frame = (uint32_t)p->n_frames;
	p->frames[p->n_frames++] =
		(struct profile_frame){module, rel_pc, (uint32_t)p->n_lines - 1, 1, guessed};
	return 0;
}

/* The stack in r->scratch, innermost first. */
int reader_stack(struct reader *r, uint32_t *ret_stack)
{
	struct profile *p = r->profile;
	size_t bytes = r->n_scratch * sizeof(*r->scratch);
	uint64_t hash = hash_bytes(r->scratch, bytes);
	int e;

	for (uint32_t i = first_by_hash(&r->stack_by_hash, hash); i; i = r->stack_next[i - 1]) {
		const struct profile_stack *s = &p->stacks[i - 1];

		if (s->n == r->n_scratch &&
		    !memcmp(p->stack_frames + s->first, r->scratch, bytes)) {
			*ret_stack = i - 1;
			return 0;
		}
	}
	if (p->n_stack_frames + r->n_scratch > MAX_ID)
		return fail(-E2BIG);
	e = ROOM_FOR_ONE(p->stacks, p->n_stacks, r->room_stacks);
	if (e < 0)
		return trace(e);
	if (r->room_stack_frames - p->n_stack_frames < r->n_scratch) {
		size_t room = round_up_power_of_two(p->n_stack_frames + r->n_scratch + 1024);
		uint32_t *more = reallocarray(p->stack_frames, room, sizeof(*more));

		if (!more)
			return fail(-ENOMEM);
		p->stack_frames = more;
		r->room_stack_frames = room;
	}
	e = link_by_hash(&r->stack_by_hash, &r->stack_next, &r->room_stack_next, hash, p->n_stacks);
	if (e < 0)
		return trace(e);
	memcpy(p->stack_frames + p->n_stack_frames, r->scratch, bytes);
	*ret_stack = (uint32_t)p->n_stacks;
	p->stacks[p->n_stacks++] =
		(struct profile_stack){(uint32_t)p->n_stack_frames, (uint32_t)r->n_scratch};
	p->n_stack_frames += r->n_scratch;
	return 0;
}
