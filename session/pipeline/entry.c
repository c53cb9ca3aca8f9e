/* entry.c - entries and outcomes (entry.h).  Thread: any. */
#include "session/pipeline/entry.h"

#include <linux/perf_event.h>
#include <string.h>

#include "base/error.h"
#include "perf/record.h"
#include "proc/process.h"
#include "symbols/module.h"
#include "unwinder/unwinder.h"

enum { GUESSES = 16 }; /* of a frame pointer */

size_t entry_bytes(const struct entry *e)
{
	return (e->regs ? uw_arch_regs(e->arch) * sizeof(uint64_t) : 0) +
	       (e->n_chain + UW_PYTHON_WORDS * e->n_python) * sizeof(uint64_t) + entry_stack_len(e);
}

void entry_shorten(struct entry *e, uint32_t bytes)
{
	if (entry_stack_len(e) <= bytes)
		return;
	e->shortened = bytes;
	e->stack_full = true;
	e->info.full_copy = 0; /* it does not depend on the size of copies */
}

void entry_copy(struct entry *e, void *block)
{
	size_t chain = e->n_chain * sizeof(uint64_t);
	size_t python = UW_PYTHON_WORDS * e->n_python * sizeof(uint64_t);
	size_t regs = entry_bytes(e) - chain - python - entry_stack_len(e);
	uint8_t *to = block;

	if (e->regs) /* 0 bytes of an ABI that is not unwound */
		e->regs = memcpy(to, e->regs, regs);
	if (chain)
		e->chain = memcpy(to + regs, e->chain, chain);
	if (python)
		e->python = memcpy(to + regs + chain, e->python, python);
	if (entry_stack_len(e))
		e->stack = memcpy(to + regs + chain + python, e->stack, entry_stack_len(e));
}

const uint64_t *entry_chain_part(const struct entry *e, uint64_t mark, uint32_t *ret_n)
{
	const uint64_t *part = NULL;
	uint32_t n = 0;

	for (uint32_t i = 0; i < e->n_chain; i++) {
		if (e->chain[i] >= CHAIN_MARKS) {
			if (part)
				break;
			if (e->chain[i] == mark)
				part = &e->chain[i + 1];
		} else if (part) {
			n++;
		}
	}
	*ret_n = n;
	return part;
}

/* Were these registers saved by a system call?  x86-64: `syscall` leaves its return address in rcx.
 * aarch64: x8 holds the number (of execve or execveat).  true on other architectures. */
static bool in_system_call(const struct entry *e)
{
	enum { X8 = 8, ARM64_EXECVE = 221, ARM64_EXECVEAT = 281 };

	switch ((enum uw_arch)e->arch) {
	case UW_ARCH_X86_64:
		return e->regs[UW_X86_CX] == e->regs[UW_X86_IP];
	case UW_ARCH_AARCH64:
		return e->regs[X8] == ARM64_EXECVE || e->regs[X8] == ARM64_EXECVEAT;
	default:
		return true;
	}
}

bool entry_has_user_copy(const struct entry *e)
{
	if (!e->regs)
		return false;
	return e->info.stack_len || e->info.cpu_mode == PERF_RECORD_MISC_USER || !in_system_call(e);
}

void entry_snapshot(const struct entry *e, struct uw_snapshot *snapshot)
{
	*snapshot = (struct uw_snapshot){
		.space = e->info.space,
		.regs = e->regs,
		.arch = (enum uw_arch)e->arch,
		.stack_full = e->stack_full,
		.stack_len = entry_stack_len(e),
		.stack = e->stack,
		.thread = e->info.tid,
		.time = e->info.time,
		.settled = e->settled,
		.check_chain = e->check_chain,
		.python = e->python,
		.n_python = e->n_python,
	};
	if (e->n_chain)
		snapshot->chain = entry_chain_part(e, CHAIN_USER, &snapshot->n_chain);
}

void entry_of_sample(const struct record_sample *s, enum uw_arch arch, struct entry *ret_entry)
{
	*ret_entry = (struct entry){
		.kind = ENTRY_SAMPLE,
		.stack_full = s->stack_len == s->stack_room,
		.arch = (uint8_t)(s->regs_abi == PERF_SAMPLE_REGS_ABI_64 ? arch : UW_ARCH_NONE),
		.regs = s->regs_abi ? s->regs : NULL,
		.stack = s->stack,
		.chain = s->chain,
		.n_chain = (uint32_t)s->n_chain,
		.info =
			{
				.time = s->time,
				.weight = s->period,
				.pid = s->pid,
				.tid = s->tid,
				.cpu = s->cpu,
				.stack_len = s->stack_len,
				.cpu_mode = s->cpu_mode,
			},
	};
}

/* The engines without CFI unwind without modules, but an address has no meaning before the program
 * headers of its module are read: makes the result UW_PENDING for the first module not loaded. */
