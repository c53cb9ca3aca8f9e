/* test-profile-text.c - foreign names and numbers at their edges. */
#include "profile/profile-text.h"
#include "tests/unit/cmocka.h"

static void assert_clean(const char *text, const char *expected)
{
	struct buffer b = {0};

	text_clean(&b, text);
	buffer_append(&b, "", 1);
	assert_string_equal((const char *)b.data, expected);
	buffer_deinit(&b);
}

#define BAD "\xef\xbf\xbd"
static void only_utf8_is_left(void **state)
{
	(void)state;
	assert_clean("", "");
	assert_clean("plain", "plain");
	assert_clean("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x94\xa5",
		     "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x94\xa5");
	assert_clean("\xc3", BAD); /* cut off */
	assert_clean("\xe2\x82", BAD BAD);
	assert_clean("\xf0\x9f\x94", BAD BAD BAD);
	assert_clean("\x80", BAD);			   /* a continuation alone */
	assert_clean("\xc0\x80", BAD BAD);		   /* overlong NUL */
	assert_clean("\xe0\x80\xaf", BAD BAD BAD);	   /* overlong / */
	assert_clean("\xed\xa0\x80", BAD BAD BAD);	   /* a surrogate */
	assert_clean("\xf4\x90\x80\x80", BAD BAD BAD BAD); /* above U+10FFFF */
	assert_clean("\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf");
	assert_clean("\xff\xfe", BAD BAD);
	assert_clean("\xc3(", BAD "(");
}

static void no_controls(void **state)
{
	(void)state;
	assert_clean("a\033[31mb\r\n\tc\x7f", "a?[31mb???c?");
	assert_clean("\xc2\x9b"
		     "31m",
		     "?31m"); /* C1: CSI in one character */
	assert_clean("\xe2\x80\xae"
		     "evil",
		     "?evil"); /* right-to-left override */
	assert_clean("\xe2\x80\xa8", "?");
}

static void assert_fit(const char *text, size_t columns, const char *expected)
{
	struct buffer b = {0};
	size_t used = text_fit(&b, text, strlen(text), columns);

	buffer_append(&b, "", 1);
	assert_string_equal((const char *)b.data, expected);
	assert_true(used <= columns);
	assert_int_equal(used, text_columns(expected, strlen(expected)));
	buffer_deinit(&b);
}

static void names_are_cut_in_the_middle(void **state)
{
	(void)state;
	assert_fit("abcdefghij", 10, "abcdefghij");
	assert_fit("abcdefghij", 9, "abcdef…ij");
	assert_fit("abcdefghij", 4, "ab…j");
	assert_fit("abcdefghij", 1, "…");
	assert_fit("abcdefghij", 0, "");
	assert_fit("", 0, "");
	assert_fit("\xe4\xb8\xad\xe6\x96\x87\xe5\xad\x97", 6,
		   "\xe4\xb8\xad\xe6\x96\x87\xe5\xad\x97"); /* 2 columns each */
	assert_fit("\xe4\xb8\xad\xe6\x96\x87\xe5\xad\x97", 5, "\xe4\xb8\xad…");
	assert_int_equal(text_columns("e\xcc\x81", 3), 1); /* a combining accent */
}

static void assert_json(const char *text, size_t len, const char *expected)
{
	struct buffer b = {0};

	text_json(&b, text, len);
	buffer_append(&b, "", 1);
	assert_string_equal((const char *)b.data, expected);
	buffer_deinit(&b);
}

static void json_strings(void **state)
{
	(void)state;
	assert_json("", 0, "\"\"");
	assert_json("a\"b\\c", 5, "\"a\\\"b\\\\c\"");
	assert_json("\0\x1f", 2, "\"\\u0000\\u001f\"");
	assert_json("</script>", 9, "\"\\u003c/script\\u003e\"");
	assert_json("\xe2\x80\xa9\xff", 4, "\"\\u2029" BAD "\"");
}

static void assert_printed(const char *text, const char *expected)
{
	char *out = NULL;
	size_t len;
	FILE *f = open_memstream(&out, &len);

	text_json_print(f, "x:", text);
	fclose(f);
	assert_string_equal(out, expected);
	free(out);
}

