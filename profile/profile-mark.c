/* profile-mark.c - slices, instants and counters of tracks (TrackDescriptor, TrackEvent): marks of programs.
 *
 * Packets of a track may come in any order, so sections are made at the end, by time.  Waits (category "wait") are not marks: they
 * are samples already.  Their two ends stand next to each other in the file.  Events with interned names are not read: perfwind
 * writes none. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/nearest.h"
#include "profile/profile-reader.h"
#include "protos/trace.fields.h"

/* ---- reading ---- */

static bool read_ids(struct cursor c, uint32_t pid_field, uint32_t tid_field, uint32_t *pid,
		     uint32_t *tid)
{
	struct wire_field f;

	while (wire_next(&c, &f)) {
		if (wire_is(&f, pid_field))
			*pid = (uint32_t)f.value;
		else if (tid_field && wire_is(&f, tid_field))
			*tid = (uint32_t)f.value;
	}
	return !c.bad;
}

static int add_track(struct reader *r, const struct profile_track *track)
{
	struct profile *p = r->profile;
	uint64_t index;
	int e;

	if (table_get(&r->track_by_uuid, track->uuid, &index)) {
		p->tracks[index] = *track;
		return 0;
	}
	e = reader_hold(r, HELD_TRACKS, 1, sizeof(*track) + 1);
	if (e >= 0)
		e = ROOM_FOR_ONE(p->tracks, p->n_tracks, r->room_tracks);
	if (e >= 0)
		e = ROOM_FOR_ONE(r->track_waits, p->n_tracks, r->room_track_waits);
	if (e >= 0)
		e = reader_put(r, HELD_NUMBERS, &r->track_by_uuid, track->uuid, p->n_tracks);
	if (e < 0)
		return trace(e);
	r->track_waits[p->n_tracks] = false;
	p->tracks[p->n_tracks++] = *track;
	return 0;
}

int reader_track_descriptor(struct reader *r, struct cursor c)
{
	struct profile_track track = {0};
	struct wire_field f;
	uint64_t parent = 0, index;
	bool good = true;
	int e = 0;

	while (!e && wire_next(&c, &f)) {
		if (wire_is(&f, TRACK_DESCRIPTOR__UUID))
			track.uuid = f.value;
		else if (wire_is(&f, TRACK_DESCRIPTOR__PARENT_UUID))
			parent = f.value;
		else if (wire_is_bytes(&f, TRACK_DESCRIPTOR__NAME))
			e = reader_string(r, f.data, f.len, &track.name);
		else if (wire_is_bytes(&f, TRACK_DESCRIPTOR__COUNTER))
			track.counter = true;
		else if (wire_is_bytes(&f, TRACK_DESCRIPTOR__THREAD))
			good &= read_ids(wire_message(&f), THREAD_DESCRIPTOR__PID,
					 THREAD_DESCRIPTOR__TID, &track.pid, &track.tid);
		else if (wire_is_bytes(&f, TRACK_DESCRIPTOR__PROCESS))
			good &= read_ids(wire_message(&f), PROCESS_DESCRIPTOR__PID, 0, &track.pid,
					 &track.tid);
	}
	if (e < 0)
		return trace(e);
	if (c.bad || !good)
		return READER_BROKEN;
	if (parent && table_get(&r->track_by_uuid, parent, &index)) {
		track.pid = r->profile->tracks[index].pid;
		track.tid = r->profile->tracks[index].tid;
	}
	if (track.tid && !parent)
		track.name = 0; /* a thread's own */
	return trace(add_track(r, &track));
}

struct read_event {
	struct profile_mark mark;
	uint64_t track;
	struct wire_field name, category;
};

static bool parse_event(struct read_event *event, struct cursor c)
{
	struct wire_field f;

	while (wire_next(&c, &f)) {
		if (wire_is(&f, TRACK_EVENT__TYPE))
			event->mark.type = (uint8_t)min_u64(f.value, UINT8_MAX);
		else if (wire_is(&f, TRACK_EVENT__TRACK_UUID))
			event->track = f.value;
		else if (wire_is(&f, TRACK_EVENT__COUNTER_VALUE))
			event->mark.value = (int64_t)f.value;
		else if (wire_is_bytes(&f, TRACK_EVENT__NAME))
			event->name = f;
		else if (wire_is_bytes(&f, TRACK_EVENT__CATEGORIES))
			event->category = f;
	}
	return !c.bad;
}

