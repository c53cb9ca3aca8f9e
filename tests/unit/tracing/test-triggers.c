/* test-triggers.c - the triggers of a config: what is refused, and which are accepted when.  Time is a parameter. */
#include "tests/unit/cmocka.h"

#include "tests/unit/tracing/check-fixture.h"

#include "tracing/triggers.h"

#define HOUR (3600 * NSEC_PER_SEC)

static const char *check(const char *text)
{
	return checked(text, triggers_check);
}

#define MODE(mode, more) "trigger_config { trigger_mode: " mode " " more " } "
#define ONE "triggers { name: 'a' } trigger_timeout_ms: 9"

static int mode_of(const char *text)
{
	struct config *c = parse(text);
	int mode = (int)triggers_mode(c->message);

	(void)config_free(c);
	return mode;
}

static void test_mode(void **state)
{
	(void)state;
	assert_int_equal(mode_of(""), 0);
	assert_int_equal(mode_of(MODE("START_TRACING", ONE)), 1);
	assert_int_equal(mode_of(MODE("START_TRACING", "use_clone_snapshot_if_available: true")),
			 1);
	assert_int_equal(mode_of(MODE("STOP_TRACING", ONE)), 2);
	assert_int_equal(mode_of(MODE("STOP_TRACING", "use_clone_snapshot_if_available: true")), 4);
	assert_int_equal(mode_of(MODE("CLONE_SNAPSHOT", ONE)), 4);
}

static void test_check(void **state)
{
	static const char *const no_file[] = {
		MODE("STOP_TRACING", ONE) "write_into_file: true",
		MODE("CLONE_SNAPSHOT", ONE) "write_into_file: true",
	};

	(void)state;
	assert_string_equal(check(""), "");
	assert_string_equal(check("trigger_config { }"), "");
	assert_string_equal(check(MODE("START_TRACING", ONE) "write_into_file: true"), "");
	assert_string_equal(check(MODE("STOP_TRACING", ONE)), "");
	assert_string_equal(check(MODE("CLONE_SNAPSHOT", ONE)), "");
	for (size_t i = 0; i < ARRAY_SIZE(no_file); i++)
		assert_string_equal(check(no_file[i]),
				    "write_into_file: STOP_TRACING and CLONE_SNAPSHOT keep nothing "
				    "before a trigger");
	assert_string_equal(check(MODE("STOP_TRACING", ONE) "duration_ms: 1"),
			    "duration_ms: it excludes trigger_config (trigger_timeout_ms, "
			    "stop_delay_ms)");
	assert_string_equal(check(MODE("STOP_TRACING", "triggers { name: 'a' }")),
			    "trigger_config.trigger_timeout_ms: the wait for a trigger needs an "
			    "end");
	assert_string_equal(check(MODE("STOP_TRACING", "trigger_timeout_ms: 9")),
			    "trigger_config.triggers: there are 0, and 1 to 256 are needed");
	assert_string_equal(check(MODE("STOP_TRACING", ONE " triggers { }")),
			    "trigger_config.triggers[1].name: a trigger needs a name");
	assert_string_equal(check(MODE("STOP_TRACING", ONE " triggers { name: 'a' }")),
			    "trigger_config.triggers[1].name: triggers[0] is called 'a' too");
	assert_string_equal(
		check(MODE("STOP_TRACING", ONE " triggers { name: 'b' max_per_24_h: 65537 }")),
		"trigger_config.triggers[1].max_per_24_h: 65537: at most 65536");
	assert_string_equal(
		check(MODE("STOP_TRACING", ONE " triggers { name: 'b' producer_name_regex: 'p' }")),
		"trigger_config.triggers[1].producer_name_regex: without a tracing "
		"service no producer sends triggers");
}

static void test_take(void **state)
{
	struct config *c = parse(MODE(
		"STOP_TRACING", "trigger_timeout_ms: 9 triggers { name: 'free' stop_delay_ms: 7 } "
				"triggers { name: 'twice' max_per_24_h: 2 stop_delay_ms: 8 } "
				"triggers { name: 'half' skip_probability: 0.5 max_per_24_h: 1 }"));
	struct triggers *t;
	uint32_t delay = 1;

	(void)state;
	assert_int_equal(triggers_new(c->message->trigger_config, &t), 0);
	assert_int_equal(triggers_take(t, "fre", 0, 0, &delay), TRIGGER_UNKNOWN);
	assert_int_equal(triggers_take(t, "", 0, 0, &delay), TRIGGER_UNKNOWN);
	assert_int_equal(delay, 1);
	for (int i = 0; i < 100; i++)
		assert_int_equal(triggers_take(t, "free", 5, 0, &delay), TRIGGER_ACCEPTED);
	assert_int_equal(delay, 7);
	/* two in any 24 hours, not two in each day */
	assert_int_equal(triggers_take(t, "twice", 1 * HOUR, 0, &delay), TRIGGER_ACCEPTED);
	assert_int_equal(delay, 8);
	assert_int_equal(triggers_take(t, "twice", 20 * HOUR, 0, &delay), TRIGGER_ACCEPTED);
	assert_int_equal(triggers_take(t, "twice", 25 * HOUR - 1, 0, &delay), TRIGGER_LIMITED);
	assert_int_equal(triggers_take(t, "twice", 25 * HOUR, 0, &delay), TRIGGER_ACCEPTED);
	assert_int_equal(triggers_take(t, "twice", 43 * HOUR, 0, &delay), TRIGGER_LIMITED);
	assert_int_equal(triggers_take(t, "twice", 44 * HOUR, 0, &delay), TRIGGER_ACCEPTED);
	/* what is skipped does not count for the limit */
	assert_int_equal(triggers_take(t, "half", 0, 0.49, &delay), TRIGGER_SKIPPED);
	assert_int_equal(triggers_take(t, "half", 0, 0.5, &delay), TRIGGER_ACCEPTED);
	assert_int_equal(delay, 0);
	assert_int_equal(triggers_take(t, "half", 0, 0.5, &delay), TRIGGER_LIMITED);
	assert_null(triggers_free(t));
	assert_null(triggers_free(NULL));
	(void)config_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mode),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_take),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
