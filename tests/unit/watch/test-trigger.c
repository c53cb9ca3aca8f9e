/* test-trigger.c - when an episode begins and ends. */
#include "tests/unit/cmocka.h"
#include "watch/trigger.h"

#define S NSEC_PER_SEC

static const struct watch_rule rule = {.name = "x",
				       .above = 80,
				       .below = 60,
				       .hold_ns = 3 * S,
				       .calm_ns = 2 * S,
				       .after_ns = 1 * S,
				       .longest_ns = 60 * S,
				       .cooldown_ns = 10 * S,
				       .per_day = 2};

/* One step a second from *at on, with these values; the events that are not nothing are compared. */
static void steps(struct trigger *t, const struct watch_rule *r, uint64_t *at, const double *values,
		  size_t n, const enum trigger_event *events)
{
	for (size_t i = 0; i < n; i++, *at += S) {
		enum trigger_event event = trigger_step(t, r, *at, values[i], 7);

		if (event != events[i])
			fail_msg("step %zu: event %d, not %d", i, event, events[i]);
	}
}
#define STEPS(t, r, at, values, events) steps(t, r, at, values, ARRAY_SIZE(values), events)

static void test_episode(void **state)
{
	struct trigger t = {0};
	uint64_t at = 100 * S;
	/* The value at second 102 is of the time since 101, so it fires at 104. */
	const double values[] = {10, 20, 90, 100, 110, 100, 70, 100, 10, 10, 10};
	const enum trigger_event events[] = {0, 0, 0, 0, TRIGGER_FIRED, 0, 0, 0, 0, TRIGGER_ENDED,
					     0};
	struct trigger_episode e;

	(void)state;
	STEPS(&t, &rule, &at, values, events);
	e = trigger_episode(&t);
	assert_int_equal(e.start, 101 * S);
	assert_int_equal(e.end, 107 * S);
	assert_true(e.average == (90 + 100 + 110 + 100 + 70 + 100) / 6.0);
	assert_true(e.peak == 110);
	assert_int_equal(e.pid, 7);
}

/* A rise that dips below `below` begins again; between below and above it goes on. */
static void test_hysteresis(void **state)
{
	struct trigger t = {0};
	uint64_t at = 100 * S;
	const double dips[] = {0, 90, 90, 50, 90, 90, 50};
	const enum trigger_event nothing[ARRAY_SIZE(dips)] = {0};
	const double stays[] = {0, 90, 65, 65};
	const enum trigger_event fired[] = {0, 0, 0, TRIGGER_FIRED};

	(void)state;
	STEPS(&t, &rule, &at, dips, nothing);
	STEPS(&t, &rule, &at, stays, fired);
}

/* A low second within an episode counts in its average if it rises again. */
static void test_dip_counts(void **state)
{
	struct trigger t = {0};
	uint64_t at = 100 * S;
	const double values[] = {0, 100, 100, 100, 0, 100, 0, 0};
	const enum trigger_event events[] = {0, 0, 0, TRIGGER_FIRED, 0, 0, 0, TRIGGER_ENDED};

	(void)state;
	STEPS(&t, &rule, &at, values, events);
	assert_true(trigger_episode(&t).average == 80);
	assert_int_equal(trigger_episode(&t).end, 105 * S);
}

static void test_longest(void **state)
{
	struct watch_rule r = rule;
	struct trigger t = {0};
	uint64_t at = 100 * S;
	const double values[] = {0, 100, 100, 100, 100, 100, 100};
	const enum trigger_event events[] = {0, 0, 0, TRIGGER_FIRED, 0, 0, TRIGGER_ENDED};

	(void)state;
	r.longest_ns = 5 * S;
	r.after_ns = 1 * S;
	STEPS(&t, &r, &at, values, events);
	assert_int_equal(trigger_episode(&t).end, 105 * S);
}

static void test_cooldown_and_day(void **state)
{
	struct watch_rule r = rule;
	struct trigger t = {0};
	uint64_t at = 100 * S;
	const double hit[] = {0, 100, 0, 0};
	const enum trigger_event kept[] = {0, TRIGGER_FIRED, 0, TRIGGER_ENDED};
	const enum trigger_event not_kept[] = {0, TRIGGER_SUPPRESSED, 0, 0};

	(void)state;
	r.hold_ns = 0;
	STEPS(&t, &r, &at, hit, kept); /* ended at 103: until 113 */
	trigger_retry(&t, 200 * S);    /* no later, and not one of the day */
	STEPS(&t, &r, &at, hit, not_kept);
	trigger_retry(&t, at);
	STEPS(&t, &r, &at, hit, kept); /* ended at 111: until 121 */
	at = 122 * S;
	STEPS(&t, &r, &at, hit, kept);
	t = (struct trigger){0};
	at = 100 * S;
	STEPS(&t, &r, &at, hit, kept);
	STEPS(&t, &r, &at, hit, not_kept);
	at = 114 * S;
	STEPS(&t, &r, &at, hit, kept);
	at = 200 * S;
	STEPS(&t, &r, &at, hit, not_kept); /* two a day */
	at = (101 + 86400) * S;
	STEPS(&t, &r, &at, hit, kept);
}

/* A rise that is not kept is reported once, not at each poll. */
static void test_suppressed_once(void **state)
{
	struct watch_rule r = rule;
	struct trigger t = {.cooldown_until = 1000 * S};
	uint64_t at = 100 * S;
	const double values[] = {0, 100, 100, 100, 0, 100};
	const enum trigger_event events[] = {0, TRIGGER_SUPPRESSED, 0, 0, 0, TRIGGER_SUPPRESSED};

	(void)state;
	r.hold_ns = 0;
	STEPS(&t, &r, &at, values, events);
}

static void test_stop(void **state)
{
	struct trigger t = {0};
	uint64_t at = 100 * S;
	const double values[] = {0, 100, 100, 100};
	const enum trigger_event events[] = {0, 0, 0, TRIGGER_FIRED};

	(void)state;
	assert_int_equal(trigger_stop(&t, &rule, at), TRIGGER_NOTHING);
	STEPS(&t, &rule, &at, values, events);
	assert_int_equal(trigger_stop(&t, &rule, at), TRIGGER_ENDED);
	assert_int_equal(trigger_stop(&t, &rule, at), TRIGGER_NOTHING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_episode),
		cmocka_unit_test(test_hysteresis),
		cmocka_unit_test(test_dip_counts),
		cmocka_unit_test(test_longest),
		cmocka_unit_test(test_cooldown_and_day),
		cmocka_unit_test(test_suppressed_once),
		cmocka_unit_test(test_stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
