/* test-diff.c - two profiles compared: pairs of equal runs with noise, one slower function, scales, output.
 *
 * A run is made of 40 functions, function k with about 4000 / (k + 1) samples: Poisson noise of the samples, 1.5 % of
 * each function from run to run, and a machine that is up to 10 % slower or faster as a whole.  Seeds are fixed. */
#include <errno.h>
#include <math.h>

#include "profile/diff-inlined.h"
#include "profile/diff.h"
#include "profile/profile-text.h"
#include "tests/unit/profile/hand.h"

enum { FUNCTIONS = 40, SAMPLES = 1 << 16, PAIRS = 20, SLOWER = 0 };

static double uniform(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (double)(*seed >> 11) / 9007199254740992.0;
}

static double normal(uint64_t *seed)
{
	double sum = -6;

	for (int i = 0; i < 12; i++)
		sum += uniform(seed);
	return sum;
}

static void add_samples(struct profile *p, uint32_t stack, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		assert_true(p->n_samples < SAMPLES);
		p->samples[p->n_samples] = (struct profile_sample){
			.time = 1000000 * (p->n_samples + 1), .weight = 1000000, .stack = stack};
		p->n_samples++;
	}
}

/* The function SLOWER takes @factor of its time. */
static struct profile run(uint64_t seed, double factor)
{
	struct profile p = hand_empty();
	uint32_t module = hand_module(&p, "/usr/bin/work", false);
	double machine;

	p.samples = calloc(SAMPLES, sizeof(*p.samples));
	assert_non_null(p.samples);
	hand_thread(&p, hand_process(&p, 1, "work"), 1, NULL);
	for (int i = 0; i < 10; i++)
		(void)uniform(&seed);
	machine = 1 + 0.1 * (2 * uniform(&seed) - 1);
	for (uint32_t k = 0; k < FUNCTIONS; k++) {
		double mean = 4000.0 / (k + 1) * machine * (1 + 0.015 * normal(&seed)) *
			      (k == SLOWER ? factor : 1);
		double n = mean + sqrt(mean) * normal(&seed);
		char name[32];
		uint32_t frame;

		(void)snprintf(name, sizeof(name), "function_%u", k);
		frame = hand_frame(&p, module, 16 * k, name, NULL);
		add_samples(&p, HAND_STACK(&p, frame), n > 0 ? (size_t)n : 0);
	}
	return p;
}

static struct diff compare(struct profile *a, struct profile *b, const struct diff_options *o)
{
	char error[256] = "";
	struct diff d;

	if (diff_init(&d, a, b, o, error, sizeof(error)) < 0)
		fail_msg("%s", error);
	return d;
}

static size_t n_significant(const struct diff *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->n; i++)
		n += d->rows[i].significant;
	return n;
}

/* "outer" has @step inlined in @inlined of its ten addresses; "step" is a function too if @own. */
static struct profile inlining(uint8_t build, bool inlined, bool own)
{
	enum { ADDRESSES = 10 };
	struct profile p = hand_empty();
	uint32_t module = hand_module(&p, "/usr/bin/work", false);

	p.modules[module].build_id[0] = build;
	p.modules[module].build_id_len = 20;
	p.samples = calloc(SAMPLES, sizeof(*p.samples));
	assert_non_null(p.samples);
	hand_thread(&p, hand_process(&p, 1, "work"), 1, NULL);
	for (uint32_t i = 0; i < ADDRESSES; i++) {
		bool step = i < ADDRESSES / 2;
		uint32_t frame = hand_frame(&p, module, 16 * i, step && own ? "step" : "outer",
					    step && inlined ? "step" : NULL);

		add_samples(&p, HAND_STACK(&p, frame), 100);
	}
	return p;
}

static void expect_share(const struct profile *a, const struct profile *b, size_t which,
			 const char *name, uint64_t samples)
{
	const struct diff_options o = {.scale = DIFF_TOTAL};
	struct diff d = compare((struct profile *)a, (struct profile *)b, &o);
	uint64_t found = 0;

	for (size_t i = 0; i < d.n; i++)
		found += strcmp(d.rows[i].name, name) ? 0 : d.rows[i].count[which];
	assert_int_equal(found, samples);
	diff_deinit(&d);
}

/* One profile has inlined calls, and the other has none: of the same build (--no-inline) they count for their callers; of another
 * (-O0) too, except where they are functions there.  Lines of the same build: its samples are in no inlined call. */
