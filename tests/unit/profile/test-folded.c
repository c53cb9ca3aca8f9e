/* test-folded.c - every line of a hand-built profile; names that would break the format. */
#include <errno.h>

#include "tests/unit/profile/hand.h"

static void assert_folded(const struct profile *p, const struct export_options *options,
			  const char *expected)
{
	size_t len;
	char *text = hand_written(p, options, export_folded, &len);

	assert_string_equal(text, expected);
	free(text);
}

static void counts_are_of_samples(void **state)
{
	struct profile p = hand_example();

	(void)state;
	assert_folded(&p, NULL,
		      "app;_start;main;recurse;recurse 2\n"
		      "app;_start;main;sys_read_[k] 1\n"
		      "app;_start;main;work;tiny 3\n"
		      "other;[no stack] 1\n"
		      "other;_start;main;work;tiny 1\n"
		      "worker:1;[cut];[libx.so] 1\n");
	profile_deinit(&p);
}

static void weights_when_asked_for(void **state)
{
	struct profile p = hand_example();

	(void)state;
	assert_folded(&p, &(struct export_options){.weight = true},
		      "app;_start;main;recurse;recurse 10\n"
		      "app;_start;main;sys_read_[k] 20\n"
		      "app;_start;main;work;tiny 30\n"
		      "other;[no stack] 2\n"
		      "other;_start;main;work;tiny 1\n"
		      "worker:1;[cut];[libx.so] 7\n");
	assert_folded(&p, &(struct export_options){.weight = true, .only.pid = 200},
		      "other;[no stack] 2\n"
		      "other;_start;main;work;tiny 1\n");
	assert_folded(&p, &(struct export_options){.only.pid = 300}, "");
	profile_deinit(&p);
}

/* In all stacks of one path: of other's the compiler made a call. */
static void inlined_when_asked_for(void **state)
{
	struct profile p = hand_example();

	(void)state;
	assert_folded(&p, &(struct export_options){.inlined = true},
		      "app;_start;main;recurse;recurse 2\n"
		      "app;_start;main;sys_read_[k] 1\n"
		      "app;_start;main;work;tiny_[i] 3\n"
		      "other;[no stack] 1\n"
		      "other;_start;main;work;tiny_[i] 1\n"
		      "worker:1;[cut];[libx.so] 1\n");
	profile_deinit(&p);
}

static void only_a_cgroup_and_those_below(void **state)
{
	static const struct {
		const char *cgroup;
		bool app, other;
	} cases[] = {
		{"/a/b", true, true},	   {"/a/b/", true, true},   {"a/b", true, true},
		{"/a", true, true},	   {"/", true, true},	    {"", true, true},
		{"/a/b/c", false, true},   {"/a/", true, true},	    {"/b", false, false},
		{"/a/b/cc", false, false}, {"/a/bb", false, false},
	};
	struct profile p = hand_empty();
	uint32_t f = hand_frame(&p, hand_module(&p, "/m", false), 1, "f", NULL);
	uint32_t stack = HAND_STACK(&p, f);

	(void)state;
	hand_cgroup(&p, hand_process(&p, 1, "app"), "/a/b");
	hand_cgroup(&p, hand_process(&p, 2, "other"), "/a/b/c");
	hand_process(&p, 3, "unknown");
	for (uint32_t pid = 1; pid <= 3; pid++)
		hand_sample(&p, pid, pid, stack, 1);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char expected[64];

		(void)snprintf(expected, sizeof(expected), "%s%s", cases[i].app ? "app;f 1\n" : "",
			       cases[i].other ? "other;f 1\n" : "");
		assert_folded(&p, &(struct export_options){.only.cgroup = cases[i].cgroup},
			      expected);
	}
	profile_deinit(&p);
}

/* Two threads of one name are one line. */
static void equal_lines_are_merged(void **state)
{
	struct profile p = hand_example();

	(void)state;
	p.threads[1].name = hand_string(&p, "other");
	hand_sample(&p, 100, 101, p.samples[0].stack, 3);
	assert_folded(&p, NULL,
		      "app;_start;main;recurse;recurse 2\n"
		      "app;_start;main;sys_read_[k] 1\n"
		      "app;_start;main;work;tiny 3\n"
		      "other;[cut];[libx.so] 1\n"
		      "other;[no stack] 1\n"
		      "other;_start;main;work;tiny 2\n");
	profile_deinit(&p);
}

