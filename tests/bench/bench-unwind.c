/* bench-unwind.c - what unwinding costs, by engine, on live samples of a command: all figures in
 * one run.
 *
 *   bench-unwind [OPTIONS] (-- COMMAND ARGS... | --load FILE)
 *
 *   streamed   the stacks come from memory: before each batch of 16 every line of their copies and
 * registers is flushed from all caches (clflush), as a profiler meets bytes that the kernel wrote a
 * while ago cached     the same batch unwound again at once, several times cold       the first
 * pass of a new engine over all samples: rules are found, nothing else is known cache      what the
 * process grew by in that pass (RssAnon), so that all engines are measured alike
 *
 * Modules are loaded before; every engine gets the same batches.  Of each batch the median of the
 * rounds counts, so that being preempted now and then does not. Thread: one. */
#include <errno.h>
#include <getopt.h>
#include <string.h>
#include <time.h>

#include "tests/differential/agree.h"

enum { ROUNDS_MAX = 101, REPEATS = 4, LINE = 64 };

struct bench_options {
	struct samples_options samples;
	const char *json, *name;
	uint64_t rounds;
};

struct figures {
	double streamed, cached; /* ns a frame */
	double cold_ms, ns_miss;
	double whole, frames; /* share; mean */
	uint64_t cache_bytes;
};

struct bench {
	const struct samples *samples;
	struct uw_snapshot snapshots[UW_BATCH];
	struct uw_result results[UW_BATCH];
	uint64_t frames[UW_BATCH][UW_MAX_FRAMES];
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

static void fence(void)
{
	__sync_synchronize();
}

static size_t batch_fill(struct bench *b, size_t at)
{
	size_t n = (size_t)min_u64(UW_BATCH, b->samples->n - at);

	for (size_t i = 0; i < n; i++) {
		b->snapshots[i] = b->samples->list[at + i].snapshot;
		b->results[i] =
			(struct uw_result){.frames = b->frames[i], .max_frames = UW_MAX_FRAMES};
	}
	return n;
}

static uint64_t batch_frames(const struct bench *b, size_t n, uint64_t *whole)
{
	uint64_t frames = 0;

	for (size_t i = 0; i < n; i++) {
		frames += b->results[i].n_frames;
		*whole += b->results[i].outcome == UW_WHOLE;
	}
	return frames;
}

struct totals {
	uint64_t ns, frames, whole;
};

enum pass { PASS_PLAIN, PASS_STREAMED, PASS_CACHED };

/* One pass over all samples.  Adds the nanoseconds of each batch to @times (a round's column of
 * ROUNDS_MAX). */
static int pass_run(struct bench *b, struct uw_engine *engine, enum pass pass, uint64_t *times,
		    struct totals *ret_totals)
{
	struct totals totals = {0};

	for (size_t at = 0; at < b->samples->n; at += UW_BATCH, times += ROUNDS_MAX) {
		size_t n = batch_fill(b, at);
		int repeats = pass == PASS_CACHED ? REPEATS : 1, r = 0;
		uint64_t start;

		if (pass == PASS_CACHED)
			r = uw_unwind_batch(engine, b->snapshots, n, b->results);
		for (size_t i = 0; i < n && pass == PASS_STREAMED; i++) {
			flush_lines(b->snapshots[i].stack, b->snapshots[i].stack_len);
			flush_lines(b->snapshots[i].regs,
				    b->snapshots[i].regs ? UW_X86_COUNT * 8 : 0);
		}
		fence();
		start = clock_ns(CLOCK_MONOTONIC);
		for (int i = 0; i < repeats && r == 0; i++)
			r = uw_unwind_batch(engine, b->snapshots, n, b->results);
		*times = (clock_ns(CLOCK_MONOTONIC) - start) / (uint64_t)repeats;
		if (r < 0)
			return r;
		totals.ns += *times;
		totals.frames += batch_frames(b, n, &totals.whole);
	}
	*ret_totals = totals;
	return 0;
}

static int u64_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int passes_median(struct bench *b, struct uw_engine *engine, enum pass pass, uint64_t rounds,
			 double *ret_ns)
{
	size_t n_batches = (b->samples->n + UW_BATCH - 1) / UW_BATCH;
	_cleanup_(freep) uint64_t *times = calloc(n_batches * ROUNDS_MAX, sizeof(*times));
	struct totals totals = {0};
	uint64_t ns = 0;

	if (!times)
		return -ENOMEM;
	for (uint64_t i = 0; i < rounds; i++) {
		int r = pass_run(b, engine, pass, times + i, &totals);

		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < n_batches; i++) {
		qsort(times + i * ROUNDS_MAX, rounds, sizeof(*times), u64_compare);
		ns += times[i * ROUNDS_MAX + rounds / 2];
	}
	*ret_ns = totals.frames ? (double)ns / (double)totals.frames : 0;
	return 0;
}

static uint64_t rss_anon_bytes(void)
{
	_cleanup_(freep) char *text = NULL;
	const char *line;
	int r = read_file("/proc/self/status", 1 << 16, &text, NULL);

	line = r < 0 ? NULL : strstr(text, "RssAnon:");
	return line ? strtoull(line + strlen("RssAnon:"), NULL, 10) * 1024 : 0;
}

static int engine_measure(struct bench *b, enum uw_engine_kind kind, uint64_t rounds,
			  struct figures *ret_figures)
{
	struct uw_engine_stats stats;
	struct uw_engine *engine;
	struct figures f = {0};
	size_t n_batches = (b->samples->n + UW_BATCH - 1) / UW_BATCH;
	_cleanup_(freep) uint64_t *times = calloc(n_batches * ROUNDS_MAX, sizeof(*times));
	struct totals totals;
	uint64_t rss;
	int r = times ? uw_engine_new(kind, &engine) : -ENOMEM;

