/* import-group.c - the members of a group that its leader samples for (`perf record -e
 * '{a,b}:S'`).  Thread: main.
 *
 * Only the leader has samples; each tells what all members have counted by then.  As with `perf
 * script`, a member that has grown since the leader's sample before has one too, with the leader's
 * stack and of so much weight: whatever counted happened in between, not just there.
 *
 * An id is an event's on one CPU or of one task, so what it told last is kept by id; where children
 * inherited the event (Linux 6.12) all have its id and each counts alone: by id and thread. */
#include <errno.h>

#include "base/error.h"
#include "import/import-private.h"

enum { VALUE, ID }; /* words of a member */

static uint64_t stream_of(const struct import *im, const struct perfdata_item *item,
			  const struct record_sample *sample, uint64_t id)
{
	const struct perfdata_event *leader = &perfdata_info(im->file)->events[item->event];

	return leader->attr.inherit ? id << 32 ^ sample->tid : id;
}

/* A value that fell is no kernel's, or came out of order: the highest stands. -E2BIG: a file of so
 * many threads is no recording. */
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

int import_take_group(struct import *im, const struct perfdata_item *item,
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
			import_leave_out(im, event);
	}
	im->grouped += strange;
	return 0;
}
