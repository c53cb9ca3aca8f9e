/* test-roundtrip.c - what the writer writes, profile/ reads: every figure of a small session,
 * through a file, plain and compressed. */
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "trace/writer-private.h"
#include "profile/profile.h"
#include "tests/unit/cmocka.h"

static char path[] = "/tmp/test-roundtrip-XXXXXX";

struct session {
	struct sink *sink;
	struct writer *w;
};

static void open_session(struct session *s, int clock, bool compress)
{
	const struct writer_options options = {.leader = {.counter = 1, .modifiers = 1 | 4},
					       .frequency = 1000,
					       .clock = clock,
					       .sequence_id = 2,
					       .tool = "perfwind test"};

	assert_int_equal(sink_file_new(path, &s->sink), 0);
	if (compress)
		assert_int_equal(sink_deflate_new(s->sink, &s->sink), 0);
	assert_int_equal(writer_new(&options, s->sink, &s->w), 0);
	assert_int_equal(writer_start(s->w), 0);
}

static struct profile close_session(struct session *s)
{
	struct profile p;
	char error[256] = "";

	assert_int_equal(s->sink->flush(s->sink), 0);
	writer_free(s->w);
	sink_free(s->sink);
	assert_int_equal(profile_read(path, &p, error, sizeof(error)), 0);
	return p;
}

static uint32_t frame(struct session *s, uint32_t mapping, uint64_t rel_pc, const char *name)
{
	uint32_t id;

	assert_int_equal(writer_frame(s->w, mapping, rel_pc, name, &id), 0);
	return id;
}

static void sample(struct session *s, struct writer_sample sample, const uint32_t *frames, size_t n)
{
	assert_int_equal(writer_callstack(s->w, frames, n, &sample.callstack), 0);
	assert_int_equal(writer_sample(s->w, &sample), 0);
}

static const char *text(const struct profile *p, uint32_t id)
{
	return id ? string_table_text(&p->strings, id) : "";
}

/* "leaf<caller<root" of sample @i. */
static const char *stack_of(const struct profile *p, size_t i)
{
	static char all[1024];
	size_t len = 0;

	all[0] = 0;
	if (p->samples[i].stack == UINT32_MAX)
		return "-";
	for (uint32_t at = p->samples[i].stack; at != UINT32_MAX; at = p->nodes[at].up) {
		const struct profile_frame *f = &p->frames[p->nodes[at].frame];
		char name[128];

		for (uint32_t line = 0; line < f->n_lines; line++)
			len += (size_t)snprintf(all + len, sizeof(all) - len, "%s%s",
						len ? "<" : "",
						profile_line_name(p, f, line, name, sizeof(name)));
	}
	return all;
}

/* "process/thread" of sample @i. */
static const char *names_of(const struct profile *p, size_t i)
{
	static char names[128];

	(void)snprintf(names, sizeof(names), "%s/%s",
		       profile_process_name(p, profile_sample_process(p, &p->samples[i])),
		       profile_thread_name(p, p->samples[i].thread));
	return names;
}

