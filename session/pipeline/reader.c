/* reader.c - see reader.h.
 *
 * Giving back: entries are popped by the unwinder in order; main walks the popped slots and hands
 * each record to merge_put(), which moves a ring's tail over what is back without a gap.  When a
 * ring is more than a quarter held, new samples are copied into main's park and their records go
 * back at once, so that a slow moment of the unwinder does not stop the kernel.
 *
 * An entry holds a reference on its process and its space; the outcome that answers it gives them
 * back. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "session/pipeline/reader-private.h"

static size_t sample_bytes(const struct entry *e)
{
	return (e->regs ? uw_arch_regs(e->arch) * sizeof(uint64_t) : 0) +
	       e->n_chain * sizeof(uint64_t) + e->info.stack_len;
}

static void entry_done(struct reader *rd, struct entry *e)
{
	if (e->kind == ENTRY_SPACE) {
		(void)uw_space_unref(e->info.space);
		(void)process_unref(e->info.process);
	}
	if (e->kind != ENTRY_SAMPLE)
		return;
	if (e->block)
		park_free(&rd->copies, e->block, sample_bytes(e));
	else
		merge_put(rd->merge, e->ring, e->position);
}

void reader_take_back(struct reader *rd)
{
	uint64_t consumed = slot_queue_consumed(rd->c.entries);

	for (; rd->reclaimed != consumed; rd->reclaimed++)
		entry_done(rd, slot_queue_at(rd->c.entries, rd->reclaimed));
}

void reader_reclaim(struct reader *rd)
{
	reader_take_back(rd);
	if (rd->n_control) {
		reader_control_retry(rd);
		reader_wake_unwinder(rd);
	}
}

bool reader_idle(const struct reader *rd)
{
	return !rd->has_waiting && !rd->n_control && rd->reclaimed == rd->c.entries->filled;
}

/* ---- samples ---- */

static bool in_scope(const struct reader *rd, uint32_t pid)
{
	uint64_t v;

	return !rd->options.n_only_pids || table_get(&rd->scope, pid, &v);
}

static enum uw_arch arch_of(const struct record_sample *s)
{
	return s->regs_abi == PERF_SAMPLE_REGS_ABI_64 ? UW_ARCH_HOST : UW_ARCH_NONE;
}

/* Copies the sample's bytes out of a ring that runs full. */
static void copy_out(struct reader *rd, struct entry *e, const struct merge_item *item)
{
	size_t regs = sample_bytes(e) - e->n_chain * sizeof(uint64_t) - e->info.stack_len;
	uint8_t *block = park_alloc(&rd->copies, sample_bytes(e));

	if (!block)
		return; /* stays in the ring */
	e->block = block;
	if (e->regs)
		e->regs = memcpy(block, e->regs, regs);
	block += regs;
	if (e->n_chain)
		e->chain = memcpy(block, e->chain, e->n_chain * sizeof(uint64_t));
	block += e->n_chain * sizeof(uint64_t);
	if (e->info.stack_len)
		e->stack = memcpy(block, e->stack, e->info.stack_len);
	rd->c.account->copied++;
	merge_put(rd->merge, item->ring, item->position);
}

static bool has_user_part(const struct reader *rd, const struct entry *e)
{
	if (!rd->options.user_frames)
		return false;
	return rd->options.by_callchain ? e->n_chain > 0 : entry_has_user_copy(e);
}

static void fill_info(const struct reader *rd, const struct merge_item *item,
		      const struct record_sample *s, struct process *process,
		      struct sample_info *info)
{
	*info = (struct sample_info){
		.process = process,
		.time = s->time,
		.weight = s->period,
		.count = rd->cpus[item->ring].count,
		.pid = s->pid,
		.tid = s->tid,
		.cpu = perf_source_ring(rd->c.source, item->ring)->cpu,
		.stack_len = s->stack_len,
		.cpu_mode = s->cpu_mode,
		.n_followers = (uint8_t)(s->n_counts > 1 ? s->n_counts - 1 : 0),
	};
	for (uint32_t i = 1; i < s->n_counts && i < SAMPLE_MAX_COUNTS; i++)
		info->followers[i - 1] = s->counts[i];
}