static void inlined_in_one(void **state)
{
	static const struct {
		uint8_t build;
		bool inlined, own;
		size_t n_lined; /* of ten addresses */
		bool merged;
	} others[] = {
		{1, false, false, 0, true},  {1, false, true, 0, true},
		{1, true, false, 0, false},  {2, false, true, 0, false},
		{2, false, false, 0, true},  {2, true, false, 0, false},
		{1, false, false, 9, false}, {1, false, false, 8, true},
		{2, false, false, 10, true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		struct profile a = inlining(1, true, false);
		struct profile b = inlining(others[i].build, others[i].inlined, others[i].own);
		const char *module = NULL;

		for (size_t k = 0; k < others[i].n_lined; k++)
			b.lines[b.frames[k].first_line].line = 7;
		expect_share(&a, &b, 0, "step", 500);
		assert_int_equal(diff_merge_inlined(&a, &b, &module), others[i].merged);
		if (others[i].merged)
			assert_string_equal(module, "work");
		expect_share(&a, &b, 0, "step", others[i].merged ? 0 : 500);
		expect_share(&a, &b, 0, "outer", others[i].merged ? 1000 : 500);
		assert_int_equal(diff_merge_inlined(&b, &a, &module), 0);
		profile_deinit(&a);
		profile_deinit(&b);
	}
}

static void equal_runs(void **state)
{
	(void)state;
	for (uint64_t pair = 0; pair < PAIRS; pair++) {
		struct profile a = run(2 * pair, 1), b = run(2 * pair + 1, 1);
		const struct diff_options o = {.fail_above = 0};
		struct diff d = compare(&a, &b, &o);

		assert_int_equal(d.scaled, DIFF_MEDIAN);
		assert_int_equal(n_significant(&d), 0);
		assert_false(diff_fails(&d, &o));
		diff_deinit(&d);
		profile_deinit(&a);
		profile_deinit(&b);
	}
}

/* The program @name of 30 functions with 100 samples each, called @name_0 ... */
static struct profile program(const char *name)
{
	struct profile p = hand_empty();
	uint32_t module = hand_module(&p, name, false);

	p.samples = calloc(SAMPLES, sizeof(*p.samples));
	assert_non_null(p.samples);
	hand_thread(&p, hand_process(&p, 1, "work"), 1, NULL);
	for (uint32_t k = 0; k < 30; k++) {
		char function[32];
		uint32_t frame;

		(void)snprintf(function, sizeof(function), "%s_%u", name, k);
		frame = hand_frame(&p, module, 16 * k, function, NULL);
		add_samples(&p, HAND_STACK(&p, frame), 100);
	}
	return p;
}

/* No function is in both: each is gone or new, by 3.33 % of all with an error of 1.16 (z = 3.34 of 60 rows, 10.4 samples). */
static void different_programs(void **state)
{
	struct profile a = program("one"), b = program("other");
	struct diff d = compare(&a, &b, &(struct diff_options){0});

	(void)state;
	assert_int_equal(d.n, 60);
	assert_int_equal(n_significant(&d), 60);
	diff_deinit(&d);
	profile_deinit(&a);
	profile_deinit(&b);
}

/* 4,000 of 17,114 samples become 4,800 or 5,600: +4.67 or 9.35 % of all.  First and alone, or (where chance hides the
 * smaller change) not at all. */
static size_t found_slower(double factor, double change)
{
	size_t found = 0;

	for (uint64_t pair = 0; pair < PAIRS; pair++) {
		struct profile a = run(2 * pair, 1), b = run(2 * pair + 1, factor);
		struct diff d = compare(&a, &b, &(struct diff_options){0});

		assert_string_equal(d.rows[0].name, "function_0");
		assert_true(n_significant(&d) <= 1);
		assert_true(fabs(d.rows[0].change - change) < d.rows[0].error);
		found += d.rows[0].significant;
		assert_int_equal(diff_fails(&d, &(struct diff_options){.fail_above = 1}),
				 d.rows[0].significant);
		assert_false(diff_fails(&d, &(struct diff_options){.fail_above = 14}));
		assert_false(diff_fails(&d, &(struct diff_options){.fail_above = -1}));
		diff_deinit(&d);
		profile_deinit(&a);
		profile_deinit(&b);
	}
	return found;
}

static void one_slower_function(void **state)
{
	(void)state;
	assert_true(found_slower(1.2, 4.67) >= 18);
	assert_int_equal(found_slower(1.4, 9.35), PAIRS);
}

/* Twice the time of one function less: also found, and no failure. */
static void one_faster_function(void **state)
{
	struct profile a = run(100, 1), b = run(101, 0.5);
	struct diff d = compare(&a, &b, &(struct diff_options){0});

	(void)state;
	assert_int_equal(n_significant(&d), 1);
	assert_string_equal(d.rows[0].name, "function_0");
	assert_true(d.rows[0].change < -2);
	assert_false(diff_fails(&d, &(struct diff_options){.fail_above = 0}));
	diff_deinit(&d);
	profile_deinit(&a);
	profile_deinit(&b);
}

/* function_0, function_1 ... with so many samples. */
static struct profile counted(const size_t *counts, size_t n)
{
	struct profile p = hand_empty();
	uint32_t module = hand_module(&p, "/usr/bin/work", false);

	p.samples = calloc(SAMPLES, sizeof(*p.samples));
	assert_non_null(p.samples);
	hand_thread(&p, hand_process(&p, 1, "work"), 1, NULL);
	for (uint32_t k = 0; k < n; k++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "function_%u", k);
		add_samples(&p, HAND_STACK(&p, hand_frame(&p, module, 16 * k, name, NULL)),
			    counts[k]);
	}
	return p;
}

