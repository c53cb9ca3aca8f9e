/* record-sample.c - the samples' half of record.h.
 *
 * A record is a header and 64-bit words.  A sample's fields stand in the order below, each there
 * when its sample_type bit is set (linux/perf_event.h, PERF_RECORD_SAMPLE; CGROUP and the place of
 * AUX are as the kernel writes them, where the header's comment is older):
 *
 *   IDENTIFIER IP TID TIME ADDR ID STREAM_ID CPU PERIOD    a word each: one bounds check for all
 *   READ CALLCHAIN RAW BRANCH_STACK REGS_USER STACK_USER   of variable length
 *   WEIGHT DATA_SRC TRANSACTION REGS_INTR PHYS_ADDR CGROUP DATA_PAGE_SIZE CODE_PAGE_SIZE AUX
 *
 * This is hot: no memset, and no look at the stack's bytes but the word behind them (dyn_size). */
#include <errno.h>

#include "base/error.h"
#include "perf/record-words.h"

#define SAMPLE_SINGLES                                                                  \
	(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | \
	 PERF_SAMPLE_ADDR | PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU |  \
	 PERF_SAMPLE_PERIOD)
#define SAMPLE_BEHIND_STACK                                                         \
	(PERF_SAMPLE_WEIGHT_TYPE | PERF_SAMPLE_DATA_SRC | PERF_SAMPLE_TRANSACTION | \
	 PERF_SAMPLE_REGS_INTR | PERF_SAMPLE_PHYS_ADDR | PERF_SAMPLE_CGROUP |       \
	 PERF_SAMPLE_DATA_PAGE_SIZE | PERF_SAMPLE_CODE_PAGE_SIZE | PERF_SAMPLE_AUX)
#define SAMPLE_KNOWN ((1ull << 25) - 1)

enum {
	SINGLES_MAX = 9,
	BRANCH_HW_INDEX = 1 << 17, /* PERF_SAMPLE_BRANCH_HW_INDEX, 5.7 */
	BRANCH_COUNTERS = 1 << 19, /* PERF_SAMPLE_BRANCH_COUNTERS, 6.8 */
};

static bool parse_singles(const struct record_layout *layout, struct words *w,
			  struct record_sample *sample)
{
	uint64_t type = layout->sample_type;
	const uint64_t *p = w->p;
	uint64_t id = 0, tid = 0;

	if (words_left(w) < SINGLES_MAX && words_left(w) < count_bits(type & SAMPLE_SINGLES))
		return false;
	if (type & PERF_SAMPLE_IDENTIFIER)
		id = *p++;
	sample->ip = type & PERF_SAMPLE_IP ? *p++ : 0;
	if (type & PERF_SAMPLE_TID)
		tid = *p++;
	sample->pid = low_half(tid);
	sample->tid = high_half(tid);
	sample->time = type & PERF_SAMPLE_TIME ? *p++ : 0;
	p += one_if(type, PERF_SAMPLE_ADDR);
	if (type & PERF_SAMPLE_ID)
		id = *p++;
	sample->id = id;
	p += one_if(type, PERF_SAMPLE_STREAM_ID);
	sample->cpu = type & PERF_SAMPLE_CPU ? low_half(*p++) : 0;
	sample->period = type & PERF_SAMPLE_PERIOD ? *p++ : layout->period;
	w->p = p;
	return true;
}

/*   single: value [enabled] [running] [id] [lost]
 *   group:  nr [enabled] [running] { value [id] [lost] } x nr */
static bool parse_read(uint64_t format, struct words *w, struct record_sample *sample)
{
	const size_t n_times = count_bits(
		format & (PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING));
	const size_t n_extra = count_bits(format & (PERF_FORMAT_ID | PERFWIND_FORMAT_LOST));
	const uint64_t *p = words_take(w, 1 + n_times);
	uint64_t n = 1;

	if (!p)
		return false;
	if (format & PERF_FORMAT_GROUP)
		n = p[0];
	else
		sample->counts[0] = p[0];
	p++;
	if (format & PERF_FORMAT_TOTAL_TIME_ENABLED)
		sample->enabled_ns = *p++;
	if (format & PERF_FORMAT_TOTAL_TIME_RUNNING)
		sample->running_ns = *p++;
	sample->n_counts = (uint32_t)min_u64(n, ARRAY_SIZE(sample->counts));
	if (!(format & PERF_FORMAT_GROUP))
		return words_take(w, n_extra) != NULL;

	if (n > words_left(w) / (1 + n_extra))
		return false;
	p = words_take(w, n * (1 + n_extra));
	sample->group = p;
	sample->n_group = n;
	for (size_t i = 0; i < sample->n_counts; i++)
		sample->counts[i] = p[i * (1 + n_extra)];
	return true;
}

static bool parse_chain(struct words *w, struct record_sample *sample)
{
	const uint64_t *n = words_take(w, 1);

	if (!n)
		return false;
	sample->n_chain = *n;
	sample->chain = words_take(w, *n);
	return sample->chain != NULL;
}

/* u32 size, then as many bytes; the kernel sees to it that both end on a word. */
static bool skip_raw(struct words *w)
{
	uint64_t bytes;

	if (words_left(w) < 1)
		return false;
	bytes = sizeof(uint32_t) + (uint64_t)low_half(*w->p);
	return bytes % WORD == 0 && words_take(w, bytes / WORD);
}

