/* python-entry.c - see python-entry.h. */
#include "session/pipeline/python-entry.h"
#include "proc/process.h"
#include "symbols/image.h"

void python_entry_attach(struct python_stacks *stacks, struct entry *e)
{
	const struct process *process = e->info.process;
	struct python_stack stack;

	if (!stacks || !e->regs || e->arch != UW_ARCH_X86_64 || !process ||
	    !(process->language || process->has_stg) ||
	    !python_stacks_find(stacks, e->info.tid, e->regs[UW_X86_SP], e->info.time, &stack))
		return;
	e->python = stack.frames;
	e->n_python = stack.n;
	e->python_position = stack.position;
	e->has_python = true;
}

void python_entry_put(struct python_stacks *stacks, struct entry *e)
{
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

void python_entry_add_stg(struct python_stacks *stacks, struct process *process)
{
	if (process->has_stg)
		return;
	process->has_stg = true;
	python_stacks_add(stacks, process->pid, &(struct python_threads){.kind = PYTHON_IS_STG});
}

void python_entry_add(struct python_stacks *stacks, uint32_t pid, const struct uw_module *module)
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
