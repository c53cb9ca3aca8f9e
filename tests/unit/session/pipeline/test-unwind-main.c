/* test-unwind-main.c - the unwinder's work in main while its thread sleeps: both hand-overs, and what main leaves to the
 * thread. */
#include <errno.h>
#include <pthread.h>

#include "tests/unit/session/pipeline/unwind-fixture.h"

static void wait_asleep(struct fixture *f)
{
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + 2 * NSEC_PER_SEC;

	while (atomic_load(&f->in_waker.state) != WAKER_ASLEEP)
		assert_true(clock_ns(CLOCK_MONOTONIC) < end);
}

static void serve(struct fixture *f)
{
	slot_queue_publish(&f->in);
	unwind_stage_serve(f->stage, true);
}

static void expect_whole(struct fixture *f, const struct outcome *o)
{
	assert_int_equal(o->kind, OUTCOME_SAMPLE);
	assert_int_equal(o->skipped, SKIP_NONE);
	assert_int_equal(o->result, UW_WHOLE);
	assert_int_equal(o->n_user, 1);
	assert_true(uw_frame_pc(o->frames[0]) == f->regs[UW_X86_IP]);
	(void)uw_space_unref(o->info.space);
}

/* The outcomes are there when the call returns, in the order of the samples. */
static void test_in_main(void **state)
{
	struct fixture *f = *state;
	const struct outcome *o;
	uint64_t began;
	size_t len;

	load_own_text(f);
	wait_asleep(f);
	for (uint32_t i = 0; i < 40; i++)
		push_sample(f, 1, f->space, i);
	push(f, &(struct entry){.kind = ENTRY_FLUSH, .info.count = 9});
	push(f, &(struct entry){.kind = ENTRY_DRAIN});
	began = clock_ns(CLOCK_MONOTONIC);
	serve(f);
	/* What is left after a turn of 2 ms is the thread's: on a slow machine. */
	assert_true(slot_queue_consumed(&f->in) == 42 ||
		    clock_ns(CLOCK_MONOTONIC) - began >= 2 * NSEC_PER_MSEC);
	assert_true(are_consumed(f, 42));
	wait_asleep(f);
	for (uint32_t i = 0; i < 40; i++) {
		o = byte_queue_next(&f->out, &len);
		assert_non_null(o);
		assert_int_equal(o->info.tid, i);
		expect_whole(f, o);
	}
	o = byte_queue_next(&f->out, &len);
	assert_int_equal(o->kind, OUTCOME_FLUSHED);
	assert_int_equal(o->info.count, 9);
	o = byte_queue_next(&f->out, &len);
	assert_int_equal(o->kind, OUTCOME_DRAINED);
	assert_null(byte_queue_next(&f->out, &len));
}

/* What main has parked has a deadline, which the thread keeps; then it sleeps, and main goes on. */
static void test_parked_in_main(void **state)
{
	struct fixture *f = *state;
	const struct outcome *o;
	size_t len;

	wait_asleep(f);
	push_sample(f, 1, f->space, 1);
	serve(f);
	o = byte_queue_next(&f->out, &len);
	assert_int_equal(o->kind, OUTCOME_WANT_MODULE);
	assert_int_equal(unwind_stage_parked(f->stage), 1);
	push_sample(f, 2, f->space, 2); /* while the thread has the park */
	serve(f);
	for (int i = 0; i < 2; i++) {
		o = next(f);
		assert_int_equal(o->kind, OUTCOME_SAMPLE);
		assert_int_equal(o->skipped, SKIP_MODULE_TIMEOUT);
		(void)uw_space_unref(o->info.space);
	}
	load_own_text(f);
	push(f, &(struct entry){.kind = ENTRY_MODULE, .module = f->module});
	go(f);
	assert_true(are_consumed(f, 3));
	wait_asleep(f);
	push_sample(f, 1, f->space, 3);
	serve(f);
	o = byte_queue_next(&f->out, &len);
	assert_non_null(o);
	expect_whole(f, o);
}

/* A thread that is at work takes what was published meanwhile. */
static void test_hurry(void **state)
{
	struct fixture *f = *state;

	load_own_text(f);
	unwind_stage_hurry(f->stage, true);
	wait_asleep(f);
	push_sample(f, 1, f->space, 1);
	serve(f);
	expect_whole(f, next(f));
}

