/* import-records.c - a file of `perf record` as the reader's source of records (record-source.h): the samples of the event that
 * is imported, in the registers of the engines, and mappings with their build ids.  Thread: main.
 *
 * What is due between two records is done when the next one is asked for: a full group is unwound, and memory kept small. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/error.h"
#include "import/import-private.h"

/* A sample of an event that is not imported. */
static void leave_out(struct import *im, uint32_t event)
{
	im->account.received++;
	im->account.skipped[SKIP_NOT_IN_SCOPE]++;
	im->others[event]++;
}

/* ---- groups of events: `perf record -e '{a,b}:S'` ----
 *
 * Only the leader has samples; each contains the counts of all members at that time.  As in `perf
 * script`, a member with a count that has grown since the leader's previous sample gets a sample too, with
 * the leader's stack and the growth as its weight.
 *
 * An id belongs to an event on one CPU or of one task, so the last count is kept by id.  Where
 * children inherited the event (Linux 6.12) all have its id and count separately: the last count is
 * kept by id and thread. */

enum { VALUE, ID }; /* words of a member */
enum { SKIPPED = 1 };

static uint64_t stream_of(const struct import *im, const struct perfdata_item *item,
			  const struct record_sample *sample, uint64_t id)
{
	const struct perfdata_event *leader = &perfdata_info(im->file)->events[item->event];

	return leader->attr.inherit ? id << 32 ^ sample->tid : id;
}

/* A value that fell is damaged or out of order: the highest one counts.  -E2BIG: no recording has so
 * many threads. */
static int grow(struct table *values, uint64_t stream, uint64_t value, uint64_t *ret_by)
{
	uint64_t last = 0;

	*ret_by = 0;
	if (!table_get(values, stream, &last) && values->n_used >= PERFDATA_MAX_IDS)
		return fail(-E2BIG);
	if (value <= last)
		return 0;
	*ret_by = value - last;
	return table_put(values, stream, value);
}

/* By how much the event that is imported grew since the sample before, where it is another one of
 * the group; what the others grew by is counted as left out. */
static int take_members(struct import *im, const struct perfdata_item *item,
			const struct record_sample *sample, uint64_t *ret_weight)
{
	const uint64_t format = item->layout->read_format;
	const size_t words = format & PERFWIND_FORMAT_LOST ? 3 : 2; /* value id [lost] */
	const uint64_t n = format & PERF_FORMAT_ID ? sample->n_group : 0;
	bool strange = n < sample->n_group;

	*ret_weight = 0;
	for (uint64_t i = 0; i < n; i++) {
		const uint64_t *member = sample->group + i * words;
		uint32_t event;
		uint64_t by;
		int r;

		if (!perfdata_event_of_id(im->file, member[ID], &event)) {
			strange = true;
			continue;
		}
		if (event == item->event)
			continue; /* it has the sample itself */
		r = grow(&im->group_values, stream_of(im, item, sample, member[ID]), member[VALUE],
			 &by);
		if (r < 0 && r != -E2BIG)
			return trace(r);
		strange |= r < 0;
		if (by && event == im->event_index)
			*ret_weight += by;
		else if (by)
			leave_out(im, event);
	}
	im->grouped += strange;
	return 0;
}

/* ---- samples ---- */

/* An address in the page at 0, where nothing is mapped: memory found by a register that was not
 * recorded is in no stack and in no module. */
enum { REG_UNKNOWN = 1 };

