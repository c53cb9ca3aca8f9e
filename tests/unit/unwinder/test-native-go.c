/* test-native-go.c - from the thread's own stack to a goroutine's: the runtime's words and the stacks are made by hand. */
#include <time.h>

#include "tests/unit/unwinder/native-calls.h"

enum {
	M = 0x700000000000,
	G0 = M + 0x1000,
	G = M + 0x2000,
	STACK = M + 0x3000,
	STACK_WORDS = 64,
	LEFT_AT = 32, /* the word that the goroutine's sp leads to */
	G_M = 0x30,
	G_SP = 0x38,
	M_CURG = 0xc0,
	SWITCH = GOES + 0x2b, /* behind the call on the thread's own stack */
	CALLER = SMALL + 0x25,
	GOEXIT = JIT + 0x40,
};

/* A process that runs on: behind request number @after one of its words changes. */
struct world {
	struct uw_memory memory;
	uint64_t m[0x20], g0[0x10], g[0x10], stack[STACK_WORDS + 64];
	uint8_t small[0x80], goes[0x80], jit[0x80], home[0x80];
	uint64_t own[16]; /* the thread's own stack, from SP on */
	unsigned n_reads, after;
	bool has_home;
	uint64_t *word, value;
};

static struct world world;

static bool world_copy(const struct world *p, uint64_t address, uint8_t *to, size_t len)
{
	const struct {
		uint64_t start;
		const void *bytes;
		size_t size;
	} parts[] = {
		{M, p->m, sizeof(p->m)},
		{G0, p->g0, sizeof(p->g0)},
		{G, p->g, sizeof(p->g)},
		{STACK, p->stack, sizeof(p->stack)},
		{SMALL, p->small, sizeof(p->small)},
		{GOES, p->goes, sizeof(p->goes)},
		{JIT, p->jit, sizeof(p->jit)},
		{p->has_home ? GOES_HOME : 0, p->home, sizeof(p->home)},
		{SP, p->own, sizeof(p->own)},
	};

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (address >= parts[i].start && len <= parts[i].size &&
		    address - parts[i].start <= parts[i].size - len) {
			memcpy(to, (const uint8_t *)parts[i].bytes + (address - parts[i].start),
			       len);
			return true;
		}
	return false;
}

static void world_turns(struct world *p)
{
	if (++p->n_reads == p->after)
		*p->word = p->value;
}

static ssize_t world_read(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	struct world *p = container_of(memory, struct world, memory);
	bool is = world_copy(p, address, to, len);

	if (is && address >= M)
		world_turns(p);
	return is ? (ssize_t)len : -1;
}

static bool world_ranges(struct uw_memory *memory, const struct uw_range *ranges, size_t n,
			 void *to)
{
	struct world *p = container_of(memory, struct world, memory);
	uint8_t *at = to;

	for (size_t i = 0; i < n; at += ranges[i++].len) {
		memset(at, 0, ranges[i].len);
		for (uint64_t j = 0; j + 8 <= ranges[i].len; j += 8)
			(void)world_copy(p, ranges[i].address + j, at + j, 8);
		if (i == n / 2) /* the stack */
			world_turns(p);
	}
	return true;
}

static void put_call(uint8_t *code, uint64_t at, uint64_t ra, uint64_t to)
{
	int32_t by = (int32_t)(to - ra);

	code[ra - at - 5] = 0xe8;
	memcpy(code + (ra - at - 4), &by, sizeof(by));
}

/* SMALL, on the thread's own stack, was called by @code, @len bytes of which are before SWITCH; the goroutine is in a call of GOES in
 * SMALL, called by goexit. */
