/* test-kallsyms.c - the kernel's names: which lines count, nearest lower within 1 MiB, what comes
 * and goes. */
#include "tests/unit/unwinder/unwinder-fixture.h"

#include "symbols/kallsyms.h"

static struct uw_kallsyms *parse(const char *text)
{
	struct uw_kallsyms *ks = NULL;
	int fd = memfd_of(text, strlen(text));

	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(uw_kallsyms_new(fd, &ks), 0);
	fd_close(fd);
	return ks;
}

static void expect(const struct uw_kallsyms *ks, uint64_t address, const char *name, uint64_t start)
{
	uint64_t found = 1;
	const char *s = uw_kallsyms_name(ks, address, &found);

	if (!name) {
		assert_null(s);
		return;
	}
	assert_non_null(s);
	assert_string_equal(s, name);
	assert_int_equal(found, start);
}

static void test_lines(void **state)
{
	struct uw_kallsyms *ks = parse("0000000000000000 A fixed_percpu_data\n"
				       "ffffffff81000000 T _stext\n"
				       "ffffffff81000100 t local_one\n"
				       "ffffffff81000200 D data\n"
				       "ffffffff81000300 W weak_one\n"
				       "ffffffff81000400 w weak_two\n"
				       "ffffffff81000500 T $x\n"
				       "ffffffff81000600 T checked.cfi\n"
				       "ffffffff81000700 T checked.cfi_jt\n"
				       "ffffffff81000800 T .cfi\n"
				       "junk\n"
				       "ffffffff81000900\n"
				       "ffffffff81000a00 T \n"
				       "\n"
				       "ffffffffc0000000 t in_module\t[some_module]\n"
				       "ffffffffc0000100 T last_without_newline");

	(void)state;
	expect(ks, 0xffffffff80ffffff, NULL, 0);
	expect(ks, 0xffffffff81000000, "_stext", 0xffffffff81000000);
	expect(ks, 0xffffffff810000ff, "_stext", 0xffffffff81000000);
	expect(ks, 0xffffffff81000100, "local_one", 0xffffffff81000100);
	expect(ks, 0xffffffff81000250, "local_one", 0xffffffff81000100); /* data is not text */
	expect(ks, 0xffffffff81000300, "weak_one", 0xffffffff81000300);
	expect(ks, 0xffffffff81000580, "weak_two", 0xffffffff81000400);
	expect(ks, 0xffffffff81000600, "checked", 0xffffffff81000600);
	expect(ks, 0xffffffff81000700, "checked", 0xffffffff81000700);
	expect(ks, 0xffffffff81000a10, ".cfi",
	       0xffffffff81000800); /* nothing would be left of it */
	expect(ks, 0xffffffffc0000010, "in_module", 0xffffffffc0000000);
	expect(ks, 0xffffffffc0000100, "last_without_newline", 0xffffffffc0000100);
	uw_kallsyms_free(ks);
}

static void test_distance(void **state)
{
	struct uw_kallsyms *ks = parse("ffffffff81000000 T alone\n");

	(void)state;
	expect(ks, 0xffffffff81000000 + 0x100000, "alone", 0xffffffff81000000);
	expect(ks, 0xffffffff81000000 + 0x100001, NULL, 0);
	expect(ks, 0, NULL, 0);
	expect(ks, UINT64_MAX, NULL, 0);
	uw_kallsyms_free(ks);
}

static void test_order_and_aliases(void **state)
{
	struct uw_kallsyms *ks = parse("ffffffff81000200 T c\n"
				       "ffffffff81000000 t a_local\n"
				       "ffffffff81000000 T a_global\n"
				       "ffffffff81000000 T a_second\n"
				       "ffffffff81000100 t b_first\n"
				       "ffffffff81000100 t b_second\n");

	(void)state;
	expect(ks, 0xffffffff81000001, "a_global", 0xffffffff81000000);
	expect(ks, 0xffffffff81000101, "b_first", 0xffffffff81000100);
	expect(ks, 0xffffffff81000201, "c", 0xffffffff81000200);
	uw_kallsyms_free(ks);
}

