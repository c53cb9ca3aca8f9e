/* test-report.c - whole tables of a hand-built profile, cut to a width, in colour, and with foreign
 * names. */
#include <errno.h>

#include "profile/profile-text.h"
#include "tests/unit/profile/hand.h"

/* The report behind the empty line that ends its head. */
static void assert_report(const struct profile *p, const struct report_options *options,
			  const char *expected)
{
	char *text = NULL, *body;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	assert_int_equal(report_write(p, options, out), 0);
	assert_int_equal(fclose(out), 0);
	body = strstr(text, "\n\n");
	assert_non_null(body);
	assert_string_equal(body + 2, expected);
	free(text);
}

/* No line is wider than the terminal; @text is in one. */
static void assert_fits(const struct profile *p, const struct report_options *options,
			const char *expected)
{
	struct report_options how = *options;
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	how.no_summary = true;
	assert_non_null(out);
	assert_int_equal(report_write(p, &how, out), 0);
	assert_int_equal(fclose(out), 0);
	assert_non_null(strstr(text, expected));
	for (char *save = NULL, *line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save))
		if (text_columns(line, strlen(line)) > (size_t)options->width)
			fail_msg("wider than %d: %s", options->width, line);
	free(text);
}

/* Below a tree that has the mark, and below a table. */
#define LEGEND_OF(what)                                                                      \
	"\n?      " what " is a guess and may be wrong: nothing proved it, as code has no\n" \
	"       unwind information, or memory was read after the sample\n"                   \
	"? N %  the same in N % of the samples\n"
#define LEGEND LEGEND_OF("this call, or one above it,")
#define TABLE_LEGEND LEGEND_OF("each call of this row")

static void functions(void **state)
{
	struct profile p = hand_example();

	(void)state;
	/* recurse recurses: its total is 10, not 20.  Rows by self weight, then total. */
	assert_report(
		&p, &(struct report_options){0},
		" self %      time samples total %      time samples  function        module\n"
		"  44.29     31 ns       4   44.29     31 ns       4  tiny (inlined)  app\n"
		"  28.57     20 ns       1   28.57     20 ns       1  sys_read        kernel\n"
		"  14.29     10 ns       2   14.29     10 ns       2  recurse         app\n"
		"  10.00      7 ns       1   10.00      7 ns       1  [libx.so]       libx.so\n"
		"   2.86      2 ns       1    2.86      2 ns       1  [no stack]\n"
		"   0.00         0       0   87.14     61 ns       7  _start          app\n"
		"   0.00         0       0   87.14     61 ns       7  main            app\n"
		"   0.00         0       0   44.29     31 ns       4  work            app\n"
		"   0.00         0       0   10.00      7 ns       1  [cut]\n");
	assert_report(
		&p, &(struct report_options){.limit = 2, .only.pid = 200},
		" self %      time samples total %      time samples  function        module\n"
		"  66.67      2 ns       1   66.67      2 ns       1  [no stack]\n"
		"  33.33      1 ns       1   33.33      1 ns       1  tiny (inlined)  app\n"
		"... and 3 more (--limit 0 shows all)\n");
	profile_deinit(&p);
}

static void processes_threads_modules(void **state)
{
	struct profile p = hand_example();

	(void)state;
	assert_report(&p, &(struct report_options){.by = REPORT_PROCESS},
		      "      %      time samples        pid  process\n"
		      "  95.71     67 ns       7        100  app\n"
		      "   4.29      3 ns       2        200  other\n");
	assert_report(&p, &(struct report_options){.by = REPORT_THREAD},
		      "      %      time samples        tid  thread              process\n"
		      "  85.71     60 ns       6        100  app                 app\n"
		      "  10.00      7 ns       1        101  worker;1            app\n"
		      "   4.29      3 ns       2        200  other               other\n");
	assert_report(&p, &(struct report_options){.by = REPORT_MODULE},
		      " self %      time samples total %      time samples  module\n"
		      "  58.57     41 ns       6   87.14     61 ns       7  /usr/bin/app\n"
		      "  28.57     20 ns       1   28.57     20 ns       1  /kernel\n"
		      "  10.00      7 ns       1   10.00      7 ns       1  /lib/libx.so\n"
		      "   2.86      2 ns       1    2.86      2 ns       1  [no module]\n");
	profile_deinit(&p);
}