	if (r < 0)
		return r;
	rss = rss_anon_bytes();
	r = pass_run(b, engine, PASS_PLAIN, times, &totals);
	if (r == 0) {
		f.cold_ms = (double)totals.ns / 1e6;
		f.frames = (double)totals.frames / (double)b->samples->n;
		f.whole = (double)totals.whole / (double)b->samples->n;
		uw_engine_stats(engine, &stats);
		f.ns_miss = stats.cache_misses ? (double)totals.ns / (double)stats.cache_misses : 0;
		f.cache_bytes = rss_anon_bytes();
		f.cache_bytes = f.cache_bytes > rss ? f.cache_bytes - rss : 0;
		if (stats.cache_bytes > f.cache_bytes)
			f.cache_bytes = stats.cache_bytes;
		r = passes_median(b, engine, PASS_STREAMED, rounds, &f.streamed);
	}
	if (r == 0)
		r = passes_median(b, engine, PASS_CACHED, rounds, &f.cached);
	uw_engine_free(engine);
	*ret_figures = f;
	return r;
}

/* ---- output ---- */

static const enum uw_engine_kind kinds[] = {UW_ENGINE_NATIVE, UW_ENGINE_LIBUNWIND, UW_ENGINE_LIBDW};

static void print_table(const struct bench *b, const char *name, const struct figures *f,
			const double *agreement)
{
	printf("%s: %zu samples, %.1f frames a sample, %llu KiB of stack, %llu lost\n", name,
	       b->samples->n, f[0].frames, (unsigned long long)b->samples->stack_bytes / 1024,
	       (unsigned long long)b->samples->lost);
	printf("  engine     streamed ns/frame     cached ns/frame  us/sample  cold ms  ns/miss  "
	       "whole %%   cache KiB  "
	       "frames as native %%\n");
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		printf("  %-10s %9.1f (x %6.1f) %9.1f (x %6.1f) %10.2f %8.2f %8.0f %8.3f %11llu  "
		       "%8.4f\n",
		       uw_engine_name(kinds[i]), f[i].streamed,
		       f[0].streamed > 0 ? f[i].streamed / f[0].streamed : 0, f[i].cached,
		       f[0].cached > 0 ? f[i].cached / f[0].cached : 0,
		       f[i].streamed * f[i].frames / 1000, f[i].cold_ms, f[i].ns_miss,
		       100 * f[i].whole, (unsigned long long)f[i].cache_bytes / 1024,
		       100 * agreement[i]);
}

static void print_json_text(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		if ((unsigned char)*text >= ' ')
			fputc(*text, out);
	}
	fputc('"', out);
}

static int write_json(const struct bench *b, const char *path, const char *name,
		      const struct figures *f, const double *agreement)
{
	_cleanup_(file_closep) FILE *file = strcmp(path, "-") ? fopen(path, "we") : NULL;
	FILE *out = file ? file : stdout;

	if (!file && strcmp(path, "-"))
		return -errno;
	fputs("{\"file\":", out);
	print_json_text(out, name);
	fprintf(out, ",\"samples\":%zu,\"frames_per_sample\":%.2f,\"engines\":{", b->samples->n,
		f[0].frames);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		fprintf(out,
			"%s\"%s\":{\"ns_frame_streamed\":%.2f,\"ns_frame_cached\":%.2f,\"cold_ms\":"
			"%.3f,\"whole\":%.6f,"
			"\"cache_bytes\":%llu}",
			i ? "," : "", uw_engine_name(kinds[i]), f[i].streamed, f[i].cached,
			f[i].cold_ms, f[i].whole, (unsigned long long)f[i].cache_bytes);
	fprintf(out, "},\"agreement\":{\"libunwind\":%.6f,\"libdw\":%.6f}}\n", agreement[1],
		agreement[2]);
	return fflush(out) ? -errno : 0;
}