/* nr [hw_idx] { from to flags } x nr [counters x nr] */
static bool skip_branches(uint64_t branch_type, struct words *w)
{
	const uint64_t per_branch = branch_type & BRANCH_COUNTERS ? 4 : 3;
	const uint64_t *n = words_take(w, 1);

	if (!n || (branch_type & BRANCH_HW_INDEX && !words_take(w, 1)))
		return false;
	return *n <= words_left(w) / per_branch && words_take(w, *n * per_branch);
}

static bool take_regs(uint64_t mask, struct words *w, uint64_t *ret_abi, const uint64_t **ret_regs)
{
	const uint64_t *abi = words_take(w, 1);

	if (!abi || *abi > PERF_SAMPLE_REGS_ABI_64)
		return false;
	*ret_abi = *abi;
	*ret_regs = NULL;
	if (*abi != PERF_SAMPLE_REGS_ABI_NONE)
		*ret_regs = words_take(w, count_bits(mask));
	return *abi == PERF_SAMPLE_REGS_ABI_NONE || *ret_regs;
}

/* size bytes[size] dyn_size, or just size when that is 0 */
static bool parse_stack(struct words *w, struct record_sample *sample)
{
	const uint64_t *room = words_take(w, 1), *bytes, *len;

	if (!room)
		return false;
	if (*room == 0)
		return true;
	bytes = *room % WORD == 0 ? words_take(w, *room / WORD) : NULL;
	len = bytes ? words_take(w, 1) : NULL;
	if (!len || *len > *room)
		return false;
	sample->stack = (const uint8_t *)bytes;
	sample->stack_room = (uint32_t)*room; /* fits: it lies inside a record of 16-bit size */
	sample->stack_len = (uint32_t)*len;
	return true;
}

static bool parse_behind_stack(const struct record_layout *layout, struct words *w,
			       struct record_sample *sample)
{
	const uint64_t type = layout->sample_type, *regs, *p;
	uint64_t abi;

	/* WEIGHT and WEIGHT_STRUCT are two readings of one word. */
	if (!words_take(w, one_if(type, PERF_SAMPLE_WEIGHT_TYPE) +
				   one_if(type, PERF_SAMPLE_DATA_SRC) +
				   one_if(type, PERF_SAMPLE_TRANSACTION)))
		return false;
	if (type & PERF_SAMPLE_REGS_INTR && !take_regs(layout->regs_intr_mask, w, &abi, &regs))
		return false;
	if (type & PERF_SAMPLE_PHYS_ADDR && !words_take(w, 1))
		return false;
	if (type & PERF_SAMPLE_CGROUP) {
		p = words_take(w, 1);
		if (!p)
			return false;
		sample->cgroup = *p;
	}
	if (!words_take(w, count_bits(type &
				      (PERF_SAMPLE_DATA_PAGE_SIZE | PERF_SAMPLE_CODE_PAGE_SIZE))))
		return false;
	if (type & PERF_SAMPLE_AUX) {
		p = words_take(w, 1);
		return p && *p % WORD == 0 && words_take(w, *p / WORD);
	}
	return true;
}

static void clear_variable_fields(struct record_sample *sample)
{
	sample->n_counts = 0;
	sample->group = NULL;
	sample->n_group = 0;
	sample->enabled_ns = sample->running_ns = 0;
	sample->cgroup = 0;
	sample->chain = NULL;
	sample->n_chain = 0;
	sample->regs_abi = PERF_SAMPLE_REGS_ABI_NONE;
	sample->regs = NULL;
	sample->stack = NULL;
	sample->stack_len = sample->stack_room = 0;
}

int record_parse_sample(const struct record_layout *layout, const struct perf_event_header *record,
			struct record_sample *ret_sample)
{
	const uint64_t type = layout->sample_type;
	struct words w = body_of(record);
	bool ok;

	if (type & ~SAMPLE_KNOWN)
		return fail(-EOPNOTSUPP);
	ret_sample->cpu_mode = record->misc & PERF_RECORD_MISC_CPUMODE_MASK;
	clear_variable_fields(ret_sample);
	ok = parse_singles(layout, &w, ret_sample);
	if (ok && type & PERF_SAMPLE_READ)
		ok = parse_read(layout->read_format, &w, ret_sample);
	if (ok && type & PERF_SAMPLE_CALLCHAIN)
		ok = parse_chain(&w, ret_sample);
	if (ok && type & PERF_SAMPLE_RAW)
		ok = skip_raw(&w);
	if (ok && type & PERF_SAMPLE_BRANCH_STACK)
		ok = skip_branches(layout->branch_sample_type, &w);
	if (ok && type & PERF_SAMPLE_REGS_USER)
		ok = take_regs(layout->regs_mask, &w, &ret_sample->regs_abi, &ret_sample->regs);
	if (ok && type & PERF_SAMPLE_STACK_USER)
		ok = parse_stack(&w, ret_sample);
	if (ok && type & SAMPLE_BEHIND_STACK)
		ok = parse_behind_stack(layout, &w, ret_sample);
	return ok ? 0 : fail(-EBADMSG);
}
