/* test-import-file.c - which mappings the build id of a path speaks for: this program's own file, with
 * its right build id in perf's table, and mappings of it that have its inode or another. */
#include <fcntl.h>
#include <time.h>

#include "tests/unit/import/import-fixture.h"
#include "symbols/module.h"

/* HEADER_BUILD_ID: i32 pid, id[24] with its size at [20], path */
static void put_own_build_id(struct buffer *b)
{
	struct uw_source source = {.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
	struct uw_build_id id;
	uint8_t bytes[24] = {0};
	struct buffer body = {0};
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	assert_true(n > 0);
	assert_int_equal(uw_source_build_id(&source, &id), 0);
	close(source.fd);
	memcpy(bytes, id.bytes, id.len);
	bytes[20] = (uint8_t)id.len;
	put32(&body, UINT32_MAX);
	buffer_append(&body, bytes, sizeof(bytes));
	buffer_append(&body, path, (size_t)n);
	buffer_append(&body, "\0\0\0\0\0\0\0", 8 - ((size_t)n + 4) % 8);
	put_record(b, 67, 1 << 15, body.data, body.len);
	buffer_deinit(&body);
}

enum { NAMED = 1, NOTED = 2, EARLY = 4 };

struct file_case {
	bool own;	 /* recorded on this machine */
	size_t ids;	 /* entries for the path */
	uint64_t inodes; /* one mapping each of so many files; the last one's is sampled */
	uint64_t off;	 /* of the last one's inode from the one on disk */
	time_t written;	 /* when perf ended; 0: now */
	int expected;
	bool later; /* the others are mapped behind the samples */
	bool pipe;  /* read from one */
	uint64_t
		generations[2]; /* of the last one, and of another mapping of its inode behind it */
};

/* What is in the file, to be read only once. */
static int pipe_of(const struct buffer *b)
{
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	assert_true(fcntl(fds[1], F_SETPIPE_SZ, 1 << 20) >= (int)b->len);
	assert_int_equal(write(fds[1], b->data, b->len), (ssize_t)b->len);
	close(fds[1]);
	return fds[0];
}

static void put_others(struct buffer *b, const struct file_case *c)
{
	for (uint64_t i = c->inodes; --i > 0;)
		put_own_mapping(b, 7 + (uint32_t)i, c->off + i);
	if (c->generations[1])
		put_own_mapping_of(b, 7, c->off, c->generations[1]);
}

static int look(const struct file_case *c)
{
	const struct import_options options = {.no_inline = true};
	const struct timespec times[] = {{.tv_sec = c->written}, {.tv_sec = c->written}};
	struct buffer b = {0};
	struct done done;
	int found, fd;

	if (c->own)
		put_own_head(&b);
	else
		put_chain_head(&b, "x86_64");
	for (size_t i = 0; i < c->ids; i++)
		put_own_build_id(&b);
	if (!c->later)
		put_others(&b, c);
	put_own_mapping_of(&b, 7, c->off, c->generations[0]);
	for (uint64_t i = 1; i <= 5; i++)
		put_chain_sample(&b, ID_A, i * 1000000000, 7);
	if (c->later)
		put_others(&b, c);
	fd = c->pipe ? pipe_of(&b) : fixture_fd(&b);
	if (c->written)
		assert_int_equal(futimens(fd, times), 0);
	assert_int_equal(sink_memory_new(&done.sink), 0);
	done.r = import_run(fd, &options, done.sink, &done.result, done.error, sizeof(done.error));
	done.data = sink_memory_data(done.sink, &done.len);
	assert_int_equal(done.r, 0);
	assert_int_equal(done.result.summary.account.emitted, 5);
	found = (has_text(&done, "import_leaf") ? NAMED : 0) |
		(has_text(&done, "mapped files were not read: another file") ? NOTED : 0) |
		(has_text(&done, "1 paths had one build id and several files") ? EARLY : 0);
	assert_int_equal(done.result.damage.unproved_modules, found & EARLY ? 1 : 0);
	assert_int_equal(done.result.damage.unread_modules, found & NAMED ? 0 : 1);
	done_deinit(&done);
	close(fd);
	buffer_deinit(&b);
	return found;
}

static void test_rule(void **state)
{
	static const struct file_case cases[] = {
		{.own = true, .ids = 1, .inodes = 1, .off = 0, .expected = NAMED},
		/* replaced before perf read the path's build id */
		{.own = true, .ids = 1, .inodes = 1, .off = 1, .expected = NOTED},
		/* what stands there came after the recording: the id has to do */
		{.own = true, .ids = 1, .inodes = 1, .off = 1, .written = 1, .expected = NAMED},
		/* elsewhere inodes are not those of the file here ... */
		{.own = false, .ids = 1, .inodes = 1, .off = 1, .expected = NAMED},
		/* ... but they prove that there were two files */
		{.own = false, .ids = 1, .inodes = 2, .off = 1, .expected = NOTED},
		{.own = false, .ids = 2, .inodes = 1, .off = 1, .expected = NOTED},
		/* of several the one that stands there */
		{.own = true, .ids = 1, .inodes = 2, .off = 0, .expected = NAMED | NOTED},
		{.own = false, .ids = 2, .inodes = 1, .off = 0, .expected = NAMED},
		/* the second one comes when all samples were met: known beforehand */
		{.ids = 1, .inodes = 2, .off = 1, .later = true, .expected = NOTED},
		{.own = true,
		 .ids = 1,
		 .inodes = 2,
		 .off = 0,
		 .later = true,
		 .expected = NAMED | NOTED},
		{.own = true,
		 .ids = 1,
		 .inodes = 2,
		 .off = 1,
		 .later = true,
		 .written = 1,
		 .expected = NOTED},
		/* ... but not in a pipe; where the first is the one that stands here nothing is lost */
		{.ids = 1, .inodes = 1, .off = 1, .pipe = true, .expected = NAMED},
		{.ids = 1,
		 .inodes = 2,
		 .off = 1,
		 .later = true,
		 .pipe = true,
		 .expected = NAMED | NOTED | EARLY},
		{.own = true,
		 .ids = 1,
		 .inodes = 2,
		 .off = 0,
		 .later = true,
		 .pipe = true,
		 .expected = NAMED | NOTED},
		/* of what was there before perf no generation is recorded; two are two files */
		{.ids = 1, .inodes = 1, .off = 1, .generations = {0, 5}, .expected = NAMED},
		{.ids = 1, .inodes = 1, .off = 1, .generations = {5, 6}, .expected = NOTED},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(look(&cases[i]) | (int)i << 8, cases[i].expected | (int)i << 8);
}

/* A sample of code without a file, and a map for it that has its name. */
static bool map_names(uint32_t pid, time_t written, bool *ret_reported)
{
	/* pid/tid start len offset major/minor inode generation prot/flags path trailer */
	uint64_t mapping[] = {(uint64_t)pid << 32 | pid,
			      0x700000,
			      0x1000,
			      0,
			      0,
			      0,
			      0,
			      2ull << 32 | 5,
			      0,
			      0,
			      0,
			      0,
			      0,
			      0};
	const uint64_t sample[] = {
		ID_A,		0x700010, (uint64_t)pid << 32 | pid, 1000000000, 0, 1, 2,
		(uint64_t)-512, 0x700010};
	const struct timespec times[] = {{.tv_sec = written}, {.tv_sec = written}};
	const struct import_options options = {.no_inline = true};
	struct buffer b = {0};
	struct done done;
	bool found;
	int fd;

	memcpy(&mapping[8], "//anon", 7);
	put_chain_head(&b, "x86_64");
	put_record(&b, PERF_RECORD_MMAP2, 2, mapping, 13 * sizeof(*mapping));
	put_record(&b, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, sample, sizeof(sample));
	fd = fixture_fd(&b);
	assert_int_equal(futimens(fd, times), 0);
	assert_int_equal(sink_memory_new(&done.sink), 0);
	done.r = import_run(fd, &options, done.sink, &done.result, done.error, sizeof(done.error));
	done.data = sink_memory_data(done.sink, &done.len);
	assert_int_equal(done.r, 0);
	found = has_text(&done, "jit_of_then");
	*ret_reported = has_text(&done, "are newer than the recording");
	done_deinit(&done);
	close(fd);
	buffer_deinit(&b);
	return found;
}

static void test_late_map(void **state)
{
	uint32_t pid = 5000000 + (uint32_t)getpid(); /* above all that exist */
	char path[64];
	bool reported;
	FILE *f;

	(void)state;
	(void)snprintf(path, sizeof(path), "/tmp/perf-%u.map", pid);
	f = fopen(path, "we");
	assert_non_null(f);
	assert_true(fprintf(f, "700000 100 jit_of_then\n") > 0);
	assert_int_equal(fclose(f), 0);
	assert_true(map_names(pid, time(NULL) + 1, &reported));
	assert_false(reported);
	assert_false(map_names(pid, time(NULL) - 60, &reported));
	assert_true(reported);
	assert_int_equal(unlink(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rule),
		cmocka_unit_test(test_late_map),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