static void begin(struct fixture *f, uint32_t key, const void *code, size_t len, size_t before)
{
	world = (struct world){.memory = {.read = world_read, .read_ranges = world_ranges}};
	memset(world.small, 0x90, sizeof(world.small));
	memset(world.goes, 0x90, sizeof(world.goes));
	put_call(world.small, SMALL, CALLER, GOES);
	memcpy(world.goes + 0x18, "\x48\x89\xdc", 3); /* mov %rbx,%rsp */
	memcpy(world.goes + (SWITCH - GOES) - before, code, len);
	memcpy(world.jit + 0x3f, "\x90\xe8\0\0\0\0\x90", 7);
	world.m[0] = G0;
	world.m[M_CURG / 8] = G;
	world.g0[G_M / 8] = world.g[G_M / 8] = M;
	world.g[0] = STACK;
	world.g[1] = STACK + 8 * STACK_WORDS;
	world.g[G_SP / 8] = STACK + 8 * LEFT_AT;
	for (size_t i = 0; i < STACK_WORDS; i++)
		world.stack[i] = CALLER;
	world.stack[STACK_WORDS - 2] = GOEXIT;
	memset(f->stack, 0x11, sizeof(f->stack));
	f->stack[1] = SWITCH;
	memcpy(world.own, f->stack, sizeof(world.own));
	f->snapshot.thread = 7;
	f->snapshot.time = 0;
	f->regs[UW_X86_R8 + 6] = G0;
	fixture_space(f, key, &world.memory);
}

static const uint8_t systemstack[] = "\x48\x89\xfa\x48\x8b\x3f\xff\xd7"
				     "\x64\x48\x8b\x04\x25\xf8\xff\xff\xff\x48\x8b\x58\x30"
				     "\x48\x8b\x83\xc0\0\0\0\x64\x48\x89\x04\x25\xf8\xff\xff\xff"
				     "\x48\x8b\x60\x38\x48\xc7\x40\x38\0\0\0\0\xc3";
static const uint8_t cgo[] = "\x48\x89\xdf\x48\x89\xd9\xff\xd0"
			     "\x48\x8b\x7c\x24\x30\x48\x8b\x77\x08\x48\x2b\x74\x24\x28";
static const uint8_t morestack[] = "\x48\x8b\x63\x38\xe8\x75\x45\0\0\xe8\x10\x1e\0\0\xc3";

#define SYSTEMSTACK(f, key) begin(f, key, systemstack, sizeof(systemstack) - 1, 8)

enum {
	GOROUTINE = (STACK_WORDS - LEFT_AT) / 2
}; /* its frames: every second word is a return address */

static void assert_goroutine(struct fixture *f, uint32_t seam, uint64_t flags)
{
	run(f, SMALL + 0x10);
	assert_result(f, UW_WHOLE, UW_OK, seam + GOROUTINE);
	assert_int_equal(f->frames[seam - 1], CALLED(SWITCH));
	assert_int_equal(f->frames[seam], CALLED(CALLER) | flags);
	assert_int_equal(f->frames[seam + GOROUTINE - 2], CALLED(CALLER) | flags);
	assert_int_equal(f->frames[seam + GOROUTINE - 1], CALLED(GOEXIT) | flags);
	assert_int_equal(f->res.stack_used, 16);
	assert_true(f->res.other_stack);
}

static void assert_cut(struct fixture *f)
{
	run(f, SMALL + 0x10);
	assert_result(f, UW_CUT, UW_OK, 2);
	assert_false(f->res.completed);
}

static void test_systemstack(void **state)
{
	struct fixture *f = *state;

	SYSTEMSTACK(f, 6);
	assert_goroutine(f, 2, 0);
	f->regs[UW_X86_R8 + 6] = G; /* the runtime switches right now */
	assert_goroutine(f, 2, 0);
	f->regs[UW_X86_R8 + 6] = 0x1234; /* C code uses r14: the thread is known */
	world.n_reads = 0;
	assert_goroutine(f, 2, 0);
	assert_int_equal(world.n_reads, 1); /* one request */
	world.g[G_SP / 8] -= 16;	    /* deeper */
	run(f, SMALL + 0x10);
	assert_result(f, UW_WHOLE, UW_OK, 2 + GOROUTINE + 1);
	f->snapshot.thread = 8;
	assert_cut(f);
	/* 1.21 on: the function has pushed rbp */
	SYSTEMSTACK(f, 7);
	world.stack[LEFT_AT - 1] = 0x1234;
	world.stack[LEFT_AT] = CALLER;
	world.g[G_SP / 8] -= 8;
	assert_goroutine(f, 2, 0);
}

