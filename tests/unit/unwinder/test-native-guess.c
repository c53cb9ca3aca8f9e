/* test-native-guess.c - frames without CFI: chains, what the code shows, what stops a guess. */
#include "tests/unit/unwinder/native-fixture.h"

static void test_unreadable(void **state)
{
	struct fixture *f = *state;

	atomic_store(&f->module->unwind_state, UW_MODULE_UNREADABLE);
	f->regs[UW_X86_BP] = 1;
	run(f, SMALL);
	assert_result(f, UW_FAILED, UW_UNREADABLE, 1);
	f->regs[UW_X86_BP] = SP + 16;
	f->stack[2] = 0;
	f->stack[3] = FRAMED + 3;
	run(f, SMALL);
	/* rbp 0 ends a callchain in code without CFI; here it is not known whether there is CFI. */
	assert_result(f, UW_FAILED, UW_UNREADABLE, 2);
	assert_int_equal(f->frames[1], CALLED(FRAMED + 3) | UW_FRAME_GUESSED);
	/* A guess is not used once the module can be read. */
	atomic_store(&f->module->unwind_state, UW_MODULE_READY);
	uw_engine_forget(f->engine, f->module);
	f->stack[1] = ROOTED + 1;
	run(f, SMALL);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	assert_int_equal(f->frames[1], CALLED(ROOTED + 1));
}

static void test_guess(void **state)
{
	struct fixture *f = *state;

	f->regs[UW_X86_BP] = SP + 16;
	f->stack[2] = SP + 32;
	f->stack[3] = JIT + 0x25;
	f->stack[4] = 0;
	f->stack[5] = ROOTED + 1;
	run(f, JIT + 0x10); /* no code to read: the mapping has to do */
	assert_result(f, UW_WHOLE, UW_OK, 3);
	assert_int_equal(f->frames[1], CALLED(JIT + 0x25) | UW_FRAME_GUESSED);
	assert_int_equal(f->frames[2], CALLED(ROOTED + 1) | UW_FRAME_GUESSED);
	f->regs[UW_X86_BP] = SP + 17;
	f->stack[0] = 1;
	run(f, JIT + 0x10);
	assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 1);
	f->regs[UW_X86_BP] = SP + 8 * WORDS;
	run(f, JIT + 0x10);
	assert_result(f, UW_FAILED, UW_MEMORY, 1);
	/* A leaf in assembly without CFI: [rsp]. */
	f->stack[0] = ROOTED + 1;
	run(f, SILENT);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	assert_int_equal(f->frames[1], CALLED(ROOTED + 1) | UW_FRAME_GUESSED);
}

/* Both [rsp] and rbp lead to a caller, and the code cannot be read: assembly mostly is a leaf, JIT code
 * mostly has a frame. */
static void test_leaf_first(void **state)
{
	struct fixture *f = *state;

	f->stack[0] = ROOTED + 1;
	f->regs[UW_X86_BP] = SP + 16;
	f->stack[2] = SP + 64;
	f->stack[3] = SMALL + 1;
	run(f, SILENT);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	assert_int_equal(f->frames[1], CALLED(ROOTED + 1) | UW_FRAME_GUESSED);
	run(f, JIT + 0x10);
	assert_int_equal(f->frames[1], CALLED(SMALL + 1) | UW_FRAME_GUESSED);
}

static void test_guess_code(void **state)
{
	struct fixture *f = *state;

	fixture_space(f, 6, &f->fake.memory);
	memset(f->fake.code, 0x90, sizeof(f->fake.code));
	f->fake.code[0x20] = 0xe8; /* a call ends at 0x25 */
	f->fake.code[0x40] = 0x55; /* push %rbp */
	f->regs[UW_X86_BP] = SP + 16;
	f->stack[0] = JIT + 0x25;
	f->stack[2] = SP + 32;
	f->stack[3] = JIT + 0x25;
	f->stack[4] = 0;
	f->stack[5] = ROOTED + 1;
	run(f, JIT + 0x10);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	assert_int_equal(f->frames[1], CALLED(JIT + 0x25) | UW_FRAME_GUESSED);
	run(f, JIT + 0x40); /* before the push: the return address is at [rsp] */
	assert_result(f, UW_WHOLE, UW_OK, 4);
	f->stack[0] = 0;
	f->stack[3] = JIT + 0x31; /* that follows no call */
	f->stack[5] = 0x10;	  /* and leads to no root */
	for (unsigned round = 0; round < 2; round++) {
		run(f, JIT + 0x10);
		assert_result(f, UW_FAILED, UW_BAD_RETURN, 1);
		assert_int_equal(f->res.stopped_at, JIT + 0x31);
	}
	f->fake.n_reads = 0; /* all that was read is remembered */
	run(f, JIT + 0x10);
	assert_int_equal(f->fake.n_reads, 0);
}

