/* config-text.c - messages, fields and lists of the text format; see config-text.h.
 *
 * The result is the wire form, so that text and binary configs are handled alike from here on.  A nested
 * message is appended first; its length is inserted before it when its end is known.
 *
 * Of the words (lexer_next()): a character outside of names, numbers and strings is a token of its
 * own: the parser reports the token that it expected. */
#include <ctype.h>
#include <errno.h>
#include <math.h>

#include <protobuf-c/protobuf-c.h>
#include <stdarg.h>

#include "base/error.h"
#include "base/nearest.h"
#include "config/config-text.h"
#include "protos/wire.h"

void lexer_init(struct lexer *l, const char *name, const char *text, size_t len, char *error,
		size_t error_size)
{
	*l = (struct lexer){
		.name = name,
		.at = text,
		.end = text + len,
		.line_start = text,
		.line = 1,
		.error = error,
		.error_size = error_size,
	};
	/* A byte order mark, as some editors leave it. */
	if (len >= 3 && !memcmp(text, "\xef\xbb\xbf", 3))
		l->line_start = l->at += 3;
}

int lexer_error(struct lexer *l, const struct token *at, const char *format, ...)
{
	int n = snprintf(l->error, l->error_size, "%.200s:%u:%u: ", l->name, at->line, at->column);
	va_list ap;

	if (n > 0 && (size_t)n < l->error_size) {
		va_start(ap, format);
		(void)vsnprintf(l->error + n, l->error_size - (size_t)n, format, ap);
		va_end(ap);
	}
	return fail(-EINVAL);
}

struct token_text token_text(const struct token *t)
{
	struct token_text out;
	size_t len = t->len < 32 ? t->len : 32, n = 0;

	if (t->kind == TOKEN_END) {
		(void)snprintf(out.text, sizeof(out.text), "the end of the file");
		return out;
	}
	if (t->kind != TOKEN_STRING)
		out.text[n++] = '\'';
	for (size_t i = 0; i < len; i++)
		out.text[n++] = isprint((unsigned char)t->text[i]) ? t->text[i] : '?';
	if (len < t->len) {
		memcpy(out.text + n, "...", 3);
		n += 3;
	}
	if (t->kind != TOKEN_STRING)
		out.text[n++] = '\'';
	out.text[n] = 0;
	return out;
}

static void skip_blanks(struct lexer *l)
{
	for (; l->at < l->end; l->at++) {
		if (*l->at == '#')
			while (l->at + 1 < l->end && l->at[1] != '\n')
				l->at++;
		else if (*l->at == '\n')
			l->line++, l->line_start = l->at + 1;
		else if (!isspace((unsigned char)*l->at))
			return;
	}
}

