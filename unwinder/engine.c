/* engine.c - see engine.h.  How every engine begins a result, and ends one outside the stack copy. */
#include "unwinder/engine.h"

bool uw_result_begin(const struct uw_snapshot *snapshot, struct uw_result *res)
{
	res->n_frames = 0;
	res->stack_used = 0;
	res->read_after_us = 0;
	res->completed = res->unchecked = res->by_fp = res->stg = res->other_stack =
		res->lacks_functions = false;
	res->pending = NULL;
	uw_result_end(res, UW_FAILED, UW_OK, 0);
	if (res->max_frames > UW_MAX_FRAMES)
		res->max_frames = UW_MAX_FRAMES;
	if (!snapshot->regs)
		res->reason = UW_NO_USER_STATE;
	else if (snapshot->arch != UW_ARCH_X86_64 && snapshot->arch != UW_ARCH_AARCH64)
		res->reason = UW_ABI;
	else if (!res->max_frames)
		res->reason = UW_TOO_DEEP;
	return res->reason == UW_OK;
}

void uw_result_out_of_copy(const struct uw_snapshot *snapshot, struct uw_result *res,
			   uint64_t address)
{
	uint64_t sp = uw_snapshot_sp(snapshot);
	bool beyond = address >= sp &&
		      (snapshot->stack_len < 8 || address - sp > snapshot->stack_len - 8);

	/* Nothing was copied: the page of sp was not there yet, as in the fault that makes it. */
	if ((snapshot->stack_full || !snapshot->stack_len) && beyond)
		uw_result_end(res, UW_CUT, UW_OK, address);
	else
		uw_result_end(res, UW_FAILED, UW_MEMORY, address);
}
