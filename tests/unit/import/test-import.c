/* test-import.c - import.h: perf.data put together by hand, with samples that lie in this program. */
#include "tests/unit/import/import-fixture.h"

static void put_recording(struct buffer *b, uint64_t inode_off)
{
	put_chain_head(b, "x86_64");
	put_own_mapping(b, 7, inode_off);
	for (uint64_t i = 1; i <= 40; i++)
		put_chain_sample(b, i % 4 ? ID_A : ID_B, i * 1000000000, 7);
	put_chain_sample(b, ID_A, 41000000000, 0); /* the idle task */
}

static void test_names(void **state)
{
	const struct import_options options = {.no_inline = true};
	const struct account *a;
	struct buffer b = {0};
	struct done done;

	(void)state;
	put_recording(&b, 0);
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	a = &done.result.summary.account;
	assert_int_equal(a->received, 40);
	assert_int_equal(a->emitted, 30);
	assert_int_equal(a->whole, 30);
	assert_int_equal(a->frames, 60);
	assert_int_equal(a->skipped[SKIP_NOT_IN_SCOPE], 10);
	assert_int_equal(a->idle, 1);
	assert_int_equal(a->weight, 30 * 10101);
	assert_true(account_holds(a));
	assert_string_equal(done.result.event, "cpu-clock");
	assert_int_equal(done.result.frequency, 99);
	assert_true(done.result.summary.duration_s > 37.9 && done.result.summary.duration_s < 38.1);
	assert_true(has_text(&done, "import_leaf"));
	assert_true(has_text(&done, "import_caller"));
	done_deinit(&done);
}

/* Its callchain ends in import_leaf(), which has no frame of its own there, or goes on to where no module is. */
static void put_short_chain(struct buffer *b, uint64_t time, bool goes_on)
{
	const uint64_t leaf = (uint64_t)(uintptr_t)import_leaf + 1;
	const uint64_t words[] = {ID_A, leaf,  7ull << 32 | 7,	time,
				  0,	10101, goes_on ? 3 : 2, (uint64_t)-512,
				  leaf, 16};

	put_record(b, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, words,
		   sizeof(words) - (goes_on ? 0 : 8));
}

static void test_short_chains(void **state)
{
	const struct import_options options = {.no_inline = true};
	struct buffer b = {0};
	struct done done;

	(void)state;
	put_chain_head(&b, "x86_64");
	put_own_mapping(&b, 7, 0);
	for (uint64_t i = 1; i <= 40; i++)
		put_short_chain(&b, i * 1000000000, i % 4);
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	assert_int_equal(done.result.summary.account.failed[UW_NO_MODULE], 30);
	assert_int_equal(done.result.summary.account.failed[UW_NO_UNWIND_INFO], 10);
	assert_true(has_text(&done, "most callchains end after a few frames: the programs have no "
				    "frame pointers; hint: perf record --call-graph dwarf"));
	done_deinit(&done);
}

static void test_no_stacks(void **state)
{
	const struct import_options options = {.no_inline = true};
	const struct perf_event_attr attr = fixture_attr(PERF_COUNT_SW_CPU_CLOCK);
	struct buffer b = {0};
	struct done done;

	(void)state;
	put_event(&b, &attr, ID_A, NULL);
	put_own_mapping(&b, 7, 0);
	for (uint64_t i = 1; i <= 40; i++)
		put_sample(&b, ID_A, i * 1000000000);
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	assert_true(has_text(&done, "the recording has no stacks, only the address of each sample; "
				    "hint: perf record --call-graph dwarf"));
	done_deinit(&done);
}

/* The same bytes each time; nothing of today is in them. */
static void test_deterministic(void **state)
{
	const struct import_options options = {0};
	struct buffer b = {0}, c = {0};
	struct done first, second;

	(void)state;
	put_recording(&b, 0);
	put_recording(&c, 0);
	run(&b, &options, &first);
	run(&c, &options, &second);
	assert_int_equal(first.len, second.len);
	assert_memory_equal(first.data, second.data, first.len);
	done_deinit(&first);
	done_deinit(&second);
}

