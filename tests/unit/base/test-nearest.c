/* test-nearest.c - how far two names are apart, and which are offered for one that is not known. */
#include "base/nearest.h"
#include "tests/unit/cmocka.h"

static void test_distance(void **state)
{
	char longest[NEAREST_LEN + 2];

	(void)state;
	assert_int_equal(nearest_distance("", ""), 0);
	assert_int_equal(nearest_distance("abc", ""), 3);
	assert_int_equal(nearest_distance("", "abc"), 3);
	assert_int_equal(nearest_distance("record", "record"), 0);
	assert_int_equal(nearest_distance("RECORD", "record"), 0);
	assert_int_equal(nearest_distance("recrod", "record"), 1); /* a swap */
	assert_int_equal(nearest_distance("recod", "record"), 1);
	assert_int_equal(nearest_distance("reccord", "record"), 1);
	assert_int_equal(nearest_distance("rebord", "record"), 1);
	assert_int_equal(nearest_distance("kitten", "sitting"), 3);
	memset(longest, 'a', sizeof(longest));
	longest[NEAREST_LEN] = 0;
	assert_int_equal(nearest_distance(longest, longest), NEAREST_LEN);
	longest[NEAREST_LEN - 1] = 0;
	assert_int_equal(nearest_distance(longest, longest), 0);
}

static void offer(const char *wanted, const char *const *names, const char *expected)
{
	struct nearest n = {.wanted = wanted};
	char error[256] = "unknown";

	for (; *names; names++)
		nearest_offer(&n, *names);
	nearest_append(&n, error, sizeof(error));
	assert_string_equal(error, expected);
}

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_offers(void **state)
{
	(void)state;
	offer("cycels", NAMES("instructions", "cycles", "cache-misses"),
	      "unknown; did you mean cycles?");
	/* one that has it in it is nearer than a misspelling, wherever it stands */
	offer("sched_switch", NAMES("sched_swatch", "sched:sched_switch"),
	      "unknown; did you mean sched:sched_switch or sched_swatch?");
	/* the three nearest, each once */
	offer("abcdef", NAMES("abcdxy", "abcdex", "abcdef1", "abcxef", "abcdex"),
	      "unknown; did you mean abcdef1, abcdex or abcxef?");
}

/* Beyond a third of the letters a hint would only mislead. */
static void test_too_far(void **state)
{
	(void)state;
	offer("abcdef", NAMES("uvwxyz", "abcxyz"), "unknown");
	offer("abcdef", NAMES("abcdxy"), "unknown; did you mean abcdxy?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_distance),
		cmocka_unit_test(test_offers),
		cmocka_unit_test(test_too_far),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
