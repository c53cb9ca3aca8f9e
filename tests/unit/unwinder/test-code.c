/* test-code.c - call instructions and what code without CFI shows.  Encodings as GNU as writes them.
 */
#include "tests/unit/cmocka.h"

#include "unwinder/code.h"

#define CALL(text) code_ends_in_call(UW_ARCH_X86_64, (const uint8_t *)(text), sizeof(text) - 1)
#define FORM(before, text) \
	code_form(UW_ARCH_X86_64, (const uint8_t *)(text), before, sizeof(text) - 1)

static void test_calls(void **state)
{
	(void)state;
	assert_true(CALL("\xe8\x01\x02\x03\x04")); /* call rel32 */
	assert_true(CALL("\x90\x90\x90\xe8\x01\x02\x03\x04"));
	assert_true(CALL("\xff\xd0"));			   /* call *%rax */
	assert_true(CALL("\x41\xff\xd4"));		   /* call *%r12 */
	assert_true(CALL("\xff\x15\x00\x10\x00\x00"));	   /* call *0x1000(%rip) */
	assert_true(CALL("\xff\x10"));			   /* call *(%rax) */
	assert_true(CALL("\xff\x50\x08"));		   /* call *8(%rax) */
	assert_true(CALL("\xff\x90\x00\x01\x00\x00"));	   /* call *0x100(%rax) */
	assert_true(CALL("\xff\x14\xc8"));		   /* call *(%rax,%rcx,8) */
	assert_true(CALL("\xff\x14\x25\x00\x10\x00\x00")); /* call *0x1000 */
	assert_true(CALL("\xff\x54\x24\x08"));		   /* call *8(%rsp) */
	assert_true(CALL("\xff\x94\x24\x00\x01\x00\x00")); /* call *0x100(%rsp) */
}

static void test_no_calls(void **state)
{
	(void)state;
	assert_false(CALL(""));
	assert_false(CALL("\xe8"));
	assert_false(CALL("\xff"));
	assert_false(CALL("\x90\x90\x90\x90\x90\x90\x90\x90"));
	assert_false(CALL("\xe8\x01\x02\x03\x04\x90")); /* one byte too late */
	assert_false(CALL("\xe9\x01\x02\x03\x04"));	/* jmp rel32 */
	assert_false(CALL("\xff\xe0"));			/* jmp *%rax */
	assert_false(CALL("\xff\x25\x00\x10\x00\x00")); /* jmp *0x1000(%rip) */
	assert_false(CALL("\xff\x50"));			/* cut short */
	assert_false(CALL("\xff\x14"));
}

static void test_indirect_calls(void **state)
{
#define INDIRECT(text) code_ends_in_indirect_call((const uint8_t *)(text), sizeof(text) - 1)
	(void)state;
	assert_true(INDIRECT("\xff\xd0"));
	assert_true(INDIRECT("\x90\x90\x41\xff\xd4"));
	assert_true(INDIRECT("\xff\x15\x00\x10\x00\x00"));
	assert_false(INDIRECT("\xe8\x01\x02\x03\x04"));
	assert_false(INDIRECT("\xff\xe0"));
	assert_false(INDIRECT(""));
}

