/* test-import-bounds.c - import.h: what processes, threads, mappings and modules take stays within a limit.  (Records
 * that wait for their order: test-perfdata.c.) */
#include "proc/process.h"
#include "tests/unit/import/import-fixture.h"
#include "unwinder/space.h"

enum { LIMIT = 1 << 20, ONE_RECORD = 96 << 10, PIDS = 40 };

/* One page of code behind a page without. */
static void put_code(struct buffer *b, uint32_t pid, uint64_t n, const char *path)
{
	static const uint64_t trailer[] = {0, 0, 0, 0};
	const uint64_t words[] = {(uint64_t)pid << 32 | pid,
				  0x10000000 + n * 0x2000,
				  0x1000,
				  0,
				  0,
				  path[1] == '/' ? 0 : (uint64_t)pid << 20 | (n + 1),
				  0,
				  2ull << 32 | 5};
	struct buffer body = {0};

	buffer_append(&body, words, sizeof(words));
	buffer_append(&body, path, strlen(path));
	buffer_append(&body, "\0\0\0\0\0\0\0", 8 - strlen(path) % 8);
	buffer_append(&body, trailer, sizeof(trailer));
	put_record(b, PERF_RECORD_MMAP2, 2, body.data, body.len);
	buffer_deinit(&body);
}

static void put_fork(struct buffer *b, uint32_t parent, uint32_t pid, uint32_t tid)
{
	const uint64_t fork[] = {(uint64_t)parent << 32 | pid, (uint64_t)parent << 32 | tid};
	const uint64_t time_and_trailer[5] = {0};
	uint8_t body[sizeof(fork) + sizeof(time_and_trailer)];

	memcpy(body, fork, sizeof(fork));
	memcpy(body + sizeof(fork), time_and_trailer, sizeof(time_and_trailer));
	put_record(b, PERF_RECORD_FORK, 0, body, sizeof(body));
}

static void put_mappings(struct buffer *b)
{
	for (uint32_t pid = 1; pid <= PIDS; pid++)
		for (uint64_t i = 0; i < 1000; i++)
			put_code(b, pid, i, "//anon");
}

/* Children with lists that share nothing with the parent's: each chunk of the list has a change. */
static void put_children(struct buffer *b)
{
	for (uint64_t i = 0; i < 4000; i++)
		put_code(b, 1, 2 * i, "//anon");
	for (uint32_t pid = 2; pid <= PIDS; pid++) {
		put_fork(b, 1, pid, pid);
		for (uint64_t i = 0; i < 4000; i += 100)
			put_code(b, pid, 2 * i + 1, "//anon");
	}
}

static void put_threads(struct buffer *b)
{
	for (uint32_t tid = 1000; tid < 21000; tid++)
		put_fork(b, 1 + tid % PIDS, 1 + tid % PIDS, tid);
}

static void put_modules(struct buffer *b)
{
	char path[1024] = "/";

	memset(path + 1, 'x', sizeof(path) - 2);
	for (uint32_t pid = 1; pid <= PIDS; pid++) {
		for (uint64_t i = 0; i < 100; i++) {
			(void)snprintf(path + 1, 16, "%lx", i << 32 | pid);
			path[strlen(path)] = 'x';
			put_code(b, pid, i, path);
		}
	}
}

static void put_processes(struct buffer *b)
{
	for (uint32_t pid = 1; pid < 5000; pid++)
		put_fork(b, pid, pid, pid);
}

static void import(void (*put)(struct buffer *b), size_t limit, struct done *done)
{
	const struct import_options options = {.no_inline = true, .held_bytes = limit};
	struct buffer b = {0};

	put_chain_head(&b, "x86_64");
	put(&b);
	put_chain_sample(&b, ID_A, 1000000, 7);
	run(&b, &options, done);
	assert_int_equal(done->r, 0);
	assert_int_equal(done->result.summary.account.emitted, 1);
	assert_int_equal(done->result.damage.bad_records, 0);
}

static bool has_note(const struct done *done)
{
	bool found = false;

	for (size_t i = 0; i < done->result.summary.n_notes; i++)
		found |= strstr(done->result.summary.notes[i], "processes were forgotten") != NULL;
	return found;
}

static void test_bounds(void **state)
{
	static void (*const kinds[])(struct buffer * b) = {put_mappings, put_children, put_threads,
							   put_modules, put_processes};
	size_t lists = process_maps_held(), spaces = uw_spaces_held();
	struct done done;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		import(kinds[i], 0, &done);
		assert_true(done.result.most_held > 2 * LIMIT);
		assert_false(has_note(&done));
		done_deinit(&done);
		import(kinds[i], LIMIT, &done);
		assert_in_range(done.result.most_held, LIMIT, LIMIT + ONE_RECORD);
		assert_true(has_note(&done));
		done_deinit(&done);
		assert_int_equal(process_maps_held(), lists);
		assert_int_equal(uw_spaces_held(), spaces);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_bounds)};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
