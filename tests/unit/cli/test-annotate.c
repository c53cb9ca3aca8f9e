/* test-annotate.c - samples in a function of this program by line and instruction; without its file; inlined calls: the figures of
 * a report; bounds. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/annotate.h"
#include "profile/rows.h"
#include "symbols/module.h"
#include "tests/unit/capture.h"
#include "tests/unit/profile/hand.h"
#include "trace/sink.h"
#include "trace/writer.h"

int annotated(int x);

__attribute__((noinline)) int annotated(int x)
{
	return x * 7 + 1;
}

static char self[PATH_MAX];
static struct uw_build_id own;
static uint64_t vaddr; /* of annotated() */

static int first_base(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	*(uint64_t *)data = info->dlpi_addr;
	return 1;
}

static int setup(void **state)
{
	struct uw_source source = {.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	uint64_t base = 0;

	(void)state;
	(void)dl_iterate_phdr(first_base, &base);
	vaddr = (uint64_t)(uintptr_t)annotated - base;
	if (n <= 0 || uw_source_build_id(&source, &own) < 0 || !own.len)
		return -1;
	self[n] = 0;
	close(source.fd);
	return 0;
}

struct fixture {
	struct profile profile;
	struct annotation a;
	struct writer *writer;
	struct sink *sink;
	uint32_t mapping;
	uint64_t count, time;
};

static void begin(struct fixture *t, const struct uw_build_id *id)
{
	const struct writer_options options = {.leader = {.counter = 1},
					       .frequency = 999,
					       .clock = CLOCK_MONOTONIC,
					       .sequence_id = 2,
					       .tool = "perfwind test"};

	*t = (struct fixture){.time = 1000};
	assert_int_equal(sink_memory_new(&t->sink), 0);
	assert_int_equal(writer_new(&options, t->sink, &t->writer), 0);
	assert_int_equal(writer_start(t->writer), 0);
	assert_int_equal(writer_mapping(t->writer, self, id->bytes, id->len, 0, 0, &t->mapping), 0);
}

/* @n samples in a call of main() to @name, at @address. */
static void add(struct fixture *t, const char *name, uint64_t address, unsigned n)
{
	uint32_t frames[2], callstack;

	for (unsigned i = 0; i < n; i++) {
		struct writer_sample sample = {
			.time = t->time++, .pid = 7, .tid = 7, .count = ++t->count};

		assert_int_equal(writer_frame(t->writer, t->mapping, address, name, &frames[0]), 0);
		assert_int_equal(writer_frame(t->writer, t->mapping, 0x10, "main", &frames[1]), 0);
		assert_int_equal(writer_callstack(t->writer, frames, 2, &callstack), 0);
		sample.callstack = callstack;
		assert_int_equal(writer_sample(t->writer, &sample), 0);
	}
}

static void end(struct fixture *t)
{
	char error[512];
	const void *data;
	size_t len;

	t->writer = writer_free(t->writer);
	data = sink_memory_data(t->sink, &len);
	assert_int_equal(profile_parse(data, len, &t->profile, error, sizeof(error)), 0);
	t->sink = sink_free(t->sink);
}

static int annotate(struct fixture *t, const char *function)
{
	static const struct file_places places = {.buildid_dir = "/none"};
	const struct annotate_options options = {.function = function, .places = &places};

	return annotate_init(&t->a, &t->profile, &options);
}

/* The samples are complete: those in @function. */
static void end_annotated(struct fixture *t, const char *function)
{
	end(t);
	assert_int_equal(annotate(t, function), 0);
}

static void deinit(struct fixture *t)
{
	annotate_deinit(&t->a);
	profile_deinit(&t->profile);
}

static char *print(const struct annotation *a, bool json)
{
	const struct annotate_form form = {.event = "cpu-clock", .json = json, .all = true};
	struct capture c;

	capture_begin(&c, STDOUT_FILENO);
	(void)annotate_write(a, &form, stdout);
	return capture_end(&c);
}

static void has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("'%s' is not in:\n%s", part, text);
}

