/* test-profile.c - traces read back: a stock service's, counted independently with protoc
 * --decode_raw, and small ones put together by hand where each rule is met at its edge. */
#include <math.h>
#include <errno.h>
#include <inttypes.h>
#include <unistd.h>
#include <zlib.h>

#include "profile/profile.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/profile/build.h"

static struct profile parse(struct buffer *trace)
{
	struct profile p;
	char error[256] = "";

	assert_false(trace->bad);
	assert_int_equal(profile_parse(trace->data, trace->len, &p, error, sizeof(error)), 0);
	buffer_deinit(trace);
	return p;
}

static const char *text(const struct profile *p, uint32_t id)
{
	return id ? string_table_text(&p->strings, id) : "";
}

/* Frame @i (0: innermost) of sample @sample, its line @line. */
static const char *name_at(const struct profile *p, size_t sample, uint32_t i, uint32_t line)
{
	static char name[256];
	uint32_t stack = p->samples[sample].stack;

	assert_true(i < profile_stack_depth(p, stack));
	while (i--)
		stack = p->nodes[stack].up;
	return profile_line_name(p, &p->frames[p->nodes[stack].frame], line, name, sizeof(name));
}

/* Stacks main -> work, main -> work -> leaf, interned on @sequence behind its defaults, with a
 * first sample. */
static void put_simple(struct buffer *trace, uint32_t sequence, uint32_t clock, uint64_t time)
{
	struct buffer interned = {0};

	put_interned(&interned, 5, 1, "main");
	put_interned(&interned, 5, 2, "work");
	put_interned(&interned, 5, 3, "leaf");
	put_interned(&interned, 16, 1, "\x12\x34");
	put_interned(&interned, 17, 1, "opt");
	put_interned(&interned, 17, 2, "prog");
	put_mapping(&interned, 1, 1, (uint64_t[]){1, 2}, 2);
	put_frame(&interned, 1, 1, 1, 0x1000);
	put_frame(&interned, 2, 2, 1, 0x2000);
	put_frame(&interned, 3, 3, 1, 0x3000);
	put_callstack(&interned, 1, (uint64_t[]){1, 2}, 2);
	put_callstack(&interned, 2, (uint64_t[]){1, 2, 3}, 3);
	put_sample(trace,
		   &(struct test_sample){.sequence = sequence,
					 .flags = 2,
					 .clock = clock,
					 .time = time,
					 .cpu = 1,
					 .pid = 7,
					 .tid = 8,
					 .stack = 1,
					 .count = 5000},
		   &interned);
}

static void test_stock(void **state)
{
	size_t skipped = 0, with_stack = 0, eval_leaf = 0, main_at_root = 0, kernel = 0;
	uint64_t weight = 0;
	struct profile p;
	char error[256];

	(void)state;
	assert_int_equal(profile_read("tests/data/stock-50hz.pftrace", &p, error, sizeof(error)),
			 0);
	assert_int_equal(p.n_samples, 156);
	assert_int_equal(p.n_frames, 428);
	assert_int_equal(p.n_modules, 3);
	assert_int_equal(p.lost_records, 0);
	assert_int_equal(p.truncated_at, 0);
	assert_string_equal(p.event_name, "cpu-clock");
	assert_string_equal(p.weight_unit, "ns");
	for (size_t i = 0; i < p.n_samples; i++) {
		const struct profile_sample *s = &p.samples[i];

		weight += s->weight;
		skipped += s->skipped_reason == 4;
		kernel += s->cpu_mode == 1;
		if (s->stack == UINT32_MAX)
			continue;
		with_stack++;
		eval_leaf += !strcmp(name_at(&p, i, 0, 0), "_PyEval_EvalFrameDefault");
		main_at_root +=
			!strcmp(name_at(&p, i, profile_stack_depth(&p, s->stack) - 1, 0), "_start");
	}
	assert_int_equal(skipped, 7);
	assert_int_equal(with_stack, 149);
	assert_int_equal(kernel, 14);
	assert_int_equal(eval_leaf, 25);
	assert_int_equal(main_at_root, 149);
	/* CPU 0 counted to 2980010743 from 20015948, CPU 1 to 420009791 from 20012693; the first of
	 * each: 1/50 s. */
	assert_int_equal(weight,
			 20000000 + 2980010743 - 20015948 + 20000000 + 420009791 - 20012693);
	assert_int_equal(p.samples[0].time, 5425619363813); /* its clock is BOOTTIME */
	assert_string_equal(text(&p, p.modules[0].path), "/usr/bin/python3.11");
	assert_int_equal(p.modules[0].build_id_len, 20);
	assert_int_equal(p.modules[0].build_id[0], 'W');
	profile_deinit(&p);
}

