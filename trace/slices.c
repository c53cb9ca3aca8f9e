/* slices.c - see slices.h. */
#include "trace/slices.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "trace/writer-private.h"

enum { TRACKS_MAX = 65536 }; /* then they are written again */

/* Never 0, which stands for a track of the whole trace.  Tracks of threads and processes have the highest bit, named ones have
 * not: two of these meet by chance only. */
static uint64_t uuid_of(const struct writer_track *t)
{
	uint64_t hash;

	if (!t->name)
		return (uint64_t)t->pid << 32 | t->tid | 1ull << 63;
	hash = hash_seeded(hash_seed(), t->name, strlen(t->name)); /* the name is a program's */
	hash = hash_u64(hash ^ hash_u64((uint64_t)t->pid << 1 | t->counter) ^ hash_u64(~t->number));
	return (hash & ~(1ull << 63)) | 1;
}

/* *ret_known: it was written since incremental state was cleared. */
static int remember(struct writer *w, uint64_t uuid, bool *ret_known)
{
	uint64_t value;
	int r;

	*ret_known = table_get(&w->tracks, uuid, &value);
	if (*ret_known)
		return 0;
	if (w->tracks.n_used >= TRACKS_MAX)
		table_clear(&w->tracks);
	r = table_put(&w->tracks, uuid, 1);
	return r < 0 ? fail(r) : 0;
}

static int write_track(struct writer *w, const struct writer_track *t, uint64_t *ret_uuid)
{
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;
	Pb__TrackDescriptor track = PB__TRACK_DESCRIPTOR__INIT;
	Pb__ThreadDescriptor thread = PB__THREAD_DESCRIPTOR__INIT;
	Pb__ProcessDescriptor process = PB__PROCESS_DESCRIPTOR__INIT;
	Pb__CounterDescriptor counter = PB__COUNTER_DESCRIPTOR__INIT;
	bool known;
	int r = 0;

	*ret_uuid = uuid_of(t);
	if (t->name) {
		r = write_track(w, &(struct writer_track){.pid = t->pid}, &track.parent_uuid);
		track.has_parent_uuid = true;
		track.name = (char *)t->name;
		track.counter = t->counter ? &counter : NULL;
	} else if (t->tid) {
		thread.has_pid = thread.has_tid = true;
		thread.pid = (int32_t)t->pid;
		thread.tid = (int32_t)t->tid;
		track.thread = &thread;
	} else {
		process.has_pid = true;
		process.pid = (int32_t)t->pid;
		track.process = &process;
	}
	if (r >= 0)
		r = remember(w, *ret_uuid, &known);
	if (r < 0 || known)
		return r < 0 ? trace(r) : 0;
	track.has_uuid = true;
	track.uuid = *ret_uuid;
	packet.track_descriptor = &track;
	r = writer_packet(w, &packet);
	return r < 0 ? trace(r) : 0;
}

int writer_track_event(struct writer *w, const struct writer_track *track,
		       const struct writer_track_event *e)
{
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;
	Pb__TrackEvent event = PB__TRACK_EVENT__INIT;
	Pb__DebugAnnotation annotation = PB__DEBUG_ANNOTATION__INIT, *annotations[] = {&annotation};
	char *categories[] = {(char *)e->category};
	int r = write_track(w, track, &event.track_uuid);

	if (r < 0)
		return trace(r);
	event.has_type = event.has_track_uuid = true;
	event.type = (Pb__TrackEvent__Type)e->type;
	event.categories = categories;
	event.n_categories = e->category != NULL;
	event.name = (char *)e->name;
	event.has_counter_value = e->type == WRITER_COUNTER;
	event.counter_value = e->value;
	annotation.name = (char *)e->key;
	annotation.string_value = (char *)e->text;
	event.debug_annotations = annotations;
	event.n_debug_annotations = e->key != NULL;
	packet.has_timestamp = packet.has_sequence_flags = true;
	packet.timestamp = e->time; /* by the default clock of the sequence */
	packet.sequence_flags = PB__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_NEEDS_INCREMENTAL_STATE;
	packet.track_event = &event;
	r = writer_packet(w, &packet);
	return r < 0 ? trace(r) : 0;
}

int writer_slice(struct writer *w, const struct writer_slice *s)
{
	const struct writer_track track = {.pid = s->pid, .tid = s->tid};
	struct writer_track_event event = {
		.type = WRITER_BEGIN, .time = s->begin, .category = s->category, .name = s->name};
	int r;

	if (s->end <= s->begin)
		return 0;
	r = writer_track_event(w, &track, &event);
	if (r >= 0)
		r = writer_track_event(
			w, &track,
			&(struct writer_track_event){.type = WRITER_END, .time = s->end});
	return r < 0 ? trace(r) : 0;
}
