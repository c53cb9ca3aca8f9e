/* test-watch-calls.c - each allocation and system call with which the rules of `perfwind watch` are read, and a rule's gauge is
 * made, fails once: an error with a line. */
#include <errno.h>
#include <stdlib.h>

#include "tests/unit/fail-calls.h"
#include "watch/gauge.h"

struct gauges {
	const struct watch_rule *rule;
	struct gauge *gauge;
	char error[512];
};

static int make_gauge(void *arg)
{
	struct gauges *made = arg;
	int r;

	made->error[0] = 0;
	r = gauge_new(made->rule, "", NULL, &made->gauge, made->error, sizeof(made->error));
	if (r < 0 && r != -ENOMEM && !made->error[0])
		fail_msg("%s, call %lu: %d without a line", made->rule->name, calls_fail_at, r);
	return r;
}
static void end_gauge(void *arg)
{
	(void)gauge_free(((struct gauges *)arg)->gauge);
}

static int make_rules(void *arg)
{
	static const char text[] = "[watch]\nrecord = -a\n[rule a]\nwhen = load\nabove = 2\n"
				   "[rule b]\nwhen = process-cpu\nprocess = x\nabove = 50\n";
	char error[512] = "";
	int r = watch_rules_parse("f", text, arg, error, sizeof(error));

	assert_true(r >= 0 || r == -ENOMEM || error[0]);
	return r;
}
static void end_rules(void *arg)
{
	watch_rules_deinit(arg);
}

static void test_all(void **state)
{
	struct watch_rule all[] = {
		{.name = "process", .when = WATCH_PROCESS_CPU, .above = 50},
		{.name = "load", .when = WATCH_LOAD, .above = 2},
		{.name = "queue", .when = WATCH_RUN_QUEUE, .above = 2},
		{.name = "counter", .when = WATCH_COUNTER, .event = "page-faults", .above = 2},
	};
	struct watch_rules rules;
	const struct calls_made of = {"rules", make_rules, end_rules, &rules};

	(void)state;
	calls_sweep(&of);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		struct gauges gauges = {.rule = &all[i]};
		const struct calls_made gauge = {all[i].name, make_gauge, end_gauge, &gauges};

		(void)snprintf(all[i].process, sizeof(all[i].process), "%d", getpid());
		if (make_gauge(&gauges) < 0) { /* no permission for the counter */
			print_message("%s: %s\n", all[i].name, gauges.error);
			continue;
		}
		end_gauge(&gauges);
		calls_sweep(&gauge);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};

	return cmocka_run_group_tests_name("watch-calls", tests, NULL, NULL);
}
