/* test-import-unwind.c - stacks of an import, group by group and with a thread: all are written, in
 * order, the same bytes each time, and an early end leaves nothing behind. */
#include <errno.h>

#include "tests/unit/import/import-stacks.h"

static void check_counts(const struct done *done, size_t n)
{
	const struct account *a = &done->result.summary.account;

	assert_int_equal(done->r, 0);
	assert_int_equal(a->received, n);
	assert_int_equal(a->emitted, n);
	assert_true(account_holds(a));
}

/* Numbers of samples around the size of a group and of two. */
static void test_all_written(void **state)
{
	static const size_t numbers[] = {0, 1, 15, 16, 17, 127, 128, 129, 255, 256, 257, MANY};
	const struct import_options options = {.no_inline = true};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		struct buffer b = {0};
		struct done done;

		put_many(&b, numbers[i]);
		run(&b, &options, &done);
		check_counts(&done, numbers[i]);
		assert_int_equal(has_text(&done, "unwind_leaf"), numbers[i] > 0);
		assert_int_equal(has_text(&done, "unwind_root"), numbers[i] > 0);
		done_deinit(&done);
	}
}

static void test_same_bytes(void **state)
{
	const struct import_options options = {.no_inline = true};
	struct buffer b = {0}, again = {0};
	struct done first, second;

	(void)state;
	put_many(&b, MANY);
	put_many(&again, MANY);
	run(&b, &options, &first);
	run(&again, &options, &second);
	/* but for what it cost, at the end */
	assert_true(first.len > 10000 && second.len > 10000);
	assert_memory_equal(first.data, second.data, min_u64(first.len, second.len) - 4096);
	done_deinit(&first);
	done_deinit(&second);
}

/* The thread's engine and that of main alone find the same stacks. */
static void test_as_without_thread(void **state)
{
	const struct import_options native = {.no_inline = true};
	const struct import_options libdw = {
		.no_inline = true, .engine_chosen = true, .engine = UW_ENGINE_LIBDW};
	struct buffer b = {0}, again = {0};
	struct done with, without;

	(void)state;
	put_many(&b, 300);
	put_many(&again, 300);
	run(&b, &native, &with);
	run(&again, &libdw, &without);
	check_counts(&with, 300);
	check_counts(&without, 300);
	assert_true(with.result.summary.account.frames >= 600);
	assert_int_equal(with.result.summary.account.frames, without.result.summary.account.frames);
	done_deinit(&with);
	done_deinit(&without);
}

#ifdef __SANITIZE_ADDRESS__
enum { FEW = 200 }; /* each sample reads its modules again */
#else
enum { FEW = MANY };
#endif
/* With no room for any module each group loads its modules again. */
static void test_small_caches(void **state)
{
	static const enum uw_engine_kind engines[] = {UW_ENGINE_NATIVE, UW_ENGINE_LIBDW,
						      UW_ENGINE_LIBUNWIND};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(engines); i++) {
		const struct import_options all = {
			.no_inline = true, .engine_chosen = true, .engine = engines[i]};
		struct import_options none = all;
		struct buffer b = {0}, again = {0};
		struct done with, without;

		none.cache_bytes = 1;
		put_many(&b, FEW);
		put_many(&again, FEW);
		run(&b, &all, &with);
		run(&again, &none, &without);
		check_counts(&with, FEW);
		check_counts(&without, FEW);
		assert_int_equal(with.result.summary.account.whole,
				 without.result.summary.account.whole);
		assert_int_equal(with.result.summary.account.frames,
				 without.result.summary.account.frames);
		assert_true(has_text(&without, "unwind_leaf"));
		assert_true(has_text(&without, "unwind_root"));
		assert_int_equal(without.result.summary.n_unsymbolized, 0);
		assert_true(with.result.most_cached > 0);
		done_deinit(&with);
		done_deinit(&without);
	}
}

/* A disk that is full at any moment: groups are under way then. */
static void test_full_disk(void **state)
{
	const struct import_options options = {.no_inline = true};

	(void)state;
	for (size_t room = 0; room < 30000; room += 2911) {
		struct sink_small s = {{.write = small_write, .flush = small_flush}, room};
		struct import_result result;
		struct buffer b = {0};
		char error[256];
		int fd;

		put_many(&b, MANY);
		fd = fixture_fd(&b);
		assert_int_equal(import_run(fd, &options, &s.sink, &result, error, sizeof(error)),
				 -ENOSPC);
		import_result_deinit(&result);
		close(fd);
		buffer_deinit(&b);
	}
}

/* Where it is and its caller take the stack pointer alone; nothing is taken for a whole stack without
 * frames. */
static void test_few_registers(void **state)
{
	static const uint64_t masks[] = {1 << REG_SP | 1 << REG_IP,
					 1 << 6 | 1 << REG_SP | 1 << REG_IP, 1 << REG_IP};
	const struct import_options options = {.no_inline = true};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(masks); i++) {
		struct buffer b = {0};
		struct done done;

		recorded_regs = masks[i];
		put_many(&b, 20);
		run(&b, &options, &done);
		check_counts(&done, 20);
		assert_true(done.result.summary.account.frames >= 20);
		assert_true(has_text(&done, "unwind_leaf"));
		/* no stack pointer: no caller */
		assert_int_equal(has_text(&done, "unwind_root"), i < 2);
		assert_true(has_text(&done, i < 2 ? "not all registers were recorded"
						  : "no stack pointer or no instruction pointer"));
		done_deinit(&done);
	}
	recorded_regs = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_written), cmocka_unit_test(test_few_registers),
		cmocka_unit_test(test_same_bytes),  cmocka_unit_test(test_as_without_thread),
		cmocka_unit_test(test_full_disk),   cmocka_unit_test(test_small_caches),
	};

	log_level = LOG_LEVEL_QUIET;
#ifndef __x86_64__
	print_message("skip: the stacks are x86-64's\n");
	return 77;
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
