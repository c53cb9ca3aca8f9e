/* report-marks.c - see report-marks.h.
 *
 * A sample belongs to the sections that are open at its time on the tracks of its thread and of its process; to each name once. */
#include "profile/report-marks.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "profile/profile-text.h"

enum { STACKS = 3, SLOWEST = 10, TRACKS_MAX = 1024, STACK_TEXT = 4096 };

struct mark_row {
	uint32_t name;
	uint32_t slowest;  /* section */
	uint32_t first, n; /* in order[] */
	uint32_t last;	   /* sample + 1 that was added last */
	uint64_t p50, p99, max, weight, self_weight, count;
};
struct stack_weight {
	uint32_t thread, stack;
	uint64_t weight, count;
	char *text; /* "main;work;inner", outermost first; owned */
};
struct marks_report {
	struct fold *fold;
	const struct profile *p;
	const struct report_options *options;
	struct buffer out;
	uint32_t *order;  /* sections by name and duration */
	uint32_t *tracks; /* with sections, by pid and tid */
	size_t n_tracks;
	struct mark_row *rows;
	uint32_t *row_of; /* by name: number + 1 */
	size_t n_rows;
	uint32_t *calls; /* of a stack */
};

static void deinit(struct marks_report *m)
{
	free(m->order);
	free(m->tracks);
	free(m->rows);
	free(m->row_of);
	free(m->calls);
	buffer_deinit(&m->out);
}

static uint64_t duration(const struct profile *p, uint32_t section)
{
	return p->sections[section].end - p->sections[section].begin;
}

static int compare_sections(const void *a, const void *b, void *profile)
{
	const struct profile *p = profile;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	uint64_t dx = duration(p, x), dy = duration(p, y);

	return ascend(p->sections[x].name, p->sections[y].name) ?: ascend(dx, dy) ?: ascend(x, y);
}

static int compare_tracks(const void *a, const void *b, void *profile)
{
	const struct profile *p = profile;
	const struct profile_track *x = &p->tracks[*(const uint32_t *)a],
				   *y = &p->tracks[*(const uint32_t *)b];

	return x->pid != y->pid ? ascend(x->pid, y->pid) : ascend(x->tid, y->tid);
}

/* By p99, then the longest. */
static int compare_mark_rows(const void *a, const void *b)
{
	const struct mark_row *x = a, *y = b;

	return ascend(y->p99, x->p99) ?: ascend(y->max, x->max) ?: ascend(x->name, y->name);
}

/* The value that @percent of the row's sections do not pass. */
static uint64_t percentile(const struct marks_report *m, const struct mark_row *row,
			   uint32_t percent)
{
	uint64_t index = ((uint64_t)row->n * percent + 99) / 100;

	return duration(m->p, m->order[row->first + (index ? index - 1 : 0)]);
}

static int make_rows(struct marks_report *m)
{
	const struct profile *p = m->p;

	m->order = malloc((p->n_sections + 1) * sizeof(*m->order));
	m->rows = calloc(p->n_sections + 1, sizeof(*m->rows));
	m->row_of = calloc((size_t)p->strings.n_entries + 1, sizeof(*m->row_of));
	m->tracks = malloc((p->n_tracks + 1) * sizeof(*m->tracks));
	m->calls = calloc(m->fold->max_depth + 1, sizeof(*m->calls));
	if (!m->order || !m->rows || !m->row_of || !m->tracks || !m->calls)
		return fail(-ENOMEM);
	for (uint32_t i = 0; i < p->n_sections; i++)
		m->order[i] = i;
	if (p->n_sections)
		qsort_r(m->order, p->n_sections, sizeof(*m->order), compare_sections, (void *)p);
	for (uint32_t i = 0; i < p->n_sections; i++) {
		uint32_t name = p->sections[m->order[i]].name;

		if (!m->n_rows || m->rows[m->n_rows - 1].name != name)
			m->rows[m->n_rows++] = (struct mark_row){.name = name, .first = i};
		m->rows[m->n_rows - 1].n++;
		m->rows[m->n_rows - 1].slowest = m->order[i];
	}
	for (size_t i = 0; i < m->n_rows; i++) {
		m->rows[i].p50 = percentile(m, &m->rows[i], 50);
		m->rows[i].p99 = percentile(m, &m->rows[i], 99);
		m->rows[i].max = duration(p, m->rows[i].slowest);
	}
	if (m->n_rows)
		qsort(m->rows, m->n_rows, sizeof(*m->rows), compare_mark_rows);
	for (uint32_t i = 0; i < m->n_rows; i++)
		m->row_of[m->rows[i].name] = i + 1;
	for (uint32_t i = 0; i < p->n_tracks; i++)
		if (p->tracks[i].n_sections)
			m->tracks[m->n_tracks++] = i;
	if (m->n_tracks)
		qsort_r(m->tracks, m->n_tracks, sizeof(*m->tracks), compare_tracks, (void *)p);
	return 0;
}

