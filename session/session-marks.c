/* session-marks.c - marks from the rings of targets (options.mark_rings) and of trace_marker into the trace.  Thread: main.
 *
 *   mark_rings_turn ─┬─ marks, lines of trace_marker ─► mark-tracks
 *                    └─ begins and ends of functions ─► mark-functions ─► slices ─► names ─► writer_slice
 *
 *   ftrace_print_turn ── lines of trace_marker ─► mark-tracks
 *
 * A slice of a function waits until the symbols of its module are loaded, at the latest until the end of the recording. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/shared-counts.h"
#include "marks/ftrace-print.h"
#include "marks/mark-functions.h"
#include "marks/mark-rings.h"
#include "marks/mark-text.h"
#include "marks/mark-tracks.h"
#include "marks/print-threads.h"
#include "session/session-private.h"
#include "symbols/demangle.h"
#include "trace/slices.h"

enum {
	INCARNATIONS = 4,
	SLICES_MAX = 1 << 18, /* that wait for names */
	NAME_ROOM = 1024,
	EARLIER_S = 60, /* a mark from before the session may be as old */
	/* Functions that are open on one track.  Perfetto's reader shows 512 slices (SliceTracker::kMaxDepth) and
	 * then mistakes the ends; marks (MARK_DEPTH_MAX) and a wait lie on the track too. */
	FUNCTIONS_DEPTH = 380,
	LOOK_MS = 200, /* between two looks at modules that are not loaded yet */
};

enum {
	EXITS_MAX = 1 << 16, /* in one turn */
	STRANGERS_MS = 1000, /* a thread is looked at again */
};

struct waiting_slice {
	struct mark_function_slice slice;
	struct program *program;
};

/* One program of one process: an exec begins another. */
struct program {
	struct session_marks *marks;
	uint32_t pid;
	/* References: the incarnations of the pid seen meanwhile, as an exec may be recorded before or after the marks around
	 * it are read. */
	struct process *processes[INCARNATIONS];
	size_t n_processes;
	struct mark_functions *functions;
	uint32_t refs; /* slices that wait */
	bool ended;
};

struct thread_exit {
	uint32_t pid, tid;
	uint64_t time;
};

struct session_marks {
	struct session *session;
	struct { /* of ftrace_print */
		struct print_threads threads;
		bool missed;	    /* exits in this turn */
		uint64_t forget_at; /* CLOCK_MONOTONIC: the strangers */
		struct thread_exit *exits;
		size_t n_exits, room;
		uint64_t lines; /* of processes that are recorded */
	} print;
	struct mark_tracks *tracks;
	struct table programs; /* pid -> struct program */
	struct waiting_slice *slices;
	size_t n_slices, room;
	uint64_t look_at;	/* CLOCK_MONOTONIC */
	uint64_t first, latest; /* times of marks: the least that makes sense; the latest of all */
	uint64_t damaged, dropped;
	size_t function_rooms; /* of all programs */
	bool finished;
};

/* ---- programs ---- */

static void free_program(struct program *p)
{
	for (size_t i = 0; i < p->n_processes; i++)
		(void)process_unref(p->processes[i]);
	(void)mark_functions_free(p->functions);
	free(p);
}

static void release(struct program *p)
{
	if (!p->refs && p->ended)
		free_program(p);
}

static void find_process(struct session_marks *m, struct program *p)
{
	struct process *now = p->ended ? NULL : process_find(m->session->processes, p->pid);

	for (size_t i = 0; i < p->n_processes; i++)
		if (p->processes[i] == now)
			return;
	if (now && p->n_processes < INCARNATIONS)
		p->processes[p->n_processes++] = process_ref(now);
}

/* ---- names ---- */

enum named { NAMED, NAME_LATER };

static int write_slice(struct session_marks *m, const struct waiting_slice *w, const char *name)
{
	static const char *const categories[] = {
		[MARK_FUNCTION_RETURNED] = "function",
		[MARK_FUNCTION_LEFT] = "function-left",
		[MARK_FUNCTION_LOST] = "function-lost",
		[MARK_FUNCTION_ENDED] = "function-ended",
	};
	const struct writer_slice slice = {.pid = w->program->pid,
					   .tid = w->slice.tid,
					   .begin = w->slice.begin,
					   .end = max_u64(w->slice.end, w->slice.begin + 1),
					   .category = categories[w->slice.how],
					   .name = name};

	return writer_slice(m->session->writer, &slice);
}

