/* emit-dumps.c - jitdumps that grow while their code runs (emit.h, jit-epochs.h).
 *
 * A runtime makes code known before it runs it.  So once a dump was read, with a request of time T, the code of all samples up to T
 * is known.  Later samples wait for the next reading, which they cause (session/session-output.c).  A runtime that collects
 * records in its memory and writes them in large pieces (node: 2 MB) makes code known any time after it ran: these samples do not
 * wait, and time slices limit the samples that can have a former name. */
#include <time.h>

#include "session/pipeline/emit-private.h"
#include "session/pipeline/jit-epochs.h"

enum {
	DUMP_IDLE_S = 4,     /* a jitdump is read on so long after code of it ran, */
	DUMPS_NS = 90000000, /* ... that often, at a tick (a timer is early or late by a bit), */
	DUMPS_SOON_NS = 20000000, /* ... where samples wait for it */
	CODE_BYTES = 48,	  /* of a function in the index, and of a line */
	LINE_BYTES = 12,
	SLICES_NS = 50000000,	      /* slices of JIT code are looked at that often; they begin */
	SLICE_NS = 150000000,	      /* ... so long after the last reading, */
	SLICE_PIECES_NS = 1000000000, /* ... of a dump that its runtime writes in large pieces */
};

void emit_note_dump(struct emit *em, struct emit_module *m)
{
	bool dump = uw_module_jitdump(m->module) != NULL;

	em->has_dumps |= dump;
	m->has_dump |= dump && emit_module_has_epochs(m);
	if (!dump || !uw_module_symbols_overlap(m->module))
		return;
	em->has_reuse = true;
	if (!em->timeless && uw_module_symbols_timeless(m->module))
		em->timeless = strdup(uw_module_jitdump(m->module)->path);
}

static bool is_in_pieces(const struct emit_module *m)
{
	return uw_module_symbols_until(m->module) != UINT64_MAX;
}

static void begin_slices(struct emit *em, uint64_t sample_time)
{
	uint64_t time = jit_epochs_monotonic(em->c.clock, sample_time);
	bool begun = false;

	em->slices_at = sample_time + SLICES_NS;
	for (size_t i = 0; i < em->n_modules; i++) {
		struct emit_module *m = em->modules[i];
		bool pieces = m->has_dump && is_in_pieces(m);

		if (!m->has_dump || (pieces && !uw_module_symbols_overlap(m->module)))
			continue;
		begun |= jit_epochs_slice(&m->epochs, time, pieces ? SLICE_PIECES_NS : SLICE_NS);
	}
	if (begun)
		emit_note_uses(em);
}

/* Of the process of a sample: its JIT code, if frames of it were seen and it has a jitdump. */
static struct emit_module *dumped_code(const struct emit *em, const struct sample_info *info)
{
	struct uw_module *jit = info->process ? info->process->jit : NULL;
	struct emit_module *m;
	uint64_t v;

	if (!jit || !uw_module_jitdump(jit) ||
	    !table_get(&em->by_serial, uw_module_serial(jit), &v))
		return NULL;
	m = em->modules[v - 1];
	return emit_module_has_epochs(m) ? m : NULL;
}

void emit_enter_time(struct emit *em, const struct sample_info *info)
{
	struct emit_module *m;

	if (em->has_dumps && info->time >= em->slices_at)
		begin_slices(em, info->time);
	m = em->has_reuse ? dumped_code(em, info) : NULL;
	if (m && uw_module_symbols_overlap(m->module) &&
	    jit_epochs_has_changed(&m->epochs, m->module,
				   jit_epochs_monotonic(em->c.clock, info->time)))
		emit_note_uses(em);
}

bool emit_must_wait(const struct emit *em, const struct sample_info *info)
{
	const struct emit_module *m = em->has_dumps && !em->at_end ? dumped_code(em, info) : NULL;
	enum uw_module_state state = m ? uw_module_symbol_state(m->module) : UW_MODULE_NEW;
	uint64_t time;

	if ((state != UW_MODULE_READY && state != UW_MODULE_WANTED) || is_in_pieces(m) ||
	    uw_module_symbols_timeless(m->module) || em->seconds - m->last_use > DUMP_IDLE_S)
		return false;
	time = jit_epochs_monotonic(em->c.clock, info->time);
	return time != UINT64_MAX && (time > m->epochs.known || state == UW_MODULE_WANTED);
}

void emit_note_reading(struct emit_module *m)
{
	const struct uw_extent e = uw_module_extent(m->module);
	uint64_t bytes = e.codes * CODE_BYTES + e.lines * LINE_BYTES + e.pool;

	m->dump_more_at = clock_ns(CLOCK_MONOTONIC);
	m->dump_added = m->dump_bytes && bytes > m->dump_bytes ? bytes - m->dump_bytes : 0;
	m->dump_bytes = bytes;
	if (!m->dump_unwound_at)
		m->dump_unwound_at = m->dump_more_at;
}

/* Is a reading due?  It has much work where there is more in the dump. */
static bool is_due(const struct emit *em, const struct emit_module *m, uint64_t now)
{
	return m->has_dump && em->seconds - m->last_use <= DUMP_IDLE_S && m->dump_more_at <= now &&
	       now - m->dump_more_at >= m->dump_added * DUMP_BYTE_NS;
}

void emit_read_dumps(struct emit *em, uint64_t now, bool awaited)
{
	if (!em->has_dumps || now - em->dumps_read_at < (awaited ? DUMPS_SOON_NS : DUMPS_NS))
		return;
	em->dumps_read_at = now;
	for (size_t i = 0; i < em->n_modules; i++)
		if (is_due(em, em->modules[i], now))
			emit_module_ask_dump(em->modules[i], em->c.loader);
}

const char *emit_timeless_dump(const struct emit *em)
{
	return em->timeless;
}

bool emit_lacks_times(const struct emit *em)
{
	return em->has_reuse && jit_epochs_monotonic(em->c.clock, 0) == UINT64_MAX;
}
