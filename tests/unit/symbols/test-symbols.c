/* test-symbols.c - which name an address gets, and from which table. */
#include "tests/unit/unwinder/unwinder-fixture.h"

#include <errno.h>

#include "base/bytes.h"
#include "symbols/jit-index.h"
#include "symbols/parts.h"
#include "symbols/symbols.h"

static struct uw_symbols *build(struct uw_symbols_builder *b)
{
	struct uw_symbols *symbols;

	assert_int_equal(uw_symbols_build(b, &symbols), 0);
	return symbols;
}

static void add(struct uw_symbols_builder *b, uint64_t start, uint64_t size, const char *name,
		int rank)
{
	assert_int_equal(uw_symbols_add(b, start, size, name, strlen(name), rank), 0);
}

static void expect(const struct uw_symbols *symbols, uint64_t at, const char *name, uint64_t start,
		   uint64_t size)
{
	struct uw_symbol s = {.name = "untouched"};

	if (!name) {
		if (uw_symbols_find(symbols, at, &s))
			fail_msg("%lx is %s", at, s.name);
		assert_string_equal(s.name, "untouched");
		return;
	}
	if (!uw_symbols_find(symbols, at, &s))
		fail_msg("%lx is nothing", at);
	assert_string_equal(s.name, name);
	assert_int_equal(s.start, start);
	assert_int_equal(s.size, size);
}

static struct uw_layout *layout_of(uint64_t first, uint64_t size)
{
	struct uw_layout *layout = calloc(1, sizeof(*layout) + 2 * sizeof(layout->segments[0]));

	layout->n_segments = 2;
	layout->segments[0] = (struct uw_segment){.vaddr = 0, .memsz = first, .filesz = first};
	layout->segments[1] =
		(struct uw_segment){.vaddr = first, .memsz = size, .filesz = size, .exec = true};
	return layout;
}

static void test_lookup(void **state)
{
	struct uw_layout *layout = layout_of(0x1000, 0x1000);
	struct uw_symbols_builder b = {.layout = layout};
	struct uw_symbols *s;

	(void)state;
	add(&b, 0x1100, 0x40, "sized", UW_RANK_GLOBAL | UW_RANK_FUNCTION);
	add(&b, 0x1200, 0, "open", UW_RANK_GLOBAL);
	add(&b, 0x1300, 0x10, "next", UW_RANK_LOCAL | UW_RANK_FUNCTION);
	add(&b, 0x1f00, 0, "last", UW_RANK_GLOBAL);
	add(&b, 0x0fff, 1, "data_before", UW_RANK_GLOBAL);
	add(&b, 0x2000, 1, "beyond", UW_RANK_GLOBAL);
	s = build(&b);
	expect(s, 0x10ff, NULL, 0, 0);
	expect(s, 0x1100, "sized", 0x1100, 0x40);
	expect(s, 0x113f, "sized", 0x1100, 0x40);
	expect(s, 0x1140, NULL, 0, 0);
	expect(s, 0x1200, "open", 0x1200, 0x100);
	expect(s, 0x12ff, "open", 0x1200, 0x100);
	expect(s, 0x1310, NULL, 0, 0); /* "open" ends where "next" begins */
	expect(s, 0x1fff, "last", 0x1f00, 0x100);
	expect(s, 0x2000, NULL, 0, 0); /* not past the segment */
	expect(s, 0x0fff, NULL, 0, 0);
	expect(s, 0, NULL, 0, 0);
	expect(s, UINT64_MAX, NULL, 0, 0);
	assert_true(uw_symbols_bytes(s) < 400);
	uw_symbols_free(s);
	free(layout);
}

