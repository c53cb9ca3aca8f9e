/* engine.h - the interface of an engine to unwinder.c, and what all engines share.  Private to
 * unwinder/. Thread: an engine belongs to one thread.
 *
 * An engine is a struct with struct uw_engine as its first member. unwinder.c never reads the rest. */
#pragma once

#include <string.h>

#include "unwinder/unwinder.h"

struct uw_engine_ops {
	int (*new)(struct uw_engine **ret_engine); /* sets ops; < 0: -ENOMEM, -EOPNOTSUPP */
	void (*free)(struct uw_engine *engine);	   /* never NULL */
	/* As uw_unwind_batch(), any @n.  Each result is reset by uw_result_begin() first. */
	int (*unwind)(struct uw_engine *engine, const struct uw_snapshot *snapshots, size_t n,
		      struct uw_result *results);
	void (*forget)(struct uw_engine *engine, const struct uw_module *module); /* may be NULL */
	void (*stats)(const struct uw_engine *engine,
		      struct uw_engine_stats *ret_stats); /* adds to zeroes; may be NULL */
};

struct uw_engine {
	const struct uw_engine_ops *ops;
	struct uw_settings settings;
	struct uw_fallback *fallback; /* made at the first stack; NULL: none */
};

extern const struct uw_engine_ops uw_native_ops, uw_libunwind_ops, uw_libdw_ops, uw_fp_ops,
	uw_fp_copy_ops;

/* Resets @res.  false: the snapshot cannot be unwound and @res has the reason (no user registers,
 * an ABI that is not unwound, no room for a frame). */
bool uw_result_begin(const struct uw_snapshot *snapshot, struct uw_result *res);

static inline void uw_result_end(struct uw_result *res, enum uw_outcome outcome,
				 enum uw_reason reason, uint64_t stopped_at)
{
	res->outcome = (uint8_t)outcome;
	res->reason = (uint8_t)reason;
	res->stopped_at = stopped_at;
}

/* The stack does not hold @address: CUT when the copy was as long as its room, or is empty, and ends before it, else FAILED,
 * UW_MEMORY. */
void uw_result_out_of_copy(const struct uw_snapshot *snapshot, struct uw_result *res,
			   uint64_t address);

/* The snapshot's pc and sp. */
static inline uint64_t uw_snapshot_pc(const struct uw_snapshot *snapshot)
{
	return snapshot->regs[snapshot->arch == UW_ARCH_AARCH64 ? UW_ARM64_PC : UW_X86_IP];
}
static inline uint64_t uw_snapshot_sp(const struct uw_snapshot *snapshot)
{
	return snapshot
		->regs[snapshot->arch == UW_ARCH_AARCH64 ? (int)UW_ARM64_SP : (int)UW_X86_SP];
}

/* The 8 bytes at @address out of the stack copy; false when it does not hold all 8. */
static inline bool uw_stack_word(const struct uw_snapshot *snapshot, uint64_t address,
				 uint64_t *ret_word)
{
	uint64_t at = address - uw_snapshot_sp(snapshot);

	if (snapshot->stack_len < 8 || at > snapshot->stack_len - 8)
		return false;
	memcpy(ret_word, snapshot->stack + at, sizeof(*ret_word));
	return true;
}