static int parse_result(const char *text)
{
	struct uw_kallsyms *ks = (struct uw_kallsyms *)8;
	int fd = memfd_of(text, strlen(text)), r;

	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	r = uw_kallsyms_new(fd, &ks);
	assert_null(ks);
	fd_close(fd);
	return r;
}

static void test_hidden(void **state)
{
	struct uw_kallsyms *ks;

	(void)state;
	assert_int_equal(parse_result("0000000000000000 T _stext\n0000000000000000 t x\n"),
			 UW_KALLSYMS_HIDDEN);
	assert_int_equal(parse_result(""), UW_KALLSYMS_HIDDEN);
	assert_int_equal(parse_result("no such\nlines here\n"), UW_KALLSYMS_HIDDEN);
	assert_int_equal(uw_kallsyms_new(-1, &ks), -EBADF);
}

/* What does not ascend is sorted in: modules in any order, before and behind each other. */
static void test_modules_order(void **state)
{
	struct uw_kallsyms *ks = parse("ffffffff81000000 T k0\n"
				       "ffffffff81000100 T k1\n"
				       "ffffffff81000300 T k3\n"
				       "ffffffffc0000200 t m2\t[m]\n"
				       "ffffffffc0000000 t m0\t[m]\n"
				       "ffffffffc0000100 t m1\t[m]\n"
				       "ffffffff81000200 t k2\n"
				       "ffffffff80fff000 t first\n");

	(void)state;
	expect(ks, 0xffffffff80fff001, "first", 0xffffffff80fff000);
	expect(ks, 0xffffffff81000001, "k0", 0xffffffff81000000);
	expect(ks, 0xffffffff81000101, "k1", 0xffffffff81000100);
	expect(ks, 0xffffffff81000201, "k2", 0xffffffff81000200);
	expect(ks, 0xffffffff81000301, "k3", 0xffffffff81000300);
	expect(ks, 0xffffffffc0000001, "m0", 0xffffffffc0000000);
	expect(ks, 0xffffffffc0000101, "m1", 0xffffffffc0000100);
	expect(ks, 0xffffffffc0000201, "m2", 0xffffffffc0000200);
	uw_kallsyms_free(ks);
}

static int parse_moved(const char *text, uint64_t to, struct uw_kallsyms **ret)
{
	int fd = memfd_of(text, strlen(text)), r;

	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	r = uw_kallsyms_new_moved(fd, to, ret);
	fd_close(fd);
	return r;
}

/* Another run of the same kernel: all is as far from _text as it was, and modules are unknown. */
static void test_moved(void **state)
{
	static const char text[] = "ffffffff81000000 T _text\n"
				   "ffffffff81000200 t two\n"
				   "ffffffff81000300 D data\n"
				   "ffffffff81000400 T four\n"
				   "ffffffffc0000000 t in_module\t[some_module]\n";
	struct uw_kallsyms *ks = NULL;

	(void)state;
	assert_int_equal(parse_moved(text, 0xffffffff9a000000, &ks), 0);
	expect(ks, 0xffffffff9a000000, "_text", 0xffffffff9a000000);
	expect(ks, 0xffffffff9a000210, "two", 0xffffffff9a000200);
	expect(ks, 0xffffffff9a000410, "four", 0xffffffff9a000400);
	expect(ks, 0xffffffff81000210, NULL, 0);
	expect(ks, 0xffffffffc0000000, NULL, 0);
	assert_true(uw_kallsyms_spans(ks, 0xffffffff9a000000));
	assert_true(uw_kallsyms_spans(ks, 0xffffffff9a000400));
	assert_false(uw_kallsyms_spans(ks, 0xffffffff9a000401));
	assert_false(uw_kallsyms_spans(ks, 0xffffffff99ffffff));
	uw_kallsyms_free(ks);
	ks = NULL;
	assert_int_equal(parse_moved("ffffffff81000200 t two\n", 0xffffffff9a000000, &ks),
			 UW_KALLSYMS_HIDDEN);
	assert_int_equal(parse_moved("0000000000000000 T _text\n", 0xffffffff9a000000, &ks),
			 UW_KALLSYMS_HIDDEN);
	/* beyond the last address */
	assert_int_equal(parse_moved(text, UINT64_MAX - 0x100, &ks), UW_KALLSYMS_HIDDEN);
	assert_null(ks);
	assert_int_equal(uw_kallsyms_new_moved(-1, 1, &ks), -EBADF);
}

