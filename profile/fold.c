/* fold.c - see fold.h. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/nearest.h"
#include "profile/fold.h"
#include "profile/plain-name.h"
#include "protos/wait-module.h"
#include "profile/profile-text.h"

#define FOLD_SCALE ((double)(100 << 20)) /* bytes of the traces that bounds are given for */

enum {
	NAME_SIZE = 4096, /* C++ names get long; what is longer is cut by profile_line_name() */
	INDEX_BYTES = 11, /* of an entry in a hash_index, at most */
	NAME_BYTES = sizeof(struct string_entry) + INDEX_BYTES + 24, /* 24: malloc's own */
	MAX_SYMBOLS = 4 << 20,
	MAX_CALLS = 512 << 20, /* in the stacks of all groups */
};

/* How a stack is called that ended in StackUnwindError @error; NULL: it is whole. */
static const char *error_marker(unsigned error)
{
	/* Names of StackUnwindError (trace.proto).  MEMORY_INVALID is what a copy that ended too
	 * early gives. */
	static const char *const markers[] = {
		[0] = NULL,
		[1] = NULL,
		[2] = "[cut]",
		[3] = "[failed: unwind-info]",
		[4] = "[failed: unsupported]",
		[5] = "[failed: invalid-map]",
		[6] = "[failed: max-frames-exceeded]",
		[7] = "[failed: repeated-frame]",
		[8] = "[failed: invalid-elf]",
		[9] = "[failed: system-call]",
		[10] = "[failed: thread-timeout]",
		[11] = "[failed: thread-does-not-exist]",
		[12] = "[failed: bad-arch]",
		[13] = "[failed: maps-parse]",
		[14] = "[failed: invalid-parameter]",
		[15] = "[failed: ptrace-call]",
	};

	return error < ARRAY_SIZE(markers) ? markers[error] : "[failed: unknown]";
}

int fold_limit(const struct fold *f, uint64_t n, uint64_t bound, const char *what)
{
	struct profile_memory *m = f->profile->memory;
	char number[32];

	if (!m)
		return 0;
	bound = (uint64_t)((double)bound * ((double)m->scale / FOLD_SCALE));
	if (n <= bound)
		return 0;
	(void)snprintf(
		m->why, sizeof(m->why),
		"more than %s %s: the bound of a trace of this size (--pid and --cgroup choose "
		"a part)",
		text_count(bound, number), what);
	return fail(-E2BIG);
}

int fold_hold(struct fold *f, int64_t bytes, const char *what)
{
	struct profile_memory *m = f->profile->memory;

	f->held += (uint64_t)bytes;
	if (!m || f->held <= m->limit)
		return 0;
	(void)snprintf(
		m->why, sizeof(m->why),
		"too many %s: they take more than %u MiB of memory, the bound of a trace of this "
		"size (--pid and --cgroup choose a part)",
		what, (unsigned)(m->limit >> 20));
	return fail(-E2BIG);
}

int fold_order(struct fold *f, int (*compare)(const void *, const void *, void *), void *arg,
	       uint32_t **ret_order)
{
	size_t n = f->n_groups;
	uint32_t *order;
	int r = fold_hold(f, (int64_t)((2 * n + 1) * sizeof(*order)),
			  "different stacks of threads");

	if (r < 0)
		return trace(r);
	order = reallocarray(NULL, n + 1, sizeof(*order));
	if (!order)
		return fail(-ENOMEM);
	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, n, sizeof(*order), compare, arg);
	*ret_order = order;
	return 0;
}

int fold_array(struct fold *f, size_t n, size_t size, const char *what, void *ret_array)
{
	int r = fold_hold(f, (int64_t)((n + 1) * size), what);
	void *memory;

	if (r < 0)
		return trace(r);
	memory = calloc(n + 1, size);
	if (!memory)
		return fail(-ENOMEM);
	*(void **)ret_array = memory;
	return 0;
}

/* ---- symbols ---- */

/* Markers have no module and a kind of their own. */
static uint64_t hash_symbol(const struct fold *f, const struct fold_symbol *s)
{
	return hash_u64(
		((uint64_t)s->name << 32 | (s->kind == FOLD_MARKER ? UINT32_MAX - 1 : s->module)) ^
		f->seed);
}

