/* config-text.h - a message in protobuf's text format, by its descriptor, into wire bytes.  Private to
 * config/.  Thread: main. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "base/bytes.h"

/* Messages within messages, and braces within what is skipped: more is an error. */
enum { TEXT_DEPTH = 64 };

/* @name stands before line and column in error lines.  The content of a `Foreign` message
 * (protos/trace_config.proto) is skipped to its closing brace.  -EINVAL with a line in @error. */
int text_to_wire(const ProtobufCMessageDescriptor *message, const char *name, const char *text,
		 size_t len, struct buffer *out, char *error, size_t error_size);
