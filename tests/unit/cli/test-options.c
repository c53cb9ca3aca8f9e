/* test-options.c - each form of an option, each kind of wrong usage, and what --help prints.
 * What is logged goes to standard error, which is a file here. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "cli/options.h"
#include "base/log.h"
#include "tests/unit/capture.h"

struct values {
	bool flag;
	uint32_t count, small, choice;
	uint64_t number;
	double real, time;
	const char *string;
	char called[64]; /* every value, a comma behind */
};

static int call(void *to, const char *value)
{
	char *called = to;
	size_t len = strlen(called);

	if (value && !strcmp(value, "bad")) {
		log_error("said so itself");
		return -EINVAL;
	}
	if (value && !strcmp(value, "gone"))
		return -ENOENT;
	(void)snprintf(called + len, 64 - len, "%s,", value ? value : "(none)");
	return 0;
}

static bool is_lower(const char *word)
{
	return *word >= 'a' && *word <= 'z';
}

static const char *const choices[] = {"red", "green", "blue", NULL};
#define AT(member) .offset = offsetof(struct values, member)
static const struct option_def defs[] = {
	{.name = "flag", .letter = 'f', .type = OPTION_FLAG, AT(flag), .help = "a flag"},
	{.name = "count",
	 .letter = 'c',
	 .type = OPTION_COUNT,
	 AT(count),
	 .help = "again and again"},
	{.name = "small",
	 .letter = 's',
	 .type = OPTION_U32,
	 .argument = "N",
	 .max = 100,
	 AT(small),
	 .help = "up to 100"},
	{.name = "number",
	 .letter = 'n',
	 .type = OPTION_U64,
	 .argument = "N",
	 AT(number),
	 .help = "any"},
	{.name = "real",
	 .letter = 'r',
	 .type = OPTION_DOUBLE,
	 .argument = "X",
	 .max = 1000,
	 AT(real),
	 .help = "real"},
	{.name = "time",
	 .type = OPTION_TIME,
	 .unit = "ms",
	 .argument = "MS",
	 .max = 5000,
	 AT(time),
	 .help = "a time"},
	{.name = "string",
	 .letter = 't',
	 .type = OPTION_STRING,
	 .argument = "TEXT",
	 AT(string),
	 .help = "text"},
	{.name = "colour",
	 .type = OPTION_CHOICE,
	 .argument = "COLOUR",
	 .choices = choices,
	 AT(choice),
	 .help = "which"},
	{.name = "call",
	 .letter = 'x',
	 .type = OPTION_CALL,
	 .argument = "V",
	 .call = call,
	 AT(called),
	 .help = "a text so long that it does not fit into one line and is broken at a blank, "
		 "under its beginning"},
	{.name = "bare", .type = OPTION_CALL, .call = call, AT(called), .help = "no value"},
	{.name = "secret", .type = OPTION_FLAG, AT(flag)},
	{0},
};
static const struct option_def foreign[] = {
	{.name = "graph",
	 .letter = 'g',
	 .type = OPTION_CALL,
	 .argument = "MODE",
	 .call = call,
	 .accepts = is_lower,
	 AT(called)},
	{.name = "silent", .letter = 'z', .type = OPTION_WITHOUT_EFFECT},
	{.name = "stat",
	 .letter = 'S',
	 .type = OPTION_WITHOUT_EFFECT,
	 .argument = "X",
	 .note = "has no effect"},
	{.name = "wait", .letter = 'w', .type = OPTION_REFUSED, .note = "use --call"},
	/* The command's own comes first. */
	{.name = "flag", .type = OPTION_REFUSED, .note = "hidden by the command's own"},
	{0},
};
static const struct options any = {.command = "test",
				   .usage = "[OPTIONS] FILE...",
				   .defs = defs,
				   .foreign = foreign,
				   .max_arguments = -1};

/* Parses the words, which end with a NULL. */
static int parse(const struct options *o, struct values *v, char **argv, int *ret_n)
{
	int argc = 0;

	while (argv[argc])
		argc++;
	*v = (struct values){0};
	log_level = LOG_LEVEL_NORMAL;
	return options_parse(o, argc, argv, v, ret_n);
}
#define WORDS(...) ((char *[]){(char[]){"test"}, __VA_ARGS__, NULL})
#define W(text) ((char[]){text})

