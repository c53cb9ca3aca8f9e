/* test-lines.c - inlined calls and lines; the judge is the source below, then addr2line -i. */
#include "tests/unit/unwinder/unwinder-fixture.h"

#include "symbols/elf.h"
#include "symbols/lines.h"

/* Line numbers count: leaf's body is line 3, middle's call line 7, outer's line 11. */
static const char program[] =
	"volatile int sink;\n"
	"static inline __attribute__((always_inline)) void leaf(int x) {\n"
	"	sink = x * 7;\n"
	"}\n"
	"\n"
	"static inline __attribute__((always_inline)) void middle(int x) {\n"
	"	leaf(x + 1);\n"
	"}\n"
	"\n"
	"__attribute__((noinline)) void outer(int x) {\n"
	"	middle(x);\n"
	"}\n"
	"namespace space { struct S { static __attribute__((noinline)) void method(int x) { sink = "
	"x; } }; }\n"
	"namespace space { namespace { struct T { static inline __attribute__((always_inline)) "
	"void hidden(int x) { sink = x; } }; }\n"
	"__attribute__((noinline)) void shows(int x) {\n"
	"	T::hidden(x);\n"
	"	[](int y) __attribute__((always_inline)) { sink = y + 1; }(x);\n"
	"} }\n"
	"int main(int n, char **) { outer(n); space::S::method(n); space::shows(n); return 0; }\n";

struct found {
	unsigned n;
	struct {
		char function[64], file[PATH_MAX];
		uint32_t line;
	} calls[16];
};

static void collect(void *arg, const struct uw_line *line)
{
	struct found *f = arg;

	if (f->n == ARRAY_SIZE(f->calls))
		return;
	(void)snprintf(f->calls[f->n].function, 64, "%s", line->function);
	(void)snprintf(f->calls[f->n].file, PATH_MAX, "%s", line->file ? line->file : "");
	f->calls[f->n++].line = line->line;
}

static bool make_program(const char *compiler, const char *flags)
{
	char path[128];

	if (!have(compiler) || !have("nm") || !have("objcopy"))
		return false;
	(void)snprintf(path, sizeof(path), "%s/a.cc", fixture_dir);
	file_write(path, program, sizeof(program) - 1);
	return shell("cd %s && %s -x c++ -O1 -g %s -Wl,--build-id=sha1 -o a a.cc -x none && nm -S "
		     "a >names",
		     fixture_dir, compiler, flags);
}

static struct uw_module *open_module(const char *name, struct uw_source *source)
{
	struct uw_module *m;
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", fixture_dir, name);
	*source = (struct uw_source){.fd = open_or_die(path)};
	assert_int_equal(uw_module_new(UW_MODULE_FILE, path, NULL, &m), 0);
	return m;
}

static void close_module(struct uw_module *m, struct uw_source *source)
{
	uw_module_unref(m);
	fd_close(source->fd);
}

static void range_of(const char *name, uint64_t *start, uint64_t *size)
{
	_cleanup_(file_closep) FILE *f = NULL;
	char path[128], line[512], found[256], type;

	(void)snprintf(path, sizeof(path), "%s/names", fixture_dir);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx %lx %c %255s", start, size, &type, found) == 4 &&
		    !strcmp(found, name))
			return;
	fail_msg("nm does not know %s", name);
}

/* Somewhere in outer() stands all of leaf() in middle() in outer(). */
static void check_chain(struct uw_module *m, struct uw_source *source)
{
	uint64_t start, size;
	bool seen = false;
	char file[128];

	(void)snprintf(file, sizeof(file), "%s/a.cc", fixture_dir);
	range_of("_Z5outeri", &start, &size);
	for (uint64_t a = start; a < start + size; a++) {
		struct found f = {0};
		int n = uw_module_lines(m, source, a, collect, &f);

		assert_int_equal(n, f.n);
		assert_true(n >= 1);
		assert_string_equal(f.calls[n - 1].function, "outer(int)");
		assert_string_equal(f.calls[n - 1].file, file);
		if (n != 3)
			continue;
		seen = true;
		/* gcc gives no linkage name to what was inlined everywhere */
		assert_string_equal(f.calls[0].function, "leaf(int)");
		assert_string_equal(f.calls[1].function, "middle(int)");
		assert_in_range(f.calls[0].line, 2, 4);
		assert_int_equal(f.calls[1].line, 7);
		assert_int_equal(f.calls[2].line, 11);
	}
	assert_true(seen);
}