/* A return address of 0 behind code of no file, or of one that cannot be read, is not an end: its rbp may
 * be any number.  Behind code that has no CFI it is. */
static void test_zero(void **state)
{
	struct fixture *f = *state;

	f->regs[UW_X86_BP] = SP + 16;
	f->stack[0] = 1;
	f->stack[2] = SP + 32;
	f->stack[3] = JIT + 0x25;
	f->stack[4] = 0;
	f->stack[5] = 0;
	for (unsigned round = 0; round < 2; round++) {
		run(f, JIT + 0x10); /* called, and interrupted */
		assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 2);
		assert_int_equal(f->res.stopped_at, JIT + 0x25);
	}
	f->stack[3] = SILENT + 0x15;
	run(f, JIT + 0x10);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	f->stack[3] = SMALL + 0x15;
	atomic_store(&f->module->unwind_state, UW_MODULE_UNREADABLE);
	fixture_space(f, 7, NULL);
	run(f, JIT + 0x10);
	assert_result(f, UW_FAILED, UW_UNREADABLE, 2);
	assert_int_equal(f->res.stopped_at, SMALL + 0x15);
}

/* What the code shows from the pc on to its ret: where return address and rbp are. */
static void test_guess_walk(void **state)
{
	struct fixture *f = *state;

	fixture_space(f, 6, &f->fake.memory);
	memset(f->fake.code, 0x90, sizeof(f->fake.code));
	f->fake.code[0x20] = 0xe8;				    /* a call ends at 0x25 */
	memcpy(f->fake.code + 0x40, "\x48\x83\xc4\x10\x5d\xc3", 6); /* add $16; pop %rbp; ret */
	f->regs[UW_X86_BP] = SP + 64;				    /* a chain that skips a frame */
	f->stack[8] = 0;
	f->stack[9] = JIT + 0x25;
	f->stack[2] = SP + 40; /* popped into rbp */
	f->stack[3] = JIT + 0x25;
	f->stack[5] = SP + 64;
	f->stack[6] = JIT + 0x25;
	for (unsigned round = 0; round < 2; round++) {
		run(f, JIT + 0x40);
		assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 4);
		assert_int_equal(f->frames[1], CALLED(JIT + 0x25) | UW_FRAME_GUESSED);
	}
	f->stack[3] = 0; /* no return address there: the chain, as before */
	run(f, JIT + 0x40);
	assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 2);
}

/* A return address that was made: a function's first byte, behind padding.  Only where the code itself
 * leads to it. */
static void test_made(void **state)
{
	struct fixture *f = *state;

	fixture_space(f, 6, &f->fake.memory);
	memset(f->fake.code, 0xcc, sizeof(f->fake.code));
	f->fake.code[0x20] = 0xe8;			    /* a call ends at 0x25 */
	memcpy(f->fake.code + 0x40, "\x90\x58\x5d\xc3", 4); /* nop; pop; pop %rbp; ret */
	f->fake.code[0x80] = 0x90;
	f->regs[UW_X86_BP] = 1;
	f->stack[1] = SP + 64;
	f->stack[2] = JIT + 0x80;
	f->stack[8] = SP + 96;
	f->stack[9] = ROOTED + 1;
	for (unsigned round = 0; round < 2; round++) {
		run(f, JIT + 0x40);
		assert_result(f, UW_WHOLE, UW_OK, 3);
		assert_int_equal(f->frames[1], CALLED(JIT + 0x80) | UW_FRAME_GUESSED);
		assert_int_equal(f->frames[2], CALLED(ROOTED + 1) | UW_FRAME_GUESSED);
	}
	/* In a module the padding is required: in another process, as answers are kept. */
	f->stack[2] = STILL + 0x40;
	fixture_space(f, 7, &f->fake.memory);
	run(f, JIT + 0x40);
	assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 1);
}