static void test_preference(void **state)
{
	static const struct {
		const char *better, *worse;
		int better_rank, worse_rank;
		uint64_t better_size, worse_size;
	} pairs[] = {
		{"global", "weak", UW_RANK_GLOBAL, UW_RANK_WEAK, 8, 8},
		{"weak", "local", UW_RANK_WEAK, UW_RANK_LOCAL, 8, 8},
		{"local_function", "global_label", UW_RANK_LOCAL | UW_RANK_FUNCTION, UW_RANK_GLOBAL,
		 8, 8},
		{"local_sized", "global_unsized", UW_RANK_LOCAL, UW_RANK_GLOBAL, 8, 0},
		{"plain", "_plain", UW_RANK_GLOBAL, UW_RANK_GLOBAL, 8, 8},
		{"_one", "__one", UW_RANK_GLOBAL, UW_RANK_GLOBAL, 8, 8},
		{"weak", "__global", UW_RANK_WEAK, UW_RANK_GLOBAL, 8, 8},
		{"__global", "local", UW_RANK_GLOBAL, UW_RANK_LOCAL, 8, 8},
		{"malloc", "__GI___libc_malloc", UW_RANK_GLOBAL, UW_RANK_LOCAL, 8, 8},
		{"____strtol_internal", "__GI_strtol_internal", UW_RANK_LOCAL, UW_RANK_LOCAL, 8, 8},
		{"strtol", "strtoq", UW_RANK_WEAK, UW_RANK_WEAK, 8, 8},
		{"mmap", "mmap64", UW_RANK_WEAK, UW_RANK_WEAK, 8, 8},
		{"larger", "smaller", UW_RANK_GLOBAL, UW_RANK_GLOBAL, 9, 8},
		{"label", "call@plt", UW_RANK_LOCAL, UW_RANK_MADE_UP, 8, 16},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		for (unsigned order = 0; order < 2; order++) {
			struct uw_symbols_builder b = {0};
			struct uw_symbols *s;

			if (order)
				add(&b, 0x1000, pairs[i].worse_size, pairs[i].worse,
				    pairs[i].worse_rank);
			add(&b, 0x1000, pairs[i].better_size, pairs[i].better,
			    pairs[i].better_rank);
			if (!order)
				add(&b, 0x1000, pairs[i].worse_size, pairs[i].worse,
				    pairs[i].worse_rank);
			s = build(&b);
			expect(s, 0x1000, pairs[i].better, 0x1000, pairs[i].better_size);
			uw_symbols_free(s);
		}
	}
}

/* Names of texts that the builder has are not copied, and those that are kept have their ends. */
static void test_texts(void **state)
{
	static const char names[] = "\0first\0second@V\0third";
	struct uw_symbols_builder b = {.full = true};
	char *text[UW_SYMBOL_TEXTS + 1];
	struct uw_symbols *s;

	(void)state;
	add(&b, 0x100, 0x10, "copied", UW_RANK_GLOBAL);
	for (size_t i = 0; i <= UW_SYMBOL_TEXTS; i++) {
		text[i] = malloc(sizeof(names));
		assert_non_null(text[i]);
		memcpy(text[i], names, sizeof(names));
		text[i][1] = (char)('A' + i);
		assert_true(uw_symbols_take_text(&b, text[i], sizeof(names)) ==
			    (i < UW_SYMBOL_TEXTS));
	}
	add(&b, 0x200, 0x10, text[0] + 1, UW_RANK_GLOBAL);
	assert_int_equal(uw_symbols_add(&b, 0x300, 0x10, text[1] + 7, 6, UW_RANK_GLOBAL), 0);
	add(&b, 0x400, 0x10, text[7] + 16, UW_RANK_GLOBAL);
	assert_int_equal(b.pool_len, sizeof("copied"));
	add(&b, 0x500, 0x10, text[UW_SYMBOL_TEXTS] + 1, UW_RANK_GLOBAL);
	assert_int_equal(b.pool_len, sizeof("copied") + sizeof("first"));
	free(text[UW_SYMBOL_TEXTS]);
	s = build(&b);
	expect(s, 0x100, "copied", 0x100, 0x10);
	expect(s, 0x208, "Airst", 0x200, 0x10);
	expect(s, 0x308, "second", 0x300, 0x10);
	expect(s, 0x40f, "third", 0x400, 0x10);
	expect(s, 0x500, "Iirst", 0x500, 0x10);
	uw_symbols_free(s);
	/* One name of all symbols does not take more than names may. */
	text[0] = malloc(UW_SYMBOL_NAME_MAX);
	assert_non_null(text[0]);
	memset(text[0], 'a', UW_SYMBOL_NAME_MAX - 1);
	text[0][UW_SYMBOL_NAME_MAX - 1] = 0;
	assert_true(uw_symbols_take_text(&b, text[0], UW_SYMBOL_NAME_MAX));
	for (uint64_t i = 0; i < 9000; i++)
		add(&b, 0x1000 + i, 1, text[0], UW_RANK_GLOBAL);
	assert_int_equal(b.n, UW_SYMBOL_POOL_MAX / UW_SYMBOL_NAME_MAX);
	uw_symbols_builder_deinit(&b);
}

