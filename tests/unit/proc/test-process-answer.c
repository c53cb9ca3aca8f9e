/* test-process-answer.c - the text of maps against the records; also with real processes. */
#include <stdlib.h>
#include <sys/mman.h>

#include "proc/procfs.h"
#include "tests/unit/proc/child-process.h"
#include "tests/unit/proc/proc-fixture.h"
#include "tests/unit/proc/process-map-nth.h"

static void test_first(void **state)
{
	struct fixture f;
	struct process *p;
	(void)state;

	fixture_init(&f, 10);
	p = process_get(f.table, 5);
	process_maps_asked(p, 100);
	assert_int_equal(p->maps_state, PROCESS_MAPS_ASKED);
	assert_int_equal(p->maps_asked_at, 100);
	assert_true(answer(&f, p,
			   "10000-12000 r-xp 00001000 08:01 77 /bin/x\n"
			   "12000-14000 rw-p 00003000 08:01 77 /bin/x\n"
			   "nonsense\n"
			   "20000-22000 r-xp 00000000 08:01 78 /lib/a\\012b (deleted)\n"
			   "30000-31000 rwxp 00000000 00:00 0 \n"
			   "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]",
			   200));
	assert_int_equal(p->maps_state, PROCESS_MAPS_KNOWN);
	assert_int_equal(p->maps_read_at, 200);
	assert_int_equal(p->maps->n, 3);
	assert_string_equal(path_at(&f, p, 0x10), "/bin/x");
	assert_null(path_at(&f, p, 0x12)); /* not executable */
	assert_string_equal(path_at(&f, p, 0x20), "/lib/a\nb");
	assert_string_equal(path_at(&f, p, 0x30), "/tmp/perf-5.map");
	assert_null(path_at(&f, p, 0xffffffffff600));
	assert_int_equal(process_map_nth(p->maps, 0)->id.inode, 77);
	assert_int_equal(process_map_nth(p->maps, 0)->id.major, 8);
	fixture_deinit(&f);
}

/* Records that came while the text was awaited are applied on top of it. */
static void test_replay(void **state)
{
	struct uw_file_id b = build_id(1);
	struct fixture f;
	struct process *p;
	(void)state;

	fixture_init(&f, 10);
	p = process_get(f.table, 5);
	process_maps_asked(p, 100);
	assert_int_equal(process_mmap(f.table, 5, 0x20000, 0x1000, 0, true, "/lib/new", &b), 0);
	assert_int_equal(process_mmap(f.table, 5, 0x30000, 0x1000, 0, false, "//anon", NULL), 0);
	assert_true(answer(&f, p,
			   "10000-12000 r-xp 00001000 08:01 77 /bin/x\n"
			   "20000-22000 r-xp 00000000 08:01 78 /lib/old\n"
			   "30000-32000 r-xp 00000000 08:01 79 /lib/gone\n",
			   200));
	assert_string_equal(path_at(&f, p, 0x10), "/bin/x");
	assert_string_equal(path_at(&f, p, 0x20), "/lib/new");
	assert_string_equal(path_at(&f, p, 0x21), "/lib/old");
	assert_null(path_at(&f, p, 0x30));
	assert_string_equal(path_at(&f, p, 0x31), "/lib/gone");
	assert_null(p->log);
	assert_false(p->unsure);

	/* more records than are kept: the answer is taken and another one is asked for */
	process_maps_asked(p, 300);
	for (unsigned i = 0; i < PROCESS_MAX_LOG; i++)
		map_page(&f, 5, 0x1000 + 2 * i, "/lib/new", b);
	assert_false(p->log->overflowed);
	map_page(&f, 5, 0x9000, "/lib/new", b);
	assert_true(p->log->overflowed);
	(void)answer(&f, p, "10000-12000 r-xp 00001000 08:01 77 /bin/x\n", 400);
	assert_true(p->unsure);
	assert_int_equal(p->maps_state, PROCESS_MAPS_KNOWN);
	fixture_deinit(&f);
}