/* Three samples at the first instruction of this file's function, one elsewhere. */
static void test_function(void **state)
{
	struct fixture t;
	char *text;

	(void)state;
	begin(&t, &own);
	add(&t, "annotated", vaddr, 3);
	add(&t, "other", vaddr + 0x100000, 1);
	end_annotated(&t, "annotated");
	assert_int_equal(t.a.count, 3);
	assert_int_equal(t.a.all_count, 4);
	assert_int_equal(t.a.n_parts, 1);
	assert_int_equal(t.a.parts[0].start, vaddr);
	assert_string_equal(string_table_text(&t.a.texts, t.a.parts[0].name), "annotated");
	assert_int_equal(t.a.parts[0].instructions[0].address, vaddr);
	assert_int_equal(t.a.parts[0].instructions[0].count, 3);
	assert_int_equal(t.a.lines.n, 1);
	assert_int_equal(t.a.lines.list[0].all.count, 3);
	assert_non_null(
		strstr(string_table_text(&t.a.texts, t.a.lines.list[0].file), "test-annotate.c"));
	if (!t.a.note) { /* with a disassembler there are the others */
		assert_true(t.a.parts[0].n > 1);
		assert_int_equal(t.a.parts[0].instructions[1].count, 0);
	}
	text = print(&t.a, false);
	has(text, "annotated  ");
	has(text, "3 samples of cpu-clock (75.00 %) in the function itself, of 4\n");
	has(text, "\n  100.00  test-annotate.c:");
	free(text);
	text = print(&t.a, true);
	has(text, "\"weight\": 3, \"samples\": 3, ");
	has(text, "\"percent\": 100.0000, \"weight\": 3, \"samples\": 3");
	free(text);
	deinit(&t);
}

/* Of another build: the file here is not taken. */
static void test_other_build(void **state)
{
	struct uw_build_id other = own;
	struct fixture t;
	char *text;

	(void)state;
	other.bytes[0] ^= 1;
	begin(&t, &other);
	add(&t, "annotated", vaddr + 4, 2);
	add(&t, "annotated", vaddr, 1);
	end_annotated(&t, "annotated");
	assert_non_null(strstr(t.a.note, "build id"));
	assert_int_equal(t.a.n_parts, 1);
	assert_int_equal(t.a.parts[0].n, 2);
	assert_int_equal(t.a.parts[0].instructions[1].address, vaddr + 4);
	assert_int_equal(t.a.parts[0].instructions[1].count, 2);
	assert_int_equal(t.a.lines.list[0].line, 0);
	text = print(&t.a, false);
	assert_null(strstr(text, "[no line]")); /* addresses alone */
	has(text, "\n   66.67  ");
	free(text);
	deinit(&t);
}

/* An address in no function of the file; one far behind its function. */
static void test_wrong_addresses(void **state)
{
	struct fixture t;
	uint64_t count = 0;

	(void)state;
	begin(&t, &own);
	add(&t, "annotated", 0x7fffffffffffff00, 1);
	add(&t, "annotated", 0, 1);
	add(&t, "annotated", vaddr + 1, 1);
	end_annotated(&t, "annotated");
	for (size_t i = 0; i < t.a.n_parts; i++)
		for (size_t j = 0; j < t.a.parts[i].n; j++)
			count += t.a.parts[i].instructions[j].count;
	assert_int_equal(count, 3);
	deinit(&t);
}

static void test_none(void **state)
{
	struct fixture t;

	(void)state;
	begin(&t, &own);
	add(&t, "annotated", vaddr, 1);
	end(&t);
	assert_int_equal(annotate(&t, "anotated"), -ENOENT);
	assert_non_null(strstr(profile_strerror(&t.profile, -ENOENT), "annotated"));
	assert_int_equal(annotate(&t, "main"), -ENODATA);
	profile_deinit(&t.profile);
}

/* A function of Python has lines; its addresses mean nothing. */
static void test_interpreted(void **state)
{
	struct fixture t;
	char *text;

	(void)state;
	begin(&t, &own);
	assert_int_equal(writer_mapping(t.writer, "[python]", NULL, 0, 0, 0, &t.mapping), 0);
	add(&t, "fib", 0x7f0000001000, 2);
	end_annotated(&t, "fib");
	text = print(&t.a, false);
	has(text, "note: the trace has one line of this function, that of its definition (below)");
	assert_null(strstr(text, "7f0000001000"));
	free(text);
	deinit(&t);
}