/* A kernel's worth of symbols, from @seed: aliases, local ones, data; then what modules have. */
static char *many_symbols(uint64_t base, unsigned seed)
{
	enum { MANY = 4000, LINE = 64 };
	char *text = calloc(MANY + 208, LINE);
	int n;

	assert_non_null(text);
	n = sprintf(text, "0000000000000000 A percpu\n%016lx T _stext\n%016lx T _text\n", base,
		    base);
	for (unsigned i = 0; i < MANY; i++) {
		seed = seed * 1103515245 + 12345;
		base += (seed >> 16 & 3) * 16; /* 0: one more name of the same place */
		n += sprintf(text + n, "%016lx %c f%u_%.*s\n", base, "TtWd"[seed >> 20 & 3], i,
			     (int)(seed >> 24 & 15), "xxxxxxxxxxxxxxx");
	}
	(void)sprintf(text + n, "%016lx t in_module\t[m]\n%016lx t bpf\t[bpf]\n", base + 0x100,
		      base - 0x1000);
	return text;
}

/* A copy is read in parts, which makes no difference. */
static void test_moved_parts(void **state)
{
	const uint64_t base = 0xffffffff81000000, to = 0xffffffffa0000000;

	(void)state;
	for (unsigned seed = 1; seed <= 20; seed++) {
		char *text = many_symbols(base, seed);
		struct uw_kallsyms *ks = NULL, *whole;

		assert_int_equal(parse_moved(text, to, &ks), 0);
		*strstr(text, "\t[m]") = 0; /* the same without the line and what follows */
		*(strrchr(text, '\n') + 1) = 0;
		whole = parse(text);
		for (uint64_t at = base - 32; at < base + 4000 * 48; at += 8) {
			uint64_t start = 0;
			const char *name = uw_kallsyms_name(whole, at, &start);

			expect(ks, at - base + to, name, start - base + to);
			assert_int_equal(uw_kallsyms_spans(ks, at - base + to),
					 uw_kallsyms_spans(whole, at));
		}
		uw_kallsyms_remove(ks, to);
		expect(ks, to + 1, NULL, 0);
		uw_kallsyms_free(ks);
		uw_kallsyms_free(whole);
		free(text);
	}
}

/* What does not ascend is sorted, as a whole. */
static void test_moved_disorder(void **state)
{
	char *text = many_symbols(0xffffffff81000000, 1), *end = strstr(text, "\t[m]");
	struct uw_kallsyms *ks = NULL;

	(void)state;
	while (*end != '\n')
		end--;
	for (unsigned i = 0; i < 200; i++) /* below all others */
		end += sprintf(end, "\nffffffff80%06x T low_%u", i * 16, i);
	(void)sprintf(end, "\n");
	assert_int_equal(parse_moved(text, 0xffffffff81000000, &ks), 0);
	expect(ks, 0xffffffff80000011, "low_1", 0xffffffff80000010);
	expect(ks, 0xffffffff81000000, "_stext", 0xffffffff81000000);
	uw_kallsyms_free(ks);
	free(text);
}

static void test_long_lines(void **state)
{
	static char text[600 << 10];
	struct uw_kallsyms *ks;
	uint64_t start;
	int n = sprintf(text, "ffffffff81000000 T ");

	(void)state;
	memset(text + n, 'n', 1000); /* cut at 511 */
	strcpy(text + n + 1000, "\nffffffff81000100 T x");
	memset(text + strlen(text), 'y',
	       500 << 10); /* longer than what is read at once: left out */
	strcat(text, "\nffffffff81000200 T z\n");
	ks = parse(text);
	assert_int_equal(strlen(uw_kallsyms_name(ks, 0xffffffff81000000, &start)), 511);
	expect(ks, 0xffffffff81000200, "z", 0xffffffff81000200);
	uw_kallsyms_free(ks);
}