static void every_form(void **state)
{
	struct values v;
	int n;

	(void)state;
	assert_int_equal(
		parse(&any, &v,
		      WORDS(W("--small=7"), W("--number"), W("18446744073709551615"), W("-r0.5"),
			    W("-t"), W("a=b"), W("--colour=blue"), W("--flag")),
		      &n),
		0);
	assert_int_equal(n, 0);
	assert_int_equal(v.small, 7);
	assert_true(v.number == UINT64_MAX);
	assert_true(v.real == 0.5);
	assert_int_equal(parse(&any, &v, WORDS(W("--time=1.5")), &n), 0);
	assert_true(v.time == 1.5);
	assert_int_equal(parse(&any, &v, WORDS(W("--time"), W("2s")), &n), 0);
	assert_true(v.time == 2000);
	assert_int_equal(parse(&any, &v, WORDS(W("--time=0.0")), &n), 0);
	assert_true(v.time == 0);
	assert_int_equal(
		parse(&any, &v,
		      WORDS(W("--small=7"), W("--number"), W("18446744073709551615"), W("-r0.5"),
			    W("-t"), W("a=b"), W("--colour=blue"), W("--flag")),
		      &n),
		0);
	assert_string_equal(v.string, "a=b");
	assert_int_equal(v.choice, 2);
	assert_true(v.flag);
	assert_int_equal(
		parse(&any, &v,
		      WORDS(W("-fccs"), W("100"), W("-c"), W("--string=--x"), W("--string=")), &n),
		-EINVAL);
	assert_int_equal(
		parse(&any, &v, WORDS(W("-fccs"), W("100"), W("-c"), W("--string=x=y")), &n), 0);
	assert_true(v.flag);
	assert_int_equal(v.count, 3);
	assert_int_equal(v.small, 100);
	assert_string_equal(v.string, "x=y");
	assert_int_equal(parse(&any, &v, WORDS(W("-s1"), W("-s2")), &n), 0);
	assert_int_equal(v.small, 2);
	assert_int_equal(parse(&any, &v,
			       WORDS(W("-xa"), W("--call"), W("b"), W("--bare"), W("--call=")), &n),
			 0);
	assert_string_equal(v.called, "a,b,(none),,");
	assert_int_equal(parse(&any, &v, WORDS(W("--secret")), &n), 0);
	assert_true(v.flag);
	/* Standard output, a value of the same word, and a word that is not an option. */
	assert_int_equal(
		parse(&any, &v,
		      WORDS(W("-x"), W("-"), W("-x-f"), W("--call=--flag"), W("-x"), W("-[A b]")),
		      &n),
		0);
	assert_string_equal(v.called, "-,-f,--flag,-[A b],");
	assert_false(v.flag);
}

static void arguments_are_collected(void **state)
{
	struct values v;
	char **argv = WORDS(W("one"), W("-f"), W("two"), W("-"), W("--"), W("-c"), W("--flag"));
	struct options stop = any;
	int n;

	(void)state;
	assert_int_equal(parse(&any, &v, argv, &n), 0);
	assert_int_equal(n, 5);
	assert_string_equal(argv[0], "one");
	assert_string_equal(argv[1], "two");
	assert_string_equal(argv[2], "-");
	assert_string_equal(argv[3], "-c");
	assert_string_equal(argv[4], "--flag");
	assert_null(argv[5]);
	assert_true(v.flag);
	assert_int_equal(v.count, 0);

	stop.stop_at_argument = true;
	argv = WORDS(W("-f"), W("cmd"), W("-c"), W("--"), W("--unknown"));
	assert_int_equal(parse(&stop, &v, argv, &n), 0);
	assert_int_equal(n, 4);
	assert_string_equal(argv[0], "cmd");
	assert_string_equal(argv[2], "--");
	assert_string_equal(argv[3], "--unknown");
	assert_int_equal(v.count, 0);
	argv = WORDS(W("--"), W("-f"));
	assert_int_equal(parse(&stop, &v, argv, &n), 0);
	assert_int_equal(n, 1);
	assert_string_equal(argv[0], "-f");
	assert_false(v.flag);
}