/* Return addresses in anonymous memory that follow no call, as HotSpot's interpreter pushes them. */
static void test_open(void **state)
{
	struct fixture *f = *state;
	const uint64_t entry = JIT + 0x60;

	fixture_space(f, 6, &f->fake.memory);
	memset(f->fake.code, 0x90, sizeof(f->fake.code));
	f->fake.code[0x20] = 0xe8; /* a call ends at 0x25 */
	f->fake.code[0x40] = 0x55; /* push %rbp */
	f->fake.code[0xff] = 0xcc;
	f->regs[UW_X86_BP] = SP + 16;
	f->stack[0] = entry;
	f->stack[2] = SP + 32;
	f->stack[3] = entry;
	f->stack[4] = SP + 64;
	f->stack[5] = entry;
	f->stack[8] = 0;
	f->stack[9] = SMALL + 1; /* CFA = rsp + 16 */
	/* The callchain does not reach a root: it has failed at the first of these addresses, each time. */
	f->stack[11] = 0x10;
	for (unsigned round = 0; round < 2; round++) {
		run(f, JIT + 0x10);
		assert_result(f, UW_FAILED, UW_BAD_RETURN, 1);
		assert_int_equal(f->res.stopped_at, entry);
	}
	/* Before push %rbp the return address is at [rsp]: it proves nothing by itself. */
	f->regs[UW_X86_BP] = 1;
	run(f, JIT + 0x40);
	assert_result(f, UW_FAILED, UW_BAD_RETURN, 1);
	f->regs[UW_X86_BP] = SP + 16;
	/* It does, by code with CFI: the frames hold, as guesses. */
	f->stack[11] = ROOTED + 1;
	for (unsigned round = 0; round < 2; round++) {
		run(f, JIT + 0x10);
		assert_result(f, UW_WHOLE, UW_OK, 5);
		assert_int_equal(f->frames[1], CALLED(entry) | UW_FRAME_GUESSED);
		assert_int_equal(f->frames[2], CALLED(entry) | UW_FRAME_GUESSED);
		assert_int_equal(f->frames[3], CALLED(SMALL + 1) | UW_FRAME_GUESSED);
		assert_int_equal(f->frames[4], CALLED(ROOTED + 1));
	}
	/* From now on it counts as a return address: a stack that fails behind it keeps its frame. */
	f->stack[11] = 0x10;
	run(f, JIT + 0x10);
	assert_result(f, UW_FAILED, UW_NO_MODULE, 4);
	/* A chain that turns back, or leaves the stack, is not sound. */
	f->stack[11] = ROOTED + 1;
	f->stack[0] = 1;
	f->stack[3] = entry + 1;
	f->stack[4] = SP + 16;
	run(f, JIT + 0x10);
	assert_result(f, UW_FAILED, UW_BAD_RETURN, 1);
	f->stack[4] = SP + 8 * WORDS;
	run(f, JIT + 0x10);
	assert_result(f, UW_FAILED, UW_BAD_RETURN, 1);
	/* Nor may this address be in a module. */
	f->stack[4] = SP + 64;
	f->stack[3] = STILL + 0x40;
	run(f, JIT + 0x10);
	assert_result(f, UW_FAILED, UW_BAD_RETURN, 1);
}

/* Memory that a JIT compiler uses again: other code, with another frame. */
static void test_reused(void **state)
{
	struct fixture *f = *state;
	uint8_t *code = f->fake.code;
	unsigned n_reads;

	fixture_space(f, 6, &f->fake.memory);
	memcpy(code + 0x20, "\xff\xd1\x48\x83\xc4\x08\xc3", 7); /* call *%rcx; add $8,%rsp; ret */
	memcpy(code + 0x40, "\x90\x90\xc3", 3);
	memset(code + 0x60, 0x90, 0x20); /* no call */
	f->regs[UW_X86_BP] = 1;
	f->stack[1] = JIT + 0x22; /* SMALL's caller: CFA = rsp + 16 */
	f->stack[3] = ROOTED + 1;
	run(f, SMALL);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	code[0x25] = 0x18; /* add $24,%rsp */
	f->stack[3] = 1;
	f->stack[5] = ROOTED + 1;
	run(f, SMALL);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	/* A call where there was none. */
	f->stack[5] = JIT + 0x65;
	run(f, SMALL);
	assert_int_equal(f->res.outcome, UW_FAILED);
	memcpy(code + 0x63, "\xff\xd1\xc3", 3);
	f->stack[6] = ROOTED + 1;
	run(f, SMALL);
	assert_result(f, UW_WHOLE, UW_OK, 4);
	/* A stack that fails again and again costs fewer and fewer reads. */
	f->stack[6] = 1;
	for (unsigned i = 0; i < 1000; i++)
		run(f, SMALL);
	n_reads = f->fake.n_reads;
	for (unsigned i = 0; i < 1000; i++) {
		run(f, SMALL);
		assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 3);
	}
	assert_in_range(f->fake.n_reads - n_reads, 0, 30);
}

