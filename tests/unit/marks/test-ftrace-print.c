/* test-ftrace-print.c - pages of the kernel's ring buffer, put together by hand: times, sizes, other entries, lost ones, damage; a flood
 * on one CPU; instances that were left behind. */
#include <sys/mman.h>

#include "marks/ftrace-print.c"
#include "tests/unit/cmocka.h"
#include "tests/unit/proc/child-process.h"

enum { PAGE = 4096, PRINT = 5 };

struct seen {
	size_t n;
	uint32_t tid[64];
	uint64_t time[64];
	char text[64][64];
};

static int keep(void *arg, uint32_t tid, uint64_t time, const char *text, size_t len)
{
	struct seen *s = arg;

	assert_true(s->n < 64 && len < 64);
	s->tid[s->n] = tid;
	s->time[s->n] = time;
	memcpy(s->text[s->n], text, len);
	s->text[s->n++][len] = 0;
	return 0;
}

struct page {
	uint8_t bytes[PAGE];
	size_t len;
};

static void put(struct page *p, const void *data, size_t len)
{
	memcpy(p->bytes + p->len, data, len);
	p->len += len;
}

static void put_u32(struct page *p, uint32_t v)
{
	put(p, &v, sizeof(v));
}

static void put_u64(struct page *p, uint64_t v)
{
	put(p, &v, sizeof(v));
}

static struct page begin(uint64_t time)
{
	struct page p = {.len = 0};

	put_u64(&p, time);
	put_u64(&p, 0);
	return p;
}

/* @sized: with the length in a word of its own. */
static void put_entry(struct page *p, uint32_t delta, uint16_t id, uint32_t tid, const char *text,
		      bool sized)
{
	const uint8_t zero[64] = {0};
	size_t len = 16 + strlen(text) + 1, padded = (len + 3) & ~3ul;

	put_u32(p, delta << 5 | (sized ? 0 : (uint32_t)(padded / 4)));
	if (sized)
		put_u32(p, (uint32_t)padded + 4);
	put(p, &id, sizeof(id));
	put(p, zero, 2);
	put_u32(p, tid);
	put_u64(p, 0xffffffff81000000);
	put(p, text, strlen(text) + 1);
	put(p, zero, padded - len);
}

static int parse(struct page *p, uint64_t flags, struct seen *seen, uint64_t *lost)
{
	const struct ftrace_print_sink sink = {.line = keep, .arg = seen};
	uint64_t commit = (p->len - 16) | flags;

	memset(seen, 0, sizeof(*seen));
	memcpy(p->bytes + 8, &commit, sizeof(commit));
	return ftrace_print_page(p->bytes, PAGE, PRINT, &sink, lost);
}

static void test_entries(void **state)
{
	struct page p = begin(1000);
	struct seen seen;
	uint64_t lost;

	(void)state;
	put_entry(&p, 5, PRINT, 42, "B|42|draw\n", false);
	put_entry(&p, 7, 3, 42, "another id", false);
	put_u32(&p, 1 << 5 | 30); /* time goes on by 2 << 27 | 1 */
	put_u32(&p, 2);
	put_entry(&p, 1, PRINT, 43, "E|43\n", true);
	put_u32(&p, 100 << 5 | 29); /* a hole of 8 bytes */
	put_u32(&p, 12);
	put_u64(&p, 0);
	put_u32(&p, 9 << 5 | 31); /* it is 1 << 27 | 9 */
	put_u32(&p, 1);
	put_entry(&p, 0, PRINT, 44, "", false);
	put_u32(&p, 29); /* the rest is empty */
	put_u64(&p, UINT64_MAX);
	assert_int_equal(parse(&p, 0, &seen, &lost), 0);
	assert_int_equal(lost, 0);
	assert_int_equal(seen.n, 3);
	assert_int_equal(seen.tid[0], 42);
	assert_int_equal(seen.time[0], 1005);
	assert_string_equal(seen.text[0], "B|42|draw\n");
	assert_int_equal(seen.tid[1], 43);
	assert_int_equal(seen.time[1], 1012 + (2 << 27) + 1 + 1);
	assert_string_equal(seen.text[1], "E|43\n");
	assert_int_equal(seen.time[2], (1 << 27) + 9);
	assert_string_equal(seen.text[2], "");
}