/* ---- inlined calls ---- */

/* @names: innermost first; each one is at line 10, 20 ... of its own file. */
static uint32_t calls(struct profile *p, uint32_t module, uint64_t at, const char *const *names,
		      uint32_t n)
{
	uint32_t first = (uint32_t)p->n_lines;
	char file[64];

	for (uint32_t i = 0; i < n; i++) {
		(void)snprintf(file, sizeof(file), "%s.c", names[i]);
		*HAND_ADD(p, lines, n_lines) = (struct profile_line){
			hand_string(p, names[i]), hand_string(p, file), 10 * (i + 1), FRAME_NATIVE};
	}
	*HAND_ADD(p, frames, n_frames) = (struct profile_frame){module, at, first, n, false};
	return (uint32_t)p->n_frames - 1;
}
#define CALLS(p, module, at, ...)                                      \
	calls((p), (module), (at), (const char *const[]){__VA_ARGS__}, \
	      (uint32_t)ARRAY_SIZE(((const char *const[]){__VA_ARGS__})))

static void samples(struct profile *p, uint32_t stack, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		hand_sample(p, 1, 1, stack, 2);
}

static struct profile inlined_example(void)
{
	struct profile p = hand_empty();
	uint32_t m = hand_module(&p, "/none/app", false);
	uint32_t main_ = CALLS(&p, m, 0x10, "main"), other = CALLS(&p, m, 0x20, "other");
	uint32_t outer = CALLS(&p, m, 0x30, "outer"),
		 middle = CALLS(&p, m, 0x34, "middle", "outer"),
		 tiny = CALLS(&p, m, 0x38, "tiny", "middle", "outer"),
		 again = CALLS(&p, m, 0x3c, "outer", "tiny", "outer"),
		 second = CALLS(&p, m, 0x50, "tiny", "middle", "second");

	hand_process(&p, 1, "p");
	samples(&p, HAND_STACK(&p, outer, main_), 2);
	samples(&p, HAND_STACK(&p, middle, main_), 3);
	samples(&p, HAND_STACK(&p, tiny, main_), 5);
	samples(&p, HAND_STACK(&p, again, main_), 1); /* recursion, inlined */
	samples(&p, HAND_STACK(&p, second, main_), 6);
	samples(&p, HAND_STACK(&p, other, middle, main_), 4);
	samples(&p, HAND_STACK(&p, outer, tiny, main_), 1); /* recursion, called */
	return p;
}

static uint64_t sum(const struct annotate_lines *lines, bool only_self)
{
	uint64_t n = 0;

	for (size_t i = 0; i < lines->n; i++)
		n += only_self ? lines->list[i].self.weight : lines->list[i].all.weight;
	return n;
}

/* The row of the report with this name has these figures; so have the lines. */
static void assert_row(const struct profile *p, const struct annotation *a, const char *name)
{
	struct rows rows = {0};
	struct fold f;
	bool found = false;

	assert_int_equal(fold_init(&f, p, NULL), 0);
	assert_int_equal(rows_fill(&rows, &f, REPORT_FUNCTION), 0);
	for (size_t i = 0; i < rows.n; i++) {
		const struct row *row = &rows.list[i];

		if (strcmp(fold_symbol_name(&f, row->id), name) != 0)
			continue;
		found = true;
		assert_int_equal(a->self.count, row->self_count);
		assert_int_equal(a->self.weight, row->self_weight);
		assert_int_equal(a->self.count + a->inlined.count + a->called.count, row->count);
		assert_int_equal(a->self.weight + a->inlined.weight + a->called.weight,
				 row->weight);
	}
	assert_true(found);
	assert_int_equal(sum(&a->lines, true), a->self.weight);
	assert_int_equal(sum(&a->lines, false), a->weight);
	assert_int_equal(sum(&a->inlined_lines, false), a->inlined.weight);
	rows_deinit(&rows);
	fold_deinit(&f);
}