/* A thread without one is unknown; names come from a kernel, so any text. */
static void cgroups(void **state)
{
	struct profile p = hand_example();
	uint32_t third;

	(void)state;
	hand_cgroup(&p, 0, "/system.slice/web.service");
	third = hand_process(&p, 300, "third");
	hand_cgroup(&p, third, "/system.slice/web.service/\033[2Jinner");
	hand_sample(&p, 300, 300, p.samples[0].stack, 30);
	assert_report(&p, &(struct report_options){.by = REPORT_CGROUP},
		      "      %      time samples  cgroup\n"
		      "  67.00     67 ns       7  /system.slice/web.service\n"
		      "  30.00     30 ns       1  /system.slice/web.service/?[2Jinner\n"
		      "   3.00      3 ns       2  [unknown]\n");
	/* 50 columns less 27 of numbers: 23 for the path */
	assert_report(&p, &(struct report_options){.by = REPORT_CGROUP, .width = 50},
		      "      %      time samples  cgroup\n"
		      "  67.00     67 ns       7  /system.slice/w…service\n"
		      "  30.00     30 ns       1  /system.slice/w…2Jinner\n"
		      "   3.00      3 ns       2  [unknown]\n");
	assert_report(&p,
		      &(struct report_options){.by = REPORT_PROCESS,
					       .only.cgroup = "/system.slice/web.service"},
		      "      %      time samples        pid  process\n"
		      "  69.07     67 ns       7        100  app\n"
		      "  30.93     30 ns       1        300  third\n");
	assert_report(&p,
		      &(struct report_options){.by = REPORT_PROCESS,
					       .only = {.cgroup = "/system.slice", .pid = 300}},
		      "      %      time samples        pid  process\n"
		      " 100.00     30 ns       1        300  third\n");
	profile_deinit(&p);
}

/* Why threads wait: the innermost frame of module [wait].  A function that is called like a reason is none. */
static void reasons(void **state)
{
	struct profile p = hand_example();
	uint32_t wait = hand_module(&p, "[wait]", false), other = hand_module(&p, "/x", false);
	uint32_t sleep = hand_frame(&p, wait, 2, "[sleep]", NULL);
	uint32_t running = hand_frame(&p, wait, 11, "[running]", NULL);
	uint32_t no_name = hand_frame(&p, wait, 99, "", NULL);
	uint32_t like = hand_frame(&p, other, 2, "[sleep]", NULL);

	(void)state;
	hand_sample(&p, 100, 100, hand_stack(&p, (uint32_t[]){sleep, p.nodes[0].frame}, 2), 40);
	hand_sample(&p, 100, 100, hand_stack(&p, (uint32_t[]){sleep}, 1), 10);
	hand_sample(&p, 100, 100, hand_stack(&p, (uint32_t[]){running}, 1), 6);
	hand_sample(&p, 100, 100, hand_stack(&p, (uint32_t[]){like}, 1), 4);
	hand_sample(&p, 100, 100, hand_stack(&p, (uint32_t[]){no_name}, 1), 20);
	assert_report(&p, &(struct report_options){.by = REPORT_REASON},
		      "      %      time samples  reason\n"
		      "  53.33     80 ns      11  running\n"
		      "  33.33     50 ns       2  sleep\n"
		      "  13.33     20 ns       1  wait\n");
	profile_deinit(&p);
}

static void tree(void **state)
{
	struct profile p = hand_example();

	(void)state;
	assert_report(&p, &(struct report_options){.tree = true},
		      "total %  self %      time    samples  call\n"
		      "  95.71    0.00     67 ns          7  app (100)\n"
		      "  85.71    0.00     60 ns          6  ├─ _start\n"
		      "  85.71    0.00     60 ns          6  │  main\n"
		      "  42.86    0.00     30 ns          3  │  ├─ work\n"
		      "  42.86   42.86     30 ns          3  │  │  tiny (inlined)\n"
		      "  28.57   28.57     20 ns          1  │  ├─ sys_read\n"
		      "  14.29    0.00     10 ns          2  │  └─ recurse\n"
		      "  14.29   14.29     10 ns          2  │     recurse\n"
		      "  10.00    0.00      7 ns          1  └─ [cut]\n"
		      "  10.00   10.00      7 ns          1     [libx.so]\n"
		      "   4.29    0.00      3 ns          2  other (200)\n"
		      "   2.86    2.86      2 ns          1  ├─ [no stack]\n"
		      "   1.43    0.00      1 ns          1  └─ _start\n"
		      "   1.43    0.00      1 ns          1     main\n"
		      "   1.43    0.00      1 ns          1     work\n"
		      "   1.43    1.43      1 ns          1     tiny (inlined)\n");
	/* A branch that is left out makes no fork. */
	assert_report(&p, &(struct report_options){.tree = true, .min_percent = 30},
		      "total %  self %      time    samples  call\n"
		      "  95.71    0.00     67 ns          7  app (100)\n"
		      "  85.71    0.00     60 ns          6  └─ _start\n"
		      "  85.71    0.00     60 ns          6     main\n"
		      "  42.86    0.00     30 ns          3     work\n"
		      "  42.86   42.86     30 ns          3     tiny (inlined)\n");
	assert_report(&p, &(struct report_options){.tree = true, .limit = 1},
		      "total %  self %      time    samples  call\n"
		      "  95.71    0.00     67 ns          7  app (100)\n"
		      "... and more (--limit 0 shows all, --min-percent leaves out the light)\n");
	profile_deinit(&p);
}