static void test_simple(void **state)
{
	struct buffer trace = {0};
	struct profile p;

	(void)state;
	put_defaults(&trace, 3, 6, 10, 5000, 0);
	put_simple(&trace, 3, 0, 100);
	put_sample(&trace,
		   &(struct test_sample){.sequence = 3,
					 .flags = 2,
					 .time = 300,
					 .cpu = 1,
					 .pid = 7,
					 .tid = 7,
					 .stack = 2,
					 .count = 12000},
		   NULL);
	put_sample(&trace,
		   &(struct test_sample){.sequence = 3,
					 .flags = 2,
					 .time = 200,
					 .cpu = 1,
					 .pid = 7,
					 .tid = 8,
					 .count = 9000,
					 .skipped = 3},
		   NULL);
	put_sample(&trace,
		   &(struct test_sample){.sequence = 3,
					 .flags = 2,
					 .time = 250,
					 .cpu = 0,
					 .pid = 9,
					 .tid = 9,
					 .stack = 2,
					 .no_count = true},
		   NULL);
	put_sample(
		&trace,
		&(struct test_sample){.sequence = 3, .flags = 2, .time = 250, .cpu = 0, .lost = 11},
		NULL);
	p = parse(&trace);
	assert_int_equal(p.n_samples, 4);
	assert_int_equal(p.lost_records, 11);
	assert_string_equal(p.event_name, "cpu-cycles");
	assert_string_equal(p.weight_unit, "cycles");
	assert_int_equal(p.samples[0].weight, 5000); /* the first weighs its period */
	assert_int_equal(profile_sample_pid(&p, &p.samples[0]), 7);
	assert_int_equal(profile_sample_tid(&p, &p.samples[0]), 8);
	assert_int_equal(p.samples[1].weight, 4000); /* by time, not by place in the file */
	assert_int_equal(p.samples[1].skipped_reason, 3);
	assert_true(p.samples[1].stack == UINT32_MAX);
	assert_int_equal(p.samples[2].weight, 5000); /* without a count: its period */
	assert_int_equal(p.samples[3].weight, 3000);
	assert_int_equal(profile_stack_depth(&p, p.samples[0].stack), 2);
	assert_string_equal(name_at(&p, 0, 0, 0), "work");
	assert_string_equal(name_at(&p, 0, 1, 0), "main");
	assert_int_equal(profile_stack_depth(&p, p.samples[3].stack), 3);
	assert_string_equal(name_at(&p, 3, 0, 0), "leaf");
	assert_string_equal(text(&p, p.modules[0].path), "/opt/prog");
	assert_memory_equal(p.modules[0].build_id, "\x12\x34", 2);
	assert_string_equal(profile_process_name(&p, profile_sample_process(&p, &p.samples[0])),
			    "[pid 7]");
	assert_string_equal(profile_thread_name(&p, p.samples[0].thread), "[tid 8]");
	assert_string_equal(profile_thread_name(&p, p.samples[2].thread), "[pid 9]");
	profile_deinit(&p);
}

