/* mark-tracks.c - see mark-tracks.h.
 *
 * Of a thread only the number of its open slices is kept: the trace holds the rest.  Slices with a cookie may overlap, those of
 * one track may not: each takes the lowest number (writer_track.number) that no open slice of its name has. */
#include "marks/mark-tracks.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/table.h"
#include "trace/slices.h"

struct mark_thread {
	int32_t pid, tid;
	uint32_t depth; /* slices that the trace holds; 0: the entry is free */
	uint32_t over;	/* ... and that were dropped above them */
	uint64_t last;	/* time of its last mark */
};
struct mark_async {
	int32_t pid; /* 0: the entry is free */
	uint32_t number;
	uint64_t group; /* hash of pid, kind and the track's name */
	int64_t cookie;
	char *track;
};
struct mark_tracks {
	struct writer *writer;
	struct table by_tid; /* index in threads */
	struct mark_thread *threads;
	size_t n_threads, threads_room, first_free;
	struct mark_async async[MARK_ASYNC_MAX];
	size_t n_async; /* entries in use lie below it */
	struct mark_counts counts;
	char name[MARK_NAME_MAX + 1], track[MARK_NAME_MAX + 1];
};

int mark_tracks_new(struct writer *writer, struct mark_tracks **ret_tracks)
{
	struct mark_tracks *t = calloc(1, sizeof(*t));

	if (!t)
		return fail(-ENOMEM);
	t->writer = writer;
	*ret_tracks = t;
	return 0;
}

struct mark_tracks *mark_tracks_free(struct mark_tracks *t)
{
	if (!t)
		return NULL;
	for (size_t i = 0; i < t->n_async; i++)
		free(t->async[i].track);
	table_deinit(&t->by_tid);
	free(t->threads);
	free(t);
	return NULL;
}

const struct mark_counts *mark_tracks_counts(const struct mark_tracks *t)
{
	return &t->counts;
}

/* Bytes of a program as text: control characters would break lines of every reader. */
static const char *text_of(const char *from, size_t len, char to[MARK_NAME_MAX + 1])
{
	len = min_u64(len, MARK_NAME_MAX);
	for (size_t i = 0; i < len; i++)
		to[i] = (unsigned char)from[i] < ' ' || from[i] == 0x7f ? ' ' : from[i];
	to[len] = 0;
	return to;
}

static const char *name_of(struct mark_tracks *t, const struct mark *m)
{
	if (m->name_len)
		return text_of(m->name, m->name_len, t->name);
	if (m->address)
		(void)snprintf(t->name, sizeof(t->name), "0x%" PRIx64, m->address);
	else
		(void)snprintf(t->name, sizeof(t->name), "[unnamed]");
	return t->name;
}

/* ---- threads ---- */

static struct mark_thread *find_thread(struct mark_tracks *t, int32_t tid)
{
	uint64_t index;

	return table_get(&t->by_tid, (uint32_t)tid, &index) ? &t->threads[index] : NULL;
}

static void forget_thread(struct mark_tracks *t, struct mark_thread *thread)
{
	(void)table_remove(&t->by_tid, (uint32_t)thread->tid);
	t->first_free = min_u64(t->first_free, (size_t)(thread - t->threads));
	thread->depth = thread->over = 0;
}

/* 0 and NULL: there are too many. */
static int add_thread(struct mark_tracks *t, const struct mark *m, struct mark_thread **ret_thread)
{
	size_t i = t->first_free;
	int r;

	*ret_thread = NULL;
	while (i < t->n_threads && t->threads[i].depth)
		i++;
	t->first_free = i;
	if (i == MARK_TRACKS_MAX)
		return 0;
	if (i == t->threads_room && !array_grow(t->threads, t->threads_room, 64))
		return fail(-ENOMEM);
	r = table_put(&t->by_tid, (uint32_t)m->tid, i);
	if (r < 0)
		return fail(r);
	if (i == t->n_threads)
		t->n_threads++;
	t->threads[i] = (struct mark_thread){.pid = m->pid, .tid = m->tid};
	*ret_thread = &t->threads[i];
	return 0;
}

