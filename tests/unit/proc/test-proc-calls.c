/* test-proc-calls.c - each allocation and system call with which processes are listed and read, their memory is read by a helper
 * process, their mappings, names and files are found, and a filter is made, fails once: an error, and nothing is kept. */
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/unit/fail-calls.h"

#include "proc/file-places.h"
#include "proc/filter.h"
#include "proc/open-file.h"
#include "proc/process.h"
#include "proc/procfs.h"
#include "proc/procmem.h"
#include "proc/wait-place.h"
#include "symbols/module.h"

enum { PIDS = 40, PAGE = 4096 };

static uint32_t self;

/* ---- /proc ---- */

struct lists {
	char *text[3];
	uint32_t *numbers[3];
	size_t n[3], len;
	struct procfs_pids *pids, *threads;
};
static void end_lists(void *arg)
{
	struct lists *l = arg;

	for (size_t i = 0; i < 3; i++) {
		free(l->text[i]);
		free(l->numbers[i]);
	}
	(void)procfs_pids_free(l->pids);
	(void)procfs_pids_free(l->threads);
}
static bool has(const uint32_t *list, size_t n, uint32_t number)
{
	while (n && list[n - 1] != number)
		n--;
	return n > 0;
}
static int make_lists(void *arg)
{
	struct procfs_status status;
	struct lists *l = arg;
	uint64_t busy;
	uint32_t tid;
	int r;

	*l = (struct lists){.len = 0};
	r = procfs_pids("", &l->numbers[0], &l->n[0]);
	if (r >= 0)
		r = procfs_threads("", self, &l->numbers[1], &l->n[1]);
	if (r >= 0)
		r = procfs_families("", &self, 1, 0, &l->numbers[2], &l->n[2]);
	if (r >= 0)
		r = procfs_pids_open("", &l->pids);
	if (r >= 0)
		r = procfs_threads_open("", self, &l->threads);
	if (r >= 0)
		r = procfs_status("", self, &status);
	if (r >= 0)
		r = procfs_thread_ns_tid("", self, self, &tid);
	if (r >= 0)
		r = procfs_cmdline("", self, &l->text[0], &l->len);
	if (r >= 0)
		r = procfs_maps("", self, &l->text[1], &l->len);
	if (r >= 0)
		r = procfs_cgroup("", self, &l->text[2]);
	r = r == -ENODATA ? 0 : r; /* a kernel without cgroups */
	if (r >= 0)
		r = procfs_busy_ns("", NULL, 0, &busy);
	if (r < 0) {
		end_lists(l);
		return r;
	}
	for (size_t i = 0; i < 3; i++)
		if (!has(l->numbers[i], l->n[i], self))
			fail_msg("call %lu: list %zu is not whole", calls_fail_at, i);
	assert_int_equal(status.pid, self);
	assert_non_null(strstr(l->text[0], "proc-calls"));
	assert_non_null(strstr(l->text[1], "[stack]"));
	return 0;
}

/* ---- memory ---- */

struct memories {
	struct memory_guard *guard;
	struct uw_memory *direct, *guarded;
};
static void end_memory(void *arg)
{
	struct memories *m = arg;

	(void)procfs_memory_free(m->direct);
	(void)procfs_memory_free(m->guarded);
	(void)memory_guard_free(m->guard);
}
static int make_memory(void *arg)
{
	static const uint64_t number = 4711;
	struct memories *m = arg;
	uint64_t got = 0;
	ssize_t n;
	int r, fd;

	*m = (struct memories){.guard = NULL};
	r = memory_guard_new(10 * NSEC_PER_SEC, &m->guard);
	if (r >= 0)
		r = procfs_memory_new("", self, &m->direct);
	if (r >= 0) {
		fd = dup(procfs_memory_fd(m->direct));
		r = procfs_memory_of_fd(fd, m->guard, &m->guarded);
	}
	if (r >= 0) {
		n = m->guarded->read(m->guarded, (uintptr_t)&number, &got, sizeof(got));
		assert_true(n < 0 || (n == sizeof(got) && got == number));
		r = n < 0 ? (int)n : 0;
	}
	if (r < 0)
		end_memory(m);
	return r;
}

/* ---- processes and their mappings: what a record added is there, or the record had an error ---- */