/* CPython's trampolines: no frame pointer, and rbp may be any number. */
static void test_trampoline(void **state)
{
	struct fixture *f = *state;

	fixture_space(f, 6, &f->fake.memory);
	/* sub $8,%rsp; call *%rcx; add $8,%rsp; ret */
	memcpy(f->fake.code + 0x20, "\x48\x83\xec\x08\xff\xd1\x48\x83\xc4\x08\xc3", 11);
	f->stack[1] = JIT + 0x26; /* SMALL's caller: CFA = rsp + 16 */
	f->stack[3] = SMALL + 1;
	f->stack[5] = JIT + 0x26;
	f->stack[7] = SMALL + 1;
	f->stack[9] = ROOTED + 1;
	for (uint64_t bp = 0; bp < 3; bp++) {
		/* A number; a place that holds a return address of an outer frame. */
		f->regs[UW_X86_BP] = bp == 2 ? SP + 48 : bp;
		f->stack[6] = SP + 80;
		run(f, SMALL);
		assert_result(f, UW_WHOLE, UW_OK, 6);
		assert_int_equal(f->frames[1], CALLED(JIT + 0x26));
		assert_int_equal(f->frames[2], CALLED(SMALL + 1) | UW_FRAME_GUESSED);
		assert_int_equal(f->frames[3], CALLED(JIT + 0x26));
	}
}

/* A loop of a regular expression (PCRE), where no ret is near and rbp may be any number: the prologue shows the frame. */
static void test_prologue(void **state)
{
	struct fixture *f = *state;
	unsigned n_reads;

	fixture_space(f, 6, &f->fake.memory);
	memset(f->fake.code, 0xf4, sizeof(f->fake.code)); /* hlt: no walk gets through */
	/* push %rbx; push %rbp; sub $16,%rsp */
	memcpy(f->fake.code + 0x20, "\x53\x55\x48\x83\xec\x10", 6);
	f->stack[2] = SP + 40; /* rbp */
	f->stack[4] = SMALL + 1;
	f->stack[6] = ROOTED + 1;
	f->regs[UW_X86_BP] = 1;
	for (unsigned round = 0; round < 2; round++) {
		run(f, JIT + 0x60);
		assert_result(f, UW_WHOLE, UW_OK, 3);
		assert_int_equal(f->frames[1], CALLED(SMALL + 1) | UW_FRAME_GUESSED);
		assert_int_equal(f->frames[2], CALLED(ROOTED + 1));
	}
	n_reads = f->fake.n_reads;
	run(f, JIT + 0x60);
	assert_int_equal(f->fake.n_reads, n_reads); /* the rule is noted */
	/* What it gives must be a return address; a search that failed is not repeated. */
	f->stack[4] = 12345;
	run(f, JIT + 0x70);
	assert_int_equal(f->res.outcome, UW_FAILED);
	f->stack[4] = SMALL + 1;
	fixture_space(f, 7, &f->fake.memory);
	memset(f->fake.code + 0x20, 0xf4, 6);
	for (unsigned round = 0; round < 1000; round++)
		run(f, JIT + 0x60);
	n_reads = f->fake.n_reads;
	for (unsigned round = 0; round < 1000; round++) {
		run(f, JIT + 0x60);
		assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 1);
	}
	assert_in_range(f->fake.n_reads - n_reads, 0, 30);
}

