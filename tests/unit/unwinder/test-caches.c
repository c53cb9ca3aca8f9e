/* test-caches.c - an hour of 300 processes over 500 modules: memory stays bounded, nothing grows,
 * and every stack is right.
 *
 * The modules are made by hand when an unwind asks for them, as a loader would, and dropped as a
 * session and an import have it done (uw_modules_keep_small).  Each module's sections are so large
 * that a third of the modules fits.  Every fourth has no search table: the engine makes an index, which
 * must go with the module. */
#include "tests/unit/unwinder/cfi-fixture.h"

#include <malloc.h>

#include "unwinder/engine.h"
#include "symbols/modules.h"

enum {
	PROCESSES = 300,
	MODULES = 500,
	MAPS = 12,	 /* of a process */
	FUNCTIONS = 128, /* of a module, 64 bytes each */
	DEPTH = 12,
#ifdef __SANITIZE_ADDRESS__
	SAMPLES = 100 * 1000, /* each takes twenty times as long */
#else
	SAMPLES = 1000 * 1000, /* an hour at 280 Hz */
#endif
	PADDING = 300 << 10, /* of .eh_frame behind its records */
	BOUND = 64 << 20,
	SP = 0x7fff0000,
};

struct process {
	struct uw_space *space;
	uint16_t modules[MAPS];
};

struct world {
	struct uw_modules *set;
	struct uw_module *modules[MODULES];
	struct process processes[PROCESSES];
	struct uw_engine *engine;
	uint64_t seed, n_loads, n_drops;
	size_t most; /* bytes at any time */
};

static uint64_t random_next(struct world *w)
{
	w->seed = w->seed * 6364136223846793005ull + 1442695040888963407ull;
	return w->seed >> 33;
}

/* Small numbers mostly: what a machine runs is a few programs often and many seldom. */
static uint64_t random_small(struct world *w, uint64_t n)
{
	uint64_t a = random_next(w) % n, b = random_next(w) % n, c = random_next(w) % n;

	return a * b / n * c / n;
}

/* Function i of every module has CFA = rsp + 8 + 8 * (i % 15). */
static unsigned frame_words(uint64_t function)
{
	return 1 + (unsigned)(function % 15);
}

static size_t bytes_held(const struct world *w)
{
	struct uw_engine_stats stats;

	/* An index counts in both; it is the module's here. */
	uw_engine_stats(w->engine, &stats);
	return uw_modules_bytes(w->set) + stats.cache_bytes;
}

static void load(struct world *w, struct uw_module *module)
{
	struct bytes *eh = calloc(1, sizeof(*eh)), *hdr = calloc(1, sizeof(*hdr));
	uint64_t pairs[FUNCTIONS][2];
	struct uw_image *image;
	size_t cie;

	assert_non_null(eh);
	assert_non_null(hdr);
	cie = put_cie(eh, "zR");
	for (uint64_t i = 0; i < FUNCTIONS; i++) {
		pairs[i][0] = TEXT_AT + i * 64;
		pairs[i][1] = PUT_FDE(eh, cie, TEXT_AT + i * 64, 64, DEF_CFA_OFFSET,
				      (uint8_t)(8 * frame_words(i)));
	}
	put_hdr(hdr, FUNCTIONS, (const uint64_t(*)[2])pairs);
	image = image_of(uw_module_serial(module) % 4 ? hdr : NULL, eh, NULL);
	image->eh_frame.data = realloc(image->eh_frame.data, eh->n + PADDING);
	assert_non_null(image->eh_frame.data);
	memset(image->eh_frame.data + eh->n, 0, PADDING);
	image->eh_frame.size = eh->n + PADDING;
	image->bytes += image->eh_frame.size + image->eh_frame_hdr.size;
	module->image = image;
	atomic_store(&module->unwind_bytes, image->bytes);
	atomic_store(&module->unwind_state, UW_MODULE_READY);
	free(eh);
	free(hdr);
	w->n_loads++;
}

static int drop(struct uw_module *module, void *arg)
{
	struct world *w = arg;

	uw_engine_drop(w->engine, module);
	assert_int_equal(uw_module_bytes(module), 0);
	w->n_drops++;
	return 0;
}

static void keep_small(struct world *w)
{
	const struct uw_modules_limit limit = {
		.bytes = UW_MODULES_BYTES, .files = SIZE_MAX, .drop_unwind = drop, .arg = w};

	w->most = max_u64(w->most, bytes_held(w));
	assert_int_equal(uw_modules_keep_small(w->set, &limit), 0);
	assert_true(uw_modules_bytes(w->set) <= UW_MODULES_BYTES);
}

