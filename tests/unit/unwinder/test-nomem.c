/* test-nomem.c - each allocation fails once, and each is the first of many: modules, engines,
 * names.
 *
 * What comes back is -ENOMEM or the whole truth, never a smaller one that looks whole; nothing
 * leaks; and the same object does its work when there is memory again.  Not with a sanitizer: its
 * allocator cannot be stood in for. */
#include "tests/unit/fail-malloc.h"

#if !FAIL_MALLOC
#include <stdio.h>
int main(void)
{
	puts("a sanitizer's allocator cannot be made to fail");
	return 77;
}
#else

#define ENGINE UW_ENGINE_NATIVE /* the fixture wants one */
#include "tests/unit/unwinder/engine-fixture.h"
#include "tests/unit/unwinder/unwinder-fixture.h"

#include "symbols/modules.h"
#include "unwinder/unwinder.h"
#include "symbols/kallsyms.h"

enum { MOST = 100000 };

/* What a scenario did: 0 all of it, -ENOMEM not; anything else it asserts itself. */
typedef int scenario_fn(void *arg);

/* Runs @scenario with its 1st, 2nd, 3rd ... allocation failing until it needs no more; returns how
 * many there are. */
static unsigned long sweep(scenario_fn *scenario, void *arg)
{
	unsigned long n = 0;
	long before;
	int r;

	/* What a library keeps for good it keeps from now on. */
	assert_int_equal(scenario(arg), 0);
	before = malloc_held;
	for (int on = 0; on < 2; on++) {
		for (n = 1; n < MOST; n++) {
			bool reached;

			malloc_fail(n, on);
			r = scenario(arg);
			reached = malloc_calls >= n;
			malloc_fail(0, false);
			if (malloc_held != before)
				print_error("allocation %lu%s: %ld blocks leak\n", n,
					    on ? " and on" : "", malloc_held - before);
			assert_int_equal(malloc_held, before);
			if (!reached)
				break;
			if (r != 0 && r != -ENOMEM)
				print_error("allocation %lu%s: %s\n", n, on ? " and on" : "",
					    strerror(-r));
			assert_true(r == 0 || r == -ENOMEM);
		}
		assert_int_equal(r, 0);
	}
	return n - 1;
}

/* Without faults for a moment, inside a scenario. */
static void assert_calm(void (*check)(void *arg), void *arg)
{
	unsigned long at = malloc_fail_at, calls = malloc_calls;
	bool on = malloc_fail_on;

	malloc_fail(0, false);
	check(arg);
	malloc_calls = calls;
	malloc_fail_on = on;
	malloc_fail_at = at;
}

/* ---- modules ---- */

struct loaded {
	const char *path;
	uint64_t vaddr; /* of a function */
	const char *name;
	size_t unwind_bytes, all_bytes; /* by a load that had memory; 0: not known yet */
	struct uw_module *module;
	struct uw_source source;
};

static void check_again(void *arg)
{
	struct loaded *l = arg;
	struct uw_symbol symbol;

	uw_module_drop_unwind(l->module);
	uw_module_drop_symbols(l->module);
	assert_true(uw_module_want_unwind(l->module));
	assert_true(uw_module_want_symbols(l->module));
	assert_int_equal(uw_module_load_unwind(l->module, &l->source), 0);
	assert_int_equal(uw_module_load_symbols(l->module, &l->source), 0);
	assert_int_equal(uw_module_bytes(l->module), l->all_bytes);
	if (!l->name)
		return;
	assert_true(uw_module_symbol(l->module, l->vaddr, &symbol));
	assert_string_equal(symbol.name, l->name);
}

