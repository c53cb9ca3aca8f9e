/* load-parse.c - see load-parse.h. */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "session/loader/load-parse.h"

/* A recording looks up parts that no sample is in for at most so long: the stop waits for it. */
#define SPANS_NS (100 * NSEC_PER_MSEC)
enum { SPANS_AT_ONCE = 128 }; /* between two looks at the clock */
enum {
	KNOWN_MAX = 4096,
	/* Above the first, what was not used for IDLE_S is forgotten: reading it again costs as much as the first time. */
	HEAP_LARGE = 64 << 20,
	HEAP_MAX = 128 << 20,
	IDLE_S = 10,
};

/* The lines of a request. */
struct found_lines {
	struct load_answer *answer;
	size_t room;
	uint32_t address; /* in hand */
	size_t n;	  /* of it */
	bool failed;	  /* no memory for a line: those that are there are not all */
};

static bool make_room(struct found_lines *f)
{
	struct load_answer *a = f->answer;
	return a->n_lines < f->room || array_grow(a->lines, f->room, LOAD_LINES_MAX);
}

static void add_line(void *arg, const struct uw_line *line)
{
	struct found_lines *f = arg;
	struct load_answer *a = f->answer;
	struct load_line *to;

	if (f->n == LOAD_LINES_MAX || f->failed)
		return;
	f->failed = !make_room(f);
	if (f->failed)
		return;
	f->n++;
	to = &a->lines[a->n_lines];
	to->address = f->address;
	to->function = strdup(line->function);
	to->file = line->file ? strdup(line->file) : NULL;
	to->line = line->line;
	to->kind = line->kind;
	f->failed = !to->function || (line->file && !to->file);
	if (!f->failed) {
		a->n_lines++;
		return;
	}
	free(take(to->function));
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
	table_deinit(&p->functions);
	p->lined = module ? uw_module_ref(module) : NULL;
}

/* ---- where lines hold ----
 *
 * Opening DWARF and reading the tables of a unit costs a thousand times more than one address in it.  So the lines of whole
 * functions are looked up: a later recording has other addresses there. */

struct function {
	uint64_t low, high;
	struct load_span known; /* of an address of the request */
};

static void span_of(struct load_parse *w, uint64_t vaddr, struct load_span *span,
		    struct function *function)
{
	struct uw_span found;

	if (!uw_module_lines_span(w->module, vaddr, &found))
		return;
	*span = (struct load_span){found.low, found.high};
	function->low = found.function_low;
	function->high = found.function_high;
	function->known = *span;
}

/* The spans from @at on, up to @end, to an address without a known span, or until time @until of the thread. */
static void add_part(struct load_parse *w, struct found_lines *f, uint64_t at, uint64_t end,
		     uint64_t until)
{
	struct load_answer *a = w->answer;
	struct uw_span found;

	for (; at < end && a->n_spans < w->n_vaddrs + LOAD_SPANS_MAX; at = found.high) {
		if (a->n_spans % SPANS_AT_ONCE == 0 && clock_ns(CLOCK_THREAD_CPUTIME_ID) > until)
			return;
		f->address = (uint32_t)a->n_spans;
		f->n = 0;
		if (uw_module_lines(w->module, w->source, at, add_line, f) < 0 ||
		    !uw_module_lines_span(w->module, at, &found) || found.high <= at)
			return;
		a->spans[a->n_spans++] = (struct load_span){at, min_u64(found.high, end)};
	}
}

static int by_size(const void *left, const void *right)
{
	const struct function *a = left, *b = right;
	uint64_t size_a = a->high - a->low, size_b = b->high - b->low;

	if (size_a != size_b)
		return size_a < size_b ? -1 : 1;
	return a->low < b->low ? -1 : a->low > b->low;
}

/* Short functions first, as the bounds end with the largest one: that has lines from an address of the request on, so that
 * later recordings know other parts of it. */
static void add_functions(struct load_parser *p, struct load_parse *w, struct found_lines *f,
			  struct function *functions)
{
	uint64_t began = clock_ns(CLOCK_THREAD_CPUTIME_ID), seen;
	uint64_t until = began + (SPANS_NS - min_u64(p->spans_ns, SPANS_NS));

	qsort(functions, w->n_vaddrs, sizeof(*functions), by_size);
	for (size_t i = 0; i < w->n_vaddrs; i++) {
		const struct function *function = &functions[i];

		if (!function->high || table_get(&p->functions, function->low, &seen) ||
		    table_put(&p->functions, function->low, 1) < 0)
			continue;
		add_part(w, f, function->known.high, function->high, until);
		add_part(w, f, function->low, function->known.low, until);
	}
	p->spans_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - began;
}

