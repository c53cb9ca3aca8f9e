/* emit-dumps.c - jitdumps that grow while their code runs (emit.h, jit-epochs.h). */
#include <time.h>

#include "session/pipeline/emit-private.h"
#include "session/pipeline/jit-epochs.h"

enum {
	DUMP_IDLE_S = 4,      /* a jitdump is read on so long after code of it ran, */
	DUMPS_NS = 100000000, /* ... that often */
	DUMPS_SOON_NS =
		20000000, /* ... where memory is used again: samples until then have the old name */
	SLICES_NS = 50000000,	      /* slices of JIT code are looked at that often; they begin */
	SLICE_NS = 150000000,	      /* ... so long after the last reading, */
	SLICE_SOON_NS = 40000000,     /* ... where memory is used again, */
	SLICE_PIECES_NS = 1000000000, /* ... of a dump that its runtime writes in large pieces */
};

void emit_note_dump(struct emit *em, const struct emit_module *m)
{
	bool dump = uw_module_jitdump(m->module) != NULL;

	em->has_dumps |= dump;
	em->has_reuse |= dump && uw_module_symbols_overlap(m->module);
}

/* Has a dump that is written as soon as there is code shown that memory is used again? */
static bool is_reused(const struct uw_module *module)
{
	return uw_module_symbols_overlap(module) && uw_module_symbols_until(module) == UINT64_MAX;
}

void emit_begin_slices(struct emit *em, uint64_t sample_time)
{
	uint64_t time = jit_epochs_monotonic(em->c.clock, sample_time);
	bool begun = false;

	em->slices_at = sample_time + SLICES_NS;
	for (size_t i = 0; i < em->n_modules; i++) {
		struct emit_module *m = em->modules[i];
		bool pieces = uw_module_symbols_until(m->module) != UINT64_MAX;

		if (!emit_module_has_epochs(m) || !uw_module_jitdump(m->module) ||
		    (pieces && !uw_module_symbols_overlap(m->module)))
			continue;
		begun |= jit_epochs_slice(&m->epochs, time,
					  pieces		 ? SLICE_PIECES_NS
					  : is_reused(m->module) ? SLICE_SOON_NS
								 : SLICE_NS);
	}
	if (begun)
		emit_note_uses(em);
}

bool emit_read_dumps(struct emit *em, uint64_t now)
{
	if (!em->has_dumps || now < em->dumps_at)
		return em->dumps_soon;
	em->dumps_soon = false;
	for (size_t i = 0; i < em->n_modules; i++) {
		struct emit_module *m = em->modules[i];

		if (em->seconds - m->last_use > DUMP_IDLE_S)
			continue;
		emit_module_ask_dump(m, em->c.loader);
		em->dumps_soon |= uw_module_jitdump(m->module) && is_reused(m->module);
	}
	em->dumps_at = now + (em->dumps_soon ? DUMPS_SOON_NS : DUMPS_NS);
	return em->dumps_soon;
}

bool emit_lacks_times(const struct emit *em)
{
	return em->has_reuse && jit_epochs_monotonic(em->c.clock, 0) == UINT64_MAX;
}
