/* test-engine-fp.c - the engines by frame pointers. */
#include "tests/unit/cmocka.h"

#include "unwinder/engine.h"

enum { SP = 0x7000 };

struct fixture {
	struct uw_space *space;
	uint64_t regs[UW_X86_COUNT], stack[16], frames[8];
	struct uw_snapshot snapshot;
	struct uw_result res;
};

static void fixture_run(struct fixture *f, enum uw_engine_kind kind)
{
	struct uw_engine *engine;

	f->res = (struct uw_result){.frames = f->frames,
				    .max_frames = f->res.max_frames ? f->res.max_frames : 8};
	assert_int_equal(uw_engine_new(kind, &engine), 0);
	assert_int_equal(uw_unwind_batch(engine, &f->snapshot, 1, &f->res), 0);
	uw_engine_forget(engine, NULL);
	uw_engine_free(engine);
}

/* pc 0x1010, rbp = SP + 0x20; [rbp] = SP + 0x40, ra 0x1100; [SP + 0x40] = 0, ra 0x1200 */
static void fixture_init(struct fixture *f)
{
	const struct uw_map map = {.start = 0x1000, .end = 0x2000};

	*f = (struct fixture){.stack = {[4] = SP + 0x40, [5] = 0x1100, [8] = 0, [9] = 0x1200}};
	assert_int_equal(uw_space_new(&map, 1, 1, NULL, &f->space), 0);
	f->regs[UW_X86_IP] = 0x1010;
	f->regs[UW_X86_SP] = SP;
	f->regs[UW_X86_BP] = SP + 0x20;
	f->snapshot = (struct uw_snapshot){
		.space = f->space,
		.regs = f->regs,
		.arch = UW_ARCH_X86_64,
		.stack = (uint8_t *)f->stack,
		.stack_len = sizeof(f->stack),
	};
}

static void fixture_end(struct fixture *f, enum uw_outcome outcome, enum uw_reason reason,
			uint32_t n_frames)
{
	assert_int_equal(f->res.outcome, outcome);
	assert_int_equal(f->res.reason, reason);
	assert_int_equal(f->res.n_frames, n_frames);
	uw_space_unref(f->space);
}

static void test_copy_whole(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	fixture_run(&f, UW_ENGINE_FP_COPY);
	assert_int_equal(f.frames[0], 0x1010);
	assert_int_equal(f.frames[1], 0x1100 | UW_FRAME_CALLER);
	assert_int_equal(f.frames[2], 0x1200 | UW_FRAME_CALLER);
	fixture_end(&f, UW_WHOLE, UW_OK, 3);
	fixture_init(&f);
	f.stack[9] = 0; /* a return address of 0 ends it, too */
	f.stack[8] = SP + 0x50;
	fixture_run(&f, UW_ENGINE_FP_COPY);
	fixture_end(&f, UW_WHOLE, UW_OK, 2);
}

static void test_copy_ends(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	f.stack[8] = SP + 0x40; /* not upwards */
	fixture_run(&f, UW_ENGINE_FP_COPY);
	fixture_end(&f, UW_FAILED, UW_NO_UNWIND_INFO, 3);
	fixture_init(&f);
	f.regs[UW_X86_BP] = SP + 0x21; /* no frame pointer */
	fixture_run(&f, UW_ENGINE_FP_COPY);
	fixture_end(&f, UW_FAILED, UW_NO_UNWIND_INFO, 1);
	fixture_init(&f);
	f.stack[9] = 0x2001; /* ra - 1 is outside */
	fixture_run(&f, UW_ENGINE_FP_COPY);
	assert_int_equal(f.res.stopped_at, 0x2001);
	fixture_end(&f, UW_FAILED, UW_NO_MODULE, 2);
	fixture_init(&f);
	f.regs[UW_X86_IP] = 0x2000;
	fixture_run(&f, UW_ENGINE_FP_COPY);
	fixture_end(&f, UW_FAILED, UW_NO_MODULE, 0);
	fixture_init(&f);
	f.res.max_frames = 2;
	fixture_run(&f, UW_ENGINE_FP_COPY);
	fixture_end(&f, UW_CUT, UW_TOO_DEEP, 2);
}

static void test_copy_bounds(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	f.snapshot.stack_len =
		0x50; /* all but the last word of what is needed is at 0x48 .. 0x4f: whole */
	fixture_run(&f, UW_ENGINE_FP_COPY);
	fixture_end(&f, UW_WHOLE, UW_OK, 3);
	fixture_init(&f);
	f.snapshot.stack_len = 0x4f;
	fixture_run(&f, UW_ENGINE_FP_COPY);
	assert_int_equal(f.res.stopped_at, SP + 0x48);
	fixture_end(&f, UW_FAILED, UW_MEMORY, 2);
	fixture_init(&f);
	f.snapshot.stack_len = 0x48;
	f.snapshot.stack_full = true;
	fixture_run(&f, UW_ENGINE_FP_COPY);
	fixture_end(&f, UW_CUT, UW_OK, 2);
	fixture_init(&f);
	f.snapshot.stack_len = 0;
	f.snapshot.stack = NULL;
	fixture_run(&f, UW_ENGINE_FP_COPY);
	fixture_end(&f, UW_CUT, UW_OK, 1);
	fixture_init(&f);
	f.regs[UW_X86_BP] = UINT64_MAX - 7; /* near the end of all addresses */
	fixture_run(&f, UW_ENGINE_FP_COPY);
	fixture_end(&f, UW_FAILED, UW_MEMORY, 1);
}

static void test_copy_refused(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	f.snapshot.regs = NULL;
	fixture_run(&f, UW_ENGINE_FP_COPY);
	fixture_end(&f, UW_FAILED, UW_NO_USER_STATE, 0);
	fixture_init(&f);
	f.snapshot.arch = UW_ARCH_NONE;
	fixture_run(&f, UW_ENGINE_FP_COPY);
	fixture_end(&f, UW_FAILED, UW_ABI, 0);
}

static void test_chain(void **state)
{
	static const uint64_t chain[] = {0x1010, 0x1100, 0x1200};
	struct fixture f;

	(void)state;
	fixture_init(&f);
	f.snapshot = (struct uw_snapshot){
		.space = f.space, .chain = chain, .n_chain = 3}; /* no registers, no stack */
	fixture_run(&f, UW_ENGINE_FP);
	assert_int_equal(f.frames[0], 0x1010);
	assert_int_equal(f.frames[2], 0x1200 | UW_FRAME_CALLER);
	fixture_end(&f, UW_WHOLE, UW_OK, 3);
	fixture_init(&f);
	f.snapshot = (struct uw_snapshot){.space = f.space, .chain = chain, .n_chain = 3};
	f.res.max_frames = 2;
	fixture_run(&f, UW_ENGINE_FP);
	fixture_end(&f, UW_CUT, UW_TOO_DEEP, 2);
	fixture_init(&f);
	f.snapshot = (struct uw_snapshot){.space = f.space};
	fixture_run(&f, UW_ENGINE_FP);
	fixture_end(&f, UW_FAILED, UW_NO_USER_STATE, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copy_whole),  cmocka_unit_test(test_copy_ends),
		cmocka_unit_test(test_copy_bounds), cmocka_unit_test(test_copy_refused),
		cmocka_unit_test(test_chain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