static void guesses_are_marked(void **state)
{
	struct profile p = hand_empty();
	uint32_t m = hand_module(&p, "/jit", false),
		 f = hand_frame(&p, m, 1, "found_by_its_frame_pointer_alone", NULL);
	uint32_t g = hand_frame(&p, m, 2, "main", NULL);

	(void)state;
	p.frames[f].guessed = true;
	hand_process(&p, 1, "p");
	hand_sample(&p, 1, 1, HAND_STACK(&p, f, g), 1);
	assert_report(&p, &(struct report_options){.tree = true},
		      "total %  self %      time    samples  call\n"
		      " 100.00    0.00      1 ns          1  p (1)\n"
		      " 100.00    0.00      1 ns          1  └─ main\n"
		      " 100.00  100.00      1 ns          1     found_by_its_frame_pointer_alone "
		      "?\n" LEGEND);
	/* 72 columns less 38 of numbers, 3 of the mark before and 2 of that behind: 29 for the name
	 */
	assert_report(&p, &(struct report_options){.tree = true, .width = 72},
		      "total %  self %      time    samples  call\n"
		      " 100.00    0.00      1 ns          1  p (1)\n"
		      " 100.00    0.00      1 ns          1  └─ main\n"
		      " 100.00  100.00      1 ns          1     found_by_its_frame_…ter_alone "
		      "?\n" LEGEND);
	/* Narrower: no counts, and 60 less 27, 3 and 2. */
	assert_report(&p, &(struct report_options){.tree = true, .width = 60},
		      "total %  self %      time  call\n"
		      " 100.00    0.00      1 ns  p (1)\n"
		      " 100.00    0.00      1 ns  └─ main\n"
		      " 100.00  100.00      1 ns     found_by_its_frame…ter_alone ?\n" LEGEND);
	profile_deinit(&p);
}

/* A tree that is deeper than a narrow terminal has room for shows its innermost bars. */
static void deep_narrow_tree(void **state)
{
	struct profile p = hand_empty();
	uint32_t m = hand_module(&p, "/app", false), frames[7], deep[8];

	(void)state;
	hand_process(&p, 1, "p");
	for (uint32_t i = 0; i < ARRAY_SIZE(frames); i++) {
		char name[24];

		(void)snprintf(name, sizeof(name), "function_%u", i);
		frames[i] = hand_frame(&p, m, 16 * (i + 1), name, NULL);
		/* Innermost first; each one has a leaf of its own, and so is a fork. */
		for (uint32_t k = 0; k <= i; k++)
			deep[k] = frames[i - k];
		hand_sample(&p, 1, 1, hand_stack(&p, deep, i + 1), 1);
		deep[0] = hand_frame(&p, m, 16 * (i + 1) + 8, "leaf", NULL);
		for (uint32_t k = 0; k <= i; k++)
			deep[k + 1] = frames[i - k];
		hand_sample(&p, 1, 1, hand_stack(&p, deep, i + 2), 1);
	}
	assert_fits(&p, &(struct report_options){.tree = true, .width = 60}, "function_6");
	assert_fits(&p, &(struct report_options){.tree = true, .callers = "leaf", .width = 60},
		    "function_6");
	assert_fits(&p, &(struct report_options){.by = REPORT_THREAD, .width = 60}, "process");
	profile_deinit(&p);
}

/* A call that was guessed in 1 % of its samples or less is not marked; else the share is shown. */
static void shares_of_guesses(void **state)
{
	struct profile p = hand_empty();
	uint32_t m = hand_module(&p, "/jit", false), proved = hand_frame(&p, m, 1, "f", NULL),
		 guessed = hand_frame(&p, m, 2, "f", NULL), g = hand_frame(&p, m, 3, "main", NULL),
		 rare = hand_frame(&p, m, 4, "main", NULL);

	(void)state;
	p.frames[guessed].guessed = p.frames[rare].guessed = true;
	hand_process(&p, 1, "p");
	hand_sample(&p, 1, 1, HAND_STACK(&p, proved, g), 880);
	hand_sample(&p, 1, 1, HAND_STACK(&p, guessed, g), 110);
	hand_sample(&p, 1, 1, HAND_STACK(&p, guessed, rare), 10);
	assert_report(&p, &(struct report_options){.tree = true},
		      "total %  self %      time    samples  call\n"
		      " 100.00    0.00  1.000 us          3  p (1)\n"
		      " 100.00    0.00  1.000 us          3  └─ main\n"
		      " 100.00  100.00  1.000 us          3     f ? 12 %\n" LEGEND);
	profile_deinit(&p);
}

