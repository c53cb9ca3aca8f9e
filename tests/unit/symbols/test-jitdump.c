/* test-jitdump.c - records of a jitdump laid out by hand; the code of a function. */
#include "tests/unit/unwinder/unwinder-fixture.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/tsc.h"
#include "symbols/image.h"
#include "symbols/jitdump.h"
#include "symbols/module.h"
#include "symbols/symbols.h"

static void put32(struct buffer *b, uint32_t v)
{
	buffer_append(b, &v, sizeof(v));
}

static void put64(struct buffer *b, uint64_t v)
{
	buffer_append(b, &v, sizeof(v));
}

static void put_header(struct buffer *b)
{
	put32(b, 0x4a695444);
	put32(b, 1);
	put32(b, 40);
	while (b->len < 40)
		put32(b, 0);
}

/* The code begins with the first letter of its name. */
static void put_load_at(struct buffer *b, uint64_t time, uint64_t address, uint64_t size,
			const char *name)
{
	put32(b, 0);
	put32(b, (uint32_t)(16 + 40 + strlen(name) + 1 + 32));
	put64(b, time);
	put64(b, 0); /* pid, tid */
	put64(b, address);
	put64(b, address);
	put64(b, size);
	put64(b, 1);
	buffer_append(b, name, strlen(name) + 1);
	for (unsigned i = 0; i < 32; i++)
		buffer_append(b, i ? "\x90" : name, 1);
}

static void put_load(struct buffer *b, uint64_t address, uint64_t size, const char *name)
{
	put_load_at(b, 1234, address, size, name);
}

static void put_move_at(struct buffer *b, uint64_t time, uint64_t from, uint64_t to, uint64_t size)
{
	put32(b, 1);
	put32(b, 16 + 48);
	put64(b, time);
	put64(b, 0);
	put64(b, to);
	put64(b, from);
	put64(b, to);
	put64(b, size);
	put64(b, 1);
}

static void put_move(struct buffer *b, uint64_t from, uint64_t to, uint64_t size)
{
	put_move_at(b, 1234, from, to, size);
}

struct line {
	uint64_t at;
	uint32_t line;
	const char *file;
};
static void put_debug(struct buffer *b, uint64_t address, const struct line *lines, size_t n)
{
	size_t size = 16 + 16;

	for (size_t i = 0; i < n; i++)
		size += 16 + strlen(lines[i].file) + 1;
	put32(b, 2);
	put32(b, (uint32_t)size);
	put64(b, 0);
	put64(b, address);
	put64(b, n);
	for (size_t i = 0; i < n; i++) {
		put64(b, lines[i].at);
		put32(b, lines[i].line);
		put32(b, 0);
		buffer_append(b, lines[i].file, strlen(lines[i].file) + 1);
	}
}

/* A CIE ("z" and @letters), and an FDE of code of @size bytes in front, in the encoding of V8 and CPython: relative to its place.
 * CFA = rsp + @cfa. */
static void put_unwinding(struct buffer *b, uint64_t size, uint8_t cfa, bool lsda)
{
	_cleanup_(buffer_deinit) struct buffer f = {0};
	uint64_t place;

	put32(&f, 20);
	put32(&f, 0);
	buffer_append(&f,
		      lsda ? "\1zLR\0\1\x78\x10\2\xff\x1b\x0c\7" : "\1zR\0\1\x78\x10\1\x1b\x0c\7",
		      lsda ? 13 : 11);
	buffer_append(&f, &cfa, 1);
	buffer_append(&f, "\x90\1", 2);
	while (f.len < 24)
		buffer_append(&f, "", 1);
	place = ((size + 7) & ~7ull) + f.len + 8;
	put32(&f, 16);
	put32(&f, 28);
	put32(&f, (uint32_t)(0 - place));
	put32(&f, (uint32_t)size);
	put32(&f, 0);
	put32(b, 4);
	put32(b, (uint32_t)(16 + 24 + f.len + 20));
	put64(b, 0);
	put64(b, f.len + 20);
	put64(b, 20);
	put64(b, f.len + 20);
	buffer_append(b, f.data, f.len);
	buffer_append(b, "\1\x1b\3\x3b", 4); /* .eh_frame_hdr: not used */
	put64(b, 0);
	put64(b, 0);
}