static void numbers_of_arguments(void **state)
{
	struct options one = any;
	struct values v;
	int n = 77;

	(void)state;
	one.min_arguments = one.max_arguments = 1;
	assert_int_equal(parse(&one, &v, WORDS(W("-f")), &n), -EINVAL);
	assert_int_equal(parse(&one, &v, WORDS(W("a"), W("b")), &n), -EINVAL);
	assert_int_equal(n, 77); /* untouched on failure */
	assert_int_equal(parse(&one, &v, WORDS(W("a")), &n), 0);
	assert_int_equal(n, 1);
}

/* What a parse that fails prints on standard error. */
static const char *complaint(char **argv)
{
	static char text[1024];
	char name[] = "/tmp/test-options-XXXXXX";
	int file = mkstemp(name), saved = dup(STDERR_FILENO), n;
	struct values v;
	ssize_t len;

	assert_true(file >= 0 && saved >= 0);
	(void)unlink(name);
	(void)dup2(file, STDERR_FILENO);
	assert_int_equal(parse(&any, &v, argv, &n), -EINVAL);
	(void)dup2(saved, STDERR_FILENO);
	(void)close(saved);
	len = pread(file, text, sizeof(text) - 1, 0);
	text[len < 0 ? 0 : len] = 0;
	(void)close(file);
	return text;
}

#define SEE " (see `perfwind test --help`)\n"
static void wrong_usage_is_reported(void **state)
{
	(void)state;
	assert_string_equal(complaint(WORDS(W("--colur"))),
			    "perfwind: test: unknown option --colur; did you mean --colour?" SEE);
	assert_string_equal(complaint(WORDS(W("--num=3"))),
			    "perfwind: test: unknown option --num; did you mean --number?" SEE);
	assert_string_equal(complaint(WORDS(W("--hepl"))),
			    "perfwind: test: unknown option --hepl; did you mean --help?" SEE);
	assert_string_equal(complaint(WORDS(W("--zzzzzz"))),
			    "perfwind: test: unknown option --zzzzzz" SEE);
	assert_string_equal(complaint(WORDS(W("--=3"))), "perfwind: test: unknown option --" SEE);
	assert_string_equal(complaint(WORDS(W("-fy"))), "perfwind: test: unknown option -y" SEE);
	assert_string_equal(complaint(WORDS(W("--flag=1"))),
			    "perfwind: test: no value is taken by --flag" SEE);
	assert_string_equal(complaint(WORDS(W("--small"))),
			    "perfwind: test: a value is missing behind --small" SEE);
	assert_string_equal(complaint(WORDS(W("-s"))),
			    "perfwind: test: a value is missing behind --small" SEE);
	assert_string_equal(
		complaint(WORDS(W("-t"), W("-f"))),
		"perfwind: test: a value is missing behind --string: '-f' looks like an "
		"option (if it is the value: --string=-f)\n");
	assert_string_equal(complaint(WORDS(W("--call"), W("--"), W("--small"))),
			    "perfwind: test: a value is missing behind --call: '--' looks like an "
			    "option (if it is the value: --call=--)\n");
	assert_string_equal(complaint(WORDS(W("--small="))),
			    "perfwind: test: an empty value for --small" SEE);
	assert_string_equal(complaint(WORDS(W("--small=101"))),
			    "perfwind: test: --small 101: it is at most 100" SEE);
	assert_string_equal(complaint(WORDS(W("-n"), W("18446744073709551616"))),
			    "perfwind: test: --number 18446744073709551616: it is too large" SEE);
	assert_string_equal(complaint(WORDS(W("-n-1"))),
			    "perfwind: test: --number -1: it is not a whole number" SEE);
	assert_string_equal(complaint(WORDS(W("-n0x10"))),
			    "perfwind: test: --number 0x10: it is not a whole number" SEE);
	assert_string_equal(complaint(WORDS(W("-rinf"))),
			    "perfwind: test: --real inf: it is not a number" SEE);
	assert_string_equal(complaint(WORDS(W("-r-1"))),
			    "perfwind: test: --real -1: it is not a number" SEE);
	assert_string_equal(complaint(WORDS(W("-r1e400"))),
			    "perfwind: test: --real 1e400: it is at most 1000" SEE);
	assert_string_equal(complaint(WORDS(W("-r1e"))),
			    "perfwind: test: --real 1e: it is not a number" SEE);
	assert_string_equal(complaint(WORDS(W("--time=5.1s"))),
			    "perfwind: test: --time 5.1s: it is at most 5000 ms" SEE);
	assert_string_equal(complaint(WORDS(W("--time=1x"))),
			    "perfwind: test: --time 1x: it is not a time like 500ms, 1.5s or 10min "
			    "(without a unit: ms)" SEE);
	assert_string_equal(complaint(WORDS(W("--colour"), W("pink"))),
			    "perfwind: test: --colour pink: it is one of red, green, blue" SEE);
	assert_string_equal(complaint(WORDS(W("-xbad"))), "perfwind: said so itself\n");
	assert_string_equal(complaint(WORDS(W("-xgone"))),
			    "perfwind: test: --call gone: No such file or directory" SEE);
}