static void write_all_kinds(struct session *s)
{
	static const uint8_t id[20] = {0xde, 0xad, 0, 1, 2};
	const struct writer_line lines[] = {{"inlined", "a.c", 7, 0}, {"late", "b.c", 8, 0}};
	const struct writer_line again = {"leaf again", NULL, 0, 0};
	const struct writer_process prog_process = {.pid = 40,
						    .ppid = 1,
						    .incarnation = 7,
						    .comm = "prog",
						    .cmdline = "/opt/prog\0--x",
						    .cmdline_len = 13};
	const struct writer_process next_process = {
		.pid = 40, .ppid = 1, .incarnation = 8, .comm = "next"};
	const struct writer_stat stat = {"lost.samples", 4}, stat2 = {"lost.samples", 5};
	const char *const notes[] = {"kernel stacks are not permitted"};
	uint32_t prog, anon, frames[4];

	assert_int_equal(writer_process(s->w, &prog_process, 900), 0);
	assert_int_equal(writer_thread(s->w, 40, 41, "worker", 900), 0);
	assert_int_equal(writer_mapping(s->w, "/opt/prog", id, sizeof(id), 0x400000, 0x1000, &prog),
			 0);
	assert_int_equal(writer_mapping(s->w, "[vdso]", NULL, 0, 0, 0, &anon), 0);
	frames[0] = frame(s, WRITER_KERNEL_MAPPING, 0, "do_syscall_64");
	frames[1] = frame(s, anon, 0x700, NULL);
	frames[2] = frame(s, prog, 0x401000, NULL);
	frames[3] = frame(s, prog, 0x402000, "main");
	sample(s,
	       (struct writer_sample){.time = 1000,
				      .cpu = 0,
				      .pid = 40,
				      .tid = 40,
				      .cpu_mode = 1,
				      .count = 3000000},
	       frames, 4);
	sample(s,
	       (struct writer_sample){.time = 3000,
				      .cpu = 0,
				      .pid = 40,
				      .tid = 41,
				      .cpu_mode = 2,
				      .count = 4500000,
				      .unwind_error = 6},
	       frames + 2, 2);
	sample(s,
	       (struct writer_sample){.time = 2000,
				      .cpu = 1,
				      .pid = 50,
				      .tid = 50,
				      .cpu_mode = 2,
				      .count = 10,
				      .skipped_reason = 3},
	       NULL, 0);
	assert_int_equal(writer_lost(s->w, 1, 9, 2500), 0);
	assert_int_equal(writer_symbol(s->w, prog, 0x401000, lines, 2), 0);
	assert_int_equal(writer_symbols_flush(s->w), 0);
	assert_int_equal(writer_clear_incremental_state(s->w), 0);
	assert_int_equal(writer_thread(s->w, 40, 41, "renamed", 7000), 0);
	sample(s,
	       (struct writer_sample){.time = 4000,
				      .cpu = 0,
				      .pid = 40,
				      .tid = 41,
				      .cpu_mode = 2,
				      .count = 4500001},
	       frames + 1, 3);
	/* An exec, and a sample from before it that had to wait. */
	assert_int_equal(writer_process(s->w, &next_process, 4500), 0);
	sample(s, (struct writer_sample){.time = 5000, .cpu = 2, .pid = 40, .tid = 40}, NULL, 0);
	assert_int_equal(writer_process(s->w, &prog_process, 5500), 0);
	sample(s, (struct writer_sample){.time = 6000, .cpu = 2, .pid = 40, .tid = 41}, NULL, 0);
	assert_int_equal(writer_symbol(s->w, anon, 0x700, &again, 1), 0);
	assert_int_equal(writer_symbols_flush(s->w), 0);
	assert_int_equal(writer_stats(s->w, &stat, 1, notes, 1, 5000), 0);
	assert_int_equal(writer_stats(s->w, &stat2, 1, notes, 1, 6000), 0);
}

