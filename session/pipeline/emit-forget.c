/* emit-forget.c - modules that no process has any more: see emit-private.h.
 *
 * A machine that builds software runs programs that it has just made, and each process with JIT code has a module of its own.  What
 * is known of these would grow as long as a recording lasts.  Two minutes without a frame: a compiler that runs again stays. */
#include <string.h>

#include "session/pipeline/emit-private.h"

enum {
	FORGET_S = 10, /* between two looks */
	IDLE_S = 120,
	WAITING_MAX =
		1024, /* modules that wait for the time to look up their lines; more go without */
	FORGOTTEN_MAX = 1024, /* files with frames without symbols that are remembered */
};

/* Of an idle module.  Requests in progress hold references. */
static bool has_all(struct emit *em, struct emit_module *m, size_t *n_waiting)
{
	if (!m->last_asked) { /* some JIT compilers write their map at the exit */
		m->last_asked = true;
		emit_module_ask_dump(m, em->c.loader);
		emit_module_ask_again(m, em->c.loader, true);
	}
	if (!m->no_lines && m->unlined_asked < m->unlined.n) {
		if (!emit_has_time_for_lines(em))
			return ++*n_waiting > WAITING_MAX;
		m->unlined_due = m->unlined.n;
		emit_request_lines(em, m);
	}
	return uw_modules_has_owners(m->module, 1) &&
	       (m->no_lines || m->unlined_asked == m->unlined.n);
}

static bool is_unneeded(struct emit *em, struct emit_module *m, size_t *n_waiting)
{
	if (em->seconds - m->last_use >= IDLE_S && uw_modules_has_owners(m->module, 1))
		return has_all(em, m, n_waiting);
	m->last_asked = false;
	return false;
}

static struct emit_unsymbolized *forgotten_of(const struct emit *em, const struct emit_module *m)
{
	for (size_t i = 0; i < em->n_forgotten; i++) {
		struct emit_unsymbolized *f = &em->forgotten[i];

		if (!strcmp(f->path, uw_module_path(m->module)) &&
		    !memcmp(&f->build_id, uw_module_build_id(m->module), sizeof(f->build_id)))
			return f;
	}
	return NULL;
}

/* For the list at the end.  Without memory, or with too many files, it is shorter. */
static void note_samples(struct emit *em, const struct emit_module *m)
{
	struct emit_unsymbolized *f = m->unsymbolized_samples ? forgotten_of(em, m) : NULL;
	char *path;

	if (f)
		f->samples += m->unsymbolized_samples;
	if (f || !m->unsymbolized_samples || em->n_forgotten == FORGOTTEN_MAX)
		return;
	if (em->n_forgotten == em->forgotten_room &&
	    !array_grow(em->forgotten, em->forgotten_room, 16))
		return;
	path = strdup(uw_module_path(m->module));
	if (path)
		em->forgotten[em->n_forgotten++] = (struct emit_unsymbolized){
			path, *uw_module_build_id(m->module), m->unsymbolized_samples, m->hint};
}

static void forget(struct emit *em, struct emit_module *m)
{
	note_samples(em, m);
	(void)table_remove(&em->by_serial, uw_module_serial(m->module));
	em->n_unlined -= m->unlined.n;
	emit_module_free(m);
}

void emit_forget_modules(struct emit *em)
{
	size_t n = em->n_modules, kept = 0, n_waiting = 0;
	_cleanup_(freep) uint32_t *place = NULL; /* old index -> new one */

	if (em->at_end || em->seconds % FORGET_S || !(place = calloc(n + 1, sizeof(*place))))
		return;
	for (size_t i = 0; i < n; i++) {
		struct emit_module *m = em->modules[i];

		place[i] = EMIT_NO_MODULE;
		if (is_unneeded(em, m, &n_waiting)) {
			forget(em, m);
			continue;
		}
		m->index = place[i] = (uint32_t)kept;
		em->modules[kept++] = m;
		(void)table_put(&em->by_serial, uw_module_serial(m->module), kept); /* is there */
	}
	em->n_modules = kept;
	if (kept == n)
		return;
	for (size_t i = 0; i < em->n_unsymbolized; i++)
		if (em->unsymbolized[i].module != EMIT_NO_MODULE)
			em->unsymbolized[i].module = place[em->unsymbolized[i].module];
	emit_forget_unsymbolized(em);
}

void emit_name_again(struct emit *em, struct emit_module *m, struct unsymbolized_frame *frame)
{
	struct writer_frame_parts parts;
	uint64_t place;

	if (!uw_module_language(m->module) || m->no_lines ||
	    m->unlined.n - m->unlined_asked >= LOAD_VADDRS_MAX || em->n_unlined >= EMIT_UNLINED_MAX)
		return;
	if (frame->looked & (frame->looked - 1)) {
		frame->looked++;
		return;
	}
	if (!writer_frame_parts(em->c.writer, frame->id, &parts))
		return;
	place = parts.rel_pc & ~WRITER_GUESSED;
	if (!emit_module_was_asked(m, place) || late_list_push(&m->unlined, place) < 0)
		return;
	frame->looked++;
	em->n_unlined++;
	m->unlined_due = m->unlined.n;
	emit_request_lines(em, m);
}
