/* test-perfmap.c - names of JIT code from text that any user may have written. */
#include "tests/unit/unwinder/unwinder-fixture.h"

#include "symbols/module.h"
#include "symbols/jit-index.h"
#include "symbols/symbols.h"

static void test_lines(void **state)
{
	static const char text[] = "7f0000001000 40 simple\n"
				   "0x7f0000002000 0x10 with_prefix\n"
				   "7F0000003000 1A LazyCompile:~f /tmp/a b.js:10\n"
				   "7f0000004000 10 dos_line\r\n"
				   "7f0000005000 0 no_size\n"
				   "7f0000006000 10 \n"
				   "7f0000007000 10\n"
				   " 7f0000008000 10 blank_first\n"
				   "7f0000009000  10 two_blanks\n"
				   "g 10 no_number\n"
				   "-1 10 signed\n"
				   "7f000000a000000000 10 too_many_digits\n"
				   "7f000000b000 100000000 too_large\n"
				   "ffffffffffffff00 101 wraps\n"
				   "\n\n"
				   "7f000000c000 10 \xc3\xa9t\xc3\xa9\n"
				   "7f000000d000 10 not_written_whole";
	struct uw_module *m = jit_module_of("/tmp/perf-1.map", text, sizeof(text) - 1);

	(void)state;
	expect_symbol(m, 0x7f0000001000, "simple");
	expect_symbol(m, 0x7f000000103f, "simple");
	expect_symbol(m, 0x7f0000001040, NULL);
	expect_symbol(m, 0x7f000000200f, "with_prefix");
	expect_symbol(m, 0x7f0000003019, "LazyCompile:~f /tmp/a b.js:10");
	expect_symbol(m, 0x7f0000004001, "dos_line");
	for (uint64_t i = 5; i < 12; i++)
		expect_symbol(m, 0x7f0000000000 + i * 0x1000, NULL);
	expect_symbol(m, 0xffffffffffffff01, NULL);
	expect_symbol(m, 0x7f000000c000, "\xc3\xa9t\xc3\xa9");
	expect_symbol(m, 0x7f000000d000, NULL);
	assert_true(uw_module_has_symbols(m));
	uw_module_unref(m);
}

static enum frame_kind kind_at(const struct uw_module *m, uint64_t at, const char *name)
{
	struct uw_symbol s;

	assert_true(uw_module_symbol(m, at, &s));
	assert_string_equal(s.name, name);
	return s.kind;
}

static void test_kinds(void **state)
{
	static const char text[] =
		"1000 10 py::f:/a.py\n2000 10 JS:*f /a.js:1:2\n3000 10 LazyCompile:~g\n"
		"4000 10 Builtin:ArrayMap\n5000 10 py::\n6000 10 \001hidden\n"
		"7000 10 Main.run\n";
	struct uw_module *m = jit_module_of("/tmp/perf-1.map", text, sizeof(text) - 1);

	(void)state;
	assert_int_equal(kind_at(m, 0x1000, "py::f:/a.py"), FRAME_PYTHON);
	assert_int_equal(kind_at(m, 0x2000, "JS:*f /a.js:1:2"), FRAME_JS);
	assert_int_equal(kind_at(m, 0x3000, "LazyCompile:~g"), FRAME_JS);
	assert_int_equal(kind_at(m, 0x4000, "Builtin:ArrayMap"), FRAME_NATIVE);
	assert_int_equal(kind_at(m, 0x5000, "py::"), FRAME_NATIVE);
	expect_symbol(m, 0x6000, NULL); /* no name begins as the mark of a kind */
	assert_int_equal(kind_at(m, 0x7000, "Main.run"), FRAME_NATIVE);
	uw_module_unref(m);
}

static void test_overlaps(void **state)
{
	static const char text[] = "1000 100 interpreted\n2000 100 kept\n1000 100 optimised\n2fff "
				   "1 z\n1080 10 patched\n";
	struct uw_module *m = jit_module_of("/tmp/perf-1.map", text, sizeof(text) - 1);

	(void)state;
	expect_symbol(m, 0x1000, NULL); /* the later entry lies inside: what was around is stale */
	expect_symbol(m, 0x1085, "patched");
	expect_symbol(m, 0x2000, "kept");
	uw_module_unref(m);
}

