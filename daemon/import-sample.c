/* import-sample.c - the samples of an import, in batches.  Thread: main.
 *
 * A batch is unwound, what waits for a module is unwound again once that is loaded, and all are
 * written in the order in which they came. */
#include <errno.h>
#include <string.h>

#include "daemon/base/error.h"
#include "daemon/import-private.h"
#include "unwinder/module.h"

/* The mappings of another time are known from records, or not at all. */
static int process_of(struct import *im, uint32_t pid, struct process **ret_process)
{
	struct process *process = process_get(im->processes, pid);

	if (!process)
		return fail(-ENOMEM);
	process->maps_state = PROCESS_MAPS_KNOWN;
	process->maps_read_at = 1;
	*ret_process = process;
	return 0;
}

static int add_weight(struct import *im, uint32_t cpu, uint64_t weight, uint64_t *ret_before)
{
	uint64_t sum = 0;

	(void)table_get(&im->cpu_counts, cpu, &sum);
	*ret_before = sum;
	return table_put(&im->cpu_counts, cpu, sum + weight);
}

/* The registers that the engines take, out of more. */
static const uint64_t *choose_regs(struct import_sample *to, const uint64_t *regs, uint64_t has,
				   uint64_t wanted)
{
	size_t n = 0, at = 0;

	if (has == wanted || !regs)
		return regs;
	for (unsigned bit = 0; bit < IMPORT_REGS; bit++) {
		if (!(has >> bit & 1))
			continue;
		if (wanted >> bit & 1)
			to->regs[n++] = regs[at];
		at++;
	}
	return to->regs;
}

/* One address as a callchain. */
static void chain_of_address(struct import_sample *to, const struct record_sample *s)
{
	to->chain[0] = s->cpu_mode == PERF_RECORD_MISC_KERNEL ? CHAIN_KERNEL : CHAIN_USER;
	to->chain[1] = s->ip;
	to->entry.chain = to->chain;
	to->entry.n_chain = 2;
}

static bool has_user_part(const struct import *im, const struct entry *e)
{
	uint32_t n;

	if (im->kind != IMPORT_STACKS)
		return entry_chain_part(e, CHAIN_USER, &n) && n;
	return entry_has_user_copy(e);
}

static int fill(struct import *im, struct import_sample *to, const struct record_sample *s,
		struct process *process)
{
	struct entry *e = &to->entry;
	int r;