static void test_lost(void **state)
{
	struct page p = begin(1000);
	struct seen seen;
	uint64_t lost, number = 77;

	(void)state;
	put_entry(&p, 5, PRINT, 42, "x", false);
	assert_int_equal(parse(&p, 1ull << 31, &seen, &lost), 0);
	assert_int_equal(lost, 1); /* how many is unknown */
	memcpy(p.bytes + p.len, &number, sizeof(number));
	assert_int_equal(parse(&p, 3ull << 30, &seen, &lost), 0);
	assert_int_equal(lost, 77);
	assert_int_equal(seen.n, 1);
}

static void test_damaged(void **state)
{
	const struct ftrace_print_sink sink = {.line = keep, .arg = &(struct seen){0}};
	struct page p = begin(1000);
	struct seen seen;
	uint64_t lost;

	(void)state;
	assert_int_equal(ftrace_print_page(p.bytes, 15, PRINT, &sink, &lost), -EBADMSG);
	put_entry(&p, 5, PRINT, 42, "good", false);
	put_u32(&p, 28); /* 112 bytes, and none is there */
	assert_int_equal(parse(&p, 0, &seen, &lost), -EBADMSG);
	assert_int_equal(seen.n, 1);
	p = begin(1000);
	put_u32(&p, 0);
	put_u32(&p, 3); /* shorter than itself */
	assert_int_equal(parse(&p, 0, &seen, &lost), -EBADMSG);
	p = begin(1000);
	put_u32(&p, 0);
	put_u32(&p, UINT32_MAX);
	assert_int_equal(parse(&p, 0, &seen, &lost), -EBADMSG);
	p = begin(1000);
	put_u32(&p, 30); /* without its word */
	assert_int_equal(parse(&p, 0, &seen, &lost), -EBADMSG);
	p = begin(1000);
	put_u32(&p, 3); /* no room for a print: passed over */
	put_u64(&p, 0);
	put_u32(&p, 0);
	assert_int_equal(parse(&p, 0, &seen, &lost), 0);
	/* a length beyond the page */
	assert_int_equal(parse(&p, 8192, &seen, &lost), -EBADMSG);
	/* any bytes: no read beyond the page (sanitizers), an end */
	for (uint64_t i = 0; i < 3000; i++) {
		uint64_t commit = hash_u64(i) % (PAGE - 16);

		for (size_t k = 0; k < PAGE; k++)
			p.bytes[k] =
				(uint8_t)hash_u64(i << 32 | k / 8 * 8 | (k % 8 && i % 2 ? k : 0));
		memcpy(p.bytes + 8, &commit, sizeof(commit));
		(void)ftrace_print_page(
			p.bytes, PAGE, PRINT,
			&(const struct ftrace_print_sink){.line = keep, .arg = &(struct seen){0}},
			&lost);
	}
}

/* ---- a flood ---- */

/* A CPU's buffer with @pages full of lines, one after another; *ret_lines: their number. */
static int new_buffer(size_t pages, const char *text, uint64_t time, size_t *ret_lines)
{
	int fd = memfd_create("pages", MFD_CLOEXEC);
	struct page p = begin(time);
	size_t lines = 0, entry = (8 + 16 + strlen(text) + 1 + 3) & ~3ul;
	bool sized = strlen(text) > 90; /* of 112 bytes at most else */
	uint64_t commit;

	for (; p.len + entry <= PAGE; lines++)
		put_entry(&p, 1, PRINT, 42, text, sized);
	commit = p.len - 16;
	memcpy(p.bytes + 8, &commit, sizeof(commit));
	for (size_t i = 0; i < pages; i++)
		assert_int_equal(write(fd, p.bytes, PAGE), PAGE);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	*ret_lines = pages * lines;
	return fd;
}

struct count {
	size_t n, of_second;
	uint64_t latest;
};

static int count_line(void *arg, uint32_t tid, uint64_t time, const char *text, size_t len)
{
	struct count *c = arg;

	(void)text, (void)len;
	assert_int_equal(tid, 42);
	assert_true(time >= c->latest);
	c->latest = time;
	c->of_second += time >= 1ull << 40;
	c->n++;
	return 0;
}

