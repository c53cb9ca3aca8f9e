/* engine-fixture.h - the tests that every engine over a foreign library must pass; the file that
 * includes it names the engine (ENGINE) and has main().
 *
 * The process unwinds itself: fixture_outer > fixture_middle > fixture_inner, which copies
 * registers and stack. The true return addresses are the compiler's own (__builtin_return_address),
 * not an unwinder's. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "unwinder/engine.h"
#include "symbols/module.h"

enum { STACK_ROOM = 65536, MAPS_MAX = 64, FRAMES_MAX = 200 };

static struct {
	uint64_t regs[UW_X86_COUNT];
	uint8_t stack[STACK_ROOM] __attribute__((aligned(16)));
	uint32_t stack_len;
	uint64_t ra[3];	      /* of inner, middle, outer */
	uint64_t ra_slot, sp; /* where inner's return address stands */
	struct uw_map maps[MAPS_MAX];
	size_t n_maps, program, libc; /* indices */
	uint64_t stack_end;
	uint64_t frames[FRAMES_MAX];
} fix;

#define FIXTURE __attribute__((noinline, noclone, no_sanitize("address")))

static FIXTURE void fixture_copy(const uint8_t *from, size_t len)
{
	const volatile uint8_t *bytes = from; /* not memcpy(): sanitizers look at it */

	for (size_t i = 0; i < len; i++)
		fix.stack[i] = bytes[i];
}

static FIXTURE void fixture_inner(void)
{
	static const uint8_t order[UW_X86_COUNT] = {
		REG_RAX, REG_RBX, REG_RCX, REG_RDX,    REG_RSI,	   REG_RDI, REG_RBP,
		REG_RSP, REG_RIP, REG_EFL, REG_CSGSFS, REG_CSGSFS, REG_R8,  REG_R9,
		REG_R10, REG_R11, REG_R12, REG_R13,    REG_R14,	   REG_R15,
	};
	ucontext_t context;

	getcontext(&context);
	for (size_t i = 0; i < UW_X86_COUNT; i++)
		fix.regs[i] = (uint64_t)context.uc_mcontext.gregs[order[i]];
	fix.sp = fix.regs[UW_X86_SP];
	fix.stack_len = (uint32_t)min_u64(STACK_ROOM, fix.stack_end - fix.sp);
	fix.ra[0] = (uint64_t)(uintptr_t)__builtin_return_address(0);
	fix.ra_slot =
		(uint64_t)(uintptr_t)__builtin_frame_address(0) + 8; /* built with frame pointers */
	fixture_copy((const uint8_t *)(uintptr_t)fix.sp, fix.stack_len);
}

static FIXTURE void fixture_middle(void)
{
	fix.ra[1] = (uint64_t)(uintptr_t)__builtin_return_address(0);
	fixture_inner();
	__asm__ volatile("" ::: "memory");
}

static FIXTURE void fixture_outer(void)
{
	fix.ra[2] = (uint64_t)(uintptr_t)__builtin_return_address(0);
	fixture_middle();
	__asm__ volatile("" ::: "memory");
}

static void fixture_load(struct uw_module *module)
{
	struct uw_source source = {.fd = open(uw_module_path(module), O_RDONLY | O_CLOEXEC)};

	assert_true(source.fd >= 0);
	(void)uw_module_want_unwind(module);
	assert_int_equal(uw_module_load_unwind(module, &source), 0);
	fd_close(source.fd);
}

/* The executable file mappings of this process, each with a module of its own that is not loaded
 * yet. */
static void fixture_maps(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[4400], perms[8], path[4200];
	unsigned long long start, end, offset;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		struct uw_map *map = &fix.maps[fix.n_maps];

		*path = 0;
		assert_true(sscanf(line, "%llx-%llx %7s %llx %*s %*s %4199s", &start, &end, perms,
				   &offset, path) >= 4);
		if (!strcmp(path, "[stack]"))
			fix.stack_end = end;
		if (!strchr(perms, 'x') || *path != '/')
			continue;
		assert_true(fix.n_maps < MAPS_MAX);
		*map = (struct uw_map){.start = start, .end = end, .offset = offset};
		assert_int_equal(uw_module_new(UW_MODULE_FILE, path, NULL, &map->module), 0);
		if ((uint64_t)(uintptr_t)fixture_outer - start < end - start)
			fix.program = fix.n_maps;
		if (strstr(path, "/libc."))
			fix.libc = fix.n_maps;
		fix.n_maps++;
	}
	fclose(file);
}

static int fixture_setup(void **state)
{
	struct uw_engine *engine;

	memset(&fix, 0, sizeof(fix));
	fixture_maps();
	for (size_t i = 0; i < fix.n_maps; i++)
		fixture_load(fix.maps[i].module);
	fixture_outer();
	assert_int_equal(uw_engine_new(ENGINE, &engine), 0);
	*state = engine;
	return 0;
}