static void add_spans(struct load_parser *p, struct load_parse *w, struct found_lines *f)
{
	struct function functions[LOAD_VADDRS_MAX] = {{0}};
	struct load_answer *a = w->answer;

	if (w->n_vaddrs > LOAD_VADDRS_MAX)
		return;
	a->spans = calloc(w->n_vaddrs + LOAD_SPANS_MAX, sizeof(*a->spans));
	if (!a->spans)
		return;
	a->n_spans = w->n_vaddrs;
	for (size_t i = 0; i < w->n_vaddrs; i++)
		span_of(w, w->vaddrs[i], &a->spans[i], &functions[i]);
	add_functions(p, w, f, functions);
}

/* Some would be taken for all, and kept for later recordings (line-cache.h).  @n: lines that are whole. */
static void drop_lines(struct load_answer *a, size_t n)
{
	for (; a->n_lines > n; a->n_lines--) {
		free(a->lines[a->n_lines - 1].function);
		free(a->lines[a->n_lines - 1].file);
	}
	a->n_spans = 0;
}

static int parse_lines(struct load_parser *p, struct load_parse *w)
{
	struct found_lines f = {.answer = w->answer};
	uint64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	size_t n;
	int r = 0;

	if (uw_module_kind(w->module) != UW_MODULE_JIT)
		open_lines_of(p, w->module);
	for (; f.address < w->n_vaddrs && r >= 0; f.address++) {
		f.n = 0;
		r = uw_module_lines(w->module, w->source, w->vaddrs[f.address], add_line, &f);
	}
	if (f.failed && r >= 0)
		r = fail(-ENOMEM);
	n = r < 0 && f.failed ? 0 : w->answer->n_lines;
	if (w->spans && r >= 0)
		add_spans(p, w, &f);
	w->answer->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
	if (f.failed)
		drop_lines(w->answer, n);
	return r < 0 ? trace(r) : 0;
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

/* ---- modules of pw-parse ---- */

struct known_module {
	struct uw_module *module;
	uint64_t used; /* load_parser.last_use then */
};

static struct known_module *known_free(struct known_module *known)
{
	(void)uw_module_unref(known->module);
	free(known);
	return NULL;
}

struct uw_module *load_parser_module(struct load_parser *p, uint32_t serial,
				     enum uw_module_kind kind, const char *path,
				     const struct uw_build_id *build_id)
{
	struct known_module *known = table_pointer(&p->known, serial);

	if (!known) {
		known = calloc(1, sizeof(*known));
		if (!known)
			return NULL;
		if (uw_module_new(kind, path, build_id, &known->module) < 0 ||
		    table_put(&p->known, serial, (uint64_t)(uintptr_t)known) < 0) {
			(void)known_free(known);
			return NULL;
		}
	}
	known->used = p->last_use = clock_ns(CLOCK_MONOTONIC);
	return known->module;
}

/* The longest unused one, but for that of the last request, if it was not used since @before.  false: none. */
static bool forget_oldest(struct load_parser *p, uint64_t before)
{
	struct known_module *oldest = NULL;
	uint64_t serial = 0;

	table_for_each (&p->known, slot) {
		struct known_module *known = (void *)(uintptr_t)slot->value;

		if (known->used < p->last_use && (!oldest || known->used < oldest->used)) {
			oldest = known;
			serial = slot->key;
		}
	}
	if (!oldest || oldest->used > before)
		return false;
	if (p->lined == oldest->module)
		open_lines_of(p, NULL);
	(void)table_remove(&p->known, serial);
	(void)known_free(oldest);
	return true;
}

static size_t heap_bytes(void)
{
#ifdef __GLIBC__
	struct mallinfo2 heap = mallinfo2();

	return heap.uordblks + heap.hblkhd;
#else
	return 0;
#endif
}

void load_parser_keep_small(struct load_parser *p)
{
	uint64_t idle = p->last_use - IDLE_S * NSEC_PER_SEC;
	size_t heap = heap_bytes();
	bool trim = false;

	while (p->known.n_used > KNOWN_MAX || heap > HEAP_LARGE) {
		bool any = p->known.n_used > KNOWN_MAX || heap > HEAP_MAX;

		if (!forget_oldest(p, any ? p->last_use : idle))
			break;
		trim = true;
		heap = heap_bytes();
	}
#ifdef __GLIBC__
	if (trim)
		(void)malloc_trim(0);
#else
	(void)trim;
#endif
}
