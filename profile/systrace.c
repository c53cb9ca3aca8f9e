/* systrace.c - `export --to systrace`: marks and waits as the text of the kernel's tracer (Documentation/trace/ftrace.rst), which
 * systrace and trace_processor read.
 *
 *	comm-tid     ( tgid) [cpu] ...1 secs.usecs: tracing_mark_write: B|pid|name
 *
 * A mark in a trace has no CPU: it is that of the thread's last sample.  Switches are those of a recording of waits (--off-cpu,
 * --wall): a thread runs from the end of a wait to the beginning of its next one; the thread that runs in between on a CPU is
 * known only if it was recorded, so CPUs are idle otherwise. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "profile/profile-export.h"
#include "profile/profile-text.h"
#include "protos/wait-module.h"

enum { FLUSH = 1 << 20, CPUS = UINT16_MAX + 1, DEEPEST = 256 };

enum line_kind { LINE_MARK, LINE_SWITCH_IN, LINE_SWITCH_OUT };
struct line {
	uint64_t time;
	uint32_t index; /* in marks, or in samples */
	uint8_t kind;
};
struct systrace {
	const struct profile *p;
	const struct profile_filter *only;
	struct line *lines;
	size_t n_lines;
	struct table thread_by_tid; /* index in threads: its last name */
	struct table cpu_of;	    /* tid -> CPU of its last sample */
	uint32_t *running;	    /* by CPU: tid, 0: idle */
	uint32_t *depth;	    /* by track: open slices */
	bool *own;		    /* by track: the open slice has a name of its own (G, H) */
	size_t next_sample;
	struct buffer out;
	FILE *file;
};

static void deinit(struct systrace *s)
{
	free(s->lines);
	table_deinit(&s->thread_by_tid);
	table_deinit(&s->cpu_of);
	free(s->running);
	free(s->depth);
	free(s->own);
	buffer_deinit(&s->out);
}

/* ---- which lines ---- */

/* The name of the innermost frame of a wait's stack, "[sleep]", into @to; NULL: the thread ran. */
static const char *reason_of(const struct profile *p, const struct profile_sample *s, char to[32])
{
	const struct profile_frame *f;
	const char *name;

	if (s->stack >= p->n_nodes)
		return NULL;
	f = &p->frames[p->nodes[s->stack].frame];
	if (f->module == UINT32_MAX || !p->modules[f->module].path ||
	    !strstr(string_table_text(&p->strings, p->modules[f->module].path), WAIT_MODULE))
		return NULL;
	name = profile_line_name(p, f, 0, to, 32);
	return strcmp(name, WAIT_RUNNING_FRAME) != 0 ? name : NULL;
}

/* As sched_switch has it. */
static char state_of(const char *reason)
{
	if (!reason || !strcmp(reason, "[preempted]") || !strcmp(reason, "[runnable]"))
		return 'R';
	return !strcmp(reason, "[disk]") ? 'D' : 'S';
}

static bool is_wanted(const struct systrace *s, const struct profile_sample *sample)
{
	return !sample->skipped_reason &&
	       (!s->only || profile_sample_wanted(s->p, sample, s->only));
}

/* Of the filters only those of processes and time choose marks. */
static bool is_wanted_mark(const struct systrace *s, const struct profile_mark *m)
{
	const struct profile_track *t = &s->p->tracks[m->track];
	uint64_t first = s->p->n_samples ? s->p->samples[0].time : 0, at = m->time - first;

	if (!s->only)
		return true;
	if (s->only->pid && t->pid != s->only->pid)
		return false;
	return !s->only->by_time || (m->time >= first && at >= s->only->from && at < s->only->to);
}

static int compare_lines(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	return ascend(x->time, y->time) ?:
	       ascend(y->kind, x->kind) ?: /* out, in, marks */
	       ascend(x->index, y->index);
}

static bool is_switch(const struct systrace *s, const struct profile_sample *sample)
{
	char name[32];

	return !strcmp(s->p->weight_unit, "ns") && sample->weight <= sample->time &&
	       is_wanted(s, sample) && reason_of(s->p, sample, name);
}

