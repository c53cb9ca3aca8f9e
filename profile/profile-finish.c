/* profile-finish.c - data that is known only when the whole trace has been read: times, weights, late
 * names.
 *
 * The weight of a sample is what its event counted since the sample before it on the same CPU of
 * the same session, skipped ones included: timebase_count is a running sum.  So what was lost in a
 * ring weighs on the next sample that was not, and the sum over a CPU is the event's true count. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "profile/profile-reader.h"
#include "protos/trace.fields.h"

/* ---- clocks ----
 *
 * Clocks of a trace to its one time, BOOTTIME.
 *
 * A ClockSnapshot reads several clocks at one moment.  A time of clock X is carried over by the
 * last snapshot at or before it (the first one for times before all), as their rates differ by
 * little in between.  Snapshots may stand behind the samples they serve, so common clocks are
 * converted at the end.  Clocks 64 to 127 belong to a sequence and may count differences: these
 * must be followed packet by packet, and are turned into a common clock at once, by the snapshot
 * before them. */

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

/* The clock of @values that others are given in: BOOTTIME, else the primary one, else any common
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

	return ascend(x->at, y->at) ?: ascend(x->trace, y->trace);
}

static void reader_sort_clocks(struct reader *r)
{
	for (size_t i = 0; i < ARRAY_SIZE(r->clocks); i++)
		if (r->clocks[i].n > 1)
			qsort(r->clocks[i].pairs, r->clocks[i].n, sizeof(struct clock_pair),
			      compare_pairs);
}

static bool reader_has_clock(const struct reader *r, uint32_t clock)
{
	return clock == CLOCK_ID_BOOTTIME || (clock < ARRAY_SIZE(r->clocks) && r->clocks[clock].n);
}

static uint64_t reader_trace_time(const struct reader *r, uint32_t clock, uint64_t time)
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

/* ---- followers ----
 *
 * Counts that come with the samples: the events of a group that do not sample.
 *
 * Each sample has its followers' counts since the group was opened: on its CPU, and where tasks are
 * sampled and not CPUs, of its thread there (perfwind marks it by a statistic of its own; a producer of
 * a tracing service samples CPUs).  A count that is less than the one before is of a group that was opened again. */

/* Where the sums of each event's followers begin in the profile's; UINT32_MAX: not yet. */
struct places {
	uint32_t first[256], n[256];
};

/* An event has the followers of the first of its sessions that has any. */
static int place(struct reader *r, struct places *places, uint8_t event,
		 const struct reader_event *of)
{
	struct profile *p = r->profile;
	struct profile_follower *more;

	if (places->n[event] || !of->n_followers)
		return 0;
	more = reallocarray(p->followers, p->n_followers + of->n_followers, sizeof(*more));
	if (!more)
		return fail(-ENOMEM);
	p->followers = more;
	places->first[event] = (uint32_t)p->n_followers;
	places->n[event] = of->n_followers;
	for (uint32_t i = 0; i < of->n_followers; i++)
		p->followers[p->n_followers++] =
			(struct profile_follower){.name = of->followers[i], .event = event};
	return 0;
}

static void add(struct reader *r, const struct places *places, uint8_t event,
		const struct raw_sample *now, const struct raw_sample *before)
{
	struct profile_follower *to = &r->profile->followers[places->first[event]];

	for (uint32_t i = 0; i < now->n_followers && i < places->n[event]; i++) {
		uint64_t count = r->follower_counts[now->first_follower + i], less = 0;

		if (before && i < before->n_followers)
			less = r->follower_counts[before->first_follower + i];
		to[i].count += count >= less ? count - less : count;
	}
}

/* When the samples are in order of time and have their events. */
static int reader_finish_followers(struct reader *r)
{
	struct profile *p = r->profile;
	struct places places = {0};
	struct table last = {0}; /* of (sequence, CPU) or (thread, CPU): index in samples + 1 */
	double by_thread = 0;
	int e = 0;

	(void)profile_stat_value(p, "followers.by_thread", &by_thread);
	for (size_t i = 0; i < p->n_samples && r->n_follower_counts && e >= 0; i++) {
		const struct profile_sample *sample = &p->samples[i];
		const struct raw_sample *raw = &r->raw[i];
		uint64_t before = 0,
			 of = by_thread > 0 ? profile_sample_tid(p, sample) : raw->sequence;
		uint64_t key = of << 32 | sample->cpu;

		if (!raw->n_followers)
			continue;
		e = place(r, &places, sample->event, &r->events[sample->session]);
		if (e < 0 || !places.n[sample->event])
			continue;
		(void)table_get(&last, key, &before);
		add(r, &places, sample->event, raw, before ? &r->raw[before - 1] : NULL);
		e = reader_put(r, HELD_STREAMS, &last, key, i + 1);
	}
	table_deinit(&last);
	return e < 0 ? trace(e) : 0;
}

