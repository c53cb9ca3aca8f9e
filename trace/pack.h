/* pack.h - protobuf by hand, for the packets that are written once a sample.  Thread: any.
 * The caller knows that there is room: a varint takes at most PACK_VARINT_MAX bytes, a field's tag
 * at most 3 with the numbers that we use (below 2^18). */
#pragma once

#include <string.h>

#include "base/bytes.h"

enum {
	PACK_VARINT_MAX = 10,
	PACK_FIELD_MAX = 3 + PACK_VARINT_MAX, /* tag and number, or tag and length */
	PACK_WIRE_VARINT = 0,
	PACK_WIRE_BYTES = 2,
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
	p = pack_varint(p, (uint64_t)field << 3 | PACK_WIRE_VARINT);
	return pack_varint(p, value);
}

/* The head of @len bytes that follow. */
static inline uint8_t *pack_head(uint8_t *p, uint32_t field, size_t len)
{
	p = pack_varint(p, (uint64_t)field << 3 | PACK_WIRE_BYTES);
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
