/* test-maps.c - the parser of /proc/PID/maps: form, junk, bounds; and that a million lines are
 * quick to walk. */
#include <errno.h>
#include <stdlib.h>

#include "tests/unit/cmocka.h"

#include "proc/procfs.h"

struct lines {
	const char *at, *end;
	struct procfs_map map;
	int r;
};

/* A copy without a NUL behind, so that the sanitizer sees a read past the end. */
static struct lines lines_of(const char *text, char **ret_copy)
{
	size_t len = strlen(text);
	char *copy = malloc(len ? len : 1);

	assert_non_null(copy);
	memcpy(copy, text, len);
	*ret_copy = copy;
	return (struct lines){.at = copy, .end = copy + len};
}

static int next(struct lines *l)
{
	l->r = procfs_maps_next(&l->at, l->end, &l->map);
	return l->r;
}

static void assert_path(const struct lines *l, const char *path)
{
	assert_int_equal(l->map.path_len, strlen(path));
	assert_memory_equal(l->map.path, path, strlen(path));
}

static void test_lines(void **state)
{
	char *copy;
	struct lines l = lines_of(
		"55d0a0001000-55d0a0005000 r-xp 00001000 08:01 131090                     "
		"/usr/bin/with blanks\n"
		"7ffd1000-7ffd3000 rw-s 00000000 00:00 0 \n"
		"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  "
		"[vsyscall]\n"
		"1000-2000 r-xp fffffffffffff000 fd:1f 18446744073709551615 /x\\012y (deleted)",
		&copy);
	(void)state;

	assert_int_equal(next(&l), 0);
	assert_int_equal(l.map.start, 0x55d0a0001000);
	assert_int_equal(l.map.end, 0x55d0a0005000);
	assert_int_equal(l.map.offset, 0x1000);
	assert_int_equal(l.map.major, 8);
	assert_int_equal(l.map.minor, 1);
	assert_int_equal(l.map.inode, 131090);
	assert_true(l.map.exec && l.map.read && !l.map.write && !l.map.shared);
	assert_path(&l, "/usr/bin/with blanks");

	assert_int_equal(next(&l), 0);
	assert_true(!l.map.exec && l.map.read && l.map.write && l.map.shared);
	assert_path(&l, "");

	assert_int_equal(next(&l), 0);
	assert_int_equal(l.map.end, 0xffffffffff601000);
	assert_true(l.map.exec && !l.map.read);
	assert_path(&l, "[vsyscall]");

	assert_int_equal(next(&l), 0); /* no newline at the end */
	assert_int_equal(l.map.offset, 0xfffffffffffff000);
	assert_int_equal(l.map.major, 0xfd);
	assert_int_equal(l.map.minor, 0x1f);
	assert_int_equal(l.map.inode, UINT64_MAX);
	assert_path(&l, "/x\\012y (deleted)"); /* as the kernel wrote it */

	assert_int_equal(next(&l), PROCFS_MAPS_END);
	assert_int_equal(next(&l), PROCFS_MAPS_END);
	free(copy);
}

static void test_junk(void **state)
{
	static const char *const junk[] = {
		"",
		" ",
		"-",
		"1000-2000",
		"1000-2000 ",
		"1000-2000 r-xp",
		"1000-2000 r-xp 0",
		"1000-2000 r-xp 0 08",
		"1000-2000 r-xp 0 08:01",
		"1000-2000 r-xp 0 08:01 ",
		"1000-2000 r-xp 0 08:01 x",
		"1000-2000 r-xp 0 08:01 5x",
		"1000-2000 r-xp 0 08:01 18446744073709551616",
		"1000-2000 r-xp 0 08:01 99999999999999999999999",
		"1000-2000 r-xp 0 100000000:01 5",
		"1000-2000 r-xp 10000000000000000 08:01 5",
		"10000000000000000-20000000000000000 r-xp 0 08:01 5",
		"2000-1000 r-xp 0 08:01 5",
		"1000-1000 r-xp 0 08:01 5",
		"1000 2000 r-xp 0 08:01 5",
		"1000-2000 rxwp 0 08:01 5",
		"1000-2000 r-x 0 08:01 5",
		"1000-2000 r-xpp 0 08:01 5",
		"1000-2000 r-xq 0 08:01 5",
		"ABCD-F000 r-xp 0 08:01 5",
		"0x1000-0x2000 r-xp 0 08:01 5",
		"-1000-2000 r-xp 0 08:01 5",
		"\xff\xfe\x80",
	};
	(void)state;

	for (size_t i = 0; i < sizeof(junk) / sizeof(*junk); i++) {
		char text[256], *copy;
		struct lines l;

		/* between two good lines: they must be found all the same */
		(void)snprintf(text, sizeof(text), "1-2 r-xp 0 0:0 0\n%s\n3-4 r-xp 0 0:0 7",
			       junk[i]);
		l = lines_of(text, &copy);
		assert_int_equal(next(&l), 0);
		assert_int_equal(next(&l), -EBADMSG);
		assert_int_equal(l.map.start, 1); /* untouched */
		assert_int_equal(next(&l), 0);
		assert_int_equal(l.map.start, 3);
		assert_int_equal(l.map.inode, 7);
		assert_int_equal(next(&l), PROCFS_MAPS_END);
		free(copy);
	}
}

/* Whatever the place of the cut: no read past it, and at most the last line is not whole. */
static void test_cut(void **state)
{
	static const char text[] =
		"1000-2000 r-xp 00000000 08:01 77 /a\n2000-3000 r--p 00001000 08:01 77 /a\n";
	(void)state;

	for (size_t len = 0; len < sizeof(text); len++) {
		char *copy = malloc(len + 1);
		const char *at = copy;
		struct procfs_map map;
		unsigned n = 0;
		int r;

		assert_non_null(copy);
		memcpy(copy, text, len);
		copy = realloc(copy, len ? len : 1);
		at = copy;
		while ((r = procfs_maps_next(&at, copy + len, &map)) != PROCFS_MAPS_END) {
			n++;
			assert_true(at <= copy + len);
		}
		assert_true(n <= 2);
		assert_int_equal(n == 2, len > 36);
		free(copy);
	}
}

static void test_million(void **state)
{
	enum { N = 1000000, ROOM = 100 };
	char *text = malloc((size_t)N * ROOM);
	const char *at = text;
	struct procfs_map map;
	size_t len = 0, n = 0;
	uint64_t inodes = 0;
	(void)state;

	assert_non_null(text);
	for (uint64_t i = 0; i < N; i++)
		len += (size_t)snprintf(text + len, ROOM,
					"%llx-%llx r-xp 00000000 08:01 %llu /usr/lib/libm.so.6\n",
					(unsigned long long)i << 12,
					(unsigned long long)(i + 1) << 12, (unsigned long long)i);
	while (procfs_maps_next(&at, text + len, &map) == 0) {
		n++;
		inodes += map.inode;
	}
	assert_int_equal(n, N);
	assert_int_equal(inodes, (uint64_t)N * (N - 1) / 2);
	assert_ptr_equal(at, text + len);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_junk),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_million),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
