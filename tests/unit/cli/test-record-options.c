/* test-record-options.c - which options of `perfwind record` go together, and what is meant by those that
 * are not given. */
#include <errno.h>
#include <time.h>

#include "cli/record-options.h"
#include "daemon/control/control-protocol.h"
#include "tests/unit/capture.h"

static struct record_args args;

/* As the command does it: 0, and what was printed; arguments end with NULL. */
static int parse(const char *const *given, char **ret_printed)
{
	static char name[] = "record";
	char *argv[16] = {name};
	struct capture c;
	int argc = 1, n, r;

	for (; given[argc - 1]; argc++)
		argv[argc] = (char *)(uintptr_t)given[argc - 1];
	args = (struct record_args){.frequency = UINT64_MAX, .period = UINT64_MAX};
	capture_begin(&c, STDERR_FILENO);
	r = options_parse(&record_options, argc, argv, &args, &n);
	if (r == 0)
		r = record_args_check(&args, n > 0);
	*ret_printed = capture_end(&c);
	return r;
}
#define GIVEN(...) ((const char *const[]){__VA_ARGS__, NULL})

static void good(const char *const *given)
{
	char *printed;

	assert_int_equal(parse(given, &printed), 0);
	assert_string_equal(printed, "");
	free(printed);
}

/* Accepted, with a note. */
static void noted(const char *const *given, const char *word)
{
	char *printed;

	assert_int_equal(parse(given, &printed), 0);
	if (!strstr(printed, word))
		fail_msg("'%s' is not in '%s'", word, printed);
	free(printed);
}

static void bad(const char *const *given, const char *word)
{
	char *printed;

	assert_int_equal(parse(given, &printed), -EINVAL);
	if (!strstr(printed, word))
		fail_msg("'%s' is not in '%s'", word, printed);
	free(printed);
}

static void test_defaults(void **state)
{
	(void)state;
	good(GIVEN("--", "true"));
	assert_int_equal(args.frequency, 999);
	assert_int_equal(args.period, 0);
	assert_string_equal(args.output, "perfwind.pftrace");
	assert_string_equal(args.socket, CONTROL_SOCKET);
	assert_int_equal(record_clock(&args), CLOCK_MONOTONIC);
	assert_false(args.kernel_build_ids);
	good(GIVEN("-c", "1000", "--", "true"));
	assert_int_equal(args.frequency, 0);
	assert_int_equal(args.period, 1000);
}

static void test_values(void **state)
{
	(void)state;
	good(GIVEN("-p", "7,9", "-p", "11", "-F", "49", "--kernel-build-ids", "--stack-bytes",
		   "65528", "--unwinder", "fp-copy", "--clock", "boottime", "-o", "x"));
	assert_int_equal(args.n_pids, 3);
	assert_int_equal(args.pids[2], 11);
	assert_int_equal(args.frequency, 49);
	assert_true(args.kernel_build_ids);
	assert_int_equal(args.stack_bytes, 65528);
	assert_int_equal(args.unwinder, 4);
	assert_int_equal(record_clock(&args), CLOCK_BOOTTIME);
	assert_string_equal(args.output, "x");
}

static void test_targets(void **state)
{
	(void)state;
	bad(GIVEN("-F", "1"), "record needs a target");
	bad(GIVEN("-a", "-p", "1"), "exclude each other");
	bad(GIVEN("-u", "root", "-p", "1"), "-u and -p exclude each other");
	bad(GIVEN("-G", "/x", "-p", "1"), "-G and -p exclude each other");
	good(GIVEN("-u", "root"));
	assert_true(args.all);
	good(GIVEN("true"));
	assert_false(args.all || args.stop_watch);
}

/* A command next to another target is not recorded: its end ends the recording. */
static void test_stop_watch(void **state)
{
	(void)state;
	good(GIVEN("-a", "--", "sleep", "3"));
	assert_true(args.stop_watch);
	good(GIVEN("-p", "1", "--", "sleep", "3"));
	assert_true(args.stop_watch);
	good(GIVEN("-G", "/x", "sleep", "3"));
	assert_true(args.stop_watch);
}