/* A helper in that code has its return address in the code's own frame, at [rsp]. */
static void test_helper(void **state)
{
	struct fixture *f = *state;

	fixture_space(f, 6, &f->fake.memory);
	f->fake.has_small = true;
	memset(f->fake.code, 0xf4, sizeof(f->fake.code));
	memcpy(f->fake.code + 0x20, "\x53\x55\x48\x83\xec\x10", 6);
	/* call JIT + 0x60; add $16,%rsp; pop %rbp; pop %rbx; ret */
	memcpy(f->fake.code + 0x50, "\xe8\x0b\x00\x00\x00\x48\x83\xc4\x10\x5d\x5b\xc3", 12);
	memcpy(f->fake.small + 0xe, "\xff\xd0", 2);
	f->stack[0] = JIT + 0x55;
	f->stack[2] = SP + 40;
	f->stack[4] = SMALL + 0x10;
	f->stack[6] = ROOTED + 1;
	f->regs[UW_X86_BP] = 1;
	for (unsigned round = 0; round < 2; round++) {
		run(f, JIT + 0x62);
		EXPECT(f, JIT + 0x62, CALLED(JIT + 0x55) | UW_FRAME_GUESSED,
		       CALLED(SMALL + 0x10) | UW_FRAME_GUESSED, CALLED(ROOTED + 1));
	}
	/* Behind a call rsp is where it was. */
	f->stack[3] = SP + 48;
	f->stack[5] = SMALL + 0x10;
	f->stack[4] = 12345;
	f->stack[7] = ROOTED + 1;
	fixture_space(f, 7, &f->fake.memory);
	run(f, JIT + 0x62);
	EXPECT(f, JIT + 0x62, CALLED(JIT + 0x55) | UW_FRAME_GUESSED,
	       CALLED(SMALL + 0x10) | UW_FRAME_GUESSED, CALLED(ROOTED + 1));
	/* Only where the call is known. */
	f->stack[4] = SMALL + 0x10;
	f->stack[5] = 12345;
	f->fake.has_small = false;
	fixture_space(f, 8, &f->fake.memory);
	run(f, JIT + 0x62);
	assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 2);
}

/* The first instructions of a program, without CFI: argc, argv, 0, the environment, 0, and what the
 * kernel reports, the size of a page (6) among it. */
static void test_start(void **state)
{
	static const uint64_t start[] = {2, SP + 256, SP + 264, 0, SP + 272, 0, 33, 7, 6, 4096};
	struct fixture *f = *state;
	static const struct {
		size_t at;
		uint64_t value;
	} wrong[] = {
		{0, 0},	     /* no arguments */
		{0, 1},	     /* argv does not end there */
		{1, SP + 8}, /* no pointer to a string above */
		{2, 0},	     /* argv ends before */
		{3, 1},	     /* or not at all */
		{4, 12},     /* no environment */
		{6, 0},	     /* no entry */
		{6, 1 << 16}, {9, 4095},
	};

	memcpy(f->stack, start, sizeof(start));
	run(f, SILENT);
	assert_result(f, UW_WHOLE, UW_OK, 1);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		f->stack[wrong[i].at] = wrong[i].value;
		run(f, SILENT);
		assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 1);
		f->stack[wrong[i].at] = start[wrong[i].at];
	}
	run(f, SILENT);
	assert_result(f, UW_WHOLE, UW_OK, 1);
}

/* A return address of 0 that rbp happens to lead to is not an end of an interrupted function's stack. */
static void test_no_end(void **state)
{
	struct fixture *f = *state;

	f->regs[UW_X86_BP] = SP + 16;
	f->stack[0] = 1;
	f->stack[3] = 0;
	run(f, SILENT);
	assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 1);
}

/* CFI that states nothing but where a function begins and ends. */
static void test_still(void **state)
{
	struct fixture *f = *state;

	fixture_space(f, 6, &f->fake.memory);
	memset(f->fake.code, 0x90, sizeof(f->fake.code));
	f->fake.code[0x20] = 0xe8; /* a call ends at 0x25 */
	f->stack[0] = ROOTED + 1;
	memset(f->fake.still, 0x90, sizeof(f->fake.still));
	f->fake.still[0x7f] = 0xc3;
	run(f, STILL + 0x40); /* rsp is left alone: the CFI is true */
	assert_result(f, UW_WHOLE, UW_OK, 2);
	assert_int_equal(f->frames[1], CALLED(ROOTED + 1));
	f->fake.n_reads = 0;
	run(f, STILL + 0x41); /* read once */
	assert_result(f, UW_WHOLE, UW_OK, 2);
	assert_int_equal(f->fake.n_reads, 0);
}

/* Go's runtime: code that goes on to another stack, of which its CFI knows nothing.  What stands there is of
 * long ago, as if there were a caller. */