/* Many short processes of one name are one row and one branch; --by pid separates them. */
static void processes_of_one_name(void **state)
{
	struct profile p = hand_empty();
	uint32_t f = hand_frame(&p, hand_module(&p, "/m", false), 1, "f", NULL),
		 stack = HAND_STACK(&p, f);

	(void)state;
	hand_process(&p, 10, "sh");
	hand_process(&p, 11, "cc");
	hand_process(&p, 12, "sh");
	hand_process(&p, 13, "sh");
	hand_process(&p, 14, NULL); /* no name: alone */
	hand_process(&p, 15, NULL);
	hand_process(&p, 16, "sh"); /* no sample */
	for (uint32_t pid = 10; pid < 16; pid++)
		hand_sample(&p, pid, pid, stack, pid == 11 ? 5 : 1);
	hand_sample(&p, 10, 10, stack, 2);
	assert_report(&p, &(struct report_options){.by = REPORT_PROCESS},
		      "      %      time samples        pid  process\n"
		      "  41.67      5 ns       4        x 3  sh\n"
		      "  41.67      5 ns       1         11  cc\n"
		      "   8.33      1 ns       1         14  pid 14\n"
		      "   8.33      1 ns       1         15  pid 15\n");
	assert_report(&p, &(struct report_options){.by = REPORT_PID, .limit = 3},
		      "      %      time samples        pid  process\n"
		      "  41.67      5 ns       1         11  cc\n"
		      "  25.00      3 ns       2         10  sh\n"
		      "   8.33      1 ns       1         12  sh\n"
		      "... and 3 more (--limit 0 shows all)\n");
	assert_report(&p, &(struct report_options){.tree = true, .limit = 4},
		      "total %  self %      time    samples  call\n"
		      "  41.67    0.00      5 ns          4  sh (3 processes)\n"
		      "  41.67   41.67      5 ns          4  └─ f\n"
		      "  41.67    0.00      5 ns          1  cc (11)\n"
		      "  41.67   41.67      5 ns          1  └─ f\n"
		      "... and more (--limit 0 shows all, --min-percent leaves out the light)\n");
	profile_deinit(&p);
}

/* The columns of weights have the name of their unit, also in a tree. */
static void units_of_heads(void **state)
{
	struct profile p = hand_empty();
	uint32_t f = hand_frame(&p, hand_module(&p, "/m", false), 1, "f", NULL);

	(void)state;
	(void)snprintf(p.weight_unit, sizeof(p.weight_unit), "cycles");
	hand_process(&p, 1, "p");
	hand_sample(&p, 1, 1, HAND_STACK(&p, f), 7);
	assert_report(&p, &(struct report_options){.tree = true},
		      "total %  self %    cycles    samples  call\n"
		      " 100.00    0.00         7          1  p (1)\n"
		      " 100.00  100.00         7          1  └─ f\n");
	profile_deinit(&p);
}

static void order(void **state)
{
	struct profile p = hand_example();

	(void)state;
	assert_report(
		&p, &(struct report_options){.sort = REPORT_SORT_TOTAL, .limit = 3},
		" self %      time samples total %      time samples  function        module\n"
		"   0.00         0       0   87.14     61 ns       7  _start          app\n"
		"   0.00         0       0   87.14     61 ns       7  main            app\n"
		"  44.29     31 ns       4   44.29     31 ns       4  tiny (inlined)  app\n"
		"... and 6 more (--limit 0 shows all)\n");
	/* Rows that are light in all are left out, whatever the order. */
	assert_report(&p, &(struct report_options){.sort = REPORT_SORT_TOTAL, .min_percent = 50},
		      " self %      time samples total %      time samples  function  module\n"
		      "   0.00         0       0   87.14     61 ns       7  _start    app\n"
		      "   0.00         0       0   87.14     61 ns       7  main      app\n");
	assert_report(&p, &(struct report_options){.by = REPORT_PROCESS, .min_percent = 10},
		      "      %      time samples        pid  process\n"
		      "  95.71     67 ns       7        100  app\n");
	assert_report(&p, &(struct report_options){.sort = REPORT_SORT_NAME, .limit = 2},
		      " self %      time samples total %      time samples  function   module\n"
		      "   0.00         0       0   10.00      7 ns       1  [cut]\n"
		      "  10.00      7 ns       1   10.00      7 ns       1  [libx.so]  libx.so\n"
		      "... and 7 more (--limit 0 shows all)\n");
	assert_report(&p,
		      &(struct report_options){
			      .sort = REPORT_SORT_SAMPLES, .limit = 2, .by = REPORT_PROCESS},
		      "      %      time samples        pid  process\n"
		      "  95.71     67 ns       7        100  app\n"
		      "   4.29      3 ns       2        200  other\n");
	profile_deinit(&p);
}

/* recurse calls itself: each of its stacks counts once, from its innermost call outwards, from its outermost
 * inwards. */
