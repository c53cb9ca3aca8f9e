/* test-native.c - the native engine over stacks and CFI made by hand.
 *
 * The module's functions, each 0x80 bytes; pc is vaddr + 0x400000:
 *   0x1000 small   CFA = rsp + 16                    0x1400 rooted  return address undefined
 *   0x1080 saves   CFA = rsp + 32, rbp at CFA - 16   0x1480 leaps   CFA = r10
 *   0x1100 framed  CFA = rbp + 16, rbp at CFA - 16   0x1500 by_rbx  CFA = rbx + 8
 *   0x1180 popped  CFA = rbp + 32, rbp at CFA - 32   0x1580 keeper  CFA = rsp + 24, rbx at CFA - 16
 *   0x1640 signal  'S': CFA = [rsp + 32], registers from rsp on (put_signal)
 *   0x1700 damaged a program that ends in the middle
 *   0x1780 vforks  CFA = rsp, return address in rdi
 *   0x17c0 left    CFA = rsp + 8, rbp at [rbp], as a compiler says it behind a leave
 *   0x1800 nothing is said */
#include "tests/unit/unwinder/cfi-fixture.h"

#include "unwinder/engine.h"

enum {
	SP = 0x7fff0000,
	SMALL = 0x401000,
	SAVES = 0x401080,
	FRAMED = 0x401100,
	POPPED = 0x401180,
	ROOTED = 0x401400,
	LEAPS = 0x401480,
	BY_RBX = 0x401500,
	KEEPER = 0x401580,
	SIGNAL = 0x401640,
	VFORKS = 0x401780,
	LEFT = 0x4017c0,
	DAMAGED = 0x401700,
	SILENT = 0x401800,
	JIT = 0x600000,
	WORDS = 512,
	FRAMES = 64,
};
#define CALLED(pc) ((pc) | UW_FRAME_CALLER)

/* Process memory: our stack, and code. */
struct fake {
	struct uw_memory memory;
	uint64_t stack[WORDS];
	uint8_t code[0x100]; /* at JIT */
	unsigned n_reads;
};

struct fixture {
	struct fake fake;
	struct uw_module *module;
	struct uw_map maps[2];
	struct uw_space *space;
	struct uw_engine *engine;
	uint64_t regs[UW_X86_COUNT], stack[WORDS], frames[FRAMES];
	struct uw_snapshot snapshot;
	struct uw_result res;
};

static ssize_t fake_read(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	struct fake *f = container_of(memory, struct fake, memory);
	const void *from = f->stack;
	uint64_t start = SP, size = sizeof(f->stack);

	f->n_reads++;
	if (address >= JIT && address < JIT + sizeof(f->code)) {
		from = f->code;
		start = JIT;
		size = sizeof(f->code);
	}
	if (address < start || address >= start + size)
		return -1;
	len = min_u64(len, start + size - address);
	memcpy(to, (const uint8_t *)from + (address - start), len);
	return (ssize_t)len;
}

/* rip, rbp, rbx at [rsp], [rsp + 8], [rsp + 16]; rsp at [rsp + 32]. */
static size_t put_signal(struct bytes *eh)
{
	static const uint8_t program[] = {
		DEF_CFA_EXPRESSION, 3,	 0x77, 32,   0x06, EXPRESSION, RIP, 2, 0x77, 0,
		EXPRESSION,	    RBP, 2,    0x77, 8,	   EXPRESSION, RBX, 2, 0x77, 16,
	};

	return put_fde(eh, put_cie(eh, "zRS"), SIGNAL - CFI_BIAS, 0x80, program, sizeof(program));
}