struct processes {
	struct uw_modules *modules;
	struct process_table *table;
};
static void end_processes(void *arg)
{
	struct processes *p = arg;

	(void)process_table_free(p->table);
	(void)uw_modules_free(p->modules);
}
static int add_process(struct processes *p, uint32_t pid)
{
	static const char text[] = "10000-12000 r-xp 00001000 08:01 77 /bin/x\n"
				   "30000-31000 rwxp 00000000 00:00 0 \n"
				   "40000-41000 r-xp 00000000 00:00 0 [vdso]\n";
	const struct uw_file_id id = {.build_id = {.len = 20, .bytes = {(uint8_t)pid}}};
	struct process *process = process_get(p->table, pid);
	struct uw_space *space;
	char path[32];
	bool changed;
	int r = process && process_thread_get(process, pid + 1) ? 0 : -ENOMEM;

	(void)snprintf(path, sizeof(path), "/lib/%u", pid % 7);
	if (r >= 0)
		process_maps_asked(process, 1);
	if (r >= 0)
		r = process_maps_answer(p->table, process, text, sizeof(text) - 1, 0, 2, &changed);
	if (r >= 0)
		r = process_mmap(p->table, pid, 0x50000, PAGE, 0, true, path, &id);
	if (r >= 0)
		r = process_fork(p->table, pid + 1000, pid, pid + 1000, pid);
	if (r >= 0)
		r = process_comm(p->table, pid + 1000, pid + 1000, "again", pid % 2, 3);
	if (r >= 0)
		r = process_space(p->table, process, &space);
	if (r < 0)
		return r;
	if (!uw_space_find(space, 0x50008) || !uw_space_find(space, 0x30008) ||
	    !process_find(p->table, pid + 1000))
		fail_msg("call %lu: process %u lacks a mapping or its child", calls_fail_at, pid);
	return 0;
}
static int make_processes(void *arg)
{
	struct processes *p = arg;
	int r;

	*p = (struct processes){.table = NULL};
	r = uw_modules_new(&p->modules);
	if (r >= 0)
		r = process_table_new(p->modules, PIDS, &p->table);
	for (uint32_t pid = 1; r >= 0 && pid <= PIDS; pid++)
		r = add_process(p, pid);
	if (r < 0)
		end_processes(p);
	return r;
}

static int make_filter(void *arg)
{
	static const char *const wanted[] = {"a*", "/bin/b"}, *const left_out[] = {"c"};
	static const int32_t pids[] = {7, 3}, others[] = {9};
	const struct filter_scope scope = {.target_cmdlines = wanted,
					   .n_target_cmdlines = 2,
					   .exclude_cmdlines = left_out,
					   .n_exclude_cmdlines = 1,
					   .target_pids = pids,
					   .n_target_pids = 2,
					   .exclude_pids = others,
					   .n_exclude_pids = 1,
					   .additional_cmdlines = 2};
	struct filter **filter = arg;
	int r = filter_new(&scope, filter);

	if (r >= 0)
		assert_true(filter_wanted(*filter, 1, "ab", 3) &&
			    filter_wanted(*filter, 3, "x", 2) &&
			    !filter_wanted(*filter, 9, "x", 2));
	return r;
}
static void end_filter(void *arg)
{
	(void)filter_free(*(struct filter **)arg);
}

/* ---- files ---- */

struct files {
	uint64_t start, end;
	char path[128];
	struct uw_file_id id;
	int mapped, named;
};
static void end_files(void *arg)
{
	const struct files *f = arg;

	(void)fd_close(f->mapped);
	(void)fd_close(f->named);
}
/* The device of a mapping is what maps reports of it. */
static void find_own_file(struct files *f)
{
	struct procfs_map map;
	char *text;
	size_t len;
	const char *p;

	assert_int_equal(procfs_maps("", self, &text, &len), 0);
	p = text;
	do
		assert_int_equal(procfs_maps_next(&p, text + len, &map), 0);
	while (!map.exec);
	f->start = map.start;
	f->end = map.end;
	f->id = (struct uw_file_id){.major = map.major, .minor = map.minor, .inode = map.inode};
	(void)snprintf(f->path, sizeof(f->path), "%.*s", (int)map.path_len, map.path);
	free(text);
}
static int make_files(void *arg)
{
	struct files *f = arg;
	const struct procfs_named named = {.path = f->path, .owner = geteuid()};
	bool proved = false;
	int r;

	f->mapped = f->named = -1;
	r = procfs_open_mapped("", self, f->start, f->end, f->path, &f->id, geteuid(), NULL,
			       &f->mapped, &proved);
	if (r < 0)
		return r;
	if (!proved)
		fail_msg("call %lu: the file is not proved", calls_fail_at);
	f->named = procfs_open_named("", self, &named);
	if (f->named < 0)
		end_files(f);
	return f->named;
}