static int load_both(struct loaded *l)
{
	int r;

	(void)uw_module_want_unwind(l->module);
	(void)uw_module_want_symbols(l->module);
	r = uw_module_load_unwind(l->module, &l->source);
	assert_int_equal(uw_module_unwind_state(l->module),
			 r < 0 ? UW_MODULE_UNREADABLE : UW_MODULE_READY);
	if (r < 0) {
		uw_module_set_unreadable(l->module); /* as the loader does */
		return r;
	}
	l->unwind_bytes = l->unwind_bytes ? l->unwind_bytes : uw_module_bytes(l->module);
	assert_int_equal(uw_module_bytes(l->module), l->unwind_bytes);
	r = uw_module_load_symbols(l->module, &l->source);
	assert_int_equal(uw_module_symbol_state(l->module),
			 r < 0 ? UW_MODULE_UNREADABLE : UW_MODULE_READY);
	if (r < 0)
		return r;
	l->all_bytes = l->all_bytes ? l->all_bytes : uw_module_bytes(l->module);
	assert_int_equal(uw_module_bytes(l->module), l->all_bytes);
	return 0;
}

static int module_scenario(void *arg)
{
	struct loaded *l = arg;
	int r = uw_module_new(UW_MODULE_FILE, l->path, NULL, &l->module);

	if (r < 0)
		return r;
	r = load_both(l);
	assert_calm(check_again, l);
	uw_module_unref(l->module);
	return r;
}

static void test_module(void **state)
{
	struct loaded l = {.path = "/proc/self/exe", .name = "fixture_outer"};

	(void)state;
	l.source.fd = open(l.path, O_RDONLY | O_CLOEXEC);
	assert_true(l.source.fd >= 0);
	l.vaddr = uw_map_vaddr(&fix.maps[fix.program], (uint64_t)(uintptr_t)fixture_outer);
	assert_true(sweep(module_scenario, &l) > 10);
	close(l.source.fd);
}

/* ---- lines ---- */

static void count_line(void *arg, const struct uw_line *line)
{
	(void)line;
	(*(int *)arg)++;
}

static int lines_scenario(void *arg)
{
	struct loaded *l = arg;
	int found = 0, r = uw_module_new(UW_MODULE_FILE, l->path, NULL, &l->module);

	if (r < 0)
		return r;
	r = uw_module_lines(l->module, &l->source, l->vaddr, count_line, &found);
	if (r > 0)
		assert_int_equal(r, found);
	uw_module_unref(l->module);
	assert_int_not_equal(r, 0);
	return r > 0 ? 0 : r;
}

static void sweep_lines(struct loaded *l)
{
	/* libdw asserts that its table of abbreviations gets memory (0.188) */
	malloc_fail_own = true;
	assert_true(sweep(lines_scenario, l) > 3);
	malloc_fail_own = false;
}

/* The first address of the function @name of a small file. */
static uint64_t address_of(struct loaded *l, const char *name)
{
	struct uw_symbol s = {.name = ""};
	uint64_t at = 0;

	assert_int_equal(uw_module_new(UW_MODULE_FILE, l->path, NULL, &l->module), 0);
	assert_int_equal(uw_module_load_symbols(l->module, &l->source), 0);
	while (!uw_module_symbol(l->module, at, &s) || strcmp(s.name, name) != 0)
		assert_true(++at < 1 << 20);
	l->module = uw_module_unref(l->module);
	return at;
}

static void sweep_file_lines(const char *dir, const char *name)
{
	char path[128];
	struct loaded l = {.path = path};

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	l.source.fd = open_or_die(path);
	l.vaddr = address_of(&l, "other");
	sweep_lines(&l);
	close(l.source.fd);
}

static void sweep_file(const char *dir, const char *name, unsigned long least)
{
	char path[128];
	struct loaded l = {.path = path};

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	l.source.fd = open_or_die(path);
	assert_true(sweep(module_scenario, &l) >= least);
	assert_true(l.all_bytes > l.unwind_bytes + 100);
	close(l.source.fd);
}

