/* test-trace-buffer.c - both policies, at the ends of the buffer and behind them; what a reader of
 * an overwritten ring still understands. */
#include <errno.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "protos/wire.h"
#include "tracing/trace-buffer.h"
#include "trace/writer.h"
#include "protos/trace.pb-c.h"
#include "tests/unit/cmocka.h"

enum { SIZE = 4096, MAX_LEN = 8192 };

struct fixture {
	struct trace_buffer *buffer;
	struct sink *in[3], *out;
	Pb__Trace *trace; /* all that was read */
};

static void start_as(struct fixture *f, size_t size, enum trace_buffer_policy policy, bool recorder)
{
	const struct trace_buffer_options options = {
		.size = size, .policy = policy, .uid = 1000, .pid = 77, .recorder = recorder};

	*f = (struct fixture){0};
	assert_int_equal(trace_buffer_new(&options, &f->buffer), 0);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(trace_buffer_sink_new(f->buffer, i + 2, &f->in[i]), 0);
	assert_int_equal(sink_memory_new(&f->out), 0);
}

static void start(struct fixture *f, size_t size, enum trace_buffer_policy policy)
{
	start_as(f, size, policy, false);
}

static struct trace_buffer_stats stats(const struct fixture *f)
{
	struct trace_buffer_stats s;

	trace_buffer_stats(f->buffer, &s);
	return s;
}

static void finish(struct fixture *f)
{
	if (f->trace)
		pb__trace__free_unpacked(f->trace, NULL);
	for (int i = 0; i < 3; i++)
		assert_null(sink_free(f->in[i]));
	assert_null(trace_buffer_free(f->buffer));
	sink_free(f->out);
}

/* Everything that waits, decoded. */
static Pb__Trace *read_all(struct fixture *f)
{
	const void *data;
	size_t len;

	assert_int_equal(trace_buffer_read(f->buffer, f->out, UINT64_MAX), 0);
	if (f->trace)
		pb__trace__free_unpacked(f->trace, NULL);
	data = sink_memory_data(f->out, &len);
	f->trace = pb__trace__unpack(NULL, len, data);
	assert_non_null(f->trace);
	return f->trace;
}

/* Packet @n of a sequence: its number is the timestamp; @len bytes in all, at least 20. */
static size_t make_packet(uint8_t *to, uint64_t n, size_t len)
{
	uint8_t body[MAX_LEN], *p = pack_number(body, 8, n);
	size_t head = (size_t)(p - body), rest = len - head - 4;

	p = pack_varint(p, 900 << 3 | WIRE_BYTES); /* 2 bytes */
	*p++ = (uint8_t)(rest | 0x80);
	*p++ = (uint8_t)(rest >> 7);
	memset(p, (int)n, rest);
	return (size_t)(pack_bytes(to, 1, body, len) - to);
}

static void put(struct fixture *f, int sequence, uint64_t n, size_t len)
{
	uint8_t packet[MAX_LEN + 16];
	size_t size = make_packet(packet, n, len);
	uint64_t before = f->in[sequence]->bytes;

	assert_int_equal(f->in[sequence]->write(f->in[sequence], packet, size), 0);
	assert_int_equal(f->in[sequence]->bytes, before + size);
}

static void expect(const Pb__Trace *t, size_t at, uint32_t sequence, uint64_t n, bool first,
		   uint32_t dropped)
{
	assert_true(at < t->n_packet);
	assert_int_equal(t->packet[at]->timestamp, n);
	assert_int_equal(t->packet[at]->trusted_packet_sequence_id, sequence + 2);
	assert_int_equal(t->packet[at]->trusted_uid, 1000);
	assert_int_equal(t->packet[at]->trusted_pid, 77);
	assert_int_equal(t->packet[at]->has_first_packet_on_sequence, first);
	assert_int_equal(t->packet[at]->has_previous_packet_dropped, dropped != 0);
	assert_int_equal(t->packet[at]->previous_packet_dropped, dropped);
}

