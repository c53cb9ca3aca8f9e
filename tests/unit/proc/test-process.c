/* test-process.c - processes and threads: lookups, limits, order of eviction, references. */
#include <stdlib.h>
#include <unistd.h>

#include "proc/procfs.h"
#include "proc/procmem.h"
#include "tests/unit/perf/count-malloc.h"
#include "tests/unit/proc/proc-fixture.h"

static void test_lookup(void **state)
{
	struct fixture f;
	struct process *p;
	struct process_thread *t;
	(void)state;

	fixture_init(&f, 10);
	assert_null(process_find(f.table, 7));
	assert_int_equal(process_table_count(f.table), 0);
	p = process_get(f.table, 7);
	assert_non_null(p);
	assert_int_equal(p->pid, 7);
	assert_int_equal(p->maps_state, PROCESS_MAPS_UNKNOWN);
	assert_int_equal(p->maps_read_at, 0);
	assert_ptr_equal(process_get(f.table, 7), p);
	assert_ptr_equal(process_find(f.table, 7), p);
	assert_int_equal(process_table_count(f.table), 1);

	t = process_thread_get(p, 7);
	assert_non_null(t);
	assert_string_equal(t->comm, "");
	assert_false(t->from_record);
	(void)memcpy(t->comm, "main", 5);
	/* a new thread has the main thread's name until a record */
	t = process_thread_get(p, 8);
	assert_string_equal(t->comm, "main");
	assert_false(t->from_record);
	assert_ptr_equal(process_thread_get(p, 8), t);
	fixture_deinit(&f);
}

static size_t allocations(void)
{
#if COUNT_MALLOC
	return malloc_count;
#else
	return 0;
#endif
}

/* What happens for each sample must not allocate. */
static void test_no_allocation(void **state)
{
	struct fixture f;
	struct process *p;
	struct uw_space *space;
	size_t before, after;
	(void)state;

	fixture_init(&f, 100);
	for (uint32_t pid = 1; pid <= 50; pid++) {
		p = process_get(f.table, pid);
		(void)process_thread_get(p, pid + 1000);
		map_page(&f, pid, 5, "/bin/x", inode_id(5));
		(void)space_of(&f, p);
	}
	before = allocations();
	for (unsigned i = 0; i < 1000; i++) {
		p = process_find(f.table, 1 + i % 50);
		assert_non_null(process_thread_get(p, p->pid + 1000));
		assert_int_equal(process_space(f.table, process_get(f.table, p->pid), &space), 0);
	}
	after = allocations();
	assert_int_equal(after, before);
	fixture_deinit(&f);
}

static void test_limit(void **state)
{
	struct fixture f;
	struct process *held;
	(void)state;

	fixture_init(&f, 4);
	for (uint32_t pid = 1; pid <= 4; pid++)
		assert_non_null(process_get(f.table, pid));
	held = process_ref(process_get(f.table, 3));
	assert_int_equal(process_exit(f.table, 3, 3), 0);
	assert_int_equal(process_exit(f.table, 2, 2), 0);
	assert_true(held->exited);
	assert_non_null(process_find(f.table, 1)); /* used last */

	/* the exited first, in order of use; then the living that was used longest ago */
	assert_non_null(process_get(f.table, 10));
	assert_null(process_find(f.table, 3));
	assert_non_null(process_get(f.table, 11));
	assert_null(process_find(f.table, 2));
	assert_non_null(process_get(f.table, 12));
	assert_null(process_find(f.table, 4));
	assert_non_null(process_find(f.table, 1));
	assert_int_equal(process_table_count(f.table), 4);

	/* given up, but alive by the reference */
	assert_int_equal(held->pid, 3);
	assert_non_null(process_thread_get(held, 3));
	(void)process_unref(held);

	/* a fork may push its own parent out */
	for (uint32_t pid = 20; pid < 23; pid++)
		assert_non_null(process_get(f.table, pid));
	assert_int_equal(process_fork(f.table, 30, 1, 30, 1), 0);
	assert_null(process_find(f.table, 1));
	assert_int_equal(process_find(f.table, 30)->ppid, 1);
	fixture_deinit(&f);

	fixture_init(&f, 0); /* at least one */
	assert_non_null(process_get(f.table, 1));
	assert_non_null(process_get(f.table, 2));
	assert_int_equal(process_table_count(f.table), 1);
	fixture_deinit(&f);
}

