/* test-perfdata-ahead.c - a file that is read by a thread: the same records, each whole; cut files;
 * an early end; errors and the end, again and again. */
#include <errno.h>
#include <fcntl.h>

#include "perf/perfdata/perfdata-private.h"
#include "tests/unit/perf/perfdata/perfdata-fixture.h"

enum { N = 400, WORDS_MAX = 8190 };

/* A record's size follows from its time: 6 to 8,190 words, so that most cross a block's end. */
static size_t words_of(uint64_t time)
{
	return time % 7 == 0 ? WORDS_MAX : 6 + time * 997 % 8000;
}

static void put_large_sample(struct buffer *b, uint64_t time)
{
	static uint64_t words[WORDS_MAX];
	const uint64_t head[] = {ID_A, 0x401000, 7ull << 32 | 7, time, 0, 1};

	memcpy(words, head, sizeof(head));
	for (size_t i = ARRAY_SIZE(head); i < words_of(time); i++)
		words[i] = time << 32 | i;
	put_record(b, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, words, words_of(time) * 8);
}

static void check_record(const struct perfdata_item *item, uint64_t time)
{
	const uint64_t *words = (const void *)(item->record + 1);

	assert_int_equal((uintptr_t)words % 8, 0);
	assert_int_equal(item->time, time);
	assert_int_equal(item->record->size, 8 + words_of(time) * 8);
	for (size_t i = 6; i < words_of(time); i++)
		if (words[i] != (time << 32 | i))
			fail_msg("record %lu, word %zu", time, i);
}

/* A whole file of N records, without its last @cut bytes. */
static int make_file(size_t cut)
{
	struct buffer data = {0}, b = {0};
	int fd;

	for (uint64_t i = 1; i <= N; i++) {
		put_large_sample(&data, i);
		if (i % 20 == 0)
			put_round(&data);
	}
	assert_true(data.len > 8 << 20); /* else nothing would be read ahead */
	put_file(&b, &data, 0, NULL, NULL);
	b.len -= cut;
	fd = fixture_fd(&b);
	buffer_deinit(&data);
	buffer_deinit(&b);
	return fd;
}

static void read_all(size_t cut, const struct perfdata_limits *limits, uint64_t expected,
		     const char *damage)
{
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	struct perfdata_item item;
	char error[256];
	int fd = make_file(cut);
	uint64_t n = 0;

	assert_int_equal(perfdata_new(fd, limits, &pd, error, sizeof(error)), 0);
	while (perfdata_next(pd, &item) == 0) {
		check_record(&item, ++n);
		perfdata_put(pd, item.block);
	}
	assert_int_equal(n, expected);
	assert_int_equal(perfdata_next(pd, &item), PERFDATA_END);
	if (damage)
		assert_string_equal(perfdata_counts(pd)->damage, damage);
	else
		assert_null(perfdata_counts(pd)->damage);
	assert_int_equal(perfdata_held(pd) > 1 << 20, false);
	close(fd);
}

static void test_whole(void **state)
{
	(void)state;
	read_all(0, NULL, N, NULL);
}

/* Pieces shorter than a record, than its head; more than there is room for. */
static void test_pieces(void **state)
{
	static const size_t pieces[] = {4096, 1000, 65535, SIZE_MAX};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++)
		read_all(0, &(struct perfdata_limits){.piece = pieces[i]}, N, NULL);
}

/* Which file is read ahead is a limit's matter. */
static void test_threshold(void **state)
{
	static const struct {
		uint64_t limit;
		bool ahead;
	} cases[] = {{0, false}, {56 * 3 + 1, false}, {56 * 3, true}, {1, true}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
		struct buffer data = {0}, b = {0};
		struct perfdata_item item;
		char error[256];
		int fd;

		for (uint64_t time = 1; time <= 3; time++)
			put_sample(&data, ID_A, time);
		assert_int_equal(data.len, 3 * 56);
		put_file(&b, &data, 0, NULL, NULL);
		fd = fixture_fd(&b);
		assert_int_equal(perfdata_new(fd,
					      &(struct perfdata_limits){.ahead = cases[i].limit},
					      &pd, error, sizeof(error)),
				 0);
		for (uint64_t time = 1; time <= 3; time++) {
			assert_int_equal(perfdata_next(pd, &item), 0);
			assert_int_equal(item.time, time);
			perfdata_put(pd, item.block);
		}
		assert_int_equal(perfdata_next(pd, &item), PERFDATA_END);
		assert_int_equal(pd->ahead != NULL, cases[i].ahead);
		close(fd);
		buffer_deinit(&data);
		buffer_deinit(&b);
	}
}

