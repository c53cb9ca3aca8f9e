/* ring-records.c - the records of the kernel's rings, see record-source.h. */
#include "base/error.h"
#include "perf/merge.h"
#include "session/pipeline/record-source.h"

static int begin(void *arg, uint64_t now)
{
	return merge_begin(perf_source_merge(arg), now);
}

static int next(void *arg, struct record_item *item)
{
	struct merge_item m;
	int r = merge_next(perf_source_merge(arg), &m);

	if (r != 0)
		return r;
	item->record = m.record;
	item->from = perf_source_ring(arg, m.ring);
	item->position = m.position;
	item->ring = m.ring;
	item->cpu = item->from->cpu;
	item->kind = m.record->type != PERF_RECORD_SAMPLE ? RECORD_EVENT
		     : item->from->sideband		  ? RECORD_WAKING
							  : RECORD_SAMPLE;
	if (item->kind == RECORD_SAMPLE)
		r = record_parse_sample(&item->from->layout, m.record, &item->sample);
	if (item->kind == RECORD_EVENT)
		r = record_parse_event(&item->from->layout, m.record, &item->event);
	return r < 0 ? trace(r) : 0;
}

static void put(void *arg, uint32_t ring, uint64_t position)
{
	merge_put(perf_source_merge(arg), ring, position);
}

struct record_source ring_records(struct perf_source *source)
{
	return (struct record_source){.begin = begin, .next = next, .put = put, .arg = source};
}

uint64_t ring_room_for(const struct record_item *item)
{
	const struct ring *ring = item->from->ring;

	return (ring_size(ring) - ring_held(ring)) / item->record->size;
}

bool ring_has_double(const struct perf_source *source, const struct record_item *item)
{
	const struct record_sample *s = &item->sample;

	return perf_source_is_double(source, item->ring, s->id, s->time) ||
	       perf_source_is_inherited_double(source, s->id, (pid_t)s->tid);
}

bool rings_fill_up(const struct perf_source *source)
{
	for (size_t i = 0; i < perf_source_n_rings(source); i++) {
		const struct perf_ring *ring = perf_source_ring(source, i);

		if (!ring->sideband && ring_held(ring->ring) + ring_backlog(ring->ring) >
					       ring_size(ring->ring) / 8 * 5)
			return true;
	}
	return false;
}

size_t ring_of_cpu(const struct perf_source *source, uint32_t cpu)
{
	const size_t n = perf_source_n_rings(source);
	size_t i = 2 * (size_t)cpu; /* all CPUs, as mostly */

	if (i < n && perf_source_ring(source, i)->cpu == cpu)
		return i;
	for (i = 0; i < n && perf_source_ring(source, i)->cpu != cpu; i += 2)
		;
	return i < n ? i : 0;
}