/* Not for a page: '<' stays. */
static void json_on_a_stream(void **state)
{
	(void)state;
	assert_printed(NULL, "x:null");
	assert_printed("", "x:\"\"");
	assert_printed("a\"b\\c\n\x7f<&>'", "x:\"a\\\"b\\\\c\\u000a\\u007f<&>'\"");
	assert_printed("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x94\xa5",
		       "x:\"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x94\xa5\"");
	/* overlong, surrogate, above the end, cut short, a lone continuation */
	assert_printed("\xc0\xaf", "x:\"\\ufffd\\ufffd\"");
	assert_printed("\xed\xa0\x80", "x:\"\\ufffd\\ufffd\\ufffd\"");
	assert_printed("\xf4\x90\x80\x80", "x:\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
	assert_printed("\xe2\x82", "x:\"\\ufffd\\ufffd\"");
	assert_printed("x\x80y", "x:\"x\\ufffdy\"");
}

static void csv_fields(void **state)
{
	struct buffer b = {0};

	(void)state;
	text_csv(&b, "a \"b\",\n");
	buffer_append(&b, "", 1);
	assert_string_equal((const char *)b.data, "\"a \"\"b\"\",?\"");
	buffer_deinit(&b);
}

static void numbers(void **state)
{
	char to[32];

	(void)state;
	assert_string_equal(text_count(0, to), "0");
	assert_string_equal(text_count(999, to), "999");
	assert_string_equal(text_count(1000, to), "1,000");
	assert_string_equal(text_count(UINT64_MAX, to), "18,446,744,073,709,551,615");
	assert_string_equal(text_size(0, to), "0 bytes");
	assert_string_equal(text_size(10239, to), "10239 bytes");
	assert_string_equal(text_size(10240, to), "10 KiB");
	assert_string_equal(text_size(10485759, to), "10240 KiB");
	assert_string_equal(text_size(10485760, to), "10.0 MiB");
	assert_string_equal(text_weight(0, "ns", to), "0");
	assert_string_equal(text_weight(999, "ns", to), "999 ns");
	assert_string_equal(text_weight(1000, "ns", to), "1.000 us");
	assert_string_equal(text_weight(12345678, "ns", to), "12.35 ms");
	assert_string_equal(text_weight(999999999, "ns", to), "1.000 s");
	assert_string_equal(text_weight(123456000000ull, "ns", to), "123.5 s");
	assert_string_equal(text_weight(3210000000ull, "cycles", to), "3.210 G");
	assert_string_equal(text_weight(7, "events", to), "7");
}

static void shares_are_0_or_100_only_when_they_are(void **state)
{
	char to[32];

	(void)state;
	assert_string_equal(text_share(0, 10, to), "0.00 %");
	assert_string_equal(text_share(0, 0, to), "0.00 %");
	assert_string_equal(text_share(1, 1000000, to), "< 0.01 %");
	assert_string_equal(text_share(999999, 1000000, to), "> 99.99 %");
	assert_string_equal(text_share(10, 10, to), "100.00 %");
	assert_string_equal(text_share(1, 3, to), "33.33 %");
}

static void html_has_no_tags(void **state)
{
	static const char text[] = "<b a=\"1\" c='2'>&\n\xc3\xa9\xc3";
	_cleanup_(buffer_deinit) struct buffer b = {0};

	(void)state;
	text_html(&b, text, strlen(text));
	buffer_append(&b, "", 1);
	assert_string_equal((const char *)b.data, "&#60;b a=&#34;1&#34; c=&#39;2&#39;&#62;&#38;?"
						  "\xc3\xa9" BAD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_utf8_is_left),
		cmocka_unit_test(no_controls),
		cmocka_unit_test(names_are_cut_in_the_middle),
		cmocka_unit_test(json_strings),
		cmocka_unit_test(json_on_a_stream),
		cmocka_unit_test(csv_fields),
		cmocka_unit_test(numbers),
		cmocka_unit_test(shares_are_0_or_100_only_when_they_are),
		cmocka_unit_test(html_has_no_tags),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