/* What a file does not hold itself: in a debug file, in .gnu_debugdata; and compressed. */
static void test_separate(void **state)
{
	char dir[64];

	(void)state;
	if (!have("gcc") || !have("objcopy") || !have("xz"))
		skip();
	dir_make(dir);
	assert_true(
		shell("cd %s && echo 'int other(int x) { return x * 2; } int main(int n, char **v) "
		      "{ return other(n) + !v; }' >a.c && "
		      "gcc -g -O1 -fno-inline -o full a.c && objcopy --only-keep-debug full "
		      "full.debug && "
		      "strip -o bare full && objcopy --add-gnu-debuglink=full.debug bare linked && "
		      "xz <full.debug >mini.xz && objcopy --add-section .gnu_debugdata=mini.xz "
		      "bare mini && "
		      "objcopy --compress-debug-sections=zlib-gabi full.debug packed.debug && "
		      "objcopy --add-gnu-debuglink=packed.debug bare packed",
		      dir));
	sweep_file(dir, "full", 10);
	sweep_file(dir, "linked", 15);
	sweep_file(dir, "packed", 15);
	sweep_file(dir, "mini", 15);
	sweep_file_lines(dir, "full");
	sweep_file_lines(dir, "linked");
	sweep_file_lines(dir, "packed");
	dir_remove(dir);
}

static void test_lines(void **state)
{
	struct loaded l = {.path = "/proc/self/exe"};

	(void)state;
	l.source.fd = open_or_die(l.path);
	l.vaddr = uw_map_vaddr(&fix.maps[fix.program], (uint64_t)(uintptr_t)fixture_outer);
	sweep_lines(&l);
	close(l.source.fd);
}

/* ---- engines ---- */

struct run {
	enum uw_engine_kind kind;
	struct uw_engine *engine;
	struct uw_space *space;
	uint64_t golden[FRAMES_MAX];
	uint32_t n_golden;
};

static int run_once(struct run *run)
{
	struct uw_snapshot snapshots[3];
	static uint64_t frames[3][FRAMES_MAX];
	struct uw_result results[3];
	int r;

	for (size_t i = 0; i < 3; i++) {
		snapshots[i] = snapshot_of(run->space);
		results[i] = (struct uw_result){.frames = frames[i], .max_frames = FRAMES_MAX};
	}
	r = uw_unwind_batch(run->engine, snapshots, 3, results);
	if (r < 0)
		return r;
	for (size_t i = 0; i < 3; i++) {
		assert_string_equal(uw_outcome_name(results[i].outcome), "whole");
		if (!run->n_golden) {
			run->n_golden = results[i].n_frames;
			memcpy(run->golden, frames[i], sizeof(run->golden));
		}
		assert_int_equal(results[i].n_frames, run->n_golden);
		assert_memory_equal(frames[i], run->golden, run->n_golden * sizeof(run->golden[0]));
	}
	return 0;
}

static void check_run(void *arg)
{
	assert_int_equal(run_once(arg), 0);
}

static int engine_scenario(void *arg)
{
	struct run *run = arg;
	int r = uw_engine_new(run->kind, &run->engine);

	if (r < 0)
		return r;
	r = run_once(run);
	if (r >= 0)
		r = run_once(run);
	assert_calm(check_run, run);
	run->engine = uw_engine_free(run->engine);
	return r;
}

static void sweep_engine(enum uw_engine_kind kind, unsigned long least)
{
	struct run run = {.kind = kind};

	run.space = space_new(1);
	assert_true(sweep(engine_scenario, &run) >= least);
	assert_int_equal(run.golden[1], fix.ra[0] | UW_FRAME_CALLER);
	uw_space_unref(run.space);
}

static void test_native(void **state)
{
	(void)state;
	sweep_engine(UW_ENGINE_NATIVE, 1);
}

static void test_libunwind(void **state)
{
	(void)state;
	sweep_engine(UW_ENGINE_LIBUNWIND, 5);
}