static uint64_t hash_of_symbol(const void *owner, uint32_t number)
{
	const struct fold *f = owner;

	return hash_symbol(f, &f->symbols[number]);
}

/* Finds or makes the symbol.  Names are numbered first, so that a symbol's key is two small
 * numbers. */
static int add_symbol(struct fold *f, const char *name, uint32_t module, enum fold_kind kind,
		      enum frame_kind frame_kind, uint32_t *ret_symbol)
{
	struct fold_symbol symbol = {.module = module, .kind = kind, .frame_kind = frame_kind};
	size_t len = strlen(name);
	uint64_t hash;
	bool is_new;
	int r;

	r = string_table_add(&f->names, name, len, &symbol.name, &is_new);
	if (r >= 0 && is_new)
		r = fold_hold(f, (int64_t)len + NAME_BYTES, "names");
	if (r < 0)
		return trace(r);
	hash = hash_symbol(f, &symbol);
	hash_index_for_each(&f->symbol_index, hash, i)
	{
		const struct fold_symbol *s = &f->symbols[i];

		if (s->name == symbol.name && s->module == module &&
		    (s->kind == FOLD_MARKER) == (kind == FOLD_MARKER)) {
			*ret_symbol = (uint32_t)i;
			return 0;
		}
	}
	r = fold_hold(f, sizeof(symbol) + INDEX_BYTES, "functions");
	if (r >= 0)
		r = f->n_symbols < FOLD_MAX_SYMBOLS
			    ? fold_limit(f, f->n_symbols, MAX_SYMBOLS, "functions")
			    : fail(-E2BIG);
	if (r < 0)
		return trace(r);
	if (f->n_symbols == f->symbols_room && !array_grow(f->symbols, f->symbols_room, 256))
		return fail(-ENOMEM);
	r = hash_index_add(&f->symbol_index, hash, hash_of_symbol, f);
	if (r < 0)
		return trace(r);
	f->symbols[f->n_symbols] = symbol;
	*ret_symbol = f->n_symbols++;
	return 0;
}

/* ---- functions and processes by name ---- */

/* profile.c writes "?" where the trace has none. */
static bool is_name(const char *name)
{
	return name && *name && strcmp(name, "?");
}

size_t fold_kind_suffix(const struct fold *f, uint32_t symbol)
{
	enum frame_kind kind = f->symbols[symbol].frame_kind;

	return kind > FRAME_INLINED ? strlen(" []") + strlen(frame_kind_name(kind)) : 0;
}

/* How well the name of @symbol is meant by @wanted: 3 it is the name, 2 the name without parameters, template arguments or kind, 1
 * the last parts of that ("f" and "type::f" of "ns::type::f(int)", "f" of "package.Class.f [java-c2]", "Class#f [ruby]", "ns\f [php]",
 * "g.<locals>.f [python]"), 0 not. */
static int name_fits(const struct fold *f, uint32_t symbol, const char *wanted)
{
	const char *name = fold_symbol_name(f, symbol);
	size_t kind = fold_kind_suffix(f, symbol);
	char plain[NAME_SIZE];

	if (!strcmp(name, wanted))
		return 3;
	if (kind)
		return plain_name_fits(name, strlen(name) - kind, wanted, ".#\\");
	plain_name(name, plain, sizeof(plain));
	return plain_name_fits(plain, strlen(plain), wanted, "");
}

int fold_find_function(struct fold *f, const char *wanted, uint8_t **ret_match)
{
	_cleanup_(freep) uint8_t *match = NULL;
	struct profile_memory *m = f->profile->memory;
	struct nearest nearest = {.wanted = wanted};
	int best = 1;
	bool found = false;
	int r = fold_array(f, f->n_symbols, sizeof(*match), "functions", &match);

	if (r < 0)
		return trace(r);
	for (uint32_t i = 0; i < f->n_symbols; i++) {
		int fits = name_fits(f, i, wanted);

		best = fits > best ? fits : best;
	}
	for (uint32_t i = 0; i < f->n_symbols; i++) {
		match[i] = name_fits(f, i, wanted) >= best;
		found |= match[i];
	}
	if (found) {
		*ret_match = take(match);
		return 0;
	}
	for (uint32_t i = 0; m && i < f->n_symbols; i++)
		nearest_offer(&nearest, fold_symbol_name(f, i));
	if (m) {
		(void)snprintf(m->why, sizeof(m->why), "no stack has a function '%.64s'", wanted);
		if (nearest.n)
			nearest_append(&nearest, m->why, sizeof(m->why));
		else
			(void)strncat(m->why, "; hint: perfwind report FILE lists the functions",
				      sizeof(m->why) - strlen(m->why) - 1);
	}
	return fail(-ENOENT);
}