static struct profile with_functions(uint32_t n, size_t samples)
{
	size_t counts[FUNCTIONS];

	assert_true(n <= FUNCTIONS);
	for (uint32_t k = 0; k < n; k++)
		counts[k] = samples;
	return counted(counts, n);
}

/* A process with 100 samples in a function of its module that has no name. */
static struct profile named_program(const char *process, const char *path)
{
	struct profile p = hand_empty();
	uint32_t module = hand_module(&p, path, false);

	p.samples = calloc(SAMPLES, sizeof(*p.samples));
	assert_non_null(p.samples);
	hand_thread(&p, hand_process(&p, 1, process), 1, NULL);
	add_samples(&p, HAND_STACK(&p, hand_frame(&p, module, 16, NULL, NULL)), 100);
	return p;
}

/* A profile of two functions in exact numbers: work n, rest 100. */
static struct profile two(size_t n, double seconds)
{
	struct profile p = hand_empty();
	uint32_t module = hand_module(&p, "/usr/bin/work", false), work, rest;

	p.samples = calloc(SAMPLES, sizeof(*p.samples));
	assert_non_null(p.samples);
	hand_thread(&p, hand_process(&p, 1, "work"), 1, NULL);
	work = hand_frame(&p, module, 1, "work", NULL);
	rest = hand_frame(&p, module, 2, "rest", NULL);
	add_samples(&p, HAND_STACK(&p, work, rest), n);
	add_samples(&p, HAND_STACK(&p, rest), 100);
	hand_stat(&p, "duration_s", seconds);
	return p;
}

static void assert_scale(struct profile *a, struct profile *b, enum diff_scale wanted,
			 enum diff_scale scaled, double scale)
{
	struct diff d = compare(a, b, &(struct diff_options){.scale = wanted});

	assert_int_equal(d.scaled, scaled);
	assert_true(fabs(d.scale - scale) < 1e-9);
	diff_deinit(&d);
}

static void scales(void **state)
{
	struct profile a = two(100, 2), b = two(300, 5);

	(void)state;
	assert_scale(&a, &b, DIFF_TOTAL, DIFF_TOTAL, 1);
	assert_scale(&a, &b, DIFF_SHARE, DIFF_SHARE, 0.5);
	assert_scale(&a, &b, DIFF_SECOND, DIFF_SECOND, 0.4);
	assert_scale(&a, &b, DIFF_SAMPLES, DIFF_SAMPLES, 0.5);
	b.samples[0].weight += 1000 * b.samples[0].weight; /* a share, but no more samples */
	assert_scale(&a, &b, DIFF_SAMPLES, DIFF_SAMPLES, 0.5);
	assert_scale(&a, &b, DIFF_MEDIAN, DIFF_TOTAL, 1); /* of two functions there is no middle */
	profile_deinit(&a);
	profile_deinit(&b);
}

/* The profile's event and one that was sampled too; a follower of the profile's event. */
static void add_counters(struct profile *p, uint64_t faults, uint64_t instructions)
{
	*HAND_ADD(p, events, n_events) = (struct profile_event){
		.name = "cpu-clock", .unit = "ns", .n_samples = p->n_samples};
	*HAND_ADD(p, events, n_events) =
		(struct profile_event){.name = "page-faults:u", .unit = "events", .n_samples = 1};
	p->n_all_samples = p->n_samples + 1;
	p->all_samples = calloc(p->n_all_samples, sizeof(*p->all_samples));
	assert_non_null(p->all_samples);
	memcpy(p->all_samples, p->samples, p->n_samples * sizeof(*p->samples));
	p->all_samples[p->n_samples] = (struct profile_sample){.event = 1, .weight = faults};
	free(p->samples);
	p->samples = p->all_samples;
	if (instructions)
		*HAND_ADD(p, followers, n_followers) = (struct profile_follower){
			.name = hand_string(p, "instructions"), .count = instructions};
}

