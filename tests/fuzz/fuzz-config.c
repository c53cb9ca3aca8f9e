/* fuzz-config.c - any bytes as a trace config, as text and in binary form, and as the config of one
 * data source; what can be read is checked and turned into a session's options.  What must hold: a
 * config that was made from text is one in binary form too, and each refusal has its reason. */
#include "base/log.h"
#include "config/config.h"
#include "config/perf-config.h"
#include "tracing/trace-session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void map(const Pb__DataSourceConfig *ds)
{
	struct perf_config_share share = {0};
	const struct perf_config_env env = {.root = "/nowhere", .share = &share};
	char error[CONFIG_ERROR_SIZE] = "";
	struct perf_config *perf;

	if (!ds)
		return;
	if (perf_config_new(&env, ds->perf_event_config, &perf, error, sizeof(error)) < 0) {
		if (!*error)
			abort();
		return;
	}
	if (perf->options.wanted)
		(void)perf->options.wanted(perf->options.wanted_arg, 42, "/bin/echo\0-n", 12);
	(void)perf_config_free(perf);
}

static void as(enum config_form form, const uint8_t *data, size_t size)
{
	char error[CONFIG_ERROR_SIZE] = "";
	struct config *c, *again;

	if (config_read("f", data, size, form, &c, error, sizeof(error)) < 0) {
		if (!*error)
			abort(); /* an error without its text */
		return;
	}
	if (config_read("f", c->wire.data, c->wire.len, CONFIG_BINARY, &again, error,
			sizeof(error)) < 0)
		abort();
	(void)config_free(again);
	*error = 0;
	if (trace_check(c->message, error, sizeof(error)) < 0 && !*error)
		abort();
	for (size_t i = 0; i < c->message->n_data_sources && i < 4; i++)
		map(c->message->data_sources[i]->config);
	(void)config_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char error[CONFIG_ERROR_SIZE];
	Pb__DataSourceConfig *ds;

	log_level = LOG_LEVEL_QUIET;
	as(CONFIG_EITHER, data, size);
	as(CONFIG_TEXT, data, size);
	as(CONFIG_BINARY, data, size);
	if (config_read_data_source(data, size, &ds, error, sizeof(error)) >= 0) {
		map(ds);
		(void)config_data_source_free(ds);
	}
	return 0;
}
