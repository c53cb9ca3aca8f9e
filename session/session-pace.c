/* session-pace.c - how often the rings are read.  Thread: main.
 *
 * A wake-up brings the code and tables of the pipeline back into the caches, which costs as much as 20 to 50 samples.  So while
 * nothing depends on it the rings are read each SESSION_CALM_MS, or when they reach their watermark, and the ticks in between look
 * only at the heads of the rings:
 *
 *   tick       100   200   300   400   500   600   700 ms
 *   calm        -     -     -     -   read    -     -
 *   a fork      -   read  read  read  read  read  read      for CALM_AFTER_MS
 *
 * Records of processes and mappings, requests, and stacks that memory is read for do not wait. */
#include "session/session-private.h"
#include "symbols/module.h"

enum { CALM_AFTER_MS = 1000 };

bool session_has_records(const struct session *s, bool sideband)
{
	for (size_t i = 0; i < perf_source_n_rings(s->source); i++) {
		const struct perf_ring *ring = perf_source_ring(s->source, i);

		if (ring->sideband == sideband && ring_backlog(ring->ring))
			return true;
	}
	return false;
}

void session_pace_answer(struct session *s, const struct load_answer *a)
{
	const struct uw_module *module = a->request.module;

	/* Their code and frames are read from the process when a stack is unwound. */
	if (a->request.kind == LOAD_UNWIND && !a->request.process &&
	    (uw_module_is_vm(module) || uw_module_has_jit_cfi(module) ||
	     uw_module_kind(module) == UW_MODULE_JIT))
		s->never_calm = true;
}

/* The rings of the events wake main in time, but the program's has no watermark. */
static bool python_has_room(const struct session *s)
{
	const struct perf_options *o = perf_source_options(s->source);
	uint64_t tick = o->frequency ? (uint64_t)o->frequency * o->n_cpus * SESSION_TICK_MS / 1000
				     : SIZE_MAX;

	return !session_python(s) || python_stacks_room(session_python(s)) == SIZE_MAX ||
	       python_stacks_room(session_python(s)) > tick;
}

/* Is there something that depends on the next reading? */
static bool is_urgent(const struct session *s)
{
	return s->early_ticks || s->eager_until || s->n_soon || s->names_until || s->hold.since ||
	       s->flushes.n || account_in_flight(&s->account) || loader_pending(s->loader);
}

bool session_is_calm(struct session *s, uint64_t now)
{
	const struct session_options *so = &s->options;

	/* With allowed() a process is judged by what it is when its samples are read. */
	if (s->state != SESSION_RUNNING || s->never_calm || so->read_ms || so->waits || s->marks ||
	    so->raw || so->max_cpu_ppm || so->poll_ms || so->allowed)
		return false;
	if (session_has_records(s, true))
		s->urgent_at = now;
	return !is_urgent(s) && python_has_room(s) &&
	       now - s->urgent_at >= CALM_AFTER_MS * NSEC_PER_MSEC &&
	       now - s->worked_at < (SESSION_CALM_MS - SESSION_TICK_MS / 2) * NSEC_PER_MSEC;
}
