/* engine.c - the table of engines, their names, and what all of them do alike. */
#include <errno.h>

#include "base/error.h"
#include "unwinder/engine.h"
#include "symbols/image.h"

static const struct {
	const char *name;
	const struct uw_engine_ops *ops;
} engines[UW_ENGINE_COUNT] = {
	[UW_ENGINE_NATIVE] = {"native", &uw_native_ops},
	[UW_ENGINE_LIBUNWIND] = {"libunwind", &uw_libunwind_ops},
	[UW_ENGINE_LIBDW] = {"libdw", &uw_libdw_ops},
	[UW_ENGINE_FP] = {"fp", &uw_fp_ops},
	[UW_ENGINE_FP_COPY] = {"fp-copy", &uw_fp_copy_ops},
};

const char *uw_engine_name(enum uw_engine_kind kind)
{
	return (unsigned)kind < UW_ENGINE_COUNT ? engines[kind].name : "unknown";
}

const char *uw_reason_name(enum uw_reason reason)
{
	static const char *const names[UW_REASON_COUNT] = {
		[UW_OK] = "ok",
		[UW_NO_USER_STATE] = "no-user-state",
		[UW_ABI] = "abi",
		[UW_NO_MODULE] = "no-module",
		[UW_UNREADABLE] = "unreadable",
		[UW_NO_UNWIND_INFO] = "no-unwind-info",
		[UW_BAD_CFI] = "bad-cfi",
		[UW_BAD_RETURN] = "bad-return",
		[UW_NO_PROGRESS] = "no-progress",
		[UW_MEMORY] = "memory",
		[UW_TOO_DEEP] = "too-deep",
		[UW_UNRESPONSIVE] = "unresponsive",
	};

	return (unsigned)reason < UW_REASON_COUNT ? names[reason] : "unknown";
}

const char *uw_outcome_name(enum uw_outcome outcome)
{
	static const char *const names[] = {
		[UW_WHOLE] = "whole",
		[UW_CUT] = "cut",
		[UW_FAILED] = "failed",
		[UW_PENDING] = "pending",
	};

	return (unsigned)outcome < ARRAY_SIZE(names) ? names[outcome] : "unknown";
}

int uw_engine_new(enum uw_engine_kind kind, struct uw_engine **ret_engine)
{
	int r;

	if ((unsigned)kind >= UW_ENGINE_COUNT)
		return fail(-EINVAL);
	r = engines[kind].ops->new (ret_engine);
	return r < 0 ? trace(r) : 0;
}

struct uw_engine *uw_engine_free(struct uw_engine *engine)
{
	if (engine)
		engine->ops->free(engine);
	return NULL;
}

int uw_unwind_batch(struct uw_engine *engine, const struct uw_snapshot *snapshots, size_t n,
		    struct uw_result *results)
{
	int r;

	if (!n)
		return 0;
	r = engine->ops->unwind(engine, snapshots, n, results);
	return r < 0 ? trace(r) : 0;
}

void uw_engine_forget(struct uw_engine *engine, const struct uw_module *module)
{
	if (engine->ops->forget)
		engine->ops->forget(engine, module);
}

void uw_engine_drop(struct uw_engine *engine, struct uw_module *module)
{
	uw_engine_forget(engine, module);
	uw_module_drop_unwind(module);
}

void uw_engine_renew(struct uw_engine *engine, struct uw_module *module)
{
	const struct uw_image *image = uw_module_image(module);

	if (!image || !image->more || !uw_module_wants_separate(module))
		return;
	uw_engine_drop(engine, module);
}

void uw_engine_stats(const struct uw_engine *engine, struct uw_engine_stats *ret_stats)
{
	*ret_stats = (struct uw_engine_stats){0};
	if (engine->ops->stats)
		engine->ops->stats(engine, ret_stats);
}

bool uw_result_begin(const struct uw_snapshot *snapshot, struct uw_result *res)
{
	res->n_frames = 0;
	res->completed = false;
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

	if (snapshot->stack_full && beyond)
		uw_result_end(res, UW_CUT, UW_OK, address);
	else
		uw_result_end(res, UW_FAILED, UW_MEMORY, address);
}