static void test_empty(void **state)
{
	struct trace_buffer *buffer;
	struct fixture f;

	(void)state;
	start(&f, SIZE, TRACE_BUFFER_RING);
	assert_int_equal(read_all(&f)->n_packet, 0);
	assert_int_equal(f.in[0]->write(f.in[0], "", 0), 0);
	assert_int_equal(f.in[0]->flush(f.in[0]), 0);
	assert_int_equal(read_all(&f)->n_packet, 0);
	assert_int_equal(stats(&f).buffer_size, SIZE);
	finish(&f);
	assert_int_equal(trace_buffer_new(&(struct trace_buffer_options){.size = 4095}, &buffer),
			 -EINVAL);
}

/* Three sequences come out in the order they went in; what a service adds is there. */
static void test_sequences(void **state)
{
	struct fixture f;
	Pb__Trace *t;

	(void)state;
	start(&f, SIZE, TRACE_BUFFER_RING);
	for (int i = 0; i < 6; i++)
		put(&f, i % 3, (uint64_t)i, 50);
	t = read_all(&f);
	assert_int_equal(t->n_packet, 6);
	for (size_t i = 0; i < 6; i++)
		expect(t, i, (uint32_t)i % 3, i, i < 3, 0);
	put(&f, 1, 9, 50);
	t = read_all(&f);
	assert_int_equal(t->n_packet, 7);
	expect(t, 6, 1, 9, false, 0);
	assert_int_equal(stats(&f).chunks_written, 7);
	assert_int_equal(stats(&f).chunks_read, 7);
	assert_int_equal(stats(&f).bytes_read, 7 * 64); /* 8 + 50, to a multiple of 8 */
	finish(&f);
}

/* Several packets in one write; an empty one; and what is none. */
static void test_writes(void **state)
{
	uint8_t two[256];
	struct fixture f;
	size_t len;
	Pb__Trace *t;

	(void)state;
	start(&f, SIZE, TRACE_BUFFER_RING);
	len = make_packet(two, 1, 40);
	len += make_packet(two + len, 2, 60);
	assert_int_equal(f.in[0]->write(f.in[0], two, len), 0);
	assert_int_equal(f.in[0]->write(f.in[0], "\n\0", 2), 0);
	assert_int_equal(f.in[0]->write(f.in[0], "\n\5abc", 5), -EINVAL);
	assert_int_equal(f.in[0]->write(f.in[0], "\x12\1a", 3), -EINVAL);
	assert_int_equal(f.in[0]->write(f.in[0], "\n", 1), -EINVAL);
	t = read_all(&f);
	assert_int_equal(t->n_packet, 3);
	expect(t, 0, 0, 1, true, 0);
	expect(t, 1, 0, 2, false, 0);
	expect(t, 2, 0, 0, false, 0);
	finish(&f);
}

/* Filled to the last byte, nothing is overwritten; one more, and the oldest goes. */
static void test_ring(void **state)
{
	struct fixture f;
	Pb__Trace *t;

	(void)state;
	start(&f, SIZE, TRACE_BUFFER_RING);
	for (uint64_t i = 0; i < 64; i++)
		put(&f, i % 2, i, 56); /* records of 64 */
	assert_int_equal(stats(&f).chunks_overwritten, 0);
	assert_int_equal(stats(&f).bytes_written, SIZE);
	assert_int_equal(stats(&f).write_wrap_count, 1);
	put(&f, 0, 64, 56);
	put(&f, 2, 65, 100); /* 112: two more go */
	assert_int_equal(stats(&f).chunks_overwritten, 3);
	assert_int_equal(stats(&f).bytes_overwritten, 192);
	t = read_all(&f);
	assert_int_equal(t->n_packet, 63);
	expect(t, 0, 1, 3, false, 65); /* 1 was lost, and 0 and 2 of the other sequence */
	expect(t, 1, 0, 4, false, 65);
	for (size_t i = 2; i < 61; i++)
		expect(t, i, (uint32_t)(i + 3) % 2, i + 3, false, 0);
	expect(t, 61, 0, 64, false, 0);
	expect(t, 62, 2, 65, true, 0);
	/* Read is free: as much again, and nothing is lost. */
	for (uint64_t i = 100; i < 164; i++)
		put(&f, 0, i, 56);
	t = read_all(&f);
	assert_int_equal(t->n_packet, 63 + 64);
	expect(t, 63, 0, 100, false, 0);
	assert_int_equal(stats(&f).chunks_overwritten, 3);
	finish(&f);
}