static void test_records(void **state)
{
	_cleanup_(buffer_deinit) struct buffer b = {0};
	struct uw_module *m;

	(void)state;
	put_header(&b);
	put_load(&b, 0x1000, 0x20, "first");
	put32(&b, 9); /* of a later version: stepped over */
	put32(&b, 24);
	put64(&b, 0);
	put64(&b, 0xffffffffffffffff);
	put_load(&b, 0x2000, 0x20, "second");
	put_move(&b, 0x1000, 0x3000, 0x20);
	put_move(&b, 0x3000, 0x4000, 0x20);
	put_move(&b, 0x9000, 0x5000, 0x20); /* of nothing known */
	put_load(&b, 0x2010, 0x20, "over_second");
	m = jit_module_of("jit-1.dump", b.data, b.len);
	expect_symbol(m, 0x101f, "first");
	expect_symbol(m, 0x1020, NULL);
	expect_symbol(m, 0x2000, "second"); /* of which the end is gone */
	expect_symbol(m, 0x2010, "over_second");
	expect_symbol(m, 0x3000, "first");
	expect_symbol(m, 0x4000, "first");
	expect_symbol(m, 0x5000, NULL);
	uw_module_unref(m);
}

static void expect_at(const struct uw_module *m, uint64_t at, uint64_t time, const char *name)
{
	struct uw_symbol s;

	assert_true(uw_module_symbol_at(m, at, time, &s));
	assert_string_equal(s.name, name);
}

/* Memory that is used again: each time has its own name. */
static void test_times(void **state)
{
	_cleanup_(buffer_deinit) struct buffer b = {0};
	struct uw_module *m;
	struct uw_symbol s;

	(void)state;
	put_header(&b);
	put_load_at(&b, 100, 0x1000, 0x40, "first");
	m = jit_module_of("jit-1.dump", b.data, b.len);
	assert_false(uw_module_symbols_overlap(m));
	uw_module_unref(m);
	put_load_at(&b, 200, 0x1000, 0x20, "second");
	put_load_at(&b, 300, 0x2000, 0x20, "third");
	put_move_at(&b, 400, 0x2000, 0x1010, 0x20);
	put_load_at(&b, 500, 0x2000, 0x20, "fourth");
	m = jit_module_of("jit-1.dump", b.data, b.len);
	assert_true(uw_module_symbols_overlap(m));
	expect_at(m, 0x1018, 99, "first"); /* compilers make code known after it runs */
	expect_at(m, 0x1018, 100, "first");
	expect_at(m, 0x1018, 199, "first");
	expect_at(m, 0x1018, 200, "second");
	expect_at(m, 0x1018, 399, "second");
	expect_at(m, 0x1018, 400, "third");
	expect_at(m, 0x1018, UINT64_MAX, "third");
	expect_at(m, 0x1008, UINT64_MAX, "second");
	expect_at(m, 0x2008, 450, "third");
	expect_at(m, 0x2008, 501, "fourth");
	expect_symbol(m, 0x1018, "third");
	assert_false(uw_module_symbols_timeless(m));
	assert_false(uw_module_symbol_at(m, 0x1040, 150, &s));
	uw_module_unref(m);
	/* Times of another clock mean nothing: the latest name counts. */
	b.data[32] = 1;
	m = jit_module_of("jit-1.dump", b.data, b.len);
	expect_at(m, 0x1018, 150, "third");
	assert_true(uw_module_symbols_timeless(m));
	uw_module_unref(m);
}

/* Samples with a clock that follows from the counter; a dump without times of the counter has none of it then. */
static void test_conversion(void **state)
{
	const struct tsc_conversion c = {.shift = 10, .mult = 512, .zero = 1000000};
	_cleanup_(buffer_deinit) struct buffer b = {0};
	struct uw_source source = {.conversion = &c};
	struct uw_module *m;

	(void)state;
	put_header(&b);
	b.data[32] = 1;
	put_load_at(&b, 2000, 0x1000, 0x40, "first");
	put_load_at(&b, 4000, 0x1000, 0x40, "second");
	for (int counter = 1; counter >= 0; counter--) {
		b.data[32] = (uint8_t)counter;
		source.fd = memfd_of(b.data, b.len);
		assert_int_equal(uw_module_new(UW_MODULE_JIT, "jit-1.dump", NULL, &m), 0);
		assert_int_equal(uw_module_load_symbols(m, &source), 0);
		assert_int_equal(uw_module_symbols_timeless(m), !counter);
		expect_at(m, 0x1018, 1001999, counter ? "first" : "second");
		expect_at(m, 0x1018, 1002000, "second");
		assert_int_equal(close(source.fd), 0);
		uw_module_unref(m);
	}
}