/* ---- order ---- */

/* Moves what stands at order[i] to i, in place: samples take a good part of the memory. */
static void put_in_order(struct reader *r, uint32_t *order)
{
	struct profile_sample *samples = r->profile->samples;

	for (uint32_t i = 0; i < r->profile->n_samples; i++) {
		struct profile_sample sample = samples[i];
		struct raw_sample raw = r->raw[i];
		uint32_t to = i;

		while (order[to] != i) {
			uint32_t from = order[to];

			samples[to] = samples[from];
			r->raw[to] = r->raw[from];
			order[to] = to;
			to = from;
		}
		samples[to] = sample;
		r->raw[to] = raw;
		order[to] = to;
	}
}

/* @compare: two indices of @samples. */
static int reader_sort_samples(struct reader *r,
			       int (*compare)(const void *a, const void *b, void *samples))
{
	const struct profile *p = r->profile;
	_cleanup_(freep) uint32_t *order = NULL;
	uint32_t i = 0, next = 1;

	while (next < p->n_samples && compare(&i, &next, p->samples) < 0)
		i = next++;
	if (next >= p->n_samples)
		return 0;
	order = reallocarray(NULL, p->n_samples, sizeof(*order));
	if (!order)
		return fail(-ENOMEM);
	for (i = 0; i < p->n_samples; i++)
		order[i] = i;
	qsort_r(order, p->n_samples, sizeof(*order), compare, p->samples);
	put_in_order(r, order);
	return 0;
}

/* ---- the events of a trace ----
 *
 * The events of a trace, and the one that is shown.
 *
 * A trace has a session for each data source, which may count different things: page faults and
 * nanoseconds have no sum.  Sessions of one name and unit are one event (several producers, or one
 * event in several scopes).  A profile is of one event; the others' samples are kept aside. */

static uint8_t event_of(struct profile *p, const struct reader_event *event)
{
	struct profile_event *new = &p->events[p->n_events];

	for (size_t i = 0; i < p->n_events; i++)
		if (!strcmp(p->events[i].name, event->name) &&
		    !strcmp(p->events[i].unit, event->unit))
			return (uint8_t)i;
	memcpy(new->name, event->name, sizeof(new->name));
	memcpy(new->unit, event->unit, sizeof(new->unit));
	return (uint8_t)p->n_events++;
}

static void set_events(const struct reader *r)
{
	struct profile *p = r->profile;
	uint64_t n[256] = {0}; /* samples of each session */
	uint8_t events[256] = {0};

	for (size_t i = 0; i < p->n_samples; i++)
		n[p->samples[i].session]++;
	for (size_t i = 0; i < r->n_sessions; i++) {
		if (!n[i])
			continue;
		events[i] = event_of(p, &r->events[i]);
		p->events[events[i]].n_samples += n[i];
	}
	for (size_t i = 0; i < p->n_samples; i++)
		p->samples[i].event = events[p->samples[i].session];
}

/* Those of the chosen event, out of all. */
static void choose(struct profile *p, uint8_t event)
{
	p->event = event;
	memcpy(p->event_name, p->events[event].name, sizeof(p->event_name));
	memcpy(p->weight_unit, p->events[event].unit, sizeof(p->weight_unit));
	if (!p->all_samples)
		return;
	p->samples = p->all_samples;
	for (uint8_t i = 0; i < event; i++)
		p->samples += p->events[i].n_samples;
	p->n_samples = p->events[event].n_samples;
}

/* What most ask for is where the time went. */
static uint8_t usual_event(const struct profile *p)
{
	for (size_t i = 0; i < p->n_events; i++)
		if (!strcmp(p->events[i].unit, "ns"))
			return (uint8_t)i;
	return 0;
}

static int reader_find_events(struct reader *r)
{
	r->profile->events = calloc(r->n_sessions + 1, sizeof(*r->profile->events));
	if (!r->profile->events)
		return fail(-ENOMEM);
	set_events(r);
	return 0;
}