/* A packet that lies over the end of the buffer, at every place. */
static void test_wrap(void **state)
{
	(void)state;
	for (size_t first = 24; first < 160; first++) {
		struct fixture f;
		Pb__Trace *t;

		start(&f, SIZE, TRACE_BUFFER_RING);
		put(&f, 0, 1, 4096 - 8 - first);
		assert_int_equal(read_all(&f)->n_packet, 1);
		put(&f, 0, 2, 150);
		t = read_all(&f);
		assert_int_equal(t->n_packet, 2);
		expect(t, 1, 0, 2, false, 0);
		assert_int_equal(t->packet[1]->base.n_unknown_fields, 1);
		assert_int_equal(t->packet[1]->base.unknown_fields[0].len, 146);
		for (size_t i = 2; i < 146; i++)
			assert_int_equal(t->packet[1]->base.unknown_fields[0].data[i], 2);
		finish(&f);
	}
}

static void test_discard(void **state)
{
	struct fixture f;
	Pb__Trace *t;

	(void)state;
	start(&f, SIZE, TRACE_BUFFER_DISCARD);
	for (uint64_t i = 0; i < 63; i++)
		put(&f, 0, i, 56);
	put(&f, 0, 63, 57); /* one byte too much */
	put(&f, 0, 64, 20); /* would fit, but comes too late */
	put(&f, 1, 65, 20);
	assert_int_equal(stats(&f).chunks_discarded, 3);
	t = read_all(&f);
	assert_int_equal(t->n_packet, 63);
	for (size_t i = 0; i < 63; i++)
		expect(t, i, 0, i, i == 0, 0);
	put(&f, 0, 66, 56); /* read or not */
	assert_int_equal(read_all(&f)->n_packet, 63);
	assert_int_equal(stats(&f).chunks_discarded, 4);
	assert_int_equal(stats(&f).chunks_overwritten, 0);
	assert_false(f.in[0]->renew);
	finish(&f);

	/* Read in time, it goes on. */
	start(&f, SIZE, TRACE_BUFFER_DISCARD);
	for (uint64_t i = 0; i < 1000; i++) {
		put(&f, 0, i, 1000);
		if (i % 4 == 3)
			t = read_all(&f);
	}
	assert_int_equal(t->n_packet, 1000);
	assert_int_equal(stats(&f).chunks_discarded, 0);
	assert_int_equal(stats(&f).write_wrap_count, 1000 * 1008 / SIZE);
	finish(&f);
}

/* Larger than the buffer: lost, marked, and nothing else goes with it. */
static void test_large(void **state)
{
	static const enum trace_buffer_policy policies[] = {TRACE_BUFFER_RING,
							    TRACE_BUFFER_DISCARD};
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct fixture f;
		Pb__Trace *t;

		start(&f, SIZE, policies[i]);
		put(&f, 0, 1, 50);
		put(&f, 0, 2, SIZE - 7);
		assert_true(f.in[0]->renew);
		assert_false(f.in[1]->renew);
		put(&f, 1, 3, 50);
		put(&f, 0, 4, 50);
		put(&f, 0, 5, 50);
		t = read_all(&f);
		assert_int_equal(t->n_packet, 4);
		assert_int_equal(stats(&f).trace_writer_packet_loss, 1);
		expect(t, 0, 0, 1, true, 0);
		expect(t, 1, 1, 3, true, 0);
		expect(t, 2, 0, 4, false, 1); /* what came next */
		expect(t, 3, 0, 5, false, 0);
		put(&f, 0, 6, SIZE - 8); /* exactly the buffer */
		t = read_all(&f);
		assert_int_equal(t->n_packet, 5);
		expect(t, 4, 0, 6, false, 0);
		finish(&f);
	}
}

