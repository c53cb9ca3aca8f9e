/* diff-engines.c - the differential test: the same live samples of a command by native, libunwind
 * and libdw (and by frame pointers, --fp-copy), compared frame by frame.
 *
 *   diff-engines [OPTIONS] -- COMMAND ARGS...     exit 1 when agreement is below --min-agreement
 *
 * Thread: one. */
#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "base/log.h"
#include "tests/differential/bounds.h"
#include "tests/differential/judge.h"

struct diff_options {
	struct samples_options samples;
	const char *save, *name;
	double min_agreement, min_whole;
	size_t classes;
	bool fp_copy, judge, complete, bounds;
	enum uw_engine_kind bounded;
	uint64_t least;
	long show; /* a sample to print in full, -1: none */
};

static const struct option long_options[] = {
	{"frequency", required_argument, NULL, 'F'},
	{"stack-bytes", required_argument, NULL, 's'},
	{"samples", required_argument, NULL, 'n'},
	{"save", required_argument, NULL, 'o'},
	{"load", required_argument, NULL, 'i'},
	{"min-agreement", required_argument, NULL, 'a'},
	{"min-whole", required_argument, NULL, 'w'},
	{"classes", required_argument, NULL, 'c'},
	{"fp-copy", no_argument, NULL, 'f'},
	{"user-only", no_argument, NULL, 'u'},
	{"verbose", no_argument, NULL, 'v'},
	{"show", required_argument, NULL, 'S'},
	{"name", required_argument, NULL, 'N'},
	{"help", no_argument, NULL, 'h'},
	{"judge", no_argument, NULL, 'J'},
	{"complete", no_argument, NULL, 'C'},
	{"bounds", optional_argument, NULL, 'B'},
	{"least", required_argument, NULL, 'l'},
	{0},
};

static const char usage[] =
	"usage: diff-engines [options] (-- COMMAND ARGS... | --load FILE)\n"
	"  -F, --frequency HZ     samples a second of CPU time (999)\n"
	"  -s, --stack-bytes N    copied of each stack (65528)\n"
	"  -n, --samples N        at most (20000)\n"
	"      --user-only        only samples taken in user mode\n"
	"      --fp-copy          compare with frame pointers too\n"
	"  -a, --min-agreement R  exit 1 when native agrees with libunwind or "
	"libdw on a smaller share of frames\n"
	"  -w, --min-whole R      exit 1 when native reaches the root of a "
	"smaller share of stacks\n"
	"  -c, --classes N        classes of difference to print (5)\n"
	"      --judge            the file is of tests/programs/shadow: exit 1 "
	"when native has a stack wrong\n"
	"      --complete         exit 1 when an oracle reaches a root that "
	"native does not,\n"
	"                         or more than 0.05 % FAILED but for memory, which "
	"a recording lacks\n"
	"      --bounds[=ENGINE]  exit 1 when native (ENGINE) breaks a bound: FAILED, for whatever "
	"reason, in at\n"
	"                         most 0.05 %; WHOLE in no fewer than by the better oracle; "
	"wherever an\n"
	"                         oracle reaches a root, native does; CUT only of full "
	"copies\n"
	"      --least N          and when there are fewer samples (1)\n"
	"      --show N           print sample N by every engine\n"
	"      --save FILE, --load FILE\n"
	"      --name TEXT        instead of the command's name in the table\n"
	"  -v, --verbose          let the command write to the terminal; print "
	"where a failure came from\n";

static int parse_count(const char *text, uint64_t *ret_value)
{
	int r = parse_u64(text, 0, UINT32_MAX, ret_value);

	if (r < 0)
		fprintf(stderr, "diff-engines: %s: not a number\n", text);
	return r;
}

static int parse_engine(const char *name, enum uw_engine_kind *ret_kind)
{
	for (int kind = 0; kind < UW_ENGINE_COUNT; kind++) {
		if (!strcmp(name, uw_engine_name((enum uw_engine_kind)kind))) {
			*ret_kind = (enum uw_engine_kind)kind;
			return 0;
		}
	}
	return -EINVAL;
}

