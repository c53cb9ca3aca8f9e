/* test-native-trail.c - frames out of an earlier stack of the same thread: as if walked, or not at
 * all.
 *
 * The functions, each 0x80 bytes; pc is vaddr + 0x400000:
 *   0x1000 small   CFA = rsp + 16                    0x1180 rooted  return address undefined
 *   0x1080 saves   CFA = rsp + 32, rbp at CFA - 16   0x1200 leaps   CFA = r10
 *   0x1100 framed  CFA = rbp + 16, rbp at CFA - 16
 *
 * The oracle is the same engine without the thread's number: it walks every frame. */
#include "tests/unit/unwinder/cfi-fixture.h"

#include "unwinder/engine.h"

enum {
	SP = 0x7fff0000,
	SMALL = 0x401001,
	SAVES = 0x401081,
	FRAMED = 0x401101,
	ROOTED = 0x401181,
	LEAPS = 0x401201,
	THREAD = 77,
	WORDS = 512,
	FRAMES = 300,
};

struct fixture {
	struct uw_module *module;
	struct uw_space *space, *other;
	struct uw_engine *engine, *plain;
	uint64_t regs[UW_X86_COUNT], stack[WORDS], frames[FRAMES], true_frames[FRAMES];
	struct uw_snapshot snapshot;
	struct uw_result res, truth;
	uint32_t max_frames;
	size_t depth; /* words in use, by push_*() */
};

static struct uw_module *module_make(void)
{
	struct bytes eh = {.n = 0}, hdr = {.n = 0};
	size_t cie = put_cie(&eh, "zR");
	const uint64_t pairs[][2] = {
		{0x1000, PUT_FDE(&eh, cie, 0x1000, 0x80, DEF_CFA_OFFSET, 16, EPILOGUE)},
		{0x1080,
		 PUT_FDE(&eh, cie, 0x1080, 0x80, DEF_CFA_OFFSET, 32, OFFSET | RBP, 2, EPILOGUE)},
		{0x1100,
		 PUT_FDE(&eh, cie, 0x1100, 0x80, DEF_CFA, RBP, 16, OFFSET | RBP, 2, EPILOGUE)},
		{0x1180, PUT_FDE(&eh, cie, 0x1180, 0x80, UNDEFINED, RIP)},
		{0x1200, PUT_FDE(&eh, cie, 0x1200, 0x80, DEF_CFA, R10, 0)},
	};

	put_hdr(&hdr, ARRAY_SIZE(pairs), pairs);
	return module_of(image_of(&hdr, &eh, NULL));
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct uw_map map = {
		.start = CFI_BIAS + TEXT_AT, .end = CFI_BIAS + TEXT_END, .offset = TEXT_AT};