/* The cost of one occurrence: of a follower, and of an event that was sampled in the same trace. */
static void scales_by_counters(void **state)
{
	struct profile a = two(100, 2), b = two(300, 5), without = two(300, 5);
	struct diff_options o = {
		.scale = DIFF_COUNTER, .counter = "instructions", .fail_above = -1};
	struct diff d;
	char error[256];

	(void)state;
	add_counters(&a, 30, 1000);
	add_counters(&b, 120, 3000);
	add_counters(&without, 120, 0);
	d = compare(&a, &b, &o);
	assert_int_equal(d.scaled, DIFF_COUNTER);
	assert_true(fabs(d.scale - 1.0 / 3) < 1e-9 && d.counter_error < 1e-9);
	diff_deinit(&d);
	o.counter =
		"page-faults"; /* sampled once in each: the ratio is uncertain, and so is each row */
	d = compare(&a, &b, &o);
	assert_true(fabs(d.scale - 0.25) < 1e-9 && fabs(d.counter_error - sqrt(2)) < 1e-9);
	assert_false(d.rows[0].significant);
	diff_deinit(&d);
	o.counter = "instructions";
	assert_int_equal(diff_init(&d, &a, &without, &o, error, sizeof(error)), -EINVAL);
	assert_string_equal(error, "the second trace has no count of instructions; it has: "
				   "cpu-clock page-faults:u");
	o.counter = "instruction"; /* no prefix */
	assert_int_equal(diff_init(&d, &a, &b, &o, error, sizeof(error)), -EINVAL);
	assert_string_equal(error, "the first trace has no count of instruction; it has: "
				   "cpu-clock page-faults:u instructions");
	profile_deinit(&a);
	profile_deinit(&b);
	profile_deinit(&without);
}

/* @n samples of one function. */
static struct profile one(size_t n)
{
	struct profile p = two(0, 1);

	add_samples(&p, p.samples[0].stack, n - p.n_samples);
	return p;
}

/* 200 and 600 samples, half of each in work; then 200 and 600 in one function: the second is three times as long, and
 * nothing else differs. */
static void few_rows_of_equal_runs(void **state)
{
	const struct diff_options o = {.fail_above = 0};
	struct profile profiles[2][2] = {{two(100, 2), two(100, 2)}, {one(200), one(600)}};

	(void)state;
	add_samples(&profiles[0][1], profiles[0][1].samples[0].stack, 200);
	add_samples(&profiles[0][1], profiles[0][1].samples[100].stack, 200);
	for (size_t i = 0; i < 2; i++) {
		struct diff d = compare(&profiles[i][0], &profiles[i][1], &o);

		assert_int_equal(d.scaled, DIFF_SHARE);
		assert_true(d.fell_back);
		assert_true(fabs(d.scale - 1.0 / 3) < 1e-9);
		assert_int_equal(n_significant(&d), 0);
		assert_false(diff_fails(&d, &o));
		diff_deinit(&d);
		profile_deinit(&profiles[i][0]);
		profile_deinit(&profiles[i][1]);
	}
}

static void expect_count(const struct diff *d, const char *name, uint64_t count)
{
	size_t n = 0;

	for (size_t i = 0; i < d->n; i++) {
		if (strcmp(d->rows[i].name, name) != 0)
			continue;
		n++;
		assert_true(d->rows[i].count[0] == count && d->rows[i].count[1] == count);
	}
	assert_int_equal(n, 1);
}

