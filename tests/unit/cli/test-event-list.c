/* test-event-list.c - the lists of `perfwind stat -e`. */
#include <errno.h>
#include <string.h>

#include "cli/cmd-stat.h"
#include "tests/unit/cmocka.h"

static char error[512];

static void test_list(void **state)
{
	struct event_list list = {.n = 0};

	(void)state;
	assert_int_equal(event_list_add(&list, "cpu-clock,{page-faults:u,cs}:S,faults,{cs}", error,
					sizeof(error)),
			 0);
	assert_int_equal(event_list_add(&list, "{minor-faults,major-faults}", error, sizeof(error)),
			 0);
	assert_int_equal(list.n, 7);
	assert_string_equal(list.specs[1].name, "page-faults:u");
	assert_int_equal(list.specs[1].code, FRAMES_USER);
	assert_memory_equal(list.groups, ((uint8_t[]){0, 1, 1, 0, 2, 3, 3}), 7);
	event_list_deinit(&list);
	assert_int_equal(list.n, 0);
}

static void test_wrong(void **state)
{
	static const struct {
		const char *text, *line;
	} wrong[] = {
		{"", "missing"},
		{"cs,", "missing"},
		{"{}", "missing"},
		{"{cs", "the '}' of a group is missing: '{cs'"},
		{"{cs}:u", "':u' behind a group: write modifiers behind each event"},
		{"{cs}x", "'x' behind a group"},
		{"page-faulst", "page-faults"},
		{"cs,{no-such-event-at-all}", "no-such-event-at-all"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct event_list list = {.n = 0};

		assert_true(event_list_add(&list, wrong[i].text, error, sizeof(error)) < 0);
		if (!strstr(error, wrong[i].line))
			fail_msg("%s: %s", wrong[i].text, error);
		event_list_deinit(&list);
	}
}

static void test_too_many(void **state)
{
	struct event_list list = {.n = 0};
	char text[8192] = "cs";

	(void)state;
	for (size_t i = 0; i < COUNTERS_EVENTS; i++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), ",cs");
	assert_int_equal(event_list_add(&list, text, error, sizeof(error)), -EINVAL);
	memset(text, 'a', sizeof(text) - 1);
	assert_int_equal(event_list_add(&list, text, error, sizeof(error)), -EINVAL);
	assert_string_equal(error, "the list of events is too long");
	event_list_deinit(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