static bool is_name_char(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static size_t number_len(const char *at, const char *end)
{
	bool hex = at + 1 < end && at[0] == '0' && (at[1] | 32) == 'x';
	const char *p = at;

	while (p < end && (is_name_char(*p) || *p == '.' ||
			   ((*p == '+' || *p == '-') && !hex && (p[-1] | 32) == 'e')))
		p++;
	return (size_t)(p - at);
}

static int string_len(struct lexer *l, size_t *ret_len)
{
	const char *p = l->at + 1;

	for (; p < l->end && *p != '\n'; p++) {
		if (*p == '\\' && p + 1 < l->end && p[1] != '\n') {
			p++;
		} else if (*p == *l->at) {
			*ret_len = (size_t)(p + 1 - l->at);
			return 0;
		}
	}
	return lexer_error(l, &l->token, "this string has no end on its line");
}

int lexer_next(struct lexer *l)
{
	struct token *t = &l->token;
	const char *p;

	skip_blanks(l);
	p = l->at;
	*t = (struct token){
		.text = p,
		.line = l->line,
		.column = (uint32_t)(p - l->line_start) + 1,
	};
	if (p == l->end)
		return 0;
	if (*p == '"' || *p == '\'') {
		int r = string_len(l, &t->len);

		if (r < 0)
			return r;
		t->kind = TOKEN_STRING;
	} else if (isdigit((unsigned char)*p) ||
		   (*p == '.' && p + 1 < l->end && isdigit((unsigned char)p[1]))) {
		t->kind = TOKEN_NUMBER;
		t->len = number_len(p, l->end);
	} else if (is_name_char(*p)) {
		t->kind = TOKEN_WORD;
		while (p + t->len < l->end && is_name_char(p[t->len]))
			t->len++;
	} else {
		t->kind = TOKEN_SIGN;
		t->len = 1;
	}
	l->at += t->len;
	return 0;
}

/* ---- strings ---- */

static void append_utf8(struct buffer *out, uint32_t c)
{
	uint8_t bytes[4];
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	for (size_t i = n; i-- > 1; c >>= 6)
		bytes[i] = (uint8_t)(0x80 | (c & 0x3f));
	bytes[0] = (uint8_t)(n == 1 ? c : ((0xf00u >> n & 0xff) | c));
	buffer_append(out, bytes, n);
}

/* Up to @max digits of @base at *p; how many there were. */
static size_t digits(const char **p, const char *end, unsigned base, size_t max,
		     uint32_t *ret_value)
{
	size_t n = 0;

	for (*ret_value = 0; n < max && *p < end; n++, (*p)++) {
		int c = tolower((unsigned char)**p);
		unsigned digit = isdigit(c) ? (unsigned)c - '0' : (unsigned)c - 'a' + 10;

		if (!isxdigit(c) || digit >= base)
			break;
		*ret_value = *ret_value * base + digit;
	}
	return n;
}

/* The escape behind a backslash; false: there is none of this name. */
static bool append_escape(const char **p, const char *end, struct buffer *out)
{
	static const char names[] = "abfnrtv?'\"\\", values[] = "\a\b\f\n\r\t\v?'\"\\";
	char c = **p;
	const char *at = strchr(names, c);
	uint32_t value;

	if (c && at) {
		buffer_append(out, &values[at - names], 1);
		(*p)++;
		return true;
	}
	if (c == 'u' || c == 'U') {
		size_t n = c == 'u' ? 4 : 8;

		(*p)++;
		if (digits(p, end, 16, n, &value) < n || value > 0x10ffff || value >> 11 == 0x1b)
			return false;
		append_utf8(out, value);
		return true;
	}
	*p += c == 'x' || c == 'X';
	if (!digits(p, end, c == 'x' || c == 'X' ? 16 : 8, c == 'x' || c == 'X' ? 2 : 3, &value) ||
	    value > 0xff)
		return false;
	buffer_append(out, &(uint8_t){(uint8_t)value}, 1);
	return true;
}

int lexer_unquote(struct lexer *l, struct buffer *out)
{
	const char *p = l->token.text + 1, *end = l->token.text + l->token.len - 1;

	while (p < end) {
		const char *from = p;

		if (*p != '\\') {
			while (p < end && *p != '\\')
				p++;
			buffer_append(out, from, (size_t)(p - from));
			continue;
		}
		p++;
		if (p == end || !append_escape(&p, end, out)) {
			struct token at = l->token;

			at.column += (uint32_t)(from - at.text);
			return lexer_error(
				l, &at, "unknown escape '\\%c' in a string",
				from + 1 < end && isprint((unsigned char)from[1]) ? from[1] : '?');
		}
	}
	return 0;
}

/* The field that a value is for, and where its name stands. */
struct text_field {
	const ProtobufCMessageDescriptor *message;
	const ProtobufCFieldDescriptor *field;
	struct token at;
};

/* ---- values: numbers, strings and names as wire bytes ----
 * A number must fit its field: a value that protobuf would cut off or wrap around is an error here. */

static void put_tag(const struct text_field *f, unsigned wire, struct buffer *out)
{
	buffer_varint(out, (uint64_t)f->field->id << 3 | wire);
}

static bool token_is(const struct token *t, const char *text)
{
	return t->len == strlen(text) && !memcmp(t->text, text, t->len);
}

static int wrong(struct lexer *l, const struct text_field *f, const char *wanted)
{
	return lexer_error(l, &l->token, "%s takes %s, not %s", f->field->name, wanted,
			   token_text(&l->token).text);
}

/* A sign before a number, which may stand apart from it. */
static int take_minus(struct lexer *l, bool *ret_minus)
{
	*ret_minus = lexer_is(l, '-');
	return *ret_minus ? lexer_next(l) : 0;
}

/* The current token as a whole number of at most 64 bits. */
static int parse_whole(struct lexer *l, const struct text_field *f, uint64_t *ret_value)
{
	char text[32];
	int r;

	if (l->token.kind != TOKEN_NUMBER || l->token.len >= sizeof(text))
		return wrong(l, f, "a whole number");
	memcpy(text, l->token.text, l->token.len);
	text[l->token.len] = 0;
	r = parse_u64(text, 0, UINT64_MAX, ret_value);
	if (r == -ERANGE)
		return lexer_error(l, &l->token, "%s does not fit into 64 bits", text);
	return r < 0 ? wrong(l, f, "a whole number") : 0;
}

static int value_integer(struct lexer *l, const struct text_field *f, bool is_signed, unsigned bits,
			 uint64_t *ret_value)
{
	uint64_t max = is_signed ? UINT64_MAX >> (65 - bits) : UINT64_MAX >> (64 - bits), value;
	struct token at = l->token;
	bool minus;
	int r = take_minus(l, &minus);

	if (r >= 0)
		r = parse_whole(l, f, &value);
	if (r < 0)
		return r;
	if (minus && !is_signed && value)
		return lexer_error(l, &at, "%s cannot be negative", f->field->name);
	if (value > max + (minus && is_signed))
		return lexer_error(l, &at, "%s%.*s does not fit %s: %s%llu is the %s",
				   minus ? "-" : "", (int)l->token.len, l->token.text,
				   f->field->name, minus ? "-" : "",
				   (unsigned long long)max + minus, minus ? "least" : "most");
	*ret_value = minus ? -value : value;
	return 0;
}

static int value_enum(struct lexer *l, const struct text_field *f, uint64_t *ret_value)
{
	const ProtobufCEnumDescriptor *names = f->field->descriptor;
	struct token_text wanted = {0};
	struct nearest nearest = {.wanted = wanted.text};
	const struct token at = l->token;

	if (at.kind != TOKEN_WORD) {
		int r = value_integer(l, f, true, 32, ret_value);

		if (r < 0)
			return r;
		if (protobuf_c_enum_descriptor_get_value(names, (int)*ret_value))
			return 0;
		return lexer_error(l, &at, "%s has no value %d", f->field->name, (int)*ret_value);
	}
	for (unsigned i = 0; i < names->n_values; i++) {
		if (token_is(&at, names->values[i].name)) {
			*ret_value = (uint64_t)(int64_t)names->values[i].value;
			return 0;
		}
	}
	(void)snprintf(wanted.text, sizeof(wanted.text), "%.*s", (int)at.len, at.text);
	for (unsigned i = 0; i < names->n_values; i++)
		nearest_offer(&nearest, names->values[i].name);
	(void)lexer_error(l, &at, "unknown value %s of %s", token_text(&at).text, f->field->name);
	nearest_append(&nearest, l->error, l->error_size);
	return fail(-EINVAL);
}

static int value_bool(struct lexer *l, const struct text_field *f, uint64_t *ret_value)
{
	static const char *const yes[] = {"true", "True", "t", "1"}, *const no[] = {"false",
										    "False", "f",
										    "0"};

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
		if (token_is(&l->token, yes[i]) || token_is(&l->token, no[i])) {
			*ret_value = token_is(&l->token, yes[i]);
			return 0;
		}
	}
	return wrong(l, f, "true or false");
}

