/* test-process-nomem.c - each allocation fails once: an error or a smaller truth, never a crash or
 * a leak. Not with a sanitizer: its allocator cannot be replaced: there it is skipped. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/proc/proc-fixture.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
int main(void)
{
	return 77;
}
#else

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);
void __libc_free(void *p);
void *malloc(size_t size);
void *calloc(size_t n, size_t size);
void *realloc(void *old, size_t size);
void *reallocarray(void *old, size_t n, size_t size);
void free(void *p);

static unsigned long fail_at, n_calls;
static long n_held;

static bool fails(void)
{
	return fail_at && ++n_calls == fail_at;
}

static void *held(void *p)
{
	n_held += p != NULL;
	return p;
}

void *malloc(size_t size)
{
	return fails() ? NULL : held(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
	return fails() ? NULL : held(__libc_calloc(n, size));
}

void *realloc(void *old, size_t size)
{
	void *p = fails() ? NULL : __libc_realloc(old, size);

	n_held += p && !old;
	return p;
}

void *reallocarray(void *old, size_t n, size_t size)
{
	return size && n > SIZE_MAX / size ? NULL : realloc(old, n * size);
}

void free(void *p)
{
	n_held -= p != NULL;
	__libc_free(p);
}

static const char text[] = "10000-12000 r-xp 00001000 08:01 77 /bin/x\n"
			   "20000-22000 r-xp 00000000 08:01 78 /lib/a\n"
			   "30000-31000 rwxp 00000000 00:00 0 \n"
			   "40000-41000 r-xp 00000000 00:00 0 [vdso]\n";

static void use(struct process_table *table, uint32_t pid)
{
	struct process *p = process_get(table, pid);
	struct uw_space *space;
	bool changed;

	if (!p)
		return;
	(void)process_thread_get(p, pid + 1);
	process_maps_asked(p, 1);
	(void)process_mmap(table, pid, 0x50000, 0x1000, 0, true, "//anon", NULL);
	(void)process_maps_answer(table, p, text, strlen(text), 0, 2, &changed);
	(void)process_set_ns_pid(table, p, 3);
	process_set_cgroup(p, strdup("/box"));
	(void)process_space(table, p, &space);
}

/* < 0 or done: what came back is not looked at, only that it came. */
static void scenario(void)
{
	const struct uw_file_id id = {.build_id = {.len = 20, .bytes = {1}}};
	struct uw_modules *modules = NULL;
	struct process_table *table = NULL;

	if (uw_modules_new(&modules) < 0)
		return;
	if (process_table_new(modules, 3, &table) >= 0) {
		(void)process_comm(table, 5, 5, "x", true, 0);
		(void)process_mmap(table, 5, 0x10000, 0x2000, 0x1000, true, "/bin/x", &id);
		(void)process_mmap(table, 5, 0x11000, 0x100, 0, true, "/bin/y", NULL);
		use(table, 5);
		(void)process_fork(table, 6, 5, 6, 5);
		(void)process_fork(table, 6, 6, 7, 6);
		use(table, 6);
		(void)process_exit(table, 6, 6);
		(void)process_fork(table, 8, 4, 8, 4);
		(void)process_comm(table, 6, 6, "again", true, 0);
		(void)process_fork(table, 9, 8, 9, 8);
		use(table, 9);
	}
	(void)process_table_free(table);
	(void)uw_modules_free(modules);
}

static void test_each(void **state)
{
	unsigned long n;
	long before, after;
	(void)state;

	for (n = 1; n < 10000; n++) {
		before = n_held;
		n_calls = 0;
		fail_at = n;
		scenario();
		fail_at = 0;
		after = n_held;
		assert_int_equal(after, before);
		if (n_calls < n)
			break;
	}
	assert_in_range(n, 40, 9999); /* so many places there are at least */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
