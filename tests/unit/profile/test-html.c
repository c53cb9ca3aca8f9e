/* test-html.c - the data of the page against text written by hand; names that try to leave their
 * place. */
#include <errno.h>

#include "tests/unit/profile/hand.h"

static const char data_begin[] = "<script type=\"application/json\" id=\"data\">";

/* The JSON of the page, in place; the page is cut behind it. */
static char *data_of(char *page)
{
	char *data = strstr(page, data_begin), *end;

	assert_non_null(data);
	data += strlen(data_begin);
	end = strstr(data, "</script>");
	assert_non_null(end);
	*end = 0;
	return data;
}

static void data_is_a_preorder_forest(void **state)
{
	struct profile p = hand_example();
	size_t len;
	char *page, *data;

	(void)state;
	hand_stat(&p, "duration_s", 5);
	hand_note(&p, "first \"note\"");
	page = hand_written(&p, &(struct export_options){.title = "/tmp/x.pftrace"}, export_html,
			    &len);
	data = data_of(page);
	/* base: the groups' means are 10, 20, 5, 7, 1, 2: sorted 1 2 5 7 10 20, the median is 7.
	 * pid 100, tid 100: _start main work tiny | recurse recurse | sys_read; tid 101: [cut]
	 * [libx.so]; pid 200: [no stack] (2) before _start main work tiny (1). */
	assert_string_equal(
		data,
		"{\"title\":\"x.pftrace\",\"event\":\"cpu-clock\",\"unit\":\"ns\",\"base\":7,"
		"\"facts\":["
		"[\"Event\",\"cpu-clock\",0],"
		"[\"Samples\",\"9 over 5.0 s, weight 70 ns\",0],"
		"[\"Stacks\",\"77.78 % whole, 11.11 % cut, 11.11 % without a stack\",1],"
		"[\"Lost\",\"nothing in the rings\",0],"
		"[\"Skipped\",\"1 sample\",1]],"
		"\"notes\":[\"first \\\"note\\\"\"],"
		"\"threads\":[[100,100,0,0,7],[100,101,0,1,2],[200,200,2,2,5]],"
		"\"names\":[\"app\",\"worker;1\",\"other\"],"
		"\"modules\":[\"/kernel\",\"/usr/bin/app\",\"/lib/libx.so\",\"\"],\"kernel\":[0],"
		"\"fn\":[\"_start\",\"main\",\"work\",\"tiny\",\"recurse\",\"sys_read\",\"[cut]\","
		"\"[libx.so]\",\"[no stack]\"],"
		"\"fm\":[1,1,1,1,1,0,-1,2,-1],\"fk\":[0,0,0,0,0,1,2,0,2],"
		"\"up\":[0,0,0,0,2,0,2,0,0,0,1,0,0,0],"
		"\"f\":[0,1,2,-4,4,4,5,6,7,8,0,1,2,-4],"
		"\"c\":[0,0,0,3,0,2,1,0,1,1,0,0,0,1],"
		"\"w\":[0,0,0,9,0,-4,13,0,0,-5,0,0,0,-6]}");
	free(page);
	profile_deinit(&p);
}

/* By node: work and tiny, which is inlined in it, of both processes. */
static void guesses_are_marked(void **state)
{
	struct profile p = hand_example();
	size_t len;
	char *page;

	(void)state;
	p.frames[2].guessed = true;
	page = hand_written(&p, NULL, export_html, &len);
	assert_non_null(strstr(data_of(page), "-6],\"guessed\":[2,3,12,13]}"));
	free(page);
	profile_deinit(&p);
}

static void names_stay_inside(void **state)
{
	static const char evil[] = "</script><script>alert(1)//"
				   "\"\\'\n\t\x01\x7f\xff\xe2\x80\xa8<!--&amp;\xf0\x9f\x94\xa5";
	static const char safe[] =
		"\"\\u003c/script\\u003e\\u003cscript\\u003ealert(1)//\\\"\\\\\\u0027??"
		"??\xef\xbf\xbd?\\u003c!--\\u0026amp;\xf0\x9f\x94\xa5\"";
	struct profile p = hand_empty();
	uint32_t m = hand_module(&p, evil, false), f = hand_frame(&p, m, 1, evil, NULL);
	char *page, *data, *at;
	unsigned n = 0;
	size_t len;

	(void)state;
	hand_thread(&p, hand_process(&p, 1, evil), 2, evil);
	hand_note(&p, evil);
	(void)snprintf(p.event_name, sizeof(p.event_name), "%s", evil);
	hand_sample(&p, 1, 2, HAND_STACK(&p, f), 1);
	page = hand_written(&p, &(struct export_options){.title = "<b>\"&'\x1b"}, export_html,
			    &len);
	assert_int_equal(strlen(page), len);
	assert_non_null(strstr(page, "<title>&#60;b&#62;&#34;&#38;&#39;? - perfwind</title>"));
	data = data_of(page);
	assert_null(strpbrk(data, "<>&'\n\t\x01\x7f"));
	for (at = data; (at = strstr(at, safe)); at++)
		n++;
	assert_int_equal(n, 6); /* event and its fact, note, name (process and thread are one),
				   module, function */
	free(page);
	profile_deinit(&p);
}

static void the_page_is_whole(void **state)
{
	struct profile p = hand_empty();
	size_t len;
	char *page = hand_written(&p, NULL, export_html, &len);

	(void)state;
	assert_memory_equal(page, "<!DOCTYPE html>", 15);
	assert_string_equal(page + len - 8, "</html>\n");
	assert_null(strstr(page, "@TITLE@"));
	assert_null(strstr(page, "@DATA@"));
	assert_null(strstr(page, "@STYLE@"));
	assert_null(strstr(page, "@SCRIPT@"));
	assert_non_null(strstr(page, "flame-page.js"));
	/* Nothing is loaded from anywhere. */
	assert_null(strstr(page, "http://"));
	assert_null(strstr(page, "https://"));
	assert_null(strstr(page, " src="));
	free(page);
	profile_deinit(&p);
}

/* 3,000 calls deep: nothing recurses. */
static void deep_stacks(void **state)
{
	enum { DEPTH = 3000 };
	struct profile p = hand_empty();
	uint32_t m = hand_module(&p, "/m", false), f = hand_frame(&p, m, 1, "f", NULL);
	char *page, *data, *w;
	unsigned n = 0;
	size_t len;

	(void)state;
	p.nodes = calloc(DEPTH, sizeof(*p.nodes));
	assert_non_null(p.nodes);
	for (uint32_t i = 0; i < DEPTH; i++)
		p.nodes[i] = (struct profile_node){i ? i - 1 : UINT32_MAX, f};
	p.n_nodes = DEPTH;
	hand_sample(&p, 1, 1, DEPTH - 1, 5);
	page = hand_written(&p, NULL, export_html, &len);
	data = data_of(page);
	assert_non_null(strstr(data, "\"threads\":[[1,1,0,0,3000]]"));
	w = strstr(data, "\"up\":[");
	assert_non_null(w);
	for (w += 6; *w != ']'; w++)
		n += *w == '0';
	assert_int_equal(n, DEPTH);
	free(page);
	profile_deinit(&p);
}

static void a_full_disk_is_an_error(void **state)
{
	(void)state;
	expect_full_disk(export_html);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(data_is_a_preorder_forest),
		cmocka_unit_test(guesses_are_marked),
		cmocka_unit_test(names_stay_inside),
		cmocka_unit_test(the_page_is_whole),
		cmocka_unit_test(deep_stacks),
		cmocka_unit_test(a_full_disk_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
