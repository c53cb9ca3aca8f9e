/* test-config-nomem.c - each allocation from a config's text to a session's options fails
 * once: an error with a line, nothing left behind. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/fail-malloc.h"

#include "config/config.h"
#include "config/perf-config.h"

#if FAIL_MALLOC
static const char text[] =
	"buffers { size_kb: 4 name: 'a' 'b' } data_sources { config { name: 'linux.perf' "
	"ftrace_config { a: [1, 2] } perf_event_config { timebase { raw_event { type: 4 } "
	"name: 'x' } followers { counter: SW_TASK_CLOCK name: 'y' } callstack_sampling { scope { "
	"target_pid: [1, 2, 3] target_cmdline: ['a', 'b'] } } target_cpu: 0 } } }";

/* Text, bytes, message, options. */
static int all_the_way(char *error, size_t error_size)
{
	const struct perf_config_env env = {.root = ""};
	struct perf_config *perf = NULL;
	struct config *config = NULL;
	Pb__DataSourceConfig *ds = NULL;
	uint8_t wire[512];
	int r = config_read("f", text, sizeof(text) - 1, CONFIG_TEXT, &config, error, error_size);

	if (r >= 0) {
		size_t len = pb__data_source_config__pack(config->message->data_sources[0]->config,
							  wire);

		r = config_read_data_source(wire, len, &ds, error, error_size);
	}
	if (r >= 0)
		r = perf_config_new(&env, ds->perf_event_config, &perf, error, error_size);
	(void)perf_config_free(perf);
	(void)config_data_source_free(ds);
	(void)config_free(config);
	return r;
}

static void test_each_fails(void **state)
{
	unsigned long n;

	(void)state;
	for (n = 1; n < 10000; n++) {
		char error[CONFIG_ERROR_SIZE] = "";
		long held = malloc_held;
		bool was_reached;
		int r;

		malloc_fail(n, false);
		r = all_the_way(error, sizeof(error));
		was_reached = malloc_calls >= n;
		malloc_fail(0, false);
		assert_int_equal(malloc_held, held);
		if (!was_reached) {
			assert_int_equal(r, 0);
			break;
		}
		assert_true(r < 0);
		assert_true(error[0] != 0);
	}
	assert_in_range(n, 20, 9999); /* there were that many at least */
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_fails)};

	return cmocka_run_group_tests_name("config-nomem", tests, NULL, NULL);
}
#else
int main(void)
{
	printf("the sanitizers have an allocator of their own\n");
	return 77;
}
#endif
