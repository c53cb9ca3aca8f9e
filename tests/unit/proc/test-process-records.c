/* test-process-records.c - COMM, FORK, EXIT, MMAP in the orders in which they come. */
#include <stdlib.h>

#include "tests/unit/proc/proc-fixture.h"

static void test_comm(void **state)
{
	struct fixture f;
	struct process *p;
	struct process_thread *t;
	(void)state;

	fixture_init(&f, 10);
	assert_int_equal(process_comm(f.table, 5, 5, "shell", false, 0), 0);
	p = process_find(f.table, 5);
	assert_non_null(p); /* made by the record */
	t = process_thread_get(p, 5);
	assert_string_equal(t->comm, "shell");
	assert_true(t->from_record);
	assert_string_equal(process_thread_comm_at(t, 0),
			    "shell"); /* it was called something before: not known */
	p->announced = true;
	assert_int_equal(process_comm(f.table, 5, 5, "shell", false, 200), 0);
	assert_true(p->announced); /* the same name */
	assert_int_equal(t->renamed_at, 0);
	assert_int_equal(process_comm(f.table, 5, 6, "worker", false, 300), 0);
	assert_string_equal(process_thread_get(p, 6)->comm, "worker");
	assert_true(p->announced);
	assert_int_equal(process_comm(f.table, 5, 5, "0123456789abcdefgh", false, 400), 0);
	assert_string_equal(t->comm, "0123456789abcde"); /* 15 and a NUL */
	assert_false(p->announced);
	assert_string_equal(process_thread_comm_at(t, 399), "shell");
	assert_string_equal(process_thread_comm_at(t, 400), "0123456789abcde");
	assert_int_equal(process_comm(f.table, 5, 5, "b", false, 500), 0);
	assert_memory_equal(t->comm, "b\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
	assert_string_equal(process_thread_comm_at(t, 499), "0123456789abcde");
	assert_false(p->begun);
	fixture_deinit(&f);
}

static void test_exec(void **state)
{
	struct fixture f;
	struct process *before, *after;
	struct uw_space *space;
	uint32_t key;
	uint64_t serial;
	(void)state;

	fixture_init(&f, 10);
	before = process_ref(process_get(f.table, 5));
	before->ppid = 3;
	before->uid = 1000;
	assert_int_equal(process_set_ns_pid(f.table, before, 2), 0);
	serial = before->serial;
	process_set_cmdline(before, strdup("old"), 4);
	process_set_cgroup(before, strdup("/box"));
	assert_non_null(process_thread_get(before, 6));
	map_page(&f, 5, 16, "/bin/old", inode_id(1));
	space = uw_space_ref(space_of(&f, before));
	key = space->key;

	/* called by thread 6: the kernel gives it the main thread's id */
	assert_int_equal(process_comm(f.table, 5, 5, "new", true, 0), 0);
	after = process_find(f.table, 5);
	assert_ptr_not_equal(after, before);
	assert_true(before->exited && before->replaced);
	assert_true(after->serial > serial);
	assert_int_equal(after->ppid, 3);
	assert_int_equal(after->uid, 1000);
	assert_int_equal(after->ns_pid, 2);
	assert_null(after->cmdline);
	/* it moves no process: until it is read, it is where it was; the old exec generation keeps its own */
	assert_string_equal(after->cgroup, "/box");
	process_set_cgroup(after, strdup("/other"));
	assert_string_equal(before->cgroup, "/box");
	assert_true(after->begun);
	assert_false(after->announced);
	assert_int_equal(after->threads.n_used, 1);
	assert_string_equal(process_thread_get(after, 5)->comm, "new");
	assert_int_equal(after->maps->n, 0);
	assert_int_equal(process_table_count(f.table), 1);
	/* all later mappings have records: no sample has to wait for the text */
	assert_int_not_equal(after->maps_read_at, 0);
	map_page(&f, 5, 16, "/bin/new", inode_id(2));
	assert_string_equal(path_at(&f, after, 16), "/bin/new");
	assert_int_not_equal(space_of(&f, after)->key, key);

	/* samples from before still have what they were taken with */
	assert_string_equal(path_at(&f, before, 16), "/bin/old");
	assert_string_equal(uw_module_path(uw_space_find(space, 16 << 12)->module), "/bin/old");
	assert_false(process_wants_refresh(before, UINT64_MAX / 2));
	(void)uw_space_unref(space);
	(void)process_unref(before);

	/* of a process that was not known */
	assert_int_equal(process_comm(f.table, 8, 8, "x", true, 0), 0);
	assert_int_not_equal(process_find(f.table, 8)->maps_read_at, 0);
	fixture_deinit(&f);
}

static void test_fork_process(void **state)
{
	struct fixture f;
	struct process *parent, *child;
	uint32_t key;
	(void)state;

	fixture_init(&f, 10);
	assert_int_equal(process_comm(f.table, 5, 5, "make", true, 0), 0);
	assert_int_equal(process_comm(f.table, 5, 6, "helper", false, 0), 0);
	map_page(&f, 5, 16, "/bin/make", inode_id(1));
	parent = process_find(f.table, 5);
	parent->uid = 77;
	key = space_of(&f, parent)->key;

	assert_int_equal(process_fork(f.table, 9, 5, 9, 6), 0);
	child = process_find(f.table, 9);
	assert_int_equal(child->ppid, 5);
	assert_int_equal(child->uid, 77);
	assert_string_equal(process_thread_get(child, 9)->comm,
			    "helper"); /* the thread that called fork */
	assert_true(process_thread_get(child, 9)->from_record);
	assert_ptr_equal(child->maps, parent->maps);
	assert_int_equal(space_of(&f, child)->key, key);
	assert_string_equal(path_at(&f, child, 16), "/bin/make");
	assert_int_not_equal(child->maps_read_at, 0);

	/* both load something into the same free area */
	map_page(&f, 9, 32, "/lib/a", inode_id(2));
	map_page(&f, 5, 32, "/lib/b", inode_id(3));
	assert_string_equal(path_at(&f, child, 32), "/lib/a");
	assert_string_equal(path_at(&f, parent, 32), "/lib/b");
	assert_int_not_equal(space_of(&f, child)->key, space_of(&f, parent)->key);
	assert_int_equal(space_of(&f, parent)->key, key);

	/* of an unknown parent */
	assert_int_equal(process_fork(f.table, 12, 11, 12, 11), 0);
	assert_int_equal(process_find(f.table, 12)->ppid, 11);
	assert_int_equal(process_find(f.table, 12)->maps_read_at, 0);
	assert_null(process_find(f.table, 11));
	fixture_deinit(&f);
}

static void test_fork_thread(void **state)
{
	struct fixture f;
	struct process *p;
	struct process_thread *t;
	(void)state;

	fixture_init(&f, 10);
	assert_int_equal(process_comm(f.table, 5, 5, "main", true, 0), 0);
	p = process_find(f.table, 5);
	assert_int_equal(process_fork(f.table, 5, 5, 6, 5), 0);
	assert_ptr_equal(process_find(f.table, 5), p);
	t = process_thread_get(p, 6);
	assert_string_equal(t->comm, "main");
	assert_true(t->from_record);
	assert_int_equal(process_comm(f.table, 5, 6, "w6", false, 0), 0);
	assert_int_equal(process_fork(f.table, 5, 5, 7, 6), 0);
	assert_string_equal(process_thread_get(p, 7)->comm, "w6");

	/* the tid again: another thread, with its creator's name */
	t->announced = true;
	assert_int_equal(process_exit(f.table, 5, 6), 0);
	assert_string_equal(process_thread_get(p, 6)->comm, "w6"); /* for late samples */
	assert_true(process_thread_get(p, 6)->announced);
	assert_int_equal(process_fork(f.table, 5, 5, 6, 5), 0);
	assert_string_equal(process_thread_get(p, 6)->comm, "main");
	assert_false(process_thread_get(p, 6)->announced);
	assert_false(p->exited);
	fixture_deinit(&f);
}

static void test_exit(void **state)
{
	struct fixture f;
	struct process *p, *again;
	(void)state;

	fixture_init(&f, 10);
	assert_int_equal(process_comm(f.table, 5, 5, "main", true, 0), 0);
	map_page(&f, 5, 16, "/bin/main", inode_id(1));
	p = process_ref(process_find(f.table, 5));
	assert_int_equal(process_fork(f.table, 5, 5, 6, 5), 0);
	assert_int_equal(process_exit(f.table, 5, 5), 0); /* the main thread first */
	assert_false(p->exited);
	assert_int_equal(process_exit(f.table, 5, 5), 0); /* twice: counted once */
	assert_false(p->exited);
	assert_int_equal(process_exit(f.table, 5, 6), 0);
	assert_true(p->exited);
	/* late samples find it */
	assert_ptr_equal(process_get(f.table, 5), p);
	assert_string_equal(path_at(&f, p, 16), "/bin/main");
	assert_false(process_wants_refresh(p, UINT64_MAX / 2));

	/* the pid is used again: by FORK */
	assert_int_equal(process_fork(f.table, 5, 1, 5, 1), 0);
	again = process_find(f.table, 5);
	assert_ptr_not_equal(again, p);
	assert_true(p->replaced);
	assert_int_equal(again->maps->n, 0);
	assert_string_equal(path_at(&f, p, 16), "/bin/main");
	(void)process_unref(p);

	/* and by a mapping, when the FORK was lost */
	p = process_ref(again);
	assert_int_equal(process_exit(f.table, 5, 5), 0);
	map_page(&f, 5, 20, "/bin/third", inode_id(9));
	again = process_find(f.table, 5);
	assert_ptr_not_equal(again, p);
	assert_string_equal(path_at(&f, again, 20), "/bin/third");
	(void)process_unref(p);

	assert_int_equal(process_exit(f.table, 4711, 4711), 0);
	assert_null(process_find(f.table, 4711)); /* no entry for the dead */
	fixture_deinit(&f);
}

/* A process that was there before us may have threads without a record. */
static void test_exit_unknown_threads(void **state)
{
	struct fixture f;
	struct process *p;
	(void)state;

	fixture_init(&f, 10);
	p = process_get(f.table, 5);
	assert_int_equal(process_exit(f.table, 5, 6),
			 0); /* not known: has no effect on the main thread */
	assert_false(p->exited);
	assert_int_equal(process_exit(f.table, 5, 5), 0);
	assert_true(p->exited);
	map_page(&f, 5, 20, "/lib/more", inode_id(9)); /* it runs */
	assert_ptr_equal(process_find(f.table, 5), p);
	assert_false(p->exited);
	fixture_deinit(&f);
}

static void test_exited_threads_are_bounded(void **state)
{
	struct fixture f;
	struct process *p;
	(void)state;

	fixture_init(&f, 10);
	p = process_get(f.table, 5);
	for (uint32_t tid = 100; tid < 5100; tid++) {
		assert_int_equal(process_fork(f.table, 5, 5, tid, 5), 0);
		assert_int_equal(process_exit(f.table, 5, tid), 0);
		assert_true(p->threads.n_used <= 1 + 257);
		assert_int_equal(p->n_live, 1);
		assert_int_equal(p->n_exited, p->threads.n_used - 1);
	}
	assert_non_null(table_pointer(&p->threads, 5099));
	assert_non_null(table_pointer(&p->threads, 5000));
	assert_null(table_pointer(&p->threads, 4000));
	assert_false(p->exited);
	fixture_deinit(&f);
}

static void test_mappings(void **state)
{
	struct uw_file_id a = inode_id(1), b = build_id(7);
	struct process_mapping mapping;
	struct uw_module *module;
	struct fixture f;
	struct process *p;
	uint32_t key;
	(void)state;

	fixture_init(&f, 10);
	assert_int_equal(process_comm(f.table, 5, 5, "main", true, 0), 0);
	p = process_find(f.table, 5);
	assert_int_equal(process_mmap(f.table, 5, 0x10000, 0x4000, 0x1000, true, "/bin/a", &a), 0);
	key = space_of(&f, p)->key;
	/* dlopen into a free area */
	assert_int_equal(process_mmap(f.table, 5, 0x30000, 0x4000, 0x2000, true, "/lib/b.so", &b),
			 0);
	assert_int_equal(space_of(&f, p)->key, key);
	assert_string_equal(path_at(&f, p, 0x30), "/lib/b.so");
	module = uw_space_find(space_of(&f, p), 0x31000)->module;
	assert_int_equal(uw_module_build_id(module)->bytes[0], 7);
	assert_true(process_mapping_of(p, module, &mapping));
	assert_int_equal(mapping.start, 0x30000);
	assert_int_equal(mapping.end, 0x34000);
	assert_int_equal(mapping.offset, 0x2000);
	assert_int_equal(mapping.id.build_id.len, 20);
	/* dlclose, then dlopen of another at the same address */
	b = build_id(8);
	assert_int_equal(process_mmap(f.table, 5, 0x30000, 0x2000, 0, true, "/lib/c.so", &b), 0);
	assert_int_not_equal(space_of(&f, p)->key, key);
	assert_string_equal(path_at(&f, p, 0x30), "/lib/c.so");
	assert_string_equal(path_at(&f, p, 0x32), "/lib/b.so"); /* not covered by another one */
	assert_int_equal(uw_space_find(space_of(&f, p), 0x32000)->offset, 0x4000);
	/* data over it */
	assert_int_equal(process_mmap(f.table, 5, 0x31000, 0x8000, 0, false, "//anon", NULL), 0);
	assert_null(path_at(&f, p, 0x32));
	assert_string_equal(path_at(&f, p, 0x30), "/lib/c.so");
	assert_false(process_mapping_of(p, module, &mapping));
	/* damage: a length that wraps, none at all */
	key = space_of(&f, p)->key;
	assert_int_equal(process_mmap(f.table, 5, 0x30000, UINT64_MAX - 5, 0, true, "/x", &a), 0);
	assert_int_equal(process_mmap(f.table, 5, 0x30000, 0, 0, true, "/x", &a), 0);
	assert_int_equal(space_of(&f, p)->key, key);
	fixture_deinit(&f);
}

static void test_unsure(void **state)
{
	struct fixture f;
	struct process *p, *dead;
	(void)state;

	fixture_init(&f, 10);
	assert_int_equal(process_comm(f.table, 5, 5, "main", true, 0), 0);
	assert_int_equal(process_comm(f.table, 6, 6, "dead", true, 0), 0);
	assert_int_equal(process_exit(f.table, 6, 6), 0);
	process_table_unsure(f.table);
	p = process_find(f.table, 5);
	dead = process_find(f.table, 6);
	assert_true(p->unsure);
	assert_int_equal(p->maps_read_at, 0);
	assert_int_equal(process_fork(f.table, 7, 5, 7, 5), 0);
	assert_string_equal(process_thread_get(process_find(f.table, 7), 7)->comm, "main");
	assert_false(process_thread_get(process_find(f.table, 7), 7)->from_record);
	assert_false(dead->unsure);
	assert_int_not_equal(dead->maps_read_at, 0);
	fixture_deinit(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_comm),
		cmocka_unit_test(test_exec),
		cmocka_unit_test(test_fork_process),
		cmocka_unit_test(test_fork_thread),
		cmocka_unit_test(test_exit),
		cmocka_unit_test(test_exit_unknown_threads),
		cmocka_unit_test(test_exited_threads_are_bounded),
		cmocka_unit_test(test_mappings),
		cmocka_unit_test(test_unsure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
