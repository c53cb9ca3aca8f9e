/* config-text-parser.h - what the files of the text parser share (text.c, text-value.c).  Private to
 * config/.  Thread: main. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "base/error.h"
#include "config/config-lex.h"
#include "config/config-text.h"

/* The field that a value is for, and where its name stands. */
struct text_field {
	const ProtobufCMessageDescriptor *message;
	const ProtobufCFieldDescriptor *field;
	struct token at;
};

/* One scalar value (the current token, perhaps more) as a field on the wire.  -EINVAL with a line.
 */
int text_value(struct lexer *lexer, const struct text_field *field, struct buffer *out);