int fold_same_names(struct fold *f, uint32_t **ret_first)
{
	const struct profile *p = f->profile;
	_cleanup_(freep) uint32_t *by_name = NULL, *first = NULL;
	int r = fold_array(f, p->strings.n_entries + 1, sizeof(*by_name), "processes", &by_name);

	if (r >= 0)
		r = fold_array(f, p->n_processes, sizeof(*first), "processes", &first);
	if (r < 0)
		return trace(r);
	for (uint32_t i = 0; i < p->n_processes; i++) {
		uint32_t name = p->processes[i].name;

		first[i] = i;
		if (!name || !is_name(string_table_text(&p->strings, name)))
			continue;
		if (by_name[name])
			first[i] = by_name[name] - 1;
		else
			by_name[name] = i + 1;
	}
	*ret_first = take(first);
	return fold_hold(f, -(int64_t)((p->strings.n_entries + 2) * sizeof(*by_name)), "");
}

/* What has no name is called after its module: one row and one box for all of it, not one an
 * address. */
static const char *call_name(const struct fold *f, const struct profile_frame *frame, uint32_t line,
			     char *to, size_t size)
{
	const struct profile *p = f->profile;
	uint32_t function = p->lines[frame->first_line + line].function, path;
	const char *base;

	if ((function && *string_table_text(&p->strings, function)) ||
	    frame->module >= p->n_modules)
		return profile_line_name(p, frame, line, to, size);
	if (p->modules[frame->module].kernel)
		return "[kernel]";
	path = p->modules[frame->module].path;
	base = path ? fold_base_name(string_table_text(&p->strings, path)) : "";
	if (!*base)
		return "[unknown]";
	/* "[vdso]" has its brackets. */
	(void)snprintf(to, size, *base == '[' ? "%s" : "[%s]", base);
	return to;
}

static int name_call(struct fold *f, const struct profile_frame *frame, uint32_t line, bool kernel,
		     uint32_t *ret_symbol)
{
	const struct profile_line *of = &f->profile->lines[frame->first_line + line];
	char name[NAME_SIZE], shown[NAME_SIZE + 32];
	const char *text = call_name(f, frame, line, name, sizeof(name));
	enum frame_kind kind = !kernel && of->function ? (enum frame_kind)of->kind : FRAME_NATIVE;

	if (kind > FRAME_INLINED) {
		(void)snprintf(shown, sizeof(shown), "%s [%s]", text, frame_kind_name(kind));
		text = shown;
	}
	return add_symbol(f, text, frame->module, kernel ? FOLD_KERNEL : FOLD_USER, kind,
			  ret_symbol);
}

static int name_frames(struct fold *f)
{
	const struct profile *p = f->profile;
	size_t n = 0;
	int r;

	for (size_t i = 0; i < p->n_frames; i++)
		n += p->frames[i].n_lines;
	r = fold_hold(f, (int64_t)((n + p->n_frames) * sizeof(*f->calls)), "inlined calls");
	if (r < 0)
		return trace(r);
	f->calls = calloc(n + 1, sizeof(*f->calls));
	f->first_call = calloc(p->n_frames + 1, sizeof(*f->first_call));
	if (!f->calls || !f->first_call || n >= FOLD_GUESSED)
		return fail(-ENOMEM);
	n = 0;
	for (size_t i = 0; i < p->n_frames; i++) {
		const struct profile_frame *frame = &p->frames[i];
		bool kernel = frame->module < p->n_modules && p->modules[frame->module].kernel;

		f->first_call[i] = (uint32_t)n;
		for (uint32_t line = 0; line < frame->n_lines; line++, n++) {
			r = name_call(f, frame, line, kernel, &f->calls[n]);
			if (r < 0)
				return trace(r);
			if (line + 1 < frame->n_lines)
				f->calls[n] |= FOLD_INLINED;
			if (frame->guessed)
				f->calls[n] |= FOLD_GUESSED;
		}
	}
	f->first_call[p->n_frames] = (uint32_t)n;
	return 0;
}

