/* column.h - many numbers in few bytes, written once and read in their order.  Thread: any. */
#pragma once

#include "base/bytes.h"

struct column {
	struct buffer bytes; /* varints, zigzag; sparse: before each, how many zeros */
	bool sparse;	     /* most are 0, and cost nothing */
	uint64_t zeros;	     /* since the last that is not */
};

static inline void column_deinit(struct column *c)
{
	buffer_deinit(&c->bytes);
}

/* A failed growth shows in bytes.bad. */
static inline void column_add(struct column *c, int64_t value)
{
	if (c->sparse && !value) {
		c->zeros++;
		return;
	}
	if (c->sparse)
		buffer_varint(&c->bytes, c->zeros);
	c->zeros = 0;
	buffer_varint(&c->bytes, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

struct column_reader {
	struct cursor left;
	bool sparse, counted;
	uint64_t zeros;
};

static inline struct column_reader column_read(const struct column *c)
{
	const void *data = c->bytes.data ? c->bytes.data : (const uint8_t *)"";

	return (struct column_reader){.left = cursor_of(data, c->bytes.len), .sparse = c->sparse};
}

/* The next one; as many as were added. */
static inline int64_t column_next(struct column_reader *r)
{
	uint64_t value;

	if (r->sparse && !r->counted)
		r->zeros = cursor_left(&r->left) ? cursor_uleb(&r->left) : UINT64_MAX;
	r->counted = true;
	if (r->sparse && r->zeros) {
		r->zeros--;
		return 0;
	}
	r->counted = false;
	value = cursor_uleb(&r->left);
	return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}