/* The code that a runtime made in either process is one module, and one function where it has no names. */
static void jit_code(void **state)
{
	const struct diff_options by_module = {.by = REPORT_MODULE},
				  by_function = {.by = REPORT_FUNCTION};
	const char *const paths[] = {"/tmp/perf-11.map", "/tmp/perf-222.map"};
	const char *const files[] = {"/tmp/perf-6.1/perf", "/tmp/perf-x.map"};
	struct profile profiles[2];
	struct diff d;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct profile *p = &profiles[i];
		uint32_t module, file;

		*p = hand_empty();
		module = hand_module(p, paths[i], false);
		file = hand_module(p, files[i], false);
		p->samples = calloc(SAMPLES, sizeof(*p->samples));
		assert_non_null(p->samples);
		hand_thread(p, hand_process(p, 1, "java"), 1, NULL);
		add_samples(p, HAND_STACK(p, hand_frame(p, module, 0, NULL, NULL)), 200);
		add_samples(p, HAND_STACK(p, hand_frame(p, file, 0, "f", NULL)), 20);
	}
	d = compare(&profiles[0], &profiles[1], &by_module);
	assert_int_equal(d.n, 3); /* of which two are files */
	for (size_t i = 0; i < d.n; i++) {
		bool jit = d.rows[i].count[0] == 200;

		assert_true(!jit || d.rows[i].count[1] == 200);
		assert_true(jit == !strcmp(d.rows[i].name, "[jit]"));
	}
	diff_deinit(&d);
	d = compare(&profiles[0], &profiles[1], &by_function);
	expect_count(&d, "[jit]", 200);
	diff_deinit(&d);
	profile_deinit(&profiles[0]);
	profile_deinit(&profiles[1]);
}

/* Two recordings of one length, in one of which a function does more: the others have less, by as much each. */
static void more_of_a_second(void **state)
{
	static const size_t counts[2][9] = {{1564, 523, 544, 208, 50, 50, 18, 12, 11},
					    {1916, 384, 411, 145, 39, 41, 13, 9, 8}};
	static const enum diff_scale scales[] = {DIFF_TOTAL,
						 DIFF_MEDIAN}; /* too few for a median */

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		const struct diff_options o = {.scale = scales[i], .fail_above = 5};
		struct profile a = counted(counts[0], 9), b = counted(counts[1], 9);
		struct diff d = compare(&a, &b, &o);

		assert_int_equal(d.scaled, DIFF_TOTAL);
		assert_true(d.fell_back == (scales[i] == DIFF_MEDIAN));
		assert_string_equal(d.rows[0].name, "function_0");
		assert_true(d.rows[0].significant && d.rows[0].error < 8);
		assert_true(diff_fails(&d, &o));
		diff_deinit(&d);
		profile_deinit(&a);
		profile_deinit(&b);
	}
}

static char *written(const struct diff *d, const struct diff_options *o)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	assert_int_equal(diff_write(d, o, (const char *[]){"a", "b"}, out), 0);
	assert_int_equal(fclose(out), 0);
	return text;
}

static void assert_has(const struct diff *d, const struct diff_options *o, const char *expected)
{
	char *text = written(d, o);

	if (!strstr(text, expected))
		fail_msg("%s", text);
	free(text);
}

static void assert_written(const struct diff *d, const struct diff_options *o, const char *expected)
{
	static const char *const names[] = {"a.pftrace", "b.\033pftrace"};
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	assert_int_equal(diff_write(d, o, names, out), 0);
	assert_int_equal(fclose(out), 0);
	assert_string_equal(text, expected);
	free(text);
}

/* work: 100 of 200 ms become 300.  Its error: sqrt(101 + 301 + (2 % of 100)^2 + (2 % of 300)^2) = 21.02 ms, times
 * z of 0.025 / 2 = 2.2414, in percent of 200: 23.56.  The whole: sqrt(201 + 401 + (2 % of 200)^2 + (2 % of 400)^2) = 26.12 ms,
 * times z of 0.025 = 1.96: 25.59 %. */
