/* profile-wire.h - protobuf fields out of foreign bytes, in place.  Private to profile/.  Thread:
 * any. */
#pragma once

#include "base/bytes.h"

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct wire_field {
	uint32_t number;
	uint32_t wire;
	uint64_t value;	     /* of numbers */
	const uint8_t *data; /* of bytes */
	size_t len;
};

/* cursor_uleb(); most are short. */
static inline uint64_t wire_varint(struct cursor *c)
{
	const uint8_t *p = c->p;

	if (cursor_left(c) < 3)
		return cursor_uleb(c);
	if (p[0] < 0x80) {
		c->p += 1;
		return p[0];
	}
	if (p[1] < 0x80) {
		c->p += 2;
		return (p[0] & 0x7fu) | (uint32_t)p[1] << 7;
	}
	if (p[2] < 0x80) {
		c->p += 3;
		return (p[0] & 0x7fu) | (p[1] & 0x7fu) << 7 | (uint32_t)p[2] << 14;
	}
	return cursor_uleb(c);
}

/* The next field; false at the end, and when the message is damaged (then c->bad). */
static inline bool wire_next(struct cursor *c, struct wire_field *f)
{
	uint64_t tag;

	if (!cursor_left(c))
		return false;
	tag = wire_varint(c);
	*f = (struct wire_field){.number = (uint32_t)(tag >> 3), .wire = (uint32_t)tag & 7};
	if (tag >> 32 || !f->number)
		c->bad = true;
	switch (f->wire) {
	case WIRE_VARINT:
		f->value = wire_varint(c);
		break;
	case WIRE_64:
		f->value = cursor_u64(c);
		break;
	case WIRE_32:
		f->value = cursor_u32(c);
		break;
	case WIRE_BYTES:
		f->len = wire_varint(c);
		f->data = cursor_bytes(c, f->len);
		break;
	default: /* groups are long gone */
		c->bad = true;
	}
	return !c->bad;
}

static inline struct cursor wire_message(const struct wire_field *f)
{
	return cursor_of(f->data ? f->data : (const uint8_t *)"", f->data ? f->len : 0);
}

/* A field that is a number in the schema, whatever it is on the wire, and one that is bytes. */
static inline bool wire_is(const struct wire_field *f, uint32_t number)
{
	return f->number == number && f->wire != WIRE_BYTES;
}

static inline bool wire_is_bytes(const struct wire_field *f, uint32_t number)
{
	return f->number == number && f->wire == WIRE_BYTES;
}
