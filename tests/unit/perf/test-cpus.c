/* test-cpus.c - lists of CPU numbers, good and bad.
 */
#include <errno.h>

#include "tests/unit/cmocka.h"

#include "perf/source.h"

static void check(const char *text, const uint32_t *wanted, size_t n_wanted)
{
	uint32_t *cpus = NULL;
	size_t n = 99;

	assert_int_equal(perf_parse_cpu_list(text, &cpus, &n), 0);
	assert_int_equal(n, n_wanted);
	assert_memory_equal(cpus, wanted, n * sizeof(*cpus));
	free(cpus);
}

static void test_lists(void **state)
{
	(void)state;
	check("0", (uint32_t[]){0}, 1);
	check("0-3,8", (uint32_t[]){0, 1, 2, 3, 8}, 5);
	check("8,0-1,1-2", (uint32_t[]){0, 1, 2, 8}, 4); /* ascending, each once */
	check("8191", (uint32_t[]){8191}, 1);
	check("5-5", (uint32_t[]){5}, 1);
}

static void test_bad_lists(void **state)
{
	static const char *const bad[] = {"",
					  ",",
					  "0,",
					  ",0",
					  "a",
					  "-1",
					  "1-",
					  "3-1",
					  "8192",
					  "0-4294967295",
					  "0 1",
					  "1\n",
					  "0x1",
					  "1-2-3",
					  "99999999999999999999",
					  "00000000000000000000000000000000000000000000000000001"};
	uint32_t *cpus = NULL;
	size_t n = 99;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(perf_parse_cpu_list(bad[i], &cpus, &n), -EINVAL);
	assert_null(cpus);
	assert_int_equal(n, 99);
}

static void test_online(void **state)
{
	uint32_t *cpus;
	size_t n;

	(void)state;
	assert_int_equal(perf_online_cpus(&cpus, &n), 0);
	assert_true(n >= 1);
	for (size_t i = 1; i < n; i++)
		assert_true(cpus[i] > cpus[i - 1]);
	free(cpus);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_bad_lists),
		cmocka_unit_test(test_online),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