/* Is it an end of a wait? */
static bool is_wait(struct reader *r, const struct read_event *event, uint32_t track)
{
	bool *waits = &r->track_waits[track];

	if (event->mark.type == PROFILE_MARK_BEGIN && event->category.len == 4 &&
	    !memcmp(event->category.data, "wait", 4)) {
		*waits = true;
		return true;
	}
	if (!*waits || event->mark.type != PROFILE_MARK_END)
		return false;
	*waits = false;
	return true;
}

int reader_track_event(struct reader *r, uint8_t clock, uint64_t time, struct cursor c)
{
	struct profile *p = r->profile;
	struct read_event event = {.mark = {.time = time, .clock = clock}};
	uint64_t track;
	int e;

	if (!parse_event(&event, c))
		return READER_BROKEN;
	if (event.mark.type < PROFILE_MARK_BEGIN || event.mark.type > PROFILE_MARK_COUNTER ||
	    !table_get(&r->track_by_uuid, event.track, &track) ||
	    is_wait(r, &event, (uint32_t)track))
		return 0;
	/* and as much for its section */
	e = reader_hold(r, HELD_MARKS, 1, sizeof(event.mark) + sizeof(struct profile_section));
	if (e >= 0 && event.name.len)
		e = reader_string(r, event.name.data, event.name.len, &event.mark.name);
	if (e >= 0)
		e = ROOM_FOR_ONE(p->marks, p->n_marks, r->room_marks);
	if (e < 0)
		return trace(e);
	event.mark.track = (uint32_t)track;
	event.mark.order = (uint32_t)p->n_marks;
	p->marks[p->n_marks++] = event.mark;
	return 0;
}

/* ---- sections ---- */

static int compare_marks(const void *a, const void *b)
{
	const struct profile_mark *x = a, *y = b;

	return ascend(x->time, y->time) ?: ascend(x->order, y->order);
}

/* How many sections each track has, and where they begin. */
static void count_sections(struct profile *p)
{
	uint32_t first = 0;

	for (size_t i = 0; i < p->n_marks; i++)
		p->tracks[p->marks[i].track].n_sections += p->marks[i].type == PROFILE_MARK_BEGIN;
	for (size_t i = 0; i < p->n_tracks; i++) {
		p->tracks[i].first_section = first;
		first += p->tracks[i].n_sections;
		p->tracks[i].n_sections = 0;
	}
	p->n_sections = first;
}

static void open_section(struct profile *p, uint32_t *open, const struct profile_mark *m)
{
	struct profile_track *track = &p->tracks[m->track];
	uint32_t index = track->first_section + track->n_sections++;

	p->sections[index] = (struct profile_section){.begin = m->time,
						      .end = UINT64_MAX,
						      .track = m->track,
						      .name = m->name,
						      .up = open[m->track]};
	open[m->track] = index;
}

static void close_section(struct profile *p, uint32_t *open, const struct profile_mark *m)
{
	uint32_t index = open[m->track];

	if (index == UINT32_MAX)
		return;
	p->sections[index].end = m->time;
	open[m->track] = p->sections[index].up;
}

int reader_finish_marks(struct reader *r,
			uint64_t (*time_of)(const struct reader *r, uint32_t clock, uint64_t time))
{
	struct profile *p = r->profile;
	_cleanup_(freep) uint32_t *open = NULL;
	uint64_t last = 0;

	if (!p->n_marks)
		return 0;
	for (size_t i = 0; i < p->n_marks; i++)
		p->marks[i].time = time_of(r, p->marks[i].clock, p->marks[i].time);
	qsort(p->marks, p->n_marks, sizeof(*p->marks), compare_marks);
	count_sections(p);
	p->sections = calloc(p->n_sections + 1, sizeof(*p->sections));
	open = malloc(p->n_tracks * sizeof(*open));
	if (!p->sections || !open)
		return fail(-ENOMEM);
	memset(open, 0xff, p->n_tracks * sizeof(*open));
	for (size_t i = 0; i < p->n_marks; i++) {
		if (p->marks[i].type == PROFILE_MARK_BEGIN)
			open_section(p, open, &p->marks[i]);
		else if (p->marks[i].type == PROFILE_MARK_END)
			close_section(p, open, &p->marks[i]);
	}
	/* What has no end lasts as long as the trace. */
	last = p->marks[p->n_marks - 1].time;
	for (size_t i = 0; i < p->n_samples; i++)
		last = max_u64(last, p->samples[i].time);
	for (size_t i = 0; i < p->n_sections; i++)
		p->sections[i].end = min_u64(p->sections[i].end, last);
	return 0;
}