static int value_double(struct lexer *l, const struct text_field *f, double *ret_value)
{
	char text[64], *end;
	bool minus;
	int r = take_minus(l, &minus);

	if (r < 0)
		return r;
	if ((l->token.kind != TOKEN_NUMBER && l->token.kind != TOKEN_WORD) ||
	    l->token.len >= sizeof(text))
		return wrong(l, f, "a number");
	memcpy(text, l->token.text, l->token.len);
	text[l->token.len] = 0;
	*ret_value = strtod(text, &end);
	if (end == text || (*end && !((*end | 32) == 'f' && !end[1])))
		return wrong(l, f, "a number");
	if (minus)
		*ret_value = -*ret_value;
	return 0;
}

/* Strings that stand side by side are one. */
static int value_string(struct lexer *l, const struct text_field *f, struct buffer *out)
{
	_cleanup_(buffer_deinit) struct buffer text = {0};
	const struct token at = l->token;
	int r;

	if (at.kind != TOKEN_STRING)
		return wrong(l, f, "a string in quotes");
	while (l->token.kind == TOKEN_STRING) {
		r = lexer_unquote(l, &text);
		if (r >= 0)
			r = lexer_next(l);
		if (r < 0)
			return r;
	}
	if (f->field->type == PROTOBUF_C_TYPE_STRING && text.len && memchr(text.data, 0, text.len))
		return lexer_error(l, &at, "a string for %s cannot hold a NUL", f->field->name);
	put_tag(f, WIRE_BYTES, out);
	buffer_varint(out, text.len);
	buffer_append(out, text.data, text.len);
	out->bad |= text.bad;
	return 0;
}

