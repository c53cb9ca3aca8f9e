/* test-annotate.c - samples in a function of this program by line and instruction; without its file; bounds. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/annotate.h"
#include "symbols/module.h"
#include "tests/unit/capture.h"
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
	assert_int_equal(t.a.n_lines, 1);
	assert_int_equal(t.a.lines[0].count, 3);
	assert_non_null(
		strstr(string_table_text(&t.a.texts, t.a.lines[0].file), "test-annotate.c"));
	if (!t.a.note) { /* with a disassembler there are the others */
		assert_true(t.a.parts[0].n > 1);
		assert_int_equal(t.a.parts[0].instructions[1].count, 0);
	}
	text = print(&t.a, false);
	has(text, "annotated  ");
	has(text, "3 samples of cpu-clock (75.00 %) in the function alone, of 4\n");
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
	assert_int_equal(t.a.lines[0].line, 0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_function),	cmocka_unit_test(test_other_build),
		cmocka_unit_test(test_wrong_addresses), cmocka_unit_test(test_none),
		cmocka_unit_test(test_interpreted),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
