/* copied-entry.c - see copied-entry.h. */
#include "session/pipeline/copied-entry.h"
#include "base/go-layout.h"
#include "proc/process.h"
#include "session/pipeline/adapt.h"
#include "symbols/image.h"

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

static void add_script(struct python_stacks *stacks, uint32_t pid, const struct uw_script *s,
		       bool php)
{
	uint32_t ruby = PYTHON_IS_RUBY | s->offsets.frame_bytes |
			(s->offsets.sizes ? (uint32_t)PYTHON_HAS_SIZES : 0);

	python_stacks_add(stacks, pid,
			  &(struct python_threads){
				  .kind = php ? (uint32_t)PYTHON_IS_PHP : ruby,
				  .interpreter = s->current,
				  .threads = s->thread,
				  .next = php ? s->offsets.len & 0xfff8 : s->next_thread,
				  .native = php ? s->offsets.filename : s->native,
				  .context = s->context,
				  .through = s->through,
				  .frame = s->innermost,
			  });
}

void copied_entry_add_stg(struct python_stacks *stacks, struct process *process)
{
	if (process->has_stg)
		return;
	process->has_stg = true;
	python_stacks_add(stacks, process->pid, &(struct python_threads){.kind = PYTHON_IS_STG});
}

void copied_entry_add_go(struct python_stacks *stacks, struct process *process)
{
	if (process->has_go || process->language)
		return;
	process->has_go = true;
	/* m.procid proves the layout. */
	python_stacks_add(stacks, process->pid,
			  &(struct python_threads){.kind = PYTHON_IS_GO,
						   .native = GO_G_M,
						   .threads = GO_M_PROCID,
						   .next = GO_M_CURG,
						   .frame = GO_G_SP});
}

void copied_entry_add(struct python_stacks *stacks, uint32_t pid, const struct uw_module *module)
{
	const struct uw_image *image = uw_module_image(module);
	const struct uw_python *py = image ? &image->python : NULL;
	const struct uw_script *script = image ? &image->script : NULL;

	if (stacks && script && script->version && script->current)
		add_script(stacks, pid, script, uw_module_language(module) == UW_LANGUAGE_PHP);
	if (stacks && py && py->version && py->threads.interpreter)
		python_stacks_add(stacks, pid,
				  &(struct python_threads){
					  .kind = py->version & 0xff,
					  .interpreter = py->threads.interpreter,
					  .threads = py->threads.threads,
					  .next = py->threads.next,
					  .native = py->threads.native,
					  .frame = py->threads.frame,
				  });
}