/* "ERROR UNWIND_INFO" (a stock service's) -> "[failed: unwind-info]"; our own are markers already.
 */
static void marker_of_error_frame(const char *what, char *to, size_t size)
{
	size_t n;

	if (*what == '[') {
		(void)snprintf(to, size, "%s", what);
		return;
	}
	what += strlen("ERROR ");
	if (!strcmp(what, "MEMORY_INVALID") || !strcmp(what, "CUT")) {
		(void)snprintf(to, size, "[cut]");
		return;
	}
	(void)snprintf(to, size, "[failed: %.64s]", what);
	n = strlen(to);
	for (size_t i = 0; i < n; i++)
		to[i] = to[i] == '_' ? '-' : (char)tolower((unsigned char)to[i]);
}

/* The frame that an unwinder puts at the root when it gave up: a name, but no module that has a
 * path. */
static const char *error_frame_text(const struct fold *f, uint32_t frame)
{
	const struct profile *p = f->profile;
	uint32_t module = p->frames[frame].module, call;
	const char *name;

	if (module < p->n_modules && p->modules[module].path &&
	    *string_table_text(&p->strings, p->modules[module].path))
		return NULL;
	if (f->first_call[frame] == f->first_call[frame + 1])
		return NULL;
	call = f->calls[f->first_call[frame]];
	name = fold_symbol_name(f, fold_call_symbol(call));
	return !strncmp(name, "ERROR ", 6) || !strcmp(name, "[cut]") ||
			       !strncmp(name, "[failed: ", 9)
		       ? name
		       : NULL;
}

/* ---- stacks ---- */

/* What is worked out of each stack at once: a node is behind its caller. */
struct stack_facts {
	uint32_t marker; /* of the ERROR frame at its root; UINT32_MAX: none */
	uint32_t depth;	 /* calls, without that frame */
	bool matches;	 /* the function that the filter wants is in it */
};

static bool frame_matches(const struct fold *f, uint32_t frame, const uint8_t *match)
{
	for (uint32_t c = f->first_call[frame]; match && c < f->first_call[frame + 1]; c++)
		if (match[fold_call_symbol(f->calls[c])])
			return true;
	return false;
}

static int find_facts(struct fold *f, struct stack_facts *facts)
{
	const struct profile *p = f->profile;
	_cleanup_(freep) uint8_t *match = NULL;
	int e = f->only && f->only->function ? fold_find_function(f, f->only->function, &match) : 0;

	if (e < 0)
		return trace(e);
	for (uint32_t i = 0; i < p->n_nodes; i++) {
		uint32_t frame = p->nodes[i].frame;
		uint32_t n = f->first_call[frame + 1] - f->first_call[frame];
		const char *what;
		char marker[96];
		int r;

		if (p->nodes[i].up != UINT32_MAX) {
			facts[i] = facts[p->nodes[i].up];
			facts[i].depth += n;
			facts[i].matches |= frame_matches(f, frame, match);
			continue;
		}
		facts[i] = (struct stack_facts){UINT32_MAX, n, frame_matches(f, frame, match)};
		what = error_frame_text(f, frame);
		if (!what)
			continue;
		marker_of_error_frame(what, marker, sizeof(marker));
		r = add_symbol(f, marker, UINT32_MAX, FOLD_MARKER, FRAME_NATIVE, &facts[i].marker);
		if (r < 0)
			return trace(r);
		facts[i].depth = 0;
	}
	return 0;
}

bool fold_is_error(const struct fold *f, uint32_t node)
{
	const struct profile_node *n = &f->profile->nodes[node];

	return n->up == UINT32_MAX && error_frame_text(f, n->frame);
}

static int sample_marker(struct fold *f, const struct stack_facts *facts,
			 const struct profile_sample *s, uint32_t *ret_marker)
{
	bool has_stack = s->stack < f->profile->n_nodes;
	const char *marker;
	int r;

	*ret_marker = UINT32_MAX;
	if (has_stack && facts[s->stack].marker != UINT32_MAX) {
		*ret_marker = facts[s->stack].marker;
		return 0;
	}
	marker = error_marker(s->unwind_error);
	if (!marker && !has_stack)
		marker = "[no stack]";
	if (!marker)
		return 0;
	r = add_symbol(f, marker, UINT32_MAX, FOLD_MARKER, FRAME_NATIVE, ret_marker);
	return r < 0 ? trace(r) : 0;
}

