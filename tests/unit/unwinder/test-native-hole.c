/* test-native-hole.c - stacks with a copy that ends in the middle of a frame: completed by what earlier
 * stacks of the thread had there, or not at all.
 *
 * The functions, each 0x80 bytes; pc is vaddr + 0x400000:
 *   0x1000 leaf    CFA = rsp + 16      0x1100 caller  CFA = rsp + 32     0x1200 outer   CFA = rsp + 48
 *   0x1080 large   CFA = rsp + 0x4000  0x1180 second  CFA = rsp + 32     0x1280 rooted
 *   0x1300 framed  CFA = rbp + 16
 *
 *     end of the copy             X             X + 32         X + 80
 *     [large ....|............ ra][caller ... ra][outer .... ra][rooted
 *                 page that is not there
 *
 * Stacks that are seen are leaf > caller > outer > rooted, with the caller at X. */
#include "tests/unit/unwinder/cfi-fixture.h"

#include <sys/mman.h>
#include <unistd.h>

#include "unwinder/engine.h"

enum {
	LEAF = 0x401000,
	LARGE = 0x401080,
	CALLER = 0x401100,
	SECOND = 0x401180,
	OUTER = 0x401200,
	ROOTED = 0x401280,
	FRAMED = 0x401300,
	CODE = 0x400,
	X = 0x7fff8100,
	PAGE_END = 0x7fff5000, /* of the copy */
	FRAME = 0x4000,
	FRAMES = 64,
	THREAD = 77,
	KEY = 5,
};
#define CALLED(pc) ((pc) | UW_FRAME_CALLER)
#define GUESSED(pc) ((pc) | UW_FRAME_CALLER | UW_FRAME_GUESSED)

struct fixture {
	struct uw_memory memory;
	uint8_t code[CODE]; /* at LEAF */
	struct uw_segment segment;
	struct uw_module *module;
	struct uw_space *space;
	struct uw_engine *engine;
	uint64_t regs[UW_X86_COUNT], large[(PAGE_END - (X - FRAME)) / 8], seen[128], frames[FRAMES];
	struct uw_snapshot snapshot;
	struct uw_result res;
	uint32_t max_frames;
	bool has_stack;
};

/* The process has gone on, and its stack with it: code is all that can be read, and other words in its place (has_stack). */
static ssize_t code_read(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	const struct fixture *f = container_of(memory, struct fixture, memory);

	if (f->has_stack && address >= X - FRAME && address + len <= X) {
		memset(to, 0x55, len);
		return (ssize_t)len;
	}
	if (address < LEAF || address >= LEAF + CODE)
		return -1;
	len = min_u64(len, LEAF + CODE - address);
	memcpy(to, f->code + (address - LEAF), len);
	return (ssize_t)len;
}

static struct uw_module *module_make(void)
{
	struct bytes eh = {.n = 0}, hdr = {.n = 0};
	size_t cie = put_cie(&eh, "zR");
	const uint64_t pairs[][2] = {
		{0x1000, PUT_FDE(&eh, cie, 0x1000, 0x80, DEF_CFA_OFFSET, 16)},
		{0x1080, PUT_FDE(&eh, cie, 0x1080, 0x80, DEF_CFA_OFFSET, 0x80, 0x80, 1)},
		{0x1100, PUT_FDE(&eh, cie, 0x1100, 0x80, DEF_CFA_OFFSET, 32)},
		{0x1180, PUT_FDE(&eh, cie, 0x1180, 0x80, DEF_CFA_OFFSET, 32)},
		{0x1200, PUT_FDE(&eh, cie, 0x1200, 0x80, DEF_CFA_OFFSET, 48)},
		{0x1280, PUT_FDE(&eh, cie, 0x1280, 0x80, UNDEFINED, RIP)},
		{0x1300, PUT_FDE(&eh, cie, 0x1300, 0x80, DEF_CFA, RBP, 16)},
	};

	put_hdr(&hdr, ARRAY_SIZE(pairs), pairs);
	return module_of(image_of(&hdr, &eh, NULL));
}

