/* test-duration.c - each unit, no unit, and wrong input. */
#include <errno.h>

#include "cli/duration.h"
#include "tests/unit/cmocka.h"

static void test_units(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} right[] = {
		{"500ms", 500000000},	 {"30s", 30000000000},
		{"10min", 600000000000}, {"2h", 7200000000000},
		{"1d", 86400000000000},	 {"1000d", 86400000000000000},
		{"0001s", 1000000000},	 {"86400000s", 86400000000000000},
		{"1.5s", 1500000000},	 {"0.25min", 15000000000},
		{"20us", 20000},	 {"0.0000000019s", 1},
	};
	uint64_t ns;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(right); i++) {
		assert_int_equal(duration_parse(right[i].text, NULL, &ns), 0);
		assert_int_equal(ns, right[i].ns);
	}
	assert_int_equal(duration_parse("7", "s", &ns), 0);
	assert_int_equal(ns, 7000000000);
	assert_int_equal(duration_parse("0.7", "ms", &ns), 0);
	assert_int_equal(ns, 700000);
	assert_int_equal(duration_parse("7min", "s", &ns), 0);
	assert_int_equal(ns, 420000000000);
}

static void test_wrong(void **state)
{
	static const char *const wrong[] = {"",
					    "s",
					    "0s",
					    "-1s",
					    "+1s",
					    "1.s",
					    ".5s",
					    "1..5s",
					    "1.5",
					    "0.0s",
					    "0.0001us",
					    "1000.1d",
					    " 1s",
					    "1 s",
					    "1S",
					    "1ss",
					    "1001d",
					    "7",
					    "1m",
					    "0",
					    "99999999999999999999999s",
					    "18446744073709551617s"};
	uint64_t ns = 42;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(duration_parse(wrong[i], NULL, &ns), -EINVAL);
	assert_int_equal(ns, 42);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_units),
		cmocka_unit_test(test_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