static int fixture_teardown(void **state)
{
	uw_engine_free(*state);
	for (size_t i = 0; i < fix.n_maps; i++)
		uw_module_unref(fix.maps[i].module);
	return 0;
}

static struct uw_space *space_new(uint32_t key)
{
	struct uw_space *space;

	assert_int_equal(uw_space_new(fix.maps, fix.n_maps, key, NULL, &space), 0);
	return space;
}

static struct uw_snapshot snapshot_of(struct uw_space *space)
{
	return (struct uw_snapshot){.space = space,
				    .regs = fix.regs,
				    .arch = UW_ARCH_X86_64,
				    .stack_len = fix.stack_len,
				    .stack = fix.stack};
}

static struct uw_result unwind(struct uw_engine *engine, const struct uw_snapshot *snapshot)
{
	struct uw_result res = {.frames = fix.frames, .max_frames = FRAMES_MAX};

	assert_int_equal(uw_unwind_batch(engine, snapshot, 1, &res), 0);
	return res;
}

static void assert_whole(struct uw_engine *engine, struct uw_space *space)
{
	struct uw_snapshot snapshot = snapshot_of(space);
	struct uw_result res = unwind(engine, &snapshot);

	assert_string_equal(uw_outcome_name(res.outcome), "whole");
	assert_true(res.n_frames > 5);
	assert_int_equal(fix.frames[0], fix.regs[UW_X86_IP]); /* no flag: the pc itself */
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(fix.frames[i + 1], fix.ra[i] | UW_FRAME_CALLER);
}

static void test_whole(void **state)
{
	struct uw_space *space = space_new(1);

	assert_whole(*state, space);
	assert_whole(*state, space);
	uw_space_unref(space);
}

static void test_batch(void **state)
{
	struct uw_space *space = space_new(1);
	static uint64_t frames[20][FRAMES_MAX];
	struct uw_snapshot snapshots[20];
	struct uw_result results[20];

	for (size_t i = 0; i < 20; i++) {
		snapshots[i] = snapshot_of(space);
		results[i] = (struct uw_result){.frames = frames[i],
						.max_frames = i < 10 ? 3 : FRAMES_MAX};
	}
	assert_int_equal(uw_unwind_batch(*state, snapshots, 20, results), 0);
	for (size_t i = 0; i < 20; i++) {
		assert_int_equal(results[i].outcome, i < 10 ? UW_CUT : UW_WHOLE);
		assert_int_equal(frames[i][2], fix.ra[1] | UW_FRAME_CALLER);
	}
	uw_space_unref(space);
}

static void test_too_deep(void **state)
{
	struct uw_space *space = space_new(1);
	struct uw_snapshot snapshot = snapshot_of(space);
	struct uw_result res = {.frames = fix.frames, .max_frames = 3};

	assert_int_equal(uw_unwind_batch(*state, &snapshot, 1, &res), 0);
	assert_int_equal(res.outcome, UW_CUT);
	assert_int_equal(res.reason, UW_TOO_DEEP);
	assert_int_equal(res.n_frames, 3);
	assert_int_equal(fix.frames[2], fix.ra[1] | UW_FRAME_CALLER);
	uw_space_unref(space);
}

/* The copy ends right behind inner's return address, or one byte earlier. */
static void test_cut(void **state)
{
	struct uw_space *space = space_new(1);
	struct uw_snapshot snapshot = snapshot_of(space);
	struct uw_result res;

	snapshot.stack_full = true;
	snapshot.stack_len = (uint32_t)(fix.ra_slot + 8 - fix.sp);
	res = unwind(*state, &snapshot);
	assert_int_equal(res.outcome, UW_CUT);
	assert_int_equal(res.reason, UW_OK);
	assert_int_equal(res.n_frames, 2);
	assert_int_equal(fix.frames[1], fix.ra[0] | UW_FRAME_CALLER);
	assert_true(res.stopped_at >= fix.ra_slot + 8);

	snapshot.stack_len--;
	res = unwind(*state, &snapshot);
	assert_int_equal(res.outcome, UW_CUT);
	assert_int_equal(res.n_frames, 1);
	assert_int_equal(res.stopped_at, fix.ra_slot);

	snapshot.stack_full = false;
	res = unwind(*state, &snapshot);
	assert_int_equal(res.outcome, UW_FAILED);
	assert_int_equal(res.reason, UW_MEMORY);
	assert_int_equal(res.n_frames, 1);
	assert_int_equal(res.stopped_at, fix.ra_slot);

	snapshot.stack_len = 0;
	res = unwind(*state, &snapshot);
	assert_int_equal(res.outcome, UW_CUT);
	assert_int_equal(res.reason, UW_OK);
	assert_int_equal(res.n_frames, 1);
	uw_space_unref(space);
}