static void one_function(void **state)
{
	struct profile p = hand_example();

	(void)state;
	assert_report(&p, &(struct report_options){.callers = "tiny"},
		      "total %  self %      time    samples  called by\n"
		      "  44.29   44.29     31 ns          4  tiny (inlined)\n"
		      "  44.29    0.00     31 ns          4  work\n"
		      "  44.29    0.00     31 ns          4  main\n"
		      "  44.29    0.00     31 ns          4  _start\n");
	assert_report(&p, &(struct report_options){.callers = "recurse", .max_depth = 2},
		      "total %  self %      time    samples  called by\n"
		      "  14.29   14.29     10 ns          2  recurse\n"
		      "  14.29    0.00     10 ns          2  recurse\n");
	assert_report(&p, &(struct report_options){.callees = "recurse"},
		      "total %  self %      time    samples  call\n"
		      "  14.29    0.00     10 ns          2  recurse\n"
		      "  14.29   14.29     10 ns          2  recurse\n");
	assert_report(&p, &(struct report_options){.callees = "main", .max_depth = 2},
		      "total %  self %      time    samples  call\n"
		      "  87.14    0.00     61 ns          7  main\n"
		      "  44.29    0.00     31 ns          4  ├─ work\n"
		      "  28.57   28.57     20 ns          1  ├─ sys_read\n"
		      "  14.29    0.00     10 ns          2  └─ recurse\n");
	profile_deinit(&p);
}

static void no_such_function(void **state)
{
	struct profile p = hand_example();
	FILE *out = fopen("/dev/null", "we");

	(void)state;
	assert_non_null(out);
	p.memory = calloc(1, sizeof(*p.memory));
	assert_non_null(p.memory);
	p.memory->limit = UINT64_MAX;
	p.memory->scale = 100 << 20;
	assert_int_equal(report_write(&p, &(struct report_options){.callers = "recusre"}, out),
			 -ENOENT);
	assert_string_equal(profile_strerror(&p, -ENOENT),
			    "no stack has a function 'recusre'; did you mean recurse?");
	assert_int_equal(report_write(&p, &(struct report_options){.callers = "nothing"}, out),
			 -ENOENT);
	assert_string_equal(profile_strerror(&p, -ENOENT),
			    "no stack has a function 'nothing'; hint: perfwind report FILE lists "
			    "the functions");
	(void)fclose(out);
	profile_deinit(&p);
}

/* A name is found without its parameters, and by its last part. */
static void names_that_are_meant(void **state)
{
	static const struct {
		const char *name, *wanted;
		bool found;
	} names[] = {
		{"f(int)", "f", true},
		{"ns::type<int, std::less<int> >::push(int const&)", "push", true},
		{"ns::type<int, std::less<int> >::push(int const&)", "type::push", true},
		{"ns::type<int, std::less<int> >::push(int const&)", "ns::type", false},
		{"f(int)::{lambda(char)#1}::operator()(char) const", "f", false},
		{"ns::type::push(int const&)", "push", true},
		{"ns::type::push(int const&)", "ns::type::push", true},
		{"(anonymous namespace)::helper(char*)", "helper", true},
		{"ns::f(char const (&) [6])", "f", true},
		{"ns::f(char const (&) [6])", "ns::f", true},
		{"f(char (&) [5]) [clone .cold]", "f", true},
		{"f [clone .cold]", "f", true},
		{"f [clone .cold]", "cold", false},
		{"pushes", "push", false},
		{"g", "", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct profile p = hand_empty();
		uint32_t f = hand_frame(&p, hand_module(&p, "/m", false), 1, names[i].name, NULL);
		struct report_options o = {.only.function = names[i].wanted};
		FILE *out = fopen("/dev/null", "we");

		hand_process(&p, 1, "p");
		hand_sample(&p, 1, 1, HAND_STACK(&p, f), 1);
		assert_int_equal(report_write(&p, &o, out), names[i].found ? 0 : -ENOENT);
		(void)fclose(out);
		profile_deinit(&p);
	}
}

/* 60 of app's 67 ns are of the thread 100, and so on: each filter by what it leaves. */
static void filters(void **state)
{
	struct profile p = hand_example();
	const struct {
		struct profile_filter only;
		const char *rows;
	} cases[] = {
		{{.thread = "100"}, " 100.00     60 ns       6        100  app\n"},
		{{.thread = "worker;1"}, " 100.00      7 ns       1        100  app\n"},
		{{.comm = "other"}, " 100.00      3 ns       2        200  other\n"},
		{{.comm = "worker;1"}, " 100.00      7 ns       1        100  app\n"},
		{{.function = "recurse"}, " 100.00     10 ns       2        100  app\n"},
		{{.by_cpu = true, .cpus = {4}}, " 100.00      5 ns       1        100  app\n"},
		/* samples are half a second apart, the first at 0 */
		{{.by_time = true, .from = 500000000, .to = 1500000000},
		 " 100.00     30 ns       2        100  app\n"},
		{{.by_time = true, .from = 4000000000ull, .to = UINT64_MAX},
		 " 100.00      2 ns       1        200  other\n"},
	};

	(void)state;
	p.samples[3].cpu = 2;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char expected[256];

		(void)snprintf(expected, sizeof(expected),
			       "      %%      time samples        pid  process\n%s", cases[i].rows);
		assert_report(&p,
			      &(struct report_options){.by = REPORT_PROCESS, .only = cases[i].only},
			      expected);
	}
	profile_deinit(&p);
}