static struct uw_module *module_make(void)
{
	struct bytes eh = {.n = 0}, hdr = {.n = 0};
	size_t cie = put_cie(&eh, "zR");
	uint64_t pairs[][2] = {
		{SMALL, PUT_FDE(&eh, cie, SMALL - CFI_BIAS, 0x80, DEF_CFA_OFFSET, 16)},
		{SAVES,
		 PUT_FDE(&eh, cie, SAVES - CFI_BIAS, 0x80, DEF_CFA_OFFSET, 32, OFFSET | RBP, 2)},
		{FRAMED,
		 PUT_FDE(&eh, cie, FRAMED - CFI_BIAS, 0x80, DEF_CFA, RBP, 16, OFFSET | RBP, 2)},
		{POPPED,
		 PUT_FDE(&eh, cie, POPPED - CFI_BIAS, 0x80, DEF_CFA, RBP, 32, OFFSET | RBP, 4)},
		{ROOTED, PUT_FDE(&eh, cie, ROOTED - CFI_BIAS, 0x80, UNDEFINED, RIP)},
		{LEAPS, PUT_FDE(&eh, cie, LEAPS - CFI_BIAS, 0x80, DEF_CFA, R10, 0)},
		{BY_RBX, PUT_FDE(&eh, cie, BY_RBX - CFI_BIAS, 0x80, DEF_CFA, RBX, 8)},
		{KEEPER,
		 PUT_FDE(&eh, cie, KEEPER - CFI_BIAS, 0x80, DEF_CFA_OFFSET, 24, OFFSET | RBX, 2)},
		{SIGNAL, put_signal(&eh)},
		{DAMAGED, PUT_FDE(&eh, cie, DAMAGED - CFI_BIAS, 0x80, 0x3f, 0x3f, 0x3f)},
		{VFORKS, PUT_FDE(&eh, cie, VFORKS - CFI_BIAS, 0x40, DEF_CFA_OFFSET, 0, IN_REGISTER,
				 RIP, RDI)},
		{LEFT, PUT_FDE(&eh, cie, LEFT - CFI_BIAS, 0x40, DEF_CFA_OFFSET, 8, EXPRESSION, RBP,
			       2, 0x76, 0)},
	};

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++)
		pairs[i][0] -= CFI_BIAS;
	put_hdr(&hdr, ARRAY_SIZE(pairs), (const uint64_t(*)[2])pairs);
	return module_of(image_of(&hdr, &eh, NULL));
}