/* ---- groups ---- */

static int compare_groups(const void *a, const void *b, void *fold)
{
	const struct fold *f = fold;
	const struct fold_group *x = &f->groups[*(const uint32_t *)a],
				*y = &f->groups[*(const uint32_t *)b];
	int r = ascend(fold_process(f, x), fold_process(f, y));

	if (!r)
		r = ascend(x->thread, y->thread);
	if (!r)
		r = ascend(x->stack, y->stack);
	return r ? r : ascend(x->marker, y->marker);
}

/* By numbers: sorting the groups themselves would take as much memory again. */
static int sort_groups(struct fold *f)
{
	int64_t bytes = (int64_t)(f->n_groups * 2 * sizeof(uint32_t));
	_cleanup_(freep) uint32_t *order = NULL;
	int r = fold_hold(f, bytes, "different stacks of threads");

	if (r < 0)
		return trace(r);
	order = reallocarray(NULL, f->n_groups + 1, sizeof(*order));
	if (!order)
		return fail(-ENOMEM);
	for (uint32_t i = 0; i < f->n_groups; i++)
		order[i] = i;
	qsort_r(order, f->n_groups, sizeof(*order), compare_groups, f);
	for (uint32_t i = 0; i < f->n_groups; i++) { /* what stands at order[i] goes to i */
		struct fold_group group = f->groups[i];
		uint32_t to = i;

		for (uint32_t from; (from = order[to]) != i; to = from) {
			f->groups[to] = f->groups[from];
			order[to] = to;
		}
		f->groups[to] = group;
		order[to] = to;
	}
	return fold_hold(f, -bytes, "");
}

static uint64_t hash_group(const struct fold *f, const struct fold_group *g)
{
	return hash_u64(hash_u64(((uint64_t)g->thread << 32 | g->stack) ^ f->seed) + g->marker);
}

static uint64_t hash_of_group(const void *owner, uint32_t number)
{
	const struct fold *f = owner;

	return hash_group(f, &f->groups[number]);
}

static int add_to_group(struct fold *f, struct hash_index *index, const struct fold_group *new)
{
	uint64_t hash = hash_group(f, new);
	int r;

	hash_index_for_each(index, hash, i)
	{
		struct fold_group *g = &f->groups[i];

		if (g->thread == new->thread && g->stack == new->stack &&
		    g->marker == new->marker) {
			g->count++;
			g->weight += new->weight;
			return 0;
		}
	}
	r = fold_hold(f, sizeof(*new) + INDEX_BYTES, "different stacks of threads");
	if (r < 0)
		return trace(r);
	if (f->n_groups == f->groups_room && !array_grow(f->groups, f->groups_room, 1024))
		return fail(-ENOMEM);
	r = hash_index_add(index, hash, hash_of_group, f);
	if (r < 0)
		return trace(r);
	f->groups[f->n_groups++] = *new;
	return 0;
}

static int group_samples(struct fold *f, const struct stack_facts *facts)
{
	_cleanup_(hash_index_deinit) struct hash_index index = {0};
	const struct profile *p = f->profile;
	bool by_function = f->only && f->only->function;
	int r;

	for (size_t i = 0; i < p->n_samples; i++) {
		const struct profile_sample *s = &p->samples[i];
		struct fold_group g = {.thread = s->thread, .count = 1, .weight = s->weight};

		if (f->only && !profile_sample_wanted(p, s, f->only))
			continue;
		if (by_function && (s->stack >= p->n_nodes || !facts[s->stack].matches))
			continue;
		if (s->skipped_reason) {
			f->skipped++;
			continue;
		}
		g.stack = s->stack < p->n_nodes ? s->stack : UINT32_MAX;
		r = sample_marker(f, facts, s, &g.marker);
		if (r >= 0)
			r = add_to_group(f, &index, &g);
		if (r < 0)
			return trace(r);
	}
	return fold_hold(f, -(int64_t)f->n_groups * INDEX_BYTES, "");
}

