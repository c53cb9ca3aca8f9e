/* copied-entry.c - see copied-entry.h. */
#include "session/pipeline/copied-entry.h"
#include "proc/process.h"
#include "session/pipeline/adapt.h"

static void attach_stack(struct deep *deep, const struct record_sample *s, struct entry *e)
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

static void attach_frames(struct python_stacks *stacks, const struct record_sample *sample,
			  struct entry *e)
{
	const struct process *process = e->info.process;
	struct python_stack stack;

	if (!stacks || !e->regs || e->arch != UW_ARCH_X86_64 || !process ||
	    !(process->language || process->has_stg || process->has_go) ||
	    !python_stacks_find(stacks, e->info.tid, e->regs[UW_X86_SP], sample->time, &stack))
		return;
	e->python = stack.frames;
	e->n_python = stack.n;
	e->python_position = stack.position;
	e->has_python = true;
}

void copied_entry_attach(struct deep *deep, struct python_stacks *stacks,
			 const struct record_sample *sample, struct entry *e)
{
	attach_stack(deep, sample, e);
	attach_frames(stacks, sample, e);
}

bool copied_entry_is_deep(const struct record_sample *s, const struct entry *e)
{
	/* The first stacks of all programs are near each other: at the top, within 16 GiB (the kernel's STACK_RND_MASK). */
	const uint64_t near = 1ull << 36, here = (uintptr_t)__builtin_frame_address(0);

	return e->info.full_copy > ADAPT_MAX / 2 && s->pid == s->tid &&
	       uw_host_sp(s->regs) - here + near < 2 * near;
}

void copied_entry_put(struct deep *deep, struct python_stacks *stacks, struct entry *e)
{
	if (e->deep)
		deep_put(deep, e->deep_position);
	e->deep = false;
	if (e->has_python)
		python_stacks_put(stacks, e->python_position);
	e->has_python = false;
}