/* The first CPU has far more than one turn takes, in lines (empty ones) or in bytes. */
static void flood(const char *text, size_t pages, size_t most, bool by_lines)
{
	static struct ftrace_print p;
	int fds[2];
	size_t lines, second, turns = 0, all = 0;

	fds[0] = new_buffer(pages, text, 1000, &lines);
	fds[1] = new_buffer(10, "x", 1ull << 40, &second);
	p = (struct ftrace_print){.fds = fds, .n_fds = 2, .remover_fd = -1};
	for (; all < lines + second; turns++) {
		struct count c = {0};
		const struct ftrace_print_sink sink = {.line = count_line, .arg = &c};

		assert_int_equal(ftrace_print_turn(&p, &sink), 0);
		assert_in_range(c.n, 1, most + second);
		assert_in_range(p.text.len, 0, TURN_BYTES / 2 + PAGE_BYTES + 10 * PAGE);
		/* The second CPU is not kept waiting. */
		assert_int_equal(c.of_second, turns ? 0 : second);
		all += c.n;
	}
	assert_int_equal(all, lines + second);
	assert_in_range(turns, 3, 5);
	assert_int_equal(by_lines, most > TURN_LINES / 2);
	buffer_deinit(&p.text);
	free(p.lines);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

static void test_flood(void **state)
{
	char text[1001];

	(void)state;
	/* 2 CPUs: 131,072 lines; 16 in a read of pages of 4,096 bytes, 170 empty lines each */
	flood("", 2000, TURN_LINES / 2 + 16 * 170, true);
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	flood(text, 6000, 3 * (TURN_BYTES / 2 + PAGE_BYTES) / PAGE, false);
}

/* ---- instances ---- */

static void test_stale(void **state)
{
	static const char *const stay[] = {
		"perfwind-2147483647x", "perfwind-",	    "perfwind--5", "perfwind-99999999999",
		"perfwind-0",		"other-2147483647", "perfwind"};
	char dir[64], path[200], own[32];

	(void)state;
	temp_dir(dir);
	for (size_t i = 0; i < ARRAY_SIZE(stay); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, stay[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	(void)snprintf(own, sizeof(own), "perfwind-%d", (int)getpid());
	(void)snprintf(path, sizeof(path), "%s/%s", dir, own);
	assert_int_equal(mkdir(path, 0700), 0);
	(void)snprintf(path, sizeof(path), "%s/perfwind-2147483646", dir);
	write_file(path, "a file");
	(void)snprintf(path, sizeof(path), "%s/perfwind-2147483645", dir);
	assert_int_equal(symlink("perfwind", path), 0);
	(void)snprintf(path, sizeof(path), "%s/perfwind-2147483647", dir); /* not a process */
	assert_int_equal(mkdir(path, 0700), 0);
	remove_stale(dir);
	assert_int_equal(access(path, F_OK), -1);
	for (size_t i = 0; i < ARRAY_SIZE(stay); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, stay[i]);
		assert_int_equal(access(path, F_OK), 0);
	}
	(void)snprintf(path, sizeof(path), "%s/%s", dir, own);
	assert_int_equal(access(path, F_OK), 0);
	(void)snprintf(path, sizeof(path), "%s/perfwind-2147483646", dir);
	assert_int_equal(access(path, F_OK), 0);
	(void)snprintf(path, sizeof(path), "%s/perfwind-2147483645", dir);
	assert_int_equal(access(path, F_OK), 0);
	remove_stale("/no/such/folder");
	remove_dir(dir);
}

/* The remover is there before the instance, and removes it; a place without instances starts none. */
static void test_instance(void **state)
{
	static struct ftrace_print p = {.remover_fd = -1};
	char dir[64], path[200];

	(void)state;
	temp_dir(dir);
	assert_int_equal(make_instance_in(&p, "/no/such/folder"), -ENOENT);
	assert_int_equal(p.remover, 0);
	(void)snprintf(path, sizeof(path), "%s/perfwind-%d", dir, (int)getpid());
	assert_int_equal(mkdir(path, 0700), 0); /* left by an earlier process with this number */
	assert_int_equal(make_instance_in(&p, dir), 0);
	assert_string_equal(p.path, path);
	assert_int_equal(access(path, F_OK), 0);
	assert_true(p.remover > 0);
	stop_remover(&p);
	assert_int_equal(access(path, F_OK), -1);
	/* Something else has the name. */
	write_file(path, "a file");
	assert_int_equal(make_instance_in(&p, dir), -EEXIST);
	assert_int_equal(p.remover, 0);
	assert_int_equal(p.remover_fd, -1);
	assert_int_equal(access(path, F_OK), 0);
	remove_dir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_entries), cmocka_unit_test(test_lost),
		cmocka_unit_test(test_damaged), cmocka_unit_test(test_flood),
		cmocka_unit_test(test_stale),	cmocka_unit_test(test_instance),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