static void use_space(struct fixture *f, uint32_t key, struct uw_memory *memory)
{
	struct uw_map map = {.start = CFI_BIAS + TEXT_AT,
			     .end = CFI_BIAS + TEXT_END,
			     .offset = TEXT_AT,
			     .module = f->module};

	uw_space_unref(f->space);
	assert_int_equal(uw_space_new(&map, 1, key, memory, &f->space), 0);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->memory.read = code_read;
	f->module = module_make();
	f->max_frames = FRAMES;
	use_space(f, KEY, &f->memory);
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

static void run(struct fixture *f, uint64_t pc, uint64_t sp, const uint64_t *stack, size_t len)
{
	f->regs[UW_X86_IP] = pc;
	f->regs[UW_X86_SP] = sp;
	f->snapshot.space = f->space;
	f->snapshot.regs = f->regs;
	f->snapshot.arch = UW_ARCH_X86_64;
	f->snapshot.stack = (const uint8_t *)stack;
	f->snapshot.stack_len = (uint32_t)len;
	f->res = (struct uw_result){.frames = f->frames, .max_frames = f->max_frames};
	assert_int_equal(uw_unwind_batch(f->engine, &f->snapshot, 1, &f->res), 0);
}

/* A stack in the large function; the copy ends in the middle of its frame; its return address is at X - 8. */
static void run_large(struct fixture *f)
{
	run(f, LARGE + 0x10, X - FRAME, f->large, sizeof(f->large));
}

/* leaf > @caller > @outer > rooted, the caller's frame at @x. */
static void run_seen(struct fixture *f, uint64_t x, uint64_t caller, uint64_t outer)
{
	f->seen[1] = caller;
	f->seen[5] = outer;
	f->seen[11] = ROOTED + 1;
	f->snapshot.stack_full = false;
	run(f, LEAF, x - 16, f->seen, sizeof(f->seen));
	assert_int_equal(f->res.outcome, UW_WHOLE);
	assert_int_equal(f->res.n_frames, 4);
	assert_false(f->res.completed);
}

/* A call of @to as the code at @at. */
static void put_call(struct fixture *f, uint64_t at, uint64_t to)
{
	int32_t distance = (int32_t)(to - (at + 5));

	f->code[at - LEAF] = 0xe8;
	memcpy(f->code + (at - LEAF) + 1, &distance, sizeof(distance));
}

static void assert_ends(struct fixture *f, enum uw_outcome outcome)
{
	run_large(f);
	assert_int_equal(f->res.outcome, outcome);
	assert_int_equal(f->res.reason, outcome == UW_CUT ? UW_OK : UW_MEMORY);
	assert_int_equal(f->res.n_frames, 1);
	assert_int_equal(f->res.stopped_at, X - 8);
	assert_false(f->res.completed);
}

/* Maybe no stack is there: neither is a root of the thread known, nor can its memory be read. */
static void assert_failed(struct fixture *f)
{
	assert_ends(f, UW_FAILED);
}

/* The stack goes on there: the root of the thread is beyond. */
static void assert_cut(struct fixture *f)
{
	assert_ends(f, UW_CUT);
}

static void assert_completed(struct fixture *f, uint64_t caller, uint64_t outer)
{
	run_large(f);
	assert_int_equal(f->res.outcome, UW_WHOLE);
	assert_int_equal(f->res.reason, UW_OK);
	assert_true(f->res.completed);
	assert_int_equal(f->res.n_frames, 4);
	assert_int_equal(f->frames[0], LARGE + 0x10);
	assert_int_equal(f->frames[1], GUESSED(caller));
	assert_int_equal(f->frames[2], GUESSED(outer));
	assert_int_equal(f->frames[3], GUESSED(ROOTED + 1));
}

/* A thread with stacks of this kind, of which one was seen whole: the caller called something else then. */
static void prepare(struct fixture *f)
{
	f->snapshot.thread = THREAD;
	put_call(f, CALLER + 0x20, LARGE);
	assert_failed(f);
	run_seen(f, X, CALLER + 0x50, OUTER + 0x30);
}

static void test_completed(void **state)
{
	struct fixture *f = *state;
	struct uw_engine_stats stats;

	prepare(f);
	assert_completed(f, CALLER + 0x25, OUTER + 0x30);
	assert_completed(f, CALLER + 0x25, OUTER + 0x30);
	uw_engine_stats(f->engine, &stats);
	assert_int_equal(stats.completed_stacks, 2);
	/* The newest is what counts. */
	run_seen(f, X, CALLER + 0x60, OUTER + 0x40);
	assert_completed(f, CALLER + 0x25, OUTER + 0x40);
	/* A completed stack teaches nothing: it has what was known. */
	run_seen(f, X, CALLER + 0x50, OUTER + 0x30);
	assert_completed(f, CALLER + 0x25, OUTER + 0x30);
}

/* A stack of ten more frames, as long as a trail (native.c) is kept of. */
static void run_long(struct fixture *f, uint64_t outer, uint64_t further)
{
	f->seen[1] = CALLER + 0x50;
	f->seen[5] = outer;
	for (size_t i = 1; i <= 10; i++)
		f->seen[5 + 6 * i] = further;
	f->seen[5 + 6 * 11] = ROOTED + 1;
	run(f, LEAF, X - 16, f->seen, sizeof(f->seen));
	assert_int_equal(f->res.outcome, UW_WHOLE);
	assert_int_equal(f->res.n_frames, 14);
	run_large(f);
	assert_true(f->res.completed);
	assert_int_equal(f->res.n_frames, 14);
	assert_int_equal(f->frames[2], GUESSED(outer));
	for (size_t i = 3; i < 13; i++)
		assert_int_equal(f->frames[i], GUESSED(further));
}

/* Frames that come from a trail: the newest counts here, too. */
static void test_trail(void **state)
{
	struct fixture *f = *state;
	struct uw_engine_stats stats;

	f->snapshot.thread = THREAD;
	put_call(f, CALLER + 0x20, LARGE);
	assert_failed(f);
	for (unsigned i = 0; i < 20; i++)
		run_long(f, OUTER + 0x30, OUTER + 0x40);
	uw_engine_stats(f->engine, &stats);
	assert_true(stats.reused_frames > 0);
	for (unsigned i = 0; i < 100; i++) {
		run_long(f, OUTER + (i % 7 < 5 ? 0x30 : 0x38), OUTER + 0x40);
		run_long(f, OUTER + 0x30, OUTER + (i % 3 ? 0x40 : 0x50));
		run_long(f, OUTER + 0x30, OUTER + 0x40);
	}
}

/* Nothing was seen before the first stack of this kind, nor in other threads and processes. */
static void test_other_threads(void **state)
{
	struct fixture *f = *state;

	f->snapshot.thread = THREAD;
	put_call(f, CALLER + 0x20, LARGE);
	run_seen(f, X, CALLER + 0x50, OUTER + 0x30);
	assert_cut(f);
	run_seen(f, X, CALLER + 0x50, OUTER + 0x30);
	f->snapshot.thread = THREAD + 1;
	assert_failed(f);
	f->snapshot.thread = 0;
	assert_failed(f);
	f->snapshot.thread = THREAD;
	use_space(f, KEY + 1, &f->memory);
	assert_failed(f);
	use_space(f, 0, &f->memory);
	assert_failed(f);
	use_space(f, KEY, &f->memory);
	assert_completed(f, CALLER + 0x25, OUTER + 0x30);
}

static void test_elsewhere(void **state)
{
	struct fixture *f = *state;

	f->snapshot.thread = THREAD;
	put_call(f, CALLER + 0x20, LARGE);
	assert_failed(f);
	run_seen(f, X + 16, CALLER + 0x50, OUTER + 0x30);
	run_seen(f, X - 16, CALLER + 0x50, OUTER + 0x30);
	assert_cut(f);
}

/* The code has to show that this function calls the large one, from one place. */
static void test_calls(void **state)
{
	struct fixture *f = *state;

	prepare(f);
	assert_completed(f, CALLER + 0x25, OUTER + 0x30);
	uw_engine_free(f->engine); /* what code shows is kept */
	assert_int_equal(uw_engine_new(UW_ENGINE_NATIVE, &f->engine), 0);
	put_call(f, CALLER + 0x40, LARGE);
	assert_failed(f);
	run_seen(f, X, CALLER + 0x50, OUTER + 0x30);
	assert_cut(f);
	uw_engine_free(f->engine);
	assert_int_equal(uw_engine_new(UW_ENGINE_NATIVE, &f->engine), 0);
	put_call(f, CALLER + 0x20, SECOND);
	put_call(f, CALLER + 0x40, LARGE + 1);
	assert_failed(f);
	run_seen(f, X, CALLER + 0x50, OUTER + 0x30);
	assert_cut(f);
}

static void test_no_code(void **state)
{
	struct fixture *f = *state;

	prepare(f);
	use_space(f, KEY, NULL);
	assert_cut(f);
	use_space(f, KEY, &f->memory);
	assert_completed(f, CALLER + 0x25, OUTER + 0x30);
}

/* Two that were seen at one place and both call it: ambiguous. */
static void test_two_callers(void **state)
{
	struct fixture *f = *state;

	prepare(f);
	run_seen(f, X, SECOND + 0x50, OUTER + 0x40);
	assert_completed(f, CALLER + 0x25, OUTER + 0x30); /* the other does not call it */
	uw_engine_free(f->engine);
	assert_int_equal(uw_engine_new(UW_ENGINE_NATIVE, &f->engine), 0);
	put_call(f, SECOND + 0x20, LARGE);
	prepare(f);
	assert_completed(f, CALLER + 0x25, OUTER + 0x30);
	run_seen(f, X, SECOND + 0x50, OUTER + 0x40);
	assert_cut(f);
}

/* Only where a page of the frame can be missing. */
static void test_not_a_hole(void **state)
{
	struct fixture *f = *state;

	prepare(f);
	run(f, LARGE + 0x10, X - FRAME, f->large, sizeof(f->large) - 8);
	assert_int_equal(f->res.outcome, UW_FAILED);
	f->snapshot.stack_full = true;
	run_large(f);
	assert_int_equal(f->res.outcome, UW_CUT);
	f->snapshot.stack_full = false;
	assert_completed(f, CALLER + 0x25, OUTER + 0x30);
}

/* What is needed stands on the very page that is missing: a call has touched that. */
static void test_same_page(void **state)
{
	struct fixture *f = *state;
	static uint64_t stack[FRAME / 8];

	prepare(f);
	run(f, LARGE + 0x10, X - FRAME, stack, 0x7fff8000 - (X - FRAME));
	assert_int_equal(f->res.outcome, UW_CUT);
	assert_false(f->res.completed);
}

/* No root is known, but the process has memory behind the page: the stack is cut, whatever the memory is by now. */
static void test_memory_behind(void **state)
{
	struct fixture *f = *state;

	f->snapshot.thread = THREAD;
	assert_failed(f);
	f->has_stack = true;
	assert_cut(f);
	run(f, LARGE + 0x10, X - FRAME, f->large, sizeof(f->large) - 8);
	assert_int_equal(f->res.outcome, UW_FAILED); /* the copy does not end at a page */
}

static void test_room(void **state)
{
	struct fixture *f = *state;

	prepare(f);
	for (f->max_frames = 1; f->max_frames < 4; f->max_frames++)
		assert_cut(f);
	assert_completed(f, CALLER + 0x25, OUTER + 0x30);
}

/* Notes of many threads: as many are kept as there is room for, and all notes work. */
static void test_many_threads(void **state)
{
	struct fixture *f = *state;
	struct uw_engine_stats one, many;

	prepare(f);
	uw_engine_stats(f->engine, &one);
	for (f->snapshot.thread = 1; f->snapshot.thread < 100; f->snapshot.thread++) {
		assert_ends(f, f->snapshot.thread == THREAD ? UW_CUT : UW_FAILED);
		run_seen(f, X, CALLER + 0x50, OUTER + 0x30);
		assert_completed(f, CALLER + 0x25, OUTER + 0x30);
	}
	uw_engine_stats(f->engine, &many);
	assert_true(many.cache_bytes < one.cache_bytes + (4 << 20));
	f->snapshot.thread = 99;
	assert_completed(f, CALLER + 0x25, OUTER + 0x30);
	f->snapshot.thread = 1;
	assert_cut(f); /* the least recently used went */
}

/* More functions at one place than there is room for: the newest stay. */
static void test_many_places(void **state)
{
	struct fixture *f = *state;

	prepare(f);
	for (uint64_t x = X - 0x100000; x < X; x += 16)
		run_seen(f, x, SECOND + 0x50, OUTER + 0x30);
	assert_cut(f);
	run_seen(f, X, CALLER + 0x50, OUTER + 0x30);
	assert_completed(f, CALLER + 0x25, OUTER + 0x30);
}

static void test_forget(void **state)
{
	struct fixture *f = *state;

	prepare(f);
	uw_engine_forget(f->engine, NULL);
	assert_cut(f);
	run_seen(f, X, CALLER + 0x50, OUTER + 0x30);
	assert_completed(f, CALLER + 0x25, OUTER + 0x30);
}

/* The module's file, where it may be read: @f->code stands at offset 0x1000. */
static void use_file(struct fixture *f)
{
	struct uw_image *image = f->module->image;

	image->fd = memfd_create("module", MFD_CLOEXEC);
	assert_true(image->fd >= 0);
	assert_int_equal(pwrite(image->fd, f->code, CODE, TEXT_AT), CODE);
	assert_int_equal(ftruncate(image->fd, TEXT_END), 0);
	f->segment = (struct uw_segment){.offset = TEXT_AT,
					 .vaddr = TEXT_AT,
					 .filesz = TEXT_END - TEXT_AT,
					 .memsz = TEXT_END - TEXT_AT,
					 .exec = true};
	image->segments = &f->segment;
	image->n_segments = 1;
	use_space(f, KEY, NULL);
}

/* The caller was never seen, but it alone calls the large one, and its own caller was seen where the
 * caller's CFI states. */
static void test_unseen(void **state)
{
	struct fixture *f = *state;

	f->snapshot.thread = THREAD;
	put_call(f, CALLER + 0x20, LARGE);
	put_call(f, OUTER + 0x20, CALLER);
	use_file(f);
	assert_failed(f);
	run_seen(f, X - 0x1000, SECOND + 0x50, OUTER + 0x30);
	assert_failed(f);
	run_seen(f, X, SECOND + 0x50, OUTER + 0x30);
	assert_completed(f, CALLER + 0x25, OUTER + 0x25);
}

static void test_unseen_twice_called(void **state)
{
	struct fixture *f = *state;

	f->snapshot.thread = THREAD;
	put_call(f, CALLER + 0x20, LARGE);
	put_call(f, FRAMED + 0x20, LARGE);
	put_call(f, OUTER + 0x20, CALLER);
	use_file(f);
	assert_failed(f);
	run_seen(f, X, SECOND + 0x50, OUTER + 0x30);
	assert_cut(f);
}

/* The caller depends on rbp, which is unknown. */
static void test_unseen_by_bp(void **state)
{
	struct fixture *f = *state;

	f->snapshot.thread = THREAD;
	put_call(f, FRAMED + 0x20, LARGE);
	put_call(f, OUTER + 0x20, FRAMED);
	f->regs[UW_X86_BP] = X + 16;
	use_file(f);
	assert_failed(f);
	run_seen(f, X, SECOND + 0x50, OUTER + 0x30);
	assert_cut(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_completed),	 TEST(test_other_threads), TEST(test_elsewhere),
		TEST(test_calls),	 TEST(test_no_code),	   TEST(test_two_callers),
		TEST(test_not_a_hole),	 TEST(test_same_page),	   TEST(test_trail),
		TEST(test_room),	 TEST(test_many_threads),  TEST(test_many_places),
		TEST(test_forget),	 TEST(test_unseen),	   TEST(test_unseen_twice_called),
		TEST(test_unseen_by_bp), TEST(test_memory_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