static void test_many_threads(void **state)
{
	struct fixture f;
	struct process *p;
	(void)state;

	fixture_init(&f, 4);
	p = process_get(f.table, 1);
	for (uint32_t tid = 2; tid <= PROCESS_MAX_THREADS; tid++)
		assert_non_null(process_thread_get(p, tid));
	assert_null(process_thread_get(p, PROCESS_MAX_THREADS + 1));
	assert_non_null(process_thread_get(p, PROCESS_MAX_THREADS));
	/* records about it are not an error */
	assert_int_equal(process_fork(f.table, 1, 1, PROCESS_MAX_THREADS + 1, 1), 0);
	assert_int_equal(process_comm(f.table, 1, PROCESS_MAX_THREADS + 1, "x", false, 0), 0);
	assert_int_equal(process_exit(f.table, 1, PROCESS_MAX_THREADS + 1), 0);
	fixture_deinit(&f);
}

static void test_cmdline_and_memory(void **state)
{
	struct fixture f;
	struct process *p;
	struct uw_memory *memory = NULL, *second = NULL;
	struct uw_space *before;
	uint32_t key;
	int probe = 4711, got = 0;
	(void)state;

	fixture_init(&f, 4);
	p = process_get(f.table, (uint32_t)getpid());
	map_page(&f, p->pid, 5, "/bin/x", inode_id(5));
	before = uw_space_ref(space_of(&f, p));
	key = before->key;
	assert_null(before->memory);
	assert_int_equal(procfs_memory_new("", p->pid, &memory), 0);
	assert_int_equal(procfs_memory_new("", p->pid, &second), 0);
	process_set_memory(p, memory);
	assert_ptr_equal(space_of(&f, p)->memory, memory);
	assert_int_equal(space_of(&f, p)->key, key); /* another struct, the same key */
	process_set_memory(p, second);		     /* the first stays */
	assert_ptr_equal(space_of(&f, p)->memory, memory);
	assert_int_equal(memory->read(memory, (uintptr_t)&probe, &got, sizeof(got)), sizeof(got));
	assert_int_equal(got, 4711);
	process_set_memory(p, NULL);
	assert_ptr_equal(p->memory, memory);

	/* a fork's child has none of its own yet, and the command line of its parent */
	process_set_cmdline(p, strdup("a"), 2);
	process_set_cmdline(p, memcpy(malloc(6), "ab\0cd", 6), 6);
	assert_int_equal(process_fork(f.table, 9, p->pid, 9, p->pid), 0);
	assert_null(space_of(&f, process_find(f.table, 9))->memory);
	assert_int_equal(space_of(&f, process_find(f.table, 9))->key, key);
	assert_int_equal(process_find(f.table, 9)->cmdline_len, 6);
	assert_memory_equal(process_find(f.table, 9)->cmdline, "ab\0cd", 6);
	(void)uw_space_unref(before);
	fixture_deinit(&f);
}

static void test_cgroup(void **state)
{
	struct fixture f;
	struct process *p;
	(void)state;

	fixture_init(&f, 4);
	p = process_get(f.table, 7);
	assert_null(p->cgroup);
	p->announced = 1;
	process_set_cgroup(p, NULL);
	assert_null(p->cgroup);
	assert_int_equal(p->announced, 1);
	process_set_cgroup(p, strdup("/box"));
	assert_int_equal(p->announced, 0); /* to be announced again */
	p->announced = 2;
	process_set_cgroup(p, strdup("/box"));
	process_set_cgroup(p, NULL);
	assert_string_equal(p->cgroup, "/box");
	assert_int_equal(p->announced, 2); /* nothing new */
	assert_int_equal(process_fork(f.table, 9, 7, 9, 7), 0);
	assert_string_equal(process_find(f.table, 9)->cgroup, "/box");
	process_set_cgroup(process_find(f.table, 9), strdup("/box/inner"));
	assert_string_equal(p->cgroup, "/box");
	assert_string_equal(process_find(f.table, 9)->cgroup, "/box/inner");
	fixture_deinit(&f);
}

