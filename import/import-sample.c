/* import-sample.c - the samples of an import: into groups, and out of them.  Thread: main. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "import/import-private.h"

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

/* The CPU's count at the sample, which is in it. */
static int add_weight(struct import *im, uint32_t cpu, uint64_t weight, uint64_t *ret_sum)
{
	uint64_t sum = 0;

	(void)table_get(&im->cpu_counts, cpu, &sum);
	*ret_sum = sum + weight;
	return table_put(&im->cpu_counts, cpu, *ret_sum);
}

/* An address in the page that nothing is mapped in: whatever is found by a register that was not
 * recorded is in no stack and in no module. */
enum { REG_UNKNOWN = 1 };

/* The registers that the engines take, out of more or of less. */
static const uint64_t *choose_regs(struct import_sample *to, const uint64_t *regs, uint64_t has,
				   uint64_t wanted)
{
	size_t n = 0, at = 0;

	if (has == wanted || !regs)
		return regs;
	for (unsigned bit = 0; bit < IMPORT_REGS; bit++) {
		bool there = has >> bit & 1;

		if (wanted >> bit & 1)
			to->regs[n++] = there ? regs[at] : REG_UNKNOWN;
		at += there;
	}
	return to->regs;
}

static bool is_guest(const struct record_sample *s)
{
	return s->cpu_mode == PERF_RECORD_MISC_GUEST_KERNEL ||
	       s->cpu_mode == PERF_RECORD_MISC_GUEST_USER;
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

/* No stack has it: perf recorded no callchain, or for user code none, as that is in the copy. */
static bool lacks_address(const struct import *im, const struct record_sample *s)
{
	return im->kind == IMPORT_ADDRESSES ||
	       (!s->n_chain &&
		(im->kind == IMPORT_CHAINS || s->cpu_mode == PERF_RECORD_MISC_KERNEL));
}

/* Addresses of a virtual machine's guest: what the host has there is something else. */
static void drop_stack(struct import *im, struct entry *e)
{
	im->guests++;
	e->regs = NULL;
	e->stack_full = false;
	e->info.stack_len = 0;
	e->n_chain = 0;
}

/* The snapshot of the mappings. */
static int take_space(struct import *im, struct process *process, struct uw_space **ret_space)
{
	bool is_new = !process->space;
	int r = process_space(im->processes, process, ret_space);

	if (r < 0)
		return trace(r);
	im->groups[im->filling].n_maps += is_new ? (*ret_space)->n_maps : 0;
	(void)uw_space_ref(*ret_space);
	return 0;
}

static int fill(struct import *im, struct import_sample *to, const struct record_sample *s,
		uint64_t regs_mask, struct process *process)
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
	e->regs = choose_regs(to, s->regs_abi ? s->regs : NULL, regs_mask,
			      uw_arch_regs_mask(im->arch));
	if (is_guest(s))
		drop_stack(im, e);
	else if (lacks_address(im, s))
		chain_of_address(to, s);
	e->user_state = has_user_part(im, e);
	r = add_weight(im, s->cpu, s->period, &e->info.count);
	if (r >= 0 && e->user_state)
		r = take_space(im, process, &e->info.space);
	if (r < 0)
		return trace(r);
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

void import_leave_out(struct import *im, uint32_t event)
{
	im->account.received++;
	im->account.skipped[SKIP_NOT_IN_SCOPE]++;
	im->others[event]++;
}

static int take_group(struct import *im, const struct perfdata_item *item,
		      struct record_sample *sample)
{
	uint64_t weight = 0;
	int r = import_take_group(im, item, sample, &weight);

	if (item->event != im->event_index)
		sample->period = weight;
	return r < 0 ? trace(r) : 0;
}

/* false: it is not imported, and has been counted.  A group's leader is a sample of each member too
 * that grew, also where it is left out itself. */
static int is_wanted(struct import *im, const struct perfdata_item *item,
		     struct record_sample *ret_sample)
{
	const bool own = item->event == im->event_index, grouped = import_is_grouped(item->layout);

	if (!own)
		import_leave_out(im, item->event);
	if (!own && !grouped)
		return false;
	if (record_parse_sample(item->layout, item->record, ret_sample) < 0 ||
	    ret_sample->cpu >= IMPORT_CPUS) {
		im->bad++;
		return false;
	}
	if (grouped) {
		int r = take_group(im, item, ret_sample);

		if (r < 0)
			return trace(r);
	}
	if (!own && !ret_sample->period)
		return false;
	if (ret_sample->pid)
		return true;
	im->account.idle_weight += ret_sample->period;
	im->account.idle += !im->options.idle;
	return im->options.idle;
}

int import_take_sample(struct import *im, const struct perfdata_item *item)
{
	struct import_group *g = &im->groups[im->filling];
	struct import_sample *to = &g->samples[g->n];
	struct record_sample s;
	struct process *process = NULL;
	int r;

	r = is_wanted(im, item, &s);
	if (r <= 0) {
		perfdata_put(im->file, item->block);
		return r < 0 ? trace(r) : 0;
	}
	to->block = item->block;
	r = first_sample(im, s.time);
	if (r >= 0)
		r = process_of(im, s.pid, &process);
	if (r >= 0)
		r = fill(im, to, &s, item->layout->regs_mask, process);
	if (r < 0)
		return trace(r);
	im->account.received++;
	im->account.queued++;
	g->n++;
	return g->n == IMPORT_GROUP || g->n_maps > IMPORT_GROUP_MAPS ? import_flush(im) : 0;
}

int import_write_group(struct import *im, struct import_group *g, int r)
{
	for (size_t i = 0; i < g->n; i++) {
		const struct uw_result *result = &g->results[i];
		bool waits = r == -ENOMEM || result->outcome == UW_PENDING;
		int w;

		outcome_fill(im->outcome, &g->samples[i].entry, waits ? NULL : result,
			     waits ? SKIP_MODULE_TIMEOUT : SKIP_NONE);
		w = import_emit(im, im->outcome);
		r = r < 0 ? r : w;
		if (r >= 0)
			r = import_name(im);
		perfdata_put(im->file, g->samples[i].block);
	}
	g->n = g->n_maps = 0;
	if (r >= 0 && im->emit && emit_is_full(im->emit)) {
		r = import_lines(im);
		emit_renew(im->emit);
	}
	if (++im->groups_written % IMPORT_RELEASE == 0)
		process_table_release_ended(im->processes);
	return r < 0 ? trace(r) : 0;
}