/* A module that is not loaded stops the walk at its frame; once loaded, the same engine goes on. */
static void test_pending(void **state)
{
	struct uw_module *late[2],
		*kept[2] = {fix.maps[fix.program].module, fix.maps[fix.libc].module};
	const size_t index[2] = {fix.program, fix.libc};
	struct uw_snapshot snapshot;
	struct uw_space *space;
	struct uw_result res;

	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(
			uw_module_new(UW_MODULE_FILE, uw_module_path(kept[i]), NULL, &late[i]), 0);
		fix.maps[index[i]].module = late[i];
	}
	space = space_new(7);
	snapshot = snapshot_of(space);
	res = unwind(*state, &snapshot);
	assert_int_equal(res.outcome, UW_PENDING);
	assert_ptr_equal(res.pending, late[0]);

	(void)uw_module_want_unwind(late[0]); /* WANTED is not READY */
	res = unwind(*state, &snapshot);
	assert_int_equal(res.outcome, UW_PENDING);

	fixture_load(late[0]);
	res = unwind(*state, &snapshot);
	assert_int_equal(res.outcome, UW_PENDING);
	assert_ptr_equal(res.pending, late[1]);

	fixture_load(late[1]);
	assert_whole(*state, space);

	uw_engine_forget(*state, late[0]);
	uw_module_drop_unwind(late[0]);
	res = unwind(*state, &snapshot);
	assert_int_equal(res.outcome, UW_PENDING);
	assert_ptr_equal(res.pending, late[0]);
	fixture_load(late[0]);
	assert_whole(*state, space);

	uw_space_unref(space);
	for (size_t i = 0; i < 2; i++) {
		uw_engine_forget(*state, late[i]);
		uw_module_unref(late[i]);
		fix.maps[index[i]].module = kept[i];
	}
}

static void test_unreadable(void **state)
{
	struct uw_module *module, *kept = fix.maps[fix.program].module;
	struct uw_snapshot snapshot;
	struct uw_space *space;
	struct uw_result res;

	assert_int_equal(uw_module_new(UW_MODULE_FILE, "/nonexistent", NULL, &module), 0);
	uw_module_set_unreadable(module);
	fix.maps[fix.program].module = module;
	space = space_new(1);
	snapshot = snapshot_of(space);
	res = unwind(*state, &snapshot);
	assert_int_equal(res.outcome, UW_FAILED);
	assert_int_equal(res.reason, UW_UNREADABLE);
	assert_int_equal(res.n_frames, 1);
	uw_space_unref(space);
	fix.maps[fix.program].module = kept;
	uw_module_unref(module);
}

/* A pc outside every mapping: the innermost is a frame, a return address is none. */
static void test_no_module(void **state)
{
	struct uw_space *space;
	struct uw_snapshot snapshot;
	struct uw_result res;
	uint64_t pc = fix.regs[UW_X86_IP];

	space = space_new(1);
	snapshot = snapshot_of(space);
	fix.regs[UW_X86_IP] = 0x10;
	res = unwind(*state, &snapshot);
	assert_int_equal(res.outcome, UW_FAILED);
	assert_int_equal(res.reason, UW_NO_MODULE);
	assert_int_equal(res.n_frames, 1);
	assert_int_equal(fix.frames[0], 0x10);
	fix.regs[UW_X86_IP] = pc;

	memcpy(fix.stack + (fix.ra_slot - fix.sp), &(uint64_t){0x123}, 8);
	res = unwind(*state, &snapshot);
	assert_int_equal(res.outcome, UW_FAILED);
	assert_int_equal(res.reason, UW_NO_MODULE);
	assert_int_equal(res.n_frames, 1);
	assert_int_equal(fix.frames[0], pc);
	memcpy(fix.stack + (fix.ra_slot - fix.sp), &fix.ra[0], 8);
	uw_space_unref(space);
}

/* A return address of 0 is a root. */
static void test_zero_is_root(void **state)
{
	struct uw_space *space = space_new(1);
	struct uw_snapshot snapshot = snapshot_of(space);
	struct uw_result res;

	memset(fix.stack + (fix.ra_slot - fix.sp), 0, 8);
	res = unwind(*state, &snapshot);
	assert_int_equal(res.outcome, UW_WHOLE);
	assert_int_equal(res.n_frames, 1);
	memcpy(fix.stack + (fix.ra_slot - fix.sp), &fix.ra[0], 8);
	uw_space_unref(space);
}

static void test_no_state(void **state)
{
	struct uw_space *space = space_new(1);
	struct uw_snapshot snapshot = snapshot_of(space);
	struct uw_result res;

	snapshot.arch = UW_ARCH_NONE;
	res = unwind(*state, &snapshot);
	assert_int_equal(res.reason, UW_ABI);
	snapshot.regs = NULL;
	res = unwind(*state, &snapshot);
	assert_int_equal(res.outcome, UW_FAILED);
	assert_int_equal(res.reason, UW_NO_USER_STATE);
	assert_int_equal(res.n_frames, 0);
	uw_space_unref(space);
}