/* ---- samples ---- */

static void add_on_track(struct marks_report *m, uint32_t track, uint32_t sample)
{
	const struct profile_sample *s = &m->p->samples[sample];
	const struct profile_section *at = profile_section_at(m->p, track, s->time);

	for (bool self = true; at; self = false) {
		struct mark_row *row = &m->rows[m->row_of[at->name] - 1];

		if (row->last != sample + 1) {
			row->last = sample + 1;
			row->weight += s->weight;
			row->count++;
			row->self_weight += self ? s->weight : 0;
		}
		at = at->up != UINT32_MAX ? &m->p->sections[at->up] : NULL;
	}
}

/* The tracks of @pid and @tid. */
static void add_on_tracks(struct marks_report *m, uint32_t pid, uint32_t tid, uint32_t sample)
{
	const struct profile_track *all = m->p->tracks;
	const uint32_t *order = m->tracks;
	size_t low = bisect(i, m->n_tracks,
			    (ascend(all[order[i]].pid, pid) ?: ascend(all[order[i]].tid, tid)) < 0);

	for (size_t high = low + TRACKS_MAX; low < m->n_tracks && low < high; low++) {
		const struct profile_track *t = &m->p->tracks[m->tracks[low]];

		if (t->pid != pid || t->tid != tid)
			break;
		add_on_track(m, m->tracks[low], sample);
	}
}

static bool is_wanted(const struct marks_report *m, const struct profile_sample *s)
{
	return !s->skipped_reason && profile_sample_wanted(m->p, s, &m->options->only);
}

static void add_samples(struct marks_report *m)
{
	const struct profile *p = m->p;

	for (uint32_t i = 0; i < p->n_samples; i++) {
		const struct profile_sample *s = &p->samples[i];
		uint32_t pid = profile_sample_pid(p, s);

		if (!is_wanted(m, s))
			continue;
		add_on_tracks(m, pid, profile_sample_tid(p, s), i);
		add_on_tracks(m, pid, 0, i);
	}
}

/* ---- the slowest section of a row ---- */

/* Distinct stacks of addresses, the heaviest; their names are compared. */
enum { NAMED_STACKS = 256 };

static int by_weight(const void *a, const void *b)
{
	const struct stack_weight *x = a, *y = b;

	return ascend(y->weight, x->weight) ?: ascend(x->stack, y->stack);
}

static int by_stack(const void *a, const void *b)
{
	return ascend(((const struct stack_weight *)a)->stack,
		      ((const struct stack_weight *)b)->stack);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(((const struct stack_weight *)a)->text,
		      ((const struct stack_weight *)b)->text);
}

/* Equal ones become one; heaviest first.  Returns how many are left. */
static size_t merge_stacks(struct stack_weight *list, size_t n,
			   int (*compare)(const void *, const void *))
{
	size_t kept = 0;

	if (n)
		qsort(list, n, sizeof(*list), compare);
	for (size_t i = 0; i < n; i++) {
		if (kept && !compare(&list[kept - 1], &list[i])) {
			list[kept - 1].weight += list[i].weight;
			list[kept - 1].count += list[i].count;
			free(list[i].text);
		} else {
			list[kept++] = list[i];
		}
	}
	if (kept)
		qsort(list, kept, sizeof(*list), by_weight);
	return kept;
}

static char *stack_text(struct marks_report *m, const struct stack_weight *s)
{
	const struct fold_group group = {
		.thread = s->thread, .stack = s->stack, .marker = UINT32_MAX};
	struct buffer to = {0};
	size_t n = s->stack < m->p->n_nodes && !fold_is_error(m->fold, s->stack)
			   ? fold_stack(m->fold, &group, m->calls)
			   : 0;

	if (!n)
		buffer_append(&to, "[no stack]", 10);
	for (size_t i = 0; i < n && to.len < STACK_TEXT; i++) {
		const char *name = fold_symbol_name(m->fold, fold_call_symbol(m->calls[i]));

		if (i)
			buffer_append(&to, ";", 1);
		buffer_append(&to, name, strlen(name));
	}
	buffer_append(&to, "", 1);
	if (to.bad)
		buffer_deinit(&to);
	return (char *)to.data;
}

static void free_stacks(struct stack_weight *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(list[i].text);
	free(list);
}

/* All samples inside @section, one by one.  New memory. */
static int section_samples(const struct marks_report *m, const struct profile_section *section,
			   struct stack_weight **ret_list, size_t *ret_n)
{
	const struct profile *p = m->p;
	const struct profile_track *track = &p->tracks[section->track];
	size_t low = bisect(i, p->n_samples, p->samples[i].time < section->begin), n = 0, end;
	struct stack_weight *list;