/* The registers that the engines take, out of those recorded. */
static const uint64_t *choose_regs(struct import_place *to, const uint64_t *regs, uint64_t has,
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
static void chain_of_address(struct import_place *to, struct record_sample *s)
{
	to->chain[0] = s->cpu_mode == PERF_RECORD_MISC_KERNEL ? CHAIN_KERNEL : CHAIN_USER;
	to->chain[1] = s->ip;
	s->chain = to->chain;
	s->n_chain = 2;
}

/* The address is in no callchain: perf recorded none, or none for user code, which is in the copy. */
static bool lacks_address(const struct import *im, const struct record_sample *s)
{
	return im->kind == IMPORT_ADDRESSES ||
	       (!s->n_chain &&
		(im->kind == IMPORT_CHAINS || s->cpu_mode == PERF_RECORD_MISC_KERNEL));
}

/* The addresses are a virtual machine guest's: the host has other code there. */
static void drop_stack(struct import *im, struct record_sample *s)
{
	im->guests++;
	s->regs_abi = 0;
	s->stack_len = 0;
	s->n_chain = 0;
}

/* The sample has the counts of all its group (:S). */
static bool is_grouped(const struct record_layout *layout)
{
	return layout->sample_type & PERF_SAMPLE_READ && layout->read_format & PERF_FORMAT_GROUP;
}

/* False: the sample is not imported, and has been counted.  A sample of a group's leader is also one of
 * each member with a count that grew, even if the leader itself is not imported. */
static int is_wanted(struct import *im, const struct perfdata_item *item,
		     struct record_sample *ret_sample)
{
	const bool own = item->event == im->event_index, grouped = is_grouped(item->layout);
	uint64_t weight = 0;
	int r;

	if (!own)
		leave_out(im, item->event);
	if (!own && !grouped)
		return false;
	if (record_parse_sample(item->layout, item->record, ret_sample) < 0 ||
	    ret_sample->cpu >= IMPORT_CPUS) {
		im->bad++;
		return false;
	}
	r = grouped ? take_members(im, item, ret_sample, &weight) : 0;
	if (r < 0)
		return trace(r);
	if (!own)
		ret_sample->period = weight;
	return own || weight;
}

/* The time of the first sample goes into the head of the trace. */
static int first_sample(struct import *im, uint64_t time)
{
	int r = im->emit ? 0 : import_start_trace(im, time);

	im->first_time = im->first_time ? im->first_time : time;
	im->last_time = max_u64(im->last_time, time);
	return r;
}

static int take_sample(struct import *im, const struct perfdata_item *item, struct record_item *to)
{
	struct import_place *place = &im->places[im->entries.filled & im->entries.mask];
	struct record_sample *s = &to->sample;
	int r = is_wanted(im, item, s);

	if (r <= 0)
		return r < 0 ? trace(r) : SKIPPED;
	s->n_counts = 0;
	s->regs = choose_regs(place, s->regs_abi ? s->regs : NULL, item->layout->regs_mask,
			      uw_arch_regs_mask(im->arch));
	if (is_guest(s))
		drop_stack(im, s);
	else if (lacks_address(im, s))
		chain_of_address(place, s);
	to->kind = RECORD_SAMPLE;
	to->ring = to->cpu = s->cpu;
	return s->pid || im->options.idle ? first_sample(im, s->time) : 0;
}

/* ---- other records ---- */

/* The emitter remembers the last two names of a thread: before a third one, samples that wait are written. */
static int drain_before_comm(struct import *im, const struct record_event *e)
{
	const struct process *process = process_find(im->processes, e->pid);
	const struct process_thread *thread =
		process ? table_pointer(&process->threads, e->tid) : NULL;

	return thread && thread->renamed_at >= im->first_time ? import_drain(im) : 0;
}

/* SKIPPED: it is not for the reader. */
static int take_event(struct import *im, const struct perfdata_item *item, struct record_item *to)
{
	struct record_event *e = &to->event;
	int r = record_parse_event(item->layout, item->record, e);
	bool bad = r < 0;

	to->kind = RECORD_EVENT;
	if (r != 0) {
		im->bad += bad;
		return SKIPPED;
	}
	switch (e->type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		bad = strlen(e->mmap.path) >= PATH_MAX; /* none of the kernel's */
		if (!bad && e->pid == UINT32_MAX)
			import_kernel_mmap(im, e);
		else if (!bad)
			import_file_id(im, e);
		break;
	case PERFWIND_RECORD_LOST_SAMPLES:
		im->counts.lost_exact = true;
		if (item->event == im->event_index)
			im->counts.lost_samples += e->lost.count;
		return SKIPPED;
	case PERF_RECORD_LOST:
		e->time = item->time;
		break;
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE:
		bad = e->cpu >= IMPORT_CPUS;
		break;
	case PERFWIND_RECORD_KSYMBOL:
		r = import_drain(im); /* earlier samples use the earlier names */
		if (r >= 0)
			r = import_kernel_ksymbol(im, e);
		return r < 0 ? trace(r) : SKIPPED;
	case PERF_RECORD_COMM:
		r = e->comm.exec ? 0 : drain_before_comm(im, e);
		break;
	default:
		break;
	}
	im->bad += bad;
	to->cpu = e->cpu;
	to->ring = e->cpu < IMPORT_CPUS ? e->cpu : 0;
	return r < 0 ? trace(r) : bad ? SKIPPED : 0;
}

/* ---- the source ---- */

static int take_record(struct import *im, const struct perfdata_item *item, struct record_item *to)
{
	to->record = item->record;
	to->from = NULL;
	to->position = item->block;
	return item->record->type == PERF_RECORD_SAMPLE ? take_sample(im, item, to)
							: take_event(im, item, to);
}

/* What is due after a record. */
static int between(struct import *im)
{
	int r = import_filling(im) == IMPORT_GROUP ? import_flush(im) : 0;

	return r < 0 ? trace(r) : import_keep_small(im);
}

static int next(void *arg, struct record_item *to)
{
	struct import *im = arg;
	struct perfdata_item item;
	int r;

	for (;;) {
		r = between(im);
		if (r < 0)
			return trace(r);
		item = im->first;
		r = item.record ? 0 : perfdata_next(im->file, &item);
		im->first.record = NULL;
		if (r != 0) {
			im->unreadable = r < 0 ? r : 0;
			return r < 0 ? trace(r) : RECORDS_DONE;
		}
		r = take_record(im, &item, to);
		if (r == 0)
			return 0;
		perfdata_put(im->file, item.block);
		if (r < 0)
			return trace(r);
	}
}

static void put(void *arg, uint32_t ring, uint64_t position)
{
	struct import *im = arg;

	(void)ring;
	perfdata_put(im->file, (uint32_t)position);
}

struct record_source import_records(struct import *im)
{
	return (struct record_source){.next = next, .put = put, .arg = im};
}
