/* test-json.c - what is and what is not UTF-8. */
#include <stdlib.h>
#include <string.h>

#include "cli/json.h"
#include "tests/unit/cmocka.h"

static void expect(const char *text, const char *json)
{
	char *out = NULL;
	size_t len;
	FILE *f = open_memstream(&out, &len);

	json_string(f, text);
	fclose(f);
	assert_string_equal(out, json);
	free(out);
}

static void test_strings(void **state)
{
	(void)state;
	expect("", "\"\"");
	expect("a\"b\\c\n\x7f", "\"a\\\"b\\\\c\\u000a\\u007f\"");
	expect("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x94\xa5",
	       "\"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x94\xa5\"");
	/* overlong, surrogate, above the end, cut short, a lone continuation */
	expect("\xc0\xaf", "\"\\ufffd\\ufffd\"");
	expect("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"");
	expect("\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
	expect("\xe2\x82", "\"\\ufffd\\ufffd\"");
	expect("x\x80y", "\"x\\ufffdy\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_strings)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