/* ---- memory ---- */

struct memory {
	struct uw_memory memory;
	pthread_t of_main;
	uint64_t base;
	const uint8_t *bytes;
	size_t len;
	_Atomic unsigned put_off, reads, in_main;
};

static ssize_t read_bytes(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	struct memory *m = container_of(memory, struct memory, memory);

	if (memory->later) {
		memory->wanted = true;
		m->put_off++;
		return -EAGAIN;
	}
	m->reads++;
	m->in_main += pthread_equal(pthread_self(), m->of_main) != 0;
	if (address < m->base || address - m->base >= m->len)
		return 0;
	len = min_u64(len, m->len - (address - m->base));
	memcpy(to, m->bytes + (address - m->base), len);
	return (ssize_t)len;
}

/* Code without unwinding information, which is read from the process: main takes nothing of the batch, the thread takes all
 * of it, and no rule of main's try is left. */
static void test_memory(void **state)
{
	enum { CODE = 4096 };
	const uint64_t code = 0x10000; /* below the program */
	struct fixture *f = *state;
	uint8_t bytes[CODE];
	struct memory memory = {
		.memory.read = read_bytes,
		.of_main = pthread_self(),
		.base = code,
		.bytes = bytes,
		.len = sizeof(bytes),
	};
	struct uw_map maps[] = {{code, code + CODE, 0, NULL},
				*uw_space_find(f->space, f->regs[UW_X86_IP])};
	uint64_t regs[UW_X86_COUNT];
	struct uw_space *space;
	const struct outcome *o;

	load_own_text(f);
	memset(bytes, 0xc3, sizeof(bytes)); /* ret */
	memcpy(regs, f->regs, sizeof(regs));
	regs[UW_X86_IP] = code + 0x200;
	f->stack[0] = 0; /* the root, which the ret leads to */
	assert_int_equal(uw_space_new(maps, 2, 8, &memory.memory, &space), 0);
	wait_asleep(f);
	push_sample(f, 1, f->space, 1);
	push(f, &(struct entry){
			.kind = ENTRY_SAMPLE,
			.user_state = true,
			.arch = UW_ARCH_X86_64,
			.regs = regs,
			.stack = (const uint8_t *)f->stack,
			.info = {.process = process_number(1),
				 .space = uw_space_ref(space),
				 .tid = 2,
				 .stack_len = sizeof(f->stack)},
		});
	serve(f);
	expect_whole(f, next(f));
	o = next(f);
	assert_int_equal(o->info.tid, 2);
	assert_int_equal(o->n_user, 1);
	(void)uw_space_unref(o->info.space);
	assert_true(are_consumed(f, 2));
	assert_true(memory.put_off > 0);
	assert_true(memory.reads > 0);
	assert_int_equal(memory.in_main, 0);
	wait_asleep(f);
	assert_false(memory.memory.later);
	assert_false(memory.memory.wanted);
	(void)uw_space_unref(space);
}

/* ---- both, in turn ---- */

static void test_both(void **state)
{
	enum { SAMPLES = 60000, STEP = 23 };
	struct fixture *f = *state;
	const struct outcome *o;
	uint32_t sent = 0, seen = 0, in_main = 0;
	size_t len;

	load_own_text(f);
	while (seen < SAMPLES) {
		for (uint32_t i = 0; i < STEP && sent < SAMPLES && sent - seen < 200; i++)
			push_sample(f, 1, f->space, sent++);
		if (sent % 3)
			serve(f);
		else
			go(f);
		in_main += slot_queue_consumed(&f->in) == sent;
		while ((o = byte_queue_next(&f->out, &len))) {
			assert_int_equal(o->info.tid, seen++); /* in order: nothing waits */
			expect_whole(f, o);
		}
		byte_queue_release(&f->out);
	}
	assert_true(in_main > 0);
	assert_int_equal(slot_queue_consumed(&f->in), SAMPLES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_in_main), TEST(test_parked_in_main), TEST(test_hurry),
		TEST(test_memory),  TEST(test_both),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