/* Counts that fall: the event was opened again. */
static void test_restart(void **state)
{
	struct buffer trace = {0};
	struct profile p;
	const uint64_t counts[] = {1000, 8000, 3000, 4000};

	(void)state;
	put_defaults(&trace, 3, 6, 10, 0, 100); /* cycles at a frequency: no usual weight */
	for (size_t i = 0; i < 4; i++)
		put_sample(&trace,
			   &(struct test_sample){
				   .sequence = 3, .flags = 2, .time = i, .count = counts[i]},
			   NULL);
	p = parse(&trace);
	assert_int_equal(p.samples[0].weight, 1000);
	assert_int_equal(p.samples[1].weight, 7000);
	assert_int_equal(p.samples[2].weight, 3000);
	assert_int_equal(p.samples[3].weight, 1000);
	profile_deinit(&p);
}

/* The beginning is gone: what was counted before it is not attributed.  CPU 3 has one sample. */
static void test_beginning_gone(void **state)
{
	struct buffer trace = {0};
	struct profile p;
	static const struct {
		uint32_t cpu;
		uint64_t count, weight;
	} samples
		[] =
			{
				{0, 9000000, 2000}, {1, 5, 5},	      {0, 9002000, 2000},
				{1, 4005, 4000},    {2, 700000, 100}, {2, 700100, 100},
				{3, 800000, 2033}, /* (2000 + 4000 + 100) / 3 */
			};

	(void)state;
	put_defaults(&trace, 3, 6, 10, 0, 100);
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++)
		put_sample(&trace,
			   &(struct test_sample){.sequence = 3,
						 .flags = 2,
						 .time = i,
						 .cpu = samples[i].cpu,
						 .count = samples[i].count},
			   NULL);
	p = parse(&trace);
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++)
		assert_int_equal(p.samples[i].weight, samples[i].weight);
	profile_deinit(&p);
}

static void test_generations(void **state)
{
	struct buffer trace = {0}, interned = {0};
	struct profile p;

	(void)state;
	/* Needs state, and there is none yet. */
	put_sample(&trace, &(struct test_sample){.sequence = 3, .flags = 2, .time = 1, .stack = 1},
		   NULL);
	put_defaults(&trace, 3, 6, 1, 0, 1000);
	put_simple(&trace, 3, 0, 100);
	/* The same iid again: the first stands. */
	put_interned(&interned, 5, 1, "other");
	put_callstack(&interned, 1, (uint64_t[]){3}, 1);
	put_sample(&trace,
		   &(struct test_sample){
			   .sequence = 3, .flags = 2, .time = 200, .stack = 1, .count = 1},
		   &interned);
	/* Another sequence has tables of its own. */
	put_sample(&trace,
		   &(struct test_sample){
			   .sequence = 4, .flags = 0, .time = 300, .stack = 1, .count = 1},
		   NULL);
	/* A packet was dropped before this one: no more state until the next clear. */
	put_sample(&trace,
		   &(struct test_sample){
			   .sequence = 3, .flags = 2, .time = 400, .dropped = 1, .stack = 1},
		   NULL);
	put_sample(&trace,
		   &(struct test_sample){.sequence = 3, .flags = 2, .time = 500, .stack = 1}, NULL);
	put_defaults(&trace, 3, 6, 1, 0, 1000);
	put_sample(&trace,
		   &(struct test_sample){
			   .sequence = 3, .flags = 2, .time = 600, .stack = 1, .count = 7},
		   NULL);
	put_interned(&interned, 5, 1, "new");
	put_frame(&interned, 1, 1, 0, 0);
	put_callstack(&interned, 1, (uint64_t[]){1}, 1);
	put_callstack(&interned, 9, (uint64_t[]){1, 77}, 2); /* a frame that is not there */
	put_sample(&trace,
		   &(struct test_sample){
			   .sequence = 3, .flags = 2, .time = 700, .stack = 1, .count = 8},
		   &interned);
	put_sample(&trace,
		   &(struct test_sample){
			   .sequence = 3, .flags = 2, .time = 800, .stack = 9, .count = 9},
		   NULL);
	p = parse(&trace);
	assert_int_equal(p.n_samples, 6);
	assert_string_equal(name_at(&p, 1, 1, 0), "main");
	assert_int_equal(p.samples[2].time, 300);
	assert_true(p.samples[2].stack == UINT32_MAX);
	assert_int_equal(p.samples[2].session, 1);
	assert_int_equal(p.samples[3].time, 600);
	assert_true(p.samples[3].stack == UINT32_MAX); /* cleared */
	assert_string_equal(name_at(&p, 4, 0, 0), "new");
	assert_int_equal(profile_stack_depth(&p, p.samples[4].stack), 1);
	assert_true(p.samples[5].stack == UINT32_MAX);
	assert_int_equal(p.n_notes, 1);
	assert_string_equal(text(&p, p.notes[0]),
			    "3 samples cannot be read: the packets they refer to were lost");
	profile_deinit(&p);
}

