/* test-stat-print.c - the tables of `perfwind stat`: text, CSV, JSON, of counts stated by hand. */
#include <string.h>

#include "cli/stat-print.h"
#include "tests/unit/capture.h"

/* PerfEvents.Counter: 3 task-clock, 10 cycles, 11 instructions, 14 branches, 15 branch-misses. */
static const struct perf_spec specs[] = {
	{.name = "task-clock", .counter = 3},
	{.name = "cycles", .counter = 10},
	{.name = "instructions", .counter = 11},
	{.name = "branches", .counter = 14},
	{.name = "branch-misses", .counter = 15},
	{.name = "sched:sched_switch", .counter = -1},
	{.name = "cs", .counter = 4},
};
enum { N = ARRAY_SIZE(specs) };
static const bool kernel_refused[N] = {false, true, false, false, false, false, false};

static struct stat_count counts[N];
static struct stat_row row = {.count = counts};

static struct stat_table table(void)
{
	/* 2 s of CPU time in 4 s; 3 GHz; 1.5 instructions per cycle; one branch in 50 mispredicted. */
	static const double values[N] = {2e9, 6e9, 9e9, 1e9, 2e7, 500, 0};

	for (size_t i = 0; i < N; i++)
		counts[i] = (struct stat_count){
			.value = values[i], .running = 1, .error = -1, .running_ns = 2000000000};
	counts[3].running = 0.5;
	counts[6].state = COUNTER_NOT_SUPPORTED;
	row.label = NULL;
	return (struct stat_table){
		.specs = specs,
		.n_events = N,
		.kernel_refused = kernel_refused,
		.rows = &row,
		.n_rows = 1,
		.at_s = -1,
		.elapsed_s = 4,
		.elapsed_error = -1,
		.user_s = 1.5,
		.system_s = 0.5,
		.subject = "work",
		.runs = 1,
		.separator = ",",
	};
}

static char *print(const struct stat_table *t, char form)
{
	struct capture c;

	capture_begin(&c, STDOUT_FILENO);
	if (form == 't')
		stat_print_text(t, true, stdout);
	else if (form == 'c')
		stat_print_csv(t, stdout);
	else
		stat_print_json(t, stdout);
	return capture_end(&c);
}

static void has(const char *text, const char *line)
{
	if (!strstr(text, line))
		fail_msg("'%s' is not in:\n%s", line, text);
}

static void test_text(void **state)
{
	struct stat_table t = table();
	char *text = print(&t, 't');

	(void)state;
	has(text, "\n Counts of work:\n\n");
	has(text, "          2000.00 ms   task-clock            #     0.500 CPUs utilized\n");
	has(text, "    6,000,000,000      cycles:u              #     3.000 GHz\n");
	has(text, "    9,000,000,000      instructions          #     1.500 insn per cycle\n");
	has(text,
	    "    1,000,000,000      branches              #   500.000 M/sec  (ran 50.0 % of the "
	    "time, scaled)\n");
	has(text, "       20,000,000      branch-misses         #     2.000 % of all branches\n");
	has(text, "              500      sched:sched_switch    #   250.000 /sec\n");
	has(text, "    not supported      cs                    # not supported on this machine\n");
	has(text,
	    "         4.000000 s   elapsed\n         1.500000 s   user\n         0.500000 s   "
	    "system\n");
	free(text);
}

/* Means of runs, intervals, rows. */
static void test_text_forms(void **state)
{
	struct stat_table t = table();
	char *text;

	(void)state;
	t.runs = 5;
	t.elapsed_error = 0.25;
	counts[0].error = 1.5;
	text = print(&t, 't');
	has(text, "Counts of work (mean of 5 runs):");
	has(text, "0.500 CPUs utilized  ( +- 1.50% )\n");
	has(text, "s   elapsed  ( +- 0.25% )\n");
	free(text);
	t.at_s = 2;
	row.label = "CPU1";
	text = print(&t, 't');
	has(text, "     2.000  CPU1                          500      sched:sched_switch ");
	assert_null(strstr(text, "elapsed"));
	free(text);
}

static void test_csv(void **state)
{
	struct stat_table t = table();
	char *text = print(&t, 'c');

	(void)state;
	has(text, "2000.00,msec,task-clock,2000000000,100.00,0.500,CPUs utilized\n"
		  "6000000000,,cycles:u,2000000000,100.00,3.000,GHz\n");
	has(text, "\n1000000000,,branches,2000000000,50.00,500.000,M/sec\n");
	has(text, "\n<not supported>,,cs,2000000000,100.00,,\n");
	free(text);
	t.at_s = 1;
	row.label = "CPU0";
	text = print(&t, 'c');
	has(text, "1.000000000,CPU0,2000.00,msec,task-clock,");
	free(text);
}

static void test_json(void **state)
{
	struct stat_table t = table();
	char *text = print(&t, 'j');

	(void)state;
	has(text, "{\"elapsed_s\": 4.000000, \"runs\": 1, \"user_s\": 1.500000, \"system_s\": "
		  "0.500000, \"rows\": [{\"row\": null, \"counts\": [{\"event\": \"task-clock\", "
		  "\"state\": \"counted\", \"value\": 2000000000, \"unit\": \"ns\", "
		  "\"running_percent\": 100.00, \"error_percent\": null, \"metric\": 0.5, "
		  "\"metric_unit\": \"CPUs utilized\"}, ");
	has(text, "{\"event\": \"cs\", \"state\": \"not supported\", \"value\": null, \"unit\": "
		  "\"events\", \"running_percent\": 100.00, \"error_percent\": null}]}]}\n");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_text_forms),
		cmocka_unit_test(test_csv),
		cmocka_unit_test(test_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