static int sum_groups(struct fold *f, const struct stack_facts *facts)
{
	for (size_t i = 0; i < f->n_groups; i++) {
		const struct fold_group *g = &f->groups[i];
		const char *marker = g->marker == UINT32_MAX ? "" : fold_symbol_name(f, g->marker);
		size_t depth = 1 + (g->stack == UINT32_MAX ? 0 : facts[g->stack].depth);

		f->count += g->count;
		f->weight += g->weight;
		f->cut += !strcmp(marker, "[cut]") ? g->count : 0;
		f->no_stack += !strcmp(marker, "[no stack]") ? g->count : 0;
		f->failed += !strncmp(marker, "[failed", 7) ? g->count : 0;
		f->max_depth = max_u64(f->max_depth, depth);
		f->n_calls += depth;
	}
	return fold_limit(f, f->n_calls, MAX_CALLS, "calls in the stacks of its threads");
}

static int make_groups(struct fold *f)
{
	int64_t bytes = (int64_t)(f->profile->n_nodes * sizeof(struct stack_facts));
	_cleanup_(freep) struct stack_facts *facts = NULL;
	int r = fold_hold(f, bytes, "different calls in its stacks");

	if (r < 0)
		return trace(r);
	facts = reallocarray(NULL, f->profile->n_nodes + 1, sizeof(*facts));
	if (!facts)
		return fail(-ENOMEM);
	r = find_facts(f, facts);
	if (r >= 0)
		r = group_samples(f, facts);
	if (r >= 0)
		r = sum_groups(f, facts);
	if (r >= 0)
		r = fold_hold(f, -bytes, "");
	return r < 0 ? trace(r) : 0;
}

static bool is_filtering(const struct profile_filter *f)
{
	return f->pid || f->cgroup || f->thread || f->comm || f->by_cpu || f->by_time ||
	       f->function || f->during || f->outside;
}

int fold_init(struct fold *f, const struct profile *profile, const struct profile_filter *only)
{
	int r;

	*f = (struct fold){.profile = profile};
	if (only && is_filtering(only))
		f->only = only;
	f->seed = hash_seed();
	f->held = profile->memory ? profile->memory->held : 0;
	r = name_frames(f);
	if (r == 0)
		r = make_groups(f);
	if (r == 0)
		r = sort_groups(f);
	if (r < 0) {
		fold_deinit(f);
		return trace(r);
	}
	return 0;
}

void fold_deinit(struct fold *f)
{
	string_table_deinit(&f->names);
	hash_index_deinit(&f->symbol_index);
	free(f->symbols);
	free(f->calls);
	free(f->first_call);
	free(f->groups);
	*f = (struct fold){0};
}

size_t fold_stack(const struct fold *f, const struct fold_group *group, uint32_t *to)
{
	const struct profile_node *nodes = f->profile->nodes;
	size_t n = 0, first;

	if (group->marker != UINT32_MAX)
		to[n++] = group->marker;
	first = n;
	if (group->stack == UINT32_MAX)
		return n;
	for (uint32_t i = group->stack; i != UINT32_MAX && !fold_is_error(f, i); i = nodes[i].up)
		for (uint32_t c = f->first_call[nodes[i].frame];
		     c < f->first_call[nodes[i].frame + 1]; c++)
			to[n++] = f->calls[c];
	for (size_t a = first, b = n; a + 1 < b; a++) { /* they came innermost first */
		uint32_t call = to[a];

		to[a] = to[--b];
		to[b] = call;
	}
	return n;
}

const char *fold_symbol_module(const struct fold *f, uint32_t symbol)
{
	const struct profile *p = f->profile;
	uint32_t module = f->symbols[symbol].module;

	return module < p->n_modules && p->modules[module].path
		       ? string_table_text(&p->strings, p->modules[module].path)
		       : "";
}

const char *fold_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

const char *fold_process_name(const struct fold *f, uint32_t process, char to[32])
{
	const char *name = profile_process_name(f->profile, process);

	if (is_name(name))
		return name;
	(void)snprintf(to, 32, "pid %u", f->profile->processes[process].pid);
	return to;
}

const char *fold_thread_name(const struct fold *f, uint32_t thread, char to[32])
{
	const char *name = profile_thread_name(f->profile, thread);

	return is_name(name) ? name : fold_process_name(f, f->profile->threads[thread].process, to);
}