/* Times of the processor's counter, while the program runs. */
static void test_counter(void **state)
{
	_cleanup_(buffer_deinit) struct buffer b = {0};
	struct uw_source source = {.live = true};
	struct uw_module *m;
	struct tsc_clock c;
	uint64_t middle;

	(void)state;
	if (!tsc_clock_begin(&c))
		skip();
	tsc_clock_look(&c);
	put_header(&b);
	b.data[32] = 1;
	put_load_at(&b, c.first.tsc, 0x1000, 0x40, "first");
	put_load_at(&b, c.last.tsc, 0x1000, 0x40, "second");
	middle = (c.first.ns + c.last.ns) / 2;
	source.fd = memfd_of(b.data, b.len);
	assert_int_equal(uw_module_new(UW_MODULE_JIT, "jit-1.dump", NULL, &m), 0);
	assert_int_equal(uw_module_load_symbols(m, &source), 0);
	assert_false(uw_module_symbols_timeless(m));
	assert_true(uw_module_symbols_overlap(m));
	expect_at(m, 0x1018, middle, "first");
	expect_at(m, 0x1018, c.last.ns + NSEC_PER_MSEC, "second");
	assert_int_equal(close(source.fd), 0);
	uw_module_unref(m);
}

/* A runtime that writes large pieces: later code may be in its memory. */
static void test_pieces(void **state)
{
	_cleanup_(buffer_deinit) struct buffer b = {0};
	struct uw_module *m;
	size_t whole;

	(void)state;
	put_header(&b);
	put_load_at(&b, 100, 0x1000, 0x40, "first");
	put_load_at(&b, 250, 0x2000, 0x40, "second");
	whole = b.len;
	m = jit_module_of("jit-1.dump", b.data, b.len);
	assert_int_equal(uw_module_symbols_until(m), UINT64_MAX);
	uw_module_unref(m);
	put_load_at(&b, 300, 0x3000, 0x40, "third");
	b.len = whole + 20;
	m = jit_module_of("jit-1.dump", b.data, b.len);
	assert_int_equal(uw_module_symbols_until(m), 250);
	expect_symbol(m, 0x3000, NULL);
	uw_module_unref(m);
	b.data[32] = 1; /* times of another clock */
	m = jit_module_of("jit-1.dump", b.data, b.len);
	assert_int_equal(uw_module_symbols_until(m), UINT64_MAX);
	uw_module_unref(m);
}

/* A dump of an attacker: of codes that share an address, a search looks at the last 512. */
static void test_overlaps(void **state)
{
	enum { CODES = 2000, LOOKED = 512 };
	_cleanup_(buffer_deinit) struct buffer b = {0};
	struct uw_module *m;
	char name[16];

	(void)state;
	put_header(&b);
	for (unsigned i = 0; i < CODES; i++) {
		(void)snprintf(name, sizeof(name), "f%u", i);
		put_load_at(&b, 100 + i, 0x1000, 0x40, name);
	}
	m = jit_module_of("jit-1.dump", b.data, b.len);
	assert_true(uw_module_symbols_overlap(m));
	expect_at(m, 0x1018, UINT64_MAX, "f1999");
	expect_at(m, 0x1018, 100 + CODES - LOOKED, "f1488");
	expect_at(m, 0x1018, 100, "f1488");
	uw_module_unref(m);
}

static void expect_line(const struct uw_module *m, uint64_t at, const char *file, uint32_t line)
{
	struct uw_symbol s;

	assert_true(uw_module_symbol(m, at, &s));
	assert_int_equal(s.line, line);
	if (file)
		assert_string_equal(s.file, file);
	else
		assert_null(s.file);
}

