/* unwind-fixture.h - the unwinder thread between two queues, and a module of our own text. */
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "proc/procfs.h"
#include "session/pipeline/unwind.h"
#include "tests/unit/cmocka.h"
#include "symbols/module.h"
#include "unwinder/unwinder.h"

/* How long samples wait for what does not come. */
#ifndef FIXTURE_WAIT_MS
#define FIXTURE_WAIT_MS 50
#endif

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
static inline struct process *process_number(uintptr_t n)
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
static inline void map_own_text(struct fixture *f)
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

static inline void load_own_text(struct fixture *f)
{
	struct uw_source source = {.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};

	assert_true(source.fd >= 0);
	assert_int_equal(uw_module_load_unwind(f->module, &source), 0);
	(void)close(source.fd);
}

static inline int setup(void **state)
{
	const struct unwind_options options = {
		.engine = UW_ENGINE_NATIVE,
		.frames = FRAMES_USER,
		.maps_wait_ns = FIXTURE_WAIT_MS * NSEC_PER_MSEC,
		.module_wait_ns = FIXTURE_WAIT_MS * NSEC_PER_MSEC,
		.park_bytes = 64 * PARK_PAGE,
		.in_main = true, /* nothing changes without unwind_stage_serve() */
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

static inline int teardown(void **state)
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

static inline struct entry *push(struct fixture *f, const struct entry *entry)
{
	struct entry *e = slot_queue_push(&f->in);

	assert_non_null(e);
	*e = *entry;
	return e;
}

static inline void go(struct fixture *f)
{
	slot_queue_publish(&f->in);
	waker_wake(&f->in_waker);
}

/* A user sample in our text; its space (may be NULL) gets a reference, as main takes one. */
static inline void push_sample(struct fixture *f, uintptr_t process, struct uw_space *space,
			       uint32_t tid)
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
static inline const struct outcome *next(struct fixture *f)
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

/* Are @n entries consumed, within two seconds? */
static inline bool are_consumed(struct fixture *f, uint64_t n)
{
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + 2 * NSEC_PER_SEC;

	while (slot_queue_consumed(&f->in) != n && clock_ns(CLOCK_MONOTONIC) < end)
		(void)poll(NULL, 0, 1);
	return slot_queue_consumed(&f->in) == n;
}

static inline void expect_nothing(struct fixture *f)
{
	size_t len;

	(void)poll(NULL, 0, 10);
	assert_null(byte_queue_next(&f->out, &len));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
