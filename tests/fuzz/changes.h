/* changes.h - the memory of a process with changes: the input of a fuzzer is a list of changes.
 *
 *   [when u8][offset u16 or u24][value u64]     when: 0 from the start, else at that read */
#pragma once

#include <string.h>

#include "base/util.h"
#include "unwinder/space.h"

enum { CHANGES_MAX = 64 };

struct changing {
	struct uw_memory memory;   /* reads of it make the changes */
	struct uw_memory *process; /* ... to this one's bytes */
	uint8_t *bytes;
	size_t room;
	const uint64_t *reads; /* how often the process was read */
	const uint8_t *list;
	size_t n, size; /* a change's size */
};

static inline const uint8_t *changing_nth(const struct changing *c, size_t i)
{
	return c->list + i * c->size;
}

static inline const uint8_t *changing_value(const struct changing *c, size_t i)
{
	return changing_nth(c, i) + c->size - 8;
}

static inline void changing_apply(struct changing *c, size_t i)
{
	const uint8_t *change = changing_nth(c, i);
	uint32_t offset = change[1] | (uint32_t)change[2] << 8;

	if (c->size > 11)
		offset |= (uint32_t)change[3] << 16;
	memcpy(c->bytes + offset % (c->room - 8), changing_value(c, i), 8);
}

static inline ssize_t changing_read(struct uw_memory *memory, uint64_t address, void *to,
				    size_t len)
{
	struct changing *c = container_of(memory, struct changing, memory);

	for (size_t i = 0; i < c->n; i++)
		if (*changing_nth(c, i) == *c->reads % 255 + 1)
			changing_apply(c, i);
	return c->process->read(c->process, address, to, len);
}

/* @offset_bytes: 2 or 3.  The changes of the start are made. */
static inline void changing_begin(struct changing *c, size_t offset_bytes, const uint8_t *data,
				  size_t size)
{
	c->memory = (struct uw_memory){.read = changing_read};
	c->size = 1 + offset_bytes + 8;
	c->list = data;
	c->n = min_u64(size / c->size, CHANGES_MAX);
	for (size_t i = 0; i < c->n; i++)
		if (!*changing_nth(c, i))
			changing_apply(c, i);
}