static void test_other_event(void **state)
{
	const struct import_options options = {.event = "page-faults"};
	struct buffer b = {0};
	struct done done;

	(void)state;
	put_recording(&b, 0);
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	assert_int_equal(done.result.summary.account.emitted, 10);
	assert_int_equal(done.result.summary.account.skipped[SKIP_NOT_IN_SCOPE], 31);
	assert_true(has_text(&done, "31 samples of cpu-clock were left out (-e EVENT takes"));
	done_deinit(&done);
}

/* Another file stands at the path today: its names are not these. */
static void test_replaced_file(void **state)
{
	const struct import_options options = {0};
	struct buffer b = {0};
	struct done done;

	(void)state;
	put_recording(&b, 1);
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	assert_int_equal(done.result.summary.account.emitted, 30);
	assert_false(has_text(&done, "import_leaf"));
	done_deinit(&done);
}

/* A kernel thread's sample has no user part: it is whole with its kernel frames, unsymbolized here. */
static void test_kernel_only(void **state)
{
	const struct import_options options = {0};
	struct buffer b = {0};
	struct done done;

	(void)state;
	put_chain_head(&b, "x86_64");
	put_kernel_sample(&b, 5000000000, 0xffffffff81000010);
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	assert_int_equal(done.result.summary.account.whole, 1);
	assert_int_equal(done.result.summary.account.frames, 1);
	assert_true(has_text(&done, "kernel frames have no names"));
	done_deinit(&done);
}

/* A mapping that is recorded after samples which needed it: these stay without, later ones have it. */
static void test_late_mapping(void **state)
{
	const struct import_options options = {0};
	struct buffer b = {0};
	struct done done;

	(void)state;
	put_chain_head(&b, "x86_64");
	put_chain_sample(&b, ID_A, 1000000000, 7);
	put_round(&b);
	put_chain_sample(&b, ID_A, 2000000000, 7);
	put_round(&b); /* lets the first one go */
	put_own_mapping(&b, 7, 0);
	put_chain_sample(&b, ID_A, 3000000000, 7);
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	assert_int_equal(done.result.summary.account.emitted, 3);
	assert_true(has_text(&done, "[unknown]"));
	assert_true(has_text(&done, "import_leaf"));
	assert_true(has_text(&done, "import_caller"));
	done_deinit(&done);
}

static void check_error(struct buffer *b, const struct import_options *options, const char *word)
{
	struct done done;

	run(b, options, &done);
	assert_true(done.r < 0);
	assert_non_null(strstr(done.error, word));
	assert_int_equal(done.len, 0);
	done_deinit(&done);
}

static void test_refused(void **state)
{
	const struct import_options wrong = {.event = "cycles"}, options = {0};
	struct buffer b = {0};

	(void)state;
	put_recording(&b, 0);
	check_error(&b, &wrong, "no event cycles; it has: cpu-clock page-faults");
	put_chain_head(&b, "riscv64");
	put_chain_sample(&b, ID_A, 1, 7);
	check_error(&b, &options, "was recorded on riscv64");
	buffer_append(&b, "text", 4);
	check_error(&b, &options, "not a perf.data");
	buffer_append(&b, "PERFILE2\x10\0\0\0\0\0\0\0", 16);
	check_error(&b, &options, "no event that is sampled");
}

/* Damage in the middle: what was there before stands, and a note names what is missing. */
static void test_damage(void **state)
{
	const struct import_options options = {0};
	struct buffer b = {0};
	struct done done;

	(void)state;
	put_recording(&b, 0);
	put64(&b, 0);
	put_chain_sample(&b, ID_A, 50000000000, 7);
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	assert_int_equal(done.result.summary.account.emitted, 30);
	assert_true(has_text(&done, "damaged: a record has an impossible size; 96 bytes"));
	done_deinit(&done);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),	     cmocka_unit_test(test_deterministic),
		cmocka_unit_test(test_short_chains), cmocka_unit_test(test_no_stacks),
		cmocka_unit_test(test_other_event),  cmocka_unit_test(test_replaced_file),
		cmocka_unit_test(test_refused),	     cmocka_unit_test(test_kernel_only),
		cmocka_unit_test(test_late_mapping), cmocka_unit_test(test_damage),
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
