/* bench-unwind.c - what unwinding costs, by engine, on recorded samples (or live ones of a
 * command): all figures in one run.  How they come about: unwind-measure.h.  `make bench-unwind
 * FILES="..."`.
 *
 * The baselines, as good as they get (unwinder/engine-libunwind.c, engine-libdw.c): libunwind with
 * one address space a process, cached per thread, 1,024 rules, its FDEs found by .eh_frame_hdr;
 * libdw with one Dwfl a process, kept.  All three read the same copies. */
#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "tests/bench/unwind-first.h"
#include "tests/bench/unwind-measure.h"

enum { CLASSES = 3 };

struct bench_options {
	struct samples_options samples;
	char **files;
	size_t n_files;
	bool json;	    /* instead of the table */
	const char *output; /* the object goes to this file, too */
	const char *name;
	uint64_t rounds;
};

struct bench {
	struct samples *samples;
	const char *name;
	struct figures figures[MEASURE_ENGINES];
	struct answers *answers[MEASURE_ENGINES];
	struct agreement agreement[MEASURE_ENGINES];
	struct first_figures first;
	struct floor_figures floor;
};

static double share(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 1;
}

static double share_of_frames(const struct agreement *a)
{
	return share(a->same_frames, a->frames);
}

/* Of native's frames in the warm passes: from an earlier stack of the thread, not unwound again. */
static double share_reused(const struct bench *b)
{
	return share(b->figures[0].reused,
		     (uint64_t)(b->figures[0].frames * (double)b->samples->n));
}

/* ---- output ---- */

static void print_engine(const struct bench *b, size_t i)
{
	const struct figures *f = &b->figures[i], *native = &b->figures[0];

	printf("  %-10s %9.4f %9.1f %8.0f %6.1fx %9.1f %8.0f %6.1fx %9.2f", b->answers[i]->name,
	       100 * f->whole, f->streamed, f->streamed * f->frames,
	       native->streamed > 0 ? f->streamed / native->streamed : 0, f->cached,
	       f->cached * f->frames, native->cached > 0 ? f->cached / native->cached : 0,
	       f->cold_ms);
	if (f->misses)
		printf(" %8llu %8.0f", (unsigned long long)f->misses, f->ns_miss);
	else
		printf(" %8s %8s", "-", "-");
	printf(" %9llu\n", (unsigned long long)f->cache_bytes / 1024);
}

/* Apart: the shares do not show it, and what is CUT is not a failure. */
static void print_outcomes(const struct bench *b)
{
	printf("  whole / cut / failed:");
	for (size_t i = 0; i < MEASURE_ENGINES; i++) {
		const uint64_t *by = b->answers[i]->by_outcome;

		printf("%s %s %llu / %llu / %llu", i ? "," : "", b->answers[i]->name,
		       (unsigned long long)by[UW_WHOLE], (unsigned long long)by[UW_CUT],
		       (unsigned long long)by[UW_FAILED]);
	}
	printf("\n");
}

static void print_first(const struct first_figures *f)
{
	if (!f->file_bytes) {
		printf("  first sample: none is whole\n");
		return;
	}
	printf("  first sample, nothing loaded: %.2f ms to whole (%.2f of it loading %zu modules, "
	       "the largest %s of %llu MB); %u frames, %llu CIEs and %llu FDEs read, %llu KiB of "
	       "sections held\n",
	       f->ms, f->load_ms, f->n_modules, f->file,
	       (unsigned long long)f->file_bytes / 1000000, f->frames, (unsigned long long)f->cies,
	       (unsigned long long)f->fdes, (unsigned long long)f->held / 1024);
}

