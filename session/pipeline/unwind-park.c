/* unwind-park.c - samples that wait, and what ends their waiting.  Thread: unwinder. */
#include <string.h>

#include "session/pipeline/unwind-private.h"

/* Copies what the entry points to into one block: registers, chain, stack (dyn_size bytes only). */
static bool park(struct unwind_stage *s, const struct entry *e, struct parked *p)
{
	size_t regs = e->regs ? uw_arch_regs(e->arch) * sizeof(uint64_t) : 0;
	size_t chain = e->n_chain * sizeof(uint64_t);
	uint8_t *block;

	p->len = regs + chain + e->info.stack_len;
	p->block = block = park_alloc(&s->park, p->len);
	if (!block)
		return false;
	p->entry = *e;
	if (e->regs) /* of an ABI that is not unwound, none of them */
		p->entry.regs = memcpy(block, e->regs, regs);
	if (chain)
		p->entry.chain = memcpy(block + regs, e->chain, chain);
	if (e->info.stack_len)
		p->entry.stack = memcpy(block + regs + chain, e->stack, e->info.stack_len);
	atomic_fetch_add_explicit(&s->n_parked_ever, 1, memory_order_relaxed);
	return true;
}

bool unwind_park(struct unwind_stage *s, const struct entry *e, const struct uw_module *module,
		 bool looked_again, uint64_t now)
{
	struct parked *p = &s->parked[s->n_parked];

	if (s->n_parked == MAX_PARKED || !park(s, e, p))
		return false;
	p->number = ++s->last_parked;
	p->module = module;
	p->looked_again = looked_again;
	p->deadline = now + (module ? s->options.module_wait_ns : s->options.maps_wait_ns);
	s->n_parked++;
	return true;
}

static void unpark(struct unwind_stage *s, size_t index)
{
	park_free(&s->park, s->parked[index].block, s->parked[index].len);
	s->parked[index] = s->parked[--s->n_parked];
}

/* Unwinds parked sample @index again; true when it was answered and is gone. */
static bool retry(struct unwind_stage *s, size_t index, uint64_t now)
{
	struct parked *p = &s->parked[index];
	struct entry *e = &p->entry;
	const struct uw_module *module;
	int r = unwind_entries(s, &e, 1);

	if (r < 0 || !unwind_must_wait(s, e, &s->results[0], p->looked_again, &module)) {
		unwind_answer(s, e, r < 0 ? NULL : &s->results[0],
			      r < 0 ? SKIP_NO_MEMORY : SKIP_NONE);
		unpark(s, index);
		return true;
	}
	if (module && !p->module)
		p->deadline = now + s->options.module_wait_ns;
	p->looked_again |= !module && e->info.space;
	p->module = module;
	return false;
}

/* The mappings of a process came (again): its samples go on with them. */
void unwind_wake_process(struct unwind_stage *s, const struct entry *control_entry, uint64_t now)
{
	const struct sample_info *info = &control_entry->info;

	for (size_t i = 0; i < s->n_parked;) {
		struct parked *p = &s->parked[i];
		bool gone = true;

		if (p->module || p->entry.info.process != info->process) {
			i++;
			continue;
		}
		if (control_entry->left_out) {
			unwind_answer(s, &p->entry, NULL,
				      (enum skip_reason)control_entry->left_out);
			unpark(s, i);
			continue;
		}
		if (p->entry.undecided && control_entry->undecided) {
			i++;
			continue;
		}
		p->entry.undecided = false;
		if (info->space) {
			(void)uw_space_unref(p->entry.info.space);
			p->entry.info.space = uw_space_ref(info->space);
			gone = retry(s, i, now);
		} else {
			unwind_answer(s, &p->entry, NULL, SKIP_MAPS_TIMEOUT);
			unpark(s, i);
		}
		i += !gone;
	}
}

void unwind_wake_module(struct unwind_stage *s, const struct uw_module *module, uint64_t now)
{
	for (size_t i = 0; i < s->n_parked;)
		i += s->parked[i].module != module || !retry(s, i, now);
}

void unwind_expire(struct unwind_stage *s, uint64_t now)
{
	for (size_t i = 0; i < s->n_parked;) {
		struct parked *p = &s->parked[i];

		if (now < p->deadline) {
			i++;
			continue;
		}
		/* A second look at the mappings that does not come: what was found first stands. */
		if (!p->module && p->looked_again) {
			struct entry *e = &p->entry;

			if (unwind_entries(s, &e, 1) == 0)
				unwind_answer(s, e, &s->results[0], SKIP_NONE);
			else
				unwind_answer(s, e, NULL, SKIP_MAPS_TIMEOUT);
		} else {
			unwind_answer(s, &p->entry, NULL,
				      p->module ? SKIP_MODULE_TIMEOUT : SKIP_MAPS_TIMEOUT);
		}
		unpark(s, i);
	}
}

static uint64_t oldest_parked(const struct unwind_stage *s)
{
	uint64_t oldest = UINT64_MAX;

	for (size_t i = 0; i < s->n_parked; i++)
		oldest = min_u64(oldest, s->parked[i].number);
	return oldest;
}

/* Answers flushes that nothing is in the way of any more; true when there was one. */
bool unwind_answer_flushes(struct unwind_stage *s, uint64_t now)
{
	uint64_t oldest = s->n_flushes ? oldest_parked(s) : 0;
	size_t n = 0;

	while (n < s->n_flushes &&
	       (s->flushes[n].parked < oldest || now >= s->flushes[n].deadline)) {
		const struct sample_info info = {.count = s->flushes[n++].number};

		(void)unwind_control(s, OUTCOME_FLUSHED, &info, NULL, NULL);
	}
	s->n_flushes -= n;
	memmove(s->flushes, s->flushes + n, s->n_flushes * sizeof(s->flushes[0]));
	return n > 0;
}
