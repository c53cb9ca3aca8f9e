/* test-wait-stack.c - waits.h: guesses of the frame pointer, and stacks of no use. */
#include "session/pipeline/wait-reason.h"
#include "session/pipeline/waits.h"
#include "tests/unit/cmocka.h"

#define SP 0x7ffd00001000ull
#define CODE 0x401000ull

static void test_fp(void **state)
{
	/* [0] a local; [1] points into the stack, and no code follows; [3] a frame: [6], which leads up to [9] */
	uint64_t stack[12] = {
		7, SP + 8 * 9, 5, SP + 8 * 6, CODE, 0, SP + 8 * 9, CODE + 64, 1, 0, CODE + 128, 2,
	};

	(void)state;
	assert_int_equal(wait_stack_fp((uint8_t *)stack, sizeof(stack), SP), SP + 8 * 3);
	/* downwards, to itself, unaligned, behind the copy: no frame pointers */
	stack[3] = SP;
	stack[6] = SP + 8 * 6;
	assert_int_equal(wait_stack_fp((uint8_t *)stack, sizeof(stack), SP), 0);
	stack[3] = SP + 8 * 6 + 1;
	assert_int_equal(wait_stack_fp((uint8_t *)stack, sizeof(stack), SP), 0);
	stack[3] = SP + 8 * 11;
	assert_int_equal(wait_stack_fp((uint8_t *)stack, sizeof(stack), SP), 0);
	stack[3] = UINT64_MAX - 7;
	assert_int_equal(wait_stack_fp((uint8_t *)stack, sizeof(stack), SP), 0);
	for (size_t len = 0; len < 16; len++)
		assert_int_equal(wait_stack_fp((uint8_t *)stack, len, SP), 0);
}

static void test_entry(void **state)
{
	uint64_t stack[4] = {0}, regs[UW_X86_COUNT];
	struct load_answer a = {
		.request = {.kind = LOAD_WAIT, .pid = 7, .tag = 8},
		.wait = {.number = -1, .sp = SP, .pc = CODE},
		.wait_until = 99,
		.stack = (uint8_t *)stack,
		.stack_len = sizeof(stack) - 3,
	};
	struct entry e;

	(void)state;
	if (UW_ARCH_HOST != UW_ARCH_X86_64)
		skip();
	assert_true(wait_stack_entry(&a, regs, &e));
	assert_int_equal(e.info.pid, 7);
	assert_int_equal(e.info.tid, 8);
	assert_int_equal(e.info.stack_len, 24); /* whole words */
	assert_int_equal(e.info.reason, WAIT_FAULT);
	assert_true(e.info.guessed);
	assert_false(e.stack_full);
	assert_int_equal(regs[UW_X86_SP], SP);
	assert_int_equal(regs[UW_X86_IP], CODE);
	a.stack_len = 7;
	assert_false(wait_stack_entry(&a, regs, &e));
	a.stack_len = sizeof(stack);
	a.wait.sp = SP + 4;
	assert_false(wait_stack_entry(&a, regs, &e));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fp),
		cmocka_unit_test(test_entry),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