/* By CFI of Go's linker.  The first sample of a process comes before its memory can be read. */
static void test_memory_later(void **state)
{
	struct fixture *f = *state;

	SYSTEMSTACK(f, 6);
	memset(world.home, 0x90, sizeof(world.home));
	memcpy(world.home + 0x26 - 8, systemstack, sizeof(systemstack) - 1);
	world.has_home = true;
	put_call(world.small, SMALL, CALLER, GOES_HOME);
	f->stack[1] = GOES_HOME + 0x26;
	memcpy(world.own, f->stack, sizeof(world.own));
	fixture_space(f, 6, NULL);
	run(f, SMALL + 0x10);
	assert_true(f->res.n_frames >= 2 && f->frames[1] == CALLED(GOES_HOME + 0x26));
	fixture_space(f, 6, &world.memory);
	run(f, SMALL + 0x10);
	assert_result(f, UW_WHOLE, UW_OK, 2 + GOROUTINE);
	assert_int_equal(f->frames[2], CALLED(CALLER));
}

/* Words that a hostile process may have: the stack is cut at the switch. */
static void test_hostile(void **state)
{
	struct fixture *f = *state;
	const struct {
		uint64_t *word, value;
	} changes[] = {
		{&world.m[0], 0},
		{&world.m[0], 3},
		{&world.m[M_CURG / 8], 0}, /* it has gone back since */
		{&world.m[M_CURG / 8], 1},
		{&world.m[M_CURG / 8], UINT64_MAX - 7},
		{&world.m[M_CURG / 8], G0},
		{&world.g0[G_M / 8], G},
		{&world.g0[G_M / 8], UINT64_MAX},
		{&world.g[G_M / 8], M + 8},
		{&world.g[0], STACK + 8 * STACK_WORDS},
		{&world.g[0], 0},
		{&world.g[1], 0},
		{&world.g[1], STACK + 8 * STACK_WORDS + 4},
		{&world.g[1], UINT64_MAX - 7},
		{&world.g[G_SP / 8], 0},
		{&world.g[G_SP / 8], STACK + 8 * LEFT_AT + 4},
		{&world.g[G_SP / 8], STACK + 8 * STACK_WORDS},
		{&world.g[G_SP / 8], UINT64_MAX - 7},
		{&world.stack[LEFT_AT], GOEXIT}, /* no call of the function that switched */
		{&world.stack[LEFT_AT], 0},
		{&world.stack[LEFT_AT + 4], 0x1234},
		{&world.stack[LEFT_AT + 4], CALLER + 1}, /* behind no call */
		{&world.stack[LEFT_AT + 4], SWITCH},	 /* again */
		{&world.stack[STACK_WORDS - 2], CALLER}, /* beyond its end */
		{&world.own[1], CALLER},		 /* the thread is elsewhere */
	};

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		SYSTEMSTACK(f, 10 + (uint32_t)i);
		*changes[i].word = changes[i].value;
		assert_cut(f);
	}
	SYSTEMSTACK(f, 6);
	world.memory.read_ranges = NULL;
	assert_cut(f);
	fixture_space(f, 6, NULL); /* out of reach: the thread's own stack ends here */
	run(f, SMALL + 0x10);
	assert_result(f, UW_WHOLE, UW_OK, 2);
}

/* Another function has been called at the same place of the thread's own stack. */
static void test_inner(void **state)
{
	struct fixture *f = *state;

	SYSTEMSTACK(f, 6);
	f->stack[1] = CALLER;
	f->stack[3] = SWITCH;
	memcpy(world.own, f->stack, sizeof(world.own));
	run(f, SMALL + 0x10);
	assert_result(f, UW_WHOLE, UW_OK, 3 + GOROUTINE);
	world.own[1] = CALLER + 8;
	run(f, SMALL + 0x10);
	assert_result(f, UW_CUT, UW_OK, 3);
}

/* The end of the goroutine is not the end of its stack. */
static void test_top(void **state)
{
	struct fixture *f = *state;

	SYSTEMSTACK(f, 6);
	world.g[1] += 0xf8;
	assert_goroutine(f, 2, 0);
	SYSTEMSTACK(f, 7);
	world.g[1] += 0x100;
	assert_cut(f);
}

