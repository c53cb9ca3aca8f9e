/* fuzz-config.c - any bytes as a trace config, as text and in binary form, and as the config of one
 * data source.  What must hold: a config that was made from text is one in binary form too. */
#include "daemon/config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void as(enum config_form form, const uint8_t *data, size_t size)
{
	char error[CONFIG_ERROR_SIZE] = "";
	struct config *c, *again;

	if (config_read("f", data, size, form, &c, error, sizeof(error)) < 0) {
		if (!*error)
			abort(); /* nobody is told why */
		return;
	}
	if (config_read("f", c->wire.data, c->wire.len, CONFIG_BINARY, &again, error,
			sizeof(error)) < 0)
		abort();
	(void)config_free(again);
	(void)config_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char error[CONFIG_ERROR_SIZE];
	Pb__DataSourceConfig *ds;

	as(CONFIG_EITHER, data, size);
	as(CONFIG_TEXT, data, size);
	as(CONFIG_BINARY, data, size);
	if (config_read_data_source(data, size, &ds, error, sizeof(error)) >= 0)
		(void)config_data_source_free(ds);
	return 0;
}