static int gather(struct systrace *s)
{
	const struct profile *p = s->p;
	size_t n = p->n_marks + 1;

	for (uint32_t i = 0; i < p->n_samples; i++)
		n += is_switch(s, &p->samples[i]) ? 2 : 0;
	s->lines = reallocarray(NULL, n, sizeof(*s->lines));
	if (!s->lines)
		return fail(-ENOMEM);
	for (uint32_t i = 0; i < p->n_marks; i++)
		if (is_wanted_mark(s, &p->marks[i]))
			s->lines[s->n_lines++] = (struct line){p->marks[i].time, i, LINE_MARK};
	for (uint32_t i = 0; i < p->n_samples; i++) {
		const struct profile_sample *sample = &p->samples[i];

		if (!is_switch(s, sample))
			continue;
		s->lines[s->n_lines++] =
			(struct line){sample->time - sample->weight, i, LINE_SWITCH_OUT};
		s->lines[s->n_lines++] = (struct line){sample->time, i, LINE_SWITCH_IN};
	}
	if (s->n_lines)
		qsort(s->lines, s->n_lines, sizeof(*s->lines), compare_lines);
	return 0;
}

static int prepare(struct systrace *s)
{
	const struct profile *p = s->p;
	int r = 0;

	for (size_t i = 0; i < p->n_threads && r >= 0; i++)
		r = table_put(&s->thread_by_tid, p->threads[i].tid, i);
	s->running = calloc(CPUS, sizeof(*s->running));
	s->depth = calloc(p->n_tracks + 1, sizeof(*s->depth));
	s->own = calloc((p->n_tracks + 1) * DEEPEST, sizeof(*s->own));
	if (r < 0 || !s->running || !s->depth || !s->own)
		return fail(-ENOMEM);
	return trace(gather(s));
}

/* ---- lines ---- */

static const char *comm_of(const struct systrace *s, uint32_t tid)
{
	uint64_t index;

	if (!tid)
		return "<idle>";
	return table_get(&s->thread_by_tid, tid, &index)
		       ? profile_thread_name(s->p, (uint32_t)index)
		       : "<...>";
}

static uint32_t pid_of(const struct systrace *s, uint32_t tid)
{
	uint64_t index;

	return table_get(&s->thread_by_tid, tid, &index)
		       ? s->p->processes[s->p->threads[index].process].pid
		       : tid;
}

/* One line's field: in a name that is not the last of its mark '|' would end it. */
static void put_name(struct systrace *s, uint32_t name, bool last)
{
	size_t from = s->out.len;

	if (name)
		text_clean(&s->out, string_table_text(&s->p->strings, name));
	else
		buffer_append(&s->out, "[unnamed]", 9);
	for (size_t i = from; i < s->out.len && !last; i++)
		if (s->out.data[i] == '|')
			s->out.data[i] = '/';
}

static void put_head(struct systrace *s, uint32_t tid, uint32_t pid, uint32_t cpu, uint64_t time)
{
	_cleanup_(buffer_deinit) struct buffer comm = {0};
	uint64_t us = time / 1000;

	text_clean(&comm, comm_of(s, tid));
	buffer_append(&comm, "", 1);
	buffer_printf(&s->out, "%16s-%-7u (%7u) [%03u] ...1 %5" PRIu64 ".%06" PRIu64 ": ",
		      comm.bad ? "?" : (const char *)comm.data, tid, pid, cpu, us / 1000000,
		      us % 1000000);
	s->out.bad |= comm.bad;
}

/* Samples up to @time show where threads are. */
static int follow_samples(struct systrace *s, uint64_t time)
{
	const struct profile *p = s->p;
	int r = 0;

	for (; s->next_sample < p->n_samples && p->samples[s->next_sample].time <= time && r >= 0;
	     s->next_sample++) {
		const struct profile_sample *sample = &p->samples[s->next_sample];

		r = table_put(&s->cpu_of, profile_sample_tid(p, sample), sample->cpu);
	}
	return r < 0 ? trace(r) : 0;
}

/* The slice that begins or ends is number *@depth of its track. */
static void put_named_slice(struct systrace *s, const struct profile_mark *m)
{
	const struct profile_track *t = &s->p->tracks[m->track];
	uint32_t *depth = &s->depth[m->track];
	bool begins = m->type == PROFILE_MARK_BEGIN, *own;

	if (!begins && !*depth)
		return;
	*depth -= !begins;
	own = &s->own[(size_t)m->track * DEEPEST + min_u64(*depth, DEEPEST - 1)];
	if (begins)
		*own = m->name != t->name;
	buffer_printf(&s->out, "%c|%u|", begins ? (*own ? 'G' : 'S') : (*own ? 'H' : 'F'), t->pid);
	put_name(s, t->name, false);
	if (begins && *own) {
		buffer_append(&s->out, "|", 1);
		put_name(s, m->name, false);
	}
	buffer_printf(&s->out, "|%" PRIu64, (uint64_t)m->track * DEEPEST + *depth);
	*depth += begins;
}

