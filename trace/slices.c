/* slices.c - see slices.h. */
#include "trace/slices.h"

#include <errno.h>

#include "base/error.h"
#include "trace/writer-private.h"

enum { TRACKS_MAX = 65536 }; /* then they are written again */

static int write_track(struct writer *w, const struct writer_slice *s, uint64_t uuid)
{
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;
	Pb__TrackDescriptor track = PB__TRACK_DESCRIPTOR__INIT;
	Pb__ThreadDescriptor thread = PB__THREAD_DESCRIPTOR__INIT;
	uint64_t value;
	int r;

	if (table_get(&w->tracks, uuid, &value))
		return 0;
	if (w->tracks.n_used >= TRACKS_MAX)
		table_clear(&w->tracks);
	r = table_put(&w->tracks, uuid, 1);
	if (r < 0)
		return fail(r);
	thread.has_pid = thread.has_tid = true;
	thread.pid = (int32_t)s->pid;
	thread.tid = (int32_t)s->tid;
	track.has_uuid = true;
	track.uuid = uuid;
	track.thread = &thread;
	packet.track_descriptor = &track;
	r = writer_packet(w, &packet);
	return r < 0 ? trace(r) : 0;
}

static int write_event(struct writer *w, uint64_t time, Pb__TrackEvent *event)
{
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;
	int r;

	packet.has_timestamp = packet.has_sequence_flags = true;
	packet.timestamp = time; /* by the default clock of the sequence */
	packet.sequence_flags = PB__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_NEEDS_INCREMENTAL_STATE;
	packet.track_event = event;
	r = writer_packet(w, &packet);
	return r < 0 ? trace(r) : 0;
}

int writer_slice(struct writer *w, const struct writer_slice *s)
{
	Pb__TrackEvent begin = PB__TRACK_EVENT__INIT, end = PB__TRACK_EVENT__INIT;
	char *categories[] = {(char *)s->category};
	/* Never 0, which stands for a track of the whole trace. */
	uint64_t uuid = (uint64_t)s->pid << 32 | s->tid | 1ull << 63;
	int r;

	if (s->end <= s->begin)
		return 0;
	r = write_track(w, s, uuid);
	if (r < 0)
		return trace(r);
	begin.has_type = end.has_type = begin.has_track_uuid = end.has_track_uuid = true;
	begin.track_uuid = end.track_uuid = uuid;
	begin.type = PB__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN;
	end.type = PB__TRACK_EVENT__TYPE__TYPE_SLICE_END;
	begin.categories = categories;
	begin.n_categories = 1;
	begin.name = (char *)s->name;
	r = write_event(w, s->begin, &begin);
	if (r >= 0)
		r = write_event(w, s->end, &end);
	return r < 0 ? trace(r) : 0;
}