static void test_refresh(void **state)
{
	static const char same[] = "10000-12000 r-xp 00001000 08:01 77 /bin/x\n"
				   "20000-21000 r-xp 00000000 08:01 78 /lib/a\n";
	struct uw_file_id b = build_id(1);
	struct uw_module *module;
	struct fixture f;
	struct process *p;
	uint32_t key;
	(void)state;

	fixture_init(&f, 10);
	assert_int_equal(process_comm(f.table, 5, 5, "x", true, 0), 0);
	p = process_find(f.table, 5);
	assert_int_equal(process_mmap(f.table, 5, 0x10000, 0x2000, 0x1000, true, "/bin/x", &b), 0);
	module = uw_space_find(space_of(&f, p), 0x10000)->module;
	key = space_of(&f, p)->key;

	/* the text has an inode, the record had a build id: the same file, and now both are known */
	process_maps_asked(p, 100);
	assert_false(answer(&f, p, "10000-12000 r-xp 00001000 08:01 77 /bin/x\n", 200));
	assert_ptr_equal(uw_space_find(space_of(&f, p), 0x10000)->module, module);
	assert_int_equal(space_of(&f, p)->key, key);
	assert_int_equal(process_map_nth(p->maps, 0)->id.inode, 77);
	assert_int_equal(process_map_nth(p->maps, 0)->id.build_id.len, 20);
	assert_int_equal(p->maps_refreshes, 1);
	/* so that another process, which only a text names, has the same module */
	process_maps_asked(process_get(f.table, 6), 100);
	(void)answer(&f, process_get(f.table, 6), same, 200);
	assert_ptr_equal(uw_space_find(space_of(&f, process_get(f.table, 6)), 0x10000)->module,
			 module);

	/* one more, without a record */
	process_maps_asked(p, 300);
	assert_true(answer(&f, p, same, 400));
	assert_int_equal(space_of(&f, p)->key, key);
	assert_int_equal(p->maps_refreshes, 0);
	/* moved by mremap: the old place is empty, the new one has it */
	process_maps_asked(p, 500);
	assert_true(answer(&f, p,
			   "10000-12000 r-xp 00001000 08:01 77 /bin/x\n"
			   "50000-51000 r-xp 00000000 08:01 78 /lib/a\n",
			   600));
	assert_int_not_equal(space_of(&f, p)->key, key);
	assert_null(path_at(&f, p, 0x20));
	assert_string_equal(path_at(&f, p, 0x50), "/lib/a");
	/* another inode at the same place is another file, whatever the build id was */
	key = space_of(&f, p)->key;
	process_maps_asked(p, 700);
	assert_true(answer(&f, p, "10000-12000 r-xp 00001000 08:01 99 /bin/x\n", 800));
	assert_ptr_not_equal(uw_space_find(space_of(&f, p), 0x10000)->module, module);
	assert_int_not_equal(space_of(&f, p)->key, key);
	fixture_deinit(&f);
}

/* A record's build id makes a memfd a file; the text, which has none, does not make it JIT code
 * again. */
static void test_memfd(void **state)
{
	struct fixture f;
	struct process *p;
	(void)state;

	fixture_init(&f, 10);
	assert_int_equal(process_comm(f.table, 5, 5, "x", true, 0), 0);
	p = process_find(f.table, 5);
	map_page(&f, 5, 0x10, "/memfd:lib (deleted)", build_id(3));
	for (unsigned i = 0; i < 2; i++) {
		process_maps_asked(p, 100);
		assert_false(answer(
			&f, p, "10000-11000 r-xp 00000000 00:01 7 /memfd:lib (deleted)\n", 200));
		assert_string_equal(path_at(&f, p, 0x10), "/memfd:lib");
	}
	fixture_deinit(&f);
}

/* After a loss a text is not taken for what was there before, except where it names the same inode. */
static void test_unsure(void **state)
{
	struct uw_file_id b = build_id(1);
	struct uw_module *module;
	struct fixture f;
	struct process *p;
	(void)state;

	fixture_init(&f, 10);
	assert_int_equal(process_comm(f.table, 5, 5, "x", true, 0), 0);
	p = process_find(f.table, 5);
	assert_int_equal(process_mmap(f.table, 5, 0x10000, 0x2000, 0x1000, true, "/bin/x", &b), 0);
	module = uw_space_find(space_of(&f, p), 0x10000)->module;
	assert_true(process_thread_get(p, 5)->from_record);
	process_table_unsure(f.table);
	assert_false(
		process_thread_get(p, 5)->from_record); /* an exec may be among what was lost */
	process_maps_asked(p, 100);
	assert_true(answer(&f, p, "10000-12000 r-xp 00001000 08:01 77 /bin/y\n", 200));
	assert_ptr_not_equal(uw_space_find(space_of(&f, p), 0x10000)->module, module);
	assert_false(p->unsure);
	/* lost while it was awaited */
	process_maps_asked(p, 300);
	process_table_unsure(f.table);
	(void)answer(&f, p, "10000-12000 r-xp 00001000 08:01 77 /bin/y\n", 400);
	assert_true(p->unsure);
	fixture_deinit(&f);
}