static void put_mark_text(struct systrace *s, const struct profile_mark *m)
{
	const struct profile_track *t = &s->p->tracks[m->track];

	if (m->type == PROFILE_MARK_COUNTER) {
		buffer_printf(&s->out, "C|%u|", t->pid);
		put_name(s, t->name ? t->name : m->name, false);
		buffer_printf(&s->out, "|%" PRId64, m->value);
	} else if (m->type == PROFILE_MARK_INSTANT) {
		buffer_printf(&s->out, "%c|%u|", t->name ? 'N' : 'I', t->pid);
		if (t->name) {
			put_name(s, t->name, false);
			buffer_append(&s->out, "|", 1);
		}
		put_name(s, m->name, true);
	} else if (t->name) {
		put_named_slice(s, m);
	} else if (m->type == PROFILE_MARK_BEGIN) {
		s->depth[m->track]++;
		buffer_printf(&s->out, "B|%u|", t->pid);
		put_name(s, m->name, true);
	} else {
		s->depth[m->track]--;
		buffer_printf(&s->out, "E|%u", t->pid);
	}
}

static int put_mark(struct systrace *s, const struct profile_mark *m)
{
	const struct profile_track *t = &s->p->tracks[m->track];
	uint32_t tid = t->tid ? t->tid : t->pid;
	uint64_t cpu = 0;
	int r;

	if (m->type == PROFILE_MARK_END && !s->depth[m->track])
		return 0; /* of nothing */
	r = follow_samples(s, m->time);
	if (r < 0)
		return trace(r);
	(void)table_get(&s->cpu_of, tid, &cpu);
	put_head(s, tid, t->pid, (uint32_t)cpu, m->time);
	buffer_printf(&s->out, "tracing_mark_write: ");
	put_mark_text(s, m);
	buffer_append(&s->out, "\n", 1);
	return 0;
}

/* @next takes the CPU from what runs on it. */
static void put_switch(struct systrace *s, uint32_t cpu, uint64_t time, char state, uint32_t next)
{
	uint32_t prev = s->running[cpu];

	if (prev == next)
		return;
	put_head(s, prev, prev ? pid_of(s, prev) : 0, cpu, time);
	buffer_printf(&s->out, "sched_switch: prev_comm=");
	text_clean(&s->out, prev ? comm_of(s, prev) : "swapper");
	buffer_printf(&s->out, " prev_pid=%u prev_prio=120 prev_state=%c ==> next_comm=", prev,
		      prev ? state : 'R');
	text_clean(&s->out, next ? comm_of(s, next) : "swapper");
	buffer_printf(&s->out, " next_pid=%u next_prio=120\n", next);
	s->running[cpu] = next;
}

static int put_wait(struct systrace *s, const struct line *line)
{
	const struct profile_sample *sample = &s->p->samples[line->index];
	uint32_t tid = profile_sample_tid(s->p, sample);
	char name[32];
	uint64_t cpu;
	int r;

	if (line->kind == LINE_SWITCH_OUT) {
		/* it leaves the CPU on which its last wait ended */
		if (table_get(&s->cpu_of, (uint64_t)tid << 32, &cpu) && s->running[cpu] == tid)
			put_switch(s, (uint32_t)cpu, line->time,
				   state_of(reason_of(s->p, sample, name)), 0);
		return 0;
	}
	r = table_put(&s->cpu_of, (uint64_t)tid << 32, sample->cpu);
	if (r < 0)
		return trace(r);
	put_switch(s, sample->cpu, line->time, 'R', tid);
	return 0;
}

static int write_lines(struct systrace *s)
{
	int r = 0;

	buffer_printf(&s->out, "# tracer: nop\n#\n");
	for (size_t i = 0; i < s->n_lines && r >= 0; i++) {
		const struct line *line = &s->lines[i];

		r = line->kind == LINE_MARK ? put_mark(s, &s->p->marks[line->index])
					    : put_wait(s, line);
		if (s->out.bad)
			return fail(-ENOMEM);
		if (s->out.len < FLUSH && i + 1 < s->n_lines)
			continue;
		(void)fwrite(s->out.data, 1, s->out.len, s->file);
		s->out.len = 0;
	}
	if (r >= 0 && s->out.bad)
		return fail(-ENOMEM);
	if (s->out.len)
		(void)fwrite(s->out.data, 1, s->out.len, s->file);
	return r < 0 ? trace(r) : text_finish(s->file);
}

int export_systrace(const struct profile *profile, const struct export_options *options, FILE *out)
{
	_cleanup_(deinit) struct systrace s = {
		.p = profile, .only = options ? &options->only : NULL, .file = out};
	int r = prepare(&s);

	if (r >= 0)
		r = write_lines(&s);
	return r < 0 ? trace(r) : 0;
}
