/* symbolize.c - see symbolize.h. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "cli/module-file.h"
#include "cli/symbolize.h"
#include "symbols/demangle.h"
#include "symbols/module.h"
#include "trace/module-symbols.h"

enum { LINES_MAX = 64, NAME_MAX_LEN = 1024, PACKET_BYTES = 64 << 10 };

/* A module of the trace and its file. */
struct subject {
	const struct profile *profile;
	const struct file_places *places;
	struct module_file file;
	struct uw_module *module;
	struct buffer symbols; /* not yet in a packet */
};

struct found_lines {
	struct writer_line lines[LINES_MAX];
	size_t n;
};

static void collect(void *arg, const struct uw_line *line)
{
	struct found_lines *found = arg;
	struct writer_line *to = &found->lines[found->n];

	if (found->n == LINES_MAX)
		return;
	*to = (struct writer_line){.function = strdup(line->function), .line = line->line};
	to->file = line->file ? strdup(line->file) : NULL;
	found->n += to->function != NULL;
}

static void found_deinit(struct found_lines *found)
{
	for (size_t i = 0; i < found->n; i++) {
		free((char *)found->lines[i].function);
		free((char *)found->lines[i].file);
	}
}

/* ---- frames ---- */

static const char *name_of(const struct profile *p, const struct profile_frame *frame)
{
	const struct profile_line *outermost = &p->lines[frame->first_line + frame->n_lines - 1];

	return outermost->function ? string_table_text(&p->strings, outermost->function) : NULL;
}

static bool is_complete(const struct profile *p, const struct profile_frame *frame)
{
	const struct profile_line *innermost = &p->lines[frame->first_line];

	return innermost->function && innermost->file;
}

static int add_frame(struct subject *s, const struct profile_frame *frame,
		     struct symbolize_result *result)
{
	const char *known = name_of(s->profile, frame);
	struct found_lines found = {.n = 0};
	char name[NAME_MAX_LEN];
	struct uw_symbol symbol;
	int r;

	r = uw_module_lines(s->module, &s->file.source, frame->rel_pc, collect, &found);
	if (!known && uw_module_symbol(s->module, frame->rel_pc, &symbol)) {
		uw_demangle(symbol.name, name, sizeof(name));
		known = name;
		result->named++;
	} else if (!known && found.n) {
		result->named++;
	}
	result->lined += found.n > 0;
	if (r != -ENOMEM)
		r = 0;
	if (found.n) {
		const char *dwarf_name = found.lines[found.n - 1].function;

		if (known) /* a function has one name in a trace */
			found.lines[found.n - 1].function = known;
		r = module_symbols_add(&s->symbols, frame->rel_pc, found.lines, found.n);
		found.lines[found.n - 1].function = dwarf_name;
	} else if (known == name) {
		r = module_symbols_add(&s->symbols, frame->rel_pc,
				       &(struct writer_line){.function = name}, 1);
	}
	found_deinit(&found);
	return r < 0 ? trace(r) : 0;
}

static int add_packet(struct subject *s, const struct profile_module *m, struct buffer *packets)
{
	int r = 0;

	if (s->symbols.len)
		r = module_symbols_packet(packets, string_table_text(&s->profile->strings, m->path),
					  m->build_id, m->build_id_len, &s->symbols);
	s->symbols.len = 0;
	return r < 0 ? trace(r) : 0;
}

static int add_frames(struct subject *s, const struct profile_module *m, struct buffer *packets,
		      struct symbolize_result *result)
{
	const struct profile *p = s->profile;
	size_t index = (size_t)(m - p->modules);
	int r = 0;

	for (size_t i = 0; i < p->n_frames && r >= 0; i++) {
		if (p->frames[i].module != index || is_complete(p, &p->frames[i]))
			continue;
		result->addresses++;
		r = add_frame(s, &p->frames[i], result);
		if (r >= 0 && s->symbols.len >= PACKET_BYTES)
			r = add_packet(s, m, packets);
	}
	return r < 0 ? trace(r) : add_packet(s, m, packets);
}

/* ---- modules ---- */

static bool lacks_something(const struct profile *p, size_t index)
{
	for (size_t i = 0; i < p->n_frames; i++)
		if (p->frames[i].module == index && p->frames[i].rel_pc &&
		    !is_complete(p, &p->frames[i]))
			return true;
	return false;
}

static void note_missing(struct symbolize_result *result, const char *path)
{
	if (result->n_missing < ARRAY_SIZE(result->missing))
		(void)snprintf(result->missing[result->n_missing++], sizeof(result->missing[0]),
			       "%s", path);
}

static int symbolize_module(struct subject *s, const struct profile_module *m,
			    struct buffer *packets, struct symbolize_result *result)
{
	const char *path = string_table_text(&s->profile->strings, m->path);
	int r;

	result->modules++;
	if (module_file_open(&s->file, s->places, s->profile, m) < 0) {
		note_missing(result, path);
		return 0;
	}
	result->found++;
	r = module_file_symbols(&s->file, s->profile, m, &s->module);
	if (r >= 0)
		r = add_frames(s, m, packets, result);
	s->module = uw_module_unref(s->module);
	module_file_close(&s->file);
	return r < 0 ? trace(r) : 0;
}

int symbolize(const struct profile *profile, const struct file_places *places,
	      struct buffer *packets, struct symbolize_result *ret)
{
	struct subject s = {.profile = profile, .places = places};
	int r = 0;

	*ret = (struct symbolize_result){0};
	for (size_t i = 0; i < profile->n_modules && r >= 0; i++) {
		const struct profile_module *m = &profile->modules[i];

		if (!module_file_is_one(profile, m) || !lacks_something(profile, i))
			continue;
		r = symbolize_module(&s, m, packets, ret);
	}
	buffer_deinit(&s.symbols);
	return r < 0 ? trace(r) : 0;
}