/* Ends that were lost: what is missing twice has ended, and its memory can be freed; a record of the pid is of a living one again. */
static void test_end_missing(void **state)
{
	const uint32_t all[] = {1, 5, 6, 7}, some[] = {1, 6}, others[] = {1, 5, 6};
	struct fixture f;
	struct process *p;

	(void)state;
	fixture_init(&f, 10);
	for (uint32_t pid = 5; pid <= 7; pid++)
		assert_int_equal(process_comm(f.table, pid, pid, "x", true, 0), 0);
	/* Nothing was lost: whatever the list contains. */
	assert_int_equal(process_table_end_missing(f.table, some, 2), 0);
	assert_int_equal(process_table_end_missing(f.table, some, 2), 0);
	process_table_unsure(f.table);
	assert_int_equal(process_table_end_missing(f.table, some, 2), 0);
	/* Process 5 was only late in the list; 8 came after the loss. */
	assert_int_equal(process_comm(f.table, 8, 8, "y", true, 0), 0);
	assert_int_equal(process_table_end_missing(f.table, others, 3), 1);
	assert_false(process_find(f.table, 5)->exited);
	assert_false(process_find(f.table, 6)->exited);
	p = process_find(f.table, 7);
	assert_true(p->exited);
	assert_false(process_find(f.table, 8)->exited);
	assert_int_equal(process_table_end_missing(f.table, some, 2), 0);
	assert_int_equal(process_table_end_missing(f.table, some, 2), 0);
	assert_int_equal(process_table_count(f.table), 4);
	assert_int_equal(process_mmap(f.table, 7, 0x10000, 0x1000, 0, true, "/bin/x", NULL), 0);
	assert_false(process_find(f.table, 7)->exited);
	assert_int_equal(process_table_end_missing(f.table, all, 4), 0);
	fixture_deinit(&f);
}

static void test_failed(void **state)
{
	struct fixture f;
	struct process *p, *parent, *child;
	(void)state;

	fixture_init(&f, 10);
	p = process_get(f.table, 5);
	map_page(&f, 5, 0x10, "/bin/x", build_id(1));
	process_maps_asked(p, 100);
	assert_false(answer(&f, p, NULL, 200));
	assert_int_equal(p->maps_state, PROCESS_MAPS_FAILED);
	assert_string_equal(path_at(&f, p, 0x10), "/bin/x"); /* from the records */
	/* an empty text: exiting */
	process_maps_asked(p, 300);
	assert_false(answer(&f, p, "", 400));
	assert_int_equal(p->maps_state, PROCESS_MAPS_FAILED);
	assert_string_equal(path_at(&f, p, 0x10), "/bin/x");
	/* seen from its exec on: all is known without the text */
	assert_int_equal(process_comm(f.table, 6, 6, "x", true, 0), 0);
	map_page(&f, 6, 0x10, "/bin/x", build_id(1));
	process_maps_asked(process_find(f.table, 6), 100);
	assert_false(answer(&f, process_find(f.table, 6), NULL, 200));
	assert_int_equal(process_find(f.table, 6)->maps_state, PROCESS_MAPS_KNOWN);

	/* forked by one that was not known yet; gone before it could be asked: it had what its
	 * parent has */
	parent = process_get(f.table, 7);
	assert_int_equal(process_fork(f.table, 8, 7, 8, 7), 0);
	assert_int_equal(process_fork(f.table, 9, 8, 9, 8), 0); /* and a grandchild */
	child = process_find(f.table, 9);
	assert_ptr_equal(child->origin, parent);
	map_page(&f, 9, 0x40, "/lib/own", build_id(2));
	process_maps_asked(parent, 100);
	(void)answer(&f, parent, "10000-12000 r-xp 00001000 08:01 77 /bin/x\n", 200);
	process_maps_asked(child, 100);
	assert_true(answer(&f, child, NULL, 200));
	assert_string_equal(path_at(&f, child, 0x10), "/bin/x");
	assert_string_equal(path_at(&f, child, 0x40), "/lib/own");
	assert_null(child->origin);
	assert_null(path_at(&f, parent, 0x40));
	fixture_deinit(&f);
}

