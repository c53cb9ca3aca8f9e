/* emit-late.c - names and lines that come after their frames: ModuleSymbols.  Thread: main.
 *
 * Opening a module's DWARF costs 10-100 ms (it is often compressed), one address then 20-200 us,
 * and a file's DWARF may be as large as all our memory.  So lines are looked up once, at the end,
 * module by module; while recording only where many addresses wait, and within a share of one CPU.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "session/pipeline/emit-private.h"

static void forget_nameless(struct emit *em)
{
	for (size_t i = 0; i < CACHE_SLOTS; i++) {
		if (em->cache[i].id & NAMELESS)
			em->cache[i] = (struct cached_frame){0};
	}
	emit_recent_forget(em);
}

/* > 0: some have names now. */
static int write_late_names(struct emit *em, struct emit_module *m)
{
	size_t n = m->unnamed.n, kept = 0;

	for (size_t i = 0; i < n; i++) {
		struct writer_line line = {0};
		uint32_t name;
		int r = emit_name_of(em, m, m->unnamed.items[i].vaddr, &name);

		if (r < 0)
			return trace(r);
		if (!name) {
			m->unnamed.items[kept++] = m->unnamed.items[i];
			continue;
		}
		line.function = writer_name_text(em->c.writer, name);
		r = writer_symbol(em->c.writer, m->mapping, m->unnamed.items[i].vaddr, &line, 1);
		if (r < 0)
			return trace(r);
		emit_set_named(em, m, m->unnamed.items[i].vaddr);
	}
	m->unnamed.n = emit_names_to_come(m) ? kept : 0;
	return kept < n;
}

static int symbols_came(struct emit *em, struct emit_module *m)
{
	int r;

	if (!m->unnamed.n)
		return 0;
	emit_check_ids(em);
	r = write_late_names(em, m);
	if (r)
		forget_nameless(em);
	return r < 0 ? trace(r) : 0;
}

static void ask_lines(struct emit *em, struct emit_module *m)
{
	while (!m->no_lines && m->unlined_asked < m->unlined_due &&
	       em->lines_in_flight < LINES_IN_FLIGHT) {
		struct load_request request = emit_request(m, LOAD_LINES);

		request.vaddr = m->unlined.items[m->unlined_asked].vaddr;
		(void)uw_module_ref(m->module);
		if (!loader_ask(em->c.loader, &request)) {
			(void)uw_module_unref(m->module);
			return;
		}
		m->unlined_asked++;
		em->lines_in_flight++;
	}
}

static int lines_came(struct emit *em, struct emit_module *m, const struct load_answer *a)
{
	struct writer_line lines[64];
	size_t n = 0;

	if (a->error < 0)
		m->no_lines = true;
	ask_lines(em, m);
	for (; n < a->n_lines && n < ARRAY_SIZE(lines); n++)
		lines[n] = (struct writer_line){a->lines[n].function, a->lines[n].file,
						a->lines[n].line};
	return n ? writer_symbol(em->c.writer, m->mapping, a->request.vaddr, lines, n) : 0;
}

int emit_answer(struct emit *em, struct load_answer *a)
{
	struct uw_module *module = a->request.module;
	uint64_t v;
	int r = 0;

	if (a->request.kind == LOAD_UNWIND) {
		r = uw_modules_loaded(em->c.modules, module);
		return r < 0 ? trace(r)
			     : 0; /* the reference goes on with the LOAD_SYMBOLS that follows */
	}
	if (a->request.kind == LOAD_LINES) {
		em->lines_in_flight--;
		em->lines_cpu_ns += a->cpu_ns;
	}
	if (table_get(&em->by_serial, uw_module_serial(module), &v)) {
		struct emit_module *m = em->modules[v - 1];

		if (a->request.kind == LOAD_SYMBOLS)
			r = symbols_came(em, m);
		else
			r = lines_came(em, m, a);
	}
	(void)uw_module_unref(module);
	return r < 0 ? trace(r) : 0;
}

/* Frames that wait for names.  A perf map grows while its program runs: it is read again. */
static void want_again(struct emit *em, struct emit_module *m)
{
	if (!m->unnamed.n || uw_module_symbol_state(m->module) == UW_MODULE_WANTED)
		return;
	if (uw_module_kind(m->module) == UW_MODULE_JIT)
		uw_module_drop_symbols(m->module);
	emit_want_symbols(em, m);
}

void emit_ask(struct emit *em)
{
	for (size_t i = 0; i < em->n_modules && em->lines_in_flight < LINES_IN_FLIGHT; i++) {
		em->modules[i]->unlined_due = em->modules[i]->unlined.n;
		ask_lines(em, em->modules[i]);
	}
}

/* While recording: one module at a time, when it is worth it. */
static void ask_batch(struct emit *em)
{
	uint64_t elapsed = clock_ns(CLOCK_MONOTONIC) - em->started_at;

	if (em->lines_in_flight || em->lines_cpu_ns > elapsed / LINES_SHARE)
		return;
	for (size_t i = 0; i < em->n_modules; i++) {
		struct emit_module *m = em->modules[i];

		if (m->no_lines || m->unlined.n - m->unlined_asked < LINES_BATCH)
			continue;
		m->unlined_due = m->unlined.n;
		ask_lines(em, m);
		return;
	}
}

int emit_tick(struct emit *em)
{
	em->seconds++;
	for (size_t i = 0; i < em->n_modules; i++)
		want_again(em, em->modules[i]);
	ask_batch(em);
	return writer_symbols_flush(em->c.writer);
}

uint32_t emit_idle_seconds(const struct emit *em, const struct uw_module *module)
{
	uint64_t index;

	if (!table_get(&em->by_serial, uw_module_serial(module), &index))
		return UINT32_MAX;
	return em->seconds - em->modules[index - 1]->last_use;
}

void emit_note_uses(struct emit *em)
{
	memset(em->cache, 0, CACHE_SLOTS * sizeof(*em->cache));
	emit_recent_forget(em);
}

bool emit_is_full(const struct emit *em)
{
	return em->n_modules >= MAX_MODULES / 2 || em->n_unlined >= MAX_UNLINED / 2;
}

void emit_renew(struct emit *em)
{
	emit_forget_modules(em);
}

uint64_t emit_lines_left(const struct emit *em)
{
	uint64_t left = em->lines_in_flight;

	for (size_t i = 0; i < em->n_modules; i++) {
		const struct emit_module *m = em->modules[i];

		left += m->no_lines ? 0 : m->unlined.n - m->unlined_asked;
	}
	return left;
}

static int by_samples(const void *a, const void *b)
{
	const struct emit_nameless *x = a, *y = b;

	return (x->samples < y->samples) - (x->samples > y->samples);
}

int emit_nameless(struct emit *em, struct emit_nameless **ret_list, size_t *ret_n)
{
	struct emit_nameless *list = calloc(em->n_modules + 1, sizeof(*list));
	size_t n = 0;

	if (!list)
		return fail(-ENOMEM);
	for (size_t i = 0; i < em->n_modules; i++) {
		const struct emit_module *m = em->modules[i];

		if (m->nameless_samples)
			list[n++] = (struct emit_nameless){uw_module_path(m->module),
							   *uw_module_build_id(m->module),
							   m->nameless_samples};
	}
	qsort(list, n, sizeof(*list), by_samples);
	*ret_list = list;
	*ret_n = n;
	return 0;
}