static void test_go_stacks(void **state)
{
	/* 0x20: mov %rbx,%rsp; 0x23: mov %rdi,%rdx; mov (%rdi),%rdi; call *%rdi; 0x2b: mov %fs:-8,%rax */
	static const uint8_t code[] = "\x48\x89\xdc\x48\x89\xfa\x48\x8b\x3f\xff\xd7"
				      "\x64\x48\x8b\x04\x25\xf8\xff\xff\xff";
	struct fixture *f = *state;

	fixture_space(f, 6, &f->fake.memory);
	memset(f->fake.code, 0x90, sizeof(f->fake.code));
	f->fake.code[0x20] = 0xe8; /* a call ends at 0x25 */
	memset(f->fake.goes, 0x90, sizeof(f->fake.goes));
	memcpy(f->fake.goes + 0x20, code, sizeof(code) - 1);
	f->stack[0] = JIT + 0x25;
	f->stack[1] = ROOTED + 1;
	f->regs[UW_X86_BP] = SP + 64;
	f->stack[9] = ROOTED + 1;
	run(f, GOES + 0x10); /* not on it yet: the CFI is true */
	assert_int_equal(f->frames[1], CALLED(JIT + 0x25));
	/* systemstack is the first frame of the thread's own stack */
	f->stack[1] = GOES + 0x2b; /* of SMALL, CFA = rsp + 16 */
	f->stack[2] = JIT + 0x25;
	run(f, SMALL + 0x10); /* its goroutine is not known */
	assert_result(f, UW_CUT, UW_OK, 2);
	assert_int_equal(f->frames[1], CALLED(GOES + 0x2b));
	/* so is mcall, behind its push; a function of Go's with this frame has a caller */
	memcpy(f->fake.goes + 0xb0, "\x4c\x8b\x22\x41\xff\xd4\x58\xe9\x00", 9);
	for (unsigned pushes = 0; pushes < 2; pushes++) {
		f->fake.goes[0xaf] = pushes ? 0x50 : 0x90;
		uw_engine_forget(f->engine, NULL);
		f->stack[1] = GOES_PUSHING + 0x36;
		f->stack[2] = 0;
		f->stack[3] = ROOTED + 1;
		run(f, SMALL + 0x10);
		assert_result(f, UW_WHOLE, UW_OK, pushes ? 2 : 3);
	}
}

/* A new stack with nothing on it (Go's clone): its top is its end; anything else there is no caller. */
static void test_go_top(void **state)
{
	struct fixture *f = *state;

	fixture_space(f, 6, &f->fake.memory);
	memset(f->fake.goes, 0x90, sizeof(f->fake.goes));
	memcpy(f->fake.goes + 0x20, "\x48\x89\xf4\x41\xff\xd4", 6); /* mov %rsi,%rsp; call *%r12 */
	f->stack[1] = GOES + 0x26;
	f->regs[UW_X86_BP] = 1;
	run(f, SMALL + 0x10);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	f->stack[2] = ROOTED + 1;
	run(f, SMALL + 0x10);
	assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 2);
}

/* One that calls the vDSO on the thread's own stack: rbp leads to the caller's frame, or to the stack that was left. */
static void test_go_clock(void **state)
{
	struct fixture *f = *state;
	struct uw_module *vdso;

	assert_int_equal(uw_module_new(UW_MODULE_JIT, "[vdso]", NULL, &vdso), 0);
	f->maps[1].module = vdso;
	fixture_space(f, 6, NULL);
	f->stack[0] = SP + 48; /* a frame with a frame pointer in the vDSO */
	f->stack[1] = GOES_HOME + 0x26;
	f->stack[5] = ROOTED + 1; /* where the CFI has the return address */
	f->regs[UW_X86_BP] = SP;
	f->stack[6] = 0;
	f->stack[7] = SMALL + 1;
	f->stack[9] = ROOTED + 1;
	run(f, JIT + 0x10);
	assert_result(f, UW_WHOLE, UW_OK, 4);
	assert_int_equal(f->frames[2], CALLED(SMALL + 1) | UW_FRAME_GUESSED);
	f->stack[0] = 0xc00001234568;
	run(f, JIT + 0x10);
	assert_result(f, UW_CUT, UW_OK, 2);
	fixture_space(f, 7, NULL);
	uw_module_unref(vdso);
}