static void test_lines(void **state)
{
	static const struct line lines[] = {{0x1010, 12, "a.js"},
					    {0x1004, 10, "\xff"},
					    {0x1020, 90, "b.js"},
					    {0x1028, 91, "\xff"}};
	_cleanup_(buffer_deinit) struct buffer b = {0};
	struct uw_module *m;

	(void)state;
	put_header(&b);
	put_debug(&b, 0x1000, lines, 4);
	put_load(&b, 0x1000, 0x40, "with_lines");
	put_load(&b, 0x2000, 0x40, "without");
	put_debug(&b, 0x9000, lines, 4); /* of other code than what follows */
	put_load(&b, 0x3000, 0x40, "other");
	put_move(&b, 0x1000, 0x5000, 0x40);
	m = jit_module_of("jit-1.dump", b.data, b.len);
	expect_line(m, 0x1003, NULL, 0);
	expect_line(m, 0x1004, "a.js", 10);
	expect_line(m, 0x101f, "a.js", 12);
	expect_line(m, 0x1020, "b.js", 90);
	expect_line(m, 0x103f, "b.js", 91);
	expect_line(m, 0x2010, NULL, 0);
	expect_line(m, 0x3010, NULL, 0);
	expect_line(m, 0x5012, "a.js", 12);
	uw_module_unref(m);
}

/* CFA = rsp + ?, by the FDE of @address in .eh_frame: its addresses are absolute.  -1: no unwinding information. */
static int64_t cfa_at(const struct uw_module *m, uint64_t address)
{
	const struct uw_image *image = uw_module_image(m);
	struct cursor c;
	int64_t cfa = -1;

	assert_non_null(image);
	c = cursor_of(image->eh_frame.data, image->eh_frame.size);
	for (uint32_t len; (len = cursor_u32(&c));) {
		size_t at = (size_t)(c.p - image->eh_frame.data);
		struct cursor record = cursor_of(cursor_bytes(&c, len), len);
		uint32_t back = cursor_u32(&record);
		uint64_t begin = back ? cursor_u64(&record) : 0, size = cursor_u64(&record);
		const char *letters = (const char *)image->eh_frame.data + at - back + 9;
		const uint8_t *cie = (const uint8_t *)letters + (strlen(letters) == 3 ? 10 : 8);

		assert_false(c.bad || record.bad);
		if (!back || address < begin || address - begin >= size)
			continue;
		assert_int_equal(cfa, -1);
		assert_int_equal(cie[-1], 0); /* the encoding */
		assert_int_equal(cie[0], 0x0c);
		cfa = cie[2];
	}
	assert_false(c.bad);
	return cfa;
}

static void test_unwinding(void **state)
{
	_cleanup_(buffer_deinit) struct buffer b = {0};
	struct uw_module *m;

	(void)state;
	put_header(&b);
	put_load(&b, 0x1000, 0x20, "plain");
	m = jit_module_of("jit-1.dump", b.data, b.len);
	assert_null(uw_module_image(m));
	uw_module_unref(m);
	put_unwinding(&b, 0x25, 16, false);
	put_load(&b, 0x7f0000002000, 0x25, "sixteen");
	put_unwinding(&b, 0x40, 32, true);
	put_load(&b, 0x3000, 0x40, "thirty_two");
	put_move(&b, 0x3000, 0x5000, 0x40);
	put_unwinding(&b, 0x40, 48, false);
	put_load(&b, 0x6000, 0x20, "smaller than its unwinding information");
	put_unwinding(&b, 0x40, 64, false);
	put_load(&b, 0x8000, 0x40, "before");
	put_load(&b, 0x8020, 0x40, "over_before");
	m = jit_module_of("jit-1.dump", b.data, b.len);
	assert_true(uw_module_has_jit_cfi(m)); /* an import has no other process that reads */
	assert_int_equal(cfa_at(m, 0x1000), -1);
	assert_int_equal(cfa_at(m, 0x7f0000002000), 16);
	assert_int_equal(cfa_at(m, 0x7f0000002024), 16);
	assert_int_equal(cfa_at(m, 0x7f0000002025), -1);
	assert_int_equal(cfa_at(m, 0x303f), 32);
	assert_int_equal(cfa_at(m, 0x5010), 32);
	assert_int_equal(cfa_at(m, 0x6000), -1);
	assert_int_equal(cfa_at(m, 0x8000), -1);
	assert_int_equal(cfa_at(m, 0x8030), -1);
	uw_module_unref(m);
}