static int share_of_agreement(const struct samples *samples, double *ret_shares)
{
	struct answers *answers[ARRAY_SIZE(kinds)] = {0};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(kinds) && r == 0; i++) {
		struct agreement a;

		r = answers_new(kinds[i], samples, &answers[i]);
		if (r < 0)
			break;
		agree_compare(answers[0], answers[i], &a);
		ret_shares[i] = a.frames ? (double)a.same_frames / (double)a.frames : 1;
	}
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		answers_free(answers[i]);
	return r;
}

static int bench_run(const struct bench_options *options, struct bench *b)
{
	struct figures figures[ARRAY_SIZE(kinds)];
	double agreement[ARRAY_SIZE(kinds)];
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(kinds) && r == 0; i++)
		r = engine_measure(b, kinds[i], options->rounds, &figures[i]);
	if (r == 0)
		r = share_of_agreement(b->samples, agreement);
	if (r < 0)
		return r;
	if (!options->json || strcmp(options->json, "-"))
		print_table(b, options->name, figures, agreement);
	return options->json ? write_json(b, options->json, options->name, figures, agreement) : 0;
}

static const char usage[] =
	"usage: bench-unwind [options] (-- COMMAND ARGS... | --load FILE)\n"
	"  -F, --frequency HZ   samples a second of CPU time (4000)\n"
	"  -n, --samples N      at most (2000)\n"
	"  -r, --rounds N       passes of which the median counts (5)\n"
	"      --json FILE      the figures as one object (-: standard output)\n"
	"      --load FILE      samples saved by diff-engines --save\n"
	"      --name TEXT      instead of the command's name\n";

static int parse_options(int argc, char **argv, struct bench_options *options)
{
	static const struct option long_options[] = {
		{"frequency", required_argument, NULL, 'F'},
		{"samples", required_argument, NULL, 'n'},
		{"rounds", required_argument, NULL, 'r'},
		{"json", required_argument, NULL, 'j'},
		{"load", required_argument, NULL, 'i'},
		{"name", required_argument, NULL, 'N'},
		{0},
	};
	int c, r = 0;

	while (r == 0 && (c = getopt_long(argc, argv, "+F:n:r:", long_options, NULL)) != -1) {
		if (c == 'F')
			r = parse_u64(optarg, 10, 100000, &options->samples.frequency);
		else if (c == 'n')
			r = parse_u64(optarg, 10, 10000000, &options->samples.max_samples);
		else if (c == 'r')
			r = parse_u64(optarg, 10, ROUNDS_MAX, &options->rounds);
		else if (c == 'j')
			options->json = optarg;
		else if (c == 'i')
			options->samples.load = optarg;
		else if (c == 'N')
			options->name = optarg;
		else
			r = -EINVAL;
	}
	if (optind < argc)
		options->samples.command = argv + optind;
	if (r < 0 || !options->rounds || !options->samples.command == !options->samples.load)
		return -EINVAL;
	if (!options->name)
		options->name =
			options->samples.load ? options->samples.load : options->samples.command[0];
	return 0;
}

int main(int argc, char **argv)
{
	_cleanup_(samples_freep) struct samples *samples = NULL;
	_cleanup_(freep) struct bench *bench = calloc(1, sizeof(*bench));
	struct bench_options options = {
		.samples = {.frequency = 4000,
			    .stack_bytes = 65528,
			    .max_bytes = 4ull << 30,
			    .max_samples = 2000,
			    .quiet = true},
		.rounds = 5,
	};
	int r;

	if (parse_options(argc, argv, &options) < 0) {
		fputs(usage, stderr);
		return 2;
	}
	if (!bench || samples_new(&options.samples, &samples) < 0)
		return 2;
	if (!samples->n) {
		fprintf(stderr, "bench-unwind: no samples\n");
		return 1;
	}
	bench->samples = samples;
	r = bench_run(&options, bench);
	if (r < 0)
		fprintf(stderr, "bench-unwind: %s\n", strerror(-r));
	return r < 0 ? 2 : 0;
}