static void fixture_space(struct fixture *f, uint32_t key, struct uw_memory *memory)
{
	uw_space_unref(f->space);
	assert_int_equal(uw_space_new(f->maps, 2, key, memory, &f->space), 0);
	f->snapshot.space = f->space;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->fake.memory.read = fake_read;
	f->module = module_make();
	f->maps[0] = (struct uw_map){.start = CFI_BIAS + TEXT_AT,
				     .end = CFI_BIAS + TEXT_END,
				     .offset = TEXT_AT,
				     .module = f->module};
	f->maps[1] = (struct uw_map){.start = JIT, .end = JIT + 0x1000};
	f->snapshot = (struct uw_snapshot){
		.regs = f->regs,
		.arch = UW_ARCH_X86_64,
		.stack = (uint8_t *)f->stack,
		.stack_len = sizeof(f->stack),
	};
	fixture_space(f, 5, NULL);
	f->regs[UW_X86_SP] = SP;
	assert_int_equal(uw_engine_new(UW_ENGINE_NATIVE, &f->engine), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	uw_engine_free(f->engine);
	uw_space_unref(f->space);
	uw_module_unref(f->module);
	free(f);
	return 0;
}

static void run(struct fixture *f, uint64_t pc)
{
	f->regs[UW_X86_IP] = pc;
	f->res = (struct uw_result){.frames = f->frames,
				    .max_frames = f->res.max_frames ? f->res.max_frames : FRAMES};
	assert_int_equal(uw_unwind_batch(f->engine, &f->snapshot, 1, &f->res), 0);
}

#define assert_result(f, outcome_, reason_, n)                \
	do {                                                  \
		assert_int_equal((f)->res.outcome, outcome_); \
		assert_int_equal((f)->res.reason, reason_);   \
		assert_int_equal((f)->res.n_frames, n);       \
	} while (0)

static void test_plain(void **state)
{
	struct fixture *f = *state;

	for (unsigned round = 0; round < 2; round++) { /* cold, and out of the cache */
		f->regs[UW_X86_BP] = SP + 8 * 8;
		f->stack[1] = SAVES + 5;       /* small, 16 bytes */
		f->stack[2 + 2] = SP + 8 * 10; /* saves: rbp, ra at words 4 and 5 */
		f->stack[2 + 3] = FRAMED + 9;
		f->stack[10] = 0x1234; /* framed by that rbp */
		f->stack[11] = ROOTED + 1;
		run(f, SMALL);
		assert_result(f, UW_WHOLE, UW_OK, 4);
		assert_int_equal(f->frames[0], SMALL);
		assert_int_equal(f->frames[1], CALLED(SAVES + 5));
		assert_int_equal(f->frames[2], CALLED(FRAMED + 9));
		assert_int_equal(f->frames[3], CALLED(ROOTED + 1));
	}
	f->stack[11] = 0; /* a return address of 0 is a root, too */
	run(f, SMALL);
	assert_result(f, UW_WHOLE, UW_OK, 3);
}

/* A return address may be the first byte of the next function: what counts is the call before it.
 */
static void test_call_at_end(void **state)
{
	struct fixture *f = *state;

	f->stack[1] = SAVES; /* belongs to small: 16 bytes more */
	f->stack[3] = ROOTED + 1;
	run(f, SMALL + 3);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	assert_int_equal(f->frames[1], CALLED(SAVES));
	f->stack[3] = ROOTED + 1; /* the leaf itself is not stepped back: saves, 32 bytes */
	run(f, SAVES);
	assert_result(f, UW_WHOLE, UW_OK, 2);
}

static void test_popped(void **state)
{
	struct fixture *f = *state;

	/* rbp + 32 is the CFA, rbp is said to be at [rbp], which is below rsp: the register counts.
	 */
	f->regs[UW_X86_BP] = SP - 8;
	f->stack[2] = FRAMED + 1;
	f->stack[3] = 0;
	run(f, POPPED);
	assert_result(f, UW_FAILED, UW_NO_PROGRESS, 2); /* framed by rbp SP - 8: CFA below rsp */
	f->regs[UW_X86_BP] = SP + 8;
	f->stack[1] = SP + 8 * 8; /* at or above rsp it is loaded */
	f->stack[4] = FRAMED + 1;
	f->stack[9] = ROOTED + 1;
	run(f, POPPED);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	/* CFA 16, so rbp is said to be at -16: below rsp, not at the end of all addresses. */
	f->regs[UW_X86_SP] = 8;
	f->regs[UW_X86_BP] = (uint64_t)0 - 16;
	f->stack[0] = FRAMED + 1;
	run(f, POPPED);
	assert_result(f, UW_FAILED, UW_NO_PROGRESS, 2);
	assert_int_equal(f->res.stopped_at, 0);
}

static void test_bounds(void **state)
{
	struct fixture *f = *state;

	f->stack[1] = SMALL + 1;
	f->stack[3] = ROOTED + 1;
	f->snapshot.stack_len = 32;
	run(f, SMALL);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	f->snapshot.stack_len = 31;
	run(f, SMALL);
	assert_result(f, UW_FAILED, UW_MEMORY, 2);
	assert_int_equal(f->res.stopped_at, SP + 24);
	f->snapshot.stack_full = true;
	run(f, SMALL);
	assert_result(f, UW_CUT, UW_OK, 2);
	assert_int_equal(f->res.stopped_at, SP + 24);
	f->snapshot.stack_len = 0;
	f->snapshot.stack = NULL;
	run(f, SMALL);
	assert_result(f, UW_CUT, UW_OK, 1);
	f->snapshot.stack_full = false;
	run(f, SMALL);
	assert_result(f, UW_FAILED, UW_MEMORY, 1);
}

static void test_ends(void **state)
{
	struct fixture *f = *state;

	f->stack[1] = 0x1234567;
	run(f, SMALL);
	assert_result(f, UW_FAILED, UW_NO_MODULE, 1); /* that was no caller */
	assert_int_equal(f->res.stopped_at, 0x1234567);
	f->stack[1] = 0xffffffff81000000;
	run(f, SMALL);
	assert_result(f, UW_FAILED, UW_NO_MODULE, 1);
	run(f, 0x1234567);
	assert_result(f, UW_FAILED, UW_NO_MODULE, 1); /* but this is where it was */
	run(f, 0);
	assert_result(f, UW_FAILED, UW_NO_MODULE, 0);
	run(f, DAMAGED);
	assert_result(f, UW_FAILED, UW_BAD_CFI, 1);
	f->regs[UW_X86_BP] = SP - 64;
	run(f, FRAMED);
	assert_result(f, UW_FAILED, UW_NO_PROGRESS, 1);
	f->snapshot.regs = NULL;
	run(f, SMALL);
	assert_result(f, UW_FAILED, UW_NO_USER_STATE, 0);
	f->snapshot.regs = f->regs;
	f->snapshot.arch = UW_ARCH_NONE;
	run(f, SMALL);
	assert_result(f, UW_FAILED, UW_ABI, 0);
}

static void test_too_deep(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 1; i < WORDS; i += 2)
		f->stack[i] = SMALL + 1;
	for (uint32_t max = 1; max <= FRAMES; max++) {
		f->res.max_frames = max;
		run(f, SMALL);
		assert_result(f, UW_FAILED, UW_TOO_DEEP, max);
	}
}

