/* config-text.h - a message in protobuf's text format, by its descriptor, into wire bytes.  Private to
 * config/.  Thread: main.
 * The format: https://protobuf.dev/reference/protobuf/textformat-spec/ */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "base/bytes.h"

/* Messages within messages, and braces within what is skipped: more is an error. */
enum { TEXT_DEPTH = 64 };

/* @name stands before line and column in error lines.  The content of a `Foreign` message
 * (protos/trace_config.proto) is skipped to its closing brace.  -EINVAL with a line in @error. */
int text_to_wire(const ProtobufCMessageDescriptor *message, const char *name, const char *text,
		 size_t len, struct buffer *out, char *error, size_t error_size);

/* ---- the words of the format: for tests ---- */

enum token_kind {
	TOKEN_END,
	TOKEN_WORD,   /* a name */
	TOKEN_NUMBER, /* begins with a digit, or a point and a digit; not yet looked at */
	TOKEN_STRING, /* with its quotes, escapes not yet looked at */
	TOKEN_SIGN,   /* any other character, one at a time */
};

struct token {
	enum token_kind kind;
	const char *text; /* borrowed from the input */
	size_t len;
	uint32_t line, column; /* from 1; a tab is one column, a byte is one column */
};

struct lexer {
	const char *name, *at, *end, *line_start;
	uint32_t line;
	struct token token; /* the current one */
	char *error;
	size_t error_size;
};

/* Borrows all.  lexer_next() makes the first token current. */
void lexer_init(struct lexer *lexer, const char *name, const char *text, size_t len, char *error,
		size_t error_size);
/* -EINVAL with a line: a string without an end. */
int lexer_next(struct lexer *lexer);
static inline bool lexer_is(const struct lexer *lexer, char sign)
{
	return lexer->token.kind == TOKEN_SIGN && lexer->token.text[0] == sign;
}
/* "NAME:LINE:COLUMN: ..." of @at into the error text; -EINVAL. */
int lexer_error(struct lexer *lexer, const struct token *at, const char *format, ...)
	_printf_(3, 4);
/* What a token looks like, for an error line: quoted and cut. */
struct token_text {
	char text[48];
};
struct token_text token_text(const struct token *token);

/* Appends the content of a string token: quotes off, escapes resolved.  -EINVAL with a line. */
int lexer_unquote(struct lexer *lexer, struct buffer *out);
