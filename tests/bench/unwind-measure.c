/* unwind-measure.c - see unwind-measure.h. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "tests/bench/unwind-measure.h"

enum { LINE = 64 };

const enum uw_engine_kind measure_kinds[MEASURE_ENGINES] = {UW_ENGINE_NATIVE, UW_ENGINE_LIBUNWIND,
							    UW_ENGINE_LIBDW};

enum pass { PASS_PLAIN, PASS_STREAMED, PASS_CACHED };

struct measure {
	const struct samples *samples;
	size_t n_batches;
	struct uw_engine *engines[MEASURE_ENGINES];
	struct uw_engine_stats cold; /* of the last cold pass */
	uint64_t *times[MEASURE_ENGINES]
		       [2];	   /* of cold, again; of streamed, cached: rounds of each batch */
	uint8_t *copies[UW_BATCH]; /* each as large as the largest stack */
	struct uw_snapshot snapshots[UW_BATCH];
	struct uw_result results[UW_BATCH];
	uint64_t frames[UW_BATCH][UW_MAX_FRAMES];
	/* the floor: of each sample's stack, the offsets of its return addresses */
	uint32_t *places, *first_place; /* first_place: of each sample, and the end */
	size_t n_places, n_callers;
	uint64_t *floor_times[2], sum;
};

struct totals {
	uint64_t ns, frames, whole;
};

static void flush_lines(const void *data, size_t len)
{
#ifdef __x86_64__
	const uint8_t *p = data;

	for (size_t i = 0; i < len; i += LINE)
		__builtin_ia32_clflush(p + i);
	if (len)
		__builtin_ia32_clflush(p + len - 1);
#else
	(void)data, (void)len;
#endif
}

static size_t batch_fill(struct measure *m, size_t at)
{
	size_t n = (size_t)min_u64(UW_BATCH, m->samples->n - at);

	for (size_t i = 0; i < n; i++) {
		m->snapshots[i] = m->samples->list[at + i].snapshot;
		m->results[i] =
			(struct uw_result){.frames = m->frames[i], .max_frames = UW_MAX_FRAMES};
	}
	return n;
}

static void batch_prepare(struct measure *m, size_t n, enum pass pass)
{
	for (size_t i = 0; i < n && pass == PASS_STREAMED; i++) {
		flush_lines(m->snapshots[i].stack, m->snapshots[i].stack_len);
		flush_lines(m->snapshots[i].regs, m->snapshots[i].regs ? UW_X86_COUNT * 8 : 0);
	}
	for (size_t i = 0; i < n && pass == PASS_CACHED; i++) {
		if (m->snapshots[i].stack_len)
			memcpy(m->copies[i], m->snapshots[i].stack, m->snapshots[i].stack_len);
		m->snapshots[i].stack = m->copies[i];
	}
	__sync_synchronize();
}

/* One pass over all samples.  Adds the nanoseconds of each batch to @times (a round's column of
 * MEASURE_ROUNDS_MAX); NULL: nowhere. */
static int pass_run(struct measure *m, size_t engine, enum pass pass, uint64_t *times,
		    struct totals *ret_totals)
{
	struct totals totals = {0};

	for (size_t at = 0; at < m->samples->n; at += UW_BATCH) {
		size_t n = batch_fill(m, at);
		uint64_t start, ns;
		int r;

		batch_prepare(m, n, pass);
		start = clock_ns(CLOCK_MONOTONIC);
		r = uw_unwind_batch(m->engines[engine], m->snapshots, n, m->results);
		ns = clock_ns(CLOCK_MONOTONIC) - start;
		if (r < 0)
			return r;
		if (times) {
			*times = ns;
			times += MEASURE_ROUNDS_MAX;
		}
		totals.ns += ns;
		for (size_t i = 0; i < n; i++) {
			totals.frames += m->results[i].n_frames;
			totals.whole += m->results[i].outcome == UW_WHOLE;
		}
	}
	*ret_totals = totals;
	return 0;
}

/* ---- the floor ---- */