/* The answer comes after the exec: it may be about the new image. */
/* Anonymous code is its neighbours' file only if that leaves neither a gap nor a doubt. */
static void test_remapped(void **state)
{
	static const char *const texts[] = {
		"10000-11000 r--p 00000000 08:01 77 /bin/x\n"
		"11000-13000 r-xp 00000000 00:00 0 \n"
		"13000-14000 r--p 00003000 08:01 77 /bin/x\n",
		/* another file behind, another offset, a gap before, a gap behind, nothing behind
		 */
		"10000-11000 r--p 00000000 08:01 77 /bin/x\n"
		"11000-13000 r-xp 00000000 00:00 0 \n"
		"13000-14000 r--p 00003000 08:01 78 /bin/y\n",
		"10000-11000 r--p 00000000 08:01 77 /bin/x\n"
		"11000-13000 r-xp 00000000 00:00 0 \n"
		"13000-14000 r--p 00002000 08:01 77 /bin/x\n",
		"0f000-10000 r--p 00000000 08:01 77 /bin/x\n"
		"11000-13000 r-xp 00000000 00:00 0 \n"
		"13000-14000 r--p 00004000 08:01 77 /bin/x\n",
		"10000-11000 r--p 00000000 08:01 77 /bin/x\n"
		"11000-13000 r-xp 00000000 00:00 0 \n"
		"14000-15000 r--p 00004000 08:01 77 /bin/x\n",
		"10000-11000 r--p 00000000 08:01 77 /bin/x\n"
		"11000-13000 r-xp 00000000 00:00 0 \n",
	};
	struct fixture f;
	struct process *p;
	(void)state;

	fixture_init(&f, 10);
	for (uint32_t i = 0; i < ARRAY_SIZE(texts); i++) {
		p = process_get(f.table, 5 + i);
		assert_true(answer(&f, p, texts[i], 200));
		assert_int_equal(p->maps->n, 1);
		if (i) {
			assert_true(strncmp(path_at(&f, p, 0x11), "/tmp/perf-", 10) == 0);
			continue;
		}
		assert_string_equal(path_at(&f, p, 0x11), "/bin/x");
		assert_int_equal(process_map_nth(p->maps, 0)->offset, 0x1000);
		assert_int_equal(process_map_nth(p->maps, 0)->id.inode, 77);
	}
	fixture_deinit(&f);
}

static void test_replaced(void **state)
{
	struct fixture f;
	struct process *p;
	(void)state;

	fixture_init(&f, 10);
	p = process_ref(process_get(f.table, 5));
	process_maps_asked(p, 100);
	assert_int_equal(process_comm(f.table, 5, 5, "new", true, 0), 0);
	map_page(&f, 5, 0x20, "/bin/new", build_id(2));
	assert_false(answer(&f, p, "10000-12000 r-xp 00001000 08:01 77 /bin/new\n", 200));
	assert_int_equal(p->maps_state, PROCESS_MAPS_FAILED);
	assert_null(path_at(&f, p, 0x10));
	assert_string_equal(path_at(&f, process_find(f.table, 5), 0x20), "/bin/new");
	(void)process_unref(p);
	fixture_deinit(&f);
}

static void test_wants_refresh(void **state)
{
	static const char text[] = "10000-12000 r-xp 00001000 08:01 77 /bin/x\n";
	const uint64_t ms = NSEC_PER_MSEC;
	struct fixture f;
	struct process *p;
	uint64_t now = 1000 * ms;
	(void)state;

	fixture_init(&f, 10);
	p = process_get(f.table, 5);
	assert_true(process_wants_refresh(p, now));
	process_maps_asked(p, now);
	assert_false(process_wants_refresh(p, now + 5000 * ms)); /* awaited */
	(void)answer(&f, p, text, now);
	assert_false(process_wants_refresh(p, now + 9 * ms));
	assert_true(process_wants_refresh(p, now + 10 * ms));
	assert_false(process_wants_refresh(p, now - 1)); /* a clock that steps back */
	/* each time that nothing new is found it waits longer, up to 10.24 s */
	for (unsigned i = 1; i <= 14; i++) {
		uint64_t wait = 10 * ms << (i < 10 ? i : 10);

		process_maps_asked(p, now);
		(void)answer(&f, p, text, now);
		assert_false(process_wants_refresh(p, now + wait - 1));
		assert_true(process_wants_refresh(p, now + wait));
	}
	process_maps_asked(p, now);
	(void)answer(&f, p, "10000-13000 r-xp 00001000 08:01 77 /bin/x\n", now);
	assert_true(process_wants_refresh(p, now + 10 * ms));
	/* unreadable: no use in asking often */
	p = process_get(f.table, 6);
	process_maps_asked(p, now);
	(void)answer(&f, p, NULL, now);
	assert_false(process_wants_refresh(p, now + 999 * ms));
	assert_true(process_wants_refresh(p, now + 1000 * ms));
	fixture_deinit(&f);
}

