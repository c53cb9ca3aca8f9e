/* config-wire.h - is this a message of the given type?  Private to config/.  Thread: main.
 * Runs before protobuf-c unpacks the message, which recurses and allocates as the bytes demand. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "base/util.h"

enum {
	WIRE_DEPTH = 32,      /* messages within messages */
	WIRE_FIELDS = 1 << 16 /* in all: each may cost an object of some hundred bytes */
};

/* -EINVAL with a line that names the byte and the field. */
int wire_check(const ProtobufCMessageDescriptor *message, const void *data, size_t len, char *error,
	       size_t error_size);