static int compare_events(const void *a, const void *b, void *samples)
{
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	uint8_t x = ((struct profile_sample *)samples)[i].event,
		y = ((struct profile_sample *)samples)[k].event;

	return ascend(x, y) ?: ascend(i, k); /* by time, as they are */
}

static int reader_choose_events(struct reader *r)
{
	struct profile *p = r->profile;
	int e;

	if (p->n_events > 1) {
		e = reader_sort_samples(r, compare_events);
		if (e < 0)
			return trace(e);
		p->all_samples = p->samples;
		p->n_all_samples = p->n_samples;
	}
	if (p->n_events)
		choose(p, usual_event(p));
	return 0;
}

static bool is_called(const struct profile_event *event, const char *name, bool whole)
{
	size_t len = strlen(name);

	if (strncmp(event->name, name, len))
		return false;
	return !event->name[len] || (!whole && event->name[len] == ':');
}

static int no_event(const struct profile *p, const char *name, char *error, size_t size)
{
	int n = snprintf(error, size, "the trace has no event %.100s; it has:", name);

	for (size_t i = 0; i < p->n_events && n > 0 && (size_t)n < size; i++)
		n += snprintf(error + n, size - (size_t)n, " %s", p->events[i].name);
	if (!p->n_events && n > 0 && (size_t)n < size)
		(void)snprintf(error + n, size - (size_t)n, " no samples");
	return fail(-ENOENT);
}

int profile_choose_event(struct profile *p, const char *name, char *error, size_t error_size)
{
	if (!name)
		return 0;
	for (int whole = 1; whole >= 0; whole--) {
		for (size_t i = 0; i < p->n_events; i++) {
			if (!is_called(&p->events[i], name, whole))
				continue;
			choose(p, (uint8_t)i);
			return 0;
		}
	}
	return no_event(p, name, error, error_size);
}

/* ---- the end ---- */

/* ---- the order of time ---- */

static int compare_samples(const void *a, const void *b, void *samples)
{
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	uint64_t x = ((struct profile_sample *)samples)[i].time,
		 y = ((struct profile_sample *)samples)[k].time;

	if (x != y)
		return x < y ? -1 : 1;
	return i < k ? -1 : i > k; /* as they came */
}

/* ---- weights ---- */

/* What one sample weighs when nothing is known of the one before. */
static uint64_t usual_weight(const struct reader_event *event)
{
	if (event->period)
		return event->period;
	if (event->is_time && event->frequency)
		return max_u64(1, NSEC_PER_SEC / event->frequency);
	return 0;
}

/* The first sample of a CPU where no weight is usual: what its event counted until then, if that did
 * not begin before the trace (a ring buffer's beginning is gone, an interval is read alone): then
 * the second sample's weight, or the mean of all, is better. */
static void bound_first(struct profile_sample *first, uint64_t likely)
{
	if (likely)
		first->weight = min_u64(first->weight, likely);
}

static uint64_t key_of(const struct reader *r, size_t sample)
{
	return (uint64_t)r->raw[sample].sequence << 32 | r->profile->samples[sample].cpu;
}

/* Without a second sample on their CPU. */
static void bound_lone(struct reader *r, const struct table *firsts, uint64_t sum, uint64_t n)
{
	struct profile *p = r->profile;
	uint64_t index;

	for (size_t i = 0; i < p->n_samples && n; i++)
		if (table_get(firsts, key_of(r, i), &index) && index == i + 1)
			bound_first(&p->samples[i], max_u64(sum / n, 1));
}

/* The first count of each CPU is a weight too: the recorder marks it by a statistic of its own, and its beginning is
 * there. */
static bool counts_from_0(const struct profile *p)
{
	double exact = 0;

	return !p->latest_only && profile_stat_value(p, "weights.exact", &exact) && exact > 0;
}