/* The answer of a reading, which is not kept by the process that reads.  Returns its length. */
static size_t answer(struct uw_module *reader, struct uw_source *source, uint8_t *bytes,
		     size_t room)
{
	struct packer to = {.data = bytes, .room = room};

	assert_int_equal(uw_module_load_symbols(reader, source), 0);
	uw_module_pack(reader, &to);
	assert_false(to.bad);
	uw_module_drop_symbols(reader);
	uw_module_drop_unwind(reader);
	return to.len;
}

/* Main's module gets what another process read, and later what was written since. */
static void test_growth(void **state)
{
	_cleanup_(buffer_deinit) struct buffer b = {0};
	int fd;
	struct uw_source source = {.reading.again = true};
	static uint8_t bytes[64 << 10];
	struct uw_module *reader, *user;
	struct cursor from;

	(void)state;
	put_header(&b);
	put_unwinding(&b, 0x20, 16, false);
	put_load(&b, 0x1000, 0x20, "first");
	source.fd = fd = memfd_of(b.data, b.len);
	assert_int_equal(uw_module_new(UW_MODULE_JIT, "jit-1.dump", NULL, &reader), 0);
	assert_int_equal(uw_module_new(UW_MODULE_JIT, "jit-1.dump", NULL, &user), 0);
	for (unsigned turn = 0; turn < 3; turn++) {
		size_t before = b.len;

		from = cursor_of(bytes, answer(reader, &source, bytes, sizeof(bytes)));
		assert_int_equal(uw_module_unpack(user, &from, -1), 0);
		assert_true(uw_module_has_jit_cfi(user));
		assert_int_equal(uw_module_take_first_cfi(user), turn == 0);
		assert_false(uw_module_take_first_cfi(user));
		assert_int_equal(uw_module_adopt_symbols(user), turn > 0);
		assert_int_equal(uw_module_adopt_unwind(user), turn > 0);
		expect_symbol(user, 0x1000, "first");
		expect_symbol(user, 0x2000, turn > 0 ? "second" : NULL);
		expect_symbol(user, 0x3000, turn > 1 ? "second" : NULL);
		assert_int_equal(cfa_at(user, 0x1000), 16);
		assert_int_equal(cfa_at(user, 0x2000), turn > 0 ? 32 : -1);
		assert_int_equal(cfa_at(user, 0x3000), turn > 1 ? 32 : -1);
		source.reading.known = uw_module_extent(user);
		/* Nothing more is there, and then half of a record. */
		assert_int_equal(uw_module_load_symbols(reader, &source), -EALREADY);
		uw_module_drop_symbols(reader);
		assert_int_equal(uw_module_load_unwind(reader, &source), -EALREADY);
		assert_int_equal(uw_module_unwind_state(reader), UW_MODULE_NEW);
		uw_module_drop_symbols(reader);
		if (turn == 0) {
			put_unwinding(&b, 0x20, 32, false);
			put_load(&b, 0x2000, 0x20, "second");
		} else {
			put_move(&b, 0x2000, 0x3000, 0x20);
		}
		assert_int_equal(pwrite(fd, b.data + before, 20, (off_t)before), 20);
		assert_int_equal(uw_module_load_symbols(reader, &source), -EALREADY);
		uw_module_drop_symbols(reader);
		assert_int_equal(pwrite(fd, b.data, b.len, 0), b.len);
	}
	/* A damaged answer is refused, whatever is wrong. */
	for (size_t i = 0; i < 2048 && i < sizeof(bytes); i++) {
		uint8_t byte = bytes[i];

		for (unsigned bit = 0; bit < 8; bit++) {
			bytes[i] = byte ^ (uint8_t)(1u << bit);
			from = cursor_of(bytes, sizeof(bytes));
			(void)uw_module_unpack(user, &from, -1);
			(void)uw_module_adopt_symbols(user);
			(void)uw_module_adopt_unwind(user);
			for (uint64_t at = 0xff0; at < 0x3030; at += 16) {
				struct uw_symbol s;

				(void)uw_module_symbol_at(user, at, 1234, &s);
			}
		}
		bytes[i] = byte;
	}
	uw_module_unref(reader);
	uw_module_unref(user);
	fd_close(fd);
}

