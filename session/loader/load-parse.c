/* load-parse.c - see load-parse.h. */
#include <string.h>
#include <time.h>

#include "session/loader/load-parse.h"

/* The lines of a request. */
struct found_lines {
	struct load_answer *answer;
	size_t room;
	uint32_t address; /* in hand */
	size_t n;	  /* of it */
};

static bool make_room(struct found_lines *f)
{
	struct load_answer *a = f->answer;
	size_t room = f->room ? f->room * 2 : LOAD_LINES_MAX;
	struct load_line *more;

	if (a->n_lines < f->room)
		return true;
	more = reallocarray(a->lines, room, sizeof(*more));
	if (!more)
		return false;
	a->lines = more;
	f->room = room;
	return true;
}

static void add_line(void *arg, const struct uw_line *line)
{
	struct found_lines *f = arg;
	struct load_answer *a = f->answer;
	struct load_line *to;

	if (f->n == LOAD_LINES_MAX || !make_room(f))
		return;
	f->n++;
	to = &a->lines[a->n_lines];
	to->address = f->address;
	to->function = strdup(line->function);
	to->file = line->file ? strdup(line->file) : NULL;
	to->line = line->line;
	to->kind = line->kind;
	if (to->function)
		a->n_lines++;
	else
		free(take(to->file));
}

/* One module's DWARF at a time: it may be as large as all other memory together. */
static void open_lines_of(struct load_parser *p, struct uw_module *module)
{
	if (p->lined == module)
		return;
	if (p->lined) {
		uw_module_drop_lines(p->lined);
		(void)uw_module_unref(p->lined);
	}
	p->lined = module ? uw_module_ref(module) : NULL;
}

static int parse_lines(struct load_parser *p, struct load_parse *w)
{
	struct found_lines f = {.answer = w->answer};
	uint64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	int r = 0;

	if (uw_module_kind(w->module) != UW_MODULE_JIT)
		open_lines_of(p, w->module);
	for (; f.address < w->n_vaddrs && r >= 0; f.address++) {
		f.n = 0;
		r = uw_module_lines(w->module, w->source, w->vaddrs[f.address], add_line, &f);
	}
	w->answer->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
	return r < 0 ? r : 0;
}

void load_parse(struct load_parser *p, struct load_parse *w)
{
	w->error = 0;
	switch (w->kind) {
	case LOAD_PARSE_BUILD_ID:
		w->error = uw_source_build_id(w->source, &w->build_id);
		break;
	case LOAD_PARSE_UNWIND:
	case LOAD_PARSE_BOTH:
		w->error = uw_module_load_unwind(w->module, w->source);
		if (w->error >= 0 && w->kind == LOAD_PARSE_BOTH &&
		    uw_module_want_symbols(w->module))
			(void)uw_module_load_symbols(w->module, w->source);
		break;
	case LOAD_PARSE_SYMBOLS:
		(void)uw_module_want_symbols(w->module);
		w->error = uw_module_load_symbols(w->module, w->source);
		break;
	case LOAD_PARSE_LINES:
		w->error = parse_lines(p, w);
		break;
	case LOAD_PARSE_CLOSE:
		open_lines_of(p, NULL);
		break;
	case LOAD_PARSE_FORGET: /* in place there is nothing to forget */
		break;
	}
}