/* A mapping without a module (JIT code): the frame pointer is followed, and the frame is marked so. */
static void test_guessed(void **state)
{
	const size_t last = fix.n_maps;
	uint64_t pc = fix.regs[UW_X86_IP], bp = fix.regs[UW_X86_BP];
	struct uw_snapshot snapshot;
	struct uw_space *space;
	struct uw_result res;

	/* Above all others: the kernel half is never mapped, but nothing here knows that. */
	fix.maps[last] = (struct uw_map){.start = 0x7ffffffe0000, .end = 0x7ffffffe1000};
	fix.n_maps++;
	space = space_new(1);
	snapshot = snapshot_of(space);
	fix.regs[UW_X86_IP] = 0x7ffffffe0100;
	fix.regs[UW_X86_BP] = fix.ra_slot - 8;
	res = unwind(*state, &snapshot);
	assert_int_equal(fix.frames[0], 0x7ffffffe0100);
	assert_int_equal(fix.frames[1], fix.ra[0] | UW_FRAME_CALLER | UW_FRAME_GUESSED);
	assert_int_equal(fix.frames[2], fix.ra[1] | UW_FRAME_CALLER);
	assert_int_equal(res.outcome, UW_WHOLE);
	fix.regs[UW_X86_IP] = pc;
	fix.regs[UW_X86_BP] = bp;
	fix.n_maps = last;
	uw_space_unref(space);
}

static void test_forget(void **state)
{
	struct uw_space *space = space_new(3);

	assert_whole(*state, space);
	uw_engine_forget(*state, fix.maps[fix.program].module);
	assert_whole(*state, space);
	uw_engine_forget(*state, fix.maps[fix.program].module);
	uw_engine_forget(*state, fix.maps[fix.libc].module);
	assert_whole(*state, space);
	uw_engine_forget(*state, NULL);
	assert_whole(*state, space);
	uw_space_unref(space);
}

/* More processes than are kept, in turn, and spaces that promise nothing (key 0). */
static void test_many_spaces(void **state)
{
	for (int turn = 0; turn < 2; turn++) {
		for (uint32_t key = 0; key < 80; key++) {
			struct uw_space *space = space_new(key);

			assert_whole(*state, space);
			uw_space_unref(space);
		}
	}
	for (int i = 0; i < 5; i++) {
		struct uw_space *space = space_new(0);

		assert_whole(*state, space);
		uw_space_unref(space);
	}
}

static void on_signal(int number)
{
	fixture_outer();
	(void)number;
	__asm__ volatile("" ::: "memory"); /* so that the call is not a jump */
}

/* handler <- trampoline (its address counts itself) <- what was interrupted (flag SIGNAL) */
static void test_signal(void **state)
{
	struct uw_space *space = space_new(1);
	struct uw_snapshot snapshot;
	struct uw_result res;
	size_t signals = 0;

	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
	signal(SIGUSR1, SIG_DFL);
	snapshot = snapshot_of(space);
	(void)unwind(*state, &snapshot); /* the same must come out of warm caches */
	res = unwind(*state, &snapshot);
	assert_int_equal(res.outcome, UW_WHOLE);
	assert_int_equal(fix.frames[3], fix.ra[2] | UW_FRAME_CALLER);
	for (uint32_t i = 1; i < res.n_frames; i++) {
		if (!(fix.frames[i] & UW_FRAME_SIGNAL))
			continue;
		signals++;
		assert_int_equal(fix.frames[i] & UW_FRAME_CALLER, 0);
		assert_int_equal(fix.frames[i - 1] & (UW_FRAME_CALLER | UW_FRAME_SIGNAL), 0);
		assert_true(fix.frames[i - 2] & UW_FRAME_CALLER);
	}
	assert_int_equal(signals, 1);
	uw_space_unref(space);
}

#define FIXTURE_TEST(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)
static const struct CMUnitTest fixture_tests[] = {
	FIXTURE_TEST(test_whole),     FIXTURE_TEST(test_batch),
	FIXTURE_TEST(test_too_deep),  FIXTURE_TEST(test_cut),
	FIXTURE_TEST(test_pending),   FIXTURE_TEST(test_unreadable),
	FIXTURE_TEST(test_no_module), FIXTURE_TEST(test_zero_is_root),
	FIXTURE_TEST(test_no_state),  FIXTURE_TEST(test_guessed),
	FIXTURE_TEST(test_forget),    FIXTURE_TEST(test_many_spaces),
	FIXTURE_TEST(test_signal),
};
