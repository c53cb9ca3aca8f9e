/* test-native-exit.c - epilogues without CFI rows (native-rule.c): the code counts. */
#include "tests/unit/unwinder/native-fixture.h"

enum { RETURN = JIT + 0x25 };

/* @code at BARE + @at, and a call that ends at RETURN.  The stack has one return address, in word @word. */
static void code_put(struct fixture *f, uint64_t at, const char *code, size_t len, size_t word)
{
	fixture_space(f, 6, &f->fake.memory);
	memset(f->fake.code, 0x90, sizeof(f->fake.code));
	f->fake.code[0x20] = 0xe8;
	memset(f->fake.bare, 0xcc, sizeof(f->fake.bare));
	memcpy(f->fake.bare + at, code, len);
	memset(f->stack, 0, sizeof(f->stack));
	f->stack[word] = ROOTED + 1;
	f->regs[UW_X86_BP] = 1;
}
#define PUT(f, at, code, word) code_put(f, at, code, sizeof(code) - 1, word)

static void assert_caller(struct fixture *f, uint64_t pc, uint64_t caller)
{
	for (unsigned round = 0; round < 2; round++) { /* found out, then kept */
		run(f, pc);
		assert_result(f, UW_WHOLE, UW_OK, 2);
		assert_int_equal(f->frames[1], caller);
	}
}
#define GUESSED(pc) (CALLED(pc) | UW_FRAME_GUESSED)

/* add $8,%rsp; pop %rbp; ret */
static void test_pops(void **state)
{
	struct fixture *f = *state;

	PUT(f, 0x10, "\x48\x83\xc4\x08\x5d\xc3", 2);
	assert_caller(f, BARE + 0x10, CALLED(ROOTED + 1)); /* nothing is given back yet */
	PUT(f, 0x10, "\x48\x83\xc4\x08\x5d\xc3", 1);
	assert_caller(f, BARE + 0x14, GUESSED(ROOTED + 1));
	PUT(f, 0x10, "\x48\x83\xc4\x08\x5d\xc3", 0);
	assert_caller(f, BARE + 0x15, GUESSED(ROOTED + 1));
	/* The table's: what stands there is never looked at. */
	f->stack[2] = SMALL + 1;
	assert_caller(f, BARE + 0x15, GUESSED(ROOTED + 1));
}

/* Its rbp: where the code puts it. */
static void test_rbp(void **state)
{
	struct fixture *f = *state;

	PUT(f, 0x10, "\x5d\xc3", 0);
	f->stack[0] = SP + 64; /* to be popped */
	f->stack[1] = FRAMED + 1;
	f->stack[9] = ROOTED + 1;
	run(f, BARE + 0x10);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	assert_int_equal(f->frames[1], GUESSED(FRAMED + 1));
	f->stack[0] = FRAMED + 1; /* popped */
	f->regs[UW_X86_BP] = SP + 64;
	run(f, BARE + 0x11);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	assert_int_equal(f->frames[1], GUESSED(FRAMED + 1));
}

/* leave; ret, and pop %rbx; pop %rbp; ret: a CFA by rbp is true until rbp is the caller's. */
static void test_frame_pointer(void **state)
{
	struct fixture *f = *state;

	PUT(f, 0x90, "\xc9\xc3", 5);
	f->regs[UW_X86_BP] = SP + 32;
	assert_caller(f, BARE_FP + 0x10, CALLED(ROOTED + 1));
	PUT(f, 0x90, "\xc9\xc3", 0);
	f->regs[UW_X86_BP] = SP + 64;
	f->stack[9] = SMALL + 1;
	assert_caller(f, BARE_FP + 0x11, GUESSED(ROOTED + 1));
	PUT(f, 0xa0, "\x5b\x5d\xc3", 2);
	f->regs[UW_X86_BP] = SP + 8;
	assert_caller(f, BARE_FP + 0x20, CALLED(ROOTED + 1));
	PUT(f, 0xa0, "\x5b\x5d\xc3", 0);
	f->regs[UW_X86_BP] = SP + 64;
	f->stack[9] = SMALL + 1;
	assert_caller(f, BARE_FP + 0x22, GUESSED(ROOTED + 1));
}

/* What is not straight, or does not show it, leaves the CFI as it is: CFA = rsp + 24. */
static void test_silent(void **state)
{
	static const struct {
		const char *code;
		size_t len;
	} codes[] = {
#define CODE(text) {text, sizeof(text) - 1}
		CODE("\xe8\x00\x00\x00\x00\xc3"), /* call; ret */
		CODE("\x74\x00\xc3"),		  /* je; ret */
		CODE("\x48\x89\x04\x24\xc3"),	  /* mov %rax,(%rsp); ret: a retpoline */
		CODE("\x48\x89\xdc\xc3"),	  /* mov %rbx,%rsp; ret */
		CODE("\x50\xc3"),		  /* push %rax; ret: to what it has pushed */
		CODE("\xff\xe0"),		  /* jmp *%rax: of a switch */
		CODE("\x0f\x0b"),		  /* ud2 */
		CODE("\xeb\x40"),		  /* to int3, in the function */
		CODE("\xe9\xeb\x04\x00\x00"),	  /* to an address without CFI (0x402000) */
		CODE("\x48"),			  /* cut off */
#undef CODE
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		code_put(f, 0x10, codes[i].code, codes[i].len, 2);
		uw_engine_forget(f->engine, NULL);
		assert_caller(f, BARE + 0x10, CALLED(ROOTED + 1));
	}
}

