/* test-process-modules.c - what a path proves, and the processes that share a module. */
#include "tests/unit/proc/proc-fixture.h"

static void test_kinds(void **state)
{
	static const struct {
		const char *path;
		enum path_kind kind;
	} cases[] = {
		{"", PATH_JIT},
		{"//anon", PATH_JIT},
		{"[heap]", PATH_JIT},
		{"[stack]", PATH_JIT},
		{"[stack:123]", PATH_JIT},
		{"[anon:v8]", PATH_JIT},
		{"[anon_shmem:x]", PATH_JIT},
		{"/dev/zero", PATH_JIT},
		{"/dev/zero (deleted)", PATH_JIT},
		{"/memfd:doublemapper (deleted)", PATH_JIT},
		{"/anon_hugepage (deleted)", PATH_JIT},
		{"/SYSV00000000 (deleted)", PATH_JIT},
		{"/SYSV0052e2c1", PATH_JIT},
		{"/SYSVinit", PATH_FILE},
		{"/SYSV00000000x", PATH_FILE},
		{"/SYSV", PATH_FILE},
		{"[vdso]", PATH_VDSO},
		{"[vsyscall]", PATH_NONE},
		{"[uprobes]", PATH_NONE},
		{"[vvar]", PATH_NONE},
		{"relative", PATH_NONE},
		{"/usr/bin/x", PATH_FILE},
		{"//toolong", PATH_FILE},
		{"/home/u/jit-12.dump", PATH_JITDUMP},
		{"/jit-12.dump (deleted)", PATH_JITDUMP},
		{"/x/jit-.dump", PATH_FILE},
		{"/x/jit-1a.dump", PATH_FILE},
		{"/x/jit-1.dumps", PATH_FILE},
		{"/jit-1.dump/x", PATH_FILE},
		{"jit-1.dump", PATH_NONE},
	};
	(void)state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(process_path_kind(cases[i].path, false), cases[i].kind);
	assert_int_equal(process_path_kind("/memfd:lib.so (deleted)", true), PATH_FILE);
}

static struct uw_module *module_at(struct fixture *f, uint32_t pid, uint64_t page)
{
	const struct uw_map *map =
		uw_space_find(space_of(f, process_find(f->table, pid)), page << 12);

	assert_non_null(map);
	return map->module;
}

static void test_files(void **state)
{
	struct fixture f;
	(void)state;

	fixture_init(&f, 10);
	/* one module for all processes, by inode and by build id */
	map_page(&f, 1, 16, "/lib/a", inode_id(5));
	map_page(&f, 2, 32, "/lib/a", inode_id(5));
	map_page(&f, 2, 64, "/lib/a", build_id(5));
	map_page(&f, 3, 64, "/other/a", build_id(5));
	assert_ptr_equal(module_at(&f, 1, 16), module_at(&f, 2, 32));
	assert_ptr_equal(module_at(&f, 2, 64), module_at(&f, 3, 64));
	/* deleted: another file under the same path */
	map_page(&f, 4, 16, "/lib/a (deleted)", inode_id(6));
	assert_ptr_not_equal(module_at(&f, 4, 16), module_at(&f, 1, 16));
	assert_string_equal(uw_module_path(module_at(&f, 4, 16)), "/lib/a");
	map_page(&f, 5, 16, " (deleted)", inode_id(7)); /* no path at all */
	assert_null(module_at(&f, 5, 16));
	fixture_deinit(&f);
}

static void test_vdso(void **state)
{
	struct fixture f;
	const struct uw_map *map;
	(void)state;

	fixture_init(&f, 20);
	map_page(&f, 1, 16, "[vdso]", inode_id(0));
	map_page(&f, 2, 99, "[vdso]", inode_id(0));
	assert_int_equal(process_mmap(f.table, 3, 0x10000, 0x2000, 0, true, "[vdso]", NULL), 0);
	assert_ptr_equal(module_at(&f, 1, 16), module_at(&f, 2, 99));
	assert_ptr_not_equal(module_at(&f, 1, 16),
			     module_at(&f, 3, 16)); /* of another kind: 32-bit */
	assert_int_equal(uw_module_kind(module_at(&f, 1, 16)), UW_MODULE_MEMORY);
	map = uw_space_find(space_of(&f, process_find(f.table, 1)), 16 << 12);
	assert_int_equal(map->offset, 0);
	/* a process that shows ever new sizes does not make modules without end */
	for (uint64_t i = 3; i < 12; i++)
		assert_int_equal(
			process_mmap(f.table, 4, i << 20, i << 12, 0, true, "[vdso]", NULL), 0);
	assert_non_null(module_at(&f, 4, 4 << 8));
	assert_null(module_at(&f, 4, 11 << 8));
	map_page(&f, 5, 16, "[vsyscall]", inode_id(0));
	assert_null(module_at(&f, 5, 16));
	fixture_deinit(&f);
}

