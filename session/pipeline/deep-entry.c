/* deep-entry.c - see deep-entry.h. */
#include "session/pipeline/deep-entry.h"

void deep_entry_attach(struct deep *deep, const struct record_sample *s, struct entry *e)
{
	struct deep_stack stack;
	struct deep_sample sample = {
		.tid = s->tid, .time = s->time, .copy = s->stack, .copy_len = s->stack_len};

	if (!e->stack_full || !s->stack_len || e->arch != UW_ARCH_HOST)
		return;
	e->info.full_copy = s->stack_len;
	sample.sp = uw_host_sp(s->regs);
	if (!deep || !deep_find(deep, &sample, &stack))
		return;
	e->stack = stack.stack;
	e->stack_full = stack.full;
	e->info.stack_len = stack.len;
	e->deep = true;
	e->deep_position = stack.position;
}

void deep_entry_put(struct deep *deep, struct entry *e)
{
	if (e->deep)
		deep_put(deep, e->deep_position);
	e->deep = false;
}