/* Finds the words of the return addresses of a batch that was unwound: each is looked for above the one before. */
static int find_places(struct measure *m, size_t at, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct uw_snapshot *s = &m->snapshots[i];
		const struct uw_result *res = &m->results[i];
		uint32_t *places = reallocarray(m->places, m->n_places + res->n_frames + 1,
						sizeof(*m->places));
		size_t offset = 0;

		if (!places)
			return -ENOMEM;
		m->places = places;
		m->first_place[at + i] = (uint32_t)m->n_places;
		for (uint32_t f = 1; f < res->n_frames; f++) {
			uint64_t word = 0, pc = uw_frame_pc(res->frames[f]);

			for (size_t o = offset; word != pc && o + 8 <= s->stack_len; o += 8) {
				memcpy(&word, s->stack + o, sizeof(word));
				if (word != pc)
					continue;
				m->places[m->n_places++] = (uint32_t)o;
				offset = o + 8;
			}
			m->n_callers++;
		}
		m->first_place[at + i + 1] = (uint32_t)m->n_places;
	}
	return 0;
}

static int find_all_places(struct measure *m)
{
	int r = 0;

	for (size_t at = 0; at < m->samples->n && r == 0; at += UW_BATCH) {
		size_t n = batch_fill(m, at);

		r = uw_unwind_batch(m->engines[0], m->snapshots, n, m->results);
		if (r >= 0)
			r = find_places(m, at, n);
	}
	return r;
}

static uint64_t load_places(const struct measure *m, size_t at, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		const uint8_t *stack = m->snapshots[i].stack;
		const uint32_t *end = m->places + m->first_place[at + i + 1];

		for (const uint32_t *p = m->places + m->first_place[at + i]; p < end; p++) {
			uint64_t word;

			memcpy(&word, stack + *p, sizeof(word));
			sum += word;
		}
	}
	return sum;
}

static void floor_run(struct measure *m, enum pass pass, uint64_t *times)
{
	for (size_t at = 0; at < m->samples->n; at += UW_BATCH, times += MEASURE_ROUNDS_MAX) {
		size_t n = batch_fill(m, at);
		uint64_t start;

		batch_prepare(m, n, pass);
		start = clock_ns(CLOCK_MONOTONIC);
		m->sum += load_places(m, at, n);
		*times = clock_ns(CLOCK_MONOTONIC) - start;
	}
}

/* Every line of every stack, so that no engine meets them colder than another. */
static uint64_t touch_stacks(const struct samples *samples)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < samples->n; i++)
		for (size_t j = 0; j < samples->list[i].snapshot.stack_len; j += LINE)
			sum += ((const volatile uint8_t *)samples->list[i].snapshot.stack)[j];
	return sum;
}

static uint64_t rss_anon_bytes(void)
{
	_cleanup_(freep) char *text = NULL;
	const char *line;
	int r = read_file("/proc/self/status", 1 << 16, &text, NULL);

	line = r < 0 ? NULL : strstr(text, "RssAnon:");
	return line ? strtoull(line + strlen("RssAnon:"), NULL, 10) * 1024 : 0;
}

static int u64_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The sum over the batches of each one's lower quartile. */
static double quartiles(uint64_t *times, size_t n_batches, uint64_t rounds)
{
	uint64_t ns = 0;

	for (size_t i = 0; i < n_batches; i++, times += MEASURE_ROUNDS_MAX) {
		qsort(times, rounds, sizeof(*times), u64_compare);
		ns += times[(rounds - 1) / 4];
	}
	return (double)ns;
}

/* Makes an engine and lets it meet everything for the first time, and once more.  @round: the
 * column of the times. */
static int cold_round(struct measure *m, size_t engine, uint64_t round, struct totals *ret_totals)
{
	struct totals again;
	int r;

	(void)touch_stacks(m->samples);
	m->engines[engine] = uw_engine_free(m->engines[engine]);
	r = uw_engine_new(measure_kinds[engine], &m->engines[engine]);
	if (r == 0)
		r = pass_run(m, engine, PASS_PLAIN, m->times[engine][0] + round, ret_totals);
	if (r == 0)
		uw_engine_stats(m->engines[engine], &m->cold);
	if (r == 0)
		r = pass_run(m, engine, PASS_PLAIN, m->times[engine][1] + round, &again);
	return r;
}