static void test_clocks(void **state)
{
	struct buffer trace = {0};
	struct profile p;

	(void)state;
	put_defaults(&trace, 3, 3, 1, 0, 1000);
	put_simple(&trace, 3, 0, 900); /* MONOTONIC, before all snapshots */
	put_simple(&trace, 3, 0, 1999);
	put_snapshot(&trace, 1, (struct test_clock[]){{6, 1000000, 0, 0}, {3, 1000, 0, 0}}, 2);
	put_snapshot(&trace, 1, (struct test_clock[]){{6, 2000005, 0, 0}, {3, 2000, 0, 0}}, 2);
	put_simple(&trace, 3, 0, 2001);
	put_simple(&trace, 3, 6, 2000007); /* stated otherwise: BOOTTIME */
	/* A clock of sequence 3 that counts differences in units of 10 ns, given in MONOTONIC. */
	put_snapshot(&trace, 3, (struct test_clock[]){{64, 50, true, 10}, {3, 3000, 0, 0}}, 2);
	put_simple(&trace, 3, 64, 1);
	put_simple(&trace, 3, 64, 2);
	/* That of another sequence is another clock. */
	put_snapshot(&trace, 4, (struct test_clock[]){{64, 0, true, 0}, {6, 5000000, 0, 0}}, 2);
	put_simple(&trace, 3, 64, 0);
	p = parse(&trace);
	assert_int_equal(p.n_samples, 7);
	assert_int_equal(p.samples[0].time, 999900);
	assert_int_equal(p.samples[1].time, 1000999);
	assert_int_equal(p.samples[2].time, 2000006);
	assert_int_equal(p.samples[3].time, 2000007);
	assert_int_equal(p.samples[4].time, 2000005 + 1000 + 10);
	assert_int_equal(p.samples[5].time, 2000005 + 1000 + 30);
	assert_int_equal(p.samples[6].time, 2000005 + 1000 + 30);
	profile_deinit(&p);
}

/* ModuleSymbols: names and inlined calls, before or after the frame; another build id is another
 * module. */
static void test_symbols(void **state)
{
	struct buffer trace = {0};
	struct profile p;

	(void)state;
	put_defaults(&trace, 3, 6, 1, 0, 1000);
	put_simple(&trace, 3, 0, 100);
	for (int i = 0; i < 2; i++) {
		struct buffer packet = {0}, symbols = {0}, address = {0}, line = {0};

		put_text(&symbols, 1, "/opt/prog");
		put_text(&symbols, 2, i ? "\x99" : "\x12\x34");
		put_number(&address, 1, 0x2000);
		put_text(&line, 1, i ? "wrong" : "_ZN3foo3barEv");
		put_text(&line, 2, "foo.c");
		put_number(&line, 3, 42);
		put_message(&address, 2, &line);
		put_text(&line, 1, "outer");
		put_message(&address, 2, &line);
		put_message(&symbols, 3, &address);
		put_message(&packet, 61, &symbols);
		put_message(&trace, 1, &packet);
	}
	put_sample(&trace,
		   &(struct test_sample){.sequence = 3, .flags = 2, .time = 300, .stack = 2}, NULL);
	p = parse(&trace);
	assert_int_equal(p.frames[p.nodes[p.samples[0].stack].frame].n_lines, 2);
	assert_string_equal(name_at(&p, 0, 0, 0), "foo::bar()");
	assert_string_equal(name_at(&p, 0, 0, 1), "outer");
	assert_string_equal(name_at(&p, 0, 1, 0), "main");
	assert_string_equal(name_at(&p, 1, 0, 0), "leaf");
	assert_int_equal(p.lines[p.frames[1].first_line].line, 42);
	assert_string_equal(text(&p, p.lines[p.frames[1].first_line].file), "foo.c");
	profile_deinit(&p);
}