static void test_max_bytes(void **state)
{
	struct fixture f;
	uint64_t one;

	(void)state;
	start(&f, SIZE, TRACE_BUFFER_RING);
	for (uint64_t i = 0; i < 10; i++)
		put(&f, 0, 7, 100);
	assert_int_equal(trace_buffer_read(f.buffer, f.out, 0), TRACE_BUFFER_MORE);
	assert_int_equal(f.out->bytes, 0);
	assert_int_equal(trace_buffer_read(f.buffer, f.out, 200), TRACE_BUFFER_MORE);
	one = f.out->bytes;
	assert_in_range(one, 110, 130); /* and what a service adds */
	/* The second is without the mark of the first: 3 bytes less. */
	assert_int_equal(trace_buffer_read(f.buffer, f.out, 2 * one - 4), TRACE_BUFFER_MORE);
	assert_int_equal(f.out->bytes, one);
	assert_int_equal(trace_buffer_read(f.buffer, f.out, 2 * one - 3), TRACE_BUFFER_MORE);
	assert_int_equal(f.out->bytes, 2 * one - 3);
	assert_int_equal(read_all(&f)->n_packet, 10);
	finish(&f);
}

static int full_write(struct sink *sink, const void *data, size_t len)
{
	(void)sink;
	(void)data;
	(void)len;
	return -ENOSPC;
}

/* What could not be written stays. */
static void test_full_disk(void **state)
{
	struct sink full = {.write = full_write};
	struct fixture f;

	(void)state;
	start(&f, SIZE, TRACE_BUFFER_RING);
	put(&f, 0, 1, 50);
	assert_int_equal(trace_buffer_read(f.buffer, &full, UINT64_MAX), -ENOSPC);
	assert_int_equal(stats(&f).chunks_read, 0);
	assert_int_equal(read_all(&f)->n_packet, 1);
	finish(&f);
}

/* ---- renewal ---- */
static void test_renewal(void **state)
{
	struct fixture f;

	(void)state;
	start(&f, SIZE, TRACE_BUFFER_RING);
	/* A quarter of the buffer since it began. */
	for (uint64_t i = 0; i < 15; i++)
		put(&f, 0, i, 56);
	assert_false(f.in[0]->renew);
	put(&f, 0, 15, 56);
	assert_true(f.in[0]->renew);
	f.in[0]->renew = false;
	put(&f, 0, 16, 56);
	assert_false(f.in[0]->renew);
	/* Read out before that: it never asks. */
	for (uint64_t i = 0; i < 1000; i++) {
		if (i % 8 == 0)
			(void)read_all(&f);
		put(&f, 0, i, 56);
	}
	assert_false(f.in[0]->renew);
	assert_false(f.in[1]->renew);
	/* One packet, then silence: it asks when another has written over it. */
	put(&f, 1, 0, 56);
	for (uint64_t i = 0; i < 63; i++)
		put(&f, 0, i, 56);
	assert_false(f.in[1]->renew);
	for (uint64_t i = 0; i < 10; i++)
		put(&f, 0, i, 56);
	assert_true(f.in[1]->renew);
	assert_false(f.in[2]->renew);
	finish(&f);
}

/* A writer into a ring that goes round many times: three quarters of what is left can be read, and
 * there every stack is complete. */