/* A build of many short programs: those that have ended go, the oldest first; those that run stay. */
static void test_many_ended(void **state)
{
	enum { LIVING = 100, ENDED = 10000, KEPT = 4096 };
	struct fixture f;
	(void)state;

	fixture_init(&f, 65536);
	for (uint32_t pid = 1; pid <= LIVING; pid++)
		assert_non_null(process_get(f.table, pid));
	for (uint32_t pid = LIVING + 1; pid <= LIVING + ENDED; pid++) {
		assert_int_equal(process_fork(f.table, pid, 1, pid, 1), 0);
		assert_int_equal(process_exit(f.table, pid, pid), 0);
		assert_true(process_table_count(f.table) <= LIVING + KEPT);
	}
	assert_int_equal(process_table_count(f.table), LIVING + KEPT);
	for (uint32_t pid = 1; pid <= LIVING; pid++)
		assert_non_null(process_find(f.table, pid));
	assert_null(process_find(f.table, LIVING + ENDED - KEPT));
	assert_non_null(process_find(f.table, LIVING + ENDED - KEPT + 1));
	fixture_deinit(&f);
}

/* What has ended goes but for the last ones, and for those with samples in progress. */
static void test_release_ended(void **state)
{
	struct fixture f;
	struct process *held;

	(void)state;
	fixture_init(&f, 100);
	assert_non_null(process_get(f.table, 1));
	for (uint32_t pid = 2; pid <= 20; pid++) {
		assert_int_equal(process_fork(f.table, pid, 1, pid, 1), 0);
		assert_int_equal(process_exit(f.table, pid, pid), 0);
	}
	held = process_ref(process_find(f.table, 2));
	process_table_release_ended(f.table, SIZE_MAX);
	assert_int_equal(process_table_count(f.table), 20);
	process_table_release_ended(f.table, 5);
	assert_int_equal(process_table_count(f.table), 1 + 5 + 1);
	assert_ptr_equal(process_find(f.table, 2), held);
	assert_null(process_find(f.table, 15));
	assert_non_null(process_find(f.table, 16));
	process_table_release_ended(f.table, 0);
	assert_int_equal(process_table_count(f.table), 1 + 1);
	assert_non_null(process_find(f.table, 1));
	(void)process_unref(held);
	process_table_release_ended(f.table, 0);
	assert_int_equal(process_table_count(f.table), 1);
	fixture_deinit(&f);
}

/* Mappings are held until the last list of them goes; of the incarnations the least recently used goes, of what has
 * ended first. */
static void test_forget(void **state)
{
	const struct uw_file_id id = {.inode = 5};
	size_t before = process_maps_held(), one;
	struct fixture f;

	(void)state;
	fixture_init(&f, 10);
	for (uint32_t pid = 1; pid <= 3; pid++)
		assert_int_equal(process_mmap(f.table, pid, 0x1000, 0x1000, 0, true, "/a", &id), 0);
	one = (process_maps_held() - before) / 3;
	assert_true(one > 0);
	assert_int_equal(process_fork(f.table, 4, 1, 4, 1), 0);
	assert_int_equal(process_maps_held(), before + 3 * one); /* shared */
	assert_int_equal(process_mmap(f.table, 4, 0x8000, 0x1000, 0, true, "/b", &id), 0);
	assert_int_equal(process_maps_held(), before + 4 * one);
	assert_int_equal(process_exit(f.table, 3, 3), 0);

	assert_true(process_table_forget_one(f.table, NULL));
	assert_null(process_find(f.table, 3));
	assert_int_equal(process_maps_held(), before + 3 * one);
	(void)process_get(f.table, 2);
	(void)process_get(f.table, 1);
	(void)process_get(f.table, 4);
	assert_true(process_table_forget_one(f.table, process_find(f.table, 2)));
	assert_null(process_find(f.table, 1));
	assert_true(process_table_forget_one(f.table, process_find(f.table, 2)));
	assert_null(process_find(f.table, 4));
	assert_false(process_table_forget_one(f.table, process_find(f.table, 2)));
	assert_non_null(process_find(f.table, 2));
	fixture_deinit(&f);
	assert_int_equal(process_maps_held(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lookup),	      cmocka_unit_test(test_no_allocation),
		cmocka_unit_test(test_limit),	      cmocka_unit_test(test_many_ended),
		cmocka_unit_test(test_many_threads),  cmocka_unit_test(test_cmdline_and_memory),
		cmocka_unit_test(test_cgroup),	      cmocka_unit_test(test_forget),
		cmocka_unit_test(test_release_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
