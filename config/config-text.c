/* config-text.c - messages, fields and lists of the text format; see text.h.
 *
 * What comes out is the wire form, so that text and binary configs are one from here on.  A nested
 * message is appended first and its length put before it when its end is known. */
#include <errno.h>

#include "base/nearest.h"
#include "config/config-text-parser.h"
#include "protos/wire.h"

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

/* ---- what is not ours to know ---- */

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
