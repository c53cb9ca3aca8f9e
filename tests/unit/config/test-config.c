/* test-config.c - both forms of a config come out as the same message; limits. */
#include <errno.h>

#include "tests/unit/cmocka.h"

#include "config/config.h"

static void config_freep(struct config **c)
{
	*c = config_free(*c);
}

static const char text[] = "buffers { size_kb: 4 fill_policy: DISCARD }\n"
			   "data_sources { config { name: 'linux.perf'\n"
			   "  perf_event_config { callstack_sampling { } } } }\n"
			   "duration_ms: 7 unique_session_name: 'x'\n";

static void check(const struct config *c)
{
	const Pb__TraceConfig *m = c->message;
	const Pb__DataSourceConfig *ds;

	assert_int_equal(m->n_buffers, 1);
	assert_int_equal(m->buffers[0]->size_kb, 4);
	assert_int_equal(m->buffers[0]->fill_policy,
			 PB__TRACE_CONFIG__BUFFER_CONFIG__FILL_POLICY__DISCARD);
	assert_int_equal(m->n_data_sources, 1);
	ds = m->data_sources[0]->config;
	assert_string_equal(ds->name, "linux.perf");
	assert_false(ds->has_target_buffer);
	assert_non_null(ds->perf_event_config->callstack_sampling);
	assert_null(ds->perf_event_config->timebase);
	assert_int_equal(m->duration_ms, 7);
	assert_string_equal(m->unique_session_name, "x");
}

static void test_forms(void **state)
{
	_cleanup_(config_freep) struct config *from_text = NULL, *from_wire = NULL,
					      *detected = NULL;
	char error[CONFIG_ERROR_SIZE];

	(void)state;
	assert_int_equal(config_read("f", text, strlen(text), CONFIG_EITHER, &from_text, error,
				     sizeof(error)),
			 0);
	assert_int_equal(from_text->form, CONFIG_TEXT);
	check(from_text);
	assert_int_equal(config_read("f", from_text->wire.data, from_text->wire.len, CONFIG_EITHER,
				     &from_wire, error, sizeof(error)),
			 0);
	assert_int_equal(from_wire->form, CONFIG_BINARY);
	check(from_wire);
	assert_int_equal(from_wire->wire.len, from_text->wire.len);
	assert_int_equal(
		config_read("f", text, strlen(text), CONFIG_TEXT, &detected, error, sizeof(error)),
		0);
	check(detected);
	/* Nothing at all is a text without fields. */
	detected = config_free(detected);
	assert_int_equal(config_read("f", "", 0, CONFIG_EITHER, &detected, error, sizeof(error)),
			 0);
	assert_int_equal(detected->form, CONFIG_TEXT);
	assert_int_equal(detected->message->n_buffers, 0);
}

static void test_refused(void **state)
{
	struct config *c;
	char error[CONFIG_ERROR_SIZE];
	_cleanup_(freep) char *large = malloc(CONFIG_MAX + 1);

	(void)state;
	assert_non_null(large);
	assert_int_equal(
		config_read("a.cfg", "durationms:1", 12, CONFIG_EITHER, &c, error, sizeof(error)),
		-EINVAL);
	assert_string_equal(error, "a.cfg:1:1: unknown field 'durationms' in TraceConfig; did you "
				   "mean duration_ms?");
	assert_int_equal(config_read("a.cfg", "\x18", 1, CONFIG_EITHER, &c, error, sizeof(error)),
			 -EINVAL);
	assert_string_equal(error, "a.cfg: byte 0, in TraceConfig: duration_ms is cut short");
	/* declared as a text, and is none */
	assert_int_equal(config_read("a.cfg", "\x18\x07", 2, CONFIG_TEXT, &c, error, sizeof(error)),
			 -EINVAL);
	assert_string_equal(error, "a.cfg:1:1: the name of a field is wanted here, not '?'");
	memset(large, ' ', CONFIG_MAX + 1);
	assert_int_equal(config_read("a.cfg", large, CONFIG_MAX + 1, CONFIG_EITHER, &c, error,
				     sizeof(error)),
			 -EFBIG);
	assert_string_equal(error, "a.cfg: a config of 4194305 bytes: at most 4194304 are read");
	assert_int_equal(
		config_read("a.cfg", large, CONFIG_MAX, CONFIG_EITHER, &c, error, sizeof(error)),
		0);
	(void)config_free(c);
}

static void test_data_source(void **state)
{
	char error[CONFIG_ERROR_SIZE];
	Pb__DataSourceConfig *ds;

	(void)state;
	assert_int_equal(config_read_data_source("\x0a\x01x\x10\x03\xfa\x06\x02\x08\x01", 10, &ds,
						 error, sizeof(error)),
			 0);
	assert_string_equal(ds->name, "x");
	assert_int_equal(ds->target_buffer, 3);
	assert_true(ds->perf_event_config->has_all_cpus && ds->perf_event_config->all_cpus);
	(void)config_data_source_free(ds);
	assert_int_equal(config_read_data_source("\x0a\x02x", 3, &ds, error, sizeof(error)),
			 -EINVAL);
	assert_string_equal(error,
			    "byte 1, in DataSourceConfig: name of 2 bytes goes past the end");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_data_source),
	};

	return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