/* The mapping of @address in the program, and the incarnation that has it; NULL: not known. */
static const struct uw_map *map_of(struct session_marks *m, struct program *p, uint64_t address,
				   struct process **ret_process)
{
	find_process(m, p);
	for (size_t i = 0; i < p->n_processes; i++) {
		const struct uw_map *map = NULL;
		struct uw_space *space;

		if (process_space(m->session->processes, p->processes[i], &space) >= 0)
			map = uw_space_find(space, address);
		*ret_process = p->processes[i];
		if (map && map->module)
			return map;
	}
	return NULL;
}

static enum named look_up(struct session_marks *m, const struct waiting_slice *w, bool last,
			  char name[static NAME_ROOM])
{
	struct program *p = w->program;
	struct process *process = NULL;
	const struct uw_map *map = map_of(m, p, w->slice.address, &process);
	struct uw_symbol symbol;

	(void)snprintf(name, NAME_ROOM, "0x%llx", (unsigned long long)w->slice.address);
	if (!map)
		return last ? NAMED : NAME_LATER;
	if (uw_module_want_unwind(map->module))
		(void)reader_want_module(m->session->reader, process, map->module);
	if (uw_module_symbol_state(map->module) == UW_MODULE_READY &&
	    uw_module_symbol(map->module, uw_map_vaddr(map, w->slice.address), &symbol)) {
		uw_demangle(symbol.name, name, NAME_ROOM);
		return NAMED;
	}
	if (uw_module_symbol_state(map->module) < UW_MODULE_READY && !last)
		return NAME_LATER;
	return NAMED;
}

/* Writes the slices with known names; @last: all. */
static int write_slices(struct session_marks *m, bool last)
{
	char name[NAME_ROOM];
	size_t kept = 0;
	int r = 0;

	for (size_t i = 0; i < m->n_slices; i++) {
		struct waiting_slice *w = &m->slices[i];

		if (r < 0 || look_up(m, w, last, name) == NAME_LATER) {
			m->slices[kept++] = *w;
			continue;
		}
		r = write_slice(m, w, name);
		w->program->refs--;
		release(w->program);
	}
	m->n_slices = kept;
	return r < 0 ? trace(r) : 0;
}

static int slice_ended(void *arg, const struct mark_function_slice *slice)
{
	struct program *p = arg;
	struct session_marks *m = p->marks;
	const struct waiting_slice w = {.slice = *slice, .program = p};
	char name[NAME_ROOM];

	if (slice->depth >= FUNCTIONS_DEPTH) {
		m->dropped++;
		return 0;
	}
	if (m->n_slices == SLICES_MAX || look_up(m, &w, false, name) == NAMED)
		return write_slice(m, &w, name);
	if (m->n_slices == m->room && !array_grow(m->slices, m->room, 256))
		return fail(-ENOMEM);
	m->slices[m->n_slices++] = w;
	p->refs++;
	return 0;
}

/* ---- one mark ---- */