/* As `perf record` is typed. */
static void test_options_of_perf(void **state)
{
	(void)state;
	good(GIVEN("-g", "--call-graph", "dwarf", "-F", "99", "-a"));
	assert_int_equal(args.unwinder, 0);
	good(GIVEN("--call-graph=dwarf,8193", "-a"));
	assert_int_equal(args.stack_bytes, 8192);
	good(GIVEN("--call-graph=dwarf,99999999", "-a"));
	assert_int_equal(args.stack_bytes, 65528);
	good(GIVEN("--call-graph", "fp", "-a"));
	assert_int_equal(args.unwinder, 3);
	bad(GIVEN("--call-graph", "x", "-a"), "it is one of dwarf, dwarf,BYTES, fp, lbr");
	noted(GIVEN("--call-graph", "lbr", "-a"), "branch records are not used");
	good(GIVEN("-C", "0-3", "--all-cpus", "--all-user", "-k", "CLOCK_MONOTONIC_RAW", "-TPN"));
	assert_string_equal(args.cpus, "0-3");
	assert_true(args.all && args.user_only);
	assert_int_equal(record_clock(&args), CLOCK_MONOTONIC_RAW);
	good(GIVEN("-k", "mono", "-a"));
	assert_int_equal(record_clock(&args), CLOCK_MONOTONIC);
	bad(GIVEN("-k", "tai", "-a"), "it is one of monotonic");
	noted(GIVEN("-s", "-a"), "--stat: threads are always recorded apart");
	noted(GIVEN("-i", "true"), "--no-inherit: children of a command are always recorded");
	bad(GIVEN("-t", "x"), "'x' is not one");
	bad(GIVEN("-t", "2147483647"), "there is no thread with this id");
	bad(GIVEN("-b", "-a"), "branch records are not recorded");
	good(GIVEN("-a", "--switch-output"));
	assert_true(args.switch_output && !args.switch_ns && args.flight_bytes);
	good(GIVEN("-a", "--switch-output=30s", "--flight-recorder", "8M"));
	assert_int_equal(args.switch_ns, 30 * NSEC_PER_SEC);
	assert_int_equal(args.flight_bytes, 8 << 20);
	good(GIVEN("--switch-output", "signal", "-p", "1"));
	bad(GIVEN("--switch-output=100M", "-a"), "--max-size SIZE ends a recording");
	bad(GIVEN("--switch-output", "--max-size", "1M", "-a"), "exclude each other");
	bad(GIVEN("--off-cpu", "-e", "cycles", "-a"), "--off-cpu and --event exclude each other");
	bad(GIVEN("--wall", "-c", "5", "-a"), "--wall and --count exclude each other");
	bad(GIVEN("--off-cpu", "--wall", "-a"), "exclude each other");
	good(GIVEN("-F", "max", "-a"));
	assert_true(args.frequency > 0 && args.frequency < UINT64_MAX);
	bad(GIVEN("-F", "fast", "-a"), "not a whole number, or `max`");
}

/* "-t" of a thread that there is: its process is found. */
static void test_thread(void **state)
{
	char tid[16];

	(void)state;
	(void)snprintf(tid, sizeof(tid), "%d", getpid());
	good(GIVEN("-t", tid));
	assert_int_equal(args.n_tids, 1);
	assert_int_equal(args.n_pids, 1);
	assert_int_equal(args.pids[0], getpid());
	good(GIVEN("-t", tid, "--", "sleep", "1"));
	assert_true(args.stop_watch);
	bad(GIVEN("-t", tid, "-p", "1"), "-t and -p exclude each other");
	bad(GIVEN("-t", tid, "-a"), "exclude each other");
	bad(GIVEN("-t", tid, "--daemon"), "-t works without a daemon");
}

static void test_sizes(void **state)
{
	(void)state;
	good(GIVEN("-a", "--max-size", "20M", "-m", "128", "-D", "500"));
	assert_int_equal(args.max_bytes, 20 << 20);
	assert_int_equal(args.ring_bytes, 128 * sysconf(_SC_PAGESIZE));
	assert_true(args.delay_ms > 499 && args.delay_ms < 501);
	good(GIVEN("-a", "--max-size", "3000000", "-m", "3M,128"));
	assert_int_equal(args.max_bytes, 3000000);
	assert_int_equal(args.ring_bytes, 4 << 20);
	good(GIVEN("-a", "--max-cpu", "1%"));
	assert_int_equal(args.max_cpu_ppm, 10000);
	good(GIVEN("-a", "--max-cpu", "0.5"));
	assert_int_equal(args.max_cpu_ppm, 5000);
	bad(GIVEN("-a", "--max-cpu", "0"), "--max-cpu 0: it is a percentage");
	bad(GIVEN("-a", "--max-cpu", "1x"), "percentage");
	bad(GIVEN("-a", "--max-cpu", "nan"), "percentage");
	bad(GIVEN("-a", "--max-cpu", "1%", "--off-cpu"), "exclude each other");
	good(GIVEN("-a", "--max-cpu", "1%", "--daemon"));
	bad(GIVEN("-a", "--max-size", "M"), "--max-size M: it is not a size");
	bad(GIVEN("-a", "--max-size", "1X"), "not a size");
	bad(GIVEN("-a", "--max-size", "1MB"), "not a size");
	bad(GIVEN("-a", "--max-size", "99999999999G"), "not a size");
	bad(GIVEN("-a", "--max-size", "0"), "not a size");
	bad(GIVEN("-a", "-m", "1K"), "64 KiB to 1 GiB");
	bad(GIVEN("-a", "-m", ""), "not a size");
	bad(GIVEN("-a", "--daemon", "-D", "5"), "--delay works without a daemon only");
	bad(GIVEN("-u", "root", "--daemon"), "-u works without a daemon only");
}