static void print_table(const struct bench *b)
{
	const struct samples *s = b->samples;

	printf("%s: %zu samples, %.1f frames a sample, %llu KiB of stack, %llu lost, %zu modules "
	       "(%zu "
	       "unreadable)\n",
	       b->name, s->n, b->figures[0].frames, (unsigned long long)s->stack_bytes / 1024,
	       (unsigned long long)s->lost, s->n_modules, s->n_modules_unreadable);
	printf("  %-10s %9s %26s %26s %9s %8s %8s %9s\n", "", "", "streamed from memory",
	       "just copied", "cold", "cache", "ns a", "cache");
	printf("  %-10s %9s %9s %8s %7s %9s %8s %7s %9s %8s %8s %9s\n", "engine", "whole %",
	       "ns/frame", "/sample", "", "ns/frame", "/sample", "", "ms", "misses", "miss", "KiB");
	for (size_t i = 0; i < MEASURE_ENGINES; i++)
		print_engine(b, i);
	printf("  %-10s %9s %9.1f %8s %7s %9.1f   loads of the return addresses alone, places "
	       "known "
	       "(%.1f %% found)\n",
	       "floor", "", b->floor.streamed, "", "", b->floor.cached, 100 * b->floor.found);
	printf("  (libdw has no misses to count: it keeps no rules, and runs each frame's program "
	       "again)\n");
	print_outcomes(b);
	print_first(&b->first);
	printf("  native took %.1f %% of the frames from an earlier stack of the thread: its "
	       "ns/frame "
	       "above are of all frames\n",
	       100 * share_reused(b));
	for (size_t i = 1; i < MEASURE_ENGINES; i++) {
		const struct agreement *a = &b->agreement[i];

		printf("  native as %s: %.4f %% of frames, %.3f %% of stacks; whole only by native "
		       "%llu, only by %s %llu; %llu frames of native's are behind its failures, "
		       "not compared\n",
		       b->answers[i]->name, 100 * share_of_frames(a),
		       100 * share(a->same_samples, a->samples),
		       (unsigned long long)a->only_first_whole, b->answers[i]->name,
		       (unsigned long long)a->only_second_whole,
		       (unsigned long long)a->first_further);
		agree_print_classes(b->samples, b->answers[0], b->answers[i], CLASSES);
	}
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

static int write_json(const struct bench *b, FILE *out)
{
	fputs("{\"file\":", out);
	print_json_text(out, b->name);
	fprintf(out, ",\"samples\":%zu,\"frames_per_sample\":%.2f,\"engines\":{", b->samples->n,
		b->figures[0].frames);
	for (size_t i = 0; i < MEASURE_ENGINES; i++) {
		const struct figures *f = &b->figures[i];

		fprintf(out,
			"%s\"%s\":{\"ns_frame_streamed\":%.2f,\"ns_frame_cached\":%.2f,\"cold_ms\":"
			"%.3f,\"whole\":%.6f,\"cache_bytes\":%llu}",
			i ? "," : "", b->answers[i]->name, f->streamed, f->cached, f->cold_ms,
			f->whole, (unsigned long long)f->cache_bytes);
	}
	fprintf(out, "},\"floor\":{\"ns_frame_streamed\":%.2f,\"ns_frame_cached\":%.2f",
		b->floor.streamed, b->floor.cached);
	fprintf(out, "},\"agreement\":{\"libunwind\":%.6f,\"libdw\":%.6f},\"native_reused\":%.4f",
		share_of_frames(&b->agreement[1]), share_of_frames(&b->agreement[2]),
		share_reused(b));
	for (size_t i = 1; i < MEASURE_ENGINES; i++) {
		const struct agreement *a = &b->agreement[i];

		fprintf(out,
			",\"against_%s\":{\"whole_only_native\":%llu,\"whole_only_other\":%llu,"
			"\"native_further_frames\":%llu}",
			b->answers[i]->name, (unsigned long long)a->only_first_whole,
			(unsigned long long)a->only_second_whole,
			(unsigned long long)a->first_further);
	}
	fprintf(out, "}\n");
	return fflush(out) ? -errno : 0;
}

static int write_json_file(const struct bench *b, const char *path)
{
	_cleanup_(file_closep) FILE *file = fopen(path, "we");

	return file ? write_json(b, file) : -errno;
}

/* ---- a run ---- */

static int bench_measure(struct bench *b, uint64_t rounds)
{
	int r = measure_all(b->samples, rounds, b->figures, &b->floor);

	for (size_t i = 0; i < MEASURE_ENGINES && r == 0; i++) {
		r = answers_new(measure_kinds[i], b->samples, &b->answers[i]);
		if (r == 0)
			agree_compare(b->answers[0], b->answers[i], &b->agreement[i]);
	}
	if (r == 0)
		r = first_measure(b->samples, b->answers[0], rounds, &b->first);
	return r == -ENODATA ? 0 : r;
}

static int bench_report(const struct bench_options *options, const struct bench *b)
{
	int r = 0;

	if (!options->json)
		print_table(b);
	else
		r = write_json(b, stdout);
	if (r == 0 && options->output)
		r = write_json_file(b, options->output);
	return r;
}

static int bench_run(const struct bench_options *options, const char *name)
{
	struct bench b = {.name = options->name ? options->name : name};
	int r;

	if (samples_new(&options->samples, &b.samples) < 0)
		return 2; /* the reason is printed */
	r = b.samples->n ? bench_measure(&b, options->rounds) : -ENODATA;
	if (r == 0)
		r = bench_report(options, &b);
	if (r < 0)
		fprintf(stderr, "bench-unwind: %s: %s\n", name,
			r == -ENODATA ? "no samples with a user stack" : strerror(-r));
	for (size_t i = 0; i < MEASURE_ENGINES; i++)
		answers_free(b.answers[i]);
	samples_free(b.samples);
	return r < 0 ? 2 : 0;
}

/* ---- options ---- */

static const char usage[] =
	"usage: bench-unwind [options] FILE... | bench-unwind [options] -- COMMAND ARGS...\n"
	"A FILE is a perf.data (perf record --call-graph dwarf), or of diff-engines --save.\n"
	"      --json           one object a file instead of the table\n"
	"  -o, --output FILE    the object into a file, besides\n"
	"  -r, --rounds N       passes of each engine (7)\n"
	"  -n, --samples N      at most (of a command 2000, of a file all)\n"
	"  -F, --frequency HZ   of a command: samples a second of CPU time (4000)\n"
	"      --name TEXT      instead of the command's or the file's\n";

static int parse_options(int argc, char **argv, struct bench_options *options)
{
	static const struct option long_options[] = {
		{"frequency", required_argument, NULL, 'F'},
		{"samples", required_argument, NULL, 'n'},
		{"rounds", required_argument, NULL, 'r'},
		{"json", no_argument, NULL, 'j'},
		{"output", required_argument, NULL, 'o'},
		{"name", required_argument, NULL, 'N'},
		{0},
	};
	uint64_t n = 0;
	int c, r = 0;

	while (r == 0 && (c = getopt_long(argc, argv, "+F:n:r:o:", long_options, NULL)) != -1) {
		if (c == 'F')
			r = parse_u64(optarg, 10, 100000, &options->samples.frequency);
		else if (c == 'n')
			r = parse_u64(optarg, 10, 10000000, &n);
		else if (c == 'r')
			r = parse_u64(optarg, 10, MEASURE_ROUNDS_MAX, &options->rounds);
		else if (c == 'j')
			options->json = true;
		else if (c == 'o')
			options->output = optarg;
		else if (c == 'N')
			options->name = optarg;
		else
			r = -EINVAL;
	}
	if (r < 0 || !options->rounds || optind == argc)
		return -EINVAL;
	if (!strcmp(argv[optind - 1], "--")) {
		options->samples.command = argv + optind;
		options->samples.max_samples = n ? n : 2000;
	} else {
		options->files = argv + optind;
		options->n_files = (size_t)(argc - optind);
		options->samples.max_samples = n ? n : 10000000;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct bench_options options = {
		.samples = {.frequency = 4000,
			    .stack_bytes = 65528,
			    .max_bytes = 4ull << 30,
			    .quiet = true},
		.rounds = 7,
	};
	int status = 0;

	if (parse_options(argc, argv, &options) < 0) {
		fputs(usage, stderr);
		return 2;
	}
	if (options.samples.command)
		return bench_run(&options, options.samples.command[0]);
	for (size_t i = 0; i < options.n_files; i++) {
		int r;

		options.samples.load = options.files[i];
		r = bench_run(&options, options.files[i]);
		status = r ? r : status;
	}
	return status;
}