static int close_thread(struct mark_tracks *t, struct mark_thread *thread, uint64_t time)
{
	const struct writer_track track = {.pid = (uint32_t)thread->pid,
					   .tid = (uint32_t)thread->tid};
	const struct writer_track_event end = {.type = WRITER_END,
					       .time = max_u64(time, thread->last),
					       .key = "ended",
					       .text = "without an end mark"};
	int r = 0;

	t->counts.begin_alone += thread->depth + thread->over;
	for (uint32_t i = 0; i < thread->depth && r >= 0; i++)
		r = writer_track_event(t->writer, &track, &end);
	forget_thread(t, thread);
	return r < 0 ? trace(r) : 0;
}

static int begin_slice(struct mark_tracks *t, const struct mark *m)
{
	const struct writer_track track = {.pid = (uint32_t)m->pid, .tid = (uint32_t)m->tid};
	struct mark_thread *thread = find_thread(t, m->tid);
	int r = 0;

	if (thread &&
	    thread->pid != m->pid) { /* the number of a thread of which the exit was lost */
		r = close_thread(t, thread, thread->last);
		thread = NULL;
	}
	if (!thread && r >= 0)
		r = add_thread(t, m, &thread);
	if (r < 0)
		return trace(r);
	if (!thread || thread->depth == MARK_DEPTH_MAX) {
		t->counts.too_many++;
		if (thread)
			thread->over++;
		return 0;
	}
	thread->depth++;
	thread->last = m->time_ns;
	return trace(writer_track_event(
		t->writer, &track,
		&(struct writer_track_event){.type = WRITER_BEGIN,
					     .time = m->time_ns,
					     .category = m->address ? "function" : "mark",
					     .name = name_of(t, m)}));
}

static int end_slice(struct mark_tracks *t, const struct mark *m)
{
	const struct writer_track track = {.pid = (uint32_t)m->pid, .tid = (uint32_t)m->tid};
	struct mark_thread *thread = find_thread(t, m->tid);
	struct writer_track_event end = {.type = WRITER_END, .time = m->time_ns};

	if (!thread || thread->pid != m->pid) {
		t->counts.end_alone++;
		return 0;
	}
	if (thread->over) {
		thread->over--;
		return 0;
	}
	thread->last = m->time_ns;
	if (!--thread->depth)
		forget_thread(t, thread);
	if (m->left) {
		end.key = "left";
		end.text = "by an exception or longjmp";
		t->counts.left++;
	}
	return trace(writer_track_event(t->writer, &track, &end));
}

/* ---- slices with a cookie ---- */

static struct writer_track async_track(const struct mark_async *a)
{
	return (struct writer_track){
		.pid = (uint32_t)a->pid, .name = a->track, .number = a->number};
}

static uint64_t group_of(const struct mark *m, const char *track)
{
	bool own = m->kind == MARK_TRACK_BEGIN || m->kind == MARK_TRACK_END;

	return hash_seeded(hash_seed() ^ (uint64_t)(uint32_t)m->pid << 1 ^ own, track,
			   strlen(track));
}

static struct mark_async *find_async(struct mark_tracks *t, const struct mark *m, uint64_t group)
{
	for (size_t i = 0; i < t->n_async; i++) {
		struct mark_async *a = &t->async[i];

		if (a->pid == m->pid && a->group == group && a->cookie == m->value)
			return a;
	}
	return NULL;
}

static void forget_async(struct mark_tracks *t, struct mark_async *a)
{
	free(take(a->track));
	a->pid = 0;
	while (t->n_async && !t->async[t->n_async - 1].pid)
		t->n_async--;
}

/* A free entry with the lowest free number of its group; NULL: there are too many, of all or of this process. */
static struct mark_async *add_async(struct mark_tracks *t, int32_t pid, uint64_t group)
{
	uint64_t used[MARK_ASYNC_MAX / 64] = {0};
	struct mark_async *a = NULL;
	size_t n_own = 0;
	uint32_t number = 0;

	for (size_t i = 0; i < t->n_async; i++) {
		n_own += t->async[i].pid == pid;
		if (!t->async[i].pid)
			a = a ? a : &t->async[i];
		else if (t->async[i].group == group)
			used[t->async[i].number / 64] |= 1ull << t->async[i].number % 64;
	}
	if (n_own >= MARK_ASYNC_MAX / 4 || (!a && t->n_async == MARK_ASYNC_MAX))
		return NULL;
	while (used[number / 64] >> number % 64 & 1)
		number++;
	if (!a)
		a = &t->async[t->n_async++];
	*a = (struct mark_async){.pid = pid, .number = number, .group = group};
	return a;
}

