/* test-import-sample.c - the samples of a file as they stand in the trace: order, sums of weights, the
 * registers that the engines take, and those that are left out. */
#include "tests/unit/import/import-fixture.h"

enum { REG_SP = 7, REG_IP = 8, STACK_WORDS = 32 }; /* x86-64's numbers of perf_regs.h */

static const struct import_options plain = {.no_inline = true};

/* In import_leaf alone; of FIXTURE_TYPE. */
static void put_address(struct buffer *b, uint64_t time, uint32_t pid, uint32_t tid, uint32_t cpu,
			uint64_t period)
{
	const uint64_t words[] = {
		ID_A,  (uint64_t)(uintptr_t)import_leaf + 1, (uint64_t)tid << 32 | pid, time, cpu,
		period};

	put_record(b, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, words, sizeof(words));
}

static void put_head(struct buffer *b, uint64_t type, uint64_t regs)
{
	struct perf_event_attr attr = fixture_attr(PERF_COUNT_SW_CPU_CLOCK);

	attr.sample_type = type;
	attr.sample_period = 1000;
	if (type & PERF_SAMPLE_REGS_USER)
		attr.sample_regs_user = regs;
	if (type & PERF_SAMPLE_STACK_USER)
		attr.sample_stack_user = STACK_WORDS * 8;
	put_event(b, &attr, ID_A, "cpu-clock");
	put_feature(b, 6, "x86_64");
}

/* The sum of a CPU's weights, the sample's too; the reader gets each sample's back as a difference. */
static void test_sums(void **state)
{
	struct buffer b = {0};
	struct done done;

	(void)state;
	put_head(&b, FIXTURE_TYPE, 0);
	put_own_mapping(&b, 7, 0);
	put_address(&b, 1000000, 7, 8, 0, 10);
	put_address(&b, 2000000, 7, 7, 1, 20);
	put_address(&b, 3000000, 7, 7, 0, 30);
	put_address(&b, 4000000, 7, 7, 0, 1);
	put_address(&b, 5000000, 7, 7, 1, 1);
	run(&b, &plain, &done);
	assert_int_equal(done.r, 0);
	assert_samples(&done, "7/8 cpu 0 count 10: import_leaf\n"
			      "7/7 cpu 1 count 20: import_leaf\n"
			      "7/7 cpu 0 count 40: import_leaf\n"
			      "7/7 cpu 0 count 41: import_leaf\n"
			      "7/7 cpu 1 count 21: import_leaf\n");
	assert_int_equal(done.result.summary.account.weight, 62);
	done_deinit(&done);
}

/* Where each CPU wrote its own: the trace is by time, over groups' ends too. */
static void test_order(void **state)
{
	enum { MANY = 400 };
	struct buffer b = {0}, expected = {0};
	struct done done;
	char *text;

	(void)state;
	put_head(&b, FIXTURE_TYPE, 0);
	for (uint32_t cpu = 0; cpu < 2; cpu++)
		for (uint64_t i = 0; i < MANY; i++)
			put_address(&b, 1000000 * (2 * i + cpu + 1), 7, 7, cpu, 1);
	run(&b, &plain, &done);
	assert_int_equal(done.r, 0);
	for (uint64_t i = 0; i < MANY; i++)
		for (uint32_t cpu = 0; cpu < 2; cpu++)
			buffer_printf(&expected, "7/7 cpu %u count %lu: ?\n", cpu, i + 1);
	buffer_append(&expected, "", 1);
	text = samples_text(&done);
	assert_string_equal(text, (char *)expected.data);
	free(text);
	buffer_deinit(&expected);
	assert_true(account_holds(&done.result.summary.account));
	done_deinit(&done);
}

static void check_idle(bool idle, uint64_t emitted, uint64_t left_out)
{
	const struct import_options options = {.no_inline = true, .idle = idle};
	struct buffer b = {0};
	struct done done;

	put_head(&b, FIXTURE_TYPE, 0);
	put_address(&b, 1000000, 0, 0, 0, 100);
	put_address(&b, 2000000, 7, 7, 0, 10);
	put_address(&b, 3000000, 0, 0, 1, 23);
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	assert_int_equal(done.result.summary.account.emitted, emitted);
	assert_int_equal(done.result.summary.account.idle, left_out);
	assert_int_equal(done.result.summary.account.idle_weight, 123);
	assert_int_equal(done.result.summary.account.weight,
			 10); /* the time of no process is not */
	done_deinit(&done);
}

