/* trace-file.c - what goes into the output of a trace session, and how much; see trace-session.h.
 *
 *   marker, clocks, config, uuid, machine      trace_file_begin()
 *   [ events, clocks, packets of each buffer ]  trace_file_read(), once or at each write period
 *   statistics                                  trace_file_end()
 *
 * max_file_size_bytes is never passed.  What is written last is small and known, so room for it is
 * kept back from the beginning; so is
 * the room of the marks around it all, which the output's owner writes. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "trace/mark.h"
#include "tracing/trace-session-private.h"

enum {
	END_BYTES = 512,	/* statistics without those of buffers, and two events */
	END_BUFFER_BYTES = 160, /* of one buffer in them */
	END_SOURCE_BYTES = 20,	/* of one data source */
	SLICE_MIN = 4096,	/* less room than this is not filled by another try */
	PENDING_MAX = 1 << 20,	/* events and clocks that wait for the output */
};

/* A sink that counts what it is given, where the one behind it counts what it has written. */
struct meter {
	struct sink sink;
	struct sink *to;
};

static int meter_write(struct sink *sink, const void *data, size_t len)
{
	struct meter *m = container_of(sink, struct meter, sink);
	int r = m->to->write(m->to, data, len);

	if (r < 0)
		return trace(r);
	sink->bytes += len;
	return 0;
}

/* The service's own packets to the output. */
static int put_out(struct trace_session *t)
{
	int r = 0;

	if (t->packets.len)
		r = t->options.out->write(t->options.out, t->packets.data, t->packets.len);
	t->packets.len = 0;
	return r < 0 ? trace(r) : 0;
}

/* Whatever of the service's packets could not be made for want of memory ends the session. */
int trace_file_event(struct trace_session *t, Pb__TracingServiceEvent__EventTypeCase event)
{
	const Pb__TraceConfig__BuiltinDataSource *b = t->config->builtin_data_sources;

	if ((b && b->disable_service_events) || t->packets.len > PENDING_MAX)
		return 0;
	return service_event(&t->service, event, &t->packets);
}

int trace_file_clocks(struct trace_session *t)
{
	const Pb__TraceConfig__BuiltinDataSource *b = t->config->builtin_data_sources;

	if ((b && b->disable_clock_snapshotting) || t->packets.len > PENDING_MAX)
		return 0;
	return service_clocks(&t->service, &t->packets);
}

static int check_limit(struct trace_session *t)
{
	uint64_t max = t->config->max_file_size_bytes, head = t->packets.len,
		 kept = END_BYTES + END_BUFFER_BYTES * t->n_buffers +
			END_SOURCE_BYTES * t->n_sources + MARK_BYTES;

	t->max_bytes = UINT64_MAX;
	if (!max)
		return 0;
	if (max < head + kept) {
		(void)snprintf(t->why, sizeof(t->why),
			       "max_file_size_bytes: %llu: a trace of this config without any "
			       "sample takes %llu",
			       (unsigned long long)max, (unsigned long long)(head + kept));
		t->error = fail(-EFBIG);
		return t->error;
	}
	t->max_bytes = max - kept;
	return 0;
}

int trace_file_begin(struct trace_session *t)
{
	const Pb__TraceConfig *m = t->config;
	const Pb__TraceConfig__BuiltinDataSource *b = m->builtin_data_sources;
	const int64_t uuid[] = {m->trace_uuid_msb, m->trace_uuid_lsb};
	int r = service_marker(&t->service, &t->packets);

	if (r >= 0)
		r = trace_file_clocks(t);
	if (r >= 0 && !(b && b->disable_trace_config))
		r = service_config(&t->service, &t->options.config->wire, &t->packets);
	if (r >= 0)
		r = service_uuid(&t->service, uuid[0] || uuid[1] ? uuid : NULL, &t->packets);
	if (r >= 0 && !(b && b->disable_system_info))
		r = service_system_info(&t->service, &t->packets);
	if (r >= 0)
		r = check_limit(t);
	if (r >= 0)
		r = put_out(t);
	if (r >= 0)
		r = t->options.out->flush(t->options.out);
	return r < 0 ? trace(r) : 0;
}

/* How much has been written; a sink that compresses knows it only behind a flush. */
static int count_out(struct trace_session *t, uint64_t *ret_bytes)
{
	int r = 0;

	if (t->options.deflated_out && t->max_bytes != UINT64_MAX)
		r = t->options.out->flush(t->options.out);
	*ret_bytes = t->options.out->bytes;
	return r < 0 ? trace(r) : 0;
}

/* As much of one buffer as there is room for.  Compressed, it takes less room than it was counted
 * for: what that leaves is filled again, each time with less. */
static int read_buffer(struct trace_session *t, struct trace_buffer *buffer)
{
	struct meter m = {.sink = {.write = meter_write}, .to = t->options.out};
	uint64_t before, after;
	int r;

	do {
		r = count_out(t, &before);
		if (r < 0)
			return trace(r);
		m.sink.bytes = before;
		r = trace_buffer_read(buffer, &m.sink, t->max_bytes);
		if (r != TRACE_BUFFER_MORE)
			return r < 0 ? trace(r) : 0;
		r = count_out(t, &after);
		if (r < 0)
			return trace(r);
	} while (after > before && after < m.sink.bytes && t->max_bytes - after > SLICE_MIN);
	t->full = true;
	return 0;
}