static void check_all_kinds(bool compress)
{
	struct session s;
	struct profile p;

	open_session(&s, CLOCK_BOOTTIME, compress);
	write_all_kinds(&s);
	p = close_session(&s);
	assert_int_equal(p.truncated_at, 0);
	assert_int_equal(p.n_samples, 6);
	assert_string_equal(p.event_name, "cpu-clock:uh");
	assert_string_equal(p.weight_unit, "ns");
	assert_int_equal(p.samples[0].time, 1000);
	assert_int_equal(p.samples[0].weight,
			 1000000); /* the first: 1/1000 s, not what was counted before it */
	assert_int_equal(p.samples[0].cpu_mode, 1);
	assert_string_equal(stack_of(&p, 0), "do_syscall_64<leaf again<inlined<late<main");
	assert_int_equal(p.samples[1].time, 2000);
	assert_int_equal(p.samples[1].skipped_reason, 3);
	assert_int_equal(p.samples[1].cpu, 1);
	assert_int_equal(p.samples[1].weight, 10);
	assert_string_equal(stack_of(&p, 1), "-");
	assert_int_equal(p.samples[2].weight, 1500000);
	assert_int_equal(profile_sample_tid(&p, &p.samples[2]), 41);
	assert_int_equal(p.samples[2].unwind_error, 6);
	assert_string_equal(stack_of(&p, 2), "inlined<late<main");
	assert_int_equal(p.samples[3].weight, 1);
	assert_string_equal(stack_of(&p, 3), "leaf again<inlined<late<main");
	assert_int_equal(p.lost_records, 9);
	assert_int_equal(p.n_modules, 3);
	for (size_t i = 0; i < p.n_modules; i++) {
		const struct profile_module *m = &p.modules[i];

		if (m->kernel) {
			assert_string_equal(text(&p, m->path), "[kernel]");
		} else if (m->build_id_len) {
			assert_string_equal(text(&p, m->path), "/opt/prog");
			assert_int_equal(m->build_id_len, 20);
			assert_int_equal(m->build_id[1], 0xad);
			assert_int_equal(m->build_id[4], 2);
			assert_int_equal(m->load_bias, 0x400000);
		} else {
			assert_string_equal(text(&p, m->path), "[vdso]");
		}
	}
	assert_string_equal(names_of(&p, 0), "prog/prog");
	assert_string_equal(names_of(&p, 1), "[pid 50]/[pid 50]");
	assert_string_equal(names_of(&p, 2), "prog/worker");
	assert_string_equal(names_of(&p, 3), "prog/renamed");
	assert_string_equal(names_of(&p, 4), "next/next");
	assert_string_equal(names_of(&p, 5), "prog/renamed");
	assert_int_equal(profile_sample_process(&p, &p.samples[5]),
			 profile_sample_process(&p, &p.samples[0]));
	assert_int_equal(p.n_stats, 1);
	assert_string_equal(text(&p, p.stats[0].name), "lost.samples");
	assert_int_equal((int)p.stats[0].value, 5);
	assert_int_equal(p.n_notes, 1);
	assert_string_equal(text(&p, p.notes[0]), "kernel stacks are not permitted");
	profile_deinit(&p);
}

static void test_plain(void **state)
{
	(void)state;
	check_all_kinds(false);
}

static void test_compressed(void **state)
{
	(void)state;
	check_all_kinds(true);
}

/* Times of another clock come out as BOOTTIME. */
static void test_clock(void **state)
{
	struct session s;
	struct profile p;
	uint64_t boot = clock_ns(CLOCK_BOOTTIME), raw = clock_ns(CLOCK_MONOTONIC_RAW);

	(void)state;
	open_session(&s, CLOCK_MONOTONIC_RAW, false);
	sample(&s, (struct writer_sample){.time = raw}, NULL, 0);
	sample(&s, (struct writer_sample){.time = raw + 12345}, NULL, 0);
	p = close_session(&s);
	assert_int_equal(p.samples[1].time - p.samples[0].time, 12345);
	assert_true(p.samples[0].time + NSEC_PER_MSEC * 100 > boot &&
		    p.samples[0].time < boot + NSEC_PER_MSEC * 100);
	profile_deinit(&p);
}

/* Many stacks through tables that begin again many times: all come back as they went in. */
static void test_many(void **state)
{
	enum { N = 20000 };
	uint32_t mapping, generation, first, frames[3];
	struct session s;
	struct profile p;

	(void)state;
	open_session(&s, CLOCK_BOOTTIME, true);
	s.w->max_stack_bytes = 50000;
	s.w->max_frame_bytes = 200000;
	generation = first = writer_generation(s.w);
	for (uint32_t i = 0; i < N; i++) {
		char name[32];

		if (!i || generation != writer_generation(s.w))
			assert_int_equal(writer_mapping(s.w, "/x", NULL, 0, 0, 0, &mapping), 0);
		generation = writer_generation(s.w);
		(void)snprintf(name, sizeof(name), "f%u", i);
		frames[0] = frame(&s, mapping, 1000 + i, name);
		frames[1] = frame(&s, mapping, 100 + i % 10, NULL);
		frames[2] = frame(&s, mapping, 1, "main");
		sample(&s, (struct writer_sample){.time = i + 1, .count = 7ull * i}, frames, 3);
		if (i % 1000 == 999)
			assert_int_equal(s.sink->flush(s.sink), 0);
	}
	assert_true(writer_generation(s.w) > first);
	p = close_session(&s);
	assert_int_equal(p.n_samples, N);
	assert_int_equal(p.n_nodes, N + 10 + 1); /* of one root, ten callers and a leaf each */
	assert_int_equal(p.n_frames, N + 10 + 1);
	assert_int_equal(p.n_notes, 0);
	for (uint32_t i = 0; i < N; i += 97) {
		char expect[64];

		(void)snprintf(expect, sizeof(expect), "f%u<x+0x%x<main", i, 100 + i % 10);
		assert_string_equal(stack_of(&p, i), expect);
		assert_int_equal(p.samples[i].weight, i ? 7 : 0);
	}
	profile_deinit(&p);
}

