/* native-signal.c - see native.h.  Signal frames whose trampoline has no CFI that would do: known
 * by its instructions, and on aarch64 any.
 *
 * aarch64: the vDSO's CFI (arch/arm64/kernel/vdso/sigreturn.S) tells the x29 and x30 of the
 * interrupted function but neither its pc nor its sp: an unwinder that believes it skips one
 * function.  The kernel put all registers on the stack, and x29 on a frame record behind them:
 *
 *     sp  [siginfo 128][ucontext ... regs[31] sp pc ... ]   x29  [x29][x30]  of the interrupted
 *
 * That the record says the same as the registers is the proof where the trampoline's code cannot be
 * read: a recording has no vDSO. */
#include "unwinder/native.h"

bool native_signal_regs(struct native *e, struct walk *w, uint64_t sp, struct cfi_regs *ret_regs)
{
	const struct uw_machine *m = w->machine;
	uint64_t words[DWARF_REGS];

	if (!native_bytes(e, w, sp + m->signal_regs, words, m->n_regs * sizeof(*words)))
		return false;
	for (unsigned reg = 0; reg < m->n_regs; reg++)
		ret_regs->r[reg] = words[m->signal[reg]];
	ret_regs->known = (1ull << m->n_regs) - 1;
	return true;
}

bool native_is_signal(struct native *e, struct walk *w)
{
	uint64_t record[2];
	struct cfi_regs regs;

	return w->machine->link && w->bp > w->sp && w->bp - w->sp < NATIVE_CHUNK &&
	       native_bytes(e, w, w->bp, record, sizeof(record)) &&
	       native_signal_regs(e, w, w->sp, &regs) && record[0] == regs.r[DWARF_ARM64_FP] &&
	       record[1] == regs.r[DWARF_ARM64_LR] &&
	       uw_space_find(w->snapshot->space, regs.r[DWARF_ARM64_PC]);
}

enum step native_signal(struct native *e, struct walk *w)
{
	struct cfi_regs regs;

	if (!native_signal_regs(e, w, w->sp, &regs)) {
		uw_result_out_of_copy(w->snapshot, w->res, w->sp + w->machine->signal_regs);
		return STEP_ENDED;
	}
	return native_arrive(w, &regs, true, true);
}
