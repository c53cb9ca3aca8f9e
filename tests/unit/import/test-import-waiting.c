/* test-import-waiting.c - samples that wait in a group, and for the kernel's names: in the same order, with the same
 * names, whether the recording is of the kernel that runs here or of another one. */
#include "tests/unit/import/import-fixture.h"

/* Each of a thread's names is written, though samples of the first wait when it gets its third. */
static void test_renames_while_waiting(void **state)
{
	const struct import_options options = {0};
	struct buffer b = {0};
	struct done done;

	(void)state;
	put_own_head(&b);
	put_own_mapping(&b, 7, 0);
	put_name(&b, "firstly", 1000000000);
	put_chain_sample(&b, ID_A, 2000000000, 7);
	put_name(&b, "secondo", 3000000000);
	put_chain_sample(&b, ID_A, 4000000000, 7);
	put_name(&b, "thirdly", 5000000000);
	put_chain_sample(&b, ID_A, 6000000000, 7);
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	assert_int_equal(done.result.summary.account.emitted, 3);
	assert_true(has_text(&done, "firstly"));
	assert_true(has_text(&done, "secondo"));
	assert_true(has_text(&done, "thirdly"));
	done_deinit(&done);
}

/* Nothing is lost where mappings change with each sample. */
static void test_many_while_waiting(void **state)
{
	enum { MANY = 3000 };
	const struct import_options options = {0};
	struct buffer b = {0};
	struct done done;

	(void)state;
	put_own_head(&b);
	for (uint64_t i = 1; i <= MANY; i++) {
		put_own_mapping(&b, 7, i % 2);
		put_chain_sample(&b, ID_A, i * 1000000, 7);
	}
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	assert_int_equal(done.result.summary.account.emitted, MANY);
	assert_true(account_holds(&done.result.summary.account));
	done_deinit(&done);
}

/* Three processes by turns, one of which changes its name twice. */
static void put_turns(struct buffer *b, uint64_t n)
{
	for (uint32_t pid = 7; pid < 10; pid++)
		put_own_mapping(b, pid, 0);
	for (uint64_t i = 1; i <= n; i++) {
		if (i % (n / 3) == 1)
			put_name(b,
				 i < n / 3   ? "firstly"
				 : i < n / 2 ? "secondo"
					     : "thirdly",
				 i * 1000000 - 1);
		put_chain_sample(b, ID_A, i * 1000000, 7 + (uint32_t)(i % 3));
	}
}

static void put_waiting(struct buffer *b, uint64_t n)
{
	put_own_head(b);
	put_turns(b, n);
}

/* The text of a sample has all but its time; "count" differs for each. */
static void test_order(void **state)
{
	const struct import_options options = {.no_inline = true};
	struct buffer b = {0}, c = {0}, expected = {0};
	struct done waited, at_once;
	char *text;

	(void)state;
	put_waiting(&b, 300);
	put_chain_head(&c, "x86_64"); /* without a host name */
	put_turns(&c, 300);
	run(&b, &options, &waited);
	run(&c, &options, &at_once);
	for (uint64_t i = 1; i <= 300; i++)
		buffer_printf(&expected, "%lu/%lu cpu 0 count %lu: import_caller;import_leaf\n",
			      7 + i % 3, 7 + i % 3, i * 10101);
	buffer_append(&expected, "", 1);
	text = samples_text(&waited);
	assert_string_equal(text, (char *)expected.data);
	free(text);
	text = samples_text(&at_once);
	assert_string_equal(text, (char *)expected.data);
	free(text);
	buffer_deinit(&expected);
	done_deinit(&waited);
	done_deinit(&at_once);
}

/* A disk that is full: the references of samples that wait are released (the sanitizer reports a leak), and the error
 * is the disk's. */
static void test_full_disk(void **state)
{
	const struct import_options options = {.no_inline = true};

	(void)state;
	for (size_t room = 0; room < 12000; room += 1777) {
		struct sink_small s = {{.write = small_write, .flush = small_flush}, room};
		struct import_result result;
		struct buffer b = {0};
		char error[256];
		int fd;

		put_waiting(&b, 600);
		fd = fixture_fd(&b);
		assert_int_equal(import_run(fd, &options, &s.sink, &result, error, sizeof(error)),
				 -ENOSPC);
		assert_true(result.summary.account.emitted < 600);
		import_result_deinit(&result);
		close(fd);
		buffer_deinit(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_renames_while_waiting),
		cmocka_unit_test(test_many_while_waiting),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_full_disk),
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