static void test_slow(void **state)
{
	struct fixture *f = *state;

	f->regs[UW_X86_R8 + 2] = SP + 64; /* leaps: CFA = r10 */
	f->stack[7] = ROOTED + 1;
	run(f, LEAPS);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	/* rbx is changed and kept by keeper; its caller's CFA needs the old one: walked again from
	 * the leaf. */
	f->regs[UW_X86_BX] = 0xbad;
	f->stack[1] = KEEPER + 1;      /* small */
	f->stack[2 + 1] = SP + 8 * 20; /* keeper: rbx */
	f->stack[2 + 2] = BY_RBX + 1;
	f->stack[20] = ROOTED + 1; /* CFA = rbx + 8 */
	for (unsigned round = 0; round < 2; round++) {
		run(f, SMALL);
		assert_result(f, UW_WHOLE, UW_OK, 4);
		assert_int_equal(f->frames[2], CALLED(BY_RBX + 1));
		assert_int_equal(f->frames[3], CALLED(ROOTED + 1));
	}
	f->stack[2 + 1] = SP; /* CFA below: no progress */
	run(f, SMALL);
	assert_result(f, UW_FAILED, UW_NO_PROGRESS, 3);
	f->stack[2 + 1] = SP + 8 * WORDS;
	run(f, SMALL);
	assert_result(f, UW_FAILED, UW_MEMORY, 3);
	f->regs[UW_X86_R8 + 2] = SP + 64; /* r10 does not live through a call */
	f->stack[1] = LEAPS + 1;
	run(f, SMALL);
	assert_result(f, UW_FAILED, UW_BAD_CFI, 2);
}

/* Its stack pointer is its caller's: allowed to what was interrupted, never to what was called. */
static void test_return_address_in_register(void **state)
{
	struct fixture *f = *state;

	f->regs[UW_X86_DI] = SMALL + 1;
	f->stack[1] = ROOTED + 1;
	run(f, VFORKS);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	assert_int_equal(f->frames[1], CALLED(SMALL + 1));
	assert_int_equal(f->frames[2], CALLED(ROOTED + 1));
	f->regs[UW_X86_DI] = VFORKS + 1;
	run(f, VFORKS);
	assert_result(f, UW_FAILED, UW_BAD_CFI, 2); /* rdi is not known in a caller */
}

static void put_signal_frame(struct fixture *f, size_t word, uint64_t pc, uint64_t bp, uint64_t sp)
{
	f->stack[word] = pc;
	f->stack[word + 1] = bp;
	f->stack[word + 4] = sp;
}

static void test_signal(void **state)
{
	struct fixture *f = *state;

	f->regs[UW_X86_BP] = 1;
	f->stack[1] = SIGNAL; /* small was called by the kernel: the trampoline's first byte */
	put_signal_frame(f, 2, SMALL, 0, SP + 8 * 30);
	f->stack[31] = ROOTED + 1;
	run(f, SMALL + 7);
	assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO,
		      2); /* SIGNAL - 1 is nobody's: no trampoline looks so */
	f->regs[UW_X86_BP] =
		0; /* rbp cleared in code without CFI: how the ABI marks the first frame */
	run(f, SMALL + 7);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	f->stack[1] = SIGNAL + 1;
	run(f, SMALL + 7);
	assert_result(f, UW_WHOLE, UW_OK, 4);
	assert_int_equal(f->frames[1], SIGNAL + 1); /* not a return address */
	assert_int_equal(f->frames[2], SMALL | UW_FRAME_SIGNAL);
	assert_int_equal(f->frames[3], CALLED(ROOTED + 1));
	/* In the kernel at the system call that is the trampoline's last instruction. */
	f->regs[UW_X86_SP] = SP;
	put_signal_frame(f, 0, ROOTED, 0, SP + 8 * 30);
	run(f, SIGNAL + 0x80);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	assert_int_equal(f->frames[1], ROOTED | UW_FRAME_SIGNAL);
}

