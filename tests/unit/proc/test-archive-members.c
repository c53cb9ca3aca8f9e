/* test-archive-members.c - tar archives by hand: names, sizes, links, names that come before their header, damage; in pieces of
 * any length. */
#include <errno.h>
#include <string.h>

#include "proc/archive-members.h"
#include "tests/unit/cmocka.h"

static uint8_t tar[64 << 10];
static size_t n_tar;

struct found {
	struct archive_member members[8];
	char texts[8][64];
	size_t n;
};

static int found_member(void *arg, const struct archive_member *m)
{
	struct found *f = arg;

	assert_true(f->n < 8);
	f->members[f->n++] = *m;
	return 0;
}

static int found_data(void *arg, const uint8_t *data, size_t len)
{
	struct found *f = arg;

	assert_true(f->n > 0);
	strncat(f->texts[f->n - 1], (const char *)data, len);
	return 0;
}

static int refuse(void *arg, const struct archive_member *m)
{
	(void)arg;
	(void)m;
	return -EFBIG;
}

static void put_sum(uint8_t *block)
{
	unsigned sum = 0;

	memset(block + 148, ' ', 8);
	for (size_t i = 0; i < ARCHIVE_BLOCK; i++)
		sum += block[i];
	(void)snprintf((char *)block + 148, 8, "%06o", sum);
}

/* A header block: @name, @type, and @size as text. */
static uint8_t *add_header(const char *name, char type, const char *size)
{
	uint8_t *block = tar + n_tar;

	memset(block, 0, ARCHIVE_BLOCK);
	memcpy(block, name, strlen(name));
	memcpy(block + 124, size, strlen(size));
	block[156] = (uint8_t)type;
	put_sum(block);
	n_tar += ARCHIVE_BLOCK;
	return block;
}

static void add_bytes(const char *text)
{
	size_t len = strlen(text), padded = (len + 511) / 512 * 512;

	memset(tar + n_tar, 0, padded);
	memcpy(tar + n_tar, text, len);
	n_tar += padded;
}

static void add(const char *name, char type, const char *text)
{
	char size[24]; /* 11 digits */

	(void)snprintf(size, sizeof(size), "%011zo", strlen(text));
	(void)add_header(name, type, size);
	add_bytes(text);
}

static void add_end(void)
{
	memset(tar + n_tar, 0, 1024);
	n_tar += 1024;
}

/* In pieces of @piece bytes. */
static int read_in(size_t piece, struct found *f)
{
	struct archive_reader r = {.member = found_member, .data = found_data, .arg = f};
	int e = 0;

	memset(f, 0, sizeof(*f));
	for (size_t at = 0; at < n_tar && e == 0; at += piece)
		e = archive_read(&r, tar + at, min_u64(piece, n_tar - at));
	if (e == 0 && !archive_may_end(&r))
		return -EAGAIN;
	return e;
}

static void test_members(void **state)
{
	static const size_t pieces[] = {1, 7, 511, 512, 513, sizeof(tar)};
	struct found f;

	(void)state;
	n_tar = 0;
	add(".build-id/ab/cd", '2', "");
	add("usr/lib/x/", '5', "");
	add("usr/lib/x/ab01ff/elf", '0', "first");
	add("usr/lib/x/ab01ff/probes", '0', "passed over");
	add("[vdso]/0123456789abcdef0123456789abcdef01234567/vdso", 0, "second");
	add("x/ab01/debug", '0', "");
	add("[kernel.kallsyms]/ab02/kallsyms", '0', "third");
	add_end();
	add("x/ab03/elf", '0', "behind the end");
	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		assert_int_equal(read_in(pieces[i], &f), ARCHIVE_END);
		assert_int_equal(f.n, 4);
		assert_string_equal(f.texts[0], "first");
		assert_int_equal(f.members[0].kind, ARCHIVE_ELF);
		assert_int_equal(f.members[0].id.len, 3);
		assert_memory_equal(f.members[0].id.bytes, "\xab\x01\xff", 3);
		assert_int_equal(f.members[1].id.len, 20);
		assert_int_equal(f.members[1].kind, ARCHIVE_VDSO);
		assert_string_equal(f.texts[1], "second");
		assert_int_equal(f.members[2].kind, ARCHIVE_DEBUG);
		assert_int_equal(f.members[2].size, 0);
		assert_string_equal(f.texts[3], "third");
	}
}

