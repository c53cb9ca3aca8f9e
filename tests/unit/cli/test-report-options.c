/* test-report-options.c - `perfwind report` and `export` as typed: what is understood, also as perf-report(1) has it,
 * and what is not.  The file does not exist: an option line that is understood ends there, with status 1. */
#include <string.h>

#include "base/log.h"
#include "cli/command.h"
#include "cli/filter-options.h"
#include "tests/unit/capture.h"

#define NO_FILE "perfwind: /nonexistent: No such file or directory\n"
#define GIVEN(...) ((const char *const[]){__VA_ARGS__, NULL})

static int run(const struct command *command, const char *const *given, char **ret_printed)
{
	static char name[] = "report";
	char *argv[24] = {name};
	struct capture c;
	int argc = 1, status;

	for (; given[argc - 1]; argc++)
		argv[argc] = (char *)(uintptr_t)given[argc - 1];
	log_level = LOG_LEVEL_NORMAL;
	capture_begin(&c, STDERR_FILENO);
	status = command->run(argc, argv);
	*ret_printed = capture_end(&c);
	return status;
}

/* @note: a line before the file's; "": none. */
static void understood(const char *const *given, const char *note)
{
	char expected[512], *printed;
	int status = run(&command_report, given, &printed);

	(void)snprintf(expected, sizeof(expected), "%s" NO_FILE, note);
	assert_string_equal(printed, expected);
	assert_int_equal(status, 1);
	free(printed);
}

static void wrong(const struct command *command, const char *const *given, const char *word)
{
	char *printed;
	int status = run(command, given, &printed);

	if (!strstr(printed, word))
		fail_msg("'%s' is not in '%s'", word, printed);
	assert_int_equal(status, 2);
	free(printed);
}

#define FILE_ "/nonexistent"
static void own_options(void **state)
{
	(void)state;
	understood(GIVEN(FILE_), "");
	understood(GIVEN("--sort", "total", "--tree", "--max-depth", "3", FILE_), "");
	understood(GIVEN("--callers", "f", FILE_), "");
	understood(GIVEN("--callees=f", "--json", FILE_), "");
	understood(GIVEN("--by", "pid", "--csv", "--thread", "7", "--comm", "sh", "--cpu", "0-3,8",
			 "--time", "1.5s-2s", "--function", "f", "--cgroup", "/x", FILE_),
		   "");
	wrong(&command_report, GIVEN("--callers", "f", "--callees", "f", FILE_), "exclude");
	wrong(&command_report, GIVEN("--json", "--csv", FILE_), "exclude");
	wrong(&command_report, GIVEN("--sort", "x", FILE_), "one of self, total, samples, name");
	wrong(&command_report, GIVEN("--by", "x", FILE_),
	      "it is one of function, process, thread, module, cgroup, pid, reason");
}

static void options_of_perf(void **state)
{
	(void)state;
	understood(GIVEN("--stdio", "--no-children", "-i", FILE_), "");
	understood(GIVEN("-g", FILE_), "");
	understood(GIVEN("-g", "graph,0.5,caller", FILE_), "");
	understood(GIVEN("--call-graph=none", FILE_), "");
	understood(GIVEN("-g", "-i", FILE_), "");
	understood(GIVEN("--children", "-T", "-f", "--percent-limit", "1", FILE_), "");
	understood(GIVEN("--sort", "symbol", FILE_), "");
	understood(
		GIVEN("-s", "comm,dso,symbol", FILE_),
		"perfwind: report: --sort comm,dso,symbol: rows are of one kind: --by function\n");
	understood(GIVEN("--tui", FILE_),
		   "perfwind: report: --tui: the report is text; `export --to "
		   "html` makes a page\n");
	understood(GIVEN("-k", "vmlinux", FILE_),
		   "perfwind: report: --vmlinux: the trace has its names already\n");
	wrong(&command_report, GIVEN("-G", FILE_), "--callers FUNC");
	wrong(&command_report, GIVEN("-i", "a", "b"), "-i and FILE exclude each other");
}

static void formats(void **state)
{
	char *printed;

	(void)state;
	assert_int_equal(run(&command_export, GIVEN("--to", "html", FILE_), &printed), 1);
	assert_string_equal(printed, NO_FILE);
	free(printed);
	wrong(&command_export, GIVEN("--to", "svg"),
	      "perfwind: export: unknown format svg; the formats are:\nperfwind:   folded ");
	wrong(&command_export, GIVEN("--to", "svg"), "\nperfwind:   html ");
	wrong(&command_export, GIVEN(FILE_), "--to is missing");
}

static void parts_of_time(void **state)
{
	static const struct {
		const char *text;
		uint64_t from, to;
	} good[] = {
		{"1.5s-2s", 1500000000, 2000000000},
		{"500ms-", 500000000, UINT64_MAX},
		{"-10s", 0, 10000000000},
		{"1,2.5", 1000000000, 2500000000},
		{"20us-30us", 20000, 30000},
		{"0-1ns", 0, 1},
	};
	static const char *const bad[] = {"",	     "-",     ",",	  "1s",
					  "2s-1s",   "1s-1s", "x-2",	  "1s-2x",
					  "1.2.3-4", "--1",   "1s-2s-3s", "9999999999s-"};
	struct profile_filter filter;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		assert_int_equal(filter_set_time(&filter, good[i].text), 0);
		assert_true(filter.by_time && filter.from == good[i].from &&
			    filter.to == good[i].to);
	}
	log_level = LOG_LEVEL_QUIET;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (filter_set_time(&filter, bad[i]) == 0)
			fail_msg("'%s' is taken", bad[i]);
}

static void lists_of_cpus(void **state)
{
	struct profile_filter filter = {0};

	(void)state;
	assert_int_equal(filter_set_cpus(&filter, "0-2,9"), 0);
	assert_true(filter.by_cpu);
	assert_int_equal(filter.cpus[0], 7);
	assert_int_equal(filter.cpus[1], 2);
	assert_true(filter_set_cpus(&filter, "1024") < 0);
	assert_true(filter_set_cpus(&filter, "x") < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_options),	 cmocka_unit_test(options_of_perf),
		cmocka_unit_test(formats),	 cmocka_unit_test(parts_of_time),
		cmocka_unit_test(lists_of_cpus),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
