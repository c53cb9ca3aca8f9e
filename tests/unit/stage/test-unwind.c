/* test-unwind.c - the unwinder thread from outside: each sample is answered exactly once, whatever
 * it waits for. */
#include <fcntl.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "daemon/proc/procfs.h"
#include "daemon/stage/unwind.h"
#include "tests/unit/cmocka.h"
#include "unwinder/module.h"

#define CONTEXT_KERNEL ((uint64_t)-128)
#define CONTEXT_USER ((uint64_t)-512)

struct fixture {
	struct slot_queue in;
	struct byte_queue out;
	struct waker in_waker, out_waker;
	struct unwind_stage *stage;
	struct uw_module *module;
	struct uw_space *space;
	uint64_t regs[UW_X86_COUNT];
	uint64_t stack[16];
};

/* The unwinder never looks into a process: any address will do. */
static struct process *process_number(uintptr_t n)
{
	return (struct process *)(n * 64);
}

/* The first instruction of a function of ours: CFA = sp + 8, the return address (0: the root) at
 * sp. */
static __attribute__((noinline)) int leaf(int x)
{
	return x * 3;
}

/* Our own text, as a module that is not loaded yet, in a space of its own. */
static void map_own_text(struct fixture *f)
{
	uint64_t pc = (uint64_t)(uintptr_t)leaf;
	_cleanup_(freep) char *text = NULL;
	struct uw_map map = {0};
	struct procfs_map line;
	const char *p;
	size_t len;

	assert_int_equal(uw_module_new(UW_MODULE_FILE, "/proc/self/exe", NULL, &f->module), 0);
	assert_int_equal(procfs_maps("", (uint32_t)getpid(), &text, &len), 0);
	for (p = text; procfs_maps_next(&p, text + len, &line) == 0;) {
		if (line.start <= pc && pc < line.end)
			map = (struct uw_map){line.start, line.end, line.offset, f->module};
	}
	assert_non_null(map.module);
	assert_int_equal(uw_space_new(&map, 1, 7, NULL, &f->space), 0);
	f->regs[UW_X86_IP] = pc;
	f->regs[UW_X86_SP] = 0x7000;
}

static void load_own_text(struct fixture *f)
{
	struct uw_source source = {.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};

	assert_true(source.fd >= 0);
	assert_int_equal(uw_module_load_unwind(f->module, &source), 0);
	(void)close(source.fd);
}

static int setup(void **state)
{
	const struct unwind_options options = {
		.engine = UW_ENGINE_NATIVE,
		.user_frames = true,
		.maps_wait_ns = 50 * NSEC_PER_MSEC,
		.module_wait_ns = 50 * NSEC_PER_MSEC,
		.park_bytes = 64 * PARK_PAGE,
	};
	struct fixture *f = calloc(1, sizeof(*f));

	assert_int_equal(slot_queue_init(&f->in, 256, sizeof(struct entry)), 0);
	assert_int_equal(byte_queue_init(&f->out, 1 << 20), 0);
	assert_int_equal(waker_init(&f->in_waker), 0);
	assert_int_equal(waker_init(&f->out_waker), 0);
	map_own_text(f);
	assert_int_equal(
		unwind_stage_new(&options, &f->in, &f->in_waker, &f->out, &f->out_waker, &f->stage),
		0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(leaf(2), 6);
	(void)unwind_stage_free(f->stage);
	slot_queue_deinit(&f->in);
	byte_queue_deinit(&f->out);
	waker_deinit(&f->in_waker);
	waker_deinit(&f->out_waker);
	(void)uw_space_unref(f->space);
	(void)uw_module_unref(f->module);
	free(f);
	return 0;
}

static struct entry *push(struct fixture *f, const struct entry *entry)
{
	struct entry *e = slot_queue_push(&f->in);

	assert_non_null(e);
	*e = *entry;
	return e;
}

static void go(struct fixture *f)
{
	slot_queue_publish(&f->in);
	waker_wake(&f->in_waker);
}

/* A user sample in our text; its space (may be NULL) gets a reference, as main takes one. */
static void push_sample(struct fixture *f, uintptr_t process, struct uw_space *space, uint32_t tid)
{
	push(f, &(struct entry){
			.kind = ENTRY_SAMPLE,
			.user_state = true,
			.arch = UW_ARCH_X86_64,
			.regs = f->regs,
			.stack = (const uint8_t *)f->stack,
			.info =
				{
					.process = process_number(process),
					.space = space ? uw_space_ref(space) : NULL,
					.tid = tid,
					.stack_len = sizeof(f->stack),
				},
		});
}

/* The next outcome within two seconds.  Good until the next call. */
static const struct outcome *next(struct fixture *f)
{
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + 2 * NSEC_PER_SEC;
	const struct outcome *o;
	size_t len;

	byte_queue_release(&f->out);
	while (!(o = byte_queue_next(&f->out, &len))) {
		assert_true(clock_ns(CLOCK_MONOTONIC) < end);
		(void)poll(NULL, 0, 1);
	}
	assert_int_equal(len, sizeof(*o) + (o->n_kernel + o->n_user) * sizeof(uint64_t));
	return o;
}

static void expect_nothing(struct fixture *f)
{
	size_t len;

	(void)poll(NULL, 0, 10);
	assert_null(byte_queue_next(&f->out, &len));
}

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
	assert_int_equal(o->n_kernel, 2); /* not the user part, which nobody asked for */
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
	assert_int_equal(slot_queue_consumed(&f->in), 20); /* out of the ring: the tail can move */
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

/* Only the samples of the process whose mappings came go on; the others run into their deadline. */
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

/* A waiting room of 64 pages: the 65th sample finds it full, and is answered all the same. */
static void test_park_full(void **state)
{
	struct fixture *f = *state;
	uint32_t full = 0, late = 0;

	for (uint32_t i = 0; i < 70; i++)
		push_sample(f, 1, NULL, i);
	go(f);
	for (uint32_t i = 0; i < 70; i++) {
		const struct outcome *o = next(f);

		full += o->skipped == SKIP_PARK_FULL;
		late += o->skipped == SKIP_MAPS_TIMEOUT;
	}
	assert_int_equal(full, 6);
	assert_int_equal(late, 64);
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_kernel_thread),  TEST(test_wait_for_module),
		TEST(test_module_timeout), TEST(test_wait_for_mappings),
		TEST(test_second_look),	   TEST(test_park_full),
		TEST(test_drain),	   TEST(test_evict),
	};

	return cmocka_run_group_tests_name("unwind", tests, NULL, NULL);
}
