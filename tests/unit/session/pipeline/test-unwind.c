/* test-unwind.c - the unwinder thread from outside: each sample is answered exactly once, whatever
 * it waits for. */
#include "tests/unit/session/pipeline/unwind-fixture.h"

static void test_kernel_thread(void **state)
{
	struct fixture *f = *state;
	const uint64_t chain[] = {CONTEXT_KERNEL, 0xffffffff81000001, 0xffffffff81000002,
				  CONTEXT_USER, 0x11000};
	const struct outcome *o;

	push(f, &(struct entry){.kind = ENTRY_SAMPLE, .chain = chain, .n_chain = 5, .info.tid = 9});
	go(f);
	o = next(f);
	assert_int_equal(o->kind, OUTCOME_SAMPLE);
	assert_int_equal(o->result, UW_WHOLE);
	assert_int_equal(o->info.tid, 9);
	assert_int_equal(o->n_kernel, 2); /* not the user part, which was not requested */
	assert_int_equal(o->n_user, 0);
	assert_true(o->frames[1] == 0xffffffff81000002);
}

/* Many samples wait for one module: it is asked for once, they are all answered when it comes. */
static void test_wait_for_module(void **state)
{
	struct fixture *f = *state;
	const struct outcome *o;

	for (uint32_t i = 0; i < 20; i++)
		push_sample(f, 1, f->space, i);
	go(f);
	o = next(f);
	assert_int_equal(o->kind, OUTCOME_WANT_MODULE);
	assert_ptr_equal(o->module, f->module);
	expect_nothing(f);
	assert_true(are_consumed(f, 20)); /* out of the ring: the tail can move */
	assert_int_equal(unwind_stage_parked(f->stage), 20);
	load_own_text(f);
	push(f, &(struct entry){.kind = ENTRY_MODULE, .module = f->module});
	go(f);
	for (uint32_t i = 0, seen = 0; i < 20; i++) {
		o = next(f);
		assert_int_equal(o->kind, OUTCOME_SAMPLE);
		assert_int_equal(o->skipped, SKIP_NONE);
		assert_int_equal(seen >> o->info.tid & 1, 0);
		seen |= 1u << o->info.tid;
		assert_int_equal(o->result, UW_WHOLE);
		assert_int_equal(o->n_user, 1);
		assert_true(uw_frame_pc(o->frames[0]) == f->regs[UW_X86_IP]);
		(void)uw_space_unref(o->info.space);
	}
	expect_nothing(f);
}

/* What waits is copied with the registers of its own machine, or of none. */
static void test_wait_other_machine(void **state)
{
	static const enum uw_arch archs[] = {UW_ARCH_AARCH64, UW_ARCH_NONE};
	struct fixture *f = *state;
	uint64_t regs[UW_ARM64_COUNT] = {
		[UW_ARM64_FP] = 0x7000, [UW_ARM64_SP] = 0x7000, [UW_ARM64_PC] = f->regs[UW_X86_IP]};
	const struct outcome *o;

	for (uint32_t i = 0; i < 2; i++)
		push(f, &(struct entry){.kind = ENTRY_SAMPLE,
					.user_state = true,
					.arch = archs[i],
					.regs = regs,
					.stack = (const uint8_t *)f->stack,
					.info = {.process = process_number(1),
						 .tid = i,
						 .stack_len = sizeof(f->stack)}});
	go(f);
	expect_nothing(f);
	assert_true(are_consumed(f, 2));
	memset(regs, 0xff, sizeof(regs)); /* as a ring that goes on */
	load_own_text(f);
	push(f, &(struct entry){.kind = ENTRY_SPACE,
				.info = {.process = process_number(1), .space = f->space}});
	go(f);
	for (uint32_t i = 0; i < 2; i++) {
		o = next(f);
		assert_int_equal(o->kind, OUTCOME_SAMPLE);
		assert_int_equal(o->skipped, SKIP_NONE);
		assert_int_equal(o->n_user, archs[o->info.tid] == UW_ARCH_AARCH64);
		if (o->n_user)
			assert_true(uw_frame_pc(o->frames[0]) == f->regs[UW_X86_IP]);
		else
			assert_int_equal(o->reason, UW_ABI);
		(void)uw_space_unref(o->info.space);
	}
}

static void test_module_timeout(void **state)
{
	struct fixture *f = *state;
	const struct outcome *o;

	push_sample(f, 1, f->space, 1);
	go(f);
	assert_int_equal(next(f)->kind, OUTCOME_WANT_MODULE);
	o = next(f);
	assert_int_equal(o->kind, OUTCOME_SAMPLE);
	assert_int_equal(o->skipped, SKIP_MODULE_TIMEOUT);
	(void)uw_space_unref(o->info.space);
}