	for (end = low; end < p->n_samples && p->samples[end].time < section->end; end++)
		;
	list = malloc((end - low + 1) * sizeof(*list));
	if (!list)
		return fail(-ENOMEM);
	for (; low < end; low++) {
		const struct profile_sample *s = &p->samples[low];

		if (profile_sample_pid(p, s) == track->pid &&
		    (!track->tid || profile_sample_tid(p, s) == track->tid) && is_wanted(m, s))
			list[n++] = (struct stack_weight){s->thread, s->stack, s->weight, 1, NULL};
	}
	*ret_n = n;
	*ret_list = list;
	return 0;
}

/* Their stacks by the names of functions, heaviest first; *ret_all: the weight of all samples.  For free_stacks(). */
static int section_stacks(struct marks_report *m, const struct profile_section *section,
			  struct stack_weight **ret_list, size_t *ret_n, uint64_t *ret_all)
{
	struct stack_weight *list = NULL;
	size_t n = 0, named;
	uint64_t all = 0;
	int r = section_samples(m, section, &list, &n);

	if (r < 0)
		return trace(r);
	for (size_t i = 0; i < n; i++)
		all += list[i].weight;
	n = min_u64(merge_stacks(list, n, by_stack), NAMED_STACKS);
	for (named = 0; named < n; named++) {
		list[named].text = stack_text(m, &list[named]);
		if (!list[named].text) {
			free_stacks(list, named);
			return fail(-ENOMEM);
		}
	}
	*ret_n = merge_stacks(list, n, by_text);
	*ret_list = list;
	*ret_all = all;
	return 0;
}

static const char *name_of(const struct marks_report *m, uint32_t name)
{
	return name ? string_table_text(&m->p->strings, name) : "[unnamed]";
}

static double begin_s(const struct marks_report *m, const struct profile_section *s)
{
	uint64_t first = m->p->n_marks ? m->p->marks[0].time : 0;

	if (m->p->n_samples)
		first = m->p->samples[0].time;
	return ((double)s->begin - (double)first) / 1e9;
}

/* ---- text ---- */

static size_t columns_after(const struct marks_report *m, int used)
{
	int width = m->options->width;

	return width <= 0 ? 0 : width - used < 24 ? 24 : (size_t)(width - used);
}

static void print_row(struct marks_report *m, const struct mark_row *row)
{
	char a[32], b[32], c[32], d[32], e[32];

	buffer_printf(&m->out, "%9s %9s %9s %9s %9s %7.2f  ", text_weight(row->p50, "ns", a),
		      text_weight(row->p99, "ns", b), text_weight(row->max, "ns", c),
		      text_count(row->n, d), text_weight(row->weight, m->p->weight_unit, e),
		      text_percent(row->weight, m->fold->weight));
	(void)text_fit_clean(&m->out, name_of(m, row->name), columns_after(m, 59));
	buffer_append(&m->out, "\n", 1);
}

static int print_slowest(struct marks_report *m, const struct mark_row *row)
{
	const struct profile_section *s = &m->p->sections[row->slowest];
	const struct profile_track *track = &m->p->tracks[s->track];
	struct stack_weight *list;
	char number[32];
	uint64_t all;
	size_t n;
	int r = section_stacks(m, s, &list, &n, &all);

	if (r < 0)
		return trace(r);
	buffer_printf(&m->out, "\n%s at %.6f s, %s %u: ", text_weight(row->max, "ns", number),
		      begin_s(m, s), track->tid ? "thread" : "process",
		      track->tid ? track->tid : track->pid);
	(void)text_fit_clean(&m->out, name_of(m, row->name), columns_after(m, 40));
	buffer_append(&m->out, "\n", 1);
	if (!n)
		buffer_printf(&m->out, "  no sample in it\n");
	for (size_t i = 0; i < n && i < STACKS; i++) {
		buffer_printf(&m->out, "%9s %7.2f  ",
			      text_weight(list[i].weight, m->p->weight_unit, number),
			      text_percent(list[i].weight, all));
		(void)text_fit_clean(&m->out, list[i].text, columns_after(m, 19));
		buffer_append(&m->out, "\n", 1);
	}
	free_stacks(list, n);
	return 0;
}

static int write_text(struct marks_report *m, size_t n)
{
	bool time = !strcmp(m->p->weight_unit, "ns");
	char number[32];
	int r = 0;

	if (!m->n_rows) {
		buffer_printf(&m->out,
			      "no marks with a beginning and an end (hint: `perfwind record "
			      "--marks`, docs/marks.md)\n");
		return 0;
	}
	buffer_printf(&m->out, "%9s %9s %9s %9s %9s %7s  mark\n", "p50", "p99", "longest",
		      "sections", time ? "CPU time" : m->p->weight_unit, "%");
	for (size_t i = 0; i < n; i++)
		print_row(m, &m->rows[i]);
	if (n < m->n_rows)
		buffer_printf(&m->out, "... and %s more (--limit 0 shows all)\n",
			      text_count(m->n_rows - n, number));
	for (size_t i = 0; i < n && i < SLOWEST && r >= 0; i++)
		r = print_slowest(m, &m->rows[i]);
	return r < 0 ? trace(r) : 0;
}

