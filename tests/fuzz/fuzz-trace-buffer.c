/* fuzz-trace-buffer.c - a central buffer under any order of writes and reads.
 *
 * Input: size and policy in 2 bytes, then steps of 3: an operation and a size.  What is read of a
 * sequence is what was written, in order; a hole is marked in the packet behind it and by nothing
 * else; the statistics add up.  One operation writes the input itself, which mostly is not a packet.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "protos/wire.h"
#include "tracing/trace-buffer.h"

enum { SEQUENCES = 3, MAX_LEN = 12000, MAX_STEPS = 4000 };

#define CHECK(ok) ((ok) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct world {
	struct trace_buffer *buffer;
	struct sink *in[SEQUENCES], out;
	uint32_t written[SEQUENCES], read[SEQUENCES];
	bool foreign; /* packets that are not ours are in it: their content is not looked at */
};

/* [u8 sequence][u32 number][the number's low byte ...] stands where the packet's content does. */
static int check_packet(struct sink *sink, const void *data, size_t len)
{
	struct world *w = container_of(sink, struct world, out);
	struct cursor c = cursor_of(data, len), tail;
	const uint8_t *packet;
	uint32_t sequence, number;
	const void *body;
	bool dropped = false;
	size_t body_len;

	sink->bytes += len;
	CHECK(sink_next_packet(&c, &body, &body_len) && !cursor_left(&c));
	if (w->foreign)
		return 0;
	packet = body;
	sequence = packet[0];
	memcpy(&number, packet + 1, 4);
	len = (size_t)packet[5] | (size_t)packet[6] << 8;
	CHECK(sequence < SEQUENCES && len >= 7 && len <= body_len);
	for (size_t i = 7; i < len; i++)
		CHECK(packet[i] == (uint8_t)number);
	tail = cursor_of(packet + len, body_len - len);
	while (cursor_left(&tail)) {
		uint64_t tag = cursor_uleb(&tail), value = cursor_uleb(&tail);

		if (tag == 10 << 3)
			CHECK(value == sequence + 1);
		dropped |= tag == 42 << 3 && value;
	}
	CHECK(!tail.bad);
	CHECK(number >= w->read[sequence] && number < w->written[sequence]);
	CHECK(dropped == (number != w->read[sequence]));
	w->read[sequence] = number + 1;
	return 0;
}

static void put(struct world *w, uint32_t sequence, size_t len)
{
	static uint8_t bytes[MAX_LEN + 16];
	uint8_t *p = pack_head(bytes, 1, len);

	memset(p, (uint8_t)w->written[sequence], len);
	p[0] = (uint8_t)sequence;
	memcpy(p + 1, &w->written[sequence], 4);
	p[5] = (uint8_t)len;
	p[6] = (uint8_t)(len >> 8);
	w->written[sequence]++;
	CHECK(w->in[sequence]->write(w->in[sequence], bytes, (size_t)(p + len - bytes)) == 0);
}

static void step(struct world *w, const uint8_t *input, const uint8_t *end)
{
	const size_t value = input[1] | (size_t)input[2] << 8;
	int r;

	switch (input[0] % 8) {
	case 6:
		r = trace_buffer_read(w->buffer, &w->out,
				      value & 1 ? UINT64_MAX : w->out.bytes + value);
		CHECK(r == 0 || (r == TRACE_BUFFER_MORE && !(value & 1)));
		break;
	case 7:
		if (input[0] < 200) /* seldom: it ends what can be checked */
			break;
		w->foreign = true;
		r = w->in[0]->write(w->in[0], input, (size_t)(end - input));
		CHECK(r == 0 || r == -EINVAL);
		break;
	default:
		put(w, input[0] % SEQUENCES,
		    7 + (input[0] & 8 ? value % (MAX_LEN - 7) : value % 200));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct trace_buffer_options options = {.size = 4096};
	struct trace_buffer_stats s;
	struct world w = {.out = {.write = check_packet}};

	if (size < 2)
		return 0;
	options.size += 8u * data[0];
	options.policy = data[1] & 1 ? TRACE_BUFFER_DISCARD : TRACE_BUFFER_RING;
	CHECK(trace_buffer_new(&options, &w.buffer) == 0);
	for (uint32_t i = 0; i < SEQUENCES; i++)
		CHECK(trace_buffer_sink_new(w.buffer, i + 1, &w.in[i]) == 0);
	for (size_t i = 2, n = 0; i + 3 <= size && n < MAX_STEPS; i += 3, n++) {
		step(&w, data + i, data + size);
		trace_buffer_stats(w.buffer, &s);
		CHECK(s.bytes_written - s.bytes_read - s.bytes_overwritten <= s.buffer_size);
	}
	CHECK(trace_buffer_read(w.buffer, &w.out, UINT64_MAX) == 0);
	trace_buffer_stats(w.buffer, &s);
	CHECK(s.bytes_written == s.bytes_read + s.bytes_overwritten);
	CHECK(s.chunks_written == s.chunks_read + s.chunks_overwritten);
	trace_buffer_free(w.buffer);
	return 0;
}