struct caches {
	struct file_places places;
	struct uw_build_id id;
	int elf, debug, copy;
};
static void end_caches(void *arg)
{
	const struct caches *c = arg;

	(void)fd_close(c->elf);
	(void)fd_close(c->debug);
	(void)fd_close(c->copy);
}
static int make_caches(void *arg)
{
	struct caches *c = arg;
	bool proved;

	c->debug = c->copy = -1;
	c->elf = file_places_open_archived(&c->places, &c->id, "elf");
	if (c->elf >= 0)
		c->debug = file_places_open_debug_id(&c->places, &c->id);
	if (c->debug >= 0)
		c->copy = file_places_open_copy(&c->places, "/x", &c->id, &proved);
	if (c->copy < 0)
		end_caches(c);
	return c->copy < 0 ? -ENOENT : 0;
}

/* ---- where a thread waits ---- */

static int make_place(void *arg)
{
	struct wait_place *place = arg;
	uint64_t stack[4];
	int r = wait_place_read("", self, self, place);

	r = r == -EAGAIN ? 0 : r; /* it runs */
	if (r >= 0)
		r = (int)wait_place_stack("", self, (uintptr_t)stack, stack, sizeof(stack));
	return r;
}
static void end_nothing(void *arg)
{
	(void)arg;
}

/* ---- the tests ---- */

static void test_processes(void **state)
{
	struct lists lists;
	struct processes processes;
	struct filter *filter;
	struct wait_place place;
	const struct calls_made all[] = {
		{"lists", make_lists, end_lists, &lists},
		{"processes", make_processes, end_processes, &processes},
		{"filter", make_filter, end_filter, &filter},
		{"place", make_place, end_nothing, &place},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		calls_sweep(&all[i]);
}

static void test_memory(void **state)
{
	struct memories memories;

	(void)state;
	calls_sweep(&(struct calls_made){"memory", make_memory, end_memory, &memories});
	no_child_is_left();
}

/* A build-id cache in the place of an archive, with this program as both files of its build id, and a folder of copies. */
static void make_cache(const char *folder, struct caches *caches)
{
	char hex[2 * UW_BUILD_ID_MAX + 1] = "", command[512];

	for (unsigned i = 0; i < caches->id.len; i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", caches->id.bytes[i]);
	(void)snprintf(
		command, sizeof(command),
		"cd %s && mkdir -p .build-id/%.2s/%s && cp /proc/%u/exe .build-id/%.2s/%s/elf && "
		"ln .build-id/%.2s/%s/elf .build-id/%.2s/%s/debug && ln .build-id/%.2s/%s/elf x",
		folder, hex, hex + 2, self, hex, hex + 2, hex, hex + 2, hex, hex + 2, hex, hex + 2);
	assert_int_equal(system(command), 0);
	caches->places =
		(struct file_places){.archive = folder, .symfs = folder, .buildid_dir = folder};
}

static void test_files(void **state)
{
	char folder[] = "/tmp/perfwind-calls.XXXXXX", command[64];
	struct uw_source source = {.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
	struct caches caches = {.id = {.len = 0}};
	struct files files;

	(void)state;
	find_own_file(&files);
	calls_sweep(&(struct calls_made){"files", make_files, end_files, &files});
	(void)uw_source_build_id(&source, &caches.id);
	(void)close(source.fd);
	if (!caches.id.len) {
		print_message("this program has no build id\n");
		skip();
	}
	assert_non_null(mkdtemp(folder));
	make_cache(folder, &caches);
	calls_sweep(&(struct calls_made){"caches", make_caches, end_caches, &caches});
	(void)snprintf(command, sizeof(command), "rm -r %s", folder);
	assert_int_equal(system(command), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_processes),
					   cmocka_unit_test(test_memory),
					   cmocka_unit_test(test_files)};

	self = (uint32_t)getpid();
	return cmocka_run_group_tests_name("proc-calls", tests, NULL, NULL);
}