static void test_forms(void **state)
{
	(void)state;
	assert_int_equal(FORM(0, "\x55\x48\x89\xe5"), RULE_FORM_ENTRY);
	assert_int_equal(FORM(0, "\xf3\x0f\x1e\xfa\x55"), RULE_FORM_ENTRY);
	assert_int_equal(FORM(0, "\xf3\x0f\x1e\xfa\xf2\xff\x25\x00\x00\x00\x00"), RULE_FORM_ENTRY);
	assert_int_equal(FORM(4, "\xf3\x0f\x1e\xfa\x55"), RULE_FORM_ENTRY);
	assert_int_equal(FORM(0, "\xf3\x0f\x1e\xfa\x68\x01\x00\x00\x00\xf2\xe9"), RULE_FORM_ENTRY);
	assert_int_equal(FORM(1, "\x55\x48\x89\xe5"), RULE_FORM_PUSHED);
	assert_int_equal(FORM(0, "\x48\x89\xe5"), RULE_FORM_FP); /* not known to follow a push */
	assert_int_equal(FORM(0, "\x5d\xc3"), RULE_FORM_PUSHED);
	assert_int_equal(FORM(0, "\xc3"), RULE_FORM_ENTRY);
	assert_int_equal(FORM(0, "\xff\x25\x10\x20\x00\x00"), RULE_FORM_ENTRY);
	assert_int_equal(FORM(0, "\x68\x01\x00\x00\x00\xe9"), RULE_FORM_ENTRY);
	assert_int_equal(FORM(5, "\x68\x01\x00\x00\x00\xe9"), RULE_FORM_PLT);
	assert_int_equal(FORM(5, "\x68\x01\x00\x00\x00\xf2\xe9"), RULE_FORM_PLT);
	assert_int_equal(FORM(0, "\x68\x01\x00\x00\x00\x90"),
			 RULE_FORM_FP); /* a push of something */
	assert_int_equal(FORM(0, "\x48\x8b\x45\xf8"), RULE_FORM_FP);
	assert_int_equal(FORM(0, ""), RULE_FORM_FP);
	assert_int_equal(FORM(2, "\x90\x90"), RULE_FORM_FP);
	assert_int_equal(FORM(0, "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05"), RULE_FORM_SIGRETURN);
	assert_int_equal(FORM(7, "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05"), RULE_FORM_SIGRETURN);
	assert_int_equal(FORM(0, "\x48\xc7\xc0\x0e\x00\x00\x00\x0f\x05"), RULE_FORM_FP);
	assert_int_equal(FORM(0, "\x48\x89\xdc\x48\x8b\x3c\x24"), RULE_FORM_ROOT);
}

static void test_goexit(void **state)
{
	static const uint8_t code[] = {0x90, 0xe8, 1, 2, 3, 4, 0x90};

	(void)state;
	assert_true(code_is_goexit(UW_ARCH_X86_64, code, 1, sizeof(code)));
	assert_false(code_is_goexit(UW_ARCH_X86_64, code, 0, sizeof(code)));
	assert_false(code_is_goexit(UW_ARCH_X86_64, code, 1, sizeof(code) - 1));
	assert_false(code_is_goexit(UW_ARCH_X86_64, code, 6, sizeof(code)));
	assert_false(code_is_goexit(UW_ARCH_AARCH64, code, 1, sizeof(code)));
}

