/* diff-inlined.c - see diff-inlined.h. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "profile/diff-inlined.h"
#include "profile/fold.h"

/* Of fewer addresses in a module none may be in inlined code by chance.  Lines of so many percent: they were looked up. */
enum { ADDRESSES = 8, LINED_PERCENT = 90 };

/* What the other profile has. */
struct other {
	struct string_table modules; /* base names, and base names with a build id behind them */
	struct string_table functions;
	struct module_calls {
		uint32_t n_frames, n_inlined, n_lined;
	} * calls; /* by id of a base name */
};

static void other_deinit(struct other *o)
{
	string_table_deinit(&o->modules);
	string_table_deinit(&o->functions);
	free(o->calls);
}

static const char *base_of(const struct profile *p, uint32_t module)
{
	uint32_t path = p->modules[module].path;

	return path ? fold_base_name(string_table_text(&p->strings, path)) : "";
}

/* "NAME\0BUILD ID".  Returns its length; 0: there is no build id. */
static size_t build_of(const struct profile *p, uint32_t module, char *to, size_t size)
{
	const struct profile_module *m = &p->modules[module];
	const char *base = base_of(p, module);
	size_t len = strlen(base) + 1;

	if (!m->build_id_len || m->build_id_len > sizeof(m->build_id) ||
	    len + m->build_id_len > size)
		return 0;
	memcpy(to, base, len);
	memcpy(to + len, m->build_id, m->build_id_len);
	return len + m->build_id_len;
}

enum { BUILD_SIZE = 512 };

static int add_modules(struct other *o, const struct profile *p)
{
	_cleanup_(freep) uint32_t *ids = calloc(p->n_modules + 1, sizeof(*ids));
	char build[BUILD_SIZE];
	uint32_t id;
	int r = ids ? 0 : fail(-ENOMEM);

	for (uint32_t i = 0; i < p->n_modules && r >= 0; i++) {
		const char *base = base_of(p, i);
		size_t len = build_of(p, i, build, sizeof(build));

		r = string_table_add(&o->modules, base, strlen(base), &ids[i], NULL);
		if (r >= 0 && len)
			r = string_table_add(&o->modules, build, len, &id, NULL);
	}
	if (r >= 0)
		o->calls = calloc(o->modules.n_entries + 1, sizeof(*o->calls));
	if (r < 0 || !o->calls)
		return r < 0 ? trace(r) : fail(-ENOMEM);
	for (size_t i = 0; i < p->n_frames; i++) {
		const struct profile_frame *f = &p->frames[i];

		if (f->module >= p->n_modules)
			continue;
		o->calls[ids[f->module]].n_frames++;
		o->calls[ids[f->module]].n_inlined += f->n_lines > 1;
		o->calls[ids[f->module]].n_lined += p->lines[f->first_line].line != 0;
	}
	return 0;
}

static int add_functions(struct other *o, const struct profile *p)
{
	uint32_t id;
	int r = 0;

	for (size_t i = 0; i < p->n_frames && r >= 0; i++) {
		const struct profile_frame *f = &p->frames[i];
		uint32_t name = p->lines[f->first_line + f->n_lines - 1].function;
		const char *text = name ? string_table_text(&p->strings, name) : "";

		r = string_table_add(&o->functions, text, strlen(text), &id, NULL);
	}
	return r < 0 ? trace(r) : 0;
}

/* Does @o lack inlined calls of the module?  *ret_same: it has the same build.  If that has lines of almost all addresses, its inlined
 * calls were looked up, and no sample is in one. */
static bool lacks_inlined(const struct other *o, const struct profile *p, uint32_t module,
			  bool *ret_same)
{
	const char *base = base_of(p, module);
	char build[BUILD_SIZE];
	size_t len = build_of(p, module, build, sizeof(build));
	uint32_t id;

	*ret_same = len && string_table_find(&o->modules, build, len, &id);
	return string_table_find(&o->modules, base, strlen(base), &id) &&
	       o->calls[id].n_frames >= ADDRESSES && !o->calls[id].n_inlined &&
	       !(*ret_same &&
		 100ull * o->calls[id].n_lined >= 1ull * LINED_PERCENT * o->calls[id].n_frames);
}

static bool has_function(const struct other *o, const struct profile *p,
			 const struct profile_line *line)
{
	const char *name = line->function ? string_table_text(&p->strings, line->function) : "";
	uint32_t id;

	return string_table_find(&o->functions, name, strlen(name), &id);
}

static bool merge(struct profile *p, const struct other *o, struct profile_frame *f)
{
	uint32_t before = f->n_lines;
	bool same;

	if (f->n_lines < 2 || f->module >= p->n_modules || !lacks_inlined(o, p, f->module, &same))
		return false;
	while (f->n_lines > 1 && (same || !has_function(o, p, &p->lines[f->first_line]))) {
		f->first_line++;
		f->n_lines--;
	}
	return f->n_lines < before;
}

int diff_merge_inlined(struct profile *p, const struct profile *other, const char **ret_module)
{
	_cleanup_(other_deinit) struct other o = {.calls = NULL};
	int r = add_modules(&o, other), merged = 0;

	if (r >= 0)
		r = add_functions(&o, other);
	if (r < 0)
		return trace(r);
	for (size_t i = 0; i < p->n_frames; i++) {
		if (!merge(p, &o, &p->frames[i]))
			continue;
		*ret_module = base_of(p, p->frames[i].module);
		merged = 1;
	}
	return merged;
}
