/* test-features.c - each facility has a name of its own, and words with it and without. */
#include "base/features.h"
#include "tests/unit/cmocka.h"

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(feature_name(FEATURE_BUILD_ID), "build-id");
	assert_string_equal(feature_name(FEATURE_PEER_PIDFD), "peer-pidfd");
	for (enum feature f = 0; f < FEATURE_COUNT; f++) {
		assert_non_null(feature_name(f));
		assert_null(
			strpbrk(feature_name(f), ", ")); /* PERFWIND_WITHOUT is a list of names */
		for (enum feature g = 0; g < f; g++)
			assert_string_not_equal(feature_name(f), feature_name(g));
	}
}

static void test_words(void **state)
{
	(void)state;
	assert_string_equal(feature_words(FEATURE_BUILD_ID, true),
			    "build ids in mapping records, taken with --kernel-build-ids only");
	for (enum feature f = 0; f < FEATURE_COUNT; f++) {
		assert_non_null(feature_words(f, true));
		assert_non_null(feature_words(f, false));
		assert_string_not_equal(feature_words(f, true), feature_words(f, false));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