static void text(void **state)
{
	struct profile a = two(100, 2), b = two(300, 5);
	struct diff d = compare(&a, &b, &(struct diff_options){.scale = DIFF_TOTAL});

	(void)state;
	assert_written(&d, &(struct diff_options){0},
		       "A  a.pftrace: 200 samples, 200.0 ms, 2.0 s\n"
		       "B  b.?pftrace: 400 samples, 400.0 ms, 5.0 s (+100.0 %)\n"
		       "compared as recorded\n"
		       "all of B is 100.0 +- 25.6 % more than all of A\n\n"
		       "  change      +-     A %     B %  relative  function\n"
		       " +100.00   23.56   50.00   75.00  +200.0 %  work  work\n"
		       "... and 1 more without a significant change (--all shows them)\n");
	assert_written(&d, &(struct diff_options){.all = true},
		       "A  a.pftrace: 200 samples, 200.0 ms, 2.0 s\n"
		       "B  b.?pftrace: 400 samples, 400.0 ms, 5.0 s (+100.0 %)\n"
		       "compared as recorded\n"
		       "all of B is 100.0 +- 25.6 % more than all of A\n\n"
		       "  change      +-     A %     B %  relative  function\n"
		       " +100.00   23.56   50.00   75.00  +200.0 %  work  work\n"
		       "   +0.00   16.24   50.00   25.00    +0.0 %  rest  work\n");
	assert_written(
		&d, &(struct diff_options){.json = true, .fail_above = 5},
		"{\"a\": {\"file\": \"a.pftrace\", \"samples\": 200, \"weight\": 200000000, "
		"\"duration_s\": 2.000}, \"b\": {\"file\": \"b.\\u001bpftrace\", \"samples\": 400, "
		"\"weight\": 400000000, \"duration_s\": 5.000}, \"unit\": \"ns\", "
		"\"normalise\": \"total\", \"scale\": 1.000000, \"whole_change_percent\": 100.000, "
		"\"whole_error_percent\": 25.592, \"failed\": true, \"rows\": [\n"
		"{\"function\": \"work\", \"a\": 100000000, \"b\": 300000000, \"a_samples\": 100, "
		"\"b_samples\": 300, \"change_percent\": 100.000, \"error_percent\": 23.561, "
		"\"significant\": true}\n]}\n");
	diff_deinit(&d);
	d = compare(&a, &a, &(struct diff_options){0});
	assert_written(&d, &(struct diff_options){0},
		       "A  a.pftrace: 200 samples, 200.0 ms, 2.0 s\n"
		       "B  b.?pftrace: 200 samples, 200.0 ms, 2.0 s (+0.0 %)\n"
		       "B is scaled by 1.000: shares of the whole are compared, as too few rows "
		       "have samples for a median (as recorded: --normalise total)\n"
		       "no significant change\n\n"
		       "... and 2 more without a significant change (--all shows them)\n");
	diff_deinit(&d);
	profile_deinit(&a);
	profile_deinit(&b);
}

/* Rows by module; with what a function called; functions that one profile lacks. */
static void rows(void **state)
{
	struct profile a = two(0, 1), b = two(300, 1);
	struct diff d = compare(&a, &b, &(struct diff_options){.scale = DIFF_TOTAL});

	(void)state;
	assert_string_equal(d.rows[0].name, "work");
	assert_int_equal(d.rows[0].count[0], 0);
	assert_true(d.rows[0].significant);
	diff_deinit(&d);
	d = compare(&b, &a, &(struct diff_options){.scale = DIFF_TOTAL});
	assert_true(d.rows[0].significant && d.rows[0].change < 0);
	diff_deinit(&d);
	d = compare(&a, &b, &(struct diff_options){.scale = DIFF_TOTAL, .total = true});
	assert_string_equal(d.rows[1].name,
			    "work"); /* work 0 -> 300, rest 100 -> 400: equal changes */
	assert_int_equal(d.rows[0].count[1], 400);
	diff_deinit(&d);
	d = compare(&a, &b, &(struct diff_options){.by = REPORT_MODULE});
	assert_int_equal(d.n, 1);
	assert_string_equal(d.rows[0].name, "/usr/bin/work");
	diff_deinit(&d);
	profile_deinit(&a);
	profile_deinit(&b);
}

static void not_comparable(void **state)
{
	struct profile a = two(10, 1), b = two(10, 1), none = hand_empty();
	char error[256];
	struct diff d;

	(void)state;
	(void)snprintf(b.weight_unit, sizeof(b.weight_unit), "cycles");
	(void)snprintf(b.event_name, sizeof(b.event_name), "cycles");
	assert_int_equal(diff_init(&d, &a, &b, &(struct diff_options){0}, error, sizeof(error)),
			 -EINVAL);
	assert_string_equal(error,
			    "cpu-clock and cycles count different things (ns, cycles): choose "
			    "with --event");
	assert_int_equal(diff_init(&d, &a, &none, &(struct diff_options){0}, error, sizeof(error)),
			 -EINVAL);
	assert_string_equal(error, "the second trace has no sample of these");
	profile_deinit(&a);
	profile_deinit(&b);
	profile_deinit(&none);
}

