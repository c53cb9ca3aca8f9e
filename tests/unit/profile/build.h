/* build.h - traces put together by hand, field by field, independent of the writer. */
#pragma once

#include "base/bytes.h"

static inline void put_number(struct buffer *b, uint32_t field, uint64_t value)
{
	buffer_varint(b, (uint64_t)field << 3);
	buffer_varint(b, value);
}

static inline void put_bytes(struct buffer *b, uint32_t field, const void *data, size_t len)
{
	buffer_varint(b, (uint64_t)field << 3 | 2);
	buffer_varint(b, len);
	buffer_append(b, data, len);
}

static inline void put_text(struct buffer *b, uint32_t field, const char *text)
{
	put_bytes(b, field, text, strlen(text));
}

/* Moves @message, and empties it. */
static inline void put_message(struct buffer *b, uint32_t field, struct buffer *message)
{
	put_bytes(b, field, message->data ? message->data : (const uint8_t *)"", message->len);
	buffer_deinit(message);
}

/* {iid, str} into list @list of an InternedData. */
static inline void put_interned(struct buffer *interned, uint32_t list, uint64_t iid,
				const char *text)
{
	struct buffer entry = {0};

	put_number(&entry, 1, iid);
	put_text(&entry, 2, text);
	put_message(interned, list, &entry);
}

static inline void put_mapping(struct buffer *interned, uint64_t iid, uint64_t build_id,
			       const uint64_t *path, size_t n)
{
	struct buffer entry = {0};

	put_number(&entry, 1, iid);
	if (build_id)
		put_number(&entry, 2, build_id);
	for (size_t i = 0; i < n; i++)
		put_number(&entry, 7, path[i]);
	put_message(interned, 19, &entry);
}

static inline void put_frame(struct buffer *interned, uint64_t iid, uint64_t name, uint64_t mapping,
			     uint64_t rel_pc)
{
	struct buffer entry = {0};

	put_number(&entry, 1, iid);
	if (name)
		put_number(&entry, 2, name);
	put_number(&entry, 3, mapping);
	put_number(&entry, 4, rel_pc);
	put_message(interned, 6, &entry);
}

/* @frames outermost first. */
static inline void put_callstack(struct buffer *interned, uint64_t iid, const uint64_t *frames,
				 size_t n)
{
	struct buffer entry = {0};

	put_number(&entry, 1, iid);
	for (size_t i = 0; i < n; i++)
		put_number(&entry, 2, frames[i]);
	put_message(interned, 7, &entry);
}

struct test_sample {
	uint32_t sequence, flags, clock;
	uint64_t time;
	uint32_t cpu, pid, tid;
	uint64_t stack, count;
	bool no_count;
	uint32_t skipped, dropped;
	uint64_t lost;
};

static inline void put_sample(struct buffer *trace, const struct test_sample *s,
			      struct buffer *interned)
{
	struct buffer packet = {0}, sample = {0};

	put_number(&packet, 8, s->time);
	put_number(&packet, 10, s->sequence);
	put_number(&packet, 13, s->flags);
	if (s->clock)
		put_number(&packet, 58, s->clock);
	if (s->dropped)
		put_number(&packet, 42, s->dropped);
	if (interned)
		put_message(&packet, 12, interned);
	put_number(&sample, 1, s->cpu);
	put_number(&sample, 2, s->pid);
	put_number(&sample, 3, s->tid);
	if (s->stack)
		put_number(&sample, 4, s->stack);
	if (!s->no_count)
		put_number(&sample, 6, s->count);
	if (s->lost)
		put_number(&sample, 17, s->lost);
	if (s->skipped)
		put_number(&sample, 18, s->skipped);
	put_message(&packet, 66, &sample);
	put_message(trace, 1, &packet);
}

/* The packet that begins a generation: defaults of counter @counter every @period or at @frequency.
 */
static inline void put_defaults(struct buffer *trace, uint32_t sequence, uint32_t clock,
				uint32_t counter, uint64_t period, uint64_t frequency)
{
	struct buffer packet = {0}, defaults = {0}, sample = {0}, timebase = {0};

	if (period)
		put_number(&timebase, 1, period);
	if (frequency)
		put_number(&timebase, 2, frequency);
	put_number(&timebase, 4, counter);
	put_message(&sample, 1, &timebase);
	put_number(&defaults, 58, clock);
	put_message(&defaults, 12, &sample);
	put_number(&packet, 10, sequence);
	put_number(&packet, 13, 1);
	put_message(&packet, 59, &defaults);
	put_message(trace, 1, &packet);
}

struct test_clock {
	uint32_t id;
	uint64_t value;
	bool incremental;
	uint64_t multiplier;
};

static inline void put_snapshot(struct buffer *trace, uint32_t sequence,
				const struct test_clock *clocks, size_t n)
{
	struct buffer packet = {0}, snapshot = {0};

	for (size_t i = 0; i < n; i++) {
		struct buffer clock = {0};

		put_number(&clock, 1, clocks[i].id);
		put_number(&clock, 2, clocks[i].value);
		if (clocks[i].incremental)
			put_number(&clock, 3, 1);
		if (clocks[i].multiplier)
			put_number(&clock, 4, clocks[i].multiplier);
		put_message(&snapshot, 1, &clock);
	}
	put_number(&packet, 10, sequence);
	put_message(&packet, 6, &snapshot);
	put_message(trace, 1, &packet);
}
