/* test-entry.c - entry.h: parts of a chain, and the outcome of a sample. */
#include "perf/record.h"
#include "session/pipeline/copied-entry.h"
#include "session/pipeline/account.h"
#include "session/pipeline/entry.h"
#include "tests/unit/cmocka.h"

#include <linux/perf_event.h>

static const uint64_t chain[] = {CHAIN_KERNEL, 0xffff1, 0xffff2, CHAIN_USER, 0x10, 0x11, 0x12};

static void test_chain_part(void **state)
{
	const struct entry e = {.chain = chain, .n_chain = ARRAY_SIZE(chain)};
	const struct entry kernel_only = {.chain = chain, .n_chain = 3};
	uint32_t n = 77;

	(void)state;
	assert_ptr_equal(entry_chain_part(&e, CHAIN_KERNEL, &n), &chain[1]);
	assert_int_equal(n, 2);
	assert_ptr_equal(entry_chain_part(&e, CHAIN_USER, &n), &chain[4]);
	assert_int_equal(n, 3);
	assert_null(entry_chain_part(&kernel_only, CHAIN_USER, &n));
	assert_int_equal(n, 0);
	assert_null(entry_chain_part(&(struct entry){0}, CHAIN_USER, &n));
}

static void test_snapshot(void **state)
{
	const uint64_t regs[UW_X86_COUNT] = {1};
	const uint8_t stack[16] = {0};
	const struct entry e = {
		.chain = chain,
		.n_chain = ARRAY_SIZE(chain),
		.regs = regs,
		.stack = stack,
		.stack_full = true,
		.arch = UW_ARCH_X86_64,
		.info = {.stack_len = 16, .tid = 77},
	};
	struct uw_snapshot s;

	(void)state;
	entry_snapshot(&e, &s);
	assert_ptr_equal(s.regs, regs);
	assert_ptr_equal(s.stack, stack);
	assert_int_equal(s.stack_len, 16);
	assert_int_equal(s.thread, 77); /* else its earlier stacks are of no use */
	assert_true(s.stack_full);
	assert_int_equal(s.arch, UW_ARCH_X86_64);
	assert_ptr_equal(s.chain, &chain[4]);
	assert_int_equal(s.n_chain, 3);
}

/* Another ABI's registers cannot be unwound, and are kept for it; a copy that fills its room may go on in memory. */
static void test_of_sample(void **state)
{
	const uint64_t regs[UW_X86_COUNT] = {1};
	const uint8_t stack[16] = {0};
	struct record_sample s = {
		.time = 5,
		.period = 6,
		.pid = 7,
		.tid = 8,
		.cpu = 9,
		.regs = regs,
		.stack = stack,
		.stack_len = 8,
		.stack_room = 16,
		.chain = chain,
		.n_chain = ARRAY_SIZE(chain),
		.regs_abi = PERF_SAMPLE_REGS_ABI_64,
		.cpu_mode = PERF_RECORD_MISC_USER,
	};
	struct entry e;

	(void)state;
	entry_of_sample(&s, UW_ARCH_X86_64, &e);
	assert_int_equal(e.kind, ENTRY_SAMPLE);
	assert_int_equal(e.arch, UW_ARCH_X86_64);
	assert_ptr_equal(e.regs, regs);
	assert_ptr_equal(e.stack, stack);
	assert_ptr_equal(e.chain, chain);
	assert_int_equal(e.n_chain, ARRAY_SIZE(chain));
	assert_false(e.stack_full);
	assert_int_equal(e.info.time, 5);
	assert_int_equal(e.info.weight, 6);
	assert_int_equal(e.info.pid, 7);
	assert_int_equal(e.info.tid, 8);
	assert_int_equal(e.info.cpu, 9);
	assert_int_equal(e.info.stack_len, 8);
	assert_int_equal(e.info.cpu_mode, PERF_RECORD_MISC_USER);
	s.stack_len = 16;
	s.regs_abi = PERF_SAMPLE_REGS_ABI_32;
	entry_of_sample(&s, UW_ARCH_X86_64, &e);
	assert_true(e.stack_full);
	assert_int_equal(e.arch, UW_ARCH_NONE);
	assert_ptr_equal(e.regs, regs);
	s.regs_abi = PERF_SAMPLE_REGS_ABI_NONE; /* a kernel thread */
	entry_of_sample(&s, UW_ARCH_X86_64, &e);
	assert_null(e.regs);
}

