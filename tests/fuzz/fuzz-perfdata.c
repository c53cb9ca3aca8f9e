/* fuzz-perfdata.c - perf.data of any bytes.
 *
 * Whatever comes: the reading ends, every record given out lies in memory of its own until it is
 * given back, and the memory held stays within its bound.  Every third record is kept for a while,
 * as a busy unwinder keeps it. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/perf/perfdata.h"

#define CHECK(ok) ((ok) ? (void)0 : abort()) /* assert() may be compiled out */

enum { HOLD = 1 << 20, KEPT = 8, MAX_RECORDS = 200000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads all of a record: a sanitizer sees what lies outside. */
static uint64_t sum(const struct perfdata_item *item)
{
	const uint8_t *p = (const uint8_t *)item->record;
	uint64_t total = 0;

	for (size_t i = 0; i < item->record->size; i++)
		total += p[i];
	return total;
}

static void look(struct perfdata *pd, const struct perfdata_item *item)
{
	struct record_sample sample;
	struct record_event event;

	CHECK(item->record->size >= sizeof(*item->record) && item->record->size % 8 == 0);
	CHECK(item->event < perfdata_info(pd)->n_events);
	CHECK(item->layout == &perfdata_info(pd)->events[item->event].layout);
	if (item->record->type == PERF_RECORD_SAMPLE)
		(void)record_parse_sample(item->layout, item->record, &sample);
	else
		(void)record_parse_event(item->layout, item->record, &event);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct perfdata_item kept[KEPT], item;
	uint64_t sums[KEPT];
	struct perfdata *pd;
	size_t n_kept = 0, n = 0;
	char error[256] = "";
	int r, fd = memfd_create("fuzz", MFD_CLOEXEC);

	CHECK(fd >= 0);
	CHECK(write(fd, data, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0);
	if (perfdata_new(fd, HOLD, &pd, error, sizeof(error)) < 0) {
		CHECK(*error);
		close(fd);
		return 0;
	}
	while ((r = perfdata_next(pd, &item)) == 0 && n++ < MAX_RECORDS) {
		look(pd, &item);
		/* the hold, what is kept, one being filled of each kind */
		CHECK(perfdata_held(pd) <= HOLD + (KEPT + 4) * (256 << 10));
		if (n % 3 || n_kept == KEPT) {
			perfdata_put(pd, item.block);
			continue;
		}
		kept[n_kept] = item;
		sums[n_kept++] = sum(&item);
		if (n_kept < KEPT)
			continue;
		for (size_t i = 0; i < KEPT / 2; i++) {
			CHECK(sum(&kept[i]) == sums[i]);
			perfdata_put(pd, kept[i].block);
		}
		n_kept = KEPT / 2;
		memmove(kept, kept + KEPT / 2, n_kept * sizeof(kept[0]));
		memmove(sums, sums + KEPT / 2, n_kept * sizeof(sums[0]));
	}
	CHECK(r >= 0);
	for (size_t i = 0; i < n_kept; i++)
		CHECK(sum(&kept[i]) == sums[i]);
	(void)perfdata_build_id(pd, "/bin/true");
	(void)perfdata_free(pd);
	close(fd);
	return 0;
}