static void test_nested(void **state)
{
	struct uw_symbols_builder b = {0};
	struct uw_symbols *s;

	(void)state;
	add(&b, 0x1000, 0x100, "outer", UW_RANK_GLOBAL | UW_RANK_FUNCTION);
	add(&b, 0x1010, 0x10, "inner", UW_RANK_LOCAL | UW_RANK_FUNCTION);
	add(&b, 0x1030, 0, "label", UW_RANK_LOCAL);
	s = build(&b);
	expect(s, 0x100f, "outer", 0x1000, 0x100);
	expect(s, 0x1010, "inner", 0x1010, 0x10);
	expect(s, 0x1020, "outer", 0x1000, 0x100);
	expect(s, 0x1035, "outer", 0x1000, 0x100); /* a label inside is not a function */
	expect(s, 0x1100, NULL, 0, 0);
	uw_symbols_free(s);
}

static void test_limits(void **state)
{
	struct uw_symbols_builder b = {0};
	struct uw_symbols *s;
	static char name[40000];

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	assert_int_equal(uw_symbols_add(&b, 1, 1, name, 0, 1), 0);
	assert_int_equal(uw_symbols_add(&b, 2, 1, name, 32769, 1), 0);
	assert_int_equal(b.n, 0);
	assert_int_equal(uw_symbols_add(&b, 3, 1, name, 32768, 1), 0);
	assert_int_equal(b.n, 1);
	add(&b, UINT64_MAX, UINT64_MAX, "end", 1);
	add(&b, 0x10, UINT64_MAX, "huge", 1);
	s = build(&b);
	expect(s, UINT64_MAX, "end", UINT64_MAX, UINT32_MAX); /* sizes stop at 4 GiB */
	expect(s, 0x10ull + UINT32_MAX - 1, "huge", 0x10, UINT32_MAX);
	expect(s, 0x10 + (uint64_t)UINT32_MAX, NULL, 0, 0);
	uw_symbols_free(s);
	s = build(&b); /* nothing at all */
	expect(s, 0, NULL, 0, 0);
	uw_symbols_free(s);
}

static void test_latest(void **state)
{
	struct uw_symbols_builder b = {0};
	struct uw_symbols *s;

	(void)state;
	add(&b, 0x1000, 0x100, "first", 1);
	add(&b, 0x2000, 0x100, "untouched", 1);
	add(&b, 0x1080, 0x100, "over_its_tail", 1);
	add(&b, 0x3000, 0x10, "old", 1);
	add(&b, 0x3000, 0x20, "recompiled", 1);
	add(&b, 0x4010, 0x10, "small", 1);
	add(&b, 0x4000, 0x100, "around_it", 1);
	assert_int_equal(uw_symbols_build_latest(&b, &s), 0);
	expect(s, 0x1000, NULL, 0, 0); /* a function of which a part is gone is gone */
	expect(s, 0x1080, "over_its_tail", 0x1080, 0x100);
	expect(s, 0x2000, "untouched", 0x2000, 0x100);
	expect(s, 0x3008, "recompiled", 0x3000, 0x20);
	expect(s, 0x4018, "around_it", 0x4000, 0x100);
	uw_symbols_free(s);
}