const struct profile_section *profile_section_at(const struct profile *p, uint32_t track,
						 uint64_t time)
{
	const struct profile_track *t = &p->tracks[track];
	/* The first that begins later. */
	uint32_t at, low = (uint32_t)bisect(i, t->n_sections,
					    p->sections[t->first_section + i].begin <= time);

	if (!low)
		return NULL;
	for (at = t->first_section + low - 1; at != UINT32_MAX; at = p->sections[at].up)
		if (time < p->sections[at].end)
			return &p->sections[at];
	return NULL;
}

/* ---- samples inside sections ---- */

struct interval {
	uint64_t begin, end;
	uint32_t pid, tid;
};

static int compare_intervals(const void *a, const void *b)
{
	const struct interval *x = a, *y = b;

	return ascend(x->pid, y->pid) ?: ascend(x->tid, y->tid) ?: ascend(x->begin, y->begin);
}

/* The sections called @name, those of one thread (or process) that overlap as one.  New memory. */
static int find_intervals(const struct profile *p, uint32_t name, struct interval **ret,
			  size_t *ret_n)
{
	struct interval *list = malloc((p->n_sections + 1) * sizeof(*list));
	size_t n = 0, kept = 0;

	if (!list)
		return fail(-ENOMEM);
	for (size_t i = 0; i < p->n_sections; i++) {
		const struct profile_section *s = &p->sections[i];

		if (s->name == name)
			list[n++] = (struct interval){s->begin, s->end, p->tracks[s->track].pid,
						      p->tracks[s->track].tid};
	}
	qsort(list, n, sizeof(*list), compare_intervals);
	for (size_t i = 0; i < n; i++) {
		struct interval *last = kept ? &list[kept - 1] : NULL;

		if (last && last->pid == list[i].pid && last->tid == list[i].tid &&
		    list[i].begin <= last->end)
			last->end = max_u64(last->end, list[i].end);
		else
			list[kept++] = list[i];
	}
	*ret = list;
	*ret_n = kept;
	return 0;
}

static bool is_inside(const struct interval *list, size_t n, uint32_t pid, uint32_t tid,
		      uint64_t time)
{
	const struct interval wanted = {.begin = time, .pid = pid, .tid = tid};
	/* The first one behind. */
	size_t low = bisect(i, n, compare_intervals(&list[i], &wanted) <= 0);

	return low && list[low - 1].pid == pid && list[low - 1].tid == tid &&
	       time < list[low - 1].end;
}

static int no_such_mark(const struct profile *p, const char *name, char *error, size_t error_size)
{
	struct nearest nearest = {.wanted = name};
	_cleanup_(freep) bool *offered = calloc(p->strings.n_entries + 1, sizeof(*offered));

	for (size_t i = 0; offered && i < p->n_sections; i++) {
		uint32_t id = p->sections[i].name;

		if (id && !offered[id])
			nearest_offer(&nearest, string_table_text(&p->strings, id));
		offered[id] = true;
	}
	if (!p->n_sections)
		(void)snprintf(error, error_size,
			       "the trace has no marks with a beginning and an end (hint: "
			       "`perfwind record "
			       "--marks`)");
	else
		(void)snprintf(error, error_size, "the trace has no mark '%.128s'", name);
	nearest_append(&nearest, error, error_size);
	return fail(-ENOENT);
}

static int note_inside(struct profile *p, const char *wanted, uint8_t bit, char *error,
		       size_t error_size)
{
	_cleanup_(freep) struct interval *list = NULL;
	uint32_t name = 0;
	size_t n = 0;
	int r;

	if (!string_table_find(&p->strings, wanted, strlen(wanted), &name))
		return no_such_mark(p, wanted, error, error_size);
	r = find_intervals(p, name, &list, &n);
	if (r < 0)
		return trace(r);
	if (!n)
		return no_such_mark(p, wanted, error, error_size);
	for (size_t i = 0; i < p->n_samples; i++) {
		struct profile_sample *s = &p->samples[i];
		uint32_t pid = profile_sample_pid(p, s);

		if (is_inside(list, n, pid, profile_sample_tid(p, s), s->time) ||
		    is_inside(list, n, pid, 0, s->time))
			s->in_mark |= bit;
	}
	return 0;
}

int profile_mark_samples(struct profile *p, const char *during, const char *outside, char *error,
			 size_t error_size)
{
	int r = during ? note_inside(p, during, PROFILE_DURING, error, error_size) : 0;

	if (r >= 0 && outside)
		r = note_inside(p, outside, PROFILE_INSIDE, error, error_size);
	return r < 0 ? trace(r) : 0;
}
