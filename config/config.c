/* config.c - see config.h.
 *
 * Of the check of the wire form: unknown fields pass, whole: a newer config has them.  Groups are an
 * error: no writer uses them any more, and protobuf-c does not read them. */
#include <errno.h>
#include <stdarg.h>

#include "base/bytes.h"
#include "base/error.h"
#include "config/config.h"
#include "config/config-text.h"
#include "protos/wire.h"

struct wire {
	const uint8_t *start;
	size_t fields;
	char *error;
	size_t error_size;
};

static int wire_error(const struct wire *w, const struct cursor *at,
		      const ProtobufCMessageDescriptor *message, const char *format, ...)
	_printf_(4, 5);
static int wire_error(const struct wire *w, const struct cursor *at,
		      const ProtobufCMessageDescriptor *message, const char *format, ...)
{
	int n = snprintf(w->error, w->error_size, "byte %td, in %s: ", at->p - w->start,
			 message->short_name);
	va_list ap;

	if (n > 0 && (size_t)n < w->error_size) {
		va_start(ap, format);
		(void)vsnprintf(w->error + n, w->error_size - (size_t)n, format, ap);
		va_end(ap);
	}
	return fail(-EINVAL);
}

/* TraceConfig has no other types: test-config-text.c. */
static unsigned wire_of(const ProtobufCFieldDescriptor *field)
{
	switch (field->type) {
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_BYTES:
	case PROTOBUF_C_TYPE_MESSAGE:
		return WIRE_BYTES;
	case PROTOBUF_C_TYPE_DOUBLE:
		return WIRE_64;
	default:
		return WIRE_VARINT;
	}
}

/* Numbers that may stand packed in one field of bytes. */
static bool is_packed(const ProtobufCFieldDescriptor *field, unsigned wire)
{
	return field->label == PROTOBUF_C_LABEL_REPEATED && wire == WIRE_BYTES &&
	       wire_of(field) != WIRE_BYTES;
}

/* A packed list: how many numbers are in it. */
static size_t count_packed(const ProtobufCFieldDescriptor *field, const uint8_t *data, size_t len)
{
	size_t n = 0;

	if (wire_of(field) != WIRE_VARINT)
		return len / 8;
	for (size_t i = 0; i < len; i++)
		n += !(data[i] & 0x80);
	return n;
}

static int check_message(struct wire *w, const ProtobufCMessageDescriptor *message,
			 const void *data, size_t len, unsigned depth);

static int check_bytes(struct wire *w, const ProtobufCMessageDescriptor *message,
		       const ProtobufCFieldDescriptor *field, const struct cursor *at,
		       const uint8_t *data, size_t len, unsigned depth)
{
	if (field->type == PROTOBUF_C_TYPE_MESSAGE)
		return check_message(w, field->descriptor, data, len, depth + 1);
	if (field->type == PROTOBUF_C_TYPE_STRING && len && memchr(data, 0, len))
		return wire_error(w, at, message, "%s holds a NUL", field->name);
	if (is_packed(field, WIRE_BYTES))
		w->fields += count_packed(field, data, len);
	return 0;
}

/* The value of one field.  @c is behind its tag. */
static int check_value(struct wire *w, const ProtobufCMessageDescriptor *message,
		       const ProtobufCFieldDescriptor *field, unsigned wire, struct cursor *c,
		       unsigned depth)
{
	const struct cursor at = *c;
	const uint8_t *data;
	uint64_t len = 0;

	if (wire == WIRE_VARINT) {
		(void)cursor_uleb(c);
		return 0;
	}
	if (wire != WIRE_BYTES) {
		(void)cursor_bytes(c, wire == WIRE_64 ? 8 : 4);
		return 0;
	}
	len = cursor_uleb(c);
	if (!c->bad && len > cursor_left(c))
		return wire_error(w, &at, message, "%s of %llu bytes goes past the end",
				  field ? field->name : "a field", (unsigned long long)len);
	data = cursor_bytes(c, (size_t)len);
	if (c->bad || !field)
		return 0;
	return check_bytes(w, message, field, &at, data, (size_t)len, depth);
}

static int check_field(struct wire *w, const ProtobufCMessageDescriptor *message, struct cursor *c,
		       unsigned depth)
{
	const struct cursor at = *c;
	uint64_t tag = cursor_uleb(c), id = tag >> 3;
	unsigned wire = tag & 7;
	const ProtobufCFieldDescriptor *field;
	int r;

	if (c->bad || !id || id >= 1u << 29)
		return wire_error(w, &at, message, "this is not a field");
	if (wire != WIRE_VARINT && wire != WIRE_64 && wire != WIRE_BYTES && wire != WIRE_32)
		return wire_error(w, &at, message, "field %u has no kind that is known (%u)",
				  (unsigned)id, wire);
	field = protobuf_c_message_descriptor_get_field(message, (unsigned)id);
	if (field && wire != wire_of(field) && !is_packed(field, wire))
		return wire_error(w, &at, message, "%s is of another kind", field->name);
	r = check_value(w, message, field, wire, c, depth);
	if (r < 0)
		return r;
	if (c->bad)
		return wire_error(w, &at, message, "%s is cut short",
				  field ? field->name : "a field");
	if (++w->fields > WIRE_FIELDS)
		return wire_error(w, &at, message, "more than %d fields", WIRE_FIELDS);
	return 0;
}

static int check_message(struct wire *w, const ProtobufCMessageDescriptor *message,
			 const void *data, size_t len, unsigned depth)
{
	struct cursor c = cursor_of(data, len);

	if (depth > WIRE_DEPTH)
		return wire_error(w, &c, message, "nested deeper than %d", WIRE_DEPTH);
	while (cursor_left(&c)) {
		int r = check_field(w, message, &c, depth);

		if (r < 0)
			return r;
	}
	return 0;
}

int wire_check(const ProtobufCMessageDescriptor *message, const void *data, size_t len, char *error,
	       size_t error_size)
{
	struct wire w = {.start = data, .error = error, .error_size = error_size};

	return check_message(&w, message, data, len, 0);
}

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