static int program_of(struct session_marks *m, uint32_t pid, struct program **ret)
{
	struct program *p = table_pointer(&m->programs, pid);
	struct mark_functions_options options = {.min_ns = m->session->options.min_duration_ns,
						 .slice = slice_ended,
						 .rooms = &m->function_rooms};
	int r;

	if (p) {
		*ret = p;
		return 0;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return fail(-ENOMEM);
	*p = (struct program){.marks = m, .pid = pid};
	options.arg = p;
	r = mark_functions_new(&options, &p->functions);
	if (r >= 0)
		r = table_put(&m->programs, pid, (uintptr_t)p);
	if (r < 0) {
		free_program(p);
		return trace(r);
	}
	*ret = p;
	return 0;
}

static int function_mark(struct session_marks *m, uint32_t pid, uint32_t tid,
			 const struct mark_ring_mark *mark)
{
	struct mark_function at = {.tid = tid,
				   .time = mark->time,
				   .address = mark->value,
				   .sp = mark->extra,
				   .uncaught = mark->flags & MARKS_UNCAUGHT,
				   .tail = mark->flags & MARKS_TAIL};
	struct program *p = NULL;
	int r = 0;

	if (mark->kind == MARKS_THREAD_END) {
		r = mark_tracks_exit(m->tracks, (int32_t)pid, (int32_t)tid, false, mark->time);
		if (r < 0 || !table_pointer(&m->programs, pid))
			return r < 0 ? trace(r) : 0;
	}
	r = program_of(m, pid, &p);
	if (r < 0)
		return trace(r);
	if (mark->len >= sizeof(at.site))
		memcpy(&at.site, mark->name, sizeof(at.site));
	if (mark->len >= 2 * sizeof(at.site))
		memcpy(&at.frame, mark->name + sizeof(at.site), sizeof(at.frame));
	if (mark->gap)
		mark_functions_gap(p->functions, tid);
	if (mark->kind == MARKS_ENTER)
		r = mark_functions_enter(p->functions, &at);
	else if (mark->kind == MARKS_LEAVE)
		r = mark_functions_leave(p->functions, &at);
	else if (mark->kind == MARKS_STACK)
		r = mark_functions_stack(p->functions, mark->value, mark->extra);
	else
		r = mark_functions_thread_end(p->functions, tid, mark->time);
	return r < 0 ? trace(r) : 0;
}

static int add_mark(struct session_marks *m, const struct mark *mark)
{
	struct shared_counts *counts = m->session->options.mark_counts;
	bool ends = mark->kind == MARK_END || mark->kind == MARK_ASYNC_END ||
		    mark->kind == MARK_TRACK_END;

	if (counts && !ends)
		shared_counts_add(counts, mark->name, mark->name_len, (uint32_t)mark->pid);
	return mark_tracks_add(m->tracks, mark);
}

static int take_mark(void *arg, uint32_t pid, uint32_t tid, const struct mark_ring_mark *taken)
{
	struct mark_ring_mark fixed = *taken, *mark = &fixed;
	static const uint8_t kinds[MARKS_LINE] = {
		[MARKS_BEGIN] = MARK_BEGIN,
		[MARKS_END] = MARK_END,
		[MARKS_INSTANT] = MARK_INSTANT,
		[MARKS_COUNTER] = MARK_COUNTER,
		[MARKS_ASYNC_BEGIN] = MARK_ASYNC_BEGIN,
		[MARKS_ASYNC_END] = MARK_ASYNC_END,
	};
	struct session_marks *m = arg;
	struct mark to = {0};

	/* A target's time stretches no trace. */
	fixed.time = min_u64(taken->time, clock_ns(m->session->options.clock));
	if (fixed.time < m->first) {
		m->damaged++;
		return 0;
	}
	m->latest = max_u64(m->latest, fixed.time);
	if (mark->kind > MARKS_LINE)
		return function_mark(m, pid, tid, mark);
	if (mark->kind == MARKS_LINE) {
		if (mark_text_parse(mark->name, mark->len, &to) == MARK_TEXT_DAMAGED) {
			m->damaged++;
			return 0;
		}
	} else {
		to.kind = kinds[mark->kind];
		to.name = mark->name;
		to.name_len = mark->len;
		to.value = (int64_t)mark->value;
		to.category = mark->extra;
	}
	to.time_ns = mark->time;
	to.pid = (int32_t)pid;
	to.tid = (int32_t)tid;
	return add_mark(m, &to);
}

static int program_ended(void *arg, uint32_t pid)
{
	struct session_marks *m = arg;
	struct program *p = table_pointer(&m->programs, pid);
	int r = mark_tracks_exit(m->tracks, (int32_t)pid, (int32_t)pid, true, m->latest);

	if (r < 0 || !p)
		return r < 0 ? trace(r) : 0;
	find_process(m, p);
	r = mark_functions_end(p->functions);
	m->dropped += mark_functions_dropped(p->functions);
	(void)table_remove(&m->programs, pid);
	p->ended = true;
	release(p);
	return r < 0 ? trace(r) : 0;
}

/* ---- trace_marker ---- */

void session_marks_exited(void *session, uint32_t pid, uint32_t tid, uint64_t time)
{
	struct session *s = session;
	struct session_marks *m = s->marks;

	if (!m)
		return;
	m->print.missed |= m->print.n_exits == EXITS_MAX;
	if (m->print.missed)
		return; /* its slices end with the recording */
	if (m->print.n_exits == m->print.room && !array_grow(m->print.exits, m->print.room, 64)) {
		m->print.missed = true;
		return;
	}
	m->print.exits[m->print.n_exits++] = (struct thread_exit){pid, tid, time};
}

/* After the lines that the threads have written. */
static int take_exits(struct session_marks *m)
{
	int r = 0;

	for (size_t i = 0; i < m->print.n_exits && r >= 0; i++) {
		const struct thread_exit *e = &m->print.exits[i];

		print_threads_exit(&m->print.threads, e->tid);
		r = mark_tracks_exit(m->tracks, (int32_t)e->pid, (int32_t)e->tid, e->pid == e->tid,
				     e->time);
	}
	m->print.n_exits = 0;
	if (m->print.missed)
		print_threads_forget(&m->print.threads);
	m->print.missed = false;
	return r < 0 ? trace(r) : 0;
}

static int take_line(void *arg, uint32_t tid, uint64_t time, const char *text, size_t len)
{
	struct session_marks *m = arg;
	struct mark mark;
	int r = mark_text_parse(text, len, &mark);
	uint32_t named = r == MARK_TEXT_DAMAGED ? 0 : (uint32_t)mark.named_pid;
	uint32_t pid = print_threads_process(&m->print.threads, m->session->processes,
					     m->session->options.machine, tid, named);

	if (!pid)
		return 0;
	m->print.lines++;
	if (r == MARK_TEXT_DAMAGED) {
		m->damaged++;
		return 0;
	}
	mark.time_ns = time;
	mark.pid = (int32_t)pid;
	mark.tid = (int32_t)tid;
	m->latest = max_u64(m->latest, time);
	return add_mark(m, &mark);
}

static int turn_print(struct session_marks *m, uint64_t now)
{
	const struct ftrace_print_sink sink = {.line = take_line, .arg = m};
	int r;

	if (!m->session->options.ftrace_print)
		return 0;
	if (now >= m->print.forget_at) {
		m->print.forget_at = now + STRANGERS_MS * NSEC_PER_MSEC;
		print_threads_again(&m->print.threads);
	}
	r = ftrace_print_turn(m->session->options.ftrace_print, &sink);
	if (r >= 0)
		r = take_exits(m);
	return r < 0 ? trace(r) : 0;
}

/* ---- static probes ---- */

/* A sample of a static probe (perf_spec.usdt) is a mark too. */
static int mark_sample(struct session *s, const struct outcome *o)
{
	const struct perf_spec *spec = &s->options.specs[0];
	const struct writer_track track = {.pid = o->info.pid, .tid = o->info.tid};

	if (!spec->usdt[0])
		return 0;
	return trace(writer_track_event(s->writer, &track,
					&(struct writer_track_event){.type = WRITER_INSTANT,
								     .time = o->info.time,
								     .category = "mark",
								     .name = spec->usdt}));
}

/* ---- the session ---- */

/* Marks and names that have come. */
static int turn(struct session_marks *m)
{
	const struct mark_rings_sink sink = {.mark = take_mark, .ended = program_ended, .arg = m};
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	int r = mark_rings_turn(m->session->options.mark_rings, &sink);

	/* Incarnations are forgotten when they end. */
	table_for_each (&m->programs, slot)
		find_process(m, (struct program *)(uintptr_t)slot->value);
	if (r >= 0)
		r = turn_print(m, now);
	if (r >= 0 && now >= m->look_at) {
		m->look_at = now + LOOK_MS * NSEC_PER_MSEC;
		r = write_slices(m, false);
	}
	return r < 0 ? trace(r) : 0;
}

static int tick(struct session *s, uint64_t now)
{
	(void)now;
	return s->marks && s->state == SESSION_RUNNING ? trace(turn(s->marks)) : 0;
}

static int make(struct session *s)
{
	struct session_marks *m;
	int r;

	if (!s->options.mark_rings)
		return 0;
	m = calloc(1, sizeof(*m));
	if (!m)
		return fail(-ENOMEM);
	m->session = s;
	print_threads_init(&m->print.threads, "");
	m->first = clock_ns(s->options.clock);
	m->first -= min_u64(m->first, EARLIER_S * NSEC_PER_SEC);
	s->marks = m;
	s->options.read_ms = MARK_RINGS_TURN_MS;
	r = mark_tracks_new(s->writer, &m->tracks);
	return r < 0 ? trace(r) : 0;
}

void session_marks_free(struct session *s)
{
	struct session_marks *m = s->marks;

	if (!m)
		return;
	for (size_t i = 0; i < m->n_slices; i++) {
		m->slices[i].program->refs--;
		release(m->slices[i].program);
	}
	table_for_each (&m->programs, slot)
		free_program((struct program *)(uintptr_t)slot->value);
	table_deinit(&m->programs);
	free(m->slices);
	print_threads_deinit(&m->print.threads);
	free(m->print.exits);
	(void)mark_tracks_free(m->tracks);
	free(m);
	s->marks = NULL;
}

/* The targets make no more marks: takes the last. */
static int stop(struct session *s)
{
	struct session_marks *m = s->marks;
	int r;

	if (!m || m->finished)
		return 0;
	mark_rings_switch(s->options.mark_rings, 0);
	r = turn(m);
	mark_rings_lose(s->options.mark_rings);
	m->finished = true;
	while (r >= 0 && m->programs.n_used) {
		uint32_t pid = 0;

		table_for_each (&m->programs, slot)
			pid = (uint32_t)slot->key;
		r = program_ended(m, pid);
	}
	return r < 0 ? trace(r) : 0;
}

static void note_tracks(struct session *s, const struct mark_counts *c)
{
	if (c->end_alone)
		session_note(s, "%lu marks end a section that has not begun and are left out",
			     c->end_alone);
	if (c->begin_alone)
		session_note(s,
			     "%lu sections have no end: they end with their thread, program or the "
			     "recording",
			     c->begin_alone);
	if (c->too_many)
		session_note(s, "%lu marks are left out: too many sections are open at a time",
			     c->too_many);
}

static void note_losses(struct session *s)
{
	const struct session_marks *m = s->marks;
	struct mark_rings_counts c;

	mark_rings_counts(s->options.mark_rings, &c);
	if (s->options.ftrace_print && ftrace_print_lost(s->options.ftrace_print))
		session_note(s,
			     "%lu lines of trace_marker are lost: the tracer's buffers were full",
			     ftrace_print_lost(s->options.ftrace_print));
	if (!c.processes && !m->print.lines)
		session_note(s, "no program had marks (hint: docs/marks.md)");
	if (c.marks.lost)
		session_note(s, "%lu marks are lost: they were made faster than they are read",
			     c.marks.lost);
	if (c.marks.damaged || m->damaged)
		session_note(s, "%lu marks are damaged and left out", c.marks.damaged + m->damaged);
	if (mark_tracks_counts(m->tracks)->other_pid)
		session_note(
			s,
			"%lu marks name another process; they are shown in the one that wrote them",
			mark_tracks_counts(m->tracks)->other_pid);
	note_tracks(s, mark_tracks_counts(m->tracks));
	if (c.forged)
		session_note(s, "%lu marks name a thread of another process and are left out",
			     c.forged);
	if (c.not_found)
		session_note(s,
			     "%lu marks of programs in a pid namespace are left out: their threads "
			     "had ended, or are of another process",
			     c.not_found);
	if (c.rejected)
		session_note(s, "%lu messages at the socket of the marks were rejected",
			     c.rejected);
	if (c.refused)
		session_note(s, "the marks of %lu processes are missing: too many at once",
			     c.refused);
	if (m->dropped)
		session_note(s,
			     "%lu functions are missing: their stacks are too deep, or too many "
			     "are open",
			     m->dropped);
}

/* Writes what has waited for symbols, and notes the losses. */
static int finish(struct session *s)
{
	struct session_marks *m = s->marks;
	int r;

	if (!m)
		return 0;
	r = write_slices(m, true);
	if (r >= 0)
		r = mark_tracks_finish(m->tracks, clock_ns(s->options.clock));
	note_losses(s);
	return r < 0 ? trace(r) : 0;
}

const struct session_part session_marks = {
	.make = make, .outcome = mark_sample, .tick = tick, .stop = stop, .finish = finish};