/* Inlined calls that have no linkage name: the scopes are part of the name. */
static void check_scopes(struct uw_module *m, struct uw_source *source, const char *lambda)
{
	const char *const wanted[] = {"space::(anonymous namespace)::T::hidden(int)", lambda};
	bool seen[ARRAY_SIZE(wanted)] = {false};
	uint64_t start, size;

	range_of("_ZN5space5showsEi", &start, &size);
	for (uint64_t a = start; a < start + size; a++) {
		struct found f = {0};

		if (uw_module_lines(m, source, a, collect, &f) == 2)
			for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
				seen[i] |= !strcmp(f.calls[0].function, wanted[i]);
	}
	assert_true(seen[0] && seen[1]);
}

static void test_chain(void **state)
{
	static const char *const flags[] = {"-gdwarf-5", "-gdwarf-4", "-gdwarf-5 -gz=zlib",
					    "-gdwarf-4 -gno-column-info"};
	struct uw_source source;
	struct uw_module *m;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		if (!make_program("gcc", flags[i]))
			return;
		m = open_module("a", &source);
		check_chain(m, &source);
		check_scopes(m, &source,
			     "space::shows(int)::{lambda(int)#1}::operator()(int) const");
		assert_true(uw_module_bytes(m) > 500);
		uw_module_drop_lines(m);
		assert_int_equal(uw_module_bytes(m), 0);
		check_chain(m, &source);
		close_module(m, &source);
	}
}

static void test_without_aranges(void **state)
{
	struct uw_source source;
	struct uw_module *m;

	(void)state;
	if (!make_program("gcc", "") ||
	    !shell("cd %s && objcopy -R .debug_aranges a b", fixture_dir))
		return;
	m = open_module("b", &source);
	check_chain(m, &source);
	close_module(m, &source);
	if (!make_program("clang", "")) /* writes none, and puts methods into their classes */
		return;
	m = open_module("a", &source);
	check_chain(m, &source);
	/* clang numbers the lambdas of a unit that are not exported */
	check_scopes(m, &source, "space::shows(int)::$_0::operator()(int) const");
	close_module(m, &source);
}

/* As `perf inject --jit` writes code of a JIT compiler: a unit that has nothing but a line table. */
static void test_no_functions(void **state)
{
	static const char code[] =
		".text\n.globl jitted\n.type jitted, @function\n"
		".file 1 \"third.src\"\njitted:\n.loc 1 7\n.rept 16; nop; .endr\n"
		".loc 1 9\n.rept 16; nop; .endr\n.size jitted, . - jitted\n"
		"nameless:\n.loc 1 11\n.rept 16; nop; .endr\n"
		".section .debug_abbrev\n.byte 1, 0x11, 1, 0x10, 6, 0, 0, 0\n"
		".section .debug_info\n.4byte 12\n.2byte 2\n.4byte 0\n"
		".byte 8, 1\n.4byte 0\n";
	struct uw_source source;
	struct uw_module *m;
	uint64_t start, size;
	char path[128];

	(void)state;
	if (!have("gcc") || !have("nm"))
		return;
	(void)snprintf(path, sizeof(path), "%s/j.s", fixture_dir);
	file_write(path, code, sizeof(code) - 1);
	assert_true(shell("cd %s && gcc -shared -nostdlib -Wl,--build-id=sha1 -o j j.s && nm -S j "
			  ">names",
			  fixture_dir));
	m = open_module("j", &source);
	range_of("jitted", &start, &size);
	assert_int_equal(size, 32);
	for (uint64_t a = start; a < start + size; a++) {
		struct found f = {0};

		assert_int_equal(uw_module_lines(m, &source, a, collect, &f), 1);
		assert_string_equal(f.calls[0].function, "jitted");
		assert_string_equal(f.calls[0].file, "third.src");
		assert_int_equal(f.calls[0].line, a < start + 16 ? 7 : 9);
	}
	for (uint64_t a = start + size; a < start + size + 32; a++) {
		struct found f = {0};

		assert_int_equal(uw_module_lines(m, &source, a, collect, &f), 0);
	}
	close_module(m, &source);
}