/* Turns counts into weights. */
static int weigh(struct reader *r)
{
	struct profile *p = r->profile;
	bool exact = counts_from_0(p);
	struct table last = {0};   /* of (sequence, CPU): the count */
	struct table firsts = {0}; /* the same: index + 1 of one that may weigh too much */
	uint64_t sum = 0, n = 0, first;
	bool seen;
	int e = 0;

	for (size_t i = 0; i < p->n_samples && e >= 0; i++) {
		struct profile_sample *s = &p->samples[i];
		uint64_t usual = usual_weight(&r->events[s->session]), count = s->weight, before;
		uint64_t key = key_of(r, i);

		if (!r->raw[i].has_count) {
			s->weight = usual ? usual : 1;
			continue;
		}
		usual = exact ? UINT64_MAX : usual;
		seen = table_get(&last, key, &before);
		if (seen && count >= before) {
			s->weight = count - before;
			sum += s->weight;
			n++;
			if (table_get(&firsts, key, &first) && first) {
				bound_first(&p->samples[first - 1], s->weight);
				e = table_put(&firsts, key, 0);
			}
		} else if (seen &&
			   exact) { /* out of order: what is missing here is in the one before */
			s->weight = 0;
			count = before;
		} else { /* the first, or an event that was opened again and counts from 0 again */
			s->weight = usual ? min_u64(usual, count) : count;
			if (!usual && !seen)
				e = reader_put(r, HELD_STREAMS, &firsts, key, i + 1);
		}
		if (e >= 0)
			e = reader_put(r, HELD_STREAMS, &last, key, count);
	}
	bound_lone(r, &firsts, sum, n);
	table_deinit(&firsts);
	table_deinit(&last);
	return e < 0 ? trace(e) : 0;
}

static int finish_samples(struct reader *r)
{
	struct profile *p = r->profile;
	uint64_t lost = 0; /* of a clock without a definition */
	int e;

	reader_sort_clocks(r);
	for (size_t i = 0; i < p->n_samples; i++) {
		lost += !reader_has_clock(r, r->raw[i].clock);
		p->samples[i].time = reader_trace_time(r, r->raw[i].clock, p->samples[i].time);
	}
	if (lost) {
		e = reader_count_add(r, STAT_clock_sync_failure_unknown_source_clock, -1, lost);
		if (e >= 0)
			e = reader_count_add(r, STAT_clock_sync_failure_undeferrable_packet_loss,
					     -1, lost);
		if (e < 0)
			return trace(e);
	}
	e = reader_finish_marks(r, reader_trace_time);
	if (e >= 0)
		e = reader_sort_samples(r, compare_samples);
	if (e >= 0)
		e = weigh(r);
	return e < 0 ? trace(e) : 0;
}

/* ---- late names ---- */
static int compare_symbols(const void *a, const void *b)
{
	const struct reader_symbol *x = a, *y = b;

	return ascend(x->module, y->module) ?:
	       ascend(x->address, y->address) ?:
	       ascend(x->order, y->order);
}

enum { EARLIER = 16 }; /* symbols of an address that are looked at: a file may have any number */

/* Is @symbol the function of @last, which has no line, with a line? */
static bool knows_line(const struct profile *p, const struct reader_symbol *symbol,
		       const struct reader_symbol *last)
{
	const struct profile_line *a = &p->lines[symbol->first_line],
				  *b = &p->lines[last->first_line];

	return symbol->n_lines == 1 && last->n_lines == 1 && a->line && !b->line &&
	       a->function == b->function && (a->file == b->file || !b->file);
}

/* The last symbol of (module, address), or NULL.  A script's function that is gone has its name, and the line that it had when
 * it was there. */
static const struct reader_symbol *find_symbol(const struct reader *r, uint32_t module,
					       uint64_t address)
{
	const struct reader_symbol key = {
		.module = module, .address = address, .order = UINT32_MAX};
	/* The first one behind the key. */
	size_t low = bisect(i, r->n_symbols, compare_symbols(&r->symbols[i], &key) <= 0);

	if (!low || r->symbols[low - 1].module != module || r->symbols[low - 1].address != address)
		return NULL;
	for (size_t i = low - 1, n = 0; i-- > 0 && n < EARLIER; n++) {
		if (r->symbols[i].module != module || r->symbols[i].address != address)
			break;
		if (knows_line(r->profile, &r->symbols[i], &r->symbols[low - 1]))
			return &r->symbols[i];
	}
	return &r->symbols[low - 1];
}

/* A frame keeps the kind that it was written with where its new lines have none. */
static void set_lines(struct profile *p, struct profile_frame *f, uint32_t first, uint32_t n)
{
	uint32_t kind = p->lines[f->first_line + f->n_lines - 1].kind;
	struct profile_line *outermost = &p->lines[first + n - 1];

	f->first_line = first;
	f->n_lines = n;
	if (outermost->kind == FRAME_NATIVE)
		outermost->kind = kind;
}

