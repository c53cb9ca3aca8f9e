/* config.h - a TraceConfig, or the part of it for one data source, from text or bytes.
 * Thread: main.
 *
 *   text ──► text_to_wire ─┐
 *   bytes ─────────────────┴─► wire_check ──► protobuf-c
 *
 * Size, nesting and number of fields are bounded before protobuf-c unpacks the message: it recurses and allocates as the
 * bytes demand.  The values of
 * the fields are checked by perf-config.h and tracing/trace-session.h. */
#pragma once

#include "base/bytes.h"
#include "protos/trace_config.pb-c.h"

enum {
	CONFIG_MAX = 4 << 20,	 /* bytes of a config */
	CONFIG_ERROR_SIZE = 512, /* of the text for an error line */
};

enum config_form {
	CONFIG_EITHER, /* by its bytes: a text has no control characters */
	CONFIG_TEXT,
	CONFIG_BINARY,
};

struct config {
	Pb__TraceConfig *message;
	struct buffer wire; /* the same as bytes; of a text config: converted */
	enum config_form form;
};

/* @name of the file stands in error lines, with line and column or byte.  -EINVAL, -EFBIG, -ENOMEM
 * with a line in @error. */
int config_read(const char *name, const void *data, size_t len, enum config_form form,
		struct config **ret_config, char *error, size_t error_size);
struct config *config_free(struct config *config);

/* A DataSourceConfig in binary form, as a service sends it.  Free with config_data_source_free().
 * Errors as above. */
int config_read_data_source(const void *data, size_t len, Pb__DataSourceConfig **ret_config,
			    char *error, size_t error_size);
Pb__DataSourceConfig *config_data_source_free(Pb__DataSourceConfig *config);

/* ---- the check of the wire form: for tests ---- */

enum {
	WIRE_DEPTH = 32,      /* messages within messages */
	WIRE_FIELDS = 1 << 16 /* in all: each may cost an object of some hundred bytes */
};

/* Is this a message of the given type?  -EINVAL with a line that names the byte and the field. */
int wire_check(const ProtobufCMessageDescriptor *message, const void *data, size_t len, char *error,
	       size_t error_size);