/* Each of six functions costs 30 % more: the median hides it, the line of the whole has it, and as recorded it is a failure. */
static void whole_grew(void **state)
{
	struct profile a = with_functions(6, 1000), b = with_functions(6, 1300),
		       c = with_functions(6, 1010);
	const struct diff_options o = {.fail_above = 5},
				  total = {.fail_above = 5, .scale = DIFF_TOTAL};
	struct diff d = compare(&a, &b, &o);

	(void)state;
	assert_int_equal(d.scaled, DIFF_MEDIAN);
	assert_int_equal(n_significant(&d), 0);
	assert_true(fabs(d.whole_change - 30) < 1e-9);
	assert_false(diff_fails(&d, &o));
	assert_has(
		&d, &o,
		"no significant change\nall of B is 30.0 +- 7.5 % more than all of A, as recorded: "
		"if both did the same work, --normalise total compares");
	diff_deinit(&d);
	d = compare(&a, &b, &total);
	assert_true(diff_fails(&d, &total));
	for (size_t i = 0; i < d.n; i++)
		d.rows[i].significant = false; /* none of many small rows */
	assert_true(diff_fails(&d, &total));
	assert_has(&d, &total,
		   "no significant change\nall of B is 30.0 +- 7.5 % more than all of A\n");
	diff_deinit(&d);
	d = compare(&a, &c, &total);
	assert_false(diff_fails(&d, &total));
	assert_has(&d, &total, "no significant change\n\n");
	diff_deinit(&d);
	profile_deinit(&a);
	profile_deinit(&b);
	profile_deinit(&c);
}

/* Two builds of other names, in other folders: program, main thread and module have one row each; "[app-new]" is code without
 * symbols.  With a second process that has a name of its own, they are different rows, and a line states it. */
static void other_names(void **state)
{
	static const struct diff_options by[] = {{.by = REPORT_PROCESS},
						 {.by = REPORT_THREAD},
						 {.by = REPORT_MODULE},
						 {.by = REPORT_FUNCTION},
						 {.tree = true}};
	struct profile a = named_program("app", "/old/app"),
		       b = named_program("app-new", "/new/app-new"),
		       same = named_program("app", "/new/app");

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(by); i++) {
		struct diff d = compare(&a, &b, &by[i]);

		assert_true(diff_renames(&d));
		assert_int_equal(d.n, 1);
		assert_int_equal(d.rows[0].count[0], 100);
		assert_int_equal(d.rows[0].count[1], 100);
		diff_deinit(&d);
		d = compare(&a, &same, &by[i]);
		assert_false(diff_renames(&d));
		assert_int_equal(d.n, 1);
		diff_deinit(&d);
	}
	hand_thread(&b, hand_process(&b, 2, "sh"), 2, NULL);
	add_samples(&b, b.samples[0].stack, 1);
	b.samples[b.n_samples - 1].thread = 1;
	for (size_t i = 0; i < ARRAY_SIZE(by); i++) {
		struct diff d = compare(&a, &b, &by[i]);

		assert_false(diff_renames(&d));
		assert_true(d.n >= 2);
		assert_has(&d, &by[i],
			   "100 % of A and 100 % of B are in rows that the other does not have: "
			   "their names differ");
		diff_deinit(&d);
	}
	profile_deinit(&a);
	profile_deinit(&b);
	profile_deinit(&same);
}

/* On a terminal of 80 columns a row is a line, and the innermost call of a path is there. */
static void narrow(void **state)
{
	enum { CALLS = 9, WIDTH = 80 };
	const struct diff_options by[] = {{.width = WIDTH, .all = true},
					  {.width = WIDTH, .all = true, .tree = true}};
	struct profile p = hand_empty();
	uint32_t module = hand_module(&p, "/usr/bin/work", false), frames[CALLS];

	(void)state;
	p.samples = calloc(SAMPLES, sizeof(*p.samples));
	assert_non_null(p.samples);
	hand_thread(&p, hand_process(&p, 1, "work"), 1, NULL);
	for (uint32_t k = 0; k < CALLS; k++) {
		char name[300] = "leaf";

		if (k)
			(void)snprintf(name, sizeof(name), "std::vector_%u<%0200u>", k, 0);
		frames[k] = hand_frame(&p, module, 16 * k, name, NULL);
	}
	add_samples(&p, hand_stack(&p, frames, CALLS), 100);
	for (size_t i = 0; i < ARRAY_SIZE(by); i++) {
		struct diff d = compare(&p, &p, &by[i]);
		char *text = written(&d, &by[i]);

		for (char *line = strstr(text, "  change"); line && *line;) {
			size_t len = strcspn(line, "\n");

			assert_true(text_columns(line, len) <= WIDTH);
			line += len + (line[len] == '\n');
		}
		assert_non_null(strstr(text, by[i].tree ? "work;...;leaf\n" : "leaf  work\n"));
		free(text);
		diff_deinit(&d);
	}
	profile_deinit(&p);
}