/* A copy of nothing: inside execve() there is no user part; at a fault there was one. */
static void test_user_copy(void **state)
{
	uint64_t regs[UW_ARM64_COUNT] = {[UW_X86_IP] = 0x4000, [UW_X86_CX] = 0x3fff};
	struct entry e = {
		.arch = UW_ARCH_X86_64,
		.info = {.cpu_mode = PERF_RECORD_MISC_KERNEL, .stack_len = 8},
	};

	(void)state;
	assert_false(entry_has_user_copy(&e));
	e.regs = regs;
	assert_true(entry_has_user_copy(&e));
	e.info.stack_len = 0;
	assert_true(entry_has_user_copy(&e));
	regs[UW_X86_CX] = 0x4000; /* `syscall` did that */
	assert_false(entry_has_user_copy(&e));
	e.info.cpu_mode = PERF_RECORD_MISC_USER;
	assert_true(entry_has_user_copy(&e));
	e.info.cpu_mode = PERF_RECORD_MISC_KERNEL;
	e.arch = UW_ARCH_AARCH64;
	regs[8] = 64; /* write */
	assert_true(entry_has_user_copy(&e));
	regs[8] = 221; /* execve */
	assert_false(entry_has_user_copy(&e));
	e.arch = UW_ARCH_NONE;
	assert_false(entry_has_user_copy(&e));
}

static struct outcome *outcome_new(size_t n_frames)
{
	struct outcome *o = malloc(sizeof(*o) + n_frames * sizeof(uint64_t));

	assert_non_null(o);
	return o;
}

static void test_outcome(void **state)
{
	const struct entry e = {
		.chain = chain, .n_chain = ARRAY_SIZE(chain), .info = {.pid = 5, .time = 6}};
	uint64_t frames[] = {0x20, 0x21};
	const struct uw_result r = {
		.frames = frames,
		.n_frames = 2,
		.outcome = UW_FAILED,
		.reason = UW_BAD_CFI,
		.stopped_at = 0x21,
	};
	_cleanup_(freep) struct outcome *o = outcome_new(OUTCOME_KERNEL_FRAMES + 2);

	(void)state;
	outcome_fill(o, &e, &r, SKIP_NONE);
	assert_int_equal(o->kind, OUTCOME_SAMPLE);
	assert_int_equal(o->n_kernel, 2);
	assert_int_equal(o->n_user, 2);
	assert_int_equal(o->frames[1], 0xffff2);
	assert_int_equal(o->frames[2], 0x20);
	assert_int_equal(o->result, UW_FAILED);
	assert_int_equal(o->reason, UW_BAD_CFI);
	assert_int_equal(o->stopped_at, 0x21);
	assert_int_equal(o->info.pid, 5);
	outcome_fill(o, &e, NULL, SKIP_PARK_FULL);
	assert_int_equal(o->skipped, SKIP_PARK_FULL);
	assert_int_equal(o->n_kernel + o->n_user, 0);
}