static int parse_option(struct diff_options *options, int c)
{
	uint64_t n = 0;

	if (strchr("FsncSl", c) && parse_count(optarg, &n) < 0)
		return -EINVAL;
	switch (c) {
	case 'F':
		options->samples.frequency = n;
		return 0;
	case 's':
		options->samples.stack_bytes = (uint32_t)n;
		return 0;
	case 'n':
		options->samples.max_samples = n;
		return 0;
	case 'c':
		options->classes = n;
		return 0;
	case 'S':
		options->show = (long)n;
		return 0;
	case 'o':
		options->save = optarg;
		return 0;
	case 'i':
		options->samples.load = optarg;
		return 0;
	case 'N':
		options->name = optarg;
		return 0;
	case 'a':
		options->min_agreement = strtod(optarg, NULL);
		return 0;
	case 'w':
		options->min_whole = strtod(optarg, NULL);
		return 0;
	case 'f':
		options->fp_copy = true;
		return 0;
	case 'J':
		options->judge = true;
		return 0;
	case 'C':
		options->complete = true;
		return 0;
	case 'B':
		options->bounds = true;
		return optarg ? parse_engine(optarg, &options->bounded) : 0;
	case 'l':
		options->least = n;
		return 0;
	case 'u':
		options->samples.user_only = true;
		return 0;
	case 'v':
		options->samples.quiet = false;
		log_level = LOG_LEVEL_DEBUG; /* where a failure came from */
		return 0;
	default:
		return -EINVAL;
	}
}

static int parse_options(int argc, char **argv, struct diff_options *options)
{
	const char *slash;
	int c;

	while ((c = getopt_long(argc, argv, "+F:s:n:a:w:c:uvh", long_options, NULL)) != -1)
		if (parse_option(options, c) < 0)
			return -EINVAL;
	if (optind < argc)
		options->samples.command = argv + optind;
	if (!options->samples.command == !options->samples.load)
		return -EINVAL;
	if (!options->name) {
		options->name =
			options->samples.load ? options->samples.load : options->samples.command[0];
		slash = strrchr(options->name, '/');
		options->name = slash ? slash + 1 : options->name;
	}
	return 0;
}

static void print_answers(const struct answers *answers)
{
	printf("  %-10s %8.1f %8.3f %8.3f %8.3f", answers->name,
	       answers->n ? (double)answers->frames / (double)answers->n : 0,
	       100.0 * (double)answers->by_outcome[UW_WHOLE] /
		       (double)(answers->n ? answers->n : 1),
	       100.0 * (double)answers->by_outcome[UW_CUT] / (double)(answers->n ? answers->n : 1),
	       100.0 * (double)answers->by_outcome[UW_FAILED] /
		       (double)(answers->n ? answers->n : 1));
	for (int i = 0; i < UW_REASON_COUNT; i++)
		if (answers->by_reason[i])
			printf("  %s %llu", uw_reason_name((enum uw_reason)i),
			       (unsigned long long)answers->by_reason[i]);
	if (answers->by_outcome[UW_PENDING])
		printf("  PENDING %llu", (unsigned long long)answers->by_outcome[UW_PENDING]);
	printf("\n");
}

/* The share of frames on which the two agree. */
static double print_agreement(struct samples *samples, const struct answers *first,
			      const struct answers *second, size_t classes)
{
	struct agreement a;
	double share;

	agree_compare(first, second, &a);
	share = a.frames ? (double)a.same_frames / (double)a.frames : 1;
	printf("  %s / %s: frames equal %.4f %%, stacks equal %.3f %% (%llu of them further by "
	       "%s); whole only by %s %llu, "
	       "only by %s %llu; kind of address differs %llu\n",
	       first->name, second->name, 100 * share,
	       100.0 * (double)a.same_samples / (double)(a.samples ? a.samples : 1),
	       (unsigned long long)a.first_further, first->name, first->name,
	       (unsigned long long)a.only_first_whole, second->name,
	       (unsigned long long)a.only_second_whole, (unsigned long long)a.other_flags);
	agree_print_classes(samples, first, second, classes);
	return share;
}

static void print_sample(struct samples *samples, const struct answers *answers, size_t at)
{
	const struct answer *answer = &answers->list[at];
	char text[256];

	printf("  sample %zu by %s: %s %s, stopped at %#llx; sp %#llx, %u bytes%s\n", at,
	       answers->name, uw_outcome_name(answer->outcome), uw_reason_name(answer->reason),
	       (unsigned long long)answer->stopped_at,
	       (unsigned long long)samples->list[at].snapshot.regs[UW_X86_SP],
	       samples->list[at].snapshot.stack_len,
	       samples->list[at].snapshot.stack_full ? " (full)" : "");
	for (uint32_t i = 0; i < answer->n; i++) {
		samples_describe(samples, &samples->list[at], answer->frames[i], text,
				 sizeof(text));
		printf("    %3u %s%s%s %s\n", i, answer->frames[i] & UW_FRAME_CALLER ? "c" : "-",
		       answer->frames[i] & UW_FRAME_SIGNAL ? "s" : "-",
		       answer->frames[i] & UW_FRAME_GUESSED ? "g" : "-", text);
	}
}