/* The thread goes back while it is read. */
static void test_torn(void **state)
{
	struct fixture *f = *state;
	uint64_t *const words[] = {&world.own[1], &world.m[M_CURG / 8], &world.g[1],
				   &world.g[G_SP / 8]};

	for (uint32_t i = 0; i < ARRAY_SIZE(words); i++) {
		SYSTEMSTACK(f, 6 + i);
		assert_goroutine(f, 2, 0);
		world.after = world.n_reads + 1;
		world.word = words[i];
		world.value = 0x1230;
		assert_cut(f);
	}
	/* before it is read: the place is another one, which is found */
	SYSTEMSTACK(f, 20);
	world.after = 3;
	world.word = &world.g[G_SP / 8];
	world.value = STACK + 8 * (LEFT_AT + 2);
	run(f, SMALL + 0x10);
	assert_result(f, UW_CUT, UW_OK, 2);
	run(f, SMALL + 0x10);
	assert_result(f, UW_WHOLE, UW_OK, 2 + GOROUTINE - 1);
}

/* systemstack itself, behind its call: the word there is no return address, but 0, the end of the thread's own stack. */
static void test_leaf(void **state)
{
	const uint64_t instructions[] = {0, 9, 13, 0x1d};
	struct fixture *f = *state;

	for (uint32_t i = 0; i < ARRAY_SIZE(instructions); i++) {
		SYSTEMSTACK(f, 6 + i);
		f->stack[0] = world.own[0] = 0;
		f->regs[UW_X86_BP] = STACK + 8 * (LEFT_AT + 3);
		run(f, SWITCH + instructions[i]);
		assert_result(f, UW_WHOLE, UW_OK, 1 + GOROUTINE);
		assert_int_equal(f->frames[1], CALLED(CALLER) | UW_FRAME_GUESSED);
		f->regs[UW_X86_BP] = STACK + 8 * (LEFT_AT - 3); /* another call, less deep */
		run(f, SWITCH + instructions[i]);
		assert_result(f, UW_CUT, UW_OK, 1);
	}
	SYSTEMSTACK(f, 59);
	f->stack[0] = CALLER;
	run(f, SWITCH + 0x21); /* back on the goroutine's */
	assert_int_equal(f->frames[1] & ~UW_FRAME_GUESSED, CALLED(CALLER));
	assert_false(f->res.other_stack);
	/* another function, at an address that no rule is known of */
	SYSTEMSTACK(f, 60);
	world.goes[SWITCH - GOES + 4] ^= 1;
	f->stack[0] = world.own[0] = 0;
	run(f, SWITCH + 5);
	assert_int_equal(f->res.n_frames, 1);
}

/* The goroutine is gone before it is found: rbp in the copy states where it was, and an earlier sample what was there. */
static void test_kept(void **state)
{
	const uint64_t bp = STACK + 8 * (LEFT_AT + 3);
	const uint64_t none[] = {SP, SP + 8 * 40, STACK + 3, 0, UINT64_MAX - 7, bp + 8};
	struct fixture *f = *state;

	SYSTEMSTACK(f, 6);
	f->regs[UW_X86_BP] = SP;
	f->stack[0] = bp;
	memcpy(world.own, f->stack, sizeof(world.own));
	assert_goroutine(f, 2, 0);
	world.m[M_CURG / 8] = 0;
	assert_goroutine(f, 2, UW_FRAME_GUESSED);
	assert_true(f->res.completed);
	run(f, TRIES + 0x10); /* another function */
	assert_result(f, UW_CUT, UW_OK, 2);
	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		f->stack[0] = none[i];
		assert_cut(f);
	}
	f->stack[0] = bp;
	assert_goroutine(f, 2, UW_FRAME_GUESSED);
	for (uint64_t at = 8; at < 24; at += 8) { /* at the end of the copy, and behind it */
		f->regs[UW_X86_BP] = SP + sizeof(f->stack) - 16 + at;
		assert_cut(f);
	}
	f->regs[UW_X86_BP] = bp;
	assert_goroutine(f, 2, UW_FRAME_GUESSED);
}

static void put_cgo(struct fixture *f, uint32_t key)
{
	begin(f, key, cgo, sizeof(cgo) - 1, 8);
	f->regs[UW_X86_R8 + 6] = 1;
	memset(&world.m, 0, sizeof(world.m)); /* is not needed */
	f->stack[2 + 5] = 8 * (STACK_WORDS - LEFT_AT);
	f->stack[2 + 6] = G;
	memcpy(world.own, f->stack, sizeof(world.own));
}