/* Two incarnations of a pid and two names of a thread are kept apart; a report's row is an incarnation, or a name.
 */
/* A function of several kinds is several; a filter by its name takes all. */
static void kinds_are_apart(void **state)
{
	static const enum frame_kind kinds[] = {FRAME_JAVA_INTERPRETED, FRAME_JAVA_C1,
						FRAME_JAVA_C2,		FRAME_JS,
						FRAME_PYTHON,		FRAME_KINDS};
	struct profile p = hand_empty();
	uint32_t module = hand_module(&p, "/m", false);

	(void)state;
	hand_process(&p, 1, "app");
	for (uint32_t i = 0; kinds[i] != FRAME_KINDS; i++) {
		uint32_t f = hand_frame(&p, module, 1 + i, i < 3 ? "a.Work.run" : "run", NULL);

		p.lines[p.frames[f].first_line].kind = kinds[i];
		hand_sample(&p, 1, 1, HAND_STACK(&p, f), 1);
	}
	assert_folded(&p, NULL,
		      "app;a.Work.run_[0] 1\napp;a.Work.run_[1] 1\napp;a.Work.run_[j] 1\n"
		      "app;run [python] 1\napp;run_[j] 1\n");
	assert_folded(&p, &(struct export_options){.only.function = "a.Work.run"},
		      "app;a.Work.run_[0] 1\napp;a.Work.run_[1] 1\napp;a.Work.run_[j] 1\n");
	assert_folded(&p, &(struct export_options){.only.function = "a.Work.run [java-c2]"},
		      "app;a.Work.run_[j] 1\n");
	assert_folded(&p, &(struct export_options){.only.function = "run"},
		      "app;run [python] 1\napp;run_[j] 1\n");
	profile_deinit(&p);
}

/* The name alone of a method of an interpreter; of native code ".part.0" is no name. */
static void methods_by_name(void **state)
{
	static const struct {
		const char *name;
		enum frame_kind kind;
	} functions[] = {{"K.gen", FRAME_PYTHON},
			 {"K#gen", FRAME_RUBY},
			 {"K.gen", FRAME_NATIVE},
			 {"f.<locals>.gen", FRAME_PYTHON}};
	struct profile p = hand_empty();
	uint32_t module = hand_module(&p, "/m", false);

	(void)state;
	hand_process(&p, 1, "app");
	for (uint32_t i = 0; i < ARRAY_SIZE(functions); i++) {
		uint32_t f = hand_frame(&p, module, 1 + i, functions[i].name, NULL);

		p.lines[p.frames[f].first_line].kind = functions[i].kind;
		hand_sample(&p, 1, 1, HAND_STACK(&p, f), 1);
	}
	assert_folded(&p, &(struct export_options){.only.function = "gen"},
		      "app;K#gen [ruby] 1\napp;K.gen [python] 1\napp;f.<locals>.gen [python] 1\n");
	profile_deinit(&p);
}

static void incarnations_are_separate(void **state)
{
	struct profile p = hand_empty();
	uint32_t f = hand_frame(&p, hand_module(&p, "/m", false), 1, "f", NULL),
		 stack = HAND_STACK(&p, f);
	uint32_t sh = hand_process(&p, 40, "sh");

	(void)state;
	hand_sample(&p, 40, 40, stack, 1);
	hand_thread(&p, sh, 41, "old");
	hand_sample(&p, 40, 41, stack, 1);
	hand_thread(&p, sh, 41, "new");
	hand_sample(&p, 40, 41, stack, 1);
	hand_process(&p, 40, "qsort");
	hand_sample(&p, 40, 40, stack, 1);
	hand_sample(&p, 40, 40, stack, 1);
	assert_folded(&p, NULL, "new;f 1\nold;f 1\nqsort;f 2\nsh;f 1\n");
	assert_folded(&p, &(struct export_options){.only.pid = 40},
		      "new;f 1\nold;f 1\nqsort;f 2\nsh;f 1\n");
	profile_deinit(&p);
}

