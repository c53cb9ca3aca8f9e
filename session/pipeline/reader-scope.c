/* reader-scope.c - which samples go on: the verdict on each process, and the footprint.  Thread:
 * main.
 *
 * The verdict is of one life: a pid that is used again, or a program that an exec replaced, is
 * judged anew.  Where it needs the command line, that is read by the loader (a target can make it
 * slow to read), and the life's samples wait in the unwinder's park like those without mappings:
 *
 *   UNDECIDED ── wanted() ──► WANTED | LEFT_OUT      told to the unwinder by ENTRY_SPACE
 *
 * Whom the filter wants may still not be shown: reader-permit.c. */
#include "session/pipeline/reader-private.h"

static bool has_filter(const struct reader *rd)
{
	return rd->c.wanted != NULL;
}

static void decide(struct reader *rd, struct process *process)
{
	/* A kernel thread has none, and a zombie's is gone. */
	const char *cmdline = process->cmdline_len ? process->cmdline : NULL;
	bool wanted = rd->c.wanted(rd->c.wanted_arg, process->pid, cmdline, process->cmdline_len);

	process->scope = wanted ? PROCESS_WANTED : PROCESS_LEFT_OUT;
}

static enum process_scope filtered(struct reader *rd, struct process *process)
{
	if (!has_filter(rd))
		return PROCESS_WANTED;
	if (process->scope == PROCESS_UNDECIDED && !rd->options.wanted_by_cmdline)
		decide(rd, process);
	return process->scope;
}

enum process_scope reader_scope_of(struct reader *rd, struct process *process)
{
	enum process_scope scope = filtered(rd, process);

	return scope == PROCESS_WANTED ? reader_permit(rd, process) : scope;
}

enum skip_reason reader_left_out(struct reader *rd, struct process *process)
{
	if (reader_scope_of(rd, process) != PROCESS_LEFT_OUT)
		return SKIP_NONE;
	return filtered(rd, process) == PROCESS_LEFT_OUT ? SKIP_NOT_IN_SCOPE : SKIP_NOT_ALLOWED;
}

void reader_scope_answered(struct reader *rd, struct process *process)
{
	if (has_filter(rd) && process->scope == PROCESS_UNDECIDED)
		decide(rd, process);
}

/* In the kernel's callchain the user part stands behind its mark. */
static bool chain_has_user(const struct record_sample *s)
{
	for (uint64_t i = 0; i < s->n_chain; i++) {
		if (s->chain[i] == (uint64_t)-512) /* PERF_CONTEXT_USER */
			return true;
	}
	return false;
}

/* A kernel thread (or an exiting task), and nothing but user frames is wanted. */
static bool nothing_to_show(const struct reader *rd, const struct record_sample *s)
{
	if (rd->options.kernel_frames || !rd->options.user_frames)
		return false;
	return rd->options.by_callchain ? !chain_has_user(s) : s->regs_abi == 0;
}

static bool too_much_enqueued(const struct reader *rd, const struct record_sample *s)
{
	return rd->options.enqueued_bytes &&
	       rd->enqueued_bytes + s->stack_len >= rd->options.enqueued_bytes;
}

enum skip_reason reader_leaves_out(struct reader *rd, struct process *process,
				   const struct record_sample *s)
{
	enum skip_reason why;

	if (nothing_to_show(rd, s))
		return SKIP_NOT_IN_SCOPE;
	if (filtered(rd, process) != PROCESS_LEFT_OUT)
		reader_permit_again(rd, process, s->time);
	why = reader_left_out(rd, process);
	if (why)
		return why;
	return too_much_enqueued(rd, s) ? SKIP_ENQUEUED : SKIP_NONE;
}

void reader_answered(struct reader *rd, const struct sample_info *info)
{
	rd->enqueued_bytes -= info->stack_len;
}
