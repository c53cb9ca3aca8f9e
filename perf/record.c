/* record.c - see record.h.
 *
 * A record that is not a sample is a header, its own fields, and with sample_id_all a trailer at
 * its very end, a word for each of these that sample_type has (linux/perf_event.h, struct
 * sample_id):
 *
 *   TID TIME ID STREAM_ID CPU IDENTIFIER
 *
 * so the trailer is cut off first and what is left is the record's own. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "perf/record-words.h"
#include "perf/record.h"

/* ---- samples ----
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
static bool parse_raw(struct words *w, struct record_sample *sample)
{
	uint64_t bytes;
	const uint64_t *p;

	if (words_left(w) < 1)
		return false;
	sample->raw_len = low_half(*w->p);
	bytes = sizeof(uint32_t) + (uint64_t)sample->raw_len;
	p = bytes % WORD == 0 ? words_take(w, bytes / WORD) : NULL;
	sample->raw = p ? (const uint8_t *)p + sizeof(uint32_t) : NULL;
	return p;
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
	sample->raw = NULL;
	sample->raw_len = 0;
	sample->regs_abi = PERF_SAMPLE_REGS_ABI_NONE;
	sample->regs = NULL;
	sample->stack = NULL;
	sample->stack_len = sample->stack_room = 0;
}

static bool parse_before_stack(const struct record_layout *layout, struct words *w,
			       struct record_sample *sample)
{
	const uint64_t type = layout->sample_type;

	return parse_singles(layout, w, sample) &&
	       (!(type & PERF_SAMPLE_READ) || parse_read(layout->read_format, w, sample)) &&
	       (!(type & PERF_SAMPLE_CALLCHAIN) || parse_chain(w, sample)) &&
	       (!(type & PERF_SAMPLE_RAW) || parse_raw(w, sample)) &&
	       (!(type & PERF_SAMPLE_BRANCH_STACK) ||
		skip_branches(layout->branch_sample_type, w)) &&
	       (!(type & PERF_SAMPLE_REGS_USER) ||
		take_regs(layout->regs_mask, w, &sample->regs_abi, &sample->regs));
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
	ok = parse_before_stack(layout, &w, ret_sample);
	if (ok && type & PERF_SAMPLE_STACK_USER)
		ok = parse_stack(&w, ret_sample);
	if (ok && type & SAMPLE_BEHIND_STACK)
		ok = parse_behind_stack(layout, &w, ret_sample);
	return ok ? 0 : fail(-EBADMSG);
}

bool record_find_stack(const struct record_layout *layout, const struct perf_event_header *record,
		       size_t have, struct record_stack *ret_stack)
{
	const uint64_t type = layout->sample_type, *room;
	struct words w = body_of(record);
	struct record_sample sample;
	size_t at;

	if (!(type & PERF_SAMPLE_STACK_USER) || type & ~SAMPLE_KNOWN || have < sizeof(*record))
		return false;
	w.end = w.p + min_u64(words_left(&w), (have - sizeof(*record)) / WORD);
	if (!parse_before_stack(layout, &w, &sample))
		return false;
	room = words_take(&w, 1);
	at = (size_t)((const uint8_t *)w.p - (const uint8_t *)record);
	if (!room || !*room || *room % WORD || *room > record->size ||
	    at + *room + WORD > record->size)
		return false;
	*ret_stack = (struct record_stack){(uint32_t)at, (uint32_t)*room};
	return true;
}

/* ---- other records ---- */

#define SAMPLE_TRAILER                                                                 \
	(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID | \
	 PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER)

enum { USER_TYPE_START = 64 }; /* types that perf itself writes into perf.data: no trailer */

/* The words of a record that is not a sample.  The size of these two grows by a trailer with each event that gets one (of any
 * profiler), as the kernel does not set it back: perf_event_ksymbol_output(), perf_event_bpf_output() in kernel/events/core.c,
 * seen on 6.18.  What follows the trailer is whatever the ring had there before. */
static struct words words_of(const struct record_layout *layout,
			     const struct perf_event_header *record)
{
	const uint64_t trailer = layout->sample_id_all ? layout->sample_type & SAMPLE_TRAILER : 0;
	struct words w = body_of(record);
	size_t n = 2;

	if (record->type == PERFWIND_RECORD_KSYMBOL && words_left(&w) > n)
		n += strnlen((const char *)(w.p + n), (words_left(&w) - n) * WORD) / WORD + 1;
	else if (record->type != PERFWIND_RECORD_BPF)
		return w;
	w.end = w.p + min_u64(n + count_bits(trailer), words_left(&w));
	return w;
}