/* A copy that ends before its room is full, and a stack that goes on behind it. */
static void test_absent_page(void **state)
{
	static const struct {
		bool full, other_stack;
		uint8_t outcome, reason;
		bool absent;
	} cases[] = {
		{false, false, UW_CUT, UW_OK, true},	     {true, false, UW_CUT, UW_OK, false},
		{false, true, UW_CUT, UW_OK, false}, /* a goroutine's */
		{false, false, UW_CUT, UW_TOO_DEEP, false},  {false, false, UW_WHOLE, UW_OK, false},
		{false, false, UW_FAILED, UW_MEMORY, false},
	};
	_cleanup_(freep) struct outcome *o = outcome_new(OUTCOME_KERNEL_FRAMES);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct entry e = {.stack_full = cases[i].full};
		const struct uw_result r = {.outcome = cases[i].outcome,
					    .reason = cases[i].reason,
					    .other_stack = cases[i].other_stack};
		struct account a = {0};

		outcome_fill(o, &e, &r, SKIP_NONE);
		assert_int_equal(o->page_absent, cases[i].absent);
		account_outcome(&a, o, UW_MEMORY);
		assert_int_equal(a.page_absent, cases[i].absent);
		assert_int_equal(a.cut, cases[i].outcome == UW_CUT);
	}
}

/* A chain with more kernel frames than there is room for. */
static void test_long_chain(void **state)
{
	enum { N = 700 };
	uint64_t many[N];
	struct entry e = {.chain = many, .n_chain = N};
	_cleanup_(freep) struct outcome *o = outcome_new(OUTCOME_KERNEL_FRAMES);

	(void)state;
	many[0] = CHAIN_KERNEL;
	for (uint64_t i = 1; i < N; i++)
		many[i] = i;
	outcome_fill(o, &e, NULL, SKIP_NONE);
	assert_int_equal(o->n_kernel, OUTCOME_KERNEL_FRAMES);
	assert_int_equal(o->frames[OUTCOME_KERNEL_FRAMES - 1], OUTCOME_KERNEL_FRAMES);
}

/* A stack that is cut: the sample no longer depends on the size of copies; what was accounted stays. */
static void test_shorten(void **state)
{
	struct entry e = {.info = {.stack_len = 4096, .full_copy = 4096}};

	(void)state;
	entry_shorten(&e, 8192); /* it is shorter */
	assert_int_equal(entry_stack_len(&e), 4096);
	assert_int_equal(e.info.full_copy, 4096);
	assert_false(e.stack_full);
	entry_shorten(&e, 1024);
	assert_int_equal(entry_stack_len(&e), 1024);
	assert_int_equal(e.info.stack_len, 4096);
	assert_int_equal(e.info.full_copy, 0);
	assert_true(e.stack_full);
	entry_shorten(&e, 2048);
	assert_int_equal(entry_stack_len(&e), 1024);
}

/* A full copy is no sign of a deep stack where other memory lies behind it. */
static void test_is_deep(void **state)
{
	uint64_t regs[64] = {0}, here = (uintptr_t)__builtin_frame_address(0);
	uint64_t *sp = &regs[UW_ARCH_HOST == UW_ARCH_AARCH64 ? (int)UW_ARM64_SP : (int)UW_X86_SP];
	struct record_sample s = {.pid = 5, .tid = 5, .regs = regs};
	struct entry e = {.info.full_copy = 65528};

	(void)state;
	*sp = here - (1 << 20);
	assert_true(copied_entry_is_deep(&s, &e));
	e.info.full_copy = 8192; /* it can grow */
	assert_false(copied_entry_is_deep(&s, &e));
	e.info.full_copy = 65528;
	*sp = 0xc000010000; /* a goroutine's */
	assert_false(copied_entry_is_deep(&s, &e));
	*sp = here;
	s.tid = 6;
	assert_false(copied_entry_is_deep(&s, &e));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chain_part), cmocka_unit_test(test_snapshot),
		cmocka_unit_test(test_of_sample),  cmocka_unit_test(test_user_copy),
		cmocka_unit_test(test_outcome),	   cmocka_unit_test(test_absent_page),
		cmocka_unit_test(test_long_chain), cmocka_unit_test(test_shorten),
		cmocka_unit_test(test_is_deep),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