static void test_jit(void **state)
{
	struct fixture f;
	struct process *p;
	struct uw_module *jit;
	uint32_t key;
	(void)state;

	fixture_init(&f, 10);
	assert_int_equal(process_comm(f.table, 7, 7, "node", true, 0), 0);
	p = process_find(f.table, 7);
	assert_int_equal(process_mmap(f.table, 7, 0x10000, 0x1000, 0x10000, true, "//anon", NULL),
			 0);
	jit = module_at(&f, 7, 16);
	assert_int_equal(uw_module_kind(jit), UW_MODULE_JIT);
	assert_string_equal(uw_module_path(jit), "/tmp/perf-7.map");
	assert_int_equal(
		process_mmap(f.table, 7, 0x40000, 0x1000, 0, true, "/memfd:jit (deleted)", NULL),
		0);
	assert_ptr_equal(module_at(&f, 7, 64), jit);

	/* the child runs its parent's code, and makes code of its own */
	assert_int_equal(process_fork(f.table, 8, 7, 8, 7), 0);
	assert_ptr_equal(module_at(&f, 8, 16), jit);
	assert_int_equal(process_mmap(f.table, 8, 0x80000, 0x1000, 0, true, "", NULL), 0);
	assert_string_equal(uw_module_path(module_at(&f, 8, 128)), "/tmp/perf-8.map");
	assert_ptr_equal(module_at(&f, 8, 16), jit);

	/* in a container it calls itself 2 */
	key = space_of(&f, p)->key;
	assert_int_equal(process_set_ns_pid(f.table, p, 7), 0);
	assert_int_equal(space_of(&f, p)->key, key);
	process_maps_asked(p, 1);
	assert_int_equal(process_mmap(f.table, 7, 0x50000, 0x1000, 0, true, "//anon", NULL), 0);
	assert_int_equal(process_set_ns_pid(f.table, p, 2), 0);
	assert_string_equal(path_at(&f, p, 16), "/tmp/perf-2.map");
	assert_string_equal(path_at(&f, p, 64), "/tmp/perf-2.map");
	assert_string_equal(path_at(&f, p, 80), "/tmp/perf-2.map");
	assert_ptr_equal(module_at(&f, 7, 16), module_at(&f, 7, 80));
	assert_int_not_equal(space_of(&f, p)->key, key);
	(void)answer(&f, p, "10000-11000 r-xp 0 0:0 0 \n", 2); /* the log knows the new one too */
	assert_string_equal(path_at(&f, p, 16), "/tmp/perf-2.map");
	assert_string_equal(path_at(&f, p, 80), "/tmp/perf-2.map");
	assert_string_equal(path_at(&f, process_find(f.table, 8), 16), "/tmp/perf-7.map");
	fixture_deinit(&f);
}

/* The module of JIT code learns of the jitdump, whichever is seen first. */
static void test_jitdump(void **state)
{
	const struct uw_file_id id = {.major = 8, .minor = 1, .inode = 77};
	const struct uw_jitdump *dump;
	struct uw_module *jit;
	struct fixture f;

	(void)state;
	fixture_init(&f, 10);
	assert_int_equal(process_mmap(f.table, 7, 0x10000, 0x1000, 0, true, "//anon", NULL), 0);
	jit = module_at(&f, 7, 16);
	assert_null(uw_module_jitdump(jit));
	assert_int_equal(process_mmap(f.table, 7, 0x40000, 0x1000, 0, true,
				      "/a b/jit-7.dump (deleted)", &id),
			 0);
	assert_ptr_equal(module_at(&f, 7, 64), jit);
	dump = uw_module_jitdump(jit);
	assert_non_null(dump);
	assert_string_equal(dump->path, "/a b/jit-7.dump");
	assert_int_equal(dump->start, 0x40000);
	assert_int_equal(dump->end, 0x41000);
	assert_int_equal(dump->id.inode, 77);
	/* a second one is ignored */
	assert_int_equal(process_mmap(f.table, 7, 0x50000, 0x1000, 0, true, "/jit-7.dump", &id), 0);
	assert_ptr_equal(uw_module_jitdump(jit), dump);
	/* another name of the perf map leaves it */
	assert_int_equal(process_set_ns_pid(f.table, process_find(f.table, 7), 2), 0);
	jit = module_at(&f, 7, 16);
	assert_string_equal(uw_module_path(jit), "/tmp/perf-2.map");
	assert_string_equal(uw_module_jitdump(jit)->path, "/a b/jit-7.dump");
	/* first the jitdump */
	assert_int_equal(process_mmap(f.table, 9, 0x50000, 0x1000, 0, true, "/jit-9.dump", &id), 0);
	assert_int_equal(process_mmap(f.table, 9, 0x10000, 0x1000, 0, true, "", NULL), 0);
	assert_string_equal(uw_module_jitdump(module_at(&f, 9, 16))->path, "/jit-9.dump");
	fixture_deinit(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds), cmocka_unit_test(test_jitdump),
		cmocka_unit_test(test_files), cmocka_unit_test(test_vdso),
		cmocka_unit_test(test_jit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