static void test_method(void **state)
{
	struct uw_source source;
	struct uw_module *m;
	struct found f = {0};
	uint64_t start, size;

	(void)state;
	if (!make_program("gcc", ""))
		return;
	m = open_module("a", &source);
	range_of("_ZN5space1S6methodEi", &start, &size);
	assert_int_equal(uw_module_lines(m, &source, start, collect, &f), 1);
	assert_string_equal(f.calls[0].function, "space::S::method(int)");
	assert_int_equal(f.calls[0].line, 13);
	f.n = 0;
	assert_int_equal(uw_module_lines(m, &source, 0, collect, &f), 0);
	assert_int_equal(uw_module_lines(m, &source, UINT64_MAX, collect, &f), 0);
	assert_int_equal(f.n, 0);
	close_module(m, &source);
}

static int by_id(struct uw_source *source, const char *path)
{
	char at[256];

	(void)source;
	if (strncmp(path, "/usr/lib/debug/.build-id/", 25) != 0)
		return -ENOENT;
	(void)snprintf(at, sizeof(at), "%s/a.debug", fixture_dir);
	return open(at, O_RDONLY | O_CLOEXEC);
}

/* gas writes a subprogram for each name of a function: no call between them. */
static void test_aliases(void **state)
{
	static const char text[] =
		"\t.section .note.GNU-stack,\"\"\n\t.text\n\t.globl one\n\t.type one, @function\n"
		"\t.globl two\n\t.type two, @function\n"
		"one:\ntwo:\n\tnop\n\tnop\n\tret\n"
		"\t.size one, . - one\n\t.size two, . - two\n"
		"\t.globl main\n\t.type main, @function\n"
		"main:\n\tcall one\n\tret\n\t.size main, . - main\n";
	struct uw_source source;
	struct uw_module *m;
	uint64_t start, size;
	char path[128];

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/aliases.s", fixture_dir);
	file_write(path, text, sizeof(text) - 1);
	if (!have("gcc") || !have("nm") ||
	    !shell("cd %s && gcc -g -no-pie -o aliases aliases.s && nm -S aliases >names",
		   fixture_dir))
		skip();
	m = open_module("aliases", &source);
	range_of("one", &start, &size);
	for (uint64_t at = start; at < start + size; at++) { /* the second one by the flat ranges */
		struct found f = {0};

		assert_int_equal(uw_module_lines(m, &source, at, collect, &f), 1);
		assert_int_equal(f.n, 1);
		assert_int_not_equal(f.calls[0].line, 0);
	}
	close_module(m, &source);
}

static void test_separate_file(void **state)
{
	struct uw_source source;
	struct uw_module *m;
	struct found f = {0};
	uint64_t start, size;

	(void)state;
	if (!make_program("gcc", "") ||
	    !shell("cd %s && objcopy --only-keep-debug a a.debug && strip -o bare a", fixture_dir))
		return;
	m = open_module("bare", &source);
	range_of("_Z5outeri", &start, &size);
	assert_int_equal(uw_module_lines(m, &source, start, collect, &f),
			 -ENODATA); /* and it stays so */
	source.open = by_id;
	assert_int_equal(uw_module_lines(m, &source, start, collect, &f), -ENODATA);
	uw_module_drop_lines(m);
	check_chain(m, &source);
	close_module(m, &source);
}

/* Ours, against addr2line. */
static void test_against_addr2line(void **state)
{
	_cleanup_(file_closep) FILE *f = NULL;
	struct uw_source source = {.fd = open_or_die("/proc/self/exe")};
	struct uw_module *m;
	char path[128], line[8192];
	uint64_t address = 0;
	unsigned n = 0, same = 0;
	struct found found = {0};

	(void)state;
	if (!have("addr2line") || !have("nm"))
		return;
	(void)snprintf(path, sizeof(path), "%s/lines", fixture_dir);
	assert_true(shell("nm -S /proc/%d/exe | awk '$4~/^uw_/{print $1}' >%s/list && "
			  "addr2line -a -i -f -C -e /proc/%d/exe <%s/list >%s",
			  (int)getpid(), fixture_dir, (int)getpid(), fixture_dir, path));
	assert_int_equal(uw_module_new(UW_MODULE_FILE, "/proc/self/exe", NULL, &m), 0);
	f = fopen(path, "re");
	/* "0xADDRESS", then pairs of function and file:line, innermost first */
	for (unsigned i = 0; fgets(line, sizeof(line), f); i++) {
		char *colon;

		line[strcspn(line, "\n")] = 0;
		if (!strncmp(line, "0x", 2)) {
			assert_int_equal(parse_u64(line + 2, 16, UINT64_MAX, &address), 0);
			found.n = 0;
			(void)uw_module_lines(m, &source, address, collect, &found);
			i = 0;
			continue;
		}
		if (i % 2 == 1 || i / 2 - 1 >= found.n) /* functions: names differ in their form */
			continue;
		colon = strrchr(line, ':');
		assert_non_null(colon);
		n++;
		same += strtoul(colon + 1, NULL, 10) == found.calls[i / 2 - 1].line;
	}
	assert_true(n > 30);
	assert_true(same * 100 >= n * 95);
	uw_module_unref(m);
	fd_close(source.fd);
}