/* A thread that is gone has no number any more (-1): the kernel still writes its last samples.  They
 * count, and belong to no process. */
static void test_gone(void **state)
{
	struct buffer b = {0};
	struct done done;

	(void)state;
	put_head(&b, FIXTURE_TYPE, 0);
	put_own_mapping(&b, 7, 0);
	put_address(&b, 1000000, 7, 7, 0, 10);
	put_address(&b, 2000000, UINT32_MAX, UINT32_MAX, 0, 20);
	put_address(&b, 3000000, 7, UINT32_MAX, 0, 30);
	put_address(&b, 4000000, 7, 7, 0, 1);
	run(&b, &plain, &done);
	assert_int_equal(done.r, 0);
	assert_samples(&done, "7/7 cpu 0 count 10: import_leaf\n"
			      "4294967295/4294967295 cpu 0 count 30: ?\n"
			      "7/4294967295 cpu 0 count 60: import_leaf\n"
			      "7/7 cpu 0 count 61: import_leaf\n");
	assert_int_equal(done.result.summary.account.emitted, 4);
	assert_int_equal(done.result.damage.bad_records, 0);
	done_deinit(&done);
}

/* What is kept for each CPU must not grow with the file. */
static void test_many_cpus(void **state)
{
	static const uint32_t cpus[] = {0, 65535, 65536, UINT32_MAX};
	struct buffer b = {0};
	struct done done;

	(void)state;
	put_head(&b, FIXTURE_TYPE, 0);
	for (uint64_t i = 0; i < ARRAY_SIZE(cpus); i++) {
		const uint64_t words[] = {1000000 * (i + 1),
					  ID_A,
					  0, /* trailer: */
					  7ull << 32 | 7,
					  1000000 * (i + 1),
					  cpus[i],
					  ID_A};

		put_address(&b, 1000000 * (i + 1), 7, 7, cpus[i], 10);
		put_record(&b, PERF_RECORD_THROTTLE, 0, words, sizeof(words));
	}
	run(&b, &plain, &done);
	assert_int_equal(done.r, 0);
	assert_samples(&done, "7/7 cpu 0 count 10: ?\n"
			      "7/7 cpu 65535 count 10: ?\n");
	assert_int_equal(done.result.damage.bad_records, 4);
	assert_true(account_holds(&done.result.summary.account));
	done_deinit(&done);
}

static void test_idle(void **state)
{
	(void)state;
	check_idle(false, 1, 2);
	check_idle(true, 3, 0);
}

/* A chain that is longer than its record, and what comes behind it. */
static void test_damaged_sample(void **state)
{
	const uint64_t words[] = {ID_A, 0, 7ull << 32 | 7, 2000000, 0, 1, 1000, 0};
	struct buffer b = {0};
	struct done done;

	(void)state;
	put_head(&b, CHAIN_TYPE, 0);
	put_own_mapping(&b, 7, 0);
	put_chain_sample(&b, ID_A, 1000000, 7);
	put_record(&b, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, words, sizeof(words));
	put_chain_sample(&b, ID_A, 3000000, 7);
	run(&b, &plain, &done);
	assert_int_equal(done.r, 0);
	assert_samples(&done, "7/7 cpu 0 count 10101: import_caller;import_leaf\n"
			      "7/7 cpu 0 count 20202: import_caller;import_leaf\n");
	assert_true(has_text(&done, "1 damaged records were left out"));
	done_deinit(&done);
}

/* ---- registers and stacks ---- */

#define STACK_TYPE (FIXTURE_TYPE | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER)

/* In import_leaf, with its return address on top of the stack; no frame above. */
static void put_stack(struct buffer *b, uint64_t regs, uint64_t abi)
{
	const uint64_t leaf = (uint64_t)(uintptr_t)import_leaf;
	struct buffer body = {0};

	put64(&body, ID_A);
	put64(&body, leaf);
	put64(&body, 7ull << 32 | 7);
	put64(&body, 1000000);
	put64(&body, 0);
	put64(&body, 1);
	put64(&body, abi);
	for (unsigned bit = 0; bit < 64; bit++)
		if (regs >> bit & 1)
			put64(&body, bit == REG_SP   ? 0x7fff00000000
				     : bit == REG_IP ? leaf
						     : 0xbad0000 + bit);
	put64(&body, STACK_WORDS * 8);
	for (size_t i = 0; i < STACK_WORDS; i++)
		put64(&body, i == 0 ? (uint64_t)(uintptr_t)import_caller + 9 : 0);
	put64(&body, STACK_WORDS * 8);
	put_record(b, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, body.data, body.len);
	buffer_deinit(&body);
}