static void test_go_switch(void **state)
{
	static const uint8_t code[] = "\x48\x89\xfa\x48\x8b\x3f\xff\xd7"
				      "\x64\x48\x8b\x04\x25\xf8\xff\xff\xff";
	static const uint8_t mcall[] = "\x38\x50\x4c\x8b\x22\x41\xff\xd4\x58\xe9";
	static const uint8_t morestack[] = "\x8b\x63\x38\xe8\x75\x45\0\0\xe8\x10\x1e\0\0\xc3";
	static const uint8_t later[] = "\x8b\x6b\x60\xe8\x75\x45\0\0\xe8\x10\x1e\0\0\xc3";
	static const uint8_t pie[] = "\x48\x89\xfa\x48\x8b\x3f\xff\xd7"
				     "\x48\xc7\xc1\xf8\xff\xff\xff\x64\x48\x8b\x01";
	static const uint8_t cgo[] = "\x48\x89\xdf\x48\x89\xd9\xff\xd0"
				     "\x48\x8b\x7c\x24\x30\x48\x8b\x77\x08";
	static const uint8_t cgo_pie[] = "\x48\x89\xdf\x48\x89\xd9\xff\xd0"
					 "\x48\xc7\xc1\xf8\xff\xff\xff\x48\x8b\x7c\x24\x30";
	static const uint8_t landing[] =
		"\x48\x29\xd7\xe8\1\2\3\4\x48\x8b\x7c\x24\x08\x48\x8b\x77\x08";
	const size_t len = sizeof(code) - 1;

	(void)state;
	assert_int_equal(code_go_switch(UW_ARCH_X86_64, cgo, 8, sizeof(cgo) - 1), CODE_GO_CGO_64);
	assert_int_equal(code_go_switch(UW_ARCH_X86_64, cgo, 8, sizeof(cgo) - 2), CODE_GO_NONE);
	assert_int_equal(code_go_switch(UW_ARCH_X86_64, cgo + 1, 8, sizeof(cgo) - 2), CODE_GO_NONE);
	assert_int_equal(code_go_switch(UW_ARCH_X86_64, cgo_pie, 8, sizeof(cgo_pie) - 1),
			 CODE_GO_CGO_64);
	assert_int_equal(code_go_switch(UW_ARCH_X86_64, cgo_pie, 8, sizeof(cgo_pie) - 2),
			 CODE_GO_NONE);
	assert_int_equal(code_go_switch(UW_ARCH_X86_64, code, 8, len), CODE_GO_SYSTEMSTACK);
	assert_int_equal(code_go_switch(UW_ARCH_X86_64, code, 7, len), CODE_GO_NONE);
	assert_int_equal(code_go_switch(UW_ARCH_X86_64, code + 1, 8, len - 1), CODE_GO_NONE);
	assert_int_equal(code_go_switch(UW_ARCH_X86_64, code, 8, len - 1), CODE_GO_NONE);
	assert_int_equal(code_go_switch(UW_ARCH_AARCH64, code, 8, len), CODE_GO_NONE);
	assert_int_equal(code_go_switch(UW_ARCH_X86_64, pie, 8, sizeof(pie) - 1),
			 CODE_GO_SYSTEMSTACK);
	assert_int_equal(code_go_switch(UW_ARCH_X86_64, pie, 8, sizeof(pie) - 2), CODE_GO_NONE);
	/* morestack: [mov n(%rbx),%rbp or] mov 0x38(%rbx),%rsp; call newstack; call abort; ret */
	assert_int_equal(code_go_switch(UW_ARCH_X86_64, morestack, 8, sizeof(morestack) - 1),
			 CODE_GO_MORESTACK);
	assert_int_equal(code_go_switch(UW_ARCH_X86_64, later, 8, sizeof(later) - 1),
			 CODE_GO_MORESTACK);
	assert_int_equal(code_go_switch(UW_ARCH_X86_64, morestack, 8, sizeof(morestack) - 2),
			 CODE_GO_NONE);
	assert_int_equal(code_go_switch(UW_ARCH_X86_64, mcall, 8, sizeof(mcall) - 1),
			 CODE_GO_MCALL);
	assert_int_equal(code_go_switch(UW_ARCH_X86_64, mcall, 8, sizeof(mcall) - 2), CODE_GO_NONE);
	assert_int_equal(code_go_switch(UW_ARCH_X86_64, mcall + 1, 7, sizeof(mcall) - 2),
			 CODE_GO_NONE);
	/* 1.22 on: call asmcgocall_landingpad; [mov $-8,%rcx;] mov 8(%rsp),%rdi; mov 8(%rdi),%rsi */
	assert_int_equal(code_go_switch(UW_ARCH_X86_64, landing, 8, sizeof(landing) - 1),
			 CODE_GO_CGO_16);
	assert_int_equal(code_go_switch(UW_ARCH_X86_64, landing, 8, sizeof(landing) - 2),
			 CODE_GO_NONE);
}

