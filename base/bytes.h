/* bytes.h - a bounds-checked cursor over foreign bytes, and a growing buffer for our own.  Thread:
 * any.
 *
 * A cursor never reads outside [p, end).  A read that does not fit returns 0, moves to the end and
 * sets `bad`; the caller checks `bad` once, after the last read.  Little endian, as all our inputs
 * are. */
#pragma once

#include <string.h>

#include "base/util.h"

struct cursor {
	const uint8_t *p, *end;
	bool bad;
};

static inline struct cursor cursor_of(const void *data, size_t len)
{
	return (struct cursor){.p = data, .end = (const uint8_t *)data + len};
}

static inline size_t cursor_left(const struct cursor *c)
{
	return (size_t)(c->end - c->p);
}

/* @len bytes in place and moves past them; NULL when there are fewer. */
static inline const void *cursor_bytes(struct cursor *c, size_t len)
{
	const uint8_t *p = c->p;

	if (cursor_left(c) < len) {
		c->bad = true;
		c->p = c->end;
		return NULL;
	}
	c->p += len;
	return p;
}

#define CURSOR_READ(name, type)                                \
	static inline type cursor_##name(struct cursor *c)     \
	{                                                      \
		const void *p = cursor_bytes(c, sizeof(type)); \
		type v = 0;                                    \
                                                               \
		if (p)                                         \
			memcpy(&v, p, sizeof(v));              \
		return v;                                      \
	}
CURSOR_READ(u8, uint8_t)
CURSOR_READ(u16, uint16_t)
CURSOR_READ(u32, uint32_t)
CURSOR_READ(u64, uint64_t)
#undef CURSOR_READ

/* LEB128, also protobuf's varint.  Bits over 64 are dropped; more than 10 bytes are bad. */
uint64_t cursor_uleb(struct cursor *c);
int64_t cursor_sleb(struct cursor *c);
/* A NUL-terminated string in place; NULL (and bad) when no NUL stands before the end. */
const char *cursor_string(struct cursor *c);

/* A growing buffer.  A failed growth sets `bad` and drops what was appended since; check it once.
 */
struct buffer {
	uint8_t *data;
	size_t len, room;
	bool bad;
};

void buffer_deinit(struct buffer *b);
/* Room for @len more bytes; returns where they go, NULL (and bad) on failure.  The caller adds to
 * len. */
uint8_t *buffer_reserve(struct buffer *b, size_t len);
void buffer_append(struct buffer *b, const void *data, size_t len);
void buffer_printf(struct buffer *b, const char *format, ...) _printf_(2, 3);
void buffer_varint(struct buffer *b, uint64_t value);
/* Removes the first *@done bytes once they are the larger half, so that bytes move once on average.  An empty buffer
 * keeps @keep bytes of memory at most. */
void buffer_compact(struct buffer *b, size_t *done, size_t keep);

/* Writes into given memory; data that does not fit sets `bad`, and nothing more is written. */
struct packer {
	uint8_t *data;
	size_t len, room;
	bool bad;
};

static inline void packer_put(struct packer *to, const void *data, size_t len)
{
	if (to->bad || len > to->room - to->len) {
		to->bad = true;
		return;
	}
	if (len)
		memcpy(to->data + to->len, data, len);
	to->len += len;
}

static inline void packer_u64(struct packer *to, uint64_t value)
{
	packer_put(to, &value, sizeof(value));
}

/* Its length, then the bytes: cursor_block() reads it. */
static inline void packer_block(struct packer *to, const void *data, size_t len)
{
	packer_u64(to, len);
	packer_put(to, data, len);
}

/* NULL (and bad): it does not fit. */
static inline const void *cursor_block(struct cursor *c, size_t *ret_len)
{
	uint64_t len = cursor_u64(c);
	const void *p = c->bad ? NULL : cursor_bytes(c, len);

	*ret_len = p ? len : 0;
	return p;
}

/* The bytes of the character @c (Unicode, no surrogate) in UTF-8; returns how many. */
size_t utf8_encode(uint32_t c, char to[4]);
