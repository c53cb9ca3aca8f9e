/* config-lex.c - see config-lex.h.  A character outside of names, numbers and strings is a token of its
 * own: the parser reports the token that it expected. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>

#include "base/error.h"
#include "config/config-lex.h"

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