/* Cuts the trailer off the words and reads it; true when it is whole (or not part of the layout).
 */
static bool parse_trailer(const struct record_layout *layout, struct words *w,
			  struct record_event *event)
{
	const uint64_t type = layout->sample_id_all ? layout->sample_type & SAMPLE_TRAILER : 0;
	const size_t n = count_bits(type);
	const uint64_t *p;

	if (words_left(w) < n)
		return false;
	w->end -= n;
	p = w->end;
	if (type & PERF_SAMPLE_TID) {
		event->pid = low_half(*p);
		event->tid = high_half(*p++);
	}
	if (type & PERF_SAMPLE_TIME)
		event->time = *p++;
	if (type & PERF_SAMPLE_ID)
		event->id = *p++;
	p += one_if(type, PERF_SAMPLE_STREAM_ID);
	if (type & PERF_SAMPLE_CPU)
		event->cpu = low_half(*p++);
	if (type & PERF_SAMPLE_IDENTIFIER)
		event->id = *p;
	return true;
}

/* A string that ends inside the words; NULL when it does not. */
static const char *words_string(const struct words *w)
{
	return memchr(w->p, 0, words_left(w) * WORD) ? (const char *)w->p : NULL;
}

/* pid tid, start, len, offset, for MMAP2 { major minor, inode, generation } or { len 0 0 0, build
 * id[20] } and { prot, flags }, path */
static bool parse_mmap(struct words *w, struct record_event *event)
{
	const bool second = event->type == PERF_RECORD_MMAP2;
	const uint64_t *p = words_take(w, second ? 8 : 4);
	const uint8_t *id;

	if (!p)
		return false;
	event->pid = low_half(p[0]);
	event->tid = high_half(p[0]);
	event->mmap.start = p[1];
	event->mmap.len = p[2];
	event->mmap.offset = p[3];
	event->mmap.path = words_string(w);
	if (!second) {
		event->mmap.prot = event->misc & PERF_RECORD_MISC_MMAP_DATA ? PROT_READ
									    : PROT_READ | PROT_EXEC;
		return event->mmap.path;
	}
	event->mmap.prot = low_half(p[7]);
	if (event->misc & PERFWIND_MISC_MMAP_BUILD_ID) {
		id = (const uint8_t *)&p[4];
		if (id[0] > sizeof(event->mmap.build_id))
			return false;
		event->mmap.build_id_len = id[0];
		memcpy(event->mmap.build_id, id + 4, id[0]);
	} else {
		event->mmap.major = low_half(p[4]);
		event->mmap.minor = high_half(p[4]);
		event->mmap.inode = p[5];
		event->mmap.generation = p[6];
	}
	return event->mmap.path;
}

static bool parse_comm(struct words *w, struct record_event *event)
{
	const uint64_t *p = words_take(w, 1);

	if (!p)
		return false;
	event->pid = low_half(p[0]);
	event->tid = high_half(p[0]);
	event->comm.exec = event->misc & PERF_RECORD_MISC_COMM_EXEC;
	event->comm.name = words_string(w);
	return event->comm.name;
}

/* FORK and EXIT: pid ppid, tid ptid, time */
static bool parse_task(struct words *w, struct record_event *event)
{
	const uint64_t *p = words_take(w, 3);

	if (!p)
		return false;
	event->pid = low_half(p[0]);
	event->task.ppid = high_half(p[0]);
	event->tid = low_half(p[1]);
	event->task.ptid = high_half(p[1]);
	if (event->time == 0)
		event->time = p[2];
	return true;
}

static bool parse_lost(struct words *w, struct record_event *event)
{
	const bool samples = event->type == PERFWIND_RECORD_LOST_SAMPLES;
	const uint64_t *p = words_take(w, samples ? 1 : 2);

	if (!p)
		return false;
	event->lost.id = samples ? 0 : p[0];
	event->lost.count = samples ? p[0] : p[1];
	return true;
}

/* THROTTLE and UNTHROTTLE: time, id, stream id */
static bool parse_throttle(struct words *w, struct record_event *event)
{
	const uint64_t *p = words_take(w, 3);

	if (!p)
		return false;
	if (event->time == 0)
		event->time = p[0];
	event->throttle.id = p[1];
	event->throttle.on = event->type == PERF_RECORD_THROTTLE;
	return true;
}