/* What code behind the call in systemstack states of the runtime's structures. */
static void test_go_offsets(void **state)
{
	uint8_t code[64] = "\x64\x48\x8b\x04\x25\xf8\xff\xff\xff\x48\x8b\x58\x30"
			   "\x48\x8b\x83\xc0\0\0\0\x64\x48\x89\x04\x25\xf8\xff\xff\xff"
			   "\x48\x8b\x60\x38\x48\xc7\x40\x38\0\0\0\0\xc3";
	static const uint8_t pie[64] =
		"\x48\xc7\xc1\xf8\xff\xff\xff\x64\x48\x8b\x01\x48\x8b\x58\x30"
		"\x48\x8b\x43\x70\x64\x48\x89\x01\x48\x8b\x60\x40";
	struct code_go_offsets o;

	(void)state;
	assert_true(code_go_offsets(code, CODE_GO_AFTER, &o));
	assert_true(o.m == 0x30 && o.curg == 0xc0 && o.sp == 0x38);
	assert_false(code_go_offsets(code, CODE_GO_AFTER - 1, &o));
	assert_true(code_go_offsets(pie, sizeof(pie), &o));
	assert_true(o.m == 0x30 && o.curg == 0x70 && o.sp == 0x40);
	code[17] = 4; /* m.curg beyond CODE_GO_OFFSET_MAX */
	assert_false(code_go_offsets(code, sizeof(code), &o));
	code[17] = 0;
	code[12] = 0x31; /* g.m is not aligned */
	assert_false(code_go_offsets(code, sizeof(code), &o));
	code[12] = 0xf8;
	assert_false(code_go_offsets(code, sizeof(code), &o));
	code[12] = 0x30;
	code[31] = 0x61; /* another register */
	assert_false(code_go_offsets(code, sizeof(code), &o));
}

/* The instructions of OCaml's raise, at each of them. */
static void test_raise(void **state)
{
	static const uint8_t inlined[] = "\x90\x49\x8b\x66\x28\x41\x8f\x46\x28\x41\x5b\x41\xff\xe3";
	static const uint8_t from_c[] = "\x90\x49\x8b\x66\x10\x41\x8f\x46\x10\x4d\x8b\x7e\x08\xc3";
	static const uint8_t ret[] = "\x90\x49\x8b\x66\x10\x41\x8f\x46\x10\xc3";
	static const uint8_t other[] = "\x90\x49\x8b\x66\x10\x41\x8f\x46\x18\xc3";

	(void)state;
	assert_int_equal(code_raise(inlined, 1, 14), CODE_RAISE_NONE); /* the mov: CFI holds */
	assert_int_equal(code_raise(inlined, 5, 14), 1);
	assert_int_equal(code_raise(inlined, 9, 14), 0);
	assert_int_equal(code_raise(inlined, 11, 14), CODE_RAISE_R11);
	assert_int_equal(code_raise(inlined, 5, 13), CODE_RAISE_NONE);
	assert_int_equal(code_raise(inlined + 2, 3, 12), CODE_RAISE_NONE);
	assert_int_equal(code_raise(from_c, 5, 14), 1);
	assert_int_equal(code_raise(from_c, 9, 14), 0);
	assert_int_equal(code_raise(from_c, 13, 14), 0);
	assert_int_equal(code_raise(ret, 5, 10), 1);
	assert_int_equal(code_raise(ret, 9, 10), 0);
	assert_int_equal(code_raise(other, 9, 10), CODE_RAISE_NONE);
}

static void test_branch_to(void **state)
{
	/* nop; cmp $0x74,%al (a byte that looks like je); je +0x12; jb +0x20 */
	static const uint8_t code[64] =
		"\x90\x3c\x74\x74\x0d\x0f\x82\x15\0\0\0\x90\x90\x90\x90\x90"
		"\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90";

	(void)state;
	assert_int_equal(code_branch_to(code, 0x12), 3);
	assert_int_equal(code_branch_to(code, 0x20), 5);
	assert_int_equal(code_branch_to(code, 0x1f), 0x1f);
	assert_int_equal(code_branch_to(code, 4), 4); /* cut off */
	assert_int_equal(code_branch_to(code, 0), 0);
	assert_int_equal(code_branch_to((const uint8_t *)"\x06\x74\0", 3), 3); /* not known */
}