/* Records behind the last round are given out, but not the one that is cut. */
static void test_cut(void **state)
{
	(void)state;
	/* the round, and a bit of a record */
	read_all(8 + 16, NULL, N - 1, "the file ends too early");
}

/* A reader that stops early does not wait for the rest. */
static void test_freed_early(void **state)
{
	(void)state;
	for (uint64_t stop = 0; stop < 60; stop += 13) {
		_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
		struct perfdata_item item;
		char error[256];
		int fd = make_file(0);

		assert_int_equal(perfdata_new(fd, NULL, &pd, error, sizeof(error)), 0);
		for (uint64_t i = 1; i <= stop; i++) {
			assert_int_equal(perfdata_next(pd, &item), 0);
			check_record(&item, i); /* and keeps them all */
		}
		pd = perfdata_free(pd);
		close(fd);
	}
}

/* An error is returned by each call from then on, when there is no thread any more. */
static void test_read_error(void **state)
{
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	struct perfdata_item item;
	char error[256];
	int fd = make_file(0), directory = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	(void)alarm(60); /* it would wait without end */
	assert_int_equal(perfdata_new(fd, NULL, &pd, error, sizeof(error)), 0);
	assert_int_equal(dup2(directory, fd), fd); /* cannot be read */
	for (int i = 0; i < 10; i++)
		assert_int_equal(perfdata_next(pd, &item), -EISDIR);
	assert_int_equal(perfdata_held(pd), 0);
	(void)alarm(0);
	close(directory);
	close(fd);
}

static void test_end_again(void **state)
{
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	struct perfdata_item item;
	char error[256];
	int fd = make_file(0);

	(void)state;
	(void)alarm(60); /* it would wait without end */
	assert_int_equal(perfdata_new(fd, NULL, &pd, error, sizeof(error)), 0);
	while (perfdata_next(pd, &item) == 0)
		perfdata_put(pd, item.block);
	for (int i = 0; i < 10; i++) {
		uint32_t block;
		size_t len = 1;

		assert_int_equal(perfdata_ahead_next(pd, &block, &len), 0);
		assert_int_equal(len, 0);
		perfdata_put(pd, block);
	}
	(void)alarm(0);
	close(fd);
}

/* The records as they lie in the file, with those of perf itself, before any order is made of them. */
static void test_input(void **state)
{
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	struct perfdata_item item;
	struct record_at at;
	char error[256];
	int fd = make_file(0), r;
	uint64_t n = 0;

	(void)state;
	assert_int_equal(perfdata_new(fd, NULL, &pd, error, sizeof(error)), 0);
	assert_int_equal(perfdata_next(pd, &item), 0); /* begins, and reads some */
	perfdata_put(pd, item.block);
	assert_int_equal(perfdata_zstd_bytes(pd->zstd), 0); /* nothing is compressed */
	while ((r = perfdata_input(pd, &at)) == 0) {
		const uint64_t *words = (const void *)(at.record + 1);

		if (at.record->type == PERFDATA_FINISHED_ROUND) {
			assert_int_equal(n % 20, 0);
		} else {
			assert_true(!n || words[3] == n + 1);
			n = words[3];
			assert_int_equal(at.record->size, 8 + words_of(n) * 8);
		}
	}
	assert_int_equal(r, STREAM_DRY);
	assert_int_equal(n, N);
	close(fd);
}

/* ---- copies of stacks, of which a thread leaves out what is not in use ---- */

enum { STACKS = 300, ROOM = 60000, WEIGHT = 77 };
#ifdef __SANITIZE_ADDRESS__
enum { CASES_STEP = 5 }; /* no divisor of their number: each cut and each size, not all pairs */
#else
enum { CASES_STEP = 1 };
#endif

/* In use: nothing, bytes that are not words, all but a word, all. */
static uint64_t used_of(uint64_t time)
{
	static const uint64_t special[] = {0, 1, 4095, ROOM - 9, ROOM - 8, ROOM - 7, ROOM};

	return time % 3 ? time * 7919 % ROOM : special[time / 3 % ARRAY_SIZE(special)];
}

/* More callchain than a reader looks at in one piece, now and then. */
static size_t chain_of(uint64_t time)
{
	return time % 50 == 0 ? 600 : time % 5;
}

static void put_stack(struct buffer *b, uint64_t time)
{
	struct buffer body = {0};
	const uint64_t head[] = {ID_A, 0x401000, 7ull << 32 | 7, time, 0, 1, chain_of(time)};

	buffer_append(&body, head, sizeof(head));
	for (size_t i = 0; i < chain_of(time); i++)
		put64(&body, time << 16 | i);
	put64(&body, PERF_SAMPLE_REGS_ABI_64);
	put64(&body, time); /* one register */
	put64(&body, ROOM);
	for (uint64_t i = 0; i < ROOM / 8; i++)
		put64(&body, time << 32 | i);
	put64(&body, used_of(time));
	put64(&body, WEIGHT);
	put_record(b, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, body.data, body.len);
	buffer_deinit(&body);
}