/* Of several symbols of one address the last counts; a later one without a line leaves the line of its function. */
static void test_lines_stay(void **state)
{
	static const struct {
		const char *names[2];
		uint64_t lines[2], line;
	} rows[] = {
		{{"f", "f"}, {7, 9}, 9},
		{{"f", "f"}, {7, 0}, 7},
		{{"f", "g"}, {7, 0}, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct buffer trace = {0};
		struct profile p;

		put_defaults(&trace, 3, 6, 1, 0, 1000);
		put_simple(&trace, 3, 0, 100);
		for (int k = 0; k < 2; k++) {
			struct buffer packet = {0}, symbols = {0}, address = {0}, line = {0};

			put_text(&symbols, 1, "/opt/prog");
			put_text(&symbols, 2, "\x12\x34");
			put_number(&address, 1, 0x2000);
			put_text(&line, 1, rows[i].names[k]);
			put_text(&line, 2, "f.php");
			if (rows[i].lines[k])
				put_number(&line, 3, rows[i].lines[k]);
			put_message(&address, 2, &line);
			put_message(&symbols, 3, &address);
			put_message(&packet, 61, &symbols);
			put_message(&trace, 1, &packet);
		}
		p = parse(&trace);
		assert_string_equal(name_at(&p, 0, 0, 0), rows[i].names[1]);
		assert_int_equal(p.lines[p.frames[1].first_line].line, rows[i].line);
		profile_deinit(&p);
	}
}

/* Frames without names, without mapping; special mappings; a name that came in a later generation.
 */
static void test_names(void **state)
{
	struct buffer trace = {0}, interned = {0};
	struct profile p;

	(void)state;
	put_defaults(&trace, 3, 6, 1, 0, 1000);
	put_interned(&interned, 17, 0, "");
	put_interned(&interned, 17, 1, "kernel");
	put_interned(&interned, 17, 2, "[vdso]");
	put_interned(&interned, 17, 3, "lib.so");
	put_interned(&interned, 5, 1, "ERROR INVALID_MAP");
	put_mapping(&interned, 1, 0, (uint64_t[]){1}, 1);
	put_mapping(&interned, 2, 0, (uint64_t[]){2}, 1);
	put_mapping(&interned, 3, 0, (uint64_t[]){3}, 1);
	put_mapping(&interned, 4, 0, (uint64_t[]){0}, 1);
	put_frame(&interned, 1, 0, 1, 0);
	put_frame(&interned, 2, 0, 2, 0x77);
	put_frame(&interned, 3, 0, 3, 0x1234);
	put_frame(&interned, 4, 1, 4, 0);
	put_frame(&interned, 5, 0, 4, 0);
	put_callstack(&interned, 1, (uint64_t[]){5, 4, 3, 2, 1}, 5);
	put_sample(&trace, &(struct test_sample){.sequence = 3, .flags = 2, .stack = 1}, &interned);
	p = parse(&trace);
	assert_string_equal(name_at(&p, 0, 0, 0), "[kernel]");
	assert_true(p.modules[0].kernel);
	assert_string_equal(name_at(&p, 0, 1, 0), "[vdso]+0x77");
	assert_string_equal(name_at(&p, 0, 2, 0), "lib.so+0x1234");
	assert_string_equal(name_at(&p, 0, 3, 0), "ERROR INVALID_MAP");
	assert_string_equal(name_at(&p, 0, 4, 0), "[unknown]");
	assert_int_equal(p.n_modules, 3);
	profile_deinit(&p);

	put_defaults(&trace, 3, 6, 1, 0, 1000);
	for (unsigned i = 0; i < 2; i++) {
		put_interned(&interned, 17, 3, "lib.so");
		put_mapping(&interned, 3, 0, (uint64_t[]){3}, 1);
		put_interned(&interned, 5, 1, "late");
		put_frame(&interned, 1, i, 3, 0x10);
		put_callstack(&interned, 1, (uint64_t[]){1}, 1);
		put_sample(&trace,
			   &(struct test_sample){.sequence = 3, .flags = 2, .time = i, .stack = 1},
			   &interned);
		put_defaults(&trace, 3, 6, 1, 0, 1000);
	}
	p = parse(&trace);
	assert_string_equal(name_at(&p, 0, 0, 0), "late");
	assert_string_equal(name_at(&p, 1, 0, 0), "late");
	profile_deinit(&p);
}

static void test_stats(void **state)
{
	struct buffer trace = {0};
	struct profile p;

	(void)state;
	for (int i = 1; i <= 2; i++) {
		struct buffer packet = {0}, stats = {0}, stat = {0};
		double value = 1.5 * i;

		put_text(&stat, 1, "lost.samples");
		buffer_varint(&stat, 2 << 3 | 1);
		buffer_append(&stat, &value, sizeof(value));
		put_message(&stats, 1, &stat);
		put_text(&stats, 2, "the same note");
		put_message(&packet, 60001, &stats);
		put_message(&trace, 1, &packet);
	}
	p = parse(&trace);
	assert_int_equal(p.n_stats, 1);
	assert_string_equal(text(&p, p.stats[0].name), "lost.samples");
	assert_true(p.stats[0].value > 2.9 && p.stats[0].value < 3.1);
	assert_int_equal(p.n_notes, 1);
	profile_deinit(&p);
}

/* Two sessions in one trace: their counts are added up, the last one of each; of other figures the last one stays. */
static void test_stats_of_sequences(void **state)
{
	static const struct {
		uint32_t sequence;
		const char *name;
		double value;
	} stats[] = {
		{2, "lost.samples", 4},	 {3, "lost.samples", 1},   {2, "lost.samples", 5},
		{3, "lost.samples", 10}, {2, "lost.samples", NAN}, {2, "cpu_accounted", 0.5},
		{3, "cpu_accounted", 1},
	};
	struct buffer trace = {0};
	struct profile p;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(stats); i++) {
		struct buffer packet = {0}, list = {0}, stat = {0};

		put_text(&stat, 1, stats[i].name);
		buffer_varint(&stat, 2 << 3 | 1);
		buffer_append(&stat, &stats[i].value, sizeof(stats[i].value));
		put_message(&list, 1, &stat);
		put_number(&packet, 10, stats[i].sequence);
		put_message(&packet, 60001, &list);
		put_message(&trace, 1, &packet);
	}
	p = parse(&trace);
	assert_int_equal(p.n_stats, 2);
	assert_int_equal((int)p.stats[0].value, 15);
	assert_int_equal((int)p.stats[1].value, 1);
	profile_deinit(&p);
}