/* One that goes to another stack, and pushes what it returns to. */
static void test_pushes(void **state)
{
	/* 0x50: mov 0xa0(%rdx),%rsp; 0x57: mov 0x78(%rdx),%rbp; 0x5b: mov 0xa8(%rdx),%rcx;
	 * 0x62: push %rcx; ret */
	static const uint8_t code[] = "\x48\x8b\xa2\xa0\x00\x00\x00\x48\x8b\x6a\x78"
				      "\x48\x8b\x8a\xa8\x00\x00\x00\x51\xc3";
	struct fixture *f = *state;

	fixture_space(f, 6, &f->fake.memory);
	memset(f->fake.code, 0x90, sizeof(f->fake.code));
	f->fake.code[0x20] = 0xe8; /* a call ends at 0x25 */
	memset(f->fake.still, 0x90, sizeof(f->fake.still));
	memcpy(f->fake.still + 0x50, code, sizeof(code) - 1);
	f->stack[0] = ROOTED + 1; /* what stands there is a local of the other stack's */
	f->regs[UW_X86_DX] = SP + 8;
	f->regs[UW_X86_BP] = 1;
	f->stack[1 + 0x78 / 8] = SP + 80;
	f->stack[1 + 0xa8 / 8] = JIT + 0x25;
	f->stack[10] = 0; /* the other stack's chain */
	f->stack[11] = ROOTED + 1;
	run(f, STILL + 0x50); /* not on it yet */
	assert_result(f, UW_WHOLE, UW_OK, 2);
	assert_int_equal(f->frames[1], CALLED(ROOTED + 1));
	for (unsigned round = 0; round < 2; round++) {
		run(f, STILL + 0x57);
		assert_result(f, UW_WHOLE, UW_OK, 3);
		assert_int_equal(f->frames[1], CALLED(JIT + 0x25) | UW_FRAME_GUESSED);
	}
	f->regs[UW_X86_BP] = SP + 80;
	f->regs[UW_X86_CX] = JIT + 0x25;
	f->regs[UW_X86_DX] = 0;
	run(f, STILL + 0x62); /* in the registers */
	assert_result(f, UW_WHOLE, UW_OK, 3);
	assert_int_equal(f->frames[1], CALLED(JIT + 0x25) | UW_FRAME_GUESSED);
	run(f, STILL + 0x57); /* the block is not there */
	assert_result(f, UW_FAILED, UW_MEMORY, 1);
	assert_int_equal(f->res.stopped_at, 0xa8);
	f->regs[UW_X86_CX] = JIT + 0x30;
	run(f, STILL + 0x62); /* a function that was not called */
	assert_result(f, UW_FAILED, UW_BAD_RETURN, 1);
	/* Pushed: the code agrees with the CFI, which is not trusted any more all the same. */
	f->stack[0] = JIT + 0x25;
	run(f, STILL + 0x63);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	assert_int_equal(f->frames[1], CALLED(JIT + 0x25) | UW_FRAME_GUESSED);
}

/* Where the code cannot be read there is no answer; the rule is a guess then, and holds for no
 * other process and no later snapshot. */
static void test_still_unread(void **state)
{
	struct fixture *f = *state;

	f->stack[0] = ROOTED + 1;
	run(f, STILL + 0x23);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	assert_int_equal(f->frames[1], CALLED(ROOTED + 1) | UW_FRAME_GUESSED);
	memset(f->fake.still, 0x90, sizeof(f->fake.still));
	for (uint32_t key = 7; key >= 5; key -= 2) { /* another process, and this one */
		fixture_space(f, key, &f->fake.memory);
		run(f, STILL + 0x23);
		assert_result(f, UW_WHOLE, UW_OK, 2);
		assert_int_equal(f->frames[1], CALLED(ROOTED + 1));
	}
}

/* push at 0x10, a call up to 0x45, pop at 0x60, ret at 0x7f. */
static void put_pushing(struct fixture *f)
{
	memset(f->fake.code, 0x90, sizeof(f->fake.code));
	memset(f->fake.still, 0x90, sizeof(f->fake.still));
	f->fake.still[0x10] = 0x53;
	memcpy(f->fake.still + 0x40, "\xe8\x00\x00\x00\x00", 5);
	f->fake.still[0x60] = 0x5b;
	f->fake.still[0x7f] = 0xc3;
}

/* Behind its push: a local, and the return address. */
static void assert_pushing(struct fixture *f)
{
	f->stack[0] = ROOTED + 4;
	f->stack[1] = ROOTED + 1;
	run(f, STILL + 0x48);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	assert_int_equal(f->frames[1], CALLED(ROOTED + 1) | UW_FRAME_GUESSED);
}

/* A leaf without CFI asks for the rule of its caller while it is the frame that the walk stands on:
 * the verdict is on the caller's own code. */
static void test_still_candidate(void **state)
{
	struct fixture *f = *state;

	fixture_space(f, 6, &f->fake.memory);
	put_pushing(f);
	f->stack[0] = STILL + 0x45;
	f->stack[1] = ROOTED + 4;
	f->stack[2] = ROOTED + 1;
	run(f, JIT + 0x80);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	assert_int_equal(f->frames[1], CALLED(STILL + 0x45) | UW_FRAME_GUESSED);
	assert_int_equal(f->frames[2], CALLED(ROOTED + 1) | UW_FRAME_GUESSED);
	assert_pushing(f);
}