static void test_grows(void **state)
{
	struct uw_source source = {.fd = memfd_of("1000 10 a\n", 10)};
	struct uw_module *m;

	(void)state;
	assert_int_equal(uw_module_new(UW_MODULE_JIT, "/tmp/perf-1.map", NULL, &m), 0);
	assert_int_equal(uw_module_load_symbols(m, &source), 0);
	expect_symbol(m, 0x1000, "a");
	expect_symbol(m, 0x2000, NULL);
	assert_int_equal(write(source.fd, "2000 10 b\n", 10), 10);
	uw_module_drop_symbols(m);
	expect_symbol(m, 0x1000, NULL);
	assert_true(uw_module_want_symbols(m));
	assert_int_equal(uw_module_load_symbols(m, &source), 0);
	expect_symbol(m, 0x1000, "a");
	expect_symbol(m, 0x2000, "b");
	uw_module_unref(m);
	fd_close(source.fd);
}

static void test_bounds(void **state)
{
	static char text[5000] = "1000 10 ";
	struct uw_source pipe_end;
	struct uw_symbol s;
	struct uw_module *m;
	int fds[2];

	(void)state;
	memset(text + 8, 'n', 4000); /* cut at 1024 */
	strcat(text, "\n");
	m = jit_module_of("/tmp/perf-1.map", text, strlen(text));
	assert_true(uw_module_symbol(m, 0x1000, &s));
	assert_int_equal(strlen(s.name), 1024);
	uw_module_unref(m);
	m = jit_module_of("/tmp/perf-1.map", "", 0);
	expect_symbol(m, 0, NULL);
	uw_module_unref(m);
	m = jit_module_of("/tmp/perf-1.map", "1000 10 a\0b\n2000 10 c\n", 22); /* no text */
	expect_symbol(m, 0x1000, NULL);
	expect_symbol(m, 0x2000, "c");
	uw_module_unref(m);
	/* a FIFO in its place must not stop us */
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pipe_end = (struct uw_source){.fd = fds[0]};
	assert_int_equal(uw_module_new(UW_MODULE_JIT, "x", NULL, &m), 0);
	assert_int_equal(uw_module_load_symbols(m, &pipe_end), -EINVAL);
	uw_module_unref(m);
	fd_close(fds[0]);
	fd_close(fds[1]);
}

/* Of a map beyond 64 MiB the end is read, where the new code stands. */
static void test_long(void **state)
{
	struct uw_source source = {.fd = memfd_of("1000 10 at_the_start\n", 21)};
	struct uw_module *m;

	(void)state;
	assert_int_equal(ftruncate(source.fd, 70 << 20), 0);
	assert_int_equal(lseek(source.fd, 0, SEEK_END), 70 << 20);
	assert_int_equal(write(source.fd, "\n2000 10 at_the_end\n", 20), 20);
	assert_int_equal(uw_module_new(UW_MODULE_JIT, "x", NULL, &m), 0);
	assert_int_equal(uw_module_load_symbols(m, &source), 0);
	expect_symbol(m, 0x1000, NULL);
	expect_symbol(m, 0x2000, "at_the_end");
	uw_module_unref(m);
	fd_close(source.fd);
}

/* The text alone, without a module; and the kind of code that a name shows. */
static void test_text(void **state)
{
	static const char text[] = "1000 10 f\n1008 20 py::g:g.py\n";
	int fd = memfd_of(text, sizeof(text) - 1);
	struct uw_symbols *s;
	struct uw_symbol found;

	(void)state;
	assert_int_equal(uw_symbols_of_perf_map(fd, &s), 0);
	fd_close(fd);
	assert_false(uw_symbols_find(s, 0x1000, &found)); /* its memory was used again */
	assert_true(uw_symbols_find(s, 0x1008, &found));
	assert_string_equal(found.name, "py::g:g.py");
	assert_int_equal(found.kind, FRAME_PYTHON);
	uw_symbols_free(s);
	assert_int_equal(jit_kind_of_name("JS:*f a.js:1", 12), FRAME_JS);
	assert_int_equal(jit_kind_of_name("LazyCompile:~f", 14), FRAME_JS);
	assert_int_equal(jit_kind_of_name("JS", 2), FRAME_NATIVE);
	assert_int_equal(jit_kind_of_name("py:::", 4), FRAME_NATIVE); /* of these bytes alone */
	assert_int_equal(jit_kind_of_name("main", 4), FRAME_NATIVE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines), cmocka_unit_test(test_overlaps),
		cmocka_unit_test(test_grows), cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_long),  cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