/* A jump to another function: its CFI states what it finds on the stack. */
static void test_jump(void **state)
{
	struct fixture *f = *state;

	/* 0x401b10 -> 0x401a00 STILL, a function's first byte */
	PUT(f, 0x10, "\xe9\xeb\xfe\xff\xff", 0);
	assert_caller(f, BARE + 0x10, GUESSED(ROOTED + 1));
	/* add $8,%rsp; and there */
	PUT(f, 0x20, "\x48\x83\xc4\x08\xe9\xd7\xfe\xff\xff", 1);
	assert_caller(f, BARE + 0x20, GUESSED(ROOTED + 1));
	/* 0x401b30 -> 0x401580 KEEPER, a part of the function elsewhere: CFA = rsp + 24, as here */
	PUT(f, 0x30, "\xe9\x4b\xfa\xff\xff", 2);
	assert_caller(f, BARE + 0x30, CALLED(ROOTED + 1));
	/* pop %rbx; jmp *%rax: behind the pops it is a call's */
	PUT(f, 0x40, "\x5b\xff\xe0", 1);
	assert_caller(f, BARE + 0x40, GUESSED(ROOTED + 1));
	/* jmp to a ret within */
	PUT(f, 0x50, "\x5b\xeb\x04\xcc\xcc\xcc\xcc\xc3", 1);
	assert_caller(f, BARE + 0x50, GUESSED(ROOTED + 1));
}

/* The code's answer follows no call: the CFI's is taken, as a guess. */
static void test_refuted(void **state)
{
	struct fixture *f = *state;

	PUT(f, 0x10, "\xc3", 2);
	f->stack[0] = JIT + 0x30; /* where a jump by ret leads */
	assert_caller(f, BARE + 0x10, GUESSED(ROOTED + 1));
	f->stack[0] = RETURN;
	f->stack[2] = 0;
	f->regs[UW_X86_BP] = SP + 64;
	f->stack[8] = 0;
	f->stack[9] = ROOTED + 1;
	run(f, BARE + 0x10);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	assert_int_equal(f->frames[1], GUESSED(RETURN));
}

/* Callers stand behind calls, so nothing is read for them; nor is anything kept that could not be read. */
static void test_callers(void **state)
{
	struct fixture *f = *state;

	PUT(f, 0x10, "\xc3", 4);
	f->stack[1] = BARE + 0x10;
	f->fake.n_reads = 0;
	run(f, SMALL);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	assert_int_equal(f->frames[2], CALLED(ROOTED + 1));
	assert_int_equal(f->fake.n_reads, 0);
}

static void test_unread(void **state)
{
	struct fixture *f = *state;

	PUT(f, 0x10, "\xc3", 2);
	fixture_space(f, 6, NULL);
	assert_caller(f, BARE + 0x10, CALLED(ROOTED + 1));
	PUT(f, 0x10, "\xc3", 0); /* the same key, with a reader */
	assert_caller(f, BARE + 0x10, GUESSED(ROOTED + 1));
}

/* As a file's mapping: its page can be read whole. */
static ssize_t page_read(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	struct fake *fake = container_of(memory, struct fake, memory);
	uint64_t start = BARE & ~0xfffull;
	uint8_t page[0x1000];

	if (address != start) {
		fake->n_reads--; /* only pages are counted */
		return fake_read(memory, address, to, len);
	}
	fake->n_reads++;
	memset(page, 0xcc, sizeof(page));
	memcpy(page + (BARE - start), fake->bare, sizeof(fake->bare));
	len = min_u64(len, sizeof(page));
	memcpy(to, page, len);
	return (ssize_t)len;
}

/* One read for the code of a page, until mappings change. */
static void test_page(void **state)
{
	struct fixture *f = *state;

	assert_true(sizeof(f->fake.bare) <= 0x1000 - (BARE & 0xfff));
	f->fake.memory.read = page_read;
	PUT(f, 0x10, "\x48\x83\xc4\x08\x5d\xc3", 1);
	f->fake.n_reads = 0;
	assert_caller(f, BARE + 0x14, GUESSED(ROOTED + 1));
	assert_int_equal(f->fake.n_reads, 1);
	f->stack[0] = ROOTED + 1;
	assert_caller(f, BARE + 0x15, GUESSED(ROOTED + 1));
	assert_int_equal(f->fake.n_reads, 1);
	uw_engine_forget(f->engine, NULL);
	PUT(f, 0x10, "\x90\x90\x90\x90\xc3", 0);
	assert_caller(f, BARE + 0x14, GUESSED(ROOTED + 1));
	assert_int_equal(f->fake.n_reads, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_pops),    TEST(test_rbp),    TEST(test_frame_pointer),
		TEST(test_silent),  TEST(test_jump),   TEST(test_refuted),
		TEST(test_callers), TEST(test_unread), TEST(test_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