static void test_next_jump(void **state)
{
	/* je -2; jmp +0x105; jmp -2; js +0x21; call +5; call *%rax; jmp *(%rax); unknown */
	static const uint8_t code[] = "\x74\xfc\xe9\xfe\x00\x00\x00\xeb\xf5\x0f\x88\x12\x00\x00\x00"
				      "\xe8\x00\x00\x00\x00\xff\xd0\xff\x20\x06\x90";
	static const int64_t expected[] = {-2, 0x105, -2, 0x21, CODE_TO_POINTER, CODE_TO_POINTER};
	size_t at = 0;
	int64_t to;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		assert_true(code_next_jump(code, sizeof(code) - 1, &at, &to));
		assert_int_equal(to, expected[i]);
	}
	assert_int_equal(at, sizeof(code) - 1);
	assert_false(code_next_jump(code, sizeof(code) - 1, &at, &to));
}

/* As compilers write thunks against Spectre; other pushes and stores are no jumps. */
static void test_jump_by_ret(void **state)
{
	static const struct {
		size_t len;
		bool jumps;
		uint8_t code[8];
	} cases[] = {
		{5, true, "\x48\x89\x04\x24\xc3"},  /* mov %rax,(%rsp); ret */
		{5, true, "\x4c\x89\x1c\x24\xc3"},  /* mov %r11,(%rsp); ret */
		{2, true, "\x50\xc3"},		    /* push %rax; ret */
		{3, true, "\x41\x53\xc3"},	    /* push %r11; ret */
		{5, false, "\x48\x89\x04\x24\x90"}, /* mov %rax,(%rsp); nop */
		{4, false, "\x48\x89\x04\x24"},	    /* the end */
		{6, false, "\x48\x89\x44\x24\x08\xc3"},
		{5, false, "\x49\x89\x04\x24\xc3"}, /* mov %rax,(%r12); ret */
		{5, false, "\x48\x8b\x04\x24\xc3"}, /* mov (%rsp),%rax; ret */
		{2, false, "\x58\xc3"},		    /* pop %rax; ret */
		{4, false, "\x0f\x50\xc0\xc3"},	    /* movmskps; ret */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		size_t at = 0;
		int64_t to = 0;

		assert_int_equal(code_next_jump(cases[i].code, cases[i].len, &at, &to),
				 cases[i].jumps);
		assert_true(to == (cases[i].jumps ? CODE_TO_POINTER : 0));
	}
}

/* 0f 38 82 and 0f 3a 82 have ModRM, not four bytes: these would be behind the code. */
static void test_three_byte_opcodes(void **state)
{
	static const struct {
		size_t len;
		uint8_t code[8];
	} cases[] = {{4, "\x0f\x38\x82\xc0"}, {5, "\x0f\x3a\x82\xc0\x01"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint8_t *code = malloc(cases[i].len);
		size_t at = 0;
		int64_t to;

		assert_non_null(code);
		memcpy(code, cases[i].code, cases[i].len);
		assert_false(code_next_jump(code, cases[i].len, &at, &to));
		assert_int_equal(code_branch_to(code, cases[i].len), cases[i].len);
		free(code);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls),	       cmocka_unit_test(test_no_calls),
		cmocka_unit_test(test_indirect_calls), cmocka_unit_test(test_forms),
		cmocka_unit_test(test_goexit),	       cmocka_unit_test(test_go_switch),
		cmocka_unit_test(test_go_offsets),     cmocka_unit_test(test_raise),
		cmocka_unit_test(test_branch_to),      cmocka_unit_test(test_jump_by_ret),
		cmocka_unit_test(test_next_jump),      cmocka_unit_test(test_three_byte_opcodes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