static char *written(const struct profile *p, const struct report_options *options)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	assert_int_equal(report_write(p, options, out), 0);
	assert_int_equal(fclose(out), 0);
	return text;
}

static void assert_data(const struct profile *p, const struct report_options *options,
			const char *expected)
{
	char *text = written(p, options);

	assert_string_equal(text, expected);
	free(text);
}

/* A branch below a guess is a guess, whatever proves its own calls; among callers and callees, what is above in that tree. */
static void guesses_above(void **state)
{
	struct profile p = hand_empty();
	uint32_t m = hand_module(&p, "/jit", false), leaf = hand_frame(&p, m, 1, "leaf", NULL),
		 mid = hand_frame(&p, m, 2, "mid", NULL), top = hand_frame(&p, m, 3, "top", NULL),
		 wrong = hand_frame(&p, m, 4, "top", NULL),
		 own = hand_frame(&p, m, 5, "leaf", NULL);

	(void)state;
	p.frames[wrong].guessed = p.frames[own].guessed = true;
	hand_process(&p, 1, "p");
	hand_sample(&p, 1, 1, HAND_STACK(&p, leaf, mid, top), 60);
	hand_sample(&p, 1, 1, HAND_STACK(&p, leaf, mid, wrong), 20);
	hand_sample(&p, 1, 1, HAND_STACK(&p, own, mid, wrong), 20);
	assert_report(&p, &(struct report_options){.tree = true},
		      "total %  self %      time    samples  call\n"
		      " 100.00    0.00    100 ns          3  p (1)\n"
		      " 100.00    0.00    100 ns          3  └─ top ? 40 %\n"
		      " 100.00    0.00    100 ns          3     mid ? 40 %\n"
		      " 100.00  100.00    100 ns          3     leaf ? 40 %\n" LEGEND);
	assert_report(&p, &(struct report_options){.tree = true, .callees = "mid"},
		      "total %  self %      time    samples  call\n"
		      " 100.00    0.00    100 ns          3  mid\n"
		      " 100.00  100.00    100 ns          3  leaf ? 20 %\n" LEGEND);
	assert_report(&p, &(struct report_options){.tree = true, .callers = "leaf"},
		      "total %  self %      time    samples  called by\n"
		      " 100.00  100.00    100 ns          3  leaf ? 20 %\n"
		      " 100.00    0.00    100 ns          3  mid ? 20 %\n"
		      " 100.00    0.00    100 ns          3  top ? 40 %\n" LEGEND);
	assert_data(&p, &(struct report_options){.form = REPORT_CSV, .tree = true},
		    "depth,kind,name,module,inlined,frame_kind,guessed_percent,"
		    "path_guessed_percent,self_percent,self,self_samples,total_percent,total,"
		    "total_samples\r\n"
		    "0,\"process\",\"p\",\"\",false,\"\",0.000,0.000,0.000,0,0,100.000,100,3\r\n"
		    "1,\"call\",\"top\",\"/"
		    "jit\",false,\"native\",40.000,40.000,0.000,0,0,100.000,100,3\r\n"
		    "2,\"call\",\"mid\",\"/"
		    "jit\",false,\"native\",0.000,40.000,0.000,0,0,100.000,100,3\r\n"
		    "3,\"call\",\"leaf\",\"/"
		    "jit\",false,\"native\",20.000,40.000,100.000,100,3,100.000,100,3\r\n");
	profile_deinit(&p);
}