/* A handler on an alternate stack: the interrupted one is elsewhere. */
static void test_other_stack(void **state)
{
	struct fixture *f = *state;

	f->regs[UW_X86_SP] = SP + 8 * 100;
	f->snapshot.stack = (uint8_t *)&f->stack[100];
	f->snapshot.stack_len = 8 * 100;
	put_signal_frame(f, 100, SMALL, 0, SP + 8); /* below the copy */
	f->stack[2] = SMALL + 1;
	f->stack[4] = ROOTED + 1;
	run(f, SIGNAL);
	assert_result(f, UW_FAILED, UW_MEMORY, 2);
	assert_int_equal(f->res.stopped_at, SP + 16);
	memcpy(f->fake.stack, f->stack, sizeof(f->stack));
	fixture_space(f, 5, &f->fake.memory);
	run(f, SIGNAL);
	assert_result(f, UW_WHOLE, UW_OK, 4);
	put_signal_frame(f, 100, SMALL, 0,
			 SP + 8 * 110); /* upwards, within the copy: the plain road again */
	f->stack[111] = ROOTED + 1;
	run(f, SIGNAL);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	put_signal_frame(f, 100, SIGNAL, 0, SP + 8 * 100); /* for ever */
	run(f, SIGNAL);
	assert_result(f, UW_FAILED, UW_TOO_DEEP, FRAMES);
}

static void test_pending(void **state)
{
	struct fixture *f = *state;

	f->stack[1] = ROOTED + 1;
	atomic_store(&f->module->unwind_state, UW_MODULE_NEW);
	run(f, SMALL);
	assert_result(f, UW_PENDING, UW_OK, 1);
	assert_ptr_equal(f->res.pending, f->module);
	atomic_store(&f->module->unwind_state, UW_MODULE_WANTED);
	run(f, SMALL);
	assert_result(f, UW_PENDING, UW_OK, 1);
	atomic_store(&f->module->unwind_state, UW_MODULE_READY);
	run(f, SMALL);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	assert_null(f->res.pending);
}

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
	assert_result(f, UW_WHOLE, UW_OK, 2); /* rbp 0 ends the chain */
	assert_int_equal(f->frames[1], CALLED(FRAMED + 3) | UW_FRAME_GUESSED);
	/* What was guessed is not believed once the module can be read. */
	atomic_store(&f->module->unwind_state, UW_MODULE_READY);
	uw_engine_forget(f->engine, f->module);
	f->stack[1] = ROOTED + 1;
	run(f, SMALL);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	assert_int_equal(f->frames[1], CALLED(ROOTED + 1));
}

/* A module that is dropped to save memory: what was found out stays; what needs its sections waits.
 */
static void test_dropped(void **state)
{
	struct fixture *f = *state;

	f->regs[UW_X86_R8 + 2] = SP + 64; /* leaps: CFA = r10 */
	f->stack[1] = ROOTED + 1;
	f->stack[7] = ROOTED + 1;
	run(f, SMALL);
	run(f, LEAPS);
	uw_engine_forget(f->engine, f->module);
	atomic_store(&f->module->unwind_state, UW_MODULE_NEW);
	run(f, SMALL);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	run(f, LEAPS);
	assert_result(f, UW_PENDING, UW_OK, 1);
	assert_ptr_equal(f->res.pending, f->module);
	run(f, SAVES); /* not met before */
	assert_result(f, UW_PENDING, UW_OK, 1);
	atomic_store(&f->module->unwind_state, UW_MODULE_READY);
	run(f, LEAPS);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	/* The same where the walk is done anew for a register (test_slow). */
	f->regs[UW_X86_BX] = 0xbad;
	f->stack[1] = KEEPER + 1;
	f->stack[2 + 1] = SP + 8 * 20;
	f->stack[2 + 2] = BY_RBX + 1;
	f->stack[20] = ROOTED + 1;
	run(f, SMALL);
	assert_result(f, UW_WHOLE, UW_OK, 4);
	atomic_store(&f->module->unwind_state, UW_MODULE_NEW);
	run(f, SMALL);
	assert_int_equal(f->res.outcome, UW_PENDING);
	atomic_store(&f->module->unwind_state, UW_MODULE_READY);
	run(f, SMALL);
	assert_result(f, UW_WHOLE, UW_OK, 4);
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
	f->stack[5] = 0;
	run(f, JIT + 0x10);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	assert_int_equal(f->frames[1], CALLED(JIT + 0x25) | UW_FRAME_GUESSED);
	run(f, JIT + 0x40); /* before the push: the return address is at [rsp] */
	assert_result(f, UW_WHOLE, UW_OK, 3);
	f->stack[0] = 0;
	f->stack[3] = JIT + 0x31; /* that follows no call */
	for (unsigned round = 0; round < 2; round++) {
		run(f, JIT + 0x10);
		assert_result(f, UW_FAILED, UW_BAD_RETURN, 1);
		assert_int_equal(f->res.stopped_at, JIT + 0x31);
	}
	f->fake.n_reads = 0; /* all that was read is remembered */
	run(f, JIT + 0x10);
	assert_int_equal(f->fake.n_reads, 0);
}