/* Code that is loaded and moved within 64 places, with lines of two files; turn @turn of it.  The time of each record is its
 * number. */
static unsigned put_turn(struct buffer *b, unsigned turn, uint64_t *time)
{
	static const unsigned sizes[] = {300, 1, 7, 1, 1, 40, 3};
	unsigned n = sizes[turn % ARRAY_SIZE(sizes)];

	for (unsigned i = 0; i < n; i++) {
		uint64_t random = hash_u64(++*time), at = 0x10000 + random % 64 * 24;
		const struct line line = {at + 4, (uint32_t)*time, random & 512 ? "a.js" : "b.js"};
		char name[16];

		if (random & 256)
			put_debug(b, at, &line, 1);
		(void)snprintf(name, sizeof(name), "f%lu", (unsigned long)*time);
		if (random % 5)
			put_load_at(b, *time, at, 16 + random % 32, name);
		else
			put_move_at(b, *time, 0x10000 + (random >> 32) % 64 * 24, at, 32);
	}
	return n;
}

/* The same, and nothing changes at the address as long as uw_module_code_lasts() states. */
static void expect_equal(const struct uw_module *m, const struct uw_module *whole, uint64_t at,
			 uint64_t time)
{
	struct uw_symbol a, b, c;
	uint64_t since, until;
	bool there = uw_module_symbol_at(whole, at, time, &b);

	assert_int_equal(uw_module_symbol_at(m, at, time, &a), there);
	if (!there)
		return;
	uw_module_code_lasts(m, time, &since, &until);
	assert_true(since <= time && time < until);
	for (unsigned end = 0; end < 2; end++) {
		assert_true(uw_module_symbol_at(m, at, end ? until - 1 : since, &c));
		assert_ptr_equal(a.name, c.name);
	}
	assert_string_equal(a.name, b.name);
	assert_int_equal(a.start, b.start);
	assert_int_equal(a.size, b.size);
	assert_int_equal(a.line, b.line);
	assert_int_equal(a.file != NULL, b.file != NULL);
	if (a.file)
		assert_string_equal(a.file, b.file);
}

/* A reading costs what it adds, and finds what one reading of all finds. */
static void test_parts(void **state)
{
	enum { TURNS = 60, EACH = 160, HEAD = 1024 };
	_cleanup_(buffer_deinit) struct buffer b = {0};
	static uint8_t bytes[256 << 10], late[256 << 10];
	struct uw_module *reader, *user, *whole;
	struct uw_source source = {.reading.names_only = true};
	size_t before = 0, late_len = 0;
	struct uw_extent earlier = {.codes = 0};
	uint64_t time = 0;

	(void)state;
	put_header(&b);
	source.fd = memfd_of(b.data, b.len);
	assert_int_equal(uw_module_new(UW_MODULE_JIT, "jit-1.dump", NULL, &reader), 0);
	assert_int_equal(uw_module_new(UW_MODULE_JIT, "jit-1.dump", NULL, &user), 0);
	for (unsigned turn = 0; turn < TURNS; turn++) {
		unsigned n = put_turn(&b, turn, &time);
		size_t len;
		struct cursor from;

		assert_int_equal(pwrite(source.fd, b.data + before, b.len - before, (off_t)before),
				 b.len - before);
		before = b.len;
		/* One request was made before the last three answers. */
		source.reading.known = turn % 8 == 7 ? earlier : uw_module_extent(user);
		earlier = turn % 8 == 4 ? source.reading.known : earlier;
		len = answer(reader, &source, bytes, sizeof(bytes));
		if (turn % 8 != 7)
			assert_in_range(len, 1, n * EACH + HEAD);
		from = cursor_of(bytes, len);
		assert_int_equal(uw_module_unpack(user, &from, -1), 0);
		assert_int_equal(uw_module_adopt_symbols(user), turn > 0);
		if (turn == TURNS / 2)
			memcpy(late, bytes, late_len = len);
		whole = jit_module_of("jit-1.dump", b.data, b.len);
		for (unsigned i = 0; i < 400; i++) {
			uint64_t random = hash_u64(i + turn * 1000);

			expect_equal(user, whole, 0x10000 + random % 1600,
				     (random >> 16) % (time + 2));
		}
		uw_module_unref(whole);
	}
	/* An answer that has less than what is there. */
	assert_int_equal(
		uw_module_unpack(user, &(struct cursor){.p = late, .end = late + late_len}, -1), 0);
	assert_int_equal(uw_module_adopt_symbols(user), -EBADMSG);
	/* One that begins behind what is there, as names were dropped meanwhile. */
	uw_module_drop_symbols(user);
	assert_int_equal(
		uw_module_unpack(user, &(struct cursor){.p = late, .end = late + late_len}, -1), 0);
	assert_int_equal(uw_module_symbol_state(user), UW_MODULE_NEW);
	assert_int_equal(close(source.fd), 0);
	uw_module_unref(reader);
	uw_module_unref(user);
}