/* A row's share: of the samples in which each of its calls is a guess. */
static void guesses_of_rows(void **state)
{
	struct profile p = hand_empty();
	uint32_t m = hand_module(&p, "/jit", false), proved = hand_frame(&p, m, 1, "f", NULL),
		 guessed = hand_frame(&p, m, 2, "f", NULL),
		 always = hand_frame(&p, hand_module(&p, "/lib", false), 3, "g", "tiny"),
		 rare = hand_frame(&p, m, 4, "h", NULL), often = hand_frame(&p, m, 5, "h", NULL);

	(void)state;
	p.frames[guessed].guessed = p.frames[always].guessed = p.frames[rare].guessed = true;
	hand_process(&p, 1, "p");
	hand_sample(&p, 1, 1, HAND_STACK(&p, proved, guessed), 500); /* either order */
	hand_sample(&p, 1, 1, HAND_STACK(&p, guessed, proved), 330);
	hand_sample(&p, 1, 1, HAND_STACK(&p, guessed, guessed), 170);
	hand_sample(&p, 1, 1, HAND_STACK(&p, always), 1000);
	hand_sample(&p, 1, 1, HAND_STACK(&p, rare), 1);
	hand_sample(&p, 1, 1, HAND_STACK(&p, often), 999);
	assert_report(
		&p, &(struct report_options){.sort = REPORT_SORT_NAME},
		" self %      time samples total %      time samples  function          module\n"
		"  33.33  1.000 us       3   33.33  1.000 us       3  f ? 17 %          jit\n"
		"   0.00         0       0   33.33  1.000 us       1  g ?               lib\n"
		"  33.33  1.000 us       2   33.33  1.000 us       2  h                 jit\n"
		"  33.33  1.000 us       1   33.33  1.000 us       1  tiny (inlined) ?  "
		"lib\n" TABLE_LEGEND);
	assert_report(&p, &(struct report_options){.by = REPORT_MODULE, .width = 120},
		      " self %      time samples total %      time samples  module\n"
		      "  66.67  2.000 us       5   66.67  2.000 us       5  /jit ? 9 %\n"
		      "  33.33  1.000 us       1   33.33  1.000 us       1  /lib ?\n" TABLE_LEGEND);
	assert_data(&p,
		    &(struct report_options){.by = REPORT_MODULE, .form = REPORT_CSV, .limit = 1},
		    "module,guessed_percent,self_percent,self,self_samples,total_percent,total,"
		    "total_samples\r\n"
		    "\"/jit\",8.550,66.667,2000,5,66.667,2000,5\r\n");
	assert_report(&p, &(struct report_options){.by = REPORT_PROCESS},
		      "      %      time samples        pid  process\n"
		      " 100.00  3.000 us       6          1  p\n");
	profile_deinit(&p);
}

static void data_for_programs(void **state)
{
	struct profile p = hand_example();

	(void)state;
	assert_data(&p, &(struct report_options){.form = REPORT_JSON, .limit = 2},
		    "{\"event\": \"cpu-clock\", \"unit\": \"ns\", \"samples\": 9, \"weight\": 70, "
		    "\"duration_s\": 4.500, \"rows\": [\n"
		    "{\"function\": \"tiny\", \"module\": \"/usr/bin/app\", \"inlined\": true, "
		    "\"frame_kind\": \"inlined\", \"guessed_percent\": 0.000, \"self_percent\": "
		    "44.286, \"self\": 31, "
		    "\"self_samples\": 4, "
		    "\"total_percent\": 44.286, \"total\": 31, \"total_samples\": 4},\n"
		    "{\"function\": \"sys_read\", \"module\": \"/kernel\", \"inlined\": false, "
		    "\"frame_kind\": \"kernel\", \"guessed_percent\": 0.000, \"self_percent\": "
		    "28.571, \"self\": 20, "
		    "\"self_samples\": 1, "
		    "\"total_percent\": 28.571, \"total\": 20, \"total_samples\": 1}\n]}\n");
	assert_data(
		&p,
		&(struct report_options){.form = REPORT_CSV, .by = REPORT_THREAD, .only.pid = 100},
		"thread,tid,pid,process,self_percent,self,self_samples,total_percent,total,"
		"total_samples\r\n"
		"\"app\",100,100,\"app\",89.552,60,6,89.552,60,6\r\n"
		"\"worker;1\",101,100,\"app\",10.448,7,1,10.448,7,1\r\n");
	assert_data(
		&p,
		&(struct report_options){
			.form = REPORT_CSV, .tree = true, .only.pid = 200, .max_depth = 3},
		"depth,kind,name,module,inlined,frame_kind,guessed_percent,"
		"path_guessed_percent,self_percent,self,self_samples,"
		"total_percent,total,total_samples\r\n"
		"0,\"process\",\"other\",\"\",false,\"\",0.000,0.000,0.000,0,0,100.000,3,2\r\n"
		"1,\"call\",\"[no stack]\",\"\",false,\"\",0.000,0.000,66.667,2,1,66.667,2,1\r\n"
		"1,\"call\",\"_start\",\"/usr/bin/"
		"app\",false,\"native\",0.000,0.000,0.000,0,0,33.333,1,1\r\n"
		"2,\"call\",\"main\",\"/usr/bin/"
		"app\",false,\"native\",0.000,0.000,0.000,0,0,33.333,1,1\r\n");
	profile_deinit(&p);
}

/* Quotes are doubled, controls are not passed on. */
static void names_in_csv(void **state)
{
	struct profile p = hand_empty();
	uint32_t f = hand_frame(&p, hand_module(&p, "/m", false), 1, "a\"b,\n\033c", NULL);

	(void)state;
	hand_process(&p, 1, "p");
	hand_sample(&p, 1, 1, HAND_STACK(&p, f), 1);
	assert_data(&p, &(struct report_options){.form = REPORT_CSV},
		    "function,module,inlined,frame_kind,guessed_percent,self_percent,self,self_"
		    "samples,total_"
		    "percent,total,"
		    "total_samples\r\n\"a\"\"b,??c\",\"/"
		    "m\",false,\"native\",0.000,100.000,1,1,100.000,1,1\r\n");
	profile_deinit(&p);
}