/* What the code says from the pc on to its ret: where return address and rbp are. */
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

/* The first instructions of a program, without CFI: argc, argv, NULL. */
static void test_start(void **state)
{
	struct fixture *f = *state;

	f->stack[0] = 2;
	f->stack[1] = SP + 256;
	f->stack[2] = SP + 264;
	f->stack[3] = 0;
	run(f, SILENT);
	assert_result(f, UW_WHOLE, UW_OK, 1);
	f->stack[3] = 1; /* argv does not end */
	run(f, SILENT);
	assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 1);
	f->stack[3] = 0;
	f->stack[1] = SP + 8; /* no pointer to a string above */
	run(f, SILENT);
	assert_result(f, UW_FAILED, UW_NO_UNWIND_INFO, 1);
}

/* Behind a leave rbp is the caller's already, and what an expression makes of it is not: here 0. */
static void test_left(void **state)
{
	struct fixture *f = *state;

	f->regs[UW_X86_BP] = SP + 8 * 20;
	f->stack[0] = FRAMED + 1;
	f->stack[20] = 0;
	f->stack[21] = FRAMED + 1;
	run(f, LEFT);
	assert_result(f, UW_FAILED, UW_NO_PROGRESS, 3);
	assert_int_equal(f->frames[2], CALLED(FRAMED + 1));
	f->stack[20] = SP + 8 * 30;
	f->stack[31] = ROOTED + 1;
	run(f, LEFT);
	assert_result(f, UW_WHOLE, UW_OK, 4);
}

static void deep_make(struct fixture *f)
{
	for (size_t i = 1; i < 101; i += 2)
		f->stack[i] = SMALL + 1;
	f->stack[101] = ROOTED + 1;
	memcpy(f->fake.stack, f->stack, sizeof(f->stack));
	f->snapshot.stack_len = 256;
	f->snapshot.stack_full = true;
}

static void test_deep(void **state)
{
	struct fixture *f = *state;

	deep_make(f);
	run(f, SMALL);
	assert_result(f, UW_CUT, UW_OK, 17); /* no memory to go on in */
	fixture_space(f, 5, &f->fake.memory);
	memset(&f->stack[32], 0xee, sizeof(f->stack) - 256);
	run(f, SMALL);
	assert_result(f, UW_WHOLE, UW_OK, 52);
	assert_int_equal(f->frames[50], CALLED(SMALL + 1));
	assert_int_equal(f->frames[51], CALLED(ROOTED + 1));
	assert_true(f->fake.n_reads <= 16);
	f->fake.stack[31]++; /* it ran on: the copy is all there is */
	run(f, SMALL);
	assert_result(f, UW_CUT, UW_OK, 17);
	assert_int_equal(f->res.stopped_at, SP + 33 * 8);
}

/* Key 0 promises nothing: two spaces of it must not share rules. */
/* The copy ends in the frame, and what it has of it has changed: the return address that stands in
 * the process is believed if a call of this very function is before it. */