static void names_cannot_break_lines(void **state)
{
	struct profile p = hand_empty();
	uint32_t m = hand_module(&p, "/a b\n;c", false);
	uint32_t f = hand_frame(&p, m, 1, "f(a;b)\nroot 99\t\x1b[31m\xff\xc3\xa9", NULL);
	uint32_t g = hand_frame(&p, m, 2, NULL, NULL);

	(void)state;
	hand_sample(&p, 1, 1, HAND_STACK(&p, f, g), 1);
	assert_folded(&p, NULL, "pid 1;[a b?:c];f(a:b)?root 99??[31m\xef\xbf\xbd\xc3\xa9 1\n");
	profile_deinit(&p);
}

static void unsymbolized_code_is_called_after_its_module(void **state)
{
	static const char *const paths[] = {"/lib/x.so", "/[vdso]", "", NULL};
	struct profile p = hand_empty();

	(void)state;
	hand_process(&p, 1, "p");
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		uint32_t m = hand_module(&p, paths[i], false);
		uint32_t a = hand_frame(&p, m, 0x10, NULL, NULL),
			 b = hand_frame(&p, m, 0x20, "", NULL);

		hand_sample(&p, 1, 1, HAND_STACK(&p, a), 1);
		hand_sample(&p, 1, 1, HAND_STACK(&p, b), 1);
	}
	hand_sample(&p, 1, 1,
		    HAND_STACK(&p, hand_frame(&p, hand_module(&p, "/kernel", true), 0, NULL, NULL)),
		    1);
	hand_sample(&p, 1, 1, HAND_STACK(&p, hand_frame(&p, UINT32_MAX, 0x30, NULL, NULL)), 1);
	assert_folded(&p, NULL,
		      "p;[kernel]_[k] 1\n"
		      "p;[unknown] 5\n"
		      "p;[vdso] 2\n"
		      "p;[x.so] 2\n");
	profile_deinit(&p);
}

/* A stock service's error frame, and errors without one. */
static void stacks_that_failed_are_marked(void **state)
{
	struct profile p = hand_empty();
	uint32_t m = hand_module(&p, "/app", false);
	uint32_t f = hand_frame(&p, m, 1, "f", NULL),
		 e = hand_frame(&p, UINT32_MAX, 0, "ERROR UNWIND_INFO", NULL);
	uint32_t mine = hand_frame(&p, m, 2, "ERROR X", NULL);
	uint32_t failed = hand_frame(&p, UINT32_MAX, 0, "[failed: no-module]", NULL);

	(void)state;
	hand_process(&p, 1, "p");
	hand_sample(&p, 1, 1, HAND_STACK(&p, f, e), 1);
	hand_sample(&p, 1, 1, HAND_STACK(&p, f), 1)->unwind_error = 6;
	hand_sample(&p, 1, 1, HAND_STACK(&p, f), 1)->unwind_error = 1;
	hand_sample(&p, 1, 1, HAND_STACK(&p, f), 1)->unwind_error = 200;
	hand_sample(&p, 1, 1, HAND_STACK(&p, f, mine),
		    1); /* has a module: a function of that name */
	hand_sample(&p, 1, 1, HAND_STACK(&p, f, failed), 1)->unwind_error = 5;
	assert_folded(&p, NULL,
		      "p;ERROR X;f 1\n"
		      "p;[failed: max-frames-exceeded];f 1\n"
		      "p;[failed: no-module];f 1\n"
		      "p;[failed: unknown];f 1\n"
		      "p;[failed: unwind-info];f 1\n"
		      "p;f 1\n");
	profile_deinit(&p);
}

static void a_full_disk_is_an_error(void **state)
{
	(void)state;
	expect_full_disk(export_folded);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_are_of_samples),
		cmocka_unit_test(weights_when_asked_for),
		cmocka_unit_test(inlined_when_asked_for),
		cmocka_unit_test(only_a_cgroup_and_those_below),
		cmocka_unit_test(equal_lines_are_merged),
		cmocka_unit_test(kinds_are_apart),
		cmocka_unit_test(methods_by_name),
		cmocka_unit_test(incarnations_are_separate),
		cmocka_unit_test(names_cannot_break_lines),
		cmocka_unit_test(unsymbolized_code_is_called_after_its_module),
		cmocka_unit_test(stacks_that_failed_are_marked),
		cmocka_unit_test(a_full_disk_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