static void world_make(struct world *w)
{
	w->seed = 3;
	assert_int_equal(uw_modules_new(&w->set), 0);
	for (size_t i = 0; i < MODULES; i++) {
		char path[32];

		(void)snprintf(path, sizeof(path), "/lib/%zu", i);
		assert_int_equal(uw_modules_get(w->set, path, NULL, &w->modules[i]), 0);
	}
	for (size_t i = 0; i < PROCESSES; i++) {
		struct process *p = &w->processes[i];
		struct uw_map maps[MAPS];

		for (size_t j = 0; j < MAPS; j++) {
			p->modules[j] = (uint16_t)random_small(w, MODULES);
			maps[j].start = (1 + j) << 32 | TEXT_AT;
			maps[j].end = (1 + j) << 32 | TEXT_END;
			maps[j].offset = TEXT_AT;
			maps[j].module = w->modules[p->modules[j]];
		}
		assert_int_equal(uw_space_new(maps, MAPS, (uint32_t)i + 1, NULL, &p->space), 0);
	}
	assert_int_equal(uw_engine_new(UW_ENGINE_NATIVE, &w->engine), 0);
}

static void world_free(struct world *w)
{
	uw_engine_free(w->engine);
	for (size_t i = 0; i < PROCESSES; i++)
		uw_space_unref(w->processes[i].space);
	for (size_t i = 0; i < MODULES; i++)
		uw_module_unref(w->modules[i]);
	uw_modules_free(w->set);
}

/* One stack of one process, and what it must come to. */
static void sample(struct world *w)
{
	uint64_t which = random_small(w, PROCESSES), regs[UW_X86_COUNT] = {[UW_X86_SP] = SP};
	uint64_t stack[DEPTH * 16 + 1] = {0}, expected[DEPTH], frames[DEPTH + 1], at = 0;
	const struct process *p = &w->processes[which];
	struct uw_snapshot snapshot = {
		.space = p->space,
		.regs = regs,
		.arch = UW_ARCH_X86_64,
		.stack = (const uint8_t *)stack,
		.stack_len = sizeof(stack),
		.thread = (uint32_t)which + 1,
	};
	struct uw_result res = {.outcome = UW_PENDING};
	uint64_t loads = w->n_loads;

	for (size_t i = 0; i < DEPTH; i++) {
		uint64_t map = random_small(w, MAPS), function = random_small(w, FUNCTIONS);

		expected[i] = (1 + map) << 32 | (TEXT_AT + function * 64 + 5);
		if (i)
			stack[at - 1] = expected[i];
		else
			regs[UW_X86_IP] = expected[i];
		expected[i] |= i ? UW_FRAME_CALLER : 0;
		at += frame_words(function);
		uw_modules_touch(w->set, w->modules[p->modules[map]]);
	}
	for (unsigned tries = 0; res.outcome == UW_PENDING && tries <= MAPS; tries++) {
		if (tries)
			load(w, res.pending);
		res = (struct uw_result){.frames = frames, .max_frames = DEPTH + 1};
		assert_int_equal(uw_unwind_batch(w->engine, &snapshot, 1, &res), 0);
	}
	assert_int_equal(res.outcome, UW_WHOLE); /* the last return address is 0 */
	assert_int_equal(res.n_frames, DEPTH);
	assert_memory_equal(frames, expected, sizeof(expected));
	if (w->n_loads != loads)
		keep_small(w);
}

static void test_hour(void **state)
{
	static struct world w;
	size_t early = 0, late = 0;

	(void)state;
	world_make(&w);
	for (size_t i = 0; i < SAMPLES; i++) {
		sample(&w);
		if (i == SAMPLES / 10)
			early = mallinfo2().uordblks + mallinfo2().hblkhd;
	}
	keep_small(&w);
	late = mallinfo2().uordblks + mallinfo2().hblkhd;
	print_message(
		"%llu loads, %llu drops, at most %zu KiB, allocated %zu KiB early, %zu late\n",
		(unsigned long long)w.n_loads, (unsigned long long)w.n_drops, w.most >> 10,
		early >> 10, late >> 10);
	assert_true(w.n_drops > 1000); /* what is loaded had to be dropped, over and over */
	assert_true(w.most <= BOUND);
	/* A module more or less (0 where a sanitizer has the allocator). */
	assert_true(late <= early + (2 << 20));
	world_free(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hour),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