static void load_any(const struct buffer *b)
{
	struct uw_source source = {.fd = memfd_of(b->data, b->len)};
	struct uw_module *m;

	assert_int_equal(uw_module_new(UW_MODULE_JIT, "jit-1.dump", NULL, &m), 0);
	(void)uw_module_load_symbols(m, &source);
	fd_close(source.fd);
	uw_module_unref(m);
}

static void test_damage(void **state)
{
	_cleanup_(buffer_deinit) struct buffer b = {0};

	(void)state;
	put_header(&b);
	put_load(&b, 0x1000, 0x20, "first");
	put_debug(&b, 0x2000, &(struct line){0x2004, 7, "x.js"}, 1);
	put_unwinding(&b, 0x20, 16, true);
	put_load(&b, 0x2000, 0x20, "second");
	for (size_t len = 12; len <= b.len; len++) {
		struct buffer cut = {.data = b.data, .len = len};
		struct uw_module *m = jit_module_of("jit-1.dump", cut.data, cut.len);

		expect_symbol(m, 0x1000, len >= 40 + 94 ? "first" : NULL);
		expect_symbol(m, 0x2000,
			      len == b.len ? "second" : NULL); /* not before it is written whole */
		uw_module_unref(m);
	}
	for (size_t at = 4; at < b.len; at++) {
		for (unsigned bit = 0; bit < 8; bit++) {
			b.data[at] ^= (uint8_t)(1u << bit);
			load_any(&b);
			b.data[at] ^= (uint8_t)(1u << bit);
		}
	}
}

/* The code that was last at an address; it is marked by the first letter of the name. */
static void test_code(void **state)
{
	_cleanup_(buffer_deinit) struct buffer b = {0};
	static const struct {
		uint64_t at, start;
		char letter;
	} there[] = {{0x101f, 0x1000, 'f'},
		     {0x2005, 0x2000, 's'},
		     {0x2010, 0x2010, 'o'},
		     {0x4001, 0x4000, 'f'}};
	struct uw_code code;
	int fd;

	(void)state;
	put_header(&b);
	put_load(&b, 0x1000, 0x20, "first");
	put_load(&b, 0x2000, 0x20, "second");
	put_move(&b, 0x1000, 0x3000, 0x20);
	put_move(&b, 0x3000, 0x4000, 0x20);
	put_load(&b, 0x2010, 0x20, "over_second");
	put_load(&b, 0x6000, 0x20000, "size of more than the record");
	fd = memfd_of(b.data, b.len);
	for (size_t i = 0; i < ARRAY_SIZE(there); i++) {
		assert_int_equal(jitdump_code(fd, there[i].at, &code), 0);
		assert_int_equal(code.vaddr, there[i].start);
		assert_int_equal(code.len, 0x20);
		assert_int_equal(code.data[0], there[i].letter);
		assert_int_equal(code.data[1], 0x90);
		uw_code_deinit(&code);
	}
	assert_int_equal(jitdump_code(fd, 0x5000, &code), -ENOENT);
	assert_int_equal(jitdump_code(fd, 0x6000, &code), -EBADMSG);
	fd_close(fd);
	fd = memfd_of("1000 20 name\n", 13);
	assert_int_equal(jitdump_code(fd, 0x1000, &code), -EBADMSG); /* a perf map */
	fd_close(fd);
}

