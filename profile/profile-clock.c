/* profile-clock.c - clocks of a trace to its one time, BOOTTIME.
 *
 * A ClockSnapshot reads several clocks at one moment.  A time of clock X is carried over by the
 * last snapshot at or before it (the first one for times before all), as their rates differ by
 * little in between.  Snapshots may stand behind the samples they serve, so common clocks are
 * converted at the end.  Clocks 64 to 127 belong to a sequence and may count differences: these
 * must be followed packet by packet, and are turned into a common clock at once, by the snapshot
 * before them. */
#include <errno.h>

#include "base/error.h"
#include "profile/profile-reader.h"
#include "protos/trace.fields.h"

enum {
	MAX_CLOCKS = 32, /* of one snapshot */
};

struct clock_value {
	uint32_t id;
	bool incremental;
	uint64_t value, multiplier;
};

static bool parse_clock(struct clock_value *v, struct cursor c)
{
	struct wire_field f;

	*v = (struct clock_value){.multiplier = 1};
	while (wire_next(&c, &f)) {
		if (wire_is(&f, CLOCK_SNAPSHOT__CLOCK__CLOCK_ID))
			v->id = (uint32_t)min_u64(f.value, UINT32_MAX);
		else if (wire_is(&f, CLOCK_SNAPSHOT__CLOCK__TIMESTAMP))
			v->value = f.value;
		else if (wire_is(&f, CLOCK_SNAPSHOT__CLOCK__IS_INCREMENTAL))
			v->incremental = f.value;
		else if (wire_is(&f, CLOCK_SNAPSHOT__CLOCK__UNIT_MULTIPLIER_NS) && f.value)
			v->multiplier = f.value;
	}
	return !c.bad;
}

static int add_pair(struct reader *r, uint32_t clock, uint64_t at, uint64_t trace_time)
{
	struct clock_pairs *pairs = &r->clocks[clock];
	int e = reader_hold(r, HELD_CLOCKS, 1, sizeof(*pairs->pairs));

	if (e >= 0)
		e = ROOM_FOR_ONE(pairs->pairs, pairs->n, pairs->room);
	if (e < 0)
		return trace(e);
	pairs->pairs[pairs->n++] = (struct clock_pair){at, trace_time};
	return 0;
}

static struct sequence_clock *find_clock(struct sequence *s, uint32_t id)
{
	for (size_t i = 0; i < s->n_clocks; i++)
		if (s->clocks[i].id == id)
			return &s->clocks[i];
	return NULL;
}

static int set_sequence_clock(struct reader *r, struct sequence *s, const struct clock_value *v,
			      const struct clock_value *base)
{
	struct sequence_clock *clock = find_clock(s, v->id);

	if (!clock) {
		size_t room = s->room_clocks;
		int e = ROOM_FOR_ONE(s->clocks, s->n_clocks, s->room_clocks);

		if (e >= 0)
			e = reader_hold(r, HELD_CLOCKS, 1,
					(s->room_clocks - room) * sizeof(*s->clocks));
		if (e < 0)
			return trace(e);
		clock = &s->clocks[s->n_clocks++];
	}
	*clock = (struct sequence_clock){
		.id = v->id,
		.base = base->id,
		.incremental = v->incremental,
		.multiplier = v->multiplier,
		.last = v->value * v->multiplier,
		.at = v->value * v->multiplier,
		.base_at = base->value * base->multiplier,
	};
	return 0;
}

/* The clock of @values that others are told in: BOOTTIME, else the primary one, else any common
 * one. */
static const struct clock_value *choose_base(const struct reader *r,
					     const struct clock_value *values, size_t n)
{
	const struct clock_value *base = NULL;

	for (size_t i = 0; i < n; i++) {
		if (values[i].id == CLOCK_ID_BOOTTIME)
			return &values[i];
		if (values[i].id < CLOCK_ID_SEQUENCE_FIRST &&
		    (!base || values[i].id == r->primary_clock))
			base = &values[i];
	}
	return base;
}

int reader_clock_snapshot(struct reader *r, struct sequence *s, struct cursor c)
{
	struct clock_value values[MAX_CLOCKS];
	const struct clock_value *base;
	struct wire_field f;
	size_t n = 0;

	while (wire_next(&c, &f)) {
		if (wire_is_bytes(&f, CLOCK_SNAPSHOT__CLOCKS) && n < MAX_CLOCKS) {
			if (!parse_clock(&values[n], wire_message(&f)))
				return READER_BROKEN;
			n++;
		} else if (wire_is(&f, CLOCK_SNAPSHOT__PRIMARY_TRACE_CLOCK)) {
			r->primary_clock = (uint32_t)min_u64(f.value, UINT32_MAX);
		}
	}
	if (c.bad)
		return READER_BROKEN;
	base = choose_base(r, values, n);
	for (size_t i = 0; base && i < n; i++) {
		const struct clock_value *v = &values[i];
		int e = 0;

		if (v->id < CLOCK_ID_SEQUENCE_FIRST &&
		    (base->id == CLOCK_ID_BOOTTIME || base->id == r->primary_clock))
			e = add_pair(r, v->id, v->value * v->multiplier,
				     base->value * base->multiplier);
		else if (s && v->id >= CLOCK_ID_SEQUENCE_FIRST && v->id < CLOCK_ID_SEQUENCE_END)
			e = set_sequence_clock(r, s, v, base);
		if (e < 0)
			return trace(e);
	}
	return 0;
}

uint64_t reader_sequence_time(struct sequence *s, uint32_t *clock, uint64_t time)
{
	struct sequence_clock *c;

	if (*clock < CLOCK_ID_SEQUENCE_FIRST || *clock >= CLOCK_ID_SEQUENCE_END)
		return time;
	c = find_clock(s, *clock);
	if (!c)
		return time;
	time *= c->multiplier;
	if (c->incremental)
		time = c->last += time;
	*clock = c->base;
	return c->base_at + (time - c->at);
}

static int compare_pairs(const void *a, const void *b)
{
	const struct clock_pair *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->trace < y->trace ? -1 : x->trace > y->trace;
}

void reader_sort_clocks(struct reader *r)
{
	for (size_t i = 0; i < ARRAY_SIZE(r->clocks); i++)
		if (r->clocks[i].n > 1)
			qsort(r->clocks[i].pairs, r->clocks[i].n, sizeof(struct clock_pair),
			      compare_pairs);
}

bool reader_has_clock(const struct reader *r, uint32_t clock)
{
	return clock == CLOCK_ID_BOOTTIME || (clock < ARRAY_SIZE(r->clocks) && r->clocks[clock].n);
}

uint64_t reader_trace_time(const struct reader *r, uint32_t clock, uint64_t time)
{
	const struct clock_pairs *pairs;
	size_t low = 0, high;

	if (clock == CLOCK_ID_BOOTTIME || !reader_has_clock(r, clock))
		return time;
	pairs = &r->clocks[clock];
	for (high = pairs->n; high - low > 1;) { /* pairs[low].at <= time, or low is the first */
		size_t middle = low + (high - low) / 2;

		if (pairs->pairs[middle].at <= time)
			low = middle;
		else
			high = middle;
	}
	return pairs->pairs[low].trace + (time - pairs->pairs[low].at);
}