/* As many as are sorted by digits, in no order, over all 64 bits; of two names the global one. */
static void test_many(void **state)
{
	enum { MANY = 5000 };
	static const uint64_t steps[] = {0x10, 0x10000010, 0x200000000000010};
	struct uw_symbols *s;
	char name[32];

	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(steps); k++) {
		/* 7 has no common factor with these, so each number comes once */
		const uint64_t n = k == 2 ? 100 : MANY, times = k == 2 ? 3 : 1;
		struct uw_symbols_builder b = {0};

		for (uint64_t i = 0; i < n * times; i++) {
			uint64_t number = i * 7 % n;

			(void)snprintf(name, sizeof(name), "l%lu", number);
			add(&b, 0x1000 + number * steps[k], 8, name, UW_RANK_LOCAL);
			(void)snprintf(name, sizeof(name), "g%lu", number);
			add(&b, 0x1000 + number * steps[k], 8, name, UW_RANK_GLOBAL);
		}
		s = build(&b);
		for (uint64_t number = 0; number < n; number++) {
			(void)snprintf(name, sizeof(name), "g%lu", number);
			expect(s, 0x1007 + number * steps[k], name, 0x1000 + number * steps[k], 8);
			expect(s, 0x1008 + number * steps[k], NULL, 0, 0);
		}
		uw_symbols_free(s);
	}
}

/* Dense and sparse areas, up to the last address: a lone symbol is found, and nothing next to it.
 */
static void test_uneven(void **state)
{
	enum { EACH = 100 };
	static const uint64_t places[] = {0,	      1ull << 20, (1ull << 20) + 0x5000,
					  1ull << 40, 1ull << 63, UINT64_MAX - EACH * 4};
	struct uw_symbols_builder b = {0};
	struct uw_symbols *s;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		for (uint64_t k = 0; k < EACH; k++)
			add(&b, places[i] + k * 4, 2, "f", UW_RANK_GLOBAL | UW_RANK_FUNCTION);
	s = build(&b);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		for (uint64_t k = 0; k < EACH; k++) {
			uint64_t at = places[i] + k * 4;

			expect(s, at + 1, "f", at, 2);
			expect(s, at + 2, NULL, 0, 0);
		}
		expect(s, places[i] - 1, NULL, 0, 0);
		expect(s, places[i] + EACH * 4, NULL, 0, 0);
	}
	uw_symbols_free(s);
}

/* The pool: "\0first\0second\0src.js". */
static struct uw_symbols *build_codes(uint64_t until)
{
	static char pool[] = "\0py::first:f.py\0second\0src.js";
	const uint32_t second = 16, file = 23;
	/* One address twice, in no order; the second code ends where other code lies. */
	struct jit_code codes[] = {
		{.start = 0x2000,
		 .time = 70,
		 .size = 0x40,
		 .order = 2,
		 .name = second,
		 .lines = 0,
		 .n_lines = 2},
		{.start = 0x3000, .time = 10, .size = 0x10, .order = 0, .name = second},
		{.start = 0x2000, .time = 20, .size = 0x80, .order = 1, .name = 1},
	};
	struct jit_line lines[] = {{.at = 0, .line = 7, .file = file},
				   {.at = 0x10, .line = 9, .file = file}};
	const struct jit_part from = {.codes = codes,
				      .n = ARRAY_SIZE(codes),
				      .lines = lines,
				      .n_lines = ARRAY_SIZE(lines),
				      .pool = pool,
				      .pool_len = sizeof(pool),
				      .end = {ARRAY_SIZE(codes), ARRAY_SIZE(lines), sizeof(pool)}};
	struct uw_symbols *s;

	assert_int_equal(uw_symbols_of_codes(&from, until, false, &s), 0);
	return s;
}

static void expect_at(const struct uw_symbols *s, uint64_t at, uint64_t time, const char *name,
		      uint64_t size, uint32_t line)
{
	struct uw_symbol found = {0};

	if (!uw_symbols_find_at(s, at, time, &found))
		fail_msg("%lx is nothing at %lu", at, time);
	assert_string_equal(found.name, name);
	assert_int_equal(found.size, size);
	assert_int_equal(found.line, line);
	assert_int_equal(found.file != NULL, line != 0);
	assert_int_equal(found.kind, strncmp(name, "py::", 4) ? FRAME_NATIVE : FRAME_PYTHON);
}