static void test_libdw(void **state)
{
	(void)state;
	/* libdwfl itself leaks, or follows a null pointer, when some of its allocations fail
	 * (elfutils 0.188) */
	malloc_fail_own = true;
	sweep_engine(UW_ENGINE_LIBDW, 5);
	malloc_fail_own = false;
}

/* ---- sets of modules, spaces, kernel names ---- */

static int set_scenario(void *arg)
{
	static const struct uw_file_id by_inode = {.major = 8, .minor = 1, .inode = 77};
	static const struct uw_file_id by_build_id = {.build_id = {.len = 20, .bytes = {1, 2, 3}}};
	struct uw_module *modules[4] = {NULL};
	struct uw_modules *set = NULL;
	int r = uw_modules_new(&set);

	(void)arg;
	if (r >= 0)
		r = uw_modules_get(set, "/bin/x", &by_inode, &modules[0]);
	if (r >= 0)
		r = uw_modules_get(set, "/bin/y", &by_build_id, &modules[1]);
	if (r >= 0)
		r = uw_modules_add(set, UW_MODULE_JIT, "[anon]", &modules[2]);
	if (r >= 0)
		r = uw_modules_get(set, "/bin/x", &by_inode, &modules[3]);
	if (r >= 0) {
		assert_ptr_equal(modules[0], modules[3]);
		assert_ptr_not_equal(modules[0], modules[1]);
	}
	for (size_t i = 0; i < 4; i++)
		uw_module_unref(modules[i]);
	uw_modules_free(set);
	return r;
}

static void test_set(void **state)
{
	(void)state;
	assert_true(sweep(set_scenario, NULL) > 6);
}

static int space_scenario(void *arg)
{
	struct uw_space *space;
	int r = uw_space_new(fix.maps, fix.n_maps, 1, NULL, &space);

	(void)arg;
	if (r >= 0)
		uw_space_unref(space);
	return r;
}

static void test_space(void **state)
{
	(void)state;
	assert_int_equal(sweep(space_scenario, NULL), 2); /* the run of mappings, and the space */
}

static int kallsyms_scenario(void *arg)
{
	const int *fd = arg;
	struct uw_kallsyms *ks;
	int r;

	assert_int_equal(lseek(*fd, 0, SEEK_SET), 0);
	r = uw_kallsyms_new(*fd, &ks);
	if (r < 0)
		return r;
	for (uint64_t i = 0; i < 100 && r >= 0; i++)
		r = uw_kallsyms_add(ks, 0xffffffffc0000000 + i * 64, 64, "bpf_prog");
	uw_kallsyms_free(ks);
	return r;
}

static void test_kallsyms(void **state)
{
	char line[64];
	int fd = memfd_create("kallsyms", MFD_CLOEXEC);

	(void)state;
	assert_true(fd >= 0);
	for (unsigned i = 0; i < 500; i++) {
		int n = snprintf(line, sizeof(line), "%016lx %c name_%u\n",
				 0xffffffff81000000ul + i * 256, i % 2 ? 't' : 'T', i);

		assert_int_equal(write(fd, line, (size_t)n), n);
	}
	assert_true(sweep(kallsyms_scenario, &fd) > 3);
	close(fd);
}

static int setup(void **state)
{
	memset(&fix, 0, sizeof(fix));
	fixture_maps();
	for (size_t i = 0; i < fix.n_maps; i++)
		fixture_load(fix.maps[i].module);
	fixture_outer();
	(void)state;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (size_t i = 0; i < fix.n_maps; i++)
		uw_module_unref(fix.maps[i].module);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_module),	  cmocka_unit_test(test_separate),
		cmocka_unit_test(test_lines),	  cmocka_unit_test(test_native),
		cmocka_unit_test(test_libunwind), cmocka_unit_test(test_libdw),
		cmocka_unit_test(test_set),	  cmocka_unit_test(test_space),
		cmocka_unit_test(test_kallsyms),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
#endif
