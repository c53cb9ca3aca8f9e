/* config.c - see config.h. */
#include <errno.h>

#include "base/error.h"
#include "config/config.h"
#include "config/config-text.h"
#include "config/config-wire.h"

static bool looks_binary(const uint8_t *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (data[i] == 0x7f || (data[i] < ' ' && (data[i] < '\t' || data[i] > '\r')))
			return true;
	return false;
}

static int check_size(size_t len, char *error, size_t error_size)
{
	if (len <= CONFIG_MAX)
		return 0;
	(void)snprintf(error, error_size, "a config of %zu bytes: at most %d are read", len,
		       CONFIG_MAX);
	return fail(-EFBIG);
}

/* Checked and unpacked. */
static int unpack(const ProtobufCMessageDescriptor *message, const void *data, size_t len,
		  ProtobufCMessage **ret_message, char *error, size_t error_size)
{
	int r = wire_check(message, data, len, error, error_size);

	if (r < 0)
		return trace(r);
	/* What it did not like was refused above: memory is what is left. */
	*ret_message = protobuf_c_message_unpack(message, NULL, len, data);
	if (*ret_message)
		return 0;
	(void)snprintf(error, error_size, "no memory is left for a config of %zu bytes", len);
	return fail(-ENOMEM);
}

static void config_freep(struct config **config)
{
	*config = config_free(*config);
}

int config_read(const char *name, const void *data, size_t len, enum config_form form,
		struct config **ret_config, char *error, size_t error_size)
{
	_cleanup_(config_freep) struct config *c = calloc(1, sizeof(*c));
	char why[CONFIG_ERROR_SIZE] = "no memory is left";
	ProtobufCMessage *message;
	int r = c ? check_size(len, why, sizeof(why)) : fail(-ENOMEM);

	if (r >= 0) {
		c->form = form != CONFIG_EITHER	    ? form
			  : looks_binary(data, len) ? CONFIG_BINARY
						    : CONFIG_TEXT;
		if (c->form == CONFIG_TEXT) {
			r = text_to_wire(&pb__trace_config__descriptor, name, data, len, &c->wire,
					 error, error_size);
			if (r < 0)
				return trace(r);
		} else {
			buffer_append(&c->wire, data, len);
			r = c->wire.bad ? fail(-ENOMEM) : 0;
		}
	}
	if (r >= 0)
		r = unpack(&pb__trace_config__descriptor, c->wire.data, c->wire.len, &message, why,
			   sizeof(why));
	if (r < 0) {
		(void)snprintf(error, error_size, "%.200s: %s", name, why);
		return trace(r);
	}
	c->message = (Pb__TraceConfig *)message;
	*ret_config = take(c);
	return 0;
}

struct config *config_free(struct config *c)
{
	if (!c)
		return NULL;
	if (c->message)
		pb__trace_config__free_unpacked(c->message, NULL);
	buffer_deinit(&c->wire);
	free(c);
	return NULL;
}

int config_read_data_source(const void *data, size_t len, Pb__DataSourceConfig **ret_config,
			    char *error, size_t error_size)
{
	ProtobufCMessage *message;
	int r = check_size(len, error, error_size);

	if (r >= 0)
		r = unpack(&pb__data_source_config__descriptor, data, len, &message, error,
			   error_size);
	if (r < 0)
		return trace(r);
	*ret_config = (Pb__DataSourceConfig *)message;
	return 0;
}

Pb__DataSourceConfig *config_data_source_free(Pb__DataSourceConfig *c)
{
	if (c)
		pb__data_source_config__free_unpacked(c, NULL);
	return NULL;
}
