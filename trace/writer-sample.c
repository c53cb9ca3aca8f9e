/* writer-sample.c - samples, and what they refer to.  By hand and without allocation: this runs
 * once a sample. */
#include <errno.h>

#include "base/error.h"
#include "protos/wire.h"
#include "trace/writer-private.h"
#include "protos/trace.fields.h"

enum {
	MAX_FOLLOWERS = 32, /* counted in one sample */
	MAX_SAMPLE = (9 + MAX_FOLLOWERS) * PACK_FIELD_MAX,
};

int writer_mapping(struct writer *w, const char *path, const void *build_id, size_t build_id_len,
		   uint64_t load_bias, uint64_t exact_offset, uint32_t *ret_mapping)
{
	int r = intern_mapping(&w->intern, path, build_id, build_id_len, load_bias, exact_offset,
			       ret_mapping);

	return r < 0 ? trace(r) : 0;
}

int writer_name(struct writer *w, const char *name, uint32_t *ret_name)
{
	int r = intern_name(&w->intern, name, ret_name);

	return r < 0 ? trace(r) : 0;
}

const char *writer_name_text(const struct writer *w, uint32_t name)
{
	return string_table_text(&w->intern.names, name);
}

int writer_frame_named(struct writer *w, uint32_t mapping, uint64_t rel_pc, uint32_t name,
		       uint32_t *ret_frame)
{
	int r = intern_frame(&w->intern, mapping, rel_pc, name, ret_frame);

	return r < 0 ? trace(r) : 0;
}

int writer_frame(struct writer *w, uint32_t mapping, uint64_t rel_pc, const char *name,
		 uint32_t *ret_frame)
{
	uint32_t id = 0;
	int r = name ? writer_name(w, name, &id) : 0;

	return r < 0 ? trace(r) : writer_frame_named(w, mapping, rel_pc, id, ret_frame);
}

uint32_t writer_generation(const struct writer *w)
{
	return w->intern.frame_generation;
}

int writer_callstack(struct writer *w, const uint32_t *ids, size_t n, uint32_t *ret_callstack)
{
	int r = intern_callstack(&w->intern, ids, n, ret_callstack);

	return r < 0 ? trace(r) : 0;
}

static uint8_t *pack_sample(uint8_t *p, const struct writer_sample *s)
{
	p = pack_number(p, PERF_SAMPLE__CPU, s->cpu);
	if (!s->counts_only) {
		p = pack_number(p, PERF_SAMPLE__PID, s->pid);
		p = pack_number(p, PERF_SAMPLE__TID, s->tid);
	}
	if (s->callstack)
		p = pack_number(p, PERF_SAMPLE__CALLSTACK_IID, s->callstack);
	if (!s->counts_only)
		p = pack_number(p, PERF_SAMPLE__CPU_MODE, s->cpu_mode);
	p = pack_number(p, PERF_SAMPLE__TIMEBASE_COUNT, s->count);
	for (size_t i = 0; i < s->n_follower_counts; i++)
		p = pack_number(p, PERF_SAMPLE__FOLLOWER_COUNTS, s->follower_counts[i]);
	if (s->unwind_error)
		p = pack_number(p, PERF_SAMPLE__UNWIND_ERROR, s->unwind_error);
	if (s->skipped_reason)
		p = pack_number(p, PERF_SAMPLE__SAMPLE_SKIPPED_REASON, s->skipped_reason);
	return p;
}

/* Tables that have grown to their bound are dropped between two samples, when no id is under way.
 */
static int keep_bounds(struct writer *w)
{
	int r;

	if (intern_frame_bytes(&w->intern) > w->max_frame_bytes) {
		/* Late names find their frames by these tables. */
		r = writer_symbols_flush(w);
		if (r < 0)
			return trace(r);
		intern_forget_frames(&w->intern);
	} else if (stacks_bytes(&w->intern.stacks) <= w->max_stack_bytes) {
		return 0;
	}
	r = writer_clear_incremental_state(w);
	return r < 0 ? trace(r) : 0;
}

int writer_sample(struct writer *w, const struct writer_sample *s)
{
	uint8_t body[MAX_SAMPLE], *p;
	struct buffer *pending = &w->intern.pending;
	const uint32_t flags = PB__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_NEEDS_INCREMENTAL_STATE;
	size_t len, n_body;
	int r;

	if (s->n_follower_counts > MAX_FOLLOWERS)
		return fail(-E2BIG);
	n_body = (size_t)(pack_sample(body, s) - body);
	len = pack_number_size(TRACE_PACKET__TIMESTAMP, s->time) +
	      pack_number_size(TRACE_PACKET__SEQUENCE_FLAGS, flags) +
	      pack_bytes_size(TRACE_PACKET__PERF_SAMPLE, n_body);
	if (w->options.sequence_id)
		len += pack_number_size(TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID,
					w->options.sequence_id);
	if (pending->len)
		len += pack_bytes_size(TRACE_PACKET__INTERNED_DATA, pending->len);
	p = writer_packet_begin(w, len);
	if (!p)
		return fail(-ENOMEM);
	p = pack_number(p, TRACE_PACKET__TIMESTAMP, s->time);
	if (w->options.sequence_id)
		p = pack_number(p, TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID,
				w->options.sequence_id);
	if (pending->len)
		p = pack_bytes(p, TRACE_PACKET__INTERNED_DATA, pending->data, pending->len);
	p = pack_number(p, TRACE_PACKET__SEQUENCE_FLAGS, flags);
	p = pack_bytes(p, TRACE_PACKET__PERF_SAMPLE, body, n_body);
	pending->len = 0;
	r = writer_packet_end(w, p);
	if (r < 0)
		return trace(r);
	r = keep_bounds(w);
	return r < 0 ? trace(r) : 0;
}

/* What is told in the form of a sample without being one. */
static int write_event(struct writer *w, Pb__PerfSample *sample, uint64_t boottime_ns)
{
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;
	int r;

	packet.has_timestamp = packet.has_timestamp_clock_id = packet.has_sequence_flags = true;
	packet.timestamp = boottime_ns;
	packet.timestamp_clock_id = PB__BUILTIN_CLOCK__BUILTIN_CLOCK_BOOTTIME;
	packet.sequence_flags = PB__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_NEEDS_INCREMENTAL_STATE;
	packet.perf_sample = sample;
	r = writer_packet(w, &packet);
	return r < 0 ? trace(r) : 0;
}

int writer_lost(struct writer *w, uint32_t cpu, uint64_t records, uint64_t boottime_ns)
{
	Pb__PerfSample sample = PB__PERF_SAMPLE__INIT;

	sample.has_cpu = sample.has_kernel_records_lost = true;
	sample.cpu = cpu;
	sample.kernel_records_lost = records;
	return write_event(w, &sample, boottime_ns);
}

int writer_guardrail(struct writer *w, uint64_t boottime_ns)
{
	Pb__PerfSample sample = PB__PERF_SAMPLE__INIT;
	Pb__PerfSample__ProducerEvent event = PB__PERF_SAMPLE__PRODUCER_EVENT__INIT;

	event.optional_source_stop_reason_case =
		PB__PERF_SAMPLE__PRODUCER_EVENT__OPTIONAL_SOURCE_STOP_REASON_SOURCE_STOP_REASON;
	event.source_stop_reason =
		PB__PERF_SAMPLE__PRODUCER_EVENT__DATA_SOURCE_STOP_REASON__PROFILER_STOP_GUARDRAIL;
	sample.producer_event = &event;
	return write_event(w, &sample, boottime_ns);
}
