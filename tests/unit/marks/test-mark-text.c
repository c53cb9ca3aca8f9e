/* test-mark-text.c - lines of trace_marker: each form, its edges, and damaged ones. */
#include <string.h>

#include "marks/mark-text.h"
#include "tests/unit/cmocka.h"

static int parse(const char *text, struct mark *m)
{
	memset(m, 0x55, sizeof(*m));
	return mark_text_parse(text, strlen(text), m);
}

static void check(const char *text, int kind, int pid, const char *track, const char *name,
		  int64_t value)
{
	struct mark m;

	assert_int_equal(parse(text, &m), 0);
	assert_int_equal(m.kind, kind);
	assert_int_equal(m.named_pid, pid);
	assert_int_equal(m.name_len, strlen(name));
	if (m.name_len)
		assert_memory_equal(m.name, name, m.name_len);
	assert_int_equal(m.track_len, strlen(track));
	if (m.track_len)
		assert_memory_equal(m.track, track, m.track_len);
	assert_true(m.value == value);
	assert_int_equal(m.pid, 0);
	assert_int_equal(m.time_ns, 0);
	assert_false(m.left);
}

static void test_forms(void **state)
{
	(void)state;
	check("B|123|draw", MARK_BEGIN, 123, "", "draw", 0);
	check("B|123|a|b\n", MARK_BEGIN, 123, "", "a|b", 0);
	check("B|123|", MARK_BEGIN, 123, "", "", 0);
	check("B||draw", MARK_BEGIN, 0, "", "draw", 0);
	check("E|123", MARK_END, 123, "", "", 0);
	check("E|123|draw", MARK_END, 123, "", "", 0);
	check("E", MARK_END, 0, "", "", 0);
	check("E\n", MARK_END, 0, "", "", 0);
	check("E|", MARK_END, 0, "", "", 0);
	check("I|7|now|then", MARK_INSTANT, 7, "", "now|then", 0);
	check("C|7|queue|-12", MARK_COUNTER, 7, "", "queue", -12);
	check("C|7|queue|12|wm", MARK_COUNTER, 7, "", "queue", 12);
	check("C|7|q|9223372036854775807", MARK_COUNTER, 7, "", "q", INT64_MAX);
	check("C|7|q|-9223372036854775808", MARK_COUNTER, 7, "", "q", INT64_MIN);
	check("S|7|load|99", MARK_ASYNC_BEGIN, 7, "", "load", 99);
	check("F|7|load|99", MARK_ASYNC_END, 7, "", "load", 99);
	check("N|7|frames|janky|1", MARK_TRACK_INSTANT, 7, "frames", "janky|1", 0);
	check("G|7|frames|one|5", MARK_TRACK_BEGIN, 7, "frames", "one", 5);
	check("H|7|frames|5", MARK_TRACK_END, 7, "frames", "", 5);
	check("H|7|frames|one|5", MARK_TRACK_END, 7, "frames", "one", 5);
}

static void test_free_text(void **state)
{
	static const char *const texts[] = {"hello", "BEGIN of it", "b|1|x", "B",
					    "X|1|x", "|",	    " E"};
	struct mark m;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_equal(parse(texts[i], &m), MARK_TEXT_OTHER);
		assert_int_equal(m.kind, MARK_INSTANT);
		assert_int_equal(m.name_len, strlen(texts[i]));
		assert_ptr_equal(m.name, texts[i]);
		assert_int_equal(m.named_pid, 0);
	}
}

static void test_damaged(void **state)
{
	static const char *const texts[] = {
		"",
		"\n",
		"B|",
		"B|1",
		"B|x|y",
		"B|-1|y",
		"B|1 |y",
		"B|2147483648|y",
		"B|99999999999999999999|y",
		"I|1",
		"C|1",
		"C|1|a",
		"C|1|a|",
		"C|1|a|-",
		"C|1|a|1.5",
		"C|1|a|0x5",
		"C|1|a|+-5",
		"C|1|a|9223372036854775808",
		"C|1|a|-9223372036854775809",
		"S|1|a",
		"F|1|a|b",
		"N|1",
		"N|1|t",
		"G|1|t",
		"G|1|t|5",
		"G|1|t|n|x",
		"H|1|t",
		"H|1|t|x",
		"E|x",
	};
	struct mark m;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_equal(parse(texts[i], &m), MARK_TEXT_DAMAGED);
		assert_int_equal(m.kind, 0x55); /* untouched */
	}
}

/* Only @len bytes are read, and none behind a NUL. */
static void test_bounds(void **state)
{
	static const char text[] = "B|1|name|and more";
	char name[MARK_NAME_MAX + 64] = "B|1|";
	struct mark m;

	(void)state;
	assert_int_equal(mark_text_parse(text, 8, &m), 0);
	assert_int_equal(m.name_len, 4);
	assert_int_equal(mark_text_parse("B|1|n\0ame", 9, &m), 0);
	assert_int_equal(m.name_len, 1);
	assert_int_equal(mark_text_parse(text, 1, &m), MARK_TEXT_OTHER);
	assert_int_equal(mark_text_parse("E|1", 1, &m), 0);
	assert_int_equal(mark_text_parse("B|1|x", 3, &m), MARK_TEXT_DAMAGED);
	/* two bytes a character, and the bound within one */
	for (size_t i = 4; i < sizeof(name); i++)
		name[i] = (char)(i % 2 ? 0xc3 : 0xa9);
	assert_int_equal(mark_text_parse(name, sizeof(name), &m), 0);
	assert_int_equal(m.name_len, MARK_NAME_MAX - 1);
	name[4] = 'x';
	memmove(name + 5, name + 6, sizeof(name) - 6);
	assert_int_equal(mark_text_parse(name, sizeof(name) - 1, &m), 0);
	assert_true(m.name_len <= MARK_NAME_MAX && m.name_len >= MARK_NAME_MAX - 1);
	assert_int_equal(m.name[m.name_len - 1] & 0xff, 0xa9); /* whole characters */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),
		cmocka_unit_test(test_free_text),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
