/* test-script.c - samples in perf-script(1)'s form. */
#include <errno.h>

#include "profile/script.h"
#include "tests/unit/profile/hand.h"

static char *written(const struct profile *p, const struct profile_filter *only, uint64_t limit)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	assert_int_equal(script_write(p, only, limit, out), 0);
	assert_int_equal(fclose(out), 0);
	return text;
}

/* Behind the module: what stackcollapse-perf.pl and others read ends at its bracket. */
static void guesses_are_marked(void **state)
{
	struct profile p = hand_empty();
	uint32_t m = hand_module(&p, "/m", false), f = hand_frame(&p, m, 1, "f", "tiny"),
		 g = hand_frame(&p, m, 2, "g", NULL);
	char *text;

	(void)state;
	p.frames[f].guessed = true;
	hand_process(&p, 1, "p");
	hand_sample(&p, 1, 1, HAND_STACK(&p, f, g), 1);
	text = written(&p, NULL, 0);
	assert_non_null(strstr(text, "\t               1 tiny (inlined) [guessed]\n"
				     "\t               1 f (/m) [guessed]\n"
				     "\t               2 g (/m)\n\n"));
	free(text);
	profile_deinit(&p);
}

/* An inlined call, a kernel function, a stack that was cut, none at all; what was skipped is not there. */
static void samples(void **state)
{
	struct profile p = hand_example();
	char *text;

	(void)state;
	p.samples[1].cpu = 12;
	text = written(&p, NULL, 2);
	assert_string_equal(text, "app     100/100     [000]     1.500000:         10 cpu-clock: \n"
				  "\t              30 tiny (inlined)\n"
				  "\t              30 work (/usr/bin/app)\n"
				  "\t              20 main (/usr/bin/app)\n"
				  "\t              10 _start (/usr/bin/app)\n"
				  "\n"
				  "app     100/100     [012]     2.000000:         20 cpu-clock: \n"
				  "\t               0 sys_read (/kernel)\n"
				  "\t              20 main (/usr/bin/app)\n"
				  "\t              10 _start (/usr/bin/app)\n"
				  "\n");
	free(text);
	text = written(&p, &(struct profile_filter){.thread = "101"}, 0);
	assert_string_equal(text,
			    "worker;1     100/101     [000]     3.500000:          7 cpu-clock: \n"
			    "\t            1234 [unknown] (/lib/libx.so)\n"
			    "\n");
	free(text);
	text = written(&p, &(struct profile_filter){.pid = 200}, 0);
	assert_non_null(strstr(text, "other     200/200     [000]     5.500000:          2 "
				     "cpu-clock: \n\n"));
	assert_null(strstr(text, "          9 cpu-clock"));
	free(text);
	profile_deinit(&p);
}

static void one_function(void **state)
{
	struct profile p = hand_example();
	char *text = written(&p, &(struct profile_filter){.function = "recurse"}, 0);
	FILE *out = fopen("/dev/null", "we");
	size_t n = 0;

	(void)state;
	for (const char *at = text; (at = strstr(at, "cpu-clock: ")); at++)
		n++;
	assert_int_equal(n, 2);
	assert_null(strstr(text, "tiny"));
	free(text);
	assert_non_null(out);
	assert_int_equal(script_write(&p, &(struct profile_filter){.function = "nowhere"}, 0, out),
			 -ENOENT);
	(void)fclose(out);
	profile_deinit(&p);
}

/* Names are foreign: a paragraph stays one. */
static void foreign_names(void **state)
{
	struct profile p = hand_empty();
	uint32_t f = hand_frame(&p, hand_module(&p, "/m\033", false), 1, "a\n\nb", NULL);
	char *text;

	(void)state;
	hand_process(&p, 1, "x\ny");
	hand_sample(&p, 1, 1, HAND_STACK(&p, f), 1);
	text = written(&p, NULL, 0);
	assert_string_equal(text, "x?y       1/1       [000]     1.500000:          1 cpu-clock: \n"
				  "\t               1 a??b (/m?)\n\n");
	free(text);
	profile_deinit(&p);
}

static void no_samples(void **state)
{
	struct profile p = hand_empty();
	char *text = written(&p, NULL, 0);

	(void)state;
	assert_string_equal(text, "");
	free(text);
	profile_deinit(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples),	cmocka_unit_test(guesses_are_marked),
		cmocka_unit_test(one_function), cmocka_unit_test(foreign_names),
		cmocka_unit_test(no_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