static int value_real(struct lexer *l, const struct text_field *f, struct buffer *out)
{
	double value;
	int r = value_double(l, f, &value);

	if (r < 0)
		return r;
	put_tag(f, WIRE_64, out);
	buffer_append(out, &value, sizeof(value));
	return lexer_next(l);
}

/* One scalar value (the current token, perhaps more) as a field on the wire.  -EINVAL with a line.
 * TraceConfig has no float, sint32, fixed32 and the like: test-config-text.c looks at each field. */
static int text_value(struct lexer *l, const struct text_field *f, struct buffer *out)
{
	ProtobufCType type = f->field->type;
	uint64_t value;
	int r;

	if (type == PROTOBUF_C_TYPE_STRING || type == PROTOBUF_C_TYPE_BYTES)
		return value_string(l, f, out);
	if (type == PROTOBUF_C_TYPE_DOUBLE)
		return value_real(l, f, out);
	if (type == PROTOBUF_C_TYPE_BOOL)
		r = value_bool(l, f, &value);
	else if (type == PROTOBUF_C_TYPE_ENUM)
		r = value_enum(l, f, &value);
	else
		r = value_integer(
			l, f, type == PROTOBUF_C_TYPE_INT32 || type == PROTOBUF_C_TYPE_INT64,
			type == PROTOBUF_C_TYPE_INT32 || type == PROTOBUF_C_TYPE_UINT32 ? 32 : 64,
			&value);
	if (r < 0)
		return r;
	put_tag(f, WIRE_VARINT, out);
	buffer_varint(out, value);
	return lexer_next(l);
}

/* ---- fields seen ---- */

enum { MAX_FIELDS = 128 };

/* Which fields a message has had so far. */
struct seen {
	uint64_t bits[MAX_FIELDS / 64];
};

static bool was_seen(const struct seen *seen, size_t index)
{
	return seen->bits[index / 64] >> (index % 64) & 1;
}

static int parse_fields(struct lexer *l, const ProtobufCMessageDescriptor *message,
			const struct token *open, unsigned depth, struct buffer *out);

/* What closes the message that @open began; 0: the end of the file. */
static char closer_of(const struct token *open)
{
	return open ? (open->text[0] == '{' ? '}' : '>') : 0;
}

static int not_closed(struct lexer *l, const struct token *open)
{
	return lexer_error(l, &l->token, "found %s, but the '%c' of line %u is still open",
			   token_text(&l->token).text, open->text[0], open->line);
}

/* ---- messages of other data sources: skipped ---- */

static bool is_foreign(const ProtobufCFieldDescriptor *field)
{
	const ProtobufCMessageDescriptor *message = field->descriptor;

	return field->type == PROTOBUF_C_TYPE_MESSAGE && !strcmp(message->short_name, "Foreign");
}

