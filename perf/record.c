/* record.c - see record.h; samples are parsed in record-sample.c.
 *
 * A record that is not a sample is a header, its own fields, and with sample_id_all a trailer at
 * its very end, a word for each of these that sample_type has (linux/perf_event.h, struct
 * sample_id):
 *
 *   TID TIME ID STREAM_ID CPU IDENTIFIER
 *
 * so the trailer is cut off first and what is left is the record's own. */
#include "perf/record.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "perf/record-words.h"

#define SAMPLE_TRAILER                                                                 \
	(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID | \
	 PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER)

enum { USER_TYPE_START = 64 }; /* types that perf itself writes into perf.data: no trailer */

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
	struct words w = body_of(record);
	bool ok;

	/* When another profiler asks for build ids, the kernel sets this bit for it in the one
	 * header that all events share, also for those whose body is device and inode
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
	const struct words w = body_of(record);
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