/* Names that are not a file of a cache, and what is not a file. */
static void test_foreign_names(void **state)
{
	static const char *const names[] = {"elf",
					    "ab01/el",
					    "/elf",
					    "x/ab0/elf",
					    "x/ab/elf",
					    "x/AB01/elf",
					    "../ab0g/elf",
					    "x/../elf",
					    "x/ab01/../elf",
					    "x/ab01/elf/",
					    "x/0123456789abcdef0123456789abcdef0123456789/elf"};
	struct found f;

	(void)state;
	n_tar = 0;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		add(names[i], '0', "bytes");
	add("x/ab01/elf", '1', "");
	add("x/ab01/elf", '2', "");
	add("x/ab01/elf", '6', "");
	assert_int_equal(read_in(100, &f), 0); /* without zeros at its end */
	assert_int_equal(f.n, 0);
	add("../../etc/ab01/elf", '0', "only the id counts");
	assert_int_equal(read_in(100, &f), 0);
	assert_int_equal(f.n, 1);
}

static void test_long_names(void **state)
{
	char name[200], words[256];
	struct found f;
	uint8_t *block;

	(void)state;
	n_tar = 0;
	memset(name, 'd', 120);
	(void)snprintf(name + 120, sizeof(name) - 120, "/ab04/elf");
	add("././@LongLink", 'L', name);
	add("dddd", '0', "gnu");
	(void)snprintf(words, sizeof(words), "%zu path=%s\n10 size=3\n",
		       strlen(name) + strlen("143 path=\n"), name);
	add("PaxHeaders/x", 'x', words);
	add_header("dddd", '0', "0");
	add_bytes("pax");
	/* ustar: the beginning of the name is in another field. */
	block = add_header("ab05/elf", '0', "4");
	memcpy(block + 257, "ustar", 6);
	memcpy(block + 345, "usr/lib", 7);
	put_sum(block);
	add_bytes("unix");
	add("x/ab06/elf", '0', "plain again");
	assert_int_equal(read_in(33, &f), 0);
	assert_int_equal(f.n, 4);
	assert_string_equal(f.texts[0], "gnu");
	assert_string_equal(f.texts[1], "pax");
	assert_int_equal(f.members[1].size, 3);
	assert_string_equal(f.texts[2], "unix");
	assert_string_equal(f.texts[3], "plain again");
	assert_memory_equal(f.members[3].id.bytes, "\xab\x06", 2);
}

static void test_damage(void **state)
{
	struct archive_reader r = {.member = refuse, .data = found_data};
	struct found f;
	uint8_t *block;

	(void)state;
	n_tar = 0;
	memset(tar, 'x', 4096);
	n_tar = 4096;
	assert_int_equal(read_in(512, &f), -EBADMSG);
	n_tar = 0;
	(void)add_header("x/ab01/elf", '0', "9");
	assert_int_equal(read_in(512, &f), -EBADMSG); /* 9 is not octal */
	n_tar = 0;
	add("x/ab01/elf", '0', "five!");
	tar[0] = 'y'; /* the sum is wrong */
	assert_int_equal(read_in(512, &f), -EBADMSG);
	n_tar = 0;
	add("x/ab01/elf", '0', "cut off");
	n_tar -= 500;
	assert_int_equal(read_in(512, &f), -EAGAIN);
	assert_string_equal(f.texts[0], "cut off");
	/* A size beyond 64 bits, in binary. */
	n_tar = 0;
	block = add_header("x/ab01/elf", '0', "\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
	assert_int_equal(read_in(512, &f), -EBADMSG);
	assert_int_equal(block[124], 0x80);
	n_tar = 0;
	add("x/ab01/elf", '0', "not wanted");
	assert_int_equal(archive_read(&r, tar, n_tar), -EFBIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_members),
		cmocka_unit_test(test_foreign_names),
		cmocka_unit_test(test_long_names),
		cmocka_unit_test(test_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
