/* unwinder.c - see unwinder.h.  The table of the engines, and the names of engines, reasons and outcomes. */
#include <errno.h>

#include "base/error.h"
#include "unwinder/fallback.h"
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
	if (!engine)
		return NULL;
	(void)uw_fallback_free(engine->fallback);
	engine->ops->free(engine);
	return NULL;
}

void uw_engine_set(struct uw_engine *engine, const struct uw_settings *settings)
{
	engine->settings = *settings;
}

int uw_unwind_batch(struct uw_engine *engine, const struct uw_snapshot *snapshots, size_t n,
		    struct uw_result *results)
{
	int r;

	if (!n)
		return 0;
	r = engine->ops->unwind(engine, snapshots, n, results);
	if (r >= 0 && engine->settings.fallback && !engine->fallback)
		r = uw_fallback_new(&engine->fallback);
	for (size_t i = 0; i < n && r >= 0 && engine->settings.fallback; i++)
		uw_fallback_look(engine->fallback, &snapshots[i], &results[i]);
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

	if (!image || !image->has_separate || !uw_module_wants_separate(module))
		return;
	uw_engine_drop(engine, module);
}

void uw_engine_adopt(struct uw_engine *engine, struct uw_module *module)
{
	/* The first unwinding information of a jitdump replaces what the engine found out by itself. */
	if (uw_module_adopt_unwind(module) || uw_module_has_jit_cfi(module))
		uw_engine_forget(engine, module);
}

void uw_engine_stats(const struct uw_engine *engine, struct uw_engine_stats *ret_stats)
{
	*ret_stats = (struct uw_engine_stats){0};
	if (engine->ops->stats)
		engine->ops->stats(engine, ret_stats);
}