/* Only the samples of the process with mappings that came go on; the others run into their deadline. */
static void test_wait_for_mappings(void **state)
{
	struct fixture *f = *state;
	const struct outcome *o;

	load_own_text(f);
	push_sample(f, 1, NULL, 1);
	push_sample(f, 2, NULL, 2);
	go(f);
	(void)poll(NULL, 0, 5);
	push(f, &(struct entry){
			.kind = ENTRY_SPACE,
			.info = {.process = process_number(2), .space = f->space},
		});
	go(f);
	o = next(f);
	assert_int_equal(o->info.tid, 2);
	assert_int_equal(o->skipped, SKIP_NONE);
	assert_ptr_equal(o->info.space, f->space); /* with a reference of its own */
	(void)uw_space_unref(o->info.space);
	o = next(f);
	assert_int_equal(o->info.tid, 1);
	assert_int_equal(o->skipped, SKIP_MAPS_TIMEOUT);
	assert_null(o->info.space);
}

/* A pc outside every mapping: the mappings are looked at once more, then the failure stands. */
static void test_second_look(void **state)
{
	struct fixture *f = *state;
	const struct outcome *o;

	f->regs[UW_X86_IP] = 0x66;
	push_sample(f, 1, f->space, 1);
	go(f);
	o = next(f);
	assert_int_equal(o->kind, OUTCOME_WANT_MAPS);
	assert_int_equal(o->reason, UW_NO_MODULE);
	assert_int_equal(o->stopped_at, 0x66);
	push(f, &(struct entry){
			.kind = ENTRY_SPACE,
			.info = {.process = process_number(1), .space = f->space},
		});
	go(f);
	o = next(f);
	assert_int_equal(o->kind, OUTCOME_SAMPLE);
	assert_int_equal(o->result, UW_FAILED);
	assert_int_equal(o->reason, UW_NO_MODULE);
	(void)uw_space_unref(o->info.space);
	expect_nothing(f);
}

/* A waiting room of 64 pages: one process gets 48, and what finds no room is answered all the same.  Samples of
 * others, which come later, find room. */
static void test_park_full(void **state)
{
	struct fixture *f = *state;
	uint32_t full = 0, late = 0;

	for (uint32_t i = 0; i < 70; i++)
		push_sample(f, 1, NULL, i);
	for (uint32_t i = 0; i < 10; i++)
		push_sample(f, 2 + i, NULL, 100 + i);
	go(f);
	for (uint32_t i = 0; i < 80; i++) {
		const struct outcome *o = next(f);

		assert_true(o->skipped == SKIP_PARK_FULL || o->skipped == SKIP_MAPS_TIMEOUT);
		if (o->info.tid >= 100)
			assert_int_equal(o->skipped, SKIP_MAPS_TIMEOUT);
		full += o->skipped == SKIP_PARK_FULL;
		late += o->skipped == SKIP_MAPS_TIMEOUT;
	}
	assert_int_equal(full, 22);
	assert_int_equal(late, 58);
	expect_nothing(f);
}

/* Stacks of 64 KiB in a waiting room of 256 KiB: of one process one waits whole, six shortened; the whole copy is accounted. */
static void test_park_deep(void **state)
{
	static const uint8_t stack[65528];
	struct fixture *f = *state;
	uint32_t full = 0, late = 0;

	for (uint32_t i = 0; i < 10; i++)
		push(f, &(struct entry){.kind = ENTRY_SAMPLE,
					.user_state = true,
					.arch = UW_ARCH_X86_64,
					.regs = f->regs,
					.stack = stack,
					.info = {.process = process_number(1),
						 .tid = i,
						 .stack_len = sizeof(stack)}});
	go(f);
	for (uint32_t i = 0; i < 10; i++) {
		const struct outcome *o = next(f);

		full += o->skipped == SKIP_PARK_FULL;
		late += o->skipped == SKIP_MAPS_TIMEOUT;
		assert_int_equal(o->info.stack_len, sizeof(stack));
	}
	assert_int_equal(late, 7);
	assert_int_equal(full, 3);
	expect_nothing(f);
}

/* DRAINED comes last, after what waits has run into its deadline. */
static void test_drain(void **state)
{
	struct fixture *f = *state;

	push_sample(f, 1, NULL, 1);
	push(f, &(struct entry){.kind = ENTRY_DRAIN});
	go(f);
	assert_int_equal(next(f)->skipped, SKIP_MAPS_TIMEOUT);
	assert_int_equal(next(f)->kind, OUTCOME_DRAINED);
	expect_nothing(f);
}

static void test_evict(void **state)
{
	struct fixture *f = *state;
	const struct outcome *o;

	load_own_text(f);
	push(f, &(struct entry){.kind = ENTRY_EVICT, .module = f->module});
	go(f);
	o = next(f);
	assert_int_equal(o->kind, OUTCOME_EVICTED);
	assert_ptr_equal(o->module, f->module);
	assert_int_equal(uw_module_unwind_state(f->module), UW_MODULE_NEW);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_kernel_thread),
		TEST(test_wait_for_module),
		TEST(test_wait_other_machine),
		TEST(test_module_timeout),
		TEST(test_wait_for_mappings),
		TEST(test_second_look),
		TEST(test_park_full),
		TEST(test_park_deep),
		TEST(test_drain),
		TEST(test_evict),
	};

	return cmocka_run_group_tests_name("unwind", tests, NULL, NULL);
}
