/* test-record-options.c - which options of `perfwind record` go together, and what is meant by those that
 * are not given. */
#include <errno.h>
#include <time.h>

#include "cli/record-options.h"
#include "daemon/control/control-protocol.h"
#include "tests/unit/capture.h"

static struct record_args args;

/* As the command does it: 0, and what was said; arguments end with NULL. */
static int parse(const char *const *given, char **ret_said)
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
	*ret_said = capture_end(&c);
	return r;
}
#define GIVEN(...) ((const char *const[]){__VA_ARGS__, NULL})

static void good(const char *const *given)
{
	char *said;

	assert_int_equal(parse(given, &said), 0);
	assert_string_equal(said, "");
	free(said);
}

static void bad(const char *const *given, const char *word)
{
	char *said;

	assert_int_equal(parse(given, &said), -EINVAL);
	if (!strstr(said, word))
		fail_msg("'%s' is not in '%s'", word, said);
	free(said);
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
	assert_false(args.no_build_ids);
	good(GIVEN("-c", "1000", "--", "true"));
	assert_int_equal(args.frequency, 0);
	assert_int_equal(args.period, 1000);
}

static void test_values(void **state)
{
	(void)state;
	good(GIVEN("-p", "7,9", "-p", "11", "-F", "49", "--no-build-ids", "--stack-bytes", "65528",
		   "--unwinder", "fp-copy", "--clock", "boottime", "-o", "x"));
	assert_int_equal(args.n_pids, 3);
	assert_int_equal(args.pids[2], 11);
	assert_int_equal(args.frequency, 49);
	assert_true(args.no_build_ids);
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
	bad(GIVEN("-a", "true"), "exclude each other");
	bad(GIVEN("-p", "1", "true"), "exclude each other");
}

static void test_together(void **state)
{
	(void)state;
	bad(GIVEN("-a", "--daemon", "--no-daemon"), "--no-daemon");
	bad(GIVEN("-a", "--daemon", "--perf-data", "x"), "without a daemon only");
	bad(GIVEN("-a", "-F", "0"), "-F takes");
	bad(GIVEN("-a", "-c", "0"), "-c takes");
	bad(GIVEN("-a", "-F", "1", "-c", "1"), "exclude");
	bad(GIVEN("-a", "--user-only", "--kernel-only"), "exclude");
	bad(GIVEN("-a", "--stack-bytes", "1004"), "multiple of 8");
	bad(GIVEN("-a", "--stack-bytes", "65536"), "65528");
	bad(GIVEN("-a", "--json", "-o", "-"), "standard output");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_targets),
		cmocka_unit_test(test_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
