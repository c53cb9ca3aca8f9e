/* fuzz-record.c - one record of any bytes under any layout.
 *
 * Input: layout (sample_type, read_format, regs_mask, regs_intr_mask, branch_sample_type: 4 bytes
 * each), one byte of flags (1: sample_id_all; 2: the bytes' own header, else a sample's), then the
 * record.  Whatever comes, what the parsers give lies inside the record. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "perf/record.h"

#define CHECK(ok) ((ok) ? (void)0 : abort()) /* assert() may be compiled out */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct limits {
	const uint8_t *start, *end;
};

static void check_inside(const struct limits *limits, const void *at, uint64_t count, size_t each)
{
	const uint8_t *p = at;

	if (!p)
		return;
	CHECK(p >= limits->start && p <= limits->end);
	CHECK(count <= (size_t)(limits->end - p) / each);
}

static void check_string(const struct limits *limits, const char *text)
{
	CHECK(text);
	check_inside(limits, text, 1, 1);
	CHECK(memchr(text, 0, (size_t)(limits->end - (const uint8_t *)text)));
}

static void run_sample(const struct record_layout *layout, const struct perf_event_header *record,
		       const struct limits *limits)
{
	struct record_sample sample;
	int r = record_parse_sample(layout, record, &sample);
	uint64_t time = 0;

	CHECK(r == 0 || r == -EBADMSG || r == -EOPNOTSUPP);
	if (r < 0)
		return;
	check_inside(limits, sample.chain, sample.n_chain, 8);
	check_inside(limits, sample.stack, sample.stack_room, 1);
	check_inside(limits, sample.regs, (uint64_t)__builtin_popcountll(layout->regs_mask), 8);
	check_inside(limits, sample.group, sample.n_group, 8);
	CHECK(sample.chain || sample.n_chain == 0);
	CHECK(sample.stack || sample.stack_room == 0);
	CHECK(sample.stack_len <= sample.stack_room &&
	      sample.n_counts <= ARRAY_SIZE(sample.counts));
	CHECK((sample.regs == NULL) == (sample.regs_abi == 0));
	CHECK(record->type != PERF_RECORD_SAMPLE || !record_time(layout, record, &time) ||
	      time == sample.time);
}

static void run_event(const struct record_layout *layout, const struct perf_event_header *record,
		      const struct limits *limits)
{
	struct record_event event;
	int r = record_parse_event(layout, record, &event);
	uint64_t time = 0;

	CHECK(r == 0 || r == RECORD_UNKNOWN || r == -EBADMSG);
	if (r != 0)
		return;
	switch (event.type) {
	case PERF_RECORD_COMM:
		check_string(limits, event.comm.name);
		break;
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		check_string(limits, event.mmap.path);
		CHECK(event.mmap.build_id_len <= sizeof(event.mmap.build_id));
		break;
	case PERFWIND_RECORD_KSYMBOL:
		check_string(limits, event.ksymbol.name);
		break;
	case PERFWIND_RECORD_CGROUP:
		check_string(limits, event.cgroup.path);
		break;
	}
	if (record_time(layout, record, &time) && layout->sample_id_all)
		CHECK(time == event.time || event.time != 0);
}

static uint32_t take_u32(const uint8_t **p)
{
	uint32_t v;

	memcpy(&v, *p, sizeof(v));
	*p += sizeof(v);
	return v;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *p = data;
	struct record_layout layout = {0};
	_cleanup_(freep) struct perf_event_header *record = NULL;
	struct limits limits;
	size_t len;
	uint8_t flags;

	if (size < 21 + sizeof(*record) || size > 21 + 65528)
		return 0;
	layout.sample_type = take_u32(&p);
	layout.read_format = take_u32(&p);
	layout.regs_mask = take_u32(&p);
	layout.regs_intr_mask = take_u32(&p);
	layout.branch_sample_type = take_u32(&p);
	flags = *p++;
	layout.sample_id_all = flags & 1;
	len = (size - 21) / 8 * 8;
	record = malloc(len); /* exactly: a sanitizer sees a read behind it */
	CHECK(record);
	memcpy(record, p, len);
	record->size = (uint16_t)len;
	if (!(flags & 2))
		record->type = PERF_RECORD_SAMPLE;
	limits = (struct limits){(const uint8_t *)(record + 1), (const uint8_t *)record + len};
	run_sample(&layout, record, &limits);
	run_event(&layout, record, &limits);
	return 0;
}