static void put_compressed(struct buffer *trace, const struct buffer *packets)
{
	struct buffer packet = {0};
	uLongf n = compressBound(packets->len);
	uint8_t *z = malloc(n);

	assert_int_equal(compress(z, &n, packets->data, packets->len), Z_OK);
	put_bytes(&packet, 50, z, n);
	put_message(trace, 1, &packet);
	free(z);
}

static void test_compressed(void **state)
{
	struct buffer trace = {0}, inner = {0}, nested = {0};
	struct profile p;
	size_t before;

	(void)state;
	put_defaults(&inner, 3, 6, 1, 0, 1000);
	put_simple(&inner, 3, 0, 100);
	put_compressed(&trace, &inner);
	before = trace.len;
	put_compressed(&nested, &inner);
	put_compressed(&trace, &nested); /* no writer makes that: damage */
	buffer_deinit(&inner);
	buffer_deinit(&nested);
	p = parse(&trace);
	assert_int_equal(p.n_samples, 1);
	assert_string_equal(name_at(&p, 0, 0, 0), "work");
	assert_int_equal(p.truncated_at, before);
	profile_deinit(&p);

	/* 64 MiB of zeros in 64 KiB are refused, without having them in memory for long. */
	inner.data = calloc(1, 80 << 20);
	inner.len = 80 << 20;
	put_simple(&trace, 3, 0, 100);
	before = trace.len;
	put_compressed(&trace, &inner);
	buffer_deinit(&inner);
	p = parse(&trace);
	assert_int_equal(p.truncated_at, before);
	profile_deinit(&p);
}