/* Functions of 1000 samples each and one of @name. */
static struct profile with_one(const char *name, size_t samples)
{
	struct profile p = with_functions(6, 1000);

	if (samples)
		add_samples(&p, HAND_STACK(&p, hand_frame(&p, 0, 1000, name, NULL)), samples);
	return p;
}

/* A renamed function is not a change; one that is gone and one that costs three times as much are two. */
static void renamed(void **state)
{
	const struct diff_options o = {.fail_above = 0};
	struct profile a = with_one("old_name", 800), b = with_one("new_name", 810),
		       c = with_one("new_name", 2400), e = with_one("function_3", 800);
	struct diff d = compare(&a, &b, &o);
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	(void)state;
	assert_int_equal(d.n_pairs, 1);
	assert_false(d.rows[0].significant);
	assert_false(diff_fails(&d, &o));
	assert_int_equal(diff_write(&d, &o, (const char *[]){"a", "b"}, out), 0);
	assert_int_equal(fclose(out), 0);
	assert_non_null(strstr(text, "no significant change\n"));
	assert_non_null(strstr(text, "old_name  is now  new_name  work\n"));
	assert_non_null(strstr(text, "... and 6 more"));
	free(text);
	diff_deinit(&d);
	d = compare(&a, &c, &o);
	assert_int_equal(d.n_pairs, 0);
	assert_true(d.rows[0].significant && d.rows[1].significant);
	assert_true(diff_fails(&d, &o));
	diff_deinit(&d);
	/* Inlined: another function has its cost now. */
	d = compare(&a, &e, &o);
	assert_int_equal(d.n_pairs, 1);
	assert_false(diff_fails(&d, &o));
	diff_deinit(&d);
	profile_deinit(&a);
	profile_deinit(&b);
	profile_deinit(&c);
	profile_deinit(&e);
}

/* Call paths: work > rest > leaf of one profile against the same path with another leaf. */
static void tree(void **state)
{
	const struct diff_options o = {
		.tree = true, .page = true, .scale = DIFF_TOTAL, .fail_above = -1};
	struct profile a = two(100, 2), b = two(300, 5);
	struct diff d = compare(&a, &b, &o);
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	(void)state;
	assert_true(d.rows[0].significant);
	assert_int_equal(diff_write(&d, &o, (const char *[]){"a", "b"}, out), 0);
	assert_int_equal(fclose(out), 0);
	assert_non_null(strstr(text, "  tree\n +100.00   23.56   50.00   75.00  +200.0 %  "));
	assert_non_null(strstr(text, ";work\n"));
	free(text);
	out = open_memstream(&text, &len);
	assert_int_equal(diff_page_write(&d, (const char *[]){"</script>a", "b"}, out), 0);
	assert_int_equal(fclose(out), 0);
	assert_int_equal(strncmp(text, "<!DOCTYPE html>", 15), 0);
	assert_null(strstr(text, "@DATA@"));
	assert_null(strstr(text, "</script>a")); /* a name does not end the element */
	assert_non_null(strstr(text, "\"unit\": \"ns\""));
	free(text);
	/* The weight of a call is that of the calls below it and its own. */
	for (uint32_t i = 0; i < d.tree.n; i++) {
		uint64_t sum[2] = {d.tree.nodes[i].self_weight[0], d.tree.nodes[i].self_weight[1]};

		for (uint32_t j = i + 1; j < d.tree.n; j++)
			for (int k = 0; k < 2; k++)
				sum[k] += d.tree.nodes[j].up == i ? d.tree.nodes[j].weight[k] : 0;
		assert_int_equal(sum[0], d.tree.nodes[i].weight[0]);
		assert_int_equal(sum[1], d.tree.nodes[i].weight[1]);
	}
	diff_deinit(&d);
	profile_deinit(&a);
	profile_deinit(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(renamed),
		cmocka_unit_test(tree),
		cmocka_unit_test(inlined_in_one),
		cmocka_unit_test(equal_runs),
		cmocka_unit_test(different_programs),
		cmocka_unit_test(one_slower_function),
		cmocka_unit_test(one_faster_function),
		cmocka_unit_test(scales),
		cmocka_unit_test(scales_by_counters),
		cmocka_unit_test(few_rows_of_equal_runs),
		cmocka_unit_test(more_of_a_second),
		cmocka_unit_test(jit_code),
		cmocka_unit_test(text),
		cmocka_unit_test(whole_grew),
		cmocka_unit_test(other_names),
		cmocka_unit_test(narrow),
		cmocka_unit_test(rows),
		cmocka_unit_test(not_comparable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