static void run_writer(bool recorder)
{
	enum { RING = 64 << 10, SAMPLES = 20000, FUNCTIONS = 500 };
	const struct writer_options options = {
		.leader = {.counter = 1}, .frequency = 99, .clock = CLOCK_MONOTONIC};
	uint64_t callstacks[SAMPLES / 64 + 64] = {0}, lost = 0;
	size_t samples = 0, useless = 0;
	struct writer *w;
	struct fixture f;
	bool began = false;
	Pb__Trace *t;

	start_as(&f, RING, TRACE_BUFFER_RING, recorder);
	assert_int_equal(writer_new(&options, f.in[0], &w), 0);
	assert_int_equal(writer_start(w), 0);
	for (uint32_t i = 0; i < SAMPLES; i++) {
		struct writer_sample sample = {.time = i, .cpu = 1, .pid = 3, .tid = 3};
		uint32_t mapping, frames[2];

		assert_in_range(writer_renew(w), 0, WRITER_RENEWED);
		assert_int_equal(writer_mapping(w, "/a", NULL, 0, 0, 0, &mapping), 0);
		assert_int_equal(writer_frame(w, mapping, 1, "main", &frames[1]), 0);
		assert_int_equal(writer_frame(w, mapping, 2 + i * 7 % FUNCTIONS, "f", &frames[0]),
				 0);
		assert_int_equal(writer_callstack(w, frames, 2, &sample.callstack), 0);
		assert_true(sample.callstack < ARRAY_SIZE(callstacks) * 64);
		assert_int_equal(writer_sample(w, &sample), 0);
	}
	t = read_all(&f);
	for (size_t i = 0; i < t->n_packet; i++) {
		const Pb__TracePacket *p = t->packet[i];

		lost += p->has_previous_packet_dropped ? 1 : 0;
		assert_int_equal(p->trusted_packet_sequence_id, 2);
		if (p->sequence_flags & 1) {
			began = true;
			memset(callstacks, 0, sizeof(callstacks));
		}
		for (size_t k = 0; p->interned_data && k < p->interned_data->n_callstacks; k++) {
			uint64_t id = p->interned_data->callstacks[k]->iid;

			callstacks[id / 64] |= 1ull << id % 64;
		}
		if (!p->perf_sample)
			continue;
		samples++;
		useless += !began;
		if (began)
			assert_true(callstacks[p->perf_sample->callstack_iid / 64] >>
					    p->perf_sample->callstack_iid % 64 &
				    1);
	}
	assert_int_equal(lost, recorder ? 0 : 1); /* once, on the first that is left */
	assert_int_equal(t->packet[0]->has_previous_packet_dropped, !recorder);
	assert_int_equal(t->packet[t->n_packet - 1]->timestamp, SAMPLES - 1);
	assert_true(samples > 500);
	assert_true(recorder ? !useless : useless && useless * 3 <= samples);
	writer_free(w);
	finish(&f);
}

static void test_writer(void **state)
{
	(void)state;
	run_writer(false);
}

/* A flight recorder has nothing that cannot be read, and no mark for what was overwritten. */
static void test_recorder(void **state)
{
	(void)state;
	run_writer(true);
}

/* ---- a recorder's range ---- */

/* The range as another process reads it: how many packets, and the first and last. */
static void read_in_fork(struct fixture *f, const struct trace_buffer_range *range, size_t n,
			 uint64_t first)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		const void *data;
		Pb__Trace *t;
		size_t len;
		bool right = trace_buffer_prepare(f->buffer) == 0 &&
			     trace_buffer_read_range(f->buffer, range, f->out) == 0;

		data = sink_memory_data(f->out, &len);
		t = pb__trace__unpack(NULL, len, data);
		right = right && t && t->n_packet == n;
		for (size_t i = 0; right && i < n; i++)
			right = t->packet[i]->timestamp == first + i;
		_exit(!right);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* Sealed: what was there stays until the other process has read it; what finds no room is lost, counted and announced. */
static void test_sealed(void **state)
{
	enum { EACH = 64, ALL = SIZE / EACH, SEALED = 10 };
	struct trace_buffer_range range = {.until = UINT64_MAX}, later;
	struct fixture f;
	Pb__Trace *t;

	(void)state;
	start_as(&f, SIZE, TRACE_BUFFER_RING, true);
	for (uint64_t i = 0; i < SEALED; i++)
		put(&f, 0, i, EACH - 8);
	trace_buffer_range(f.buffer, &range);
	assert_int_equal(range.to - range.from, SEALED * EACH);
	assert_false(range.overwritten);
	trace_buffer_seal(f.buffer);
	for (uint64_t i = SEALED; i < ALL + 3; i++)
		put(&f, 0, i, EACH - 8);
	assert_int_equal(stats(&f).trace_writer_packet_loss, 3);
	assert_int_equal(stats(&f).chunks_overwritten, 0);
	read_in_fork(&f, &range, SEALED, 0);
	f.in[0]->renew = false;
	put(&f, 0, ALL + 3,
	    EACH - 8); /* there is room, for a writer that has begun its state again */
	assert_int_equal(stats(&f).trace_writer_packet_loss, 4);
	assert_true(f.in[0]->renew);
	put(&f, 0, ALL + 4, EACH - 8);
	trace_buffer_unseal(f.buffer);
	put(&f, 0, ALL + 5, SIZE / 2); /* overwrites the oldest again */
	assert_int_equal(stats(&f).trace_writer_packet_loss, 4);
	trace_buffer_range(f.buffer, &later);
	assert_true(later.overwritten && later.from > range.from && later.to > range.to);
	later.until = UINT64_MAX;
	assert_int_equal(trace_buffer_read_range(f.buffer, &later, f.out), 0);
	t = read_all(&f);
	assert_int_equal(t->packet[t->n_packet - 1]->timestamp, ALL + 5);
	assert_int_equal(t->packet[t->n_packet - 2]->timestamp, ALL + 4);
	assert_true(t->packet[t->n_packet - 2]->has_previous_packet_dropped);
	assert_int_equal(t->packet[t->n_packet - 3]->timestamp, ALL - 1);
	assert_false(t->packet[t->n_packet - 3]->has_previous_packet_dropped);
	finish(&f);
}