static bool is_complete(struct answers *const answers[3])
{
	const struct answers *native = answers[0];
	uint64_t failed = native->by_outcome[UW_FAILED] - native->by_reason[UW_MEMORY];
	struct agreement a;

	for (size_t i = 1; i < 3; i++) {
		agree_compare(native, answers[i], &a);
		if (a.only_second_whole)
			return false;
	}
	return failed * 2000 <= native->n;
}

/* 1: a bound is not kept. */
static int judge_bounds(const struct diff_options *options, const struct samples *samples,
			struct answers *const answers[3])
{
	struct answers *judged[3] = {NULL, answers[1], answers[2]};
	unsigned broken;
	int r = answers_new(options->bounded, samples, &judged[0]);

	if (r < 0)
		return r;
	broken = bounds_print(samples, judged, options->least);
	answers_free(judged[0]);
	return broken > 0;
}

static int compare(const struct diff_options *options, struct samples *samples)
{
	static const enum uw_engine_kind kinds[] = {UW_ENGINE_NATIVE, UW_ENGINE_LIBUNWIND,
						    UW_ENGINE_LIBDW, UW_ENGINE_FP_COPY};
	struct answers *answers[ARRAY_SIZE(kinds)] = {0};
	size_t n = options->fp_copy ? 4 : 3;
	double worst = 1, whole = 0;
	int r = 0;

	printf("%s: %zu samples, %llu without a user part, %llu lost, %llu KiB of stack, %zu "
	       "modules (%zu unreadable)\n",
	       options->name, samples->n, (unsigned long long)samples->n_no_user,
	       (unsigned long long)samples->lost, (unsigned long long)samples->stack_bytes / 1024,
	       samples->n_modules, samples->n_modules_unreadable);
	printf("  engine       frames  whole %%    cut %%  failed %%\n");
	for (size_t i = 0; i < n && r == 0; i++) {
		r = answers_new(kinds[i], samples, &answers[i]);
		if (r == 0)
			print_answers(answers[i]);
		if (r == 0 && i < 3)
			agree_print_failures(samples, answers[i], options->classes);
	}
	if (r == 0 && samples->n) {
		whole = (double)answers[0]->by_outcome[UW_WHOLE] / (double)samples->n;
		for (size_t i = 1; i < n; i++) {
			double share =
				print_agreement(samples, answers[0], answers[i], options->classes);

			worst = i < 3 && share < worst ? share : worst;
		}
		for (size_t i = 0;
		     i < n && options->show >= 0 && (size_t)options->show < samples->n; i++)
			print_sample(samples, answers[i], (size_t)options->show);
	}
	for (size_t i = 0; i < n && r == 0 && options->judge; i++) {
		uint64_t wrong = judge_print(samples, answers[i]);

		if (!i && wrong)
			worst = -1;
	}
	if (r == 0 && options->complete && !is_complete(answers))
		worst = -1;
	if (r == 0 && options->bounds)
		r = judge_bounds(options, samples, answers);
	if (r == 1)
		worst = -1;
	for (size_t i = 0; i < n; i++)
		answers_free(answers[i]);
	if (r < 0)
		return r;
	return samples->n && worst >= options->min_agreement && whole >= options->min_whole ? 0 : 1;
}

int main(int argc, char **argv)
{
	_cleanup_(samples_freep) struct samples *samples = NULL;
	struct diff_options options = {
		.samples = {.frequency = 999,
			    .stack_bytes = 65528,
			    .max_bytes = 4ull << 30,
			    .max_samples = 20000,
			    .quiet = true},
		.classes = 5,
		.show = -1,
	};
	int r;

	if (parse_options(argc, argv, &options) < 0) {
		fputs(usage, stderr);
		return 2;
	}
	if (samples_new(&options.samples, &samples) < 0)
		return 2;
	if (options.save) {
		r = samples_save(samples, options.save);
		if (r < 0)
			fprintf(stderr, "diff-engines: %s: %s\n", options.save, strerror(-r));
	}
	r = compare(&options, samples);
	if (r < 0)
		fprintf(stderr, "diff-engines: %s\n", strerror(-r));
	if (r == 1)
		printf("  BELOW the agreement, the share of whole stacks or the bounds that were "
		       "asked for (or no sample)\n");
	return r < 0 ? 2 : r;
}