/* Cut anywhere: everything up to the last whole packet, and where that ends. */
static void test_cut(void **state)
{
	struct buffer trace = {0};
	size_t ends[8], n = 0;
	char error[256];

	(void)state;
	put_defaults(&trace, 3, 6, 1, 0, 1000);
	ends[n++] = trace.len;
	for (uint64_t t = 1; t <= 3; t++) {
		put_simple(&trace, 3, 0, t);
		ends[n++] = trace.len;
	}
	for (size_t len = 0; len <= trace.len; len++) {
		struct profile p;
		size_t whole = 0;
		uint8_t *copy = malloc(len + 1); /* so that a byte too far is seen */
		int e;

		while (whole < n && ends[whole] <= len)
			whole++;
		memcpy(copy, trace.data, len);
		copy = realloc(copy, len ? len : 1);
		e = profile_parse(copy, len, &p, error, sizeof(error));
		if (!whole) {
			assert_int_equal(e, -EBADMSG);
		} else {
			assert_int_equal(e, 0);
			assert_int_equal(p.n_samples, whole - 1);
			assert_int_equal(p.truncated_at,
					 ends[whole - 1] == len ? 0 : ends[whole - 1]);
			profile_deinit(&p);
		}
		free(copy);
	}
	buffer_deinit(&trace);
}

static void test_foreign(void **state)
{
	static const struct {
		const char *data;
		size_t len;
		const char *text;
	} files[] = {
		{"", 0, "empty"},
		{"PERFILE2\0\0\0\0\0\0\0\0", 16, "perf.data"},
		{"\177ELF\2\1\1\0\0\0\0\0\0\0\0\0", 16, "ELF"},
		{"\x1f\x8b\x08\0\0\0\0\0", 8, "gzip"},
		{"main;work 12\nmain;leaf 3\n", 25, "text"},
		{"\n\n\n\n\n\n\n\nhello\n", 14, "text"},
		{"{\"traceEvents\": []}", 19, "JSON"},
		{"\1\2\3\4\5\6\7", 7, "unknown"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		char error[256] = "";
		struct profile p;

		assert_int_equal(
			profile_parse(files[i].data, files[i].len, &p, error, sizeof(error)),
			-EBADMSG);
		if (!strstr(error, files[i].text))
			fail_msg("\"%s\" does not contain %s", error, files[i].text);
		assert_null(strchr(error, '\n'));
	}
}

static void test_read_errors(void **state)
{
	char error[256], small[8];
	struct profile p;

	(void)state;
	assert_int_equal(profile_read("/nonexistent/x", &p, error, sizeof(error)), -ENOENT);
	assert_non_null(strstr(error, "/nonexistent/x"));
	assert_int_equal(profile_read("/", &p, error, sizeof(error)), -EISDIR);
	assert_int_equal(profile_read("/dev/null", &p, error, sizeof(error)), -EBADMSG);
	assert_string_equal(error, "/dev/null: not a trace: it is empty");
	assert_int_equal(profile_read("/dev/null", &p, small, sizeof(small)), -EBADMSG);
	assert_string_equal(small, "/dev/nu");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stock),
		cmocka_unit_test(test_simple),
		cmocka_unit_test(test_restart),
		cmocka_unit_test(test_beginning_gone),
		cmocka_unit_test(test_generations),
		cmocka_unit_test(test_clocks),
		cmocka_unit_test(test_symbols),
		cmocka_unit_test(test_lines_stay),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_stats),
		cmocka_unit_test(test_stats_of_sequences),
		cmocka_unit_test(test_compressed),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_foreign),
		cmocka_unit_test(test_read_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