static void need_modules(const struct uw_snapshot *snapshot, struct uw_result *r)
{
	for (uint32_t i = 0; i < r->n_frames; i++) {
		const struct uw_map *map =
			uw_space_find(snapshot->space, uw_frame_lookup(r->frames[i]));
		enum uw_module_state state;

		if (!map || !map->module)
			continue;
		state = uw_module_unwind_state(map->module);
		if (state == UW_MODULE_NEW || state == UW_MODULE_WANTED) {
			r->outcome = UW_PENDING;
			r->pending = map->module;
			return;
		}
	}
}

/* The next word from *at on behind which a return address may stand: a frame pointer may lead there. */
static bool next_fp(const struct entry *e, size_t *at, uint64_t *ret_fp)
{
	for (; *at + 16 <= entry_stack_len(e); *at += 8) {
		uint64_t word;

		memcpy(&word, e->stack + *at + 8, sizeof(word));
		if (!word || !uw_space_find(e->info.space, word - 1))
			continue;
		*ret_fp = e->regs[UW_X86_SP] + *at;
		*at += 8;
		return true;
	}
	return false;
}

/* A stack that was read during a wait, without a known frame pointer (waits.h), and the first guess failed: tries
 * others.  Each return address must follow a call, so only the right one leads to the root. */
static int unwind_by_guesses(struct uw_engine *engine, const struct entry *e,
			     struct uw_result *result)
{
	uint64_t regs[UW_X86_COUNT], first = e->regs[UW_X86_BP];
	struct uw_snapshot snapshot;
	size_t at = 0;
	int r = 0;

	memcpy(regs, e->regs, sizeof(regs));
	entry_snapshot(e, &snapshot);
	snapshot.regs = regs;
	for (int i = 0;
	     i <= GUESSES && r >= 0 && result->outcome != UW_WHOLE && result->outcome != UW_PENDING;
	     i++) {
		bool more = i < GUESSES && next_fp(e, &at, &regs[UW_X86_BP]);

		if (!more) {
			i = GUESSES;
			regs[UW_X86_BP] = first;
		}
		*result = (struct uw_result){.frames = result->frames, .max_frames = UW_MAX_FRAMES};
		r = uw_unwind_batch(engine, &snapshot, 1, result);
	}
	return r < 0 ? trace(r) : 0;
}

int entries_unwind(struct uw_engine *engine, enum uw_engine_kind kind, struct entry *const *entries,
		   size_t n, struct uw_result *ret_results)
{
	struct uw_snapshot snapshots[UW_BATCH];
	struct uw_result results[UW_BATCH];
	size_t index[UW_BATCH], n_user = 0;

	for (size_t i = 0; i < n; i++) {
		const struct entry *e = entries[i];
		int r = 0;

		if (e->user_state && !e->undecided && e->info.space) {
			entry_snapshot(e, &snapshots[n_user]);
			results[n_user] = (struct uw_result){.frames = ret_results[i].frames,
							     .max_frames = UW_MAX_FRAMES};
			index[n_user++] = i;
		}
		if (n_user < UW_BATCH && i + 1 < n)
			continue;
		if (n_user)
			r = uw_unwind_batch(engine, snapshots, n_user, results);
		if (r < 0)
			return trace(r);
		for (size_t k = 0; k < n_user; k++) {
			if (kind == UW_ENGINE_FP || kind == UW_ENGINE_FP_COPY)
				need_modules(&snapshots[k], &results[k]);
			if (entries[index[k]]->info.guessed)
				r = unwind_by_guesses(engine, entries[index[k]], &results[k]);
			if (r < 0)
				return trace(r);
			ret_results[index[k]] = results[k];
		}
		n_user = 0;
	}
	return 0;
}

void outcome_fill(struct outcome *o, const struct entry *e, const struct uw_result *r,
		  enum skip_reason skipped)
{
	uint32_t n_kernel = 0;
	const uint64_t *kernel = skipped ? NULL : entry_chain_part(e, CHAIN_KERNEL, &n_kernel);

	*o = (struct outcome){.kind = OUTCOME_SAMPLE, .skipped = (uint8_t)skipped, .info = e->info};
	o->n_kernel = n_kernel < OUTCOME_KERNEL_FRAMES ? n_kernel : OUTCOME_KERNEL_FRAMES;
	if (o->n_kernel)
		memcpy(o->frames, kernel, o->n_kernel * sizeof(uint64_t));
	if (!r)
		return;
	o->result = r->outcome;
	o->reason = r->reason;
	o->completed = r->completed;
	o->stg = r->stg;
	o->other_stack = r->other_stack;
	o->page_absent = r->outcome == UW_CUT && r->reason != UW_TOO_DEEP && !r->other_stack &&
			 !e->stack_full;
	o->unchecked = r->unchecked;
	o->by_fp = r->by_fp;
	o->lacks_functions = r->lacks_functions;
	o->stack_used = r->stack_used;
	o->read_after_us = r->read_after_us;
	o->stopped_at = r->stopped_at;
	o->n_user = r->n_frames;
	if (r->n_frames)
		memcpy(o->frames + o->n_kernel, r->frames, r->n_frames * sizeof(uint64_t));
}