/* From its opening brace to the closing one, which is left current. */
static int skip_foreign(struct lexer *l)
{
	struct token open[TEXT_DEPTH];
	size_t depth = 0;

	for (;;) {
		const struct token *t = &l->token;
		char sign = t->kind == TOKEN_SIGN ? t->text[0] : 0;
		int r;

		if (sign == '{' || sign == '<' || sign == '[') {
			if (depth == TEXT_DEPTH)
				return lexer_error(l, t, "nested deeper than %d", TEXT_DEPTH);
			open[depth++] = *t;
		} else if (sign == '}' || sign == '>' || sign == ']') {
			char wanted =
				open[depth - 1].text[0] == '[' ? ']' : closer_of(&open[depth - 1]);

			if (sign != wanted)
				return not_closed(l, &open[depth - 1]);
			if (--depth == 0)
				return 0;
		} else if (t->kind == TOKEN_END) {
			return not_closed(l, &open[depth - 1]);
		}
		r = lexer_next(l);
		if (r < 0)
			return r;
	}
}

/* ---- messages ---- */

/* Puts the head of a message before what was appended from @from on. */
static void close_message(struct buffer *out, uint32_t id, size_t from)
{
	size_t len = out->len - from, head;
	struct buffer tail = {0};

	buffer_varint(&tail, (uint64_t)id << 3 | WIRE_BYTES);
	buffer_varint(&tail, len);
	head = tail.len;
	if (!tail.bad && buffer_reserve(out, head)) {
		if (len)
			memmove(out->data + from + head, out->data + from, len);
		memcpy(out->data + from, tail.data, head);
		out->len += head;
	}
	out->bad |= tail.bad;
	buffer_deinit(&tail);
}

static int parse_message(struct lexer *l, const struct text_field *f, unsigned depth,
			 struct buffer *out)
{
	const struct token open = l->token;
	size_t from = out->len;
	int r;

	if (!lexer_is(l, '{') && !lexer_is(l, '<'))
		return lexer_error(l, &l->token, "%s is a message: a '{' is wanted here, not %s",
				   f->field->name, token_text(&l->token).text);
	if (is_foreign(f->field)) {
		r = skip_foreign(l);
	} else {
		r = lexer_next(l);
		if (r >= 0)
			r = parse_fields(l, f->field->descriptor, &open, depth + 1, out);
	}
	if (r < 0)
		return r;
	close_message(out, f->field->id, from);
	return lexer_next(l);
}

static int parse_one(struct lexer *l, const struct text_field *f, unsigned depth,
		     struct buffer *out)
{
	if (f->field->type == PROTOBUF_C_TYPE_MESSAGE)
		return parse_message(l, f, depth, out);
	return text_value(l, f, out);
}

/* "[a, b]", the bracket current. */
static int parse_list(struct lexer *l, const struct text_field *f, unsigned depth,
		      struct buffer *out)
{
	int r;

	if (f->field->label != PROTOBUF_C_LABEL_REPEATED)
		return lexer_error(l, &l->token, "%s takes one value, not a list", f->field->name);
	r = lexer_next(l);
	if (r >= 0 && lexer_is(l, ']'))
		return lexer_next(l);
	while (r >= 0) {
		r = parse_one(l, f, depth, out);
		if (r < 0)
			return r;
		if (lexer_is(l, ']'))
			return lexer_next(l);
		if (!lexer_is(l, ','))
			return lexer_error(l, &l->token,
					   "in a list, ',' or ']' is wanted here, not %s",
					   token_text(&l->token).text);
		r = lexer_next(l);
	}
	return r;
}

/* ---- fields ---- */

static int unknown_field(struct lexer *l, const ProtobufCMessageDescriptor *message)
{
	struct token_text wanted = {0};
	struct nearest nearest = {.wanted = wanted.text};

	(void)snprintf(wanted.text, sizeof(wanted.text), "%.*s", (int)l->token.len, l->token.text);
	for (unsigned i = 0; i < message->n_fields; i++)
		nearest_offer(&nearest, message->fields[i].name);
	(void)lexer_error(l, &l->token, "unknown field %s in %s", token_text(&l->token).text,
			  message->short_name);
	nearest_append(&nearest, l->error, l->error_size);
	return fail(-EINVAL);
}