static void end_cgo(struct fixture *f, uint64_t depth, uint64_t g)
{
	f->stack[2 + 5] = depth;
	f->stack[2 + 6] = g;
	memcpy(world.own, f->stack, sizeof(world.own));
}

/* The words that asmcgocall saves are in the copy. */
static void test_cgo(void **state)
{
	const uint64_t depth = 8 * (STACK_WORDS - LEFT_AT);
	struct fixture *f = *state;

	put_cgo(f, 6);
	assert_goroutine(f, 2, 0);
	end_cgo(f, depth + 16, G); /* deeper */
	run(f, SMALL + 0x10);
	assert_result(f, UW_WHOLE, UW_OK, 2 + GOROUTINE + 1);
	/* it has returned, and the stack is as it was at an earlier sample, or at none */
	end_cgo(f, depth, G);
	world.own[1] = CALLER;
	assert_goroutine(f, 2, UW_FRAME_GUESSED);
	assert_true(f->res.completed);
	f->stack[2 + 5] = depth - 16;
	assert_cut(f);
	end_cgo(f, UINT64_MAX - 7, G);
	assert_cut(f);
	end_cgo(f, 1ull << 31, G);
	assert_cut(f);
	end_cgo(f, 0, G);
	assert_cut(f);
	end_cgo(f, depth, 3);
	assert_cut(f);
	/* 1.22 on: in two words, and another function calls C */
	begin(f, 7, "\x31\xc0\x90\xe8\0\0\0\0\x48\x8b\x7c\x24\x08\x48\x8b\x77\x08", 17, 8);
	f->stack[2] = depth;
	f->stack[3] = G;
	memcpy(world.own, f->stack, sizeof(world.own));
	assert_goroutine(f, 2, 0);
}

static void test_morestack(void **state)
{
	struct fixture *f = *state;

	begin(f, 6, morestack, sizeof(morestack) - 1, 9);
	/* the frame of the function that calls morestack is not made yet: GOES has CFA = rsp + 8 */
	world.g[G_SP / 8 + 1] = GOES + 0x10;
	put_call(world.goes, GOES, GOES + 0x10, GOES);
	run(f, SMALL + 0x10);
	assert_result(f, UW_WHOLE, UW_OK, 3 + GOROUTINE);
	assert_int_equal(f->frames[2], CALLED(GOES + 0x10));
	assert_int_equal(f->frames[3], CALLED(CALLER));
	/* the scheduler: the goroutine was preempted */
	world.m[M_CURG / 8] = 0;
	run(f, SMALL + 0x10);
	assert_result(f, UW_WHOLE, UW_OK, 2);
	world.own[1] = CALLER;
	assert_cut(f);
}

/* A function that calls the vDSO on the thread's own stack: rbp leads to its frame on the goroutine's. */
static void test_clock(void **state)
{
	struct fixture *f = *state;
	struct uw_module *vdso;

	assert_int_equal(uw_module_new(UW_MODULE_JIT, "[vdso]", NULL, &vdso), 0);
	f->maps[1].module = vdso;
	SYSTEMSTACK(f, 6);
	f->stack[0] = STACK + 8 * (LEFT_AT - 1); /* a frame in the vDSO */
	f->stack[1] = GOES_HOME + 0x26;
	memcpy(world.own, f->stack, sizeof(world.own));
	f->regs[UW_X86_BP] = SP;
	world.stack[LEFT_AT - 1] = 0;
	put_call(world.small, SMALL, CALLER, GOES_HOME);
	run(f, JIT + 0x10);
	assert_result(f, UW_WHOLE, UW_OK, 2 + GOROUTINE);
	assert_int_equal(f->frames[2], CALLED(CALLER));
	world.stack[LEFT_AT] = CALLER + 8; /* it has returned */
	run(f, JIT + 0x20);
	assert_result(f, UW_WHOLE, UW_OK, 2 + GOROUTINE);
	assert_int_equal(f->frames[2], CALLED(CALLER) | UW_FRAME_GUESSED);
	f->stack[0] += 16;
	world.stack[LEFT_AT + 2] = CALLER + 8;
	run(f, JIT + 0x20);
	assert_result(f, UW_CUT, UW_OK, 2);
	f->stack[0] = 3;
	run(f, JIT + 0x20);
	assert_result(f, UW_CUT, UW_OK, 2);
	fixture_space(f, 7, NULL);
	uw_module_unref(vdso);
}