/* A frame written before its name was known takes it from one of the same address written after. */
static int lend_names(struct reader *r)
{
	struct profile *p = r->profile;
	struct table named = {0}; /* (module, rel_pc) mixed -> frame */
	uint64_t index;
	int e = 0;

	for (size_t i = 0; i < p->n_frames && e >= 0; i++) {
		const struct profile_frame *f = &p->frames[i];

		if (f->module != UINT32_MAX && f->rel_pc && p->lines[f->first_line].function)
			e = table_put(&named, hash_u64(f->rel_pc) + f->module, i);
	}
	for (size_t i = 0; i < p->n_frames && e >= 0; i++) {
		struct profile_frame *f = &p->frames[i];

		if (p->lines[f->first_line].function || f->module == UINT32_MAX || !f->rel_pc ||
		    !table_get(&named, hash_u64(f->rel_pc) + f->module, &index))
			continue;
		if (p->frames[index].module == f->module && p->frames[index].rel_pc == f->rel_pc) {
			set_lines(p, f, p->frames[index].first_line, p->frames[index].n_lines);
		}
	}
	table_deinit(&named);
	return e < 0 ? trace(e) : 0;
}

static int finish_frames(struct reader *r)
{
	struct profile *p = r->profile;
	int e;

	if (r->n_symbols)
		qsort(r->symbols, r->n_symbols, sizeof(*r->symbols), compare_symbols);
	for (size_t i = 0; i < p->n_frames; i++) {
		const struct reader_symbol *symbol =
			find_symbol(r, p->frames[i].module, p->frames[i].rel_pc);

		if (symbol)
			set_lines(p, &p->frames[i], symbol->first_line, symbol->n_lines);
	}
	e = lend_names(r);
	return e < 0 ? trace(e) : 0;
}

/* ---- names of what the trace does not name ---- */
static int finish_names(struct reader *r)
{
	struct profile *p = r->profile;
	char text[32];
	int e = 0;

	for (size_t i = 0; i < p->n_processes && e >= 0; i++) {
		struct profile_process *process = &p->processes[i];

		if (process->name)
			continue;
		if (process->pid)
			(void)snprintf(text, sizeof(text), "[pid %" PRId32 "]",
				       (int32_t)process->pid);
		else
			(void)snprintf(text, sizeof(text), "[idle]");
		e = reader_string(r, text, strlen(text), &process->name);
	}
	for (size_t i = 0; i < p->n_threads && e >= 0; i++) {
		struct profile_thread *thread = &p->threads[i];
		const struct profile_process *process = &p->processes[thread->process];

		if (thread->name)
			continue;
		thread->name = process->name;
		if (process->pid == thread->tid)
			continue;
		(void)snprintf(text, sizeof(text), "[tid %" PRIu32 "]", thread->tid);
		e = reader_string(r, text, strlen(text), &thread->name);
	}
	return e < 0 ? trace(e) : 0;
}

static int finish_notes(struct reader *r)
{
	char text[128];
	int e = 0;

	if (r->without_state) {
		(void)snprintf(text, sizeof(text),
			       "%" PRIu64
			       " samples cannot be read: the packets they refer to were lost",
			       r->without_state);
		e = reader_note(r, text, strlen(text));
	}
	if (e >= 0 && r->guardrail) {
		(void)snprintf(text, sizeof(text), "the profiler stopped at its own memory limit");
		e = reader_note(r, text, strlen(text));
	}
	return e < 0 ? trace(e) : 0;
}

int reader_finish(struct reader *r)
{
	struct profile *p = r->profile;
	int e;

	if (!r->n_sessions)
		reader_event_default(&r->events[0]);
	memcpy(p->event_name, r->events[0].name, sizeof(p->event_name));
	memcpy(p->weight_unit, r->events[0].unit, sizeof(p->weight_unit));
	e = finish_frames(r);
	if (e >= 0)
		e = finish_names(r);
	if (e >= 0)
		e = finish_notes(r);
	if (e >= 0)
		e = finish_samples(r);
	if (e >= 0)
		e = reader_find_events(r);
	if (e >= 0)
		e = reader_finish_followers(r);
	if (e >= 0)
		e = reader_choose_events(r);
	if (e >= 0)
		e = reader_finish_counts(r);
	return e < 0 ? trace(e) : 0;
}