/* One pid, two incarnations, and a thread under two names. */
static void incarnations_have_separate_rows(void **state)
{
	struct profile p = hand_empty();
	uint32_t f = hand_frame(&p, hand_module(&p, "/m", false), 1, "f", NULL),
		 stack = HAND_STACK(&p, f);
	uint32_t sh = hand_process(&p, 40, "sh");

	(void)state;
	hand_thread(&p, sh, 41, "old");
	hand_sample(&p, 40, 41, stack, 5);
	hand_thread(&p, sh, 41, "new");
	hand_sample(&p, 40, 41, stack, 1);
	hand_process(&p, 40, "qsort");
	hand_sample(&p, 40, 40, stack, 4);
	assert_report(&p, &(struct report_options){.by = REPORT_PROCESS},
		      "      %      time samples        pid  process\n"
		      "  60.00      6 ns       2         40  sh\n"
		      "  40.00      4 ns       1         40  qsort\n");
	assert_report(&p, &(struct report_options){.by = REPORT_THREAD},
		      "      %      time samples        tid  thread              process\n"
		      "  50.00      5 ns       1         41  old                 sh\n"
		      "  40.00      4 ns       1         40  qsort               qsort\n"
		      "  10.00      1 ns       1         41  new                 sh\n");
	profile_deinit(&p);
}

static void names_are_cut_and_cleaned(void **state)
{
	struct profile p = hand_empty();
	uint32_t m = hand_module(&p, "/lib/\033[2Jx.so", false);
	uint32_t f = hand_frame(
		&p, m, 1, "std::vector<int, std::allocator<int> >::push_back(int const&)", NULL);

	(void)state;
	hand_process(&p, 1, "p");
	hand_sample(&p, 1, 1, HAND_STACK(&p, f), 1);
	/* 100 columns less 25 of self, 18 of total, 2, 2 + 8 of the module: 45 for the name; no
	 * second count. */
	assert_report(&p, &(struct report_options){.width = 100},
		      " self %      time samples total %      time  function                       "
		      "                module\n"
		      " 100.00      1 ns       1  100.00      1 ns  std::vector<int, "
		      "std::allocato…ck(int const&)  ?[2Jx.so\n");
	profile_deinit(&p);
}

static void colours_only_when_asked_for(void **state)
{
	struct profile p = hand_empty();
	uint32_t f = hand_frame(&p, hand_module(&p, "/kernel", true), 0, "k", NULL);

	(void)state;
	hand_process(&p, 1, "p");
	hand_sample(&p, 1, 1, HAND_STACK(&p, f), 1);
	assert_report(&p, &(struct report_options){.by = REPORT_PROCESS, .colour = true},
		      "\033[2m      %      time samples\033[0m\033[2m        pid  process\033[0m\n"
		      "\033[31m 100.00\033[0m      1 ns       1  \033[2m        1  "
		      "\033[0m\033[1mp\033[0m\n");
	profile_deinit(&p);
}

static void head_and_errors(void **state)
{
	struct profile p = hand_example();
	FILE *full = fopen("/dev/full", "we"), *out;
	char *text = NULL;
	size_t len;

	(void)state;
	hand_note(&p, "bad\033note");
	out = open_memstream(&text, &len);
	assert_non_null(out);
	assert_int_equal(report_write(&p, &(struct report_options){0}, out), 0);
	assert_int_equal(fclose(out), 0);
	assert_non_null(strstr(
		text, "Event           cpu-clock\nSamples         9 over 4.5 s, weight 70 ns\n"));
	assert_non_null(strstr(text, "\nNote            bad?note\n\n"));
	free(text);
	if (full) {
		assert_int_equal(report_write(&p, &(struct report_options){0}, full), -ENOSPC);
		(void)fclose(full);
	}
	profile_deinit(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions),
		cmocka_unit_test(processes_threads_modules),
		cmocka_unit_test(cgroups),
		cmocka_unit_test(reasons),
		cmocka_unit_test(tree),
		cmocka_unit_test(guesses_are_marked),
		cmocka_unit_test(deep_narrow_tree),
		cmocka_unit_test(shares_of_guesses),
		cmocka_unit_test(guesses_above),
		cmocka_unit_test(guesses_of_rows),
		cmocka_unit_test(processes_of_one_name),
		cmocka_unit_test(units_of_heads),
		cmocka_unit_test(order),
		cmocka_unit_test(one_function),
		cmocka_unit_test(no_such_function),
		cmocka_unit_test(names_that_are_meant),
		cmocka_unit_test(filters),
		cmocka_unit_test(data_for_programs),
		cmocka_unit_test(names_in_csv),
		cmocka_unit_test(incarnations_have_separate_rows),
		cmocka_unit_test(names_are_cut_and_cleaned),
		cmocka_unit_test(colours_only_when_asked_for),
		cmocka_unit_test(head_and_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