/* Frames that were read late, or were not the same at an earlier sample, are marked. */
static void test_marks(void **state)
{
	struct fixture *f = *state;

	SYSTEMSTACK(f, 6);
	f->snapshot.time = clock_ns(CLOCK_REALTIME) + NSEC_PER_SEC * 3600; /* not late */
	assert_goroutine(f, 2, UW_FRAME_GUESSED);
	assert_goroutine(f, 2, 0);
	world.stack[LEFT_AT + 2] = CALLER + 0x20;
	put_call(world.small, SMALL, CALLER + 0x20, GOES);
	run(f, SMALL + 0x10);
	assert_int_equal(f->frames[3], CALLED(CALLER + 0x20) | UW_FRAME_GUESSED);
	f->snapshot.time = 1;
	run(f, SMALL + 0x10);
	assert_int_equal(f->frames[3], CALLED(CALLER + 0x20) | UW_FRAME_GUESSED);
}

enum { COPY_HEAD = 6, COPY_WORDS = 42 }; /* m, g, lo, hi, sp, pc; then the stack */

static void put_copy(uint64_t *copy, uint64_t sp)
{
	const uint64_t head[COPY_HEAD] = {M, G, STACK, STACK + 8 * STACK_WORDS, sp, 0};

	memcpy(copy, head, sizeof(head));
	memcpy(copy + COPY_HEAD, world.stack + LEFT_AT, 8 * (COPY_WORDS - COPY_HEAD));
}

/* A copy that was made at the sample is exact: nothing is read, nothing is marked. */
static void test_copied(void **state)
{
	struct fixture *f = *state;
	uint64_t copy[COPY_WORDS];

	SYSTEMSTACK(f, 6);
	put_copy(copy, STACK + 8 * LEFT_AT);
	f->snapshot.python = copy;
	f->snapshot.n_python = COPY_WORDS / UW_PYTHON_WORDS;
	f->snapshot.time = 1; /* long ago */
	memset(world.m, 0, sizeof(world.m));
	world.own[1] = CALLER;
	run(f, SMALL + 0x10); /* the code is read */
	world.n_reads = 0;
	assert_goroutine(f, 2, 0);
	assert_int_equal(world.n_reads, 0);
	/* a deeper stack goes on in the process, where the thread is elsewhere by now */
	f->snapshot.n_python = 6;
	assert_goroutine(f, 2, UW_FRAME_GUESSED); /* as it was before */
	assert_true(f->res.completed);
	f->snapshot.thread = 9;
	world.own[1] = SWITCH;
	assert_goroutine(f, 2, UW_FRAME_GUESSED); /* late */
	assert_false(f->res.completed);
	/* one that is damaged is not used */
	f->snapshot.n_python = 2;
	assert_cut(f);
	f->snapshot.n_python = COPY_WORDS / UW_PYTHON_WORDS;
	put_copy(copy, STACK);
	assert_cut(f);
	/* nor one of another goroutine, or that has gone on */
	put_cgo(f, 7);
	put_copy(copy, STACK + 8 * LEFT_AT);
	f->snapshot.time = 1;
	assert_goroutine(f, 2, 0);
	copy[4] -= 16;
	assert_goroutine(f, 2, UW_FRAME_GUESSED);
	copy[4] += 16;
	copy[1] = G0;
	assert_goroutine(f, 2, UW_FRAME_GUESSED);
}

static void test_calls(void **state)
{
	struct native_calls c = {.f = *state, .pc = SMALL + 0x10, .kind = UW_ENGINE_NATIVE};

	SYSTEMSTACK(c.f, 6);
	native_calls_sweep("goroutine", &c);
	assert_int_equal(c.n, 2 + GOROUTINE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_systemstack), TEST(test_memory_later), TEST(test_hostile),
		TEST(test_top),		TEST(test_torn),	 TEST(test_cgo),
		TEST(test_morestack),	TEST(test_marks),	 TEST(test_copied),
		TEST(test_clock),	TEST(test_inner),	 TEST(test_kept),
		TEST(test_leaf),	TEST(test_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