	*e = (struct entry){
		.kind = ENTRY_SAMPLE,
		.stack_full = s->stack_len == s->stack_room,
		.arch = (uint8_t)(s->regs_abi == PERF_SAMPLE_REGS_ABI_64 ? im->arch : UW_ARCH_NONE),
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
	e->regs = choose_regs(to, s->regs_abi ? s->regs : NULL, im->event->layout.regs_mask,
			      uw_arch_regs_mask(im->arch));
	if (im->kind == IMPORT_ADDRESSES ||
	    (im->kind == IMPORT_STACKS && !s->n_chain && s->cpu_mode == PERF_RECORD_MISC_KERNEL))
		chain_of_address(to, s);
	e->user_state = has_user_part(im, e);
	r = add_weight(im, s->cpu, s->period, &e->info.count);
	if (r >= 0 && e->user_state)
		r = process_space(im->processes, process, &e->info.space);
	if (r < 0)
		return trace(r);
	if (e->info.space)
		(void)uw_space_ref(e->info.space);
	e->info.process = process_ref(process);
	return 0;
}

/* Its time goes into the trace's head. */
static int first_sample(struct import *im, uint64_t time)
{
	int r = im->emit ? 0 : import_start_trace(im, time);

	im->first_time = im->first_time ? im->first_time : time;
	im->last_time = max_u64(im->last_time, time);
	return r;
}

/* false: it is not imported, and has been counted. */
static bool is_wanted(struct import *im, const struct perfdata_item *item,
		      struct record_sample *ret_sample)
{
	if (item->event != im->event_index) {
		im->account.received++;
		im->account.skipped[SKIP_NOT_IN_SCOPE]++;
		im->others[item->event]++;
		return false;
	}
	if (record_parse_sample(item->layout, item->record, ret_sample) < 0) {
		im->bad++;
		return false;
	}
	if (ret_sample->pid)
		return true;
	im->account.idle_weight += ret_sample->period;
	im->account.idle += !im->options.idle;
	return im->options.idle;
}

int import_take_sample(struct import *im, const struct perfdata_item *item)
{
	struct import_sample *to = &im->batch[im->n_batch];
	struct record_sample s;
	struct process *process = NULL;
	int r;

	if (!is_wanted(im, item, &s)) {
		perfdata_put(im->file, item->block);
		return 0;
	}
	to->block = item->block;
	r = first_sample(im, s.time);
	if (r >= 0)
		r = process_of(im, s.pid, &process);
	if (r >= 0)
		r = fill(im, to, &s, process);
	if (r < 0)
		return trace(r);
	im->account.received++;
	im->account.queued++;
	im->n_batch++;
	return im->n_batch == UW_BATCH ? import_flush(im) : 0;
}

/* ---- unwinding ---- */

int import_serve(struct import *im)
{
	struct load_answer a;
	int r = 0;

	while (r >= 0 && loader_answer(im->loader, &a)) {
		if (a.request.kind == LOAD_UNWIND && a.error)
			log_verbose("%s: cannot be read: %s", uw_module_path(a.request.module),
				    strerror(-a.error));
		else if (a.request.kind == LOAD_UNWIND && !a.proved &&
			 uw_module_kind(a.request.module) == UW_MODULE_FILE)
			log_verbose("%s: not proved to be the file that was mapped",
				    uw_module_path(a.request.module));
		r = emit_answer(im->emit, &a);
		load_answer_deinit(&a);
	}
	return r < 0 ? trace(r) : 0;
}

static int load(struct import *im, struct uw_module *module, const struct process *process)
{
	const struct load_request request = loader_module_request(process, module);

	uw_engine_renew(im->engine, module);
	if (!uw_module_want_unwind(module))
		return 0;
	/* Ours is the one of the kernel that runs. */
	if (uw_module_kind(module) == UW_MODULE_MEMORY && !im->same_kernel) {
		uw_module_set_unreadable(module);
		return 0;
	}
	(void)uw_module_ref(module);
	if (!loader_ask(im->loader, &request))
		(void)uw_module_unref(module);
	return import_serve(im);
}

/* Unwinds those of @todo (indexes into the batch); *n is then how many still wait, first in @todo.
 */
static int unwind_once(struct import *im, size_t *todo, size_t *n)
{
	struct uw_result packed[UW_BATCH];
	size_t left = 0;
	int r;

	for (size_t i = 0; i < *n; i++) {
		entry_snapshot(&im->batch[todo[i]].entry, &im->snapshots[i]);
		packed[i] = (struct uw_result){.frames = im->frames[todo[i]],
					       .max_frames = UW_MAX_FRAMES};
	}
	r = uw_unwind_batch(im->engine, im->snapshots, *n, packed);
	for (size_t i = 0; i < *n && r >= 0; i++) {
		const struct entry *e = &im->batch[todo[i]].entry;

		if (im->kind != IMPORT_STACKS || im->options.engine == UW_ENGINE_FP_COPY)
			entry_need_modules(&im->snapshots[i], &packed[i]);
		im->results[todo[i]] = packed[i];
		if (packed[i].outcome != UW_PENDING)
			continue;
		r = load(im, packed[i].pending, e->info.process);
		todo[left++] = todo[i];
	}
	*n = left;
	return r < 0 ? trace(r) : 0;
}

static int unwind(struct import *im)
{
	size_t todo[UW_BATCH], n = 0;
	uint64_t passes = 0;
	int r = 0;

	for (size_t i = 0; i < im->n_batch; i++) {
		im->results[i] = (struct uw_result){.frames = im->frames[i]};
		if (im->batch[i].entry.user_state)
			todo[n++] = i;
	}
	/* Each pass loads a module, or finds that it cannot be had: a stack has at most as many. */
	while (n && r >= 0 && passes++ < UW_MAX_FRAMES)
		r = unwind_once(im, todo, &n);
	return r < 0 ? trace(r) : 0;
}

static int write_sample(struct import *im, size_t i)
{
	const struct entry *e = &im->batch[i].entry;
	bool waits = im->results[i].outcome == UW_PENDING;

	outcome_fill(im->outcome, e, waits ? NULL : &im->results[i],
		     waits ? SKIP_MODULE_TIMEOUT : SKIP_NONE);
	return import_emit(im, im->outcome);
}

int import_flush(struct import *im)
{
	int r = unwind(im), w;

	for (size_t i = 0; i < im->n_batch; i++) {
		if (r == -ENOMEM)
			im->results[i].outcome = UW_PENDING;
		w = write_sample(im, i);
		r = r < 0 ? r : w;
		perfdata_put(im->file, im->batch[i].block);
	}
	im->n_batch = 0;
	if (r >= 0)
		r = import_serve(im); /* names of JIT code */
	return r < 0 ? trace(r) : 0;
}
