/* bytes.c - see bytes.h. */
#include <stdarg.h>

#include "base/bytes.h"

uint64_t cursor_uleb(struct cursor *c)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 70; shift += 7) {
		uint8_t b = cursor_u8(c);

		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return v;
	}
	c->bad = true;
	return 0;
}

int64_t cursor_sleb(struct cursor *c)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 70; shift += 7) {
		uint8_t b = cursor_u8(c);

		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		if (b & 0x80)
			continue;
		if ((b & 0x40) && shift + 7 < 64)
			v |= ~0ull << (shift + 7);
		return (int64_t)v;
	}
	c->bad = true;
	return 0;
}

const char *cursor_string(struct cursor *c)
{
	const char *s = (const char *)c->p;
	const uint8_t *nul = memchr(c->p, 0, cursor_left(c));

	if (!nul) {
		c->bad = true;
		c->p = c->end;
		return NULL;
	}
	c->p = nul + 1;
	return s;
}

void buffer_deinit(struct buffer *b)
{
	free(b->data);
	*b = (struct buffer){0};
}

void buffer_compact(struct buffer *b, size_t *done, size_t keep)
{
	size_t left = b->len - *done;

	if (!*done || *done < left)
		return;
	memmove(b->data, b->data + *done, left);
	b->len = left;
	*done = 0;
	if (!left && b->room > keep)
		buffer_deinit(b);
}

uint8_t *buffer_reserve(struct buffer *b, size_t len)
{
	if (b->bad || len > SIZE_MAX / 4 - b->len) {
		b->bad = true;
		return NULL;
	}
	if (!b->data || b->len + len > b->room) { /* no bytes have a place too */
		size_t room = b->room ? b->room : 256;
		uint8_t *more;

		while (room < b->len + len)
			room *= 2;
		more = realloc(b->data, room);
		if (!more) {
			b->bad = true;
			return NULL;
		}
		b->data = more;
		b->room = room;
	}
	return b->data + b->len;
}

void buffer_append(struct buffer *b, const void *data, size_t len)
{
	uint8_t *to = buffer_reserve(b, len);

	if (!to || !len)
		return;
	memcpy(to, data, len);
	b->len += len;
}

void buffer_varint(struct buffer *b, uint64_t value)
{
	uint8_t *to = buffer_reserve(b, 10);

	if (!to)
		return;
	while (value >= 0x80) {
		*to++ = (uint8_t)value | 0x80;
		value >>= 7;
	}
	*to++ = (uint8_t)value;
	b->len = (size_t)(to - b->data);
}

void buffer_printf(struct buffer *b, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(NULL, 0, format, ap);
	va_end(ap);
	if (n < 0 || !buffer_reserve(b, (size_t)n + 1))
		return;
	va_start(ap, format);
	(void)vsnprintf((char *)b->data + b->len, (size_t)n + 1, format, ap);
	va_end(ap);
	b->len += (size_t)n;
}

size_t utf8_encode(uint32_t c, char to[4])
{
	if (c < 0x80) {
		to[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = (char)(0xc0 | c >> 6);
		to[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		to[0] = (char)(0xe0 | c >> 12);
		to[1] = (char)(0x80 | (c >> 6 & 0x3f));
		to[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	to[0] = (char)(0xf0 | c >> 18);
	to[1] = (char)(0x80 | (c >> 12 & 0x3f));
	to[2] = (char)(0x80 | (c >> 6 & 0x3f));
	to[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}
