/* engine-fp.c - engine fp-copy: frame pointers over the stack copy.  [rbp] is the caller's rbp, [rbp + 8]
 * the return address.  No frame is marked as guessed: the user asked for this kind of profile.  Engine fp
 * takes the kernel's callchain (native-chain.c). */
#include <errno.h>

#include "base/error.h"
#include "unwinder/engine.h"
#include "unwinder/regs.h"

static int fp_copy_new(struct uw_engine **ret_engine)
{
	struct uw_engine *engine = calloc(1, sizeof(*engine));

	if (!engine)
		return fail(-ENOMEM);
	engine->ops = &uw_fp_copy_ops;
	*ret_engine = engine;
	return 0;
}

static void fp_free(struct uw_engine *engine)
{
	free(engine);
}

static uint64_t fp_register(const struct uw_snapshot *s)
{
	return s->regs[s->arch == UW_ARCH_AARCH64 ? (int)UW_ARM64_FP : (int)UW_X86_BP];
}

static void fp_copy_walk(const struct uw_snapshot *s, struct uw_result *res)
{
	uint64_t fp = fp_register(s), low = uw_snapshot_sp(s), next, ra;
	uint64_t pac_mask = uw_machine_pac_mask(uw_machine_of(s->arch), s->space, low);

	for (;;) {
		if (!fp) {
			uw_result_end(res, UW_WHOLE, UW_OK, 0);
			return;
		}
		if (fp < low || fp & 7) { /* rbp is in use for something else */
			uw_result_end(res, UW_FAILED, UW_NO_UNWIND_INFO, fp);
			return;
		}
		if (!uw_stack_word(s, fp, &next) || !uw_stack_word(s, fp + 8, &ra)) {
			uw_result_out_of_copy(s, res, fp + 8);
			return;
		}
		ra &= ~pac_mask;
		if (!ra) {
			uw_result_end(res, UW_WHOLE, UW_OK, 0);
			return;
		}
		if (!uw_space_find(s->space, ra - 1)) {
			uw_result_end(res, UW_FAILED, UW_NO_MODULE, ra);
			return;
		}
		if (res->n_frames == res->max_frames) {
			uw_result_end(res, UW_CUT, UW_TOO_DEEP, ra);
			return;
		}
		res->frames[res->n_frames++] = uw_frame_pc(ra) | UW_FRAME_CALLER;
		low = fp + 16;
		fp = next;
	}
}

static int fp_copy_unwind(struct uw_engine *engine, const struct uw_snapshot *snapshots, size_t n,
			  struct uw_result *results)
{
	(void)engine;
	for (size_t i = 0; i < n; i++) {
		const struct uw_snapshot *s = &snapshots[i];
		struct uw_result *res = &results[i];
		uint64_t pc;

		if (!uw_result_begin(s, res))
			continue;
		pc = uw_snapshot_pc(s);
		if (!uw_space_find(s->space, pc)) {
			uw_result_end(res, UW_FAILED, UW_NO_MODULE, pc);
			continue;
		}
		res->frames[res->n_frames++] = uw_frame_pc(pc);
		fp_copy_walk(s, res);
	}
	return 0;
}

const struct uw_engine_ops uw_fp_copy_ops = {
	.new = fp_copy_new, .free = fp_free, .unwind = fp_copy_unwind};