/* ---- against a list ---- */
static void run_random(uint64_t seed, enum trace_buffer_policy policy)
{
	enum { PACKETS = 3000 };
	struct {
		uint32_t sequence;
		uint64_t size;
		bool read, gone;
	} *list = calloc(PACKETS, sizeof(*list));
	uint64_t waiting = 0, oldest = 0, overwritten = 0, discarded = 0;
	bool closed = false, lost[3] = {0}, any[3] = {0};
	size_t at = 0;
	struct fixture f;

	assert_non_null(list);
	start(&f, SIZE + 8 * (seed % 50), policy);
	for (uint64_t n = 0; n < PACKETS; n++) {
		const uint64_t r = hash_u64(seed << 32 | n), size = stats(&f).buffer_size;
		const size_t len = 20 + (r >> 8) % (r % 40 ? 300 : 4000);

		list[n].sequence = (uint32_t)(r % 3);
		list[n].size = (8 + len + 7) / 8 * 8;
		put(&f, (int)list[n].sequence, n, len);
		if (policy == TRACE_BUFFER_DISCARD && waiting + list[n].size > size)
			closed = true;
		list[n].gone = closed;
		discarded += closed;
		for (; !closed && waiting + list[n].size > size; oldest++) {
			if (list[oldest].read || list[oldest].gone)
				continue;
			list[oldest].gone = true;
			lost[list[oldest].sequence] = true;
			waiting -= list[oldest].size;
			overwritten++;
		}
		waiting += closed ? 0 : list[n].size;
		if (hash_u64(r) % 50 || n < 100)
			continue;
		(void)read_all(&f);
		for (uint64_t k = oldest; k <= n; k++) {
			uint32_t s = list[k].sequence;

			if (list[k].read || list[k].gone)
				continue;
			assert_true(at < f.trace->n_packet);
			assert_int_equal(f.trace->packet[at]->timestamp, k);
			assert_int_equal(f.trace->packet[at]->trusted_packet_sequence_id, s + 2);
			assert_int_equal(f.trace->packet[at]->has_previous_packet_dropped, lost[s]);
			if (f.trace->packet[at]->has_first_packet_on_sequence)
				assert_false(any[s]);
			list[k].read = any[s] = true;
			lost[s] = false;
			at++;
		}
		assert_int_equal(f.trace->n_packet, at);
		waiting = 0;
		oldest = n + 1;
	}
	assert_int_equal(stats(&f).chunks_overwritten, overwritten);
	assert_int_equal(stats(&f).chunks_discarded, discarded);
	assert_int_equal(stats(&f).chunks_written, PACKETS - discarded);
	assert_int_equal(stats(&f).bytes_written,
			 stats(&f).bytes_read + stats(&f).bytes_overwritten + waiting);
	finish(&f);
	free(list);
}

static void test_random(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 10; seed++) {
		run_random(seed, TRACE_BUFFER_RING);
		run_random(seed, TRACE_BUFFER_DISCARD);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),	  cmocka_unit_test(test_sequences),
		cmocka_unit_test(test_writes),	  cmocka_unit_test(test_ring),
		cmocka_unit_test(test_wrap),	  cmocka_unit_test(test_discard),
		cmocka_unit_test(test_large),	  cmocka_unit_test(test_max_bytes),
		cmocka_unit_test(test_full_disk), cmocka_unit_test(test_renewal),
		cmocka_unit_test(test_writer),	  cmocka_unit_test(test_recorder),
		cmocka_unit_test(test_random),	  cmocka_unit_test(test_sealed),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