static void test_overlay(void **state)
{
	struct uw_kallsyms *ks =
		parse("ffffffff81000000 T text\nffffffffc0000000 t bpf_prog_old\t[bpf]\n");

	(void)state;
	assert_int_equal(uw_kallsyms_add(ks, 0xffffffffc0001000, 0x100, "bpf_prog_a"), 0);
	expect(ks, 0xffffffffc0001000, "bpf_prog_a", 0xffffffffc0001000);
	expect(ks, 0xffffffffc00010ff, "bpf_prog_a", 0xffffffffc0001000);
	expect(ks, 0xffffffffc0001100, "bpf_prog_old", 0xffffffffc0000000);
	/* over the tail of a, then over all */
	assert_int_equal(uw_kallsyms_add(ks, 0xffffffffc0001080, 0x100, "bpf_prog_b"), 0);
	expect(ks, 0xffffffffc0001010, "bpf_prog_old", 0xffffffffc0000000);
	expect(ks, 0xffffffffc0001090, "bpf_prog_b", 0xffffffffc0001080);
	assert_int_equal(uw_kallsyms_add(ks, 0xffffffffc0001000, 0x1000, "bpf_prog_c"), 0);
	expect(ks, 0xffffffffc0001090, "bpf_prog_c", 0xffffffffc0001000);
	uw_kallsyms_remove(ks, 0xffffffffc0001000);
	expect(ks, 0xffffffffc0001090, "bpf_prog_old", 0xffffffffc0000000);
	/* one that was there at the start goes too; nothing stands in for it */
	uw_kallsyms_remove(ks, 0xffffffffc0000000);
	expect(ks, 0xffffffffc0000010, NULL, 0);
	uw_kallsyms_remove(ks, 0xffffffffc0000001); /* none begins there */
	expect(ks, 0xffffffff81000010, "text", 0xffffffff81000000);
	assert_int_equal(uw_kallsyms_add(ks, UINT64_MAX - 4, UINT32_MAX, "edge"), 0);
	expect(ks, UINT64_MAX, "edge", UINT64_MAX - 4);
	assert_int_equal(uw_kallsyms_add(ks, 0xffffffffc0009000, 0, "of_no_length"), 0);
	expect(ks, 0xffffffffc0009000, "of_no_length", 0xffffffffc0009000);
	assert_int_equal(uw_kallsyms_add(ks, 0, 10, "zero"), 0);
	assert_int_equal(uw_kallsyms_add(ks, 10, 10, ""), 0);
	expect(ks, 12, NULL, 0);
	uw_kallsyms_free(ks);
}

static void test_overlay_bound(void **state)
{
	struct uw_kallsyms *ks = parse("ffffffff81000000 T text\n");

	(void)state;
	for (uint64_t i = 0; i < 70000; i++)
		assert_int_equal(uw_kallsyms_add(ks, 0xffffffffc0000000 + i * 16, 16, "p"), 0);
	expect(ks, 0xffffffffc0000000 + 65535 * 16, "p", 0xffffffffc0000000 + 65535 * 16);
	expect(ks, 0xffffffffc0000000 + 65536 * 16, NULL, 0);
	uw_kallsyms_free(ks);
}

/* Ours, where it can be read: each text symbol that is alone at its address is found again. */
static void test_real(void **state)
{
	int fd = open_or_die("/proc/kallsyms");
	_cleanup_(file_closep) FILE *text = fopen("/proc/kallsyms", "re");
	struct uw_kallsyms *ks;
	char line[1024], name[512], type;
	unsigned n = 0, same = 0;
	uint64_t address, start;
	int r = uw_kallsyms_new(fd, &ks);

	(void)state;
	fd_close(fd);
	if (r == UW_KALLSYMS_HIDDEN) {
		print_message("skipped: addresses are hidden here\n");
		return;
	}
	assert_int_equal(r, 0);
	while (fgets(line, sizeof(line), text)) {
		const char *found;

		if (sscanf(line, "%lx %c %511s", &address, &type, name) != 3 ||
		    !strchr("Tt", type) || name[0] == '$')
			continue;
		found = uw_kallsyms_name(ks, address, &start);
		assert_non_null(found);
		assert_int_equal(start, address);
		n++;
		same += !strcmp(found, name);
	}
	assert_true(n > 10000);
	assert_true(same * 10 >= n * 9); /* the rest are aliases */
	uw_kallsyms_free(ks);
}