static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *message,
						  const struct token *name)
{
	char text[128];

	if (name->len >= sizeof(text))
		return NULL;
	memcpy(text, name->text, name->len);
	text[name->len] = 0;
	return protobuf_c_message_descriptor_get_field_by_name(message, text);
}

/* A field that can be there once is; of a oneof, one member. */
static int check_once(struct lexer *l, const struct text_field *f, struct seen *seen)
{
	size_t index = (size_t)(f->field - f->message->fields);

	if (f->field->label == PROTOBUF_C_LABEL_REPEATED)
		return 0;
	if (was_seen(seen, index))
		return lexer_error(l, &f->at, "%s is given twice in this %s", f->field->name,
				   f->message->short_name);
	for (unsigned i = 0; i < f->message->n_fields; i++) {
		const ProtobufCFieldDescriptor *other = &f->message->fields[i];

		/* members of a oneof keep which one it is in the same place */
		if (was_seen(seen, i) && f->field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF &&
		    other->flags & PROTOBUF_C_FIELD_FLAG_ONEOF &&
		    other->quantifier_offset == f->field->quantifier_offset)
			return lexer_error(l, &f->at, "%s and %s exclude each other",
					   f->field->name, other->name);
	}
	seen->bits[index / 64] |= 1ull << (index % 64);
	return 0;
}

static int parse_field(struct lexer *l, const ProtobufCMessageDescriptor *message, unsigned depth,
		       struct seen *seen, struct buffer *out)
{
	struct text_field f = {.message = message, .at = l->token};
	bool colon;
	int r;

	if (lexer_is(l, '['))
		return lexer_error(l, &l->token, "extensions are not known here");
	if (l->token.kind != TOKEN_WORD)
		return lexer_error(l, &l->token, "the name of a field is wanted here, not %s",
				   token_text(&l->token).text);
	f.field = find_field(message, &l->token);
	if (!f.field)
		return unknown_field(l, message);
	r = check_once(l, &f, seen);
	if (r >= 0)
		r = lexer_next(l);
	if (r < 0)
		return r;
	colon = lexer_is(l, ':');
	if (!colon && f.field->type != PROTOBUF_C_TYPE_MESSAGE)
		return lexer_error(l, &l->token, "a ':' is wanted behind %s, not %s", f.field->name,
				   token_text(&l->token).text);
	r = colon ? lexer_next(l) : 0;
	if (r >= 0)
		r = lexer_is(l, '[') ? parse_list(l, &f, depth, out) : parse_one(l, &f, depth, out);
	if (r >= 0 && (lexer_is(l, ',') || lexer_is(l, ';')))
		r = lexer_next(l);
	return r;
}

/* Up to what closes @open, which is left current. */
static int parse_fields(struct lexer *l, const ProtobufCMessageDescriptor *message,
			const struct token *open, unsigned depth, struct buffer *out)
{
	struct seen seen = {0};
	char closer = closer_of(open);

	if (depth > TEXT_DEPTH || message->n_fields > MAX_FIELDS)
		return lexer_error(l, &l->token, "nested deeper than %d", TEXT_DEPTH);
	for (;;) {
		int r;

		if (closer ? lexer_is(l, closer) : l->token.kind == TOKEN_END)
			return 0;
		if (closer && (l->token.kind == TOKEN_END || lexer_is(l, '}') || lexer_is(l, '>')))
			return not_closed(l, open);
		r = parse_field(l, message, depth, &seen, out);
		if (r < 0)
			return r;
	}
}

int text_to_wire(const ProtobufCMessageDescriptor *message, const char *name, const char *text,
		 size_t len, struct buffer *out, char *error, size_t error_size)
{
	struct lexer l;
	int r;

	lexer_init(&l, name, text, len, error, error_size);
	r = lexer_next(&l);
	if (r >= 0)
		r = parse_fields(&l, message, NULL, 0, out);
	if (r < 0)
		return trace(r);
	if (out->bad) {
		(void)snprintf(error, error_size, "%.200s: no memory is left", name);
		return fail(-ENOMEM);
	}
	return 0;
}
