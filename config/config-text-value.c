/* config-text-value.c - numbers, strings and names of the text format as wire bytes; see text-parser.h.
 * A number must fit its field: what protobuf would cut off or wrap around is an error here. */
#include <errno.h>
#include <math.h>

#include "base/nearest.h"
#include "config/config-text-parser.h"
#include "protos/wire.h"

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

static uint64_t zigzag(uint64_t value)
{
	return value << 1 ^ (uint64_t)((int64_t)value >> 63);
}

static int value_real(struct lexer *l, const struct text_field *f, struct buffer *out)
{
	double value;
	float single;
	int r = value_double(l, f, &value);

	if (r < 0)
		return r;
	single = (float)value;
	if (f->field->type == PROTOBUF_C_TYPE_DOUBLE) {
		put_tag(f, WIRE_64, out);
		buffer_append(out, &value, sizeof(value));
	} else {
		put_tag(f, WIRE_32, out);
		buffer_append(out, &single, sizeof(single));
	}
	return lexer_next(l);
}

/* How an integer type is written down. */
static const struct form {
	bool is_integer, is_signed;
	uint8_t bits, wire;
} forms[] = {
	[PROTOBUF_C_TYPE_INT32] = {true, true, 32, WIRE_VARINT},
	[PROTOBUF_C_TYPE_SINT32] = {true, true, 32, WIRE_VARINT},
	[PROTOBUF_C_TYPE_SFIXED32] = {true, true, 32, WIRE_32},
	[PROTOBUF_C_TYPE_INT64] = {true, true, 64, WIRE_VARINT},
	[PROTOBUF_C_TYPE_SINT64] = {true, true, 64, WIRE_VARINT},
	[PROTOBUF_C_TYPE_SFIXED64] = {true, true, 64, WIRE_64},
	[PROTOBUF_C_TYPE_UINT32] = {true, false, 32, WIRE_VARINT},
	[PROTOBUF_C_TYPE_FIXED32] = {true, false, 32, WIRE_32},
	[PROTOBUF_C_TYPE_UINT64] = {true, false, 64, WIRE_VARINT},
	[PROTOBUF_C_TYPE_FIXED64] = {true, false, 64, WIRE_64},
};

int text_value(struct lexer *l, const struct text_field *f, struct buffer *out)
{
	ProtobufCType type = f->field->type;
	const struct form *form = type < ARRAY_SIZE(forms) ? &forms[type] : &forms[0];
	uint64_t value;
	int r;

	if (type == PROTOBUF_C_TYPE_STRING || type == PROTOBUF_C_TYPE_BYTES)
		return value_string(l, f, out);
	if (type == PROTOBUF_C_TYPE_DOUBLE || type == PROTOBUF_C_TYPE_FLOAT)
		return value_real(l, f, out);
	if (type == PROTOBUF_C_TYPE_BOOL)
		r = value_bool(l, f, &value);
	else if (type == PROTOBUF_C_TYPE_ENUM)
		r = value_enum(l, f, &value);
	else
		r = value_integer(l, f, form->is_signed, form->bits, &value);
	if (r < 0)
		return r;
	put_tag(f, form->is_integer ? form->wire : WIRE_VARINT, out);
	if (type == PROTOBUF_C_TYPE_SINT32 || type == PROTOBUF_C_TYPE_SINT64)
		value = zigzag(value);
	if (form->is_integer && form->wire != WIRE_VARINT)
		buffer_append(out, &value, form->bits / 8);
	else
		buffer_varint(out, value);
	return lexer_next(l);
}