/* What the first round grows by is the cache: a later engine has memory of the one before. */
static int measure_cold(struct measure *m, size_t engine, uint64_t rounds, struct figures *f)
{
	double n = (double)m->samples->n, cold, again;
	struct uw_engine_stats warm;
	struct totals totals;
	uint64_t rss = rss_anon_bytes(), grown = 0;

	for (uint64_t i = 0; i < rounds; i++) {
		int r = cold_round(m, engine, i, &totals);

		if (r < 0)
			return r;
		if (!i)
			grown = rss_anon_bytes();
	}
	uw_engine_stats(m->engines[engine], &warm);
	cold = quartiles(m->times[engine][0], m->n_batches, rounds);
	again = quartiles(m->times[engine][1], m->n_batches, rounds);
	*f = (struct figures){
		.cold_ms = cold / 1e6,
		.frames = (double)totals.frames / n,
		.whole = (double)totals.whole / n,
		.misses = m->cold.cache_misses,
		.reused = warm.reused_frames - m->cold.reused_frames,
		.cache_bytes = max_u64(grown > rss ? grown - rss : 0, m->cold.cache_bytes),
	};
	if (f->misses && cold > again)
		f->ns_miss = (cold - again) / (double)f->misses;
	return 0;
}

static int measure_warm(struct measure *m, uint64_t rounds, struct figures *figures,
			struct floor_figures *floor)
{
	struct totals totals;
	int r = find_all_places(m);

	for (uint64_t i = 0; i < rounds && r == 0; i++) {
		floor_run(m, PASS_STREAMED, m->floor_times[0] + i);
		floor_run(m, PASS_CACHED, m->floor_times[1] + i);
		for (size_t e = 0; e < MEASURE_ENGINES && r == 0; e++) {
			r = pass_run(m, e, PASS_STREAMED, m->times[e][0] + i, &totals);
			if (r == 0)
				r = pass_run(m, e, PASS_CACHED, m->times[e][1] + i, &totals);
		}
	}
	for (size_t e = 0; e < MEASURE_ENGINES && r == 0; e++) {
		double frames = figures[e].frames * (double)m->samples->n;

		if (frames < 1)
			continue;
		figures[e].streamed = quartiles(m->times[e][0], m->n_batches, rounds) / frames;
		figures[e].cached = quartiles(m->times[e][1], m->n_batches, rounds) / frames;
	}
	if (r == 0 && m->n_places) {
		double n = (double)m->n_places;

		*floor = (struct floor_figures){
			.streamed = quartiles(m->floor_times[0], m->n_batches, rounds) / n,
			.cached = quartiles(m->floor_times[1], m->n_batches, rounds) / n,
			.found = n / (double)m->n_callers,
		};
	}
	return r;
}

static uint64_t *times_new(const struct measure *m)
{
	return calloc(m->n_batches * MEASURE_ROUNDS_MAX + 1, sizeof(uint64_t));
}

static int measure_init(struct measure *m, const struct samples *samples)
{
	size_t largest = 8;

	m->samples = samples;
	m->n_batches = (samples->n + UW_BATCH - 1) / UW_BATCH;
	for (size_t i = 0; i < samples->n; i++)
		largest = max_u64(largest, samples->list[i].snapshot.stack_len);
	for (size_t i = 0; i < UW_BATCH; i++) {
		m->copies[i] = aligned_alloc(LINE, (largest + LINE - 1) & ~(size_t)(LINE - 1));
		if (!m->copies[i])
			return -ENOMEM;
	}
	for (size_t e = 0; e < MEASURE_ENGINES; e++) {
		for (size_t i = 0; i < 2; i++) {
			m->times[e][i] = times_new(m);
			if (!m->times[e][i])
				return -ENOMEM;
		}
	}
	m->floor_times[0] = times_new(m);
	m->floor_times[1] = times_new(m);
	m->first_place = calloc(samples->n + 1, sizeof(*m->first_place));
	return m->floor_times[0] && m->floor_times[1] && m->first_place ? 0 : -ENOMEM;
}

static void measure_free(struct measure *m)
{
	for (size_t e = 0; e < MEASURE_ENGINES; e++) {
		uw_engine_free(m->engines[e]);
		free(m->times[e][0]);
		free(m->times[e][1]);
	}
	for (size_t i = 0; i < UW_BATCH; i++)
		free(m->copies[i]);
	free(m->floor_times[0]);
	free(m->floor_times[1]);
	free(m->places);
	free(m->first_place);
	free(m);
}

int measure_all(const struct samples *samples, uint64_t rounds,
		struct figures ret_figures[MEASURE_ENGINES], struct floor_figures *ret_floor)
{
	struct measure *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return -ENOMEM;
	r = measure_init(m, samples);
	for (size_t e = 0; e < MEASURE_ENGINES && r == 0; e++)
		r = measure_cold(m, e, rounds, &ret_figures[e]);
	if (r == 0)
		r = measure_warm(m, rounds, ret_figures, ret_floor);
	measure_free(m);
	return r;
}