static void test_same_frame(void **state)
{
	struct fixture *f = *state;
	int32_t to = FRAMED - (JIT + 0x25);

	memset(f->stack, 1, 64);
	memset(f->fake.stack, 2, 64);
	f->snapshot.stack_len = 64;
	f->regs[UW_X86_BP] = SP + 8 * 20;
	f->fake.stack[20] = SP + 8 * 30;
	f->fake.stack[21] = JIT + 0x25;
	f->fake.stack[31] = ROOTED + 1;
	f->fake.code[0x20] = 0xe8;
	memcpy(f->fake.code + 0x21, &to, 4);
	fixture_space(f, 7, &f->fake.memory);
	run(f, FRAMED + 0x10);
	assert_result(f, UW_WHOLE, UW_OK, 3);
	assert_int_equal(f->frames[1], CALLED(JIT + 0x25));
	to++; /* of another function */
	memcpy(f->fake.code + 0x21, &to, 4);
	run(f, FRAMED + 0x10);
	assert_result(f, UW_FAILED, UW_MEMORY, 1);
}

static void test_keys(void **state)
{
	struct fixture *f = *state;
	struct uw_map moved = f->maps[0];
	struct uw_space *other;

	moved.offset += 0x80; /* small's place is now saves' */
	f->stack[1] = ROOTED + 1;
	f->stack[3] = ROOTED + 1 - 0x80;
	for (uint32_t key = 0; key < 2; key++) {
		fixture_space(f, key * 100, NULL);
		assert_int_equal(uw_space_new(&moved, 1, key * 200, NULL, &other), 0);
		for (unsigned round = 0; round < 2; round++) {
			f->snapshot.space = f->space;
			run(f, SMALL);
			assert_result(f, UW_WHOLE, UW_OK, 2);
			assert_int_equal(f->frames[1], CALLED(ROOTED + 1));
			f->snapshot.space = other;
			run(f, SMALL);
			assert_result(f, UW_WHOLE, UW_OK, 2);
			assert_int_equal(f->frames[1], CALLED(ROOTED + 1 - 0x80));
		}
		uw_space_unref(other);
	}
}

static void test_batch(void **state)
{
	enum { N = 100 };
	struct fixture *f = *state;
	static uint64_t frames[N][FRAMES], regs[N][UW_X86_COUNT];
	struct uw_snapshot snapshots[N];
	struct uw_result results[N];
	struct uw_engine_stats stats;

	/* Every stack of another depth: i calls of small, then the root; each seventh cannot be
	 * unwound. */
	for (size_t i = 1; i < WORDS; i += 2)
		f->stack[i] = SMALL + 1;
	f->stack[2 * 50 + 1] = ROOTED + 1;
	for (size_t i = 0; i < N; i++) {
		size_t depth = i % 50;

		memcpy(regs[i], f->regs, sizeof(f->regs));
		regs[i][UW_X86_IP] = SMALL;
		regs[i][UW_X86_SP] = SP + 16 * (50 - depth);
		snapshots[i] = f->snapshot;
		snapshots[i].regs = i % 7 == 6 ? NULL : regs[i];
		snapshots[i].stack = (uint8_t *)f->stack + 16 * (50 - depth);
		snapshots[i].stack_len = (uint32_t)(sizeof(f->stack) - 16 * (50 - depth));
		results[i] = (struct uw_result){.frames = frames[i], .max_frames = FRAMES};
	}
	assert_int_equal(uw_unwind_batch(f->engine, snapshots, N, results), 0);
	for (size_t i = 0; i < N; i++) {
		assert_int_equal(results[i].outcome, i % 7 == 6 ? UW_FAILED : UW_WHOLE);
		assert_int_equal(results[i].n_frames, i % 7 == 6 ? 0 : i % 50 + 2);
	}
	uw_engine_stats(f->engine, &stats);
	assert_int_equal(stats.cache_misses,
			 2); /* small (the same address as a leaf and as a caller), rooted */
	assert_int_equal(stats.cfi_runs, 2);
	assert_true(stats.frames > 1000);
	assert_int_equal(stats.cache_hits, stats.frames - 2);
	assert_int_equal(uw_unwind_batch(f->engine, snapshots, 0, results), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_plain),	TEST(test_call_at_end),
		TEST(test_popped),	TEST(test_bounds),
		TEST(test_ends),	TEST(test_too_deep),
		TEST(test_slow),	TEST(test_signal),
		TEST(test_other_stack), TEST(test_pending),
		TEST(test_unreadable),	TEST(test_dropped),
		TEST(test_guess),	TEST(test_guess_code),
		TEST(test_deep),	TEST(test_keys),
		TEST(test_batch),	TEST(test_return_address_in_register),
		TEST(test_guess_walk),	TEST(test_start),
		TEST(test_left),	TEST(test_same_frame),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