/* The figures are those of the report, and each sample is at the line of the function that it was inlined at. */
static void test_inlined(void **state)
{
	static const struct {
		const char *name;
		uint64_t self, inlined, called; /* samples */
		size_t n_lines;
	} rows[] = {
		/* at outer's lines 10, 20 and 30 */
		{"outer", 4, 8, 4, 3},
		/* lines 10 and 20 */
		{"middle", 3, 11, 5, 2},
		{"tiny", 11, 1, 1, 2},
		{"second", 0, 6, 0, 1},
		{"other", 4, 0, 0, 1},
	};
	struct profile p = inlined_example();
	static const struct file_places places = {.buildid_dir = "/none"};
	struct annotation a;
	char *text;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct annotate_options o = {.function = rows[i].name, .places = &places};

		assert_int_equal(annotate_init(&a, &p, &o), 0);
		assert_int_equal(a.self.count, rows[i].self);
		assert_int_equal(a.inlined.count, rows[i].inlined);
		assert_int_equal(a.called.count, rows[i].called);
		assert_int_equal(a.lines.n, rows[i].n_lines);
		assert_row(&p, &a, rows[i].name);
		if (!strcmp(rows[i].name, "outer")) {
			text = print(&a, false);
			has(text,
			    "4 samples of cpu-clock (18.18 %) in the function itself, of 22\n"
			    "8 samples (36.36 %) in functions that were inlined into it\n"
			    "4 samples (18.18 %) in functions that it called, not shown here\n"
			    "16 samples (72.73 %) in total\n");
			has(text, "\n percent    self  line\n"
				  "   41.67    0.00  outer.c:30\n"
				  "   33.33   33.33  outer.c:10\n"
				  "   25.00    0.00  outer.c:20\n"
				  "\n percent  line in an inlined function\n"
				  "   41.67  tiny.c:10\n"
				  "   25.00  middle.c:10\n");
			free(text);
			text = print(&a, true);
			has(text,
			    "\"weight\": 24, \"samples\": 12, \"self\": 8, \"self_samples\": 4, "
			    "\"inlined\": 16, \"inlined_samples\": 8, \"called\": 8, "
			    "\"called_samples\": 4, ");
			has(text,
			    "{\"file\": \"outer.c\", \"line\": 30, \"percent\": 41.6667, "
			    "\"weight\": 10, \"samples\": 5, \"self\": 0, \"self_samples\": 0}");
			has(text, "\"inlined_lines\": [\n{\"file\": \"tiny.c\", \"line\": 10, "
				  "\"percent\": 41.6667, \"weight\": 10, \"samples\": 5}");
			free(text);
		}
		annotate_deinit(&a);
	}
	profile_deinit(&p);
}

/* PHP: the lines that ran, as far as they are known; else the file. */
static void test_script_lines(void **state)
{
	static const struct file_places places = {.buildid_dir = "/none"};
	const struct annotate_options o = {.function = "{closure}", .places = &places};
	struct profile p = hand_empty();
	uint32_t m = hand_module(&p, "[php]", false);
	uint32_t known = CALLS(&p, m, 0x1001, "Zoo\\{closure}"),
		 freed = CALLS(&p, m, 0x2001, "Zoo\\{closure}");
	struct annotation a;
	char *text;

	(void)state;
	for (size_t i = 0; i < p.n_lines; i++)
		p.lines[i].kind = FRAME_PHP;
	p.lines[p.frames[freed].first_line].line = 0;
	hand_process(&p, 1, "p");
	samples(&p, HAND_STACK(&p, known), 3);
	samples(&p, HAND_STACK(&p, freed), 1);
	assert_int_equal(annotate_init(&a, &p, &o), 0);
	text = print(&a, false);
	has(text,
	    "note: an interpreter runs this function: the trace has the lines that ran, and no "
	    "instructions\n\n percent  line\n"
	    "   75.00  Zoo\\{closure}.c:10\n"
	    "   25.00  Zoo\\{closure}.c  [no line]\n");
	free(text);
	annotate_deinit(&a);
	profile_deinit(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_function),	cmocka_unit_test(test_other_build),
		cmocka_unit_test(test_wrong_addresses), cmocka_unit_test(test_none),
		cmocka_unit_test(test_interpreted),	cmocka_unit_test(test_inlined),
		cmocka_unit_test(test_script_lines),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