/* ---- JSON and CSV ---- */

/* The fields of a row behind its name, after their names or (CSV) without. */
static void put_figures(struct marks_report *m, const struct mark_row *row, bool json)
{
	const struct {
		const char *name;
		uint64_t value;
	} figures[] = {
		{"sections", row->n},	  {"p50_ns", row->p50},		 {"p99_ns", row->p99},
		{"longest_ns", row->max}, {"self", row->self_weight},	 {"total", row->weight},
		{"total_percent", 0},	  {"total_samples", row->count},
	};

	for (size_t i = 0; i < ARRAY_SIZE(figures); i++) {
		buffer_append(&m->out, ",", 1);
		if (json)
			buffer_printf(&m->out, " \"%s\": ", figures[i].name);
		if (!strcmp(figures[i].name, "total_percent"))
			buffer_printf(&m->out, "%.3f", text_percent(row->weight, m->fold->weight));
		else
			buffer_printf(&m->out, "%" PRIu64, figures[i].value);
	}
}

static int json_slowest(struct marks_report *m, const struct mark_row *row)
{
	const struct profile_section *s = &m->p->sections[row->slowest];
	struct stack_weight *list;
	uint64_t all;
	size_t n;
	int r = section_stacks(m, s, &list, &n, &all);

	if (r < 0)
		return trace(r);
	buffer_printf(&m->out,
		      ", \"slowest\": {\"begin_s\": %.6f, \"duration_ns\": %" PRIu64
		      ", \"pid\": %u, \"tid\": %u, \"stacks\": [",
		      begin_s(m, s), row->max, m->p->tracks[s->track].pid,
		      m->p->tracks[s->track].tid);
	for (size_t i = 0; i < n && i < STACKS; i++) {
		buffer_printf(&m->out, "%s{\"weight\": %" PRIu64 ", \"samples\": %" PRIu64 ", ",
			      i ? ", " : "", list[i].weight, list[i].count);
		text_json_append(&m->out, "\"stack\": ", list[i].text);
		buffer_append(&m->out, "}", 1);
	}
	free_stacks(list, n);
	buffer_printf(&m->out, "]}");
	return 0;
}

static int json_row(struct marks_report *m, const struct mark_row *row, bool first)
{
	int r;

	text_json_append(&m->out,
			 first ? "\n{\"mark\": " : ",\n{\"mark\": ", name_of(m, row->name));
	put_figures(m, row, true);
	r = json_slowest(m, row);
	buffer_append(&m->out, "}", 1);
	return r < 0 ? trace(r) : 0;
}

static int write_json(struct marks_report *m, size_t n)
{
	int r = 0;

	text_json_append(&m->out, "{\"event\": ", m->p->event_name);
	text_json_append(&m->out, ", \"unit\": ", m->p->weight_unit);
	buffer_printf(&m->out, ", \"samples\": %" PRIu64 ", \"weight\": %" PRIu64 ", \"rows\": [",
		      m->fold->count, m->fold->weight);
	for (size_t i = 0; i < n && r >= 0; i++)
		r = json_row(m, &m->rows[i], !i);
	buffer_printf(&m->out, "\n]}\n");
	return r < 0 ? trace(r) : 0;
}

static int write_csv(struct marks_report *m, size_t n)
{
	buffer_printf(&m->out, "mark,sections,p50_ns,p99_ns,longest_ns,self,total,total_percent,"
			       "total_samples\r\n");
	for (size_t i = 0; i < n; i++) {
		text_csv(&m->out, name_of(m, m->rows[i].name));
		put_figures(m, &m->rows[i], false);
		buffer_append(&m->out, "\r\n", 2);
	}
	return 0;
}

int report_marks(struct fold *fold, const struct report_options *options, FILE *out)
{
	_cleanup_(deinit) struct marks_report m = {
		.fold = fold, .p = fold->profile, .options = options};
	size_t n;
	int r = make_rows(&m);

	if (r < 0)
		return trace(r);
	add_samples(&m);
	n = options->limit ? min_u64(m.n_rows, options->limit) : m.n_rows;
	r = options->form == REPORT_JSON  ? write_json(&m, n)
	    : options->form == REPORT_CSV ? write_csv(&m, n)
					  : write_text(&m, n);
	if (r >= 0 && m.out.bad)
		r = fail(-ENOMEM);
	if (r >= 0 && m.out.len)
		(void)fwrite(m.out.data, 1, m.out.len, out);
	return r < 0 ? trace(r) : 0;
}