static void fill_entry(struct reader *rd, struct entry *e, const struct merge_item *item,
		       const struct record_sample *s, struct process *process)
{
	struct cpu_state *cpu = &rd->cpus[item->ring];

	*e = (struct entry){
		.kind = ENTRY_SAMPLE,
		.stack_full = s->stack_len == s->stack_room,
		.arch = (uint8_t)arch_of(s),
		.ring = item->ring,
		.position = item->position,
		.regs = s->regs_abi ? s->regs : NULL,
		.stack = s->stack,
		.chain = s->chain,
		.n_chain = (uint32_t)s->n_chain,
		.undecided = reader_scope_of(rd, process) == PROCESS_UNDECIDED,
	};
	fill_info(rd, item, s, process_ref(process), &e->info);
	e->user_state = has_user_part(rd, e);
	rd->enqueued_bytes += s->stack_len;
	cpu->use.samples += s->stack_room != 0;
	cpu->use.full += s->stack_room && e->stack_full;
	cpu->use.over_half += s->stack_len > s->stack_room / 2;
}

/* The mappings to unwind with; NULL while they are on their way (the sample will wait). */
static int attach_space(struct reader *rd, struct entry *e, struct process *process)
{
	int r;

	if (!e->user_state || (e->undecided && !reader_may_open(rd, process))) {
		if (e->undecided && !process->names_asked)
			process->names_asked = reader_ask(rd, LOAD_NAMES, process, 0);
		return 0;
	}
	if (process->maps_state == PROCESS_MAPS_UNKNOWN ||
	    (process->unsure && process->maps_state != PROCESS_MAPS_ASKED))
		reader_ask_maps(rd, process);
	else if (!process->names_asked)
		/* its records told the mappings; the command line and memory are asked for */
		process->names_asked = reader_ask(rd, LOAD_NAMES, process, 0);
	process->names_asked |= process->maps_state == PROCESS_MAPS_ASKED;
	if (process->maps_state == PROCESS_MAPS_ASKED && !process->maps_read_at)
		return 0;
	r = process_space(rd->c.processes, process, &e->info.space);
	if (r < 0)
		return trace(r);
	(void)uw_space_ref(e->info.space);
	return 0;
}

/* A count of something that is not sampled into the trace. */
static int leave_out(struct reader *rd, const struct merge_item *item, uint64_t *counter)
{
	(*counter)++;
	merge_put(rd->merge, item->ring, item->position);
	return 0;
}

/* One that is told to the trace, but has no stack. */
static int skip_sample(struct reader *rd, const struct merge_item *item,
		       const struct record_sample *s, struct process *process, enum skip_reason why)
{
	struct account *account = rd->c.account;
	struct sample_info info;
	int r = 0;

	account->received++;
	account->skipped[why]++;
	if (rd->c.left_out) {
		rd->cpus[item->ring].count += s->period;
		fill_info(rd, item, s, process, &info);
		r = rd->c.left_out(rd->c.arg, &info, why);
	}
	merge_put(rd->merge, item->ring, item->position);
	return r < 0 ? trace(r) : 0;
}

enum { QUEUE_FULL = 1 };

static int take_sample(struct reader *rd, const struct merge_item *item)
{
	const struct perf_ring *ring = perf_source_ring(rd->c.source, item->ring);
	struct account *account = rd->c.account;
	struct record_sample s;
	enum skip_reason why;
	struct process *process;
	struct entry *e;
	int r;

	r = record_parse_sample(&ring->layout, item->record, &s);
	if (r < 0)
		return trace(r);
	if (!s.pid)
		account->idle_weight += s.period;
	if (!s.pid && !rd->options.idle)
		return leave_out(rd, item, &account->idle);
	if (!in_scope(rd, s.pid)) {
		account->received++;
		return leave_out(rd, item, &account->skipped[SKIP_NOT_IN_SCOPE]);
	}
	if (perf_source_is_double(rd->c.source, item->ring, s.id, s.time) ||
	    perf_source_is_inherited_double(rd->c.source, s.id, (pid_t)s.tid)) {
		account->received++;
		return leave_out(rd, item, &account->skipped[SKIP_DOUBLE]);
	}
	process = process_get(rd->c.processes, s.pid);
	if (!process)
		return fail(-ENOMEM);
	why = reader_leaves_out(rd, process, &s);
	if (why)
		return skip_sample(rd, item, &s, process, why);
	e = reader_entry_push(rd);
	if (!e)
		return QUEUE_FULL;
	account->received++;
	account->queued++;
	rd->cpus[item->ring].count += s.period;
	fill_entry(rd, e, item, &s, process);
	r = attach_space(rd, e, process);
	if (r < 0)
		return trace(r);
	if (ring_held(ring->ring) > ring_size(ring->ring) / 4)
		copy_out(rd, e, item);
	return 0;
}