static void run_stack(uint64_t regs, uint64_t abi, struct done *ret_done)
{
	struct buffer b = {0};

	put_head(&b, STACK_TYPE, regs);
	put_own_mapping(&b, 7, 0);
	put_stack(&b, regs, abi);
	run(&b, &plain, ret_done);
	assert_int_equal(ret_done->r, 0);
	assert_int_equal(ret_done->result.summary.account.emitted, 1);
}

static void check_walk(const struct done *done)
{
	char *text = samples_text(done);

	assert_non_null(strstr(text, "import_caller;import_leaf\n"));
	free(text);
}

/* Segment registers and flags lie between those that are wanted. */
static void test_more_registers(void **state)
{
	struct done done;

	(void)state;
#ifndef __x86_64__
	skip();
#endif
	run_stack(uw_arch_regs_mask(UW_ARCH_X86_64), PERF_SAMPLE_REGS_ABI_64, &done);
	check_walk(&done);
	done_deinit(&done);
	run_stack(uw_arch_regs_known(UW_ARCH_X86_64), PERF_SAMPLE_REGS_ABI_64, &done);
	check_walk(&done);
	done_deinit(&done);
}

static void test_32_bits(void **state)
{
	struct done done;

	(void)state;
	run_stack(uw_arch_regs_mask(UW_ARCH_X86_64), PERF_SAMPLE_REGS_ABI_32, &done);
	assert_int_equal(done.result.summary.account.failed[UW_ABI], 1);
	assert_int_equal(done.result.summary.account.whole, 0);
	done_deinit(&done);
}

/* The kernel was interrupted, and there is no chain: its address stands for its half. */
static void test_kernel_address(void **state)
{
	const uint64_t words[] = {
		ID_A, 0xffffffff81000010, 7ull << 32 | 7, 1000000, 0, 1, PERF_SAMPLE_REGS_ABI_NONE,
		0,
	};
	struct buffer b = {0};
	struct done done;

	(void)state;
	put_head(&b, STACK_TYPE, uw_arch_regs_mask(UW_ARCH_X86_64));
	put_record(&b, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL, words, sizeof(words));
	run(&b, &plain, &done);
	assert_int_equal(done.r, 0);
	assert_int_equal(done.result.summary.account.frames, 1);
	assert_int_equal(done.result.summary.account.whole, 1);
	done_deinit(&done);
}

/* A guest's addresses are not the host process's, whatever is mapped there. */
static void test_guests(void **state)
{
	static const uint16_t modes[] = {PERF_RECORD_MISC_GUEST_KERNEL,
					 PERF_RECORD_MISC_GUEST_USER};
	const struct import_options options = {.no_inline = true};
	const uint64_t leaf = (uint64_t)(uintptr_t)import_leaf + 1;
	/* the last: PERF_CONTEXT_GUEST_USER and what lies behind it */
	const uint64_t words[] = {ID_A, leaf, 7ull << 32 | 7,  1000000000, 0,
				  1,	2,    (uint64_t)-2560, leaf};
	struct buffer b = {0};
	struct done done;

	(void)state;
	put_chain_head(&b, "x86_64");
	put_own_mapping(&b, 7, 0);
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++)
		put_record(&b, PERF_RECORD_SAMPLE, modes[i], words, sizeof(words));
	put_record(&b, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, words, sizeof(words));
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	assert_int_equal(done.result.summary.account.emitted, 3);
	assert_int_equal(done.result.summary.account.whole, 0);
	assert_int_equal(done.result.summary.account.failed[UW_NO_USER_STATE], 3);
	assert_true(has_text(&done, "2 samples are of a virtual machine guest"));
	assert_false(has_text(&done, "import_leaf"));
	done_deinit(&done);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_guests),	       cmocka_unit_test(test_sums),
		cmocka_unit_test(test_order),	       cmocka_unit_test(test_gone),
		cmocka_unit_test(test_idle),	       cmocka_unit_test(test_damaged_sample),
		cmocka_unit_test(test_more_registers), cmocka_unit_test(test_32_bits),
		cmocka_unit_test(test_kernel_address), cmocka_unit_test(test_many_cpus),
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