/* Sixteen digits, or fewer; the ASCII neighbours of the digits are none. */
static void test_digits(void **state)
{
	static const char *const wrong[] = {"/", ":", "@",    "A",    "F", "`",
					    "g", "G", "\xb0", "\xe1", " "};
	struct uw_kallsyms *ks = parse("0123456789abcdef T all_digits\n"
				       "fedcba9876543210 T and_back\n"
				       "12345678 T eight\n"
				       "abc T three\n"
				       "00123456789abcdef T seventeen\n");

	(void)state;
	expect(ks, 0x0123456789abcdef, "all_digits", 0x0123456789abcdef);
	expect(ks, 0xfedcba9876543210, "and_back", 0xfedcba9876543210);
	expect(ks, 0x12345678, "eight", 0x12345678);
	expect(ks, 0xabc, "three", 0xabc);
	expect(ks, 0xabb, NULL, 0);
	expect(ks, 0x0123456789abcdee, NULL, 0);
	uw_kallsyms_free(ks);
	for (size_t i = 0; i < ARRAY_SIZE(wrong) * 16; i++) {
		char text[] = "ffffffff81000000 T wrong\n1000 T right\n";

		text[i % 16] = wrong[i / 16][0];
		ks = parse(text);
		expect(ks, 0xffffffff81000000, NULL, 0);
		expect(ks, 0x1000, "right", 0x1000);
		uw_kallsyms_free(ks);
	}
}

/* Text of the kernel's own: not of modules, nor behind its last symbol, where BPF programs and trampolines are. */
static void test_core(void **state)
{
	struct uw_kallsyms *ks = parse("ffffffff81000000 T _stext\n"
				       "ffffffff81000100 T middle\n"
				       "ffffffff81000200 T last\n"
				       "ffffffffc0000000 t in_module\t[some_module]\n");

	(void)state;
	assert_true(uw_kallsyms_in_core(ks, 0xffffffff81000000));
	assert_true(uw_kallsyms_in_core(ks, 0xffffffff810001ff));
	assert_false(uw_kallsyms_in_core(ks, 0xffffffff80ffffff));
	assert_false(uw_kallsyms_in_core(ks, 0xffffffff81000200));
	assert_false(uw_kallsyms_in_core(ks, 0xffffffffc0000010));
	(void)uw_kallsyms_free(ks);
}

/* Without a copy of /proc/kallsyms: only what comes. */
static void test_empty(void **state)
{
	struct uw_kallsyms *ks;

	(void)state;
	assert_int_equal(uw_kallsyms_new_empty(&ks), 0);
	expect(ks, 0xffffffffc0000010, NULL, 0);
	assert_false(uw_kallsyms_in_core(ks, 0xffffffffc0000010));
	assert_int_equal(uw_kallsyms_add(ks, 0xffffffffc0000000, 0x40, "bpf_prog_1"), 0);
	expect(ks, 0xffffffffc0000010, "bpf_prog_1", 0xffffffffc0000000);
	expect(ks, 0xffffffffc0000040, NULL, 0);
	(void)uw_kallsyms_free(ks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),	      cmocka_unit_test(test_digits),
		cmocka_unit_test(test_distance),      cmocka_unit_test(test_order_and_aliases),
		cmocka_unit_test(test_modules_order), cmocka_unit_test(test_moved),
		cmocka_unit_test(test_moved_parts),   cmocka_unit_test(test_moved_disorder),
		cmocka_unit_test(test_hidden),	      cmocka_unit_test(test_long_lines),
		cmocka_unit_test(test_overlay),	      cmocka_unit_test(test_overlay_bound),
		cmocka_unit_test(test_real),	      cmocka_unit_test(test_core),
		cmocka_unit_test(test_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