	assert_non_null(f);
	map.module = f->module = module_make();
	assert_int_equal(uw_space_new(&map, 1, 5, NULL, &f->space), 0);
	assert_int_equal(uw_space_new(&map, 1, 6, NULL, &f->other), 0);
	f->snapshot = (struct uw_snapshot){
		.space = f->space,
		.regs = f->regs,
		.arch = UW_ARCH_X86_64,
		.stack = (uint8_t *)f->stack,
		.stack_len = sizeof(f->stack),
	};
	f->max_frames = FRAMES;
	assert_int_equal(uw_engine_new(UW_ENGINE_NATIVE, &f->engine), 0);
	assert_int_equal(uw_engine_new(UW_ENGINE_NATIVE, &f->plain), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	uw_engine_free(f->engine);
	uw_engine_free(f->plain);
	uw_space_unref(f->space);
	uw_space_unref(f->other);
	uw_module_unref(f->module);
	free(f);
	return 0;
}

/* A frame of @pc, the innermost first; the next call names its caller. */
static void push(struct fixture *f, uint64_t pc)
{
	static const uint8_t words[] = {[0] = 2, [1] = 4, [2] = 2, [3] = 0, [4] = 0};
	uint64_t kind = (pc - SMALL) / 0x80;

	if (f->depth)
		f->stack[f->depth - 1] = pc; /* the return address of the one before */
	else
		f->regs[UW_X86_IP] = pc;
	f->depth += words[kind];
}

/* small, saves, framed, small ...: the saved rbp of each is that of the next framed one. */
static void stack_make(struct fixture *f, size_t n, uint64_t leaf)
{
	uint64_t pcs[] = {SMALL, SAVES, FRAMED};
	size_t frames_at[FRAMES], n_slots = 0;

	memset(f->stack, 0, sizeof(f->stack));
	f->depth = 0;
	f->regs[UW_X86_SP] = SP;
	f->regs[UW_X86_BP] = 0;
	push(f, leaf);
	for (size_t i = 0; i < n; i++) {
		size_t before = f->depth;

		push(f, pcs[i % 3]);
		if (i % 3 == 1)
			frames_at[n_slots++] = before + 2; /* saves: CFA - 16 */
		if (i % 3 == 2) {
			f->stack[frames_at[n_slots - 1]] =
				SP + 8 * before; /* framed stands there */
			f->stack[before] = 0x1111 * i;
		}
	}
	push(f, ROOTED);
}

/* By both engines; the outcomes must be one. */
static void run(struct fixture *f)
{
	struct uw_snapshot plain = f->snapshot;

	plain.thread = 0;
	f->res = (struct uw_result){.frames = f->frames, .max_frames = f->max_frames};
	f->truth = (struct uw_result){.frames = f->true_frames, .max_frames = f->max_frames};
	assert_int_equal(uw_unwind_batch(f->engine, &f->snapshot, 1, &f->res), 0);
	assert_int_equal(uw_unwind_batch(f->plain, &plain, 1, &f->truth), 0);
	assert_int_equal(f->res.outcome, f->truth.outcome);
	assert_int_equal(f->res.reason, f->truth.reason);
	assert_int_equal(f->res.n_frames, f->truth.n_frames);
	assert_memory_equal(f->frames, f->true_frames, f->truth.n_frames * sizeof(f->frames[0]));
	assert_int_equal(f->res.stopped_at, f->truth.stopped_at);
}

/* How many frames of one run came from the trail. */
static uint64_t reused(struct fixture *f)
{
	struct uw_engine_stats before, after;

	uw_engine_stats(f->engine, &before);
	run(f);
	uw_engine_stats(f->engine, &after);
	return after.reused_frames - before.reused_frames;
}

/* A thread with a trail for its stack of @n frames behind the leaf. */
static void trail_make(struct fixture *f, size_t n)
{
	f->snapshot.thread = THREAD;
	stack_make(f, n, SMALL);
	run(f);
	assert_int_equal(f->res.outcome, UW_WHOLE);
	assert_int_equal(f->res.n_frames, n + 2);
	/* From the leaf on: its caller and all behind it. */
	assert_int_equal(reused(f), n);
}

static void test_same(void **state)
{
	struct fixture *f = *state;

	trail_make(f, 30);
	assert_int_equal(f->frames[0], SMALL);
	assert_int_equal(f->frames[31], ROOTED | UW_FRAME_CALLER);
	/* Another leaf, the same from its caller on: a leaf's address is in no cache yet. */
	f->regs[UW_X86_IP] = SMALL + 4;
	assert_int_equal(reused(f), 30);
}

static void test_unknown_thread(void **state)
{
	struct fixture *f = *state;

	f->snapshot.thread = 0;
	stack_make(f, 30, SMALL);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(reused(f), 0);
	f->snapshot.thread = THREAD;
	for (unsigned i = 0; i < 10; i++)
		run(f);
	/* The trail of one process has nothing of another. */
	f->snapshot.space = f->other;
	assert_int_equal(reused(f), 0);
	f->snapshot.space = f->space;
	f->snapshot.thread = THREAD + 1;
	assert_int_equal(reused(f), 0);
}

/* Every word of the stack in turn is something else: run() compares with the truth. */
static void test_each_word(void **state)
{
	struct fixture *f = *state;
	const uint64_t others[] = {0, SMALL, FRAMED, ROOTED, LEAPS, SP + 64, 0x123456, UINT64_MAX};
	uint64_t old;
	unsigned kept = 0;

	trail_make(f, 30);
	for (size_t i = 0; i < f->depth; i++) {
		for (size_t j = 0; j < ARRAY_SIZE(others); j++) {
			old = f->stack[i];
			f->stack[i] = others[j];
			kept += reused(f) == 30;
			f->stack[i] = old;
			run(f); /* it is unchanged, or is made again */
		}
	}
	/* Some words do not matter: a saved rbp that no frame depends on, locals. */
	assert_true(kept > 0);
}

static void test_registers(void **state)
{
	struct fixture *f = *state;

	trail_make(f, 30);
	f->regs[UW_X86_BP] = 0x4444; /* saved by the second frame, needed by none before it */
	assert_int_equal(reused(f), 30);
	f->regs[UW_X86_SP] = SP + 8; /* another place in the stack */
	run(f);
}

static void test_shorter_copy(void **state)
{
	struct fixture *f = *state;

	trail_make(f, 30);
	f->snapshot.stack_full = true;
	for (size_t words = f->depth + 2; words-- > 0;) {
		f->snapshot.stack_len = (uint32_t)(words * 8);
		run(f);
		assert_int_equal(f->res.outcome, words >= f->depth ? UW_WHOLE : UW_CUT);
	}
}

static void test_less_room(void **state)
{
	struct fixture *f = *state;

	trail_make(f, 30);
	for (f->max_frames = 40; f->max_frames >= 1; f->max_frames--) {
		run(f);
		assert_int_equal(f->res.outcome, f->max_frames >= 32 ? UW_WHOLE : UW_CUT);
	}
}

static void test_forget(void **state)
{
	struct fixture *f = *state;

	trail_make(f, 30);
	uw_engine_forget(f->engine, NULL);
	assert_int_equal(reused(f), 0);
}

/* Deeper than a trail: its outermost frames are on it. */
static void test_deep(void **state)
{
	struct fixture *f = *state;

	f->snapshot.thread = THREAD;
	memset(f->stack, 0, sizeof(f->stack));
	f->depth = 0;
	f->regs[UW_X86_SP] = SP;
	push(f, SMALL);
	while (f->depth < WORDS - 8)
		push(f, SMALL);
	push(f, ROOTED);
	for (unsigned i = 0; i < 10; i++)
		run(f);
	assert_int_equal(f->res.n_frames, (WORDS - 8) / 2 + 1);
	assert_true(reused(f) > 200);
}

/* The next of stacks of one thread at random: a little other than the one before. */
static void stack_change(struct fixture *f, unsigned i, uint64_t *seed)
{
	const uint64_t pcs[] = {SMALL, SAVES, FRAMED, ROOTED, LEAPS, SMALL + 2, 0};
	uint64_t at, what;

	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	at = (*seed >> 33) % (f->depth < 24 || i % 3 ? 24 : f->depth);
	what = (*seed >> 50) % 16;
	if (i % 50 == 0)
		stack_make(f, 20 + (*seed >> 40) % 60, SMALL);
	else if (what < 8)
		f->stack[at] = pcs[what % ARRAY_SIZE(pcs)];
	else if (what < 12)
		f->stack[at] = SP + 8 * ((*seed >> 20) % 64);
	else
		f->regs[UW_X86_BP] = SP + 8 * ((*seed >> 20) % 64);
}

static void test_random(void **state)
{
	struct fixture *f = *state;
	struct uw_engine_stats stats;
	uint64_t seed = 1;

	f->snapshot.thread = THREAD;
	stack_make(f, 60, SMALL);
	for (unsigned i = 0; i < 20000; i++) {
		stack_change(f, i, &seed);
		run(f);
	}
	uw_engine_stats(f->engine, &stats);
	assert_true(stats.reused_frames > 1000);
}

struct side { /* one of those that are unwound side by side */
	uint64_t regs[UW_X86_COUNT], stack[WORDS];
	uint64_t frames[FRAMES], true_frames[FRAMES];
};

/* A stack as stack_make() makes them, of which the inner @threes times three frames were never seen
 * (each small one is another pc) and the @from innermost threes are not there. */
static void side_make(struct fixture *f, struct side *side, struct uw_snapshot *snapshot, size_t n,
		      size_t threes, size_t from)
{
	stack_make(f, n, SMALL);
	for (size_t i = 0; i < threes && 3 * i < n; i++)
		f->stack[1 + 8 * i] = SMALL + 1;
	memcpy(side->regs, f->regs, sizeof(side->regs));
	memcpy(side->stack, f->stack, sizeof(side->stack));
	*snapshot = f->snapshot;
	snapshot->thread = THREAD;
	snapshot->regs = side->regs;
	side->regs[UW_X86_IP] = from ? f->stack[1 + 8 * from] : SMALL;
	side->regs[UW_X86_SP] += from ? 16 + 64 * from : 0;
	snapshot->stack = (uint8_t *)(side->stack + (from ? 2 + 8 * from : 0));
	snapshot->stack_len -= (uint32_t)(from ? 16 + 64 * from : 0);
}

/* While one walk waits for the words of a trail, another that ends makes a new one of it, in which
 * the same place has another number. */
static void test_side_by_side(void **state)
{
	struct fixture *f = *state;
	struct side *sides = calloc(UW_BATCH, sizeof(*sides));
	struct uw_snapshot snapshots[UW_BATCH];
	struct uw_result results[UW_BATCH], truth;
	struct uw_engine_stats stats;
	uint64_t seed = 3;

	assert_non_null(sides);
	for (unsigned round = 0; round < 3000; round++) {
		for (size_t k = 0; k < UW_BATCH; k++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			side_make(f, &sides[k], &snapshots[k], 48 + round / 2 % 2 * 3,
				  (seed >> 33) % 12, (seed >> 50) % 12);
			results[k] =
				(struct uw_result){.frames = sides[k].frames, .max_frames = FRAMES};
		}
		assert_int_equal(uw_unwind_batch(f->engine, snapshots, UW_BATCH, results), 0);
		for (size_t k = 0; k < UW_BATCH; k++) {
			truth = (struct uw_result){.frames = sides[k].true_frames,
						   .max_frames = FRAMES};
			snapshots[k].thread = 0;
			assert_int_equal(uw_unwind_batch(f->plain, &snapshots[k], 1, &truth), 0);
			assert_int_equal(truth.outcome, UW_WHOLE);
			assert_int_equal(results[k].outcome, UW_WHOLE);
			assert_int_equal(results[k].n_frames, truth.n_frames);
			assert_memory_equal(sides[k].frames, sides[k].true_frames,
					    truth.n_frames * sizeof(uint64_t));
		}
	}
	uw_engine_stats(f->engine, &stats);
	assert_true(stats.reused_frames > 10000);
	free(sides);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_same),	 TEST(test_unknown_thread), TEST(test_each_word),
		TEST(test_registers),	 TEST(test_shorter_copy),   TEST(test_less_room),
		TEST(test_forget),	 TEST(test_deep),	    TEST(test_random),
		TEST(test_side_by_side),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