/* Options of another profiler: without effect, with or without a note; refused, with the nearest way. */
static void foreign_options(void **state)
{
	struct capture c;
	struct values v;
	char *printed;
	int n, r;

	(void)state;
	capture_begin(&c, STDERR_FILENO);
	r = parse(&any, &v, WORDS(W("-zf"), W("-S"), W("1"), W("--stat=2"), W("FILE")), &n);
	printed = capture_end(&c);
	assert_int_equal(r, 0);
	assert_int_equal(n, 1);
	assert_true(v.flag);
	assert_string_equal(printed, "perfwind: test: --stat: has no effect\n"
				     "perfwind: test: --stat: has no effect\n");
	free(printed);
	assert_string_equal(complaint(WORDS(W("--wait"))), "perfwind: test: --wait: use --call\n");
}

/* The word behind -g is its value only if it looks like one. */
static void values_that_may_be_left_out(void **state)
{
	struct values v;
	int n;

	(void)state;
	assert_int_equal(parse(&any, &v, WORDS(W("-g"), W("mode"), W("FILE")), &n), 0);
	assert_string_equal(v.called, "mode,");
	assert_int_equal(n, 1);
	assert_int_equal(parse(&any, &v, WORDS(W("-g"), W("FILE")), &n), 0);
	assert_string_equal(v.called, "(none),");
	assert_int_equal(n, 1);
	assert_int_equal(parse(&any, &v, WORDS(W("FILE"), W("--graph")), &n), 0);
	assert_string_equal(v.called, "(none),");
	assert_int_equal(parse(&any, &v, WORDS(W("--graph=FILE"), W("-gX"), W("-g"), W("-f")), &n),
			 0);
	assert_string_equal(v.called, "FILE,X,(none),");
	assert_true(v.flag);
}

static void levels_of_the_log(void **state)
{
	struct values v;
	int n;

	(void)state;
	assert_int_equal(parse(&any, &v, WORDS(W("-v")), &n), 0);
	assert_int_equal(log_level, LOG_LEVEL_VERBOSE);
	assert_int_equal(parse(&any, &v, WORDS(W("-vv")), &n), 0);
	assert_int_equal(log_level, LOG_LEVEL_DEBUG);
	assert_int_equal(parse(&any, &v, WORDS(W("--quiet")), &n), 0);
	assert_int_equal(log_level, LOG_LEVEL_QUIET);
	log_level = LOG_LEVEL_NORMAL;
}