/* A tracepoint or probe is recorded each time it occurs. */
static void test_events(void **state)
{
	(void)state;
	good(GIVEN("-e", "sched:sched_switch", "-a"));
	assert_int_equal(args.period, 1);
	assert_int_equal(args.frequency, 0);
	good(GIVEN("-e", "sched:sched_switch", "-F", "99", "-a"));
	assert_int_equal(args.frequency, 99);
	assert_int_equal(args.period, 0);
	good(GIVEN("-e", "kprobe:do_exit", "-c", "10", "-a"));
	assert_int_equal(args.period, 10);
	good(GIVEN("-e", "cycles:u", "-a"));
	assert_int_equal(args.frequency, 999);
	good(GIVEN("-e", "{cycles,instructions}:S", "-a"));
	assert_string_equal(args.event, "cycles,instructions");
	good(GIVEN("-e", "cycles", "-e", "{page-faults,cs}", "-e", "cs:u", "-a"));
	assert_int_equal(args.n_more, 2);
	assert_string_equal(args.event, "cycles");
	assert_string_equal(args.more[0], "page-faults,cs");
	assert_string_equal(args.more[1], "cs:u");
	assert_false(args.rate_given);
	good(GIVEN("-e", "cycles", "-e", "cs", "-c", "10", "-a"));
	assert_true(args.rate_given);
	/* A filter is of the event before it; without one, of the first. */
	good(GIVEN("-e", "a:b", "--filter", "x", "-e", "c:d", "-e", "e:f", "--filter", "y", "-a"));
	assert_string_equal(args.filter, "x");
	assert_null(args.more_filter[0]);
	assert_string_equal(args.more_filter[1], "y");
	good(GIVEN("--filter", "x", "-e", "a:b", "-a"));
	assert_string_equal(args.filter, "x");
	bad(GIVEN("-e", "cs", "-e", "faults", "--flight-recorder", "4M", "-a"),
	    "run a second recorder for faults, or -e cs,faults, which counts");
	bad(GIVEN("-e", "cs", "-e", "faults", "--perf-data", "x", "-a"),
	    "give -e once, or -e cs,faults, which counts");
	good(GIVEN("-e", "page-faults:u", "-a"));
	assert_int_equal(args.period, 1);
	good(GIVEN("-d", "1.5s", "-D", "2s", "-a"));
	assert_true(args.duration == 1.5 && args.delay_ms == 2000);
	bad(GIVEN("--wakers", "-a"), "--wakers is for --off-cpu and --wall");
	bad(GIVEN("-e", "cs", "-e", "cs", "--daemon", "-a"), "-e twice works without a daemon");
	bad(GIVEN("-e1", "-e2", "-e3", "-e4", "-e5", "-e6", "-e7", "-e8", "-e9", "-a"),
	    "at most 8 events");
	bad(GIVEN("-e", "", "-a"), "an empty value for --event");
}

static void test_together(void **state)
{
	(void)state;
	bad(GIVEN("-a", "--daemon", "--no-daemon"), "--no-daemon");
	bad(GIVEN("-a", "--daemon", "--perf-data", "x"), "without a daemon only");
	bad(GIVEN("-a", "-F", "0"), "-F takes");
	bad(GIVEN("-a", "-c", "0"), "-c takes");
	bad(GIVEN("-a", "-d", "0.0"), "record: --duration 0.0: it must be more than 0 s (see ");
	bad(GIVEN("-a", "-F", "1", "-c", "1"), "exclude");
	bad(GIVEN("-a", "--user-only", "--kernel-only"), "exclude");
	bad(GIVEN("-a", "--stack-bytes", "1004"), "multiple of 8");
	bad(GIVEN("-a", "--stack-bytes", "65536"), "65528");
	bad(GIVEN("-a", "--json", "-o", "-"), "standard output");
}

/* What a daemon cannot do for its requester. */
static void test_alone(void **state)
{
	static const struct {
		const char *given[3];
		const char *alone;
	} cases[] = {{{"-a"}, NULL},
		     {{"-e", "cpu-clock", "-a"}, NULL},
		     {{"--off-cpu", "-a"}, "--off-cpu"},
		     {{"--wall", "-a"}, "--wall"},
		     {{"--perf-data=x", "-a"}, "--perf-data"},
		     {{"--max-size=1M", "-a"}, "--max-size"},
		     {{"--no-inline", "-a"}, "--no-inline"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *given[4] = {cases[i].given[0], cases[i].given[1], cases[i].given[2]};
		char *printed;

		if (parse(given, &printed) != 0)
			fail_msg("%s: %s", given[0], printed);
		free(printed);
		if (!cases[i].alone)
			assert_null(record_args_alone(&args));
		else
			assert_string_equal(record_args_alone(&args), cases[i].alone);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),	cmocka_unit_test(test_values),
		cmocka_unit_test(test_targets),		cmocka_unit_test(test_stop_watch),
		cmocka_unit_test(test_options_of_perf), cmocka_unit_test(test_thread),
		cmocka_unit_test(test_sizes),		cmocka_unit_test(test_events),
		cmocka_unit_test(test_together),	cmocka_unit_test(test_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