static int make_stacks(uint64_t cut)
{
	const size_t entry = sizeof(struct perf_event_attr) + 16;
	struct buffer data = {0}, b = {0};
	int fd;

	for (uint64_t i = 1; i <= STACKS; i++) {
		put_stack(&data, i);
		if (i % 7 == 0)
			put_comm(&data, ID_A, i);
		if (i % 20 == 0)
			put_round(&data);
	}
	put_file(&b, &data, 0, NULL, NULL);
	for (size_t i = 0; i < 2; i++) {
		struct perf_event_attr attr = fixture_attr(i);

		attr.sample_type |= PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER |
				    PERF_SAMPLE_STACK_USER | PERF_SAMPLE_WEIGHT;
		attr.sample_regs_user = 1;
		attr.sample_stack_user = ROOM;
		memcpy(b.data + 104 + i * entry, &attr, sizeof(attr));
	}
	b.len -= cut;
	fd = fixture_fd(&b);
	buffer_deinit(&data);
	buffer_deinit(&b);
	return fd;
}

static void check_stack(const struct perfdata_item *item)
{
	const uint64_t used = used_of(item->time);
	struct record_sample s;

	assert_int_equal((uintptr_t)item->record % 8, 0);
	assert_int_equal(record_parse_sample(item->layout, item->record, &s), 0);
	assert_int_equal(s.n_chain, chain_of(item->time));
	for (size_t i = 0; i < s.n_chain; i++)
		assert_int_equal(s.chain[i], item->time << 16 | i);
	assert_int_equal(s.regs[0], item->time);
	assert_int_equal(s.stack_len, used);
	assert_int_equal(s.stack_len == s.stack_room, used == ROOM);
	for (uint64_t at = 0; at + 8 <= used; at += 8) {
		uint64_t word;

		memcpy(&word, s.stack + at, sizeof(word));
		if (word != (item->time << 32 | at / 8))
			fail_msg("stack of %lu, at %lu", item->time, at);
	}
}

/* Its samples and its counts.  *ret_held: the most bytes of blocks. */
static struct perfdata_counts read_stacks(uint64_t cut, const struct perfdata_limits *limits,
					  size_t *ret_held)
{
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	struct perfdata_item item;
	char error[256];
	int fd = make_stacks(cut);

	*ret_held = 0;
	assert_int_equal(perfdata_new(fd, limits, &pd, error, sizeof(error)), 0);
	while (perfdata_next(pd, &item) == 0) {
		if (item.record->type == PERF_RECORD_SAMPLE)
			check_stack(&item);
		*ret_held = max_u64(*ret_held, perfdata_held(pd));
		perfdata_put(pd, item.block);
	}
	close(fd);
	return *perfdata_counts(pd);
}

/* As the file without a thread, whatever the pieces are and wherever the file ends. */
static void test_stacks(void **state)
{
	static const uint64_t cuts[] = {0, 8, 9, 100, 4000, 30000, 60100, 120500, 1000000};
	static const size_t pieces[] = {0, 60800, 65535, 100000};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cuts) * ARRAY_SIZE(pieces); i += CASES_STEP) {
		const uint64_t cut = cuts[i % ARRAY_SIZE(cuts)];
		struct perfdata_counts plain, ahead;
		size_t held, most;

		plain = read_stacks(cut, &(struct perfdata_limits){.ahead = UINT64_MAX}, &most);
		ahead = read_stacks(
			cut, &(struct perfdata_limits){.piece = pieces[i / ARRAY_SIZE(cuts)]},
			&held);
		assert_true(plain.samples == STACKS || cut);
		assert_int_equal(plain.samples, ahead.samples);
		assert_int_equal(plain.records, ahead.records);
		assert_int_equal(plain.rounds, ahead.rounds);
		assert_int_equal(plain.bytes, ahead.bytes);
		assert_int_equal(plain.unread_bytes, ahead.unread_bytes);
		assert_int_equal(!plain.damage, !ahead.damage);
		if (!pieces[i / ARRAY_SIZE(cuts)])
			assert_true(held < most);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),	    cmocka_unit_test(test_cut),
		cmocka_unit_test(test_freed_early), cmocka_unit_test(test_read_error),
		cmocka_unit_test(test_end_again),   cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_threshold),   cmocka_unit_test(test_input),
		cmocka_unit_test(test_stacks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