int trace_file_read(struct trace_session *t)
{
	uint64_t bytes;
	int r = 0;

	if (t->full)
		return 0;
	r = count_out(t, &bytes);
	if (r >= 0 && bytes + t->packets.len > t->max_bytes) {
		t->full = true;
		return 0;
	}
	if (r >= 0)
		r = put_out(t);
	for (size_t i = 0; r >= 0 && !t->full && i < t->n_buffers; i++)
		r = read_buffer(t, t->buffers[i]);
	if (r >= 0)
		r = t->options.out->flush(t->options.out);
	if (r >= 0 && !t->full)
		r = trace_file_event(
			t, PB__TRACING_SERVICE_EVENT__EVENT_TYPE_READ_TRACING_BUFFERS_COMPLETED);
	return r < 0 ? trace(r) : 0;
}

/* ---- statistics ---- */

#define SET(message, field, value)             \
	do {                                   \
		(message)->has_##field = true; \
		(message)->field = (value);    \
	} while (0)

static void fill_buffer(const struct trace_buffer *buffer, Pb__TraceStats__BufferStats *to)
{
	struct trace_buffer_stats s;

	trace_buffer_stats(buffer, &s);
	pb__trace_stats__buffer_stats__init(to);
	SET(to, buffer_size, s.buffer_size);
	SET(to, bytes_written, s.bytes_written);
	SET(to, bytes_overwritten, s.bytes_overwritten);
	SET(to, bytes_read, s.bytes_read);
	SET(to, chunks_written, s.chunks_written);
	SET(to, chunks_overwritten, s.chunks_overwritten);
	SET(to, chunks_read, s.chunks_read);
	SET(to, chunks_discarded, s.chunks_discarded);
	SET(to, write_wrap_count, s.write_wrap_count);
	SET(to, trace_writer_packet_loss, s.trace_writer_packet_loss);
}

static void fill_session(const struct trace_session *t, Pb__TraceStats *to)
{
	SET(to, producers_connected, 1);
	SET(to, producers_seen, 1);
	SET(to, data_sources_registered, 1);
	SET(to, data_sources_seen, 1);
	SET(to, tracing_sessions, 1);
	SET(to, total_buffers, (uint32_t)t->n_buffers);
	SET(to, flushes_requested, t->flushes_requested);
	SET(to, flushes_succeeded, t->flushes_succeeded);
	SET(to, flushes_failed, t->flushes_failed);
	SET(to, final_flush_outcome,
	    t->late ? PB__TRACE_STATS__FINAL_FLUSH_OUTCOME__FINAL_FLUSH_FAILED
		    : PB__TRACE_STATS__FINAL_FLUSH_OUTCOME__FINAL_FLUSH_SUCCEEDED);
}

/* Which buffer a sequence is in: without it readers cannot tell whose holes are whose. */
static void fill_writer(const struct trace_source *source, Pb__TraceStats__WriterStats *to)
{
	pb__trace_stats__writer_stats__init(to);
	SET(to, sequence_id, source->sequence);
	SET(to, buffer, (uint32_t)source->buffer);
}

static int put_stats(struct trace_session *t)
{
	_cleanup_(freep) Pb__TraceStats__BufferStats *buffers =
		calloc(t->n_buffers, sizeof(*buffers));
	_cleanup_(freep) Pb__TraceStats__BufferStats **list =
		calloc(t->n_buffers, sizeof(struct Pb__TraceStats__BufferStats *));
	_cleanup_(freep) Pb__TraceStats__WriterStats *writers =
		calloc(t->n_sources, sizeof(*writers));
	_cleanup_(freep) Pb__TraceStats__WriterStats **writer_list =
		calloc(t->n_sources, sizeof(struct Pb__TraceStats__WriterStats *));
	Pb__TraceStats stats = PB__TRACE_STATS__INIT;

	if (!buffers || !list || !writers || !writer_list)
		return fail(-ENOMEM);
	for (size_t i = 0; i < t->n_sources; i++) {
		fill_writer(&t->sources[i], &writers[i]);
		writer_list[i] = &writers[i];
	}
	stats.writer_stats = writer_list;
	stats.n_writer_stats = t->n_sources;
	for (size_t i = 0; i < t->n_buffers; i++) {
		fill_buffer(t->buffers[i], &buffers[i]);
		list[i] = &buffers[i];
	}
	stats.buffer_stats = list;
	stats.n_buffer_stats = t->n_buffers;
	fill_session(t, &stats);
	return service_stats(&t->service, &stats, &t->packets);
}

int trace_file_end(struct trace_session *t)
{
	int r;

	/* What had no room before has none now. */
	if (t->full)
		t->packets.len = 0;
	r = put_stats(t);
	if (r >= 0)
		r = put_out(t);
	if (r >= 0)
		r = t->options.out->flush(t->options.out);
	return r < 0 ? trace(r) : 0;
}
