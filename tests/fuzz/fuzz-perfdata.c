/* fuzz-perfdata.c - perf.data of any bytes.
 *
 * Whatever comes: the reading ends, every record given out lies in memory of its own until it is
 * given back, and the memory held stays within its bound.  Every third record is kept for a while,
 * as a busy unwinder keeps it.  A file is read by the reader alone, and ahead by its thread,
 * in pieces shorter than most records and in long ones, which leave out what is not in use of stacks.
 * All are the same, and so are the mappings that are looked at beforehand. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "perf/perfdata/perfdata.h"

#define CHECK(ok) ((ok) ? (void)0 : abort()) /* assert() may be compiled out */

enum { HOLD = 1 << 20, ROOMY = 256 << 20, KEPT = 8, MAX_RECORDS = 200000 };

/* What was read, to compare. */
struct seen {
	uint64_t n, sum;
	uint64_t mappings, beforehand; /* sums */
	struct perfdata_counts counts;
	bool whole; /* up to the end */
};

struct keeper {
	struct perfdata_item kept[KEPT];
	uint64_t sums[KEPT];
	size_t n;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads all of a record: a sanitizer sees what lies outside. */
static uint64_t sum(const struct perfdata_item *item)
{
	const uint8_t *p = (const uint8_t *)item->record;
	uint64_t total = 0;

	for (size_t i = 0; i < item->record->size; i++)
		total = total * 31 + p[i];
	return total;
}

/* The same without what is not in use of the copy of a stack, and without the sizes of the record and of the copy: read ahead,
 * the record is that of a smaller copy. */
static uint64_t sum_in_use(const struct perfdata_item *item)
{
	const uint8_t *p = (const uint8_t *)item->record;
	size_t size = item->record->size, from = size, to = size, room = size;
	struct record_sample s;
	uint64_t total = 0;

	if (item->record->type == PERF_RECORD_SAMPLE &&
	    record_parse_sample(item->layout, item->record, &s) == 0 && s.stack) {
		room = (size_t)(s.stack - p) - 8;
		from = (size_t)(s.stack - p) + (s.stack_len + 7) / 8 * 8;
		to = (size_t)(s.stack - p) + s.stack_room;
	}
	for (size_t i = 0; i < size; i++) {
		bool of_size = room < size &&
			       (i - offsetof(struct perf_event_header, size) < 2 || i - room < 8);

		if (!of_size && (i < from || i >= to))
			total = total * 31 + p[i];
	}
	return total;
}

/* In any order. */
static void add_mapping(void *sum_of, const struct record_event *e)
{
	uint64_t total = e->mmap.build_id_len + e->mmap.inode * 3 + e->mmap.start * 5 + e->pid + 1;

	for (const char *p = e->mmap.path; *p; p++)
		total = total * 31 + (uint8_t)*p;
	*(uint64_t *)sum_of += total;
}

static bool is_mapping(const struct perf_event_header *record)
{
	return record->type == PERF_RECORD_MMAP || record->type == PERF_RECORD_MMAP2;
}

static void look(struct perfdata *pd, const struct perfdata_item *item, struct seen *seen)
{
	struct record_sample sample;
	struct record_event event;

	CHECK(item->record->size >= sizeof(*item->record) && item->record->size % 8 == 0);
	CHECK(item->event < perfdata_info(pd)->n_events);
	CHECK(item->layout->sample_type ==
	      perfdata_info(pd)->events[item->event].layout.sample_type);
	if (item->record->type == PERF_RECORD_SAMPLE)
		(void)record_parse_sample(item->layout, item->record, &sample);
	else if (record_parse_event(item->layout, item->record, &event) == 0 &&
		 is_mapping(item->record))
		add_mapping(&seen->mappings, &event);
}

/* Gives back the first @n; they are as they were. */
static void give_back(struct perfdata *pd, struct keeper *k, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		CHECK(sum(&k->kept[i]) == k->sums[i]);
		perfdata_put(pd, k->kept[i].block);
	}
	k->n -= n;
	memmove(k->kept, k->kept + n, k->n * sizeof(k->kept[0]));
	memmove(k->sums, k->sums + n, k->n * sizeof(k->sums[0]));
}

static void keep(struct perfdata *pd, struct keeper *k, const struct perfdata_item *item)
{
	k->kept[k->n] = *item;
	k->sums[k->n++] = sum(item);
	if (k->n == KEPT)
		give_back(pd, k, KEPT / 2);
}

/* false: it cannot be opened. */
static bool read_all(int fd, const struct perfdata_limits *limits, struct seen *seen)
{
	struct keeper keeper = {.n = 0};
	struct perfdata_item item;
	struct perfdata *pd;
	char error[256] = "";
	int r;

	*seen = (struct seen){0};
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	if (perfdata_new(fd, limits, &pd, error, sizeof(error)) < 0) {
		CHECK(*error);
		return false;
	}
	while ((r = perfdata_next(pd, &item)) == 0 && seen->n++ < MAX_RECORDS) {
		if (seen->n == 1)
			CHECK(perfdata_scan(pd, add_mapping, &seen->beforehand) == PERFDATA_END);
		look(pd, &item, seen);
		seen->sum += sum_in_use(&item); /* in any order: see below */
		/* the hold, what is kept, one being filled of each kind */
		CHECK(perfdata_held(pd) <= limits->hold + (KEPT + 4) * (256 << 10));
		if (seen->n % 3 == 1)
			keep(pd, &keeper, &item);
		else
			perfdata_put(pd, item.block);
	}
	CHECK(r >= 0);
	give_back(pd, &keeper, keeper.n);
	(void)perfdata_build_id(pd, "/bin/true");
	seen->whole = r == PERFDATA_END;
	/* With little memory the window of a zstd stream has no room in the scan. */
	CHECK(!seen->whole || limits->hold < ROOMY || seen->mappings == seen->beforehand);
	seen->counts = *perfdata_counts(pd);
	(void)perfdata_free(pd);
	return true;
}

/* What comes early when memory is short depends on the blocks that the pieces fill, and so does how
 * much was read when the damage was met; what comes at all, and what is left, does not. */
static void compare(const struct seen *a, const struct seen *b)
{
	CHECK(a->whole == b->whole);
	CHECK(a->n == b->n);
	if (!a->whole)
		return;
	CHECK(a->sum == b->sum);
	CHECK(a->counts.damage == b->counts.damage);
	CHECK(a->counts.unread_bytes == b->counts.unread_bytes);
	CHECK(a->counts.bad_records == b->counts.bad_records);
	CHECK(a->counts.damage || a->counts.bytes == b->counts.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct perfdata_limits alone = {.hold = HOLD, .ahead = UINT64_MAX},
				     ahead = {.hold = HOLD, .ahead = 1, .piece = 1 + size % 509},
				     wide = {.hold = HOLD, .ahead = 1},
				     roomy = {.hold = ROOMY, .ahead = UINT64_MAX};
	struct seen first, second;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	CHECK(fd >= 0);
	CHECK(write(fd, data, size) == (ssize_t)size);
	if (read_all(fd, &alone, &first)) {
		CHECK(read_all(fd, &ahead, &second));
		compare(&first, &second);
		CHECK(read_all(fd, &wide, &second));
		compare(&first, &second);
		CHECK(read_all(fd, &roomy, &second));
	}
	close(fd);
	return 0;
}