/* start, { u32 len, u16 type, u16 flags }, name */
static bool parse_ksymbol(struct words *w, struct record_event *event)
{
	const uint64_t *p = words_take(w, 2);

	if (!p)
		return false;
	event->ksymbol.start = p[0];
	event->ksymbol.len = low_half(p[1]);
	event->ksymbol.unregister = p[1] >> 48 & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER;
	event->ksymbol.name = words_string(w);
	return event->ksymbol.name;
}

static bool parse_cgroup(struct words *w, struct record_event *event)
{
	const uint64_t *p = words_take(w, 1);

	if (!p)
		return false;
	event->cgroup.id = p[0];
	event->cgroup.path = words_string(w);
	return event->cgroup.path;
}

static bool has_trailer(uint32_t type)
{
	return type != PERF_RECORD_SAMPLE && type < USER_TYPE_START;
}

int record_parse_event(const struct record_layout *layout, const struct perf_event_header *record,
		       struct record_event *ret_event)
{
	struct record_event event = {.type = record->type, .misc = record->misc};
	struct words w = words_of(layout, record);
	bool ok;

	/* When another profiler asks for build ids, the kernel sets this bit for it in the one
	 * header that all events share, also for records with device and inode
	 * (perf_event_mmap_output(); seen on 6.18). */
	if (!layout->build_id)
		event.misc &= (uint16_t)~PERFWIND_MISC_MMAP_BUILD_ID;

	if (has_trailer(event.type) && !parse_trailer(layout, &w, &event))
		return fail(-EBADMSG);
	switch (event.type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		ok = parse_mmap(&w, &event);
		break;
	case PERF_RECORD_COMM:
		ok = parse_comm(&w, &event);
		break;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		ok = parse_task(&w, &event);
		break;
	case PERF_RECORD_LOST:
	case PERFWIND_RECORD_LOST_SAMPLES:
		ok = parse_lost(&w, &event);
		break;
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE:
		ok = parse_throttle(&w, &event);
		break;
	case PERFWIND_RECORD_KSYMBOL:
		ok = parse_ksymbol(&w, &event);
		break;
	case PERFWIND_RECORD_CGROUP:
		ok = parse_cgroup(&w, &event);
		break;
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE: /* its body names the other task: not needed */
		event.switched.out = event.misc & PERF_RECORD_MISC_SWITCH_OUT;
		/* of the record: the bit is MISC_MMAP_BUILD_ID too */
		event.switched.preempted = record->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT;
		ok = true;
		break;
	default:
		*ret_event = event;
		return RECORD_UNKNOWN;
	}
	if (!ok)
		return fail(-EBADMSG);
	*ret_event = event;
	return 0;
}

/* Without sample_id_all some records still have the time among their own fields. */
static bool time_in_body(const struct words *w, uint32_t type, uint64_t *ret_time)
{
	size_t index;

	switch (type) {
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		index = 2;
		break;
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE:
		index = 0;
		break;
	default:
		return false;
	}
	if (words_left(w) <= index)
		return false;
	*ret_time = w->p[index];
	return true;
}

bool record_time(const struct record_layout *layout, const struct perf_event_header *record,
		 uint64_t *ret_time)
{
	const uint64_t type = layout->sample_type;
	const struct words w = words_of(layout, record);
	size_t index;

	if (!(type & PERF_SAMPLE_TIME))
		return false;
	if (record->type == PERF_RECORD_SAMPLE) {
		index = one_if(type, PERF_SAMPLE_IDENTIFIER) + one_if(type, PERF_SAMPLE_IP) +
			one_if(type, PERF_SAMPLE_TID);
		if (words_left(&w) <= index)
			return false;
		*ret_time = w.p[index];
		return true;
	}
	if (!has_trailer(record->type))
		return false;
	if (!layout->sample_id_all)
		return time_in_body(&w, record->type, ret_time);
	index = 1 + one_if(type, PERF_SAMPLE_ID) + one_if(type, PERF_SAMPLE_STREAM_ID) +
		one_if(type, PERF_SAMPLE_CPU) + one_if(type, PERF_SAMPLE_IDENTIFIER);
	if (words_left(&w) < index)
		return false;
	*ret_time = w.end[-(ptrdiff_t)index];
	return true;
}