static int take_event(struct reader *rd, const struct merge_item *item)
{
	const struct perf_ring *ring = perf_source_ring(rd->c.source, item->ring);
	struct record_event event;
	int r = record_parse_event(&ring->layout, item->record, &event);

	if (r == RECORD_UNKNOWN) {
		rd->c.account->unknown_records++;
		r = 0;
	} else if (r == 0) {
		r = reader_apply(rd, item->ring, ring->sideband, &event);
	}
	merge_put(rd->merge, item->ring, item->position);
	return r < 0 ? trace(r) : 0;
}

static int take_item(struct reader *rd, const struct merge_item *item)
{
	return item->record->type == PERF_RECORD_SAMPLE ? take_sample(rd, item)
							: take_event(rd, item);
}

static void tell_raw(const struct reader *rd, const struct merge_item *item)
{
	if (rd->c.raw)
		rd->c.raw(rd->c.arg, perf_source_ring(rd->c.source, item->ring)->sideband,
			  item->record);
}

int reader_round(struct reader *rd, bool *ret_more)
{
	int r;

	*ret_more = false;
	reader_reclaim(rd);
	if (!rd->has_waiting) {
		rd->rounds++;
		r = merge_begin(rd->merge, clock_ns(rd->options.clock));
		if (r < 0)
			return trace(r);
	}
	for (;;) {
		if (!rd->has_waiting) {
			r = merge_next(rd->merge, &rd->waiting);
			if (r < 0)
				return trace(r);
			if (r == MERGE_DONE)
				break;
			tell_raw(rd, &rd->waiting);
		}
		r = take_item(rd, &rd->waiting);
		rd->has_waiting = r == QUEUE_FULL;
		if (r < 0)
			return trace(r);
		if (rd->has_waiting) {
			*ret_more = true;
			break;
		}
	}
	if (rd->c.raw)
		rd->c.raw(rd->c.arg, false, NULL);
	reader_wake_unwinder(rd);
	if (!rd->scans_in_flight)
		reader_scan_more(rd);
	return 0;
}

uint64_t reader_rounds(const struct reader *rd)
{
	return rd->rounds;
}

void reader_let_all_go(struct reader *rd)
{
	merge_finish(rd->merge);
}

size_t reader_stack_use(struct reader *rd, struct reader_stack_use *ret, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < rd->n_rings && n < max; i++) {
		const struct perf_ring *ring = perf_source_ring(rd->c.source, i);

		if (ring->sideband)
			continue;
		ret[n] = rd->cpus[i].use;
		ret[n++].cpu = ring->cpu;
		rd->cpus[i].use = (struct reader_stack_use){0};
	}
	return n;
}

int reader_new(const struct reader_options *options, const struct reader_context *context,
	       struct reader **ret_reader)
{
	struct reader *rd = calloc(1, sizeof(*rd));
	int r;

	if (!rd)
		return fail(-ENOMEM);
	rd->options = *options;
	rd->c = *context;
	rd->merge = perf_source_merge(context->source);
	rd->n_rings = perf_source_n_rings(context->source);
	rd->cpus = calloc(rd->n_rings ? rd->n_rings : 1, sizeof(*rd->cpus));
	r = rd->cpus ? park_init(&rd->copies, options->copy_bytes) : -ENOMEM;
	for (size_t i = 0; i < options->n_only_pids && r >= 0; i++)
		r = table_put(&rd->scope, options->only_pids[i], 1);
	if (r < 0) {
		(void)reader_free(rd);
		return fail(r);
	}
	*ret_reader = rd;
	return 0;
}

void reader_entry_drop(const struct entry *e)
{
	(void)uw_space_unref(e->info.space);
	(void)process_unref(e->info.process);
	if (e->kind == ENTRY_EVICT)
		(void)uw_module_unref(e->module);
}

/* Those that the unwinder has popped are answered: only the references of control entries are left.
 */
static void drop_entries(struct reader *rd)
{
	struct slot_queue *entries = rd->c.entries;

	for (; rd->reclaimed != entries->filled; rd->reclaimed++) {
		const struct entry *e = slot_queue_at(entries, rd->reclaimed);

		if (rd->reclaimed >= slot_queue_consumed(entries) || e->kind == ENTRY_SPACE)
			reader_entry_drop(e);
	}
	for (size_t i = 0; i < rd->n_control; i++)
		reader_entry_drop(&rd->control[i]);
}

struct reader *reader_free(struct reader *rd)
{
	if (!rd)
		return NULL;
	reader_consent_deinit(rd);
	drop_entries(rd);
	park_deinit(&rd->copies);
	table_deinit(&rd->scope);
	free(rd->control);
	free(rd->scan);
	(void)procfs_pids_free(rd->scan_from);
	free(rd->cpus);
	free(rd);
	return NULL;
}
