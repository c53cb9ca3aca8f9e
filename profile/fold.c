/* fold.c - see fold.h. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "daemon/base/error.h"
#include "profile/fold.h"

enum { NAME_SIZE = 4096 }; /* C++ names get long; what is longer is cut by profile_line_name() */

const char *fold_error_marker(unsigned error)
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

/* Finds or makes the symbol.  Names are numbered first, so that a symbol's key is two small
 * numbers. */
static int add_symbol(struct fold *f, const char *name, uint32_t module, enum fold_kind kind,
		      uint32_t *ret_symbol)
{
	uint64_t key, found;
	uint32_t id;
	int r;

	r = string_table_add(&f->names, name, strlen(name), &id, NULL);
	if (r < 0)
		return trace(r);
	/* A module index is below 2^31; markers have none and a kind of their own. */
	key = (uint64_t)id << 32 | (kind == FOLD_MARKER ? UINT32_MAX - 1 : module);
	if (table_get(&f->symbol_by_key, key, &found)) {
		*ret_symbol = (uint32_t)found;
		return 0;
	}
	if (f->n_symbols == f->symbols_room) {
		uint32_t room = f->symbols_room ? f->symbols_room * 2 : 256;
		struct fold_symbol *more = reallocarray(f->symbols, room, sizeof(*more));

		if (!more)
			return fail(-ENOMEM);
		f->symbols = more;
		f->symbols_room = room;
	}
	r = table_put(&f->symbol_by_key, key, f->n_symbols);
	if (r < 0)
		return trace(r);
	f->symbols[f->n_symbols] = (struct fold_symbol){id, module, kind};
	*ret_symbol = f->n_symbols++;
	return 0;
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

static int name_frames(struct fold *f)
{
	const struct profile *p = f->profile;
	char name[NAME_SIZE];
	size_t n = 0;
	int r;

	for (size_t i = 0; i < p->n_frames; i++)
		n += p->frames[i].n_lines;
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
			const char *text = call_name(f, frame, line, name, sizeof(name));

			r = add_symbol(f, text, frame->module, kernel ? FOLD_KERNEL : FOLD_USER,
				       &f->calls[n]);
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

static int find_error_frames(struct fold *f)
{
	const struct profile *p = f->profile;
	int r;

	f->error_of = calloc(p->n_stacks + 1, sizeof(*f->error_of));
	if (!f->error_of)
		return fail(-ENOMEM);
	for (size_t i = 0; i < p->n_stacks; i++) {
		const struct profile_stack *s = &p->stacks[i];
		const char *what =
			s->n ? error_frame_text(f, p->stack_frames[s->first + s->n - 1]) : NULL;
		char marker[96];

		f->error_of[i] = UINT32_MAX;
		if (!what)
			continue;
		marker_of_error_frame(what, marker, sizeof(marker));
		r = add_symbol(f, marker, UINT32_MAX, FOLD_MARKER, &f->error_of[i]);
		if (r < 0)
			return trace(r);
	}
	return 0;
}

static int sample_marker(struct fold *f, const struct profile_sample *s, uint32_t *ret_marker)
{
	const struct profile *p = f->profile;
	const char *marker;
	int r;

	*ret_marker = UINT32_MAX;
	if (s->stack < p->n_stacks && f->error_of[s->stack] != UINT32_MAX) {
		*ret_marker = f->error_of[s->stack];
		return 0;
	}
	marker = fold_error_marker(s->unwind_error);
	if (!marker && (s->stack >= p->n_stacks || !p->stacks[s->stack].n))
		marker = "[no stack]";
	if (!marker)
		return 0;
	r = add_symbol(f, marker, UINT32_MAX, FOLD_MARKER, ret_marker);
	return r < 0 ? trace(r) : 0;
}

static int compare_u32(uint32_t a, uint32_t b)
{
	return (a > b) - (a < b);
}

static int compare_groups(const void *a, const void *b)
{
	const struct fold_group *x = a, *y = b;
	int r = compare_u32(x->process, y->process);

	if (!r)
		r = compare_u32(x->thread, y->thread);
	if (!r)
		r = compare_u32(x->stack, y->stack);
	return r ? r : compare_u32(x->marker, y->marker);
}

/* One group a sample, sorted, then equal neighbours merged in place. */
static int group_samples(struct fold *f)
{
	const struct profile *p = f->profile;
	size_t n = 0;
	int r;

	f->groups = calloc(p->n_samples + 1, sizeof(*f->groups));
	if (!f->groups)
		return fail(-ENOMEM);
	for (size_t i = 0; i < p->n_samples; i++) {
		const struct profile_sample *s = &p->samples[i];
		struct fold_group *g = &f->groups[f->n_groups];

		if (f->only && !profile_process_wanted(p, s->process, f->only))
			continue;
		if (s->skipped_reason) {
			f->skipped++;
			continue;
		}
		*g = (struct fold_group){.process = s->process,
					 .thread = s->thread,
					 .count = 1,
					 .weight = s->weight};
		g->stack = s->stack < p->n_stacks ? s->stack : UINT32_MAX;
		r = sample_marker(f, s, &g->marker);
		if (r < 0)
			return trace(r);
		f->n_groups++;
	}
	if (!f->n_groups)
		return 0;
	qsort(f->groups, f->n_groups, sizeof(*f->groups), compare_groups);
	for (size_t i = 1; i < f->n_groups; i++) {
		struct fold_group *last = &f->groups[n], *g = &f->groups[i];

		if (compare_groups(last, g)) {
			f->groups[++n] = *g;
		} else {
			last->count += g->count;
			last->weight += g->weight;
		}
	}
	f->n_groups = n + 1;
	return 0;
}

/* Frames of a stack that are shown: all but the ERROR frame. */
static uint32_t stack_frames_shown(const struct fold *f, uint32_t stack)
{
	return f->profile->stacks[stack].n - (f->error_of[stack] != UINT32_MAX);
}

static void sum_groups(struct fold *f)
{
	const struct profile *p = f->profile;

	for (size_t i = 0; i < f->n_groups; i++) {
		const struct fold_group *g = &f->groups[i];
		const char *marker = g->marker == UINT32_MAX ? "" : fold_symbol_name(f, g->marker);
		size_t depth = 1;

		f->count += g->count;
		f->weight += g->weight;
		f->cut += !strcmp(marker, "[cut]") ? g->count : 0;
		f->no_stack += !strcmp(marker, "[no stack]") ? g->count : 0;
		f->failed += !strncmp(marker, "[failed", 7) ? g->count : 0;
		if (g->stack != UINT32_MAX)
			for (uint32_t k = 0; k < stack_frames_shown(f, g->stack); k++) {
				uint32_t frame = p->stack_frames[p->stacks[g->stack].first + k];

				depth += f->first_call[frame + 1] - f->first_call[frame];
			}
		f->max_depth = max_u64(f->max_depth, depth);
	}
}

int fold_init(struct fold *f, const struct profile *profile, const struct profile_filter *only)
{
	int r;

	*f = (struct fold){.profile = profile};
	if (only && (only->pid || only->cgroup))
		f->only = only;
	r = name_frames(f);
	if (r == 0)
		r = find_error_frames(f);
	if (r == 0)
		r = group_samples(f);
	if (r < 0) {
		fold_deinit(f);
		return trace(r);
	}
	sum_groups(f);
	return 0;
}

void fold_deinit(struct fold *f)
{
	string_table_deinit(&f->names);
	table_deinit(&f->symbol_by_key);
	free(f->symbols);
	free(f->calls);
	free(f->first_call);
	free(f->error_of);
	free(f->groups);
	*f = (struct fold){0};
}

size_t fold_stack(const struct fold *f, const struct fold_group *group, uint32_t *to)
{
	const struct profile *p = f->profile;
	size_t n = 0;

	if (group->marker != UINT32_MAX)
		to[n++] = group->marker;
	if (group->stack == UINT32_MAX)
		return n;
	for (uint32_t k = stack_frames_shown(f, group->stack); k-- > 0;) {
		uint32_t frame = p->stack_frames[p->stacks[group->stack].first + k];

		for (uint32_t c = f->first_call[frame + 1]; c-- > f->first_call[frame];)
			to[n++] = f->calls[c];
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

/* profile.c says "?" where the trace has none. */
static bool is_name(const char *name)
{
	return name && *name && strcmp(name, "?");
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

const char *fold_process_cgroup(const struct fold *f, uint32_t process)
{
	uint32_t cgroup = f->profile->processes[process].cgroup;

	return cgroup ? string_table_text(&f->profile->strings, cgroup) : "";
}