/* Modules must not leak when a text has very many mappings, and the limit holds. */
static void test_many(void **state)
{
	enum { N = PROCESS_MAX_MAPS + 500, ROOM = 80 };
	char *text = malloc((size_t)N * ROOM);
	struct fixture f;
	struct process *p;
	size_t len = 0;
	(void)state;

	assert_non_null(text);
	for (unsigned i = 0; i < N; i++)
		len += (size_t)snprintf(text + len, ROOM, "%x000-%x000 r-xp 0 8:1 5 /lib/a\n",
					2 * i + 16, 2 * i + 17);
	fixture_init(&f, 10);
	p = process_get(f.table, 5);
	process_maps_asked(p, 1);
	assert_true(answer(&f, p, text, 2));
	assert_int_equal(p->maps->n, PROCESS_MAX_MAPS);
	assert_int_equal(space_of(&f, p)->n_maps, PROCESS_MAX_MAPS);
	fixture_deinit(&f);
	free(text);
}

/* ---- real processes ---- */

static bool refresh(struct fixture *f, struct process *p)
{
	char *text = NULL;
	size_t len = 0;
	bool changed = false;

	process_maps_asked(p, 1);
	assert_int_equal(procfs_maps("", p->pid, &text, &len), 0);
	assert_int_equal(process_maps_answer(f->table, p, text, len, 0, 2, &changed), 0);
	free(text);
	return changed;
}

/* Of a mapping by its module's path: -1 when there is none. */
static int find_path(const struct process *p, const char *path)
{
	for (size_t i = 0; i < p->maps->n; i++) {
		const struct uw_module *m = process_map_nth(p->maps, i)->module;

		if (m && !strcmp(uw_module_path(m), path))
			return (int)i;
	}
	return -1;
}

static void load_and_move(int in, int out, void *arg)
{
	const char *path = arg;
	void *handle, *code, *away;

	child_stop(in, out);
	handle = dlopen(path, RTLD_NOW);
	child_stop(in, out);
	if (handle)
		dlclose(handle);
	code = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	child_stop(in, out);
	away = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mremap(code, 8192, 8192, MREMAP_MAYMOVE | MREMAP_FIXED, (char *)away + 65536) ==
	    MAP_FAILED)
		_exit(1);
	child_stop(in, out);
}

static void test_real(void **state)
{
	char dir[64], so[100], jit[64];
	struct fixture f;
	struct process *p;
	struct child c;
	uint64_t at;
	uint32_t key;
	(void)state;

	temp_dir(dir);
	(void)snprintf(so, sizeof(so), "%s/libtiny.so", dir);
	compile("int tiny(int x) { return x * 3; }\n", so, true);
	fixture_init(&f, 10);
	c = child_new(load_and_move, so);
	child_hear(&c);
	(void)snprintf(jit, sizeof(jit), "/tmp/perf-%d.map", (int)c.pid);
	p = process_get(f.table, (uint32_t)c.pid);
	assert_true(refresh(&f, p));
	assert_false(refresh(&f, p));
	assert_true(find_path(p, "[vdso]") >= 0);
	assert_int_equal(find_path(p, so), -1);
	key = space_of(&f, p)->key;

	child_go_on(&c); /* dlopen */
	child_hear(&c);
	assert_true(refresh(&f, p));
	assert_true(find_path(p, so) >= 0);
	assert_int_equal(space_of(&f, p)->key, key);

	child_go_on(&c); /* dlclose, and code in anonymous memory */
	child_hear(&c);
	assert_true(refresh(&f, p));
	assert_int_equal(find_path(p, so), -1);
	assert_true(find_path(p, jit) >= 0);
	assert_int_not_equal(space_of(&f, p)->key, key);
	at = process_map_nth(p->maps, (size_t)find_path(p, jit))->start;
	key = space_of(&f, p)->key;

	child_go_on(&c); /* mremap */
	child_hear(&c);
	assert_true(refresh(&f, p));
	assert_true(find_path(p, jit) >= 0);
	assert_int_not_equal(process_map_nth(p->maps, (size_t)find_path(p, jit))->start, at);
	assert_int_not_equal(space_of(&f, p)->key, key);

	child_end(&c);
	fixture_deinit(&f);
	remove_dir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first),	 cmocka_unit_test(test_replay),
		cmocka_unit_test(test_refresh),	 cmocka_unit_test(test_memfd),
		cmocka_unit_test(test_unsure),	 cmocka_unit_test(test_end_missing),
		cmocka_unit_test(test_failed),	 cmocka_unit_test(test_remapped),
		cmocka_unit_test(test_replaced), cmocka_unit_test(test_wants_refresh),
		cmocka_unit_test(test_many),	 cmocka_unit_test(test_real),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