static void check_codes(const struct uw_symbols *s, uint64_t until)
{
	struct uw_symbol found;

	assert_true(uw_symbols_full(s));
	assert_true(uw_symbols_have_times(s));
	assert_true(uw_symbols_overlap(s));
	assert_int_equal(uw_symbols_until(s), until);
	expect_at(s, 0x2004, 30, "py::first:f.py", 0x80, 0);
	expect_at(s, 0x2004, 70, "second", 0x40, 7);
	expect_at(s, 0x2010, UINT64_MAX, "second", 0x40, 9);
	expect_at(s, 0x2004, 5, "py::first:f.py", 0x80, 0); /* announced after its first call */
	expect_at(s, 0x2050, UINT64_MAX, "py::first:f.py", 0x80, 0); /* behind the later one */
	expect(s, 0x300f, "second", 0x3000, 0x10);
	assert_false(uw_symbols_find_at(s, 0x3010, 30, &found));
	assert_false(uw_symbols_find_at(s, 0x1fff, 30, &found));
}

/* Code of a JIT compiler: which one an address had when.  The same after packing and unpacking, which checks each field. */
static void test_codes(void **state)
{
	enum { UNTIL = 90, ROOM = 4096 };
	uint8_t bytes[ROOM], changed[ROOM];
	struct packer to = {.data = bytes, .room = ROOM};
	struct uw_symbols *s = build_codes(UNTIL), *copy = NULL;
	struct cursor from;

	(void)state;
	check_codes(s, UNTIL);
	uw_symbols_pack(s, &to);
	assert_false(to.bad);
	from = cursor_of(bytes, to.len);
	assert_int_equal(uw_symbols_unpack(&from, &copy), 0);
	check_codes(copy, UNTIL);
	assert_int_equal(uw_symbols_bytes(copy), uw_symbols_bytes(s));
	uw_symbols_free(copy);
	for (size_t len = 0; len < to.len; len++) {
		from = cursor_of(bytes, len);
		assert_int_equal(uw_symbols_unpack(&from, &copy), -EBADMSG);
	}
	for (size_t i = 0; i < to.len; i++) { /* no byte leads outside */
		struct uw_symbol found;

		memcpy(changed, bytes, to.len);
		changed[i] ^= 0xff;
		from = cursor_of(changed, to.len);
		if (uw_symbols_unpack(&from, &copy) < 0)
			continue;
		for (uint64_t at = 0x1ff0; at < 0x3020 && !uw_symbols_continue(copy); at++)
			if (uw_symbols_find_at(copy, at, 30, &found))
				assert_true(strlen(found.name) < ROOM);
		uw_symbols_free(copy);
	}
	uw_symbols_free(s);
}

/* Names of a symbol table hold at any time. */
static void test_timeless(void **state)
{
	struct uw_symbols_builder b = {0};
	struct uw_symbol found;
	struct uw_symbols *s;

	(void)state;
	add(&b, 0x1000, 0x100, "always", UW_RANK_GLOBAL);
	s = build(&b);
	assert_false(uw_symbols_full(s) || uw_symbols_have_times(s) || uw_symbols_overlap(s));
	assert_int_equal(uw_symbols_until(s), UINT64_MAX);
	assert_true(uw_symbols_find_at(s, 0x1010, 3, &found));
	assert_string_equal(found.name, "always");
	uw_symbols_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lookup), cmocka_unit_test(test_preference),
		cmocka_unit_test(test_texts),  cmocka_unit_test(test_nested),
		cmocka_unit_test(test_limits), cmocka_unit_test(test_latest),
		cmocka_unit_test(test_many),   cmocka_unit_test(test_uneven),
		cmocka_unit_test(test_codes),  cmocka_unit_test(test_timeless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