static bool is_same(const struct found *a, const struct found *b)
{
	if (a->n != b->n)
		return false;
	for (unsigned i = 0; i < a->n; i++)
		if (a->calls[i].line != b->calls[i].line ||
		    strcmp(a->calls[i].function, b->calls[i].function) != 0 ||
		    strcmp(a->calls[i].file, b->calls[i].file) != 0)
			return false;
	return true;
}

/* What no unit has is one span, up to the first function. */
static void test_gap(struct uw_module *m, struct uw_source *source)
{
	struct found found = {0};
	struct uw_span span;

	assert_int_equal(uw_module_lines(m, source, 16, collect, &found), 0);
	assert_true(uw_module_lines_span(m, 16, &span));
	assert_true(!span.low && !span.function_high && span.high > 4096);
	assert_int_equal(uw_module_lines(m, source, span.high - 1, collect, &found), 0);
	assert_true(uw_module_lines(m, source, span.high, collect, &found) > 0);
}

/* Each address of functions of this program: all addresses of its span have its lines. */
static void test_spans(void **state)
{
	struct uw_source source = {.fd = open_or_die("/proc/self/exe")};
	struct uw_module *m;
	unsigned n = 0, n_longer = 0;
	_cleanup_(file_closep) FILE *f = NULL;
	char path[128];
	uint64_t start, size;

	(void)state;
	if (!have("nm"))
		return;
	(void)snprintf(path, sizeof(path), "%s/ours", fixture_dir);
	assert_true(shell("nm -S /proc/%d/exe | awk '$4~/^uw_(elf|lines|module)/{print $1,$2}' >%s",
			  (int)getpid(), path));
	assert_int_equal(uw_module_new(UW_MODULE_FILE, "/proc/self/exe", NULL, &m), 0);
	f = fopen(path, "re");
	assert_non_null(f);
	while (n < 4000 && fscanf(f, "%lx %lx", &start, &size) == 2) {
		struct found first = {0}, other;
		struct uw_span span = {0};

		for (uint64_t a = start; a < start + size; a++, n++) {
			struct found *to = a >= span.low && a < span.high ? &other : &first;

			to->n = 0;
			(void)uw_module_lines(m, &source, a, collect, to);
			if (to == &other) {
				assert_true(is_same(&first, &other));
				n_longer++;
				continue;
			}
			if (!uw_module_lines_span(m, a, &span)) {
				span.high = 0;
				continue;
			}
			assert_true(span.low <= a && a < span.high);
			assert_true(span.function_low <= a && a < span.function_high);
		}
	}
	assert_true(n_longer * 2 > n);
	test_gap(m, &source);
	uw_module_unref(m);
	fd_close(source.fd);
}

/* Each byte of the debug sections damaged, a few at a time. */
static void damage(const char *flags)
{
	struct uw_source source;
	struct uw_module *m;
	uint64_t start, size;
	struct stat st;
	unsigned seed = 1;

	if (!make_program("gcc", flags))
		return;
	range_of("_Z5outeri", &start, &size);
	for (unsigned i = 0; i < 150; i++) {
		struct found f = {0};
		char path[128];
		int fd;

		assert_true(shell("cd %s && cp a b", fixture_dir));
		(void)snprintf(path, sizeof(path), "%s/b", fixture_dir);
		fd = open(path, O_RDWR | O_CLOEXEC);
		assert_true(fd >= 0 && fstat(fd, &st) == 0);
		for (unsigned k = 0; k < 20; k++) { /* .debug_* stand behind 0x3000 */
			uint8_t byte = (uint8_t)rand_r(&seed);

			assert_int_equal(pwrite(fd, &byte, 1,
						0x3000 + rand_r(&seed) % (st.st_size - 0x3000)),
					 1);
		}
		fd_close(fd);
		m = open_module("b", &source);
		for (uint64_t a = start; a < start + size; a += 3)
			(void)uw_module_lines(m, &source, a, collect, &f);
		close_module(m, &source);
	}
}

