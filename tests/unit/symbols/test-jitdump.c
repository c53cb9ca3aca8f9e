/* test-jitdump.c - records of a jitdump laid out by hand. */
#include "tests/unit/unwinder/unwinder-fixture.h"

#include "base/bytes.h"
#include "symbols/module.h"

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

static void put_load(struct buffer *b, uint64_t address, uint64_t size, const char *name)
{
	put32(b, 0);
	put32(b, (uint32_t)(16 + 40 + strlen(name) + 1 + 32));
	put64(b, 1234);
	put64(b, 0); /* pid, tid */
	put64(b, address);
	put64(b, address);
	put64(b, size);
	put64(b, 1);
	buffer_append(b, name, strlen(name) + 1);
	for (unsigned i = 0; i < 32; i++)
		buffer_append(b, "\x90", 1);
}

static void put_move(struct buffer *b, uint64_t from, uint64_t to, uint64_t size)
{
	put32(b, 1);
	put32(b, 16 + 48);
	put64(b, 1234);
	put64(b, 0);
	put64(b, to);
	put64(b, from);
	put64(b, to);
	put64(b, size);
	put64(b, 1);
}

static struct uw_module *load(const struct buffer *b)
{
	struct uw_source source = {.fd = memfd_of(b->data, b->len)};
	struct uw_module *m;

	assert_int_equal(uw_module_new(UW_MODULE_JIT, "jit-1.dump", NULL, &m), 0);
	assert_int_equal(uw_module_load_symbols(m, &source), 0);
	fd_close(source.fd);
	return m;
}

static void expect(const struct uw_module *m, uint64_t at, const char *name)
{
	struct uw_symbol s;

	if (!name) {
		assert_false(uw_module_symbol(m, at, &s));
		return;
	}
	assert_true(uw_module_symbol(m, at, &s));
	assert_string_equal(s.name, name);
}

static void test_records(void **state)
{
	_cleanup_(buffer_deinit) struct buffer b = {0};
	struct uw_module *m;

	(void)state;
	put_header(&b);
	put_load(&b, 0x1000, 0x20, "first");
	put32(&b, 2); /* debug information: stepped over */
	put32(&b, 24);
	put64(&b, 0);
	put64(&b, 0xffffffffffffffff);
	put_load(&b, 0x2000, 0x20, "second");
	put_move(&b, 0x1000, 0x3000, 0x20);
	put_move(&b, 0x3000, 0x4000, 0x20);
	put_move(&b, 0x9000, 0x5000, 0x20); /* of nothing known */
	put_load(&b, 0x2010, 0x20, "over_second");
	m = load(&b);
	expect(m, 0x101f, "first");
	expect(m, 0x1020, NULL);
	expect(m, 0x2000, NULL);
	expect(m, 0x2010, "over_second");
	expect(m, 0x3000, "first");
	expect(m, 0x4000, "first");
	expect(m, 0x5000, NULL);
	uw_module_unref(m);
}

static void test_damage(void **state)
{
	_cleanup_(buffer_deinit) struct buffer b = {0};

	(void)state;
	put_header(&b);
	put_load(&b, 0x1000, 0x20, "first");
	put_load(&b, 0x2000, 0x20, "second");
	for (size_t len = 12; len <= b.len; len++) {
		struct buffer cut = {.data = b.data, .len = len};
		struct uw_module *m = load(&cut);

		expect(m, 0x1000, len >= 40 + 94 ? "first" : NULL);
		expect(m, 0x2000,
		       len == b.len ? "second" : NULL); /* not before it is written whole */
		uw_module_unref(m);
	}
	for (size_t at = 4; at < b.len; at++) {
		for (unsigned bit = 0; bit < 8; bit++) {
			b.data[at] ^= (uint8_t)(1u << bit);
			uw_module_unref(load(&b));
			b.data[at] ^= (uint8_t)(1u << bit);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_records),
		cmocka_unit_test(test_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
