/* test-jit-code.c - the code of a function out of a jitdump laid out by hand. */
#include "tests/unit/unwinder/unwinder-fixture.h"

#include "base/bytes.h"
#include "symbols/code.h"
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
		buffer_append(b, i ? "\x90" : name, 1);
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
		assert_int_equal(uw_code_load_jit(fd, there[i].at, &code), 0);
		assert_int_equal(code.vaddr, there[i].start);
		assert_int_equal(code.len, 0x20);
		assert_int_equal(code.data[0], there[i].letter);
		assert_int_equal(code.data[1], 0x90);
		uw_code_deinit(&code);
	}
	assert_int_equal(uw_code_load_jit(fd, 0x5000, &code), -ENOENT);
	assert_int_equal(uw_code_load_jit(fd, 0x6000, &code), -EBADMSG);
	fd_close(fd);
	fd = memfd_of("1000 20 name\n", 13);
	assert_int_equal(uw_code_load_jit(fd, 0x1000, &code), -EBADMSG); /* a perf map */
	fd_close(fd);
}

static void damaged_code(const struct buffer *b)
{
	struct uw_code code;
	int fd = memfd_of(b->data, b->len);

	if (uw_code_load_jit(fd, 0x1000, &code) == 0) {
		assert_true(code.len <= UW_CODE_MAX);
		uw_code_deinit(&code);
	}
	fd_close(fd);
}

static void test_damage(void **state)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_code),
		cmocka_unit_test(test_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