static void test_damage(void **state)
{
	(void)state;
	damage("");
	damage("-gz=zlib");
}

/* String sections without their last NUL: libdw would read on (seen by the address sanitizer). */
static void test_strings_without_end(void **state)
{
	static const char *const names[] = {".debug_str", ".debug_line_str"};
	struct found f = {0};
	struct uw_source source;
	struct uw_module *m;
	uint64_t start, size;
	char path[128];

	(void)state;
	if (!make_program("gcc", "-gdwarf-5") || !shell("cd %s && cp a b", fixture_dir))
		return;
	(void)snprintf(path, sizeof(path), "%s/b", fixture_dir);
	range_of("_Z5outeri", &start, &size);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		int fd = open(path, O_RDWR | O_CLOEXEC);
		const Elf64_Shdr *shdr;
		struct uw_elf elf;

		assert_int_equal(uw_elf_open_fd(&elf, fd), 0);
		shdr = uw_elf_section(&elf, names[i]);
		assert_non_null(shdr);
		assert_int_equal(pwrite(fd, "xxx", 3, (off_t)(shdr->sh_offset + shdr->sh_size - 3)),
				 3);
		uw_elf_close(&elf);
		fd_close(fd);
	}
	m = open_module("b", &source);
	for (uint64_t a = start; a < start + size; a++)
		assert_true(uw_module_lines(m, &source, a, collect, &f) >= 0);
	close_module(m, &source);
}

static void test_truncated_while_open(void **state)
{
	struct uw_source source;
	struct uw_module *m;
	struct found f = {0};
	uint64_t start, size;

	(void)state;
	if (!make_program("gcc", "") || !shell("cd %s && cp a b", fixture_dir))
		return;
	range_of("_Z5outeri", &start, &size);
	m = open_module("b", &source);
	assert_true(uw_module_lines(m, &source, start, collect, &f) > 0);
	assert_true(shell("truncate -s 100 %s/b", fixture_dir));
	for (uint64_t a = start; a < start + size; a++)
		(void)uw_module_lines(m, &source, a, collect, &f); /* held in memory: no fault */
	close_module(m, &source);
	m = open_module("b", &source);
	assert_true(uw_module_lines(m, &source, start, collect, &f) < 0);
	close_module(m, &source);
}

/* libdw's side alone: the same calls as by the module, and where they hold. */
static void test_alone(void **state)
{
	uint64_t start, size, spanned = 0;
	struct uw_lines *lines;
	struct uw_source source;
	struct uw_span span;
	struct uw_module *m;
	struct uw_elf elf;

	(void)state;
	if (!make_program("gcc", ""))
		return;
	m = open_module("a", &source);
	assert_int_equal(uw_elf_open(&elf, &source), 0);
	assert_int_equal(uw_lines_new(&elf, uw_module_path(m), &source, &lines), 0);
	range_of("_Z5outeri", &start, &size);
	for (uint64_t a = start; a < start + size; a++) {
		struct found by_lines = {0}, by_module = {0};

		assert_int_equal(uw_lines_at(lines, a, collect, &by_lines),
				 uw_module_lines(m, &source, a, collect, &by_module));
		assert_memory_equal(&by_lines, &by_module, sizeof(by_lines));
		if (!uw_lines_span(lines, a, &span))
			continue;
		assert_true(span.low <= a && a < span.high);
		spanned++;
	}
	assert_int_equal(spanned, size);
	assert_true(uw_lines_bytes(lines) > 500);
	assert_null(uw_lines_free(lines));
	assert_null(uw_lines_free(NULL));
	uw_elf_close(&elf);
	close_module(m, &source);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chain),
		cmocka_unit_test(test_without_aranges),
		cmocka_unit_test(test_no_functions),
		cmocka_unit_test(test_method),
		cmocka_unit_test(test_aliases),
		cmocka_unit_test(test_separate_file),
		cmocka_unit_test(test_against_addr2line),
		cmocka_unit_test(test_spans),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_strings_without_end),
		cmocka_unit_test(test_truncated_while_open),
		cmocka_unit_test(test_alone),
	};

	return cmocka_run_group_tests(tests, fixture_dir_make, fixture_dir_remove);
}
