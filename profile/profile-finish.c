/* profile-finish.c - what can be told only when the whole trace has been read: times, weights, late
 * names.
 *
 * The weight of a sample is what its event counted since the sample before it on the same CPU of
 * the same session, skipped ones included: timebase_count is a running sum.  So what was lost in a
 * ring weighs on the next sample that was not, and the sum over a CPU is the event's true count. */
#include <errno.h>
#include <inttypes.h>

#include "base/error.h"
#include "profile/profile-reader.h"

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

int reader_sort_samples(struct reader *r,
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

/* The first sample of a CPU where no weight is usual: what its event counted until then, unless that
 * began before the trace did (a ring buffer's beginning is gone, an interval is read alone): then
 * the second sample's weight, or the mean of all, says more. */
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

/* Turns counts into weights. */
static int weigh(struct reader *r)
{
	struct profile *p = r->profile;
	struct table last = {0};   /* of (sequence, CPU): the count */
	struct table firsts = {0}; /* the same: index + 1 of one whose weight may be too much */
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
		seen = table_get(&last, key, &before);
		if (seen && count >= before) {
			s->weight = count - before;
			sum += s->weight;
			n++;
			if (table_get(&firsts, key, &first) && first) {
				bound_first(&p->samples[first - 1], s->weight);
				e = table_put(&firsts, key, 0);
			}
		} else { /* the first, or an event that was opened anew and counts from 0 again */
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
	uint64_t lost = 0; /* of a clock that nobody has told */
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
	e = reader_sort_samples(r, compare_samples);
	if (e >= 0)
		e = weigh(r);
	return e < 0 ? trace(e) : 0;
}

/* ---- late names ---- */
static int compare_symbols(const void *a, const void *b)
{
	const struct reader_symbol *x = a, *y = b;

	if (x->module != y->module)
		return x->module < y->module ? -1 : 1;
	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* The last symbol of (module, address), or NULL. */
static const struct reader_symbol *find_symbol(const struct reader *r, uint32_t module,
					       uint64_t address)
{
	const struct reader_symbol key = {
		.module = module, .address = address, .order = UINT32_MAX};
	size_t low = 0, high = r->n_symbols;

	while (low < high) { /* the first one behind the key */
		size_t middle = low + (high - low) / 2;

		if (compare_symbols(&r->symbols[middle], &key) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || r->symbols[low - 1].module != module || r->symbols[low - 1].address != address)
		return NULL;
	return &r->symbols[low - 1];
}

/* A frame written before its name was known lends it from one of the same address written after. */
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
			f->first_line = p->frames[index].first_line;
			f->n_lines = p->frames[index].n_lines;
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

		if (symbol) {
			p->frames[i].first_line = symbol->first_line;
			p->frames[i].n_lines = symbol->n_lines;
		}
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