/* -v with source folders: two in the next word, or any number by --verbose=.  Other words stay arguments. */
static void folders_of_the_log(void **state)
{
	struct capture c;
	struct values v;
	char *text;
	int n;

	(void)state;
	assert_int_equal(parse(&any, &v, WORDS(W("-v"), W("unwind,proc"), W("-f")), &n), 0);
	assert_int_equal(log_level, LOG_LEVEL_DEBUG);
	assert_string_equal(log_folders, "unwind,proc");
	assert_int_equal(n, 0);
	assert_true(v.flag);
	assert_int_equal(parse(&any, &v, WORDS(W("--verbose=session/loader")), &n), 0);
	assert_string_equal(log_folders, "session/loader");
	assert_int_equal(parse(&any, &v, WORDS(W("-v"), W("perf")), &n), 0); /* a command */
	assert_int_equal(log_level, LOG_LEVEL_VERBOSE);
	assert_null(log_folders);
	assert_int_equal(n, 1);
	assert_int_equal(parse(&any, &v, WORDS(W("-v"), W("perf,none")), &n), 0);
	assert_null(log_folders);
	assert_int_equal(n, 1);

	capture_begin(&c, STDERR_FILENO);
	assert_int_equal(parse(&any, &v, WORDS(W("--verbose=proc,none")), &n), -EINVAL);
	assert_int_equal(parse(&any, &v, WORDS(W("--verbose=")), &n), -EINVAL);
	text = capture_end(&c);
	assert_non_null(strstr(text, "--verbose=proc,none: no source folder; there are: base "));
	assert_non_null(strstr(text, "--verbose=: no source folder"));
	free(text);
	log_level = LOG_LEVEL_NORMAL;
}

static void help_comes_from_the_table(void **state)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	(void)state;
	assert_non_null(out);
	options_print_help(&any, out);
	assert_int_equal(fclose(out), 0);
	assert_string_equal(
		text,
		"Usage: perfwind test [OPTIONS] FILE...\n\nOptions:\n"
		"  -f, --flag                  a flag\n"
		"  -c, --count                 again and again\n"
		"  -s, --small N               up to 100\n"
		"  -n, --number N              any\n"
		"  -r, --real X                real\n"
		"      --time MS               a time\n"
		"  -t, --string TEXT           text\n"
		"      --colour COLOUR         which\n"
		"  -x, --call V                a text so long that it does not fit into one line\n"
		"                              and is broken at a blank, under its beginning\n"
		"      --bare                  no value\n"
		"  -v, --verbose               print more; twice: each failure with file and line\n"
		"                              (-v FOLDER,FOLDER, --verbose=FOLDER: of these\n"
		"                              source folders)\n"
		"  -q, --quiet                 print errors only\n"
		"  -h, --help                  print this text\n");
	free(text);
	assert_int_equal(options_exit_status(OPTIONS_HELPED), 0);
	assert_int_equal(options_exit_status(-EINVAL), 2);
	assert_int_equal(options_exit_status(-ENOMEM), 1);
}

static void nearest_names(void **state)
{
	const char *const names[] = {"record", "report", "export", "frequency", "p"};
	char longer[200] = "a-name-";
	const char *const long_name[] = {longer};

	(void)state;
	memset(longer + 7, 'x', 150); /* than any option could be: passed over */
	assert_string_equal(options_nearest("recrod", 6, names, 5), "record");
	assert_string_equal(options_nearest("reprot", 6, names, 5), "report");
	assert_string_equal(options_nearest("freq", 4, names, 5), "frequency");
	assert_string_equal(options_nearest("exprt", 5, names, 5), "export");
	assert_null(options_nearest("", 0, names, 5));
	assert_null(options_nearest("banana", 6, names, 5));
	assert_null(options_nearest(longer, 157, names, 5));
	assert_null(options_nearest(longer, 157, long_name, 1));
	assert_null(options_nearest("a-name", 6, long_name, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_form),
		cmocka_unit_test(arguments_are_collected),
		cmocka_unit_test(numbers_of_arguments),
		cmocka_unit_test(wrong_usage_is_reported),
		cmocka_unit_test(foreign_options),
		cmocka_unit_test(values_that_may_be_left_out),
		cmocka_unit_test(levels_of_the_log),
		cmocka_unit_test(folders_of_the_log),
		cmocka_unit_test(help_comes_from_the_table),
		cmocka_unit_test(nearest_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
