/* test-memory.c - the memory that the oracles see: exact bounds of stack and sections. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>

#include "unwinder/oracle.h"

#define SP 0x7ffc00001000ull

struct stack {
	uint64_t regs[UW_X86_COUNT];
	uint64_t words[3];
	struct uw_snapshot snapshot;
};

/* 20 bytes of stack at SP: two words and a half. */
static struct stack *stack_of(struct stack *s)
{
	*s = (struct stack){
		.words = {0x1111111111111111ull, 0x2222222222222222ull, 0x3333333333333333ull},
		.snapshot = {.arch = UW_ARCH_X86_64, .stack_len = 20},
	};
	s->regs[UW_X86_SP] = SP;
	s->snapshot.regs = s->regs;
	s->snapshot.stack = (const uint8_t *)s->words;
	return s;
}

static void test_stack_bounds(void **state)
{
	struct stack s;
	uint64_t word = 7;

	(void)state;
	stack_of(&s);
	assert_true(uw_stack_word(&s.snapshot, SP, &word));
	assert_int_equal(word, 0x1111111111111111ull);
	assert_true(uw_stack_word(&s.snapshot, SP + 4, &word));
	assert_int_equal(word, 0x2222222211111111ull);
	assert_true(uw_stack_word(&s.snapshot, SP + 12, &word)); /* the last whole word */
	assert_int_equal(word, 0x3333333322222222ull);
	word = 7;
	assert_false(uw_stack_word(&s.snapshot, SP + 13, &word)); /* one byte past */
	assert_false(uw_stack_word(&s.snapshot, SP + 20, &word));
	assert_false(uw_stack_word(&s.snapshot, SP - 1, &word)); /* the red zone was not copied */
	assert_false(uw_stack_word(&s.snapshot, SP - 8, &word));
	assert_false(uw_stack_word(&s.snapshot, 0, &word));
	assert_false(uw_stack_word(&s.snapshot, UINT64_MAX, &word));
	assert_int_equal(word, 7);
}

static void test_stack_too_small(void **state)
{
	struct stack s;
	uint64_t word;

	(void)state;
	stack_of(&s);
	for (uint32_t len = 0; len < 8; len++) {
		s.snapshot.stack_len = len;
		assert_false(uw_stack_word(&s.snapshot, SP, &word));
	}
	s.snapshot.stack_len = 8;
	assert_true(uw_stack_word(&s.snapshot, SP, &word));
	assert_false(uw_stack_word(&s.snapshot, SP + 1, &word));
}

/* A stack pointer near the end of the address space: the sum must not wrap into low addresses. */
static void test_stack_wrap(void **state)
{
	struct stack s;
	uint64_t word;

	(void)state;
	stack_of(&s);
	s.regs[UW_X86_SP] = UINT64_MAX - 7;
	assert_true(uw_stack_word(&s.snapshot, UINT64_MAX - 7, &word));
	assert_true(uw_stack_word(
		&s.snapshot, 4, &word)); /* offset 12: what the copy holds, by its own arithmetic */
	assert_false(uw_stack_word(&s.snapshot, UINT64_MAX - 8, &word));
	assert_false(uw_stack_word(&s.snapshot, 5, &word));
}

static void test_regions(void **state)
{
	static const uint8_t bytes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
	struct uw_regions regions = {0};
	uint64_t word = 7;

	(void)state;
	assert_false(uw_regions_word(&regions, 0, &word));
	/* Added out of order: [0x1000, 0x100a) and [0x2004, 0x2008). */
	assert_int_equal(uw_regions_add(&regions, 0x2004, bytes, 4), 0);
	assert_int_equal(uw_regions_add(&regions, 0x1000, bytes, sizeof(bytes)), 0);
	assert_int_equal(uw_regions_add(&regions, 0x1000, bytes, sizeof(bytes)), 0);
	assert_int_equal(regions.n, 2);
	assert_int_equal(uw_regions_add(&regions, 0x3000, bytes, 0), -EINVAL);
	assert_int_equal(uw_regions_add(&regions, UINT64_MAX - 3, bytes, 10), -EINVAL);
	assert_int_equal(regions.n, 2);

	assert_true(uw_regions_word(&regions, 0x1000, &word));
	assert_int_equal(word, 0x0807060504030201ull);
	assert_true(uw_regions_word(&regions, 0x1002, &word));
	assert_int_equal(word, 0x0a09080706050403ull);
	assert_true(uw_regions_word(&regions, 0x1008, &word)); /* in part, at the end */
	assert_int_equal(word, 0x0a09);
	assert_false(uw_regions_word(&regions, 0x100a, &word));
	assert_true(
		uw_regions_word(&regions, 0x2000, &word)); /* in part, in the middle of the word */
	assert_int_equal(word, 0x0403020100000000ull);
	assert_true(uw_regions_word(&regions, 0x1fff, &word));
	assert_int_equal(word, 0x0302010000000000ull);
	assert_true(uw_regions_word(&regions, 0xff9, &word)); /* its last byte only */
	assert_int_equal(word, 0x0100000000000000ull);
	word = 7;
	assert_false(uw_regions_word(&regions, 0xff8, &word));
	assert_false(uw_regions_word(&regions, 0x1ffc, &word));
	assert_false(uw_regions_word(&regions, 0x2008, &word));
	assert_false(uw_regions_word(&regions, UINT64_MAX, &word));
	assert_int_equal(word, 7);
	uw_regions_deinit(&regions);
	assert_int_equal(regions.n, 0);
}

static void test_many_regions(void **state)
{
	static const uint64_t value = 0x1122334455667788ull;
	struct uw_regions regions = {0};
	uint64_t word;

	(void)state;
	for (uint64_t i = 0; i < 100; i++) /* 37 is prime to 100: every start once, in no order */
		assert_int_equal(uw_regions_add(&regions, 0x1000 * (1 + i * 37 % 100), &value, 8),
				 0);
	assert_int_equal(regions.n, 100);
	for (uint64_t i = 0; i < 100; i++)
		assert_true(uw_regions_word(&regions, 0x1000 * (1 + i * 61 % 100), &word) &&
			    word == value);
	uw_regions_deinit(&regions);
}

/* The stack is asked first; what is nowhere is noted. */
static void test_view(void **state)
{
	static const uint64_t section = 0x4444444444444444ull;
	struct uw_regions regions = {0};
	struct stack s;
	struct uw_view view = {.snapshot = &stack_of(&s)->snapshot, .regions = &regions};
	uint64_t word;

	(void)state;
	assert_int_equal(uw_regions_add(&regions, SP, &section, 8), 0);
	assert_int_equal(uw_regions_add(&regions, 0x1000, &section, 8), 0);
	assert_true(uw_view_word(&view, SP, &word));
	assert_int_equal(word, 0x1111111111111111ull);
	assert_true(uw_view_word(&view, 0x1000, &word));
	assert_int_equal(word, section);
	assert_false(view.missed);
	assert_false(uw_view_word(&view, SP + 13, &word));
	assert_true(view.missed);
	assert_int_equal(view.missed_at, SP + 13);
	uw_regions_deinit(&regions);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stack_bounds), cmocka_unit_test(test_stack_too_small),
		cmocka_unit_test(test_stack_wrap),   cmocka_unit_test(test_regions),
		cmocka_unit_test(test_many_regions), cmocka_unit_test(test_view),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
