/* wire.h - protobuf's wire format by hand: for packets that are written once a sample, and for bytes
 * that are read in place.  Thread: any.
 * https://protobuf.dev/programming-guides/encoding/
 *
 * Field numbers come from the .proto files: "protos/trace.fields.h" holds TRACE_PACKET__TIMESTAMP and
 * the others (protos/fields.awk). */
#pragma once

#include "base/bytes.h"

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

/* ---- reading ---- */

struct wire_field {
	uint32_t number;
	uint32_t wire;
	uint64_t value;	     /* of numbers */
	const uint8_t *data; /* of bytes */
	size_t len;
};

/* As cursor_uleb(), inline: most varints of a trace are short, and one sample has about 15. */
static inline uint64_t wire_varint(struct cursor *c)
{
	const uint8_t *p = c->p;
	uint64_t value = 0;

	if (cursor_left(c) >= 2) {
		if (p[0] < 0x80) {
			c->p += 1;
			return p[0];
		}
		if (p[1] < 0x80) {
			c->p += 2;
			return (p[0] & 0x7fu) | (uint32_t)p[1] << 7;
		}
	}
	for (unsigned shift = 0; shift < 64 && c->p < c->end; shift += 7) {
		uint8_t byte = *c->p++;

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return value;
	}
	c->p = c->end;
	c->bad = true;
	return 0;
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
	default: /* groups, which no writer uses any more */
		c->bad = true;
	}
	return !c->bad;
}

static inline struct cursor wire_message(const struct wire_field *f)
{
	return cursor_of(f->data ? f->data : (const uint8_t *)"", f->data ? f->len : 0);
}

/* A field that is a number in the schema, in any encoding of numbers; and one that is bytes. */
static inline bool wire_is(const struct wire_field *f, uint32_t number)
{
	return f->number == number && f->wire != WIRE_BYTES;
}

static inline bool wire_is_bytes(const struct wire_field *f, uint32_t number)
{
	return f->number == number && f->wire == WIRE_BYTES;
}

/* ---- writing ----
 * The caller provides the room: a varint takes at most PACK_VARINT_MAX bytes, a field's tag at most 3
 * with the field numbers in use (below 2^18). */

enum {
	PACK_VARINT_MAX = 10,
	PACK_FIELD_MAX = 3 + PACK_VARINT_MAX, /* tag and number, or tag and length */
};

static inline uint8_t *pack_varint(uint8_t *p, uint64_t value)
{
	while (value >= 0x80) {
		*p++ = (uint8_t)value | 0x80;
		value >>= 7;
	}
	*p++ = (uint8_t)value;
	return p;
}

static inline size_t pack_varint_size(uint64_t value)
{
	return ((63u - (unsigned)__builtin_clzll(value | 1)) * 9 + 73) / 64;
}

static inline uint8_t *pack_number(uint8_t *p, uint32_t field, uint64_t value)
{
	p = pack_varint(p, (uint64_t)field << 3 | WIRE_VARINT);
	return pack_varint(p, value);
}

/* The head of @len bytes that follow. */
static inline uint8_t *pack_head(uint8_t *p, uint32_t field, size_t len)
{
	p = pack_varint(p, (uint64_t)field << 3 | WIRE_BYTES);
	return pack_varint(p, len);
}

static inline uint8_t *pack_bytes(uint8_t *p, uint32_t field, const void *data, size_t len)
{
	p = pack_head(p, field, len);
	if (len)
		memcpy(p, data, len);
	return p + len;
}

static inline size_t pack_number_size(uint32_t field, uint64_t value)
{
	return pack_varint_size((uint64_t)field << 3) + pack_varint_size(value);
}

static inline size_t pack_bytes_size(uint32_t field, size_t len)
{
	return pack_varint_size((uint64_t)field << 3) + pack_varint_size(len) + len;
}