/* A function that is the first of its mapping. */
static void test_still_first(void **state)
{
	struct fixture *f = *state;

	f->maps[0].start = STILL;
	f->maps[0].offset = STILL - CFI_BIAS;
	fixture_space(f, 6, &f->fake.memory);
	put_pushing(f);
	f->stack[0] = ROOTED + 4;
	f->stack[1] = JIT + 0x25;
	f->fake.code[0x20] = 0xe8;
	f->regs[UW_X86_BP] = SP + 80;
	run(f, STILL + 0x48);
	assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 2);
	assert_int_equal(f->frames[1], CALLED(JIT + 0x25) | UW_FRAME_GUESSED);
}

/* Behind an unknown instruction the CFI is not trusted any more; before it, it is. */
static void test_still_unknown(void **state)
{
	struct fixture *f = *state;

	fixture_space(f, 6, &f->fake.memory);
	put_pushing(f);
	f->fake.still[0x08] = 0x06;
	f->stack[0] = ROOTED + 1;
	run(f, STILL + 0x08);
	assert_int_equal(f->frames[1], CALLED(ROOTED + 1));
	run(f, STILL + 0x09);
	assert_true(f->res.n_frames < 2 || f->frames[1] & UW_FRAME_GUESSED);
}

enum { STG_WORDS = 2200, STG_RBP = 2049, STG_RETURN = 2054 }; /* in words from rsp on */

/* As GHC's code has it: no CFI, far below the frame that StgRun has made for schedule(). */
static void stg_stack(struct fixture *f, uint64_t *stack, size_t skip, uint64_t to)
{
	int32_t call = (int32_t)(to - (BARE + 0x25));

	memset(stack, 0, STG_WORDS * sizeof(*stack));
	memset(f->fake.bare, 0x90, sizeof(f->fake.bare));
	f->fake.bare[0x20] = 0xe8;
	memcpy(f->fake.bare + 0x21, &call, sizeof(call));
	stack[skip + STG_RBP] = SP + 8 * (STG_RETURN + 20);
	stack[skip + STG_RETURN] = BARE + 0x25;
	stack[skip + STG_RETURN + 3] = ROOTED + 1;
	f->snapshot.stack = (uint8_t *)stack;
	f->snapshot.stack_len = STG_WORDS * sizeof(*stack);
	f->regs[UW_X86_BP] = 0x5000000000; /* Haskell's stack */
}

static void test_haskell(void **state)
{
	struct fixture *f = *state;
	uint64_t stack[STG_WORDS];

	fixture_space(f, 6, &f->fake.memory);
	for (size_t skip = 0; skip < 2; skip++) /* ... and while it calls a C function */
		for (unsigned round = 0; round < 2; round++) {
			stg_stack(f, stack, skip, RUNS);
			run(f, SILENT + 0x20 + skip);
			assert_result(f, UW_WHOLE, UW_OK, 3);
			assert_int_equal(f->frames[1], CALLED(BARE + 0x25));
			assert_int_equal(f->frames[2], CALLED(ROOTED + 1));
		}
}

/* A call of another function, a copy that ends before, or a word that is not a return address: no proof. */
static void test_haskell_unproved(void **state)
{
	struct fixture *f = *state;
	uint64_t stack[STG_WORDS];

	fixture_space(f, 6, &f->fake.memory);
	stg_stack(f, stack, 0, SMALL);
	run(f, SILENT + 0x20);
	assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 1);
	stg_stack(f, stack, 0, RUNS);
	f->snapshot.stack_len = 8 * (STG_RETURN + 1) - 1;
	run(f, SILENT + 0x21);
	assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 1);
	stg_stack(f, stack, 0, RUNS);
	stack[STG_RETURN] = BARE + 0x24;
	run(f, SILENT + 0x22);
	assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_unreadable),
		TEST(test_guess),
		TEST(test_guess_code),
		TEST(test_zero),
		TEST(test_leaf_first),
		TEST(test_made),
		TEST(test_open),
		TEST(test_trampoline),
		TEST(test_prologue),
		TEST(test_helper),
		TEST(test_reused),
		TEST(test_guess_walk),
		TEST(test_start),
		TEST(test_no_end),
		TEST(test_still),
		TEST(test_go_stacks),
		TEST(test_go_top),
		TEST(test_go_clock),
		TEST(test_pushes),
		TEST(test_still_unread),
		TEST(test_still_candidate),
		TEST(test_still_first),
		TEST(test_still_unknown),
		TEST(test_haskell),
		TEST(test_haskell_unproved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
