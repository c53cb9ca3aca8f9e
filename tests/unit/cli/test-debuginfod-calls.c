/* test-debuginfod-calls.c - each allocation and system call with which debug files are fetched fails once, in the processes that do it,
 * too: an error, or each file was asked for; a lack of memory is not a missing library.  No process and no descriptor is left.  The
 * cache's folder cannot be made, so no server is asked. */
#include <stdlib.h>

#include "tests/unit/fail-calls.h"

#include "cli/debuginfod.h"

enum { IDS = 3, SECONDS = 60 };

static const struct uw_build_id ids[IDS] = {{.len = 2}, {.len = 3}, {.len = 4}};

static int fetch(void)
{
	struct debuginfod_result result;
	int r = debuginfod_fetch(ids, IDS, SECONDS, &result);

	assert_true(r < 0 || result.asked <= IDS);
	return r < 0 ? r : result.asked == IDS ? 0 : -ECHILD;
}

static int fetch_early(void)
{
	struct debuginfod_early early = {.to = -1};

	for (size_t i = 0; i < IDS; i++)
		debuginfod_early_ask(&early, &ids[i]);
	assert_true(debuginfod_early_end(&early, SECONDS) <= SECONDS);
	return early.to < 0 && early.pid <= 0 ? 0 : -EBADF;
}

/* Of a child it is not known how many calls it makes. */
static void sweep(const char *name, int (*make)(void), unsigned long calls)
{
	size_t files = open_files(), failed = 0;
	long held = malloc_held;

	for (unsigned long n = 1; n <= calls; n++) {
		int r;

		calls_fail(n);
		r = make();
		calls_fail(0);
		failed += r < 0;
		if (r == -ENOENT || r == -EBADF || open_files() != files || malloc_held != held)
			fail_msg("%s, call %lu: %d, %zu descriptors, before %zu; %ld blocks, %ld",
				 name, n, r, open_files(), files, malloc_held, held);
		no_child_is_left();
	}
	print_message("%s: %zu failed\n", name, failed);
}

static void test_all(void **state)
{
	int r;

	(void)state;
	assert_int_equal(setenv("DEBUGINFOD_URLS", "http://127.0.0.1:9", 1), 0);
	assert_int_equal(setenv("DEBUGINFOD_CACHE_PATH", "/proc/no-folder", 1), 0);
	r = fetch();
	if (r == -ENOENT) {
		print_message("no libdebuginfod here\n");
		skip();
	}
	assert_int_equal(r, 0);
	sweep("fetch", fetch, 24);
	sweep("early", fetch_early, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};

	return cmocka_run_group_tests_name("debuginfod-calls", tests, NULL, NULL);
}
