/* test-code-aarch64.c - calls and forms of aarch64 code.  Encodings as GNU as writes them. */
#include "tests/unit/cmocka.h"

#include "unwinder/code.h"

enum {
	BL = 0x94000000,
	BLR_X3 = 0xd63f0060,
	BLRAAZ_X3 = 0xd63f087f,
	BLRAA_X3_X4 = 0xd73f0864,
	B = 0x14000000,
	BR_X3 = 0xd61f0060,
	RET = 0xd65f03c0,
	RETAA = 0xd65f0bff,
	PACIASP = 0xd503233f,
	AUTIASP = 0xd50323bf,
	BTI_C = 0xd503245f,
	MOV_X29_SP = 0x910003fd,
	PUSH_16 = 0xa9bf7bfd,	/* stp x29, x30, [sp, #-16]! */
	PUSH_112 = 0xa9b97bfd,	/* stp x29, x30, [sp, #-112]! */
	STORE_80 = 0xa9057bfd,	/* stp x29, x30, [sp, #80] */
	POP_16 = 0xa8c17bfd,	/* ldp x29, x30, [sp], #16 */
	POP_112 = 0xa8c77bfd,	/* ldp x29, x30, [sp], #112 */
	PLT0_PUSH = 0xa9bf7bf0, /* stp x16, x30, [sp, #-16]! */
	ADRP_X16 = 0x90000010,
	LDR_X17 = 0xf9400e11, /* ldr x17, [x16, #24] */
	ADD_X16 = 0x91006210, /* add x16, x16, #24 */
	BR_X17 = 0xd61f0220,
	SIGRETURN = 0xd2801168, /* mov x8, #139 */
	SVC = 0xd4000001,
	NOP = 0xd503201f,
	ADD = 0x8b020020,
	STP_X19 = 0xa90153f3, /* stp x19, x20, [sp, #16] */
};

static bool call(const uint32_t *code, size_t n)
{
	return code_ends_in_call(UW_ARCH_AARCH64, (const uint8_t *)code, n * 4);
}
#define CALL(...) \
	call((uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

/* @before: instructions before the pc. */
static enum rule_form form(size_t before, const uint32_t *code, size_t n)
{
	return code_form(UW_ARCH_AARCH64, (const uint8_t *)code, before * 4, n * 4);
}
#define FORM(before, ...)                       \
	form(before, (uint32_t[]){__VA_ARGS__}, \
	     sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void test_calls(void **state)
{
	(void)state;
	assert_true(CALL(BL));
	assert_true(CALL(NOP, BL + 0x3ffffff)); /* backwards */
	assert_true(CALL(BLR_X3));
	assert_true(CALL(BLRAAZ_X3));
	assert_true(CALL(BLRAA_X3_X4));
	assert_false(CALL(BL, NOP));
	assert_false(CALL(B));
	assert_false(CALL(BR_X3));
	assert_false(CALL(RET));
	assert_false(call(NULL, 0));
}

static void test_edges(void **state)
{
	(void)state;
	assert_int_equal(FORM(0, PACIASP, PUSH_112), RULE_FORM_ENTRY);
	assert_int_equal(FORM(1, PACIASP, PUSH_112, MOV_X29_SP), RULE_FORM_ENTRY);
	assert_int_equal(FORM(0, BTI_C, ADD), RULE_FORM_ENTRY);
	assert_int_equal(FORM(1, PUSH_16, MOV_X29_SP), RULE_FORM_PUSHED);
	assert_int_equal(FORM(0, RET), RULE_FORM_ENTRY);
	assert_int_equal(FORM(1, POP_112, RETAA), RULE_FORM_ENTRY);
	assert_int_equal(FORM(0, POP_16, RET), RULE_FORM_PUSHED);
	assert_int_equal(FORM(0, SIGRETURN, SVC), RULE_FORM_SIGRETURN);
	assert_int_equal(FORM(1, SIGRETURN, SVC), RULE_FORM_SIGRETURN);
	assert_int_equal(FORM(0, NOP, SVC), RULE_FORM_FP);
	assert_int_equal(form(0, (uint32_t[]){RET}, 0), RULE_FORM_FP);
}

static void test_plt_entries(void **state)
{
	(void)state;
	assert_int_equal(FORM(0, ADRP_X16, LDR_X17, ADD_X16, BR_X17), RULE_FORM_ENTRY);
	assert_int_equal(FORM(2, ADRP_X16, LDR_X17, ADD_X16, BR_X17), RULE_FORM_ENTRY);
	assert_int_equal(FORM(3, ADRP_X16, LDR_X17, ADD_X16, BR_X17), RULE_FORM_ENTRY);
	assert_int_equal(FORM(0, PLT0_PUSH, ADRP_X16, LDR_X17, ADD_X16, BR_X17), RULE_FORM_ENTRY);
	assert_int_equal(FORM(1, PLT0_PUSH, ADRP_X16, LDR_X17, ADD_X16, BR_X17), RULE_FORM_PLT);
	assert_int_equal(FORM(4, PLT0_PUSH, ADRP_X16, LDR_X17, ADD_X16, BR_X17), RULE_FORM_PLT);
}

/* In the middle the nearest known instruction decides. */
static void test_scan(void **state)
{
	(void)state;
	assert_int_equal(FORM(4, PUSH_112, MOV_X29_SP, BL, ADD, ADD), RULE_FORM_FP);
	assert_int_equal(FORM(4, STP_X19, STORE_80, BL, ADD, ADD), RULE_FORM_FP);
	assert_int_equal(FORM(3, BTI_C, ADD, ADD, ADD), RULE_FORM_ENTRY); /* a leaf */
	assert_int_equal(FORM(4, PUSH_16, ADD, RET, ADD, ADD), RULE_FORM_ENTRY);
	assert_int_equal(FORM(4, PUSH_16, POP_16, RET, ADD, ADD), RULE_FORM_FP); /* may be */
	assert_int_equal(FORM(3, PUSH_112, POP_112, AUTIASP, RETAA), RULE_FORM_ENTRY);
	assert_int_equal(FORM(2, PUSH_112, POP_112, AUTIASP, RET), RULE_FORM_ENTRY);
	assert_int_equal(FORM(2, ADD, ADD, ADD), RULE_FORM_FP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_edges),
		cmocka_unit_test(test_plt_entries),
		cmocka_unit_test(test_scan),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