static void damaged_code(const struct buffer *b)
{
	struct uw_code code;
	int fd = memfd_of(b->data, b->len);

	if (jitdump_code(fd, 0x1000, &code) == 0) {
		assert_true(code.len <= UW_CODE_MAX);
		uw_code_deinit(&code);
	}
	fd_close(fd);
}

static void test_damaged_code(void **state)
{
	_cleanup_(buffer_deinit) struct buffer b = {0};

	(void)state;
	put_header(&b);
	put_load(&b, 0x1000, 0x20, "first");
	put_load(&b, 0x2000, 0x20, "second");
	for (size_t len = 0; len <= b.len; len++)
		damaged_code(&(struct buffer){.data = b.data, .len = len});
	for (size_t at = 4; at < b.len; at++) {
		for (unsigned bit = 0; bit < 8; bit++) {
			b.data[at] ^= (uint8_t)(1u << bit);
			damaged_code(&b);
			b.data[at] ^= (uint8_t)(1u << bit);
		}
	}
}

/* The reader alone: what was read stays, a later call reads on. */
static void test_reader(void **state)
{
	_cleanup_(buffer_deinit) struct buffer b = {0};
	struct uw_section eh_frame = {0};
	struct uw_source more = {.reading.again = true};
	struct uw_symbols *s = NULL;
	struct jitdump *dump = NULL;
	struct uw_symbol found;
	int fd, other = memfd_of("no dump at all, but as long as the head of one", 46);

	(void)state;
	assert_false(jitdump_is(other));
	assert_int_equal(jitdump_load(&dump,
				      &(struct uw_source){.fd = other, .reading.again = false}, &s,
				      &eh_frame),
			 -EBADMSG);
	assert_null(jitdump_free(dump));
	dump = NULL;
	fd_close(other);
	put_header(&b);
	put_load(&b, 0x1000, 0x20, "first");
	fd = memfd_of(b.data, b.len);
	more.fd = fd;
	assert_true(jitdump_is(fd));
	assert_int_equal(jitdump_load(&dump, &(struct uw_source){.fd = fd, .reading.again = false},
				      &s, &eh_frame),
			 0);
	assert_int_equal(eh_frame.size, 0);
	assert_true(uw_symbols_find(s, 0x1010, &found));
	assert_string_equal(found.name, "first");
	more.reading.known = uw_symbols_extent(s);
	uw_symbols_free(s);
	assert_int_equal(jitdump_load(&dump, &more, &s, &eh_frame), -EALREADY);
	/* All of it, for a process that has not so much. */
	more.reading.known.codes++;
	assert_int_equal(jitdump_load(&dump, &more, &s, &eh_frame), 0);
	assert_false(uw_symbols_continue(s));
	uw_symbols_free(s);
	b.len = 0;
	put_load(&b, 0x2000, 0x20, "second");
	assert_int_equal(lseek(fd, 0, SEEK_END) >= 0, 1);
	assert_int_equal(write(fd, b.data, b.len), b.len);
	assert_int_equal(jitdump_load(&dump, &(struct uw_source){.fd = fd, .reading.again = true},
				      &s, &eh_frame),
			 0);
	assert_true(uw_symbols_find(s, 0x1010, &found));
	assert_true(uw_symbols_find(s, 0x2010, &found));
	uw_symbols_free(s);
	assert_null(jitdump_free(dump));
	fd_close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_records),	     cmocka_unit_test(test_times),
		cmocka_unit_test(test_conversion),   cmocka_unit_test(test_counter),
		cmocka_unit_test(test_overlaps),     cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_lines),	     cmocka_unit_test(test_unwinding),
		cmocka_unit_test(test_growth),	     cmocka_unit_test(test_parts),
		cmocka_unit_test(test_damage),	     cmocka_unit_test(test_code),
		cmocka_unit_test(test_damaged_code), cmocka_unit_test(test_reader),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