/* S and G. */
static int begin_async(struct mark_tracks *t, const struct mark *m)
{
	const char *name = name_of(t, m);
	const char *track = m->track ? text_of(m->track, m->track_len, t->track) : name;
	uint64_t group = group_of(m, track);
	struct mark_async *a = find_async(t, m, group) ? NULL : add_async(t, m->pid, group);
	struct writer_track where;

	if (!a) { /* a cookie that is in use has no second end */
		t->counts.too_many++;
		return 0;
	}
	a->cookie = m->value;
	a->track = strdup(track);
	if (!a->track) {
		forget_async(t, a);
		return fail(-ENOMEM);
	}
	where = async_track(a);
	return trace(writer_track_event(t->writer, &where,
					&(struct writer_track_event){.type = WRITER_BEGIN,
								     .time = m->time_ns,
								     .category = "mark",
								     .name = name}));
}

/* F and H. */
static int end_async(struct mark_tracks *t, const struct mark *m)
{
	const char *track = m->track ? text_of(m->track, m->track_len, t->track) : name_of(t, m);
	struct mark_async *a = find_async(t, m, group_of(m, track));
	struct writer_track where;
	int r;

	if (!a) {
		t->counts.end_alone++;
		return 0;
	}
	where = async_track(a);
	r = writer_track_event(
		t->writer, &where,
		&(struct writer_track_event){.type = WRITER_END, .time = m->time_ns});
	forget_async(t, a);
	return r < 0 ? trace(r) : 0;
}

static int close_async(struct mark_tracks *t, int32_t pid, uint64_t time)
{
	int r = 0;

	for (size_t i = t->n_async; i-- > 0 && r >= 0;) {
		struct mark_async *a = &t->async[i];
		struct writer_track where = async_track(a);

		if (!a->pid || (pid && a->pid != pid))
			continue;
		t->counts.begin_alone++;
		r = writer_track_event(
			t->writer, &where,
			&(struct writer_track_event){.type = WRITER_END, .time = time});
		forget_async(t, a);
	}
	return r < 0 ? trace(r) : 0;
}

/* ---- the rest ---- */

static int add_instant(struct mark_tracks *t, const struct mark *m)
{
	struct writer_track track = {.pid = (uint32_t)m->pid, .tid = (uint32_t)m->tid};

	if (m->track) {
		track.tid = 0;
		track.name = text_of(m->track, m->track_len, t->track);
	}
	return trace(writer_track_event(t->writer, &track,
					&(struct writer_track_event){.type = WRITER_INSTANT,
								     .time = m->time_ns,
								     .category = "mark",
								     .name = name_of(t, m)}));
}

static int add_counter(struct mark_tracks *t, const struct mark *m)
{
	const struct writer_track track = {
		.pid = (uint32_t)m->pid, .name = name_of(t, m), .counter = true};

	return trace(writer_track_event(t->writer, &track,
					&(struct writer_track_event){.type = WRITER_COUNTER,
								     .time = m->time_ns,
								     .category = "mark",
								     .value = m->value}));
}

int mark_tracks_add(struct mark_tracks *t, const struct mark *m)
{
	t->counts.marks++;
	t->counts.other_pid += m->named_pid && m->named_pid != m->pid;
	switch (m->kind) {
	case MARK_BEGIN:
		return begin_slice(t, m);
	case MARK_END:
		return end_slice(t, m);
	case MARK_ASYNC_BEGIN:
	case MARK_TRACK_BEGIN:
		return begin_async(t, m);
	case MARK_ASYNC_END:
	case MARK_TRACK_END:
		return end_async(t, m);
	case MARK_COUNTER:
		return add_counter(t, m);
	default:
		return add_instant(t, m);
	}
}

int mark_tracks_exit(struct mark_tracks *t, int32_t pid, int32_t tid, bool process, uint64_t time)
{
	struct mark_thread *thread = find_thread(t, tid);
	int r = thread ? close_thread(t, thread, time) : 0;

	if (process && r >= 0)
		r = close_async(t, pid, time);
	return r < 0 ? trace(r) : 0;
}

int mark_tracks_finish(struct mark_tracks *t, uint64_t time)
{
	int r = 0;

	for (size_t i = 0; i < t->n_threads && r >= 0; i++)
		if (t->threads[i].depth)
			r = close_thread(t, &t->threads[i], time);
	if (r >= 0)
		r = close_async(t, 0, time);
	return r < 0 ? trace(r) : 0;
}