/* Kinds of code: with the frame, with a name that comes late, of guesses; kept when the tables begin again. */
static void test_kinds(void **state)
{
	const struct writer_line java[] = {{"Map.get", NULL, 0, FRAME_JAVA_C2},
					   {"Work.run", NULL, 0, FRAME_JAVA_C2}};
	const struct writer_line script[] = {{"py::f", NULL, 0, FRAME_PYTHON}};
	static const char expected[] =
		"native f,ruby g,java-c2 Map.get,java-c2 Work.run,python py::f,js h,"
		"native i,";
	uint32_t mapping, frames[6];
	char all[256] = "";
	struct session s;
	struct profile p;

	(void)state;
	open_session(&s, CLOCK_BOOTTIME, false);
	assert_int_equal(writer_mapping(s.w, "/x", NULL, 0, 0, 0, &mapping), 0);
	frames[0] = frame(&s, mapping, 1, "f");
	frames[1] = frame(&s, mapping, 2, "g");
	frames[2] = frame(&s, mapping, 3, NULL);
	frames[3] = frame(&s, mapping, 4, NULL);
	frames[4] = frame(&s, mapping, 5 | WRITER_GUESSED, "h");
	frames[5] = frame(&s, mapping, 6 | WRITER_GUESSED, "i");
	writer_frame_kind(s.w, frames[1], FRAME_RUBY);
	writer_frame_kind(s.w, frames[4], FRAME_JS);
	writer_frame_kind(s.w, frames[5] + 1, FRAME_JS); /* no frame */
	sample(&s, (struct writer_sample){.time = 1}, frames, 6);
	assert_int_equal(writer_symbol(s.w, mapping, 3, java, 2), 0);
	assert_int_equal(writer_symbol(s.w, mapping, 4, script, 1), 0);
	assert_int_equal(writer_clear_incremental_state(s.w), 0);
	sample(&s, (struct writer_sample){.time = 2}, frames, 6);
	assert_int_equal(writer_symbols_flush(s.w), 0);
	p = close_session(&s);
	for (size_t i = 0; i < 2; i++) {
		all[0] = 0;
		for (uint32_t at = p.samples[i].stack; at != UINT32_MAX; at = p.nodes[at].up) {
			const struct profile_frame *f = &p.frames[p.nodes[at].frame];

			assert_int_equal(f->guessed, f->rel_pc > 4);
			for (uint32_t k = f->first_line; k < f->first_line + f->n_lines; k++)
				(void)snprintf(all + strlen(all), sizeof(all) - strlen(all),
					       "%s %s,", frame_kind_name(p.lines[k].kind),
					       text(&p, p.lines[k].function));
		}
		assert_string_equal(all, expected);
	}
	profile_deinit(&p);
}

static int setup(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
	char old[sizeof(path) + 4];

	(void)state;
	(void)snprintf(old, sizeof(old), "%s.old", path);
	(void)unlink(old);
	return unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain), cmocka_unit_test(test_compressed),
		cmocka_unit_test(test_clock), cmocka_unit_test(test_many),
		cmocka_unit_test(test_kinds),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
