/* stat-print.c - see stat-print.h. */
#include <inttypes.h>
#include <string.h>

#include "cli/stat-print.h"
#include "profile/profile-text.h"

/* PerfEvents.Counter of perf_events.proto: the events that a second figure is made of. */
enum {
	CPU_CLOCK = 1,
	TASK_CLOCK = 3,
	CYCLES = 10,
	INSTRUCTIONS = 11,
	CACHE_REFERENCES = 12,
	CACHE_MISSES = 13,
	BRANCHES = 14,
	BRANCH_MISSES = 15,
};

static const char *const states[] = {
	[COUNTER_NOT_COUNTED] = "not counted",
	[COUNTER_NOT_SUPPORTED] = "not supported",
	[COUNTER_NOT_PERMITTED] = "not permitted",
};

struct metric {
	double value;
	const char *unit; /* NULL: none */
};

static bool is_clock(const struct perf_spec *spec)
{
	return spec->counter == CPU_CLOCK || spec->counter == TASK_CLOCK;
}

/* The count of another event of the row; 0: there is none. */
static double value_of(const struct stat_table *t, const struct stat_row *row, int32_t counter)
{
	for (size_t i = 0; i < t->n_events; i++)
		if (t->specs[i].counter == counter && row->count[i].state == COUNTER_COUNTED)
			return row->count[i].value;
	return 0;
}

/* What a count is compared with. */
static struct metric metric_of(const struct stat_table *t, const struct stat_row *row, size_t event)
{
	static const struct {
		int32_t counter, of;
		double factor;
		const char *unit;
	} ratios[] = {
		{INSTRUCTIONS, CYCLES, 1, "insn per cycle"},
		{CACHE_MISSES, CACHE_REFERENCES, 100, "% of all cache refs"},
		{BRANCH_MISSES, BRANCHES, 100, "% of all branches"},
		{CYCLES, TASK_CLOCK, 1, "GHz"},
		{CYCLES, CPU_CLOCK, 1, "GHz"},
	};
	int32_t counter = t->specs[event].counter;
	double value = row->count[event].value, clock = value_of(t, row, TASK_CLOCK);

	if (row->count[event].state != COUNTER_COUNTED)
		return (struct metric){.unit = NULL};
	if (is_clock(&t->specs[event]))
		return (struct metric){t->elapsed_s > 0 ? value / 1e9 / t->elapsed_s : 0,
				       t->elapsed_s > 0 ? "CPUs utilized" : NULL};
	for (size_t i = 0; i < ARRAY_SIZE(ratios); i++) {
		double of = value_of(t, row, ratios[i].of);

		if (counter == ratios[i].counter && of > 0)
			return (struct metric){ratios[i].factor * value / of, ratios[i].unit};
	}
	clock = clock > 0 ? clock : value_of(t, row, CPU_CLOCK);
	if (clock <= 0)
		return (struct metric){.unit = NULL};
	value = value / clock * 1e9;
	return value >= 1e9   ? (struct metric){value / 1e9, "G/sec"}
	       : value >= 1e6 ? (struct metric){value / 1e6, "M/sec"}
	       : value >= 1e3 ? (struct metric){value / 1e3, "K/sec"}
			      : (struct metric){value, "/sec"};
}

/* With the `u` of a kernel part that was refused. */
static const char *event_name(const struct stat_table *t, size_t event, char to[160])
{
	const char *name = t->specs[event].name;

	(void)snprintf(to, 160, "%s%s", name,
		       !t->kernel_refused[event]		? ""
		       : strchr(name, ':') || strchr(name, '/') ? "u"
								: ":u");
	return to;
}

/* ---- text ---- */

static void print_value(const struct stat_count *count, bool clock, FILE *out)
{
	char number[32];

	if (count->state != COUNTER_COUNTED)
		fprintf(out, " %16s     ", states[count->state]);
	else if (clock)
		fprintf(out, " %16.2f ms  ", count->value / 1e6);
	else
		fprintf(out, " %16s     ", text_count((uint64_t)(count->value + 0.5), number));
}

/* What stands behind the event's name. */
static void print_remarks(const struct stat_table *t, const struct stat_row *row, size_t event,
			  FILE *out)
{
	const struct stat_count *count = &row->count[event];
	struct metric metric = metric_of(t, row, event);

	if (count->state == COUNTER_NOT_SUPPORTED)
		fprintf(out, "  # not supported on this machine");
	if (metric.unit)
		fprintf(out, "  # %9.3f %s", metric.value, metric.unit);
	if (count->error >= 0 && count->state == COUNTER_COUNTED)
		fprintf(out, "  ( +- %.2f%% )", count->error);
	if (count->state == COUNTER_COUNTED && count->running < 0.9995)
		fprintf(out, "  (ran %.1f %% of the time, scaled)", 100 * count->running);
}

static bool has_remarks(const struct stat_table *t, const struct stat_row *row, size_t event)
{
	const struct stat_count *count = &row->count[event];

	return count->state == COUNTER_NOT_SUPPORTED || metric_of(t, row, event).unit ||
	       (count->state == COUNTER_COUNTED && (count->error >= 0 || count->running < 0.9995));
}

/* The widest name, so that remarks stand in one column. */
static int name_columns(const struct stat_table *t)
{
	char name[160];
	size_t widest = 20;

	for (size_t i = 0; i < t->n_events; i++)
		widest = max_u64(widest, strlen(event_name(t, i, name)));
	return (int)min_u64(widest, 40);
}

static void print_head(const struct stat_table *t, FILE *out)
{
	if (t->at_s >= 0) {
		fprintf(out, "#  seconds%s            counts      event\n",
			t->rows[0].label ? "  row             " : "");
		return;
	}
	fprintf(out, "\n Counts of %s", t->subject);
	if (t->runs > 1)
		fprintf(out, " (mean of %" PRIu32 " runs)", t->runs);
	fprintf(out, ":\n\n");
}

static void print_foot(const struct stat_table *t, FILE *out)
{
	fprintf(out, "\n %16.6f s   elapsed", t->elapsed_s);
	if (t->elapsed_error >= 0)
		fprintf(out, "  ( +- %.2f%% )", t->elapsed_error);
	fputc('\n', out);
	if (t->user_s >= 0)
		fprintf(out, " %16.6f s   user\n %16.6f s   system\n", t->user_s, t->system_s);
	fputc('\n', out);
}

void stat_print_text(const struct stat_table *t, bool head, FILE *out)
{
	int columns = name_columns(t);
	char name[160];

	if (head)
		print_head(t, out);
	for (size_t i = 0; i < t->n_rows; i++)
		for (size_t j = 0; j < t->n_events; j++) {
			const struct stat_row *row = &t->rows[i];

			if (t->at_s >= 0)
				fprintf(out, "%10.3f", t->at_s);
			if (row->label)
				fprintf(out, "  %-16s", row->label);
			print_value(&row->count[j], is_clock(&t->specs[j]), out);
			fprintf(out, " %-*s", has_remarks(t, row, j) ? columns : 0,
				event_name(t, j, name));
			print_remarks(t, row, j, out);
			fputc('\n', out);
		}
	if (t->at_s < 0)
		print_foot(t, out);
}

/* ---- CSV ---- */

static void csv_value(const struct stat_count *count, bool clock, FILE *out)
{
	if (count->state == COUNTER_NOT_COUNTED || count->state == COUNTER_NOT_PERMITTED)
		fprintf(out, "<not counted>");
	else if (count->state == COUNTER_NOT_SUPPORTED)
		fprintf(out, "<not supported>");
	else if (clock)
		fprintf(out, "%.2f", count->value / 1e6);
	else
		fprintf(out, "%.0f", count->value);
}

void stat_print_csv(const struct stat_table *t, FILE *out)
{
	const char *s = t->separator;
	char name[160];

	for (size_t i = 0; i < t->n_rows; i++)
		for (size_t j = 0; j < t->n_events; j++) {
			const struct stat_count *count = &t->rows[i].count[j];
			struct metric metric = metric_of(t, &t->rows[i], j);

			if (t->at_s >= 0)
				fprintf(out, "%.9f%s", t->at_s, s);
			if (t->rows[i].label)
				fprintf(out, "%s%s", t->rows[i].label, s);
			csv_value(count, is_clock(&t->specs[j]), out);
			fprintf(out, "%s%s%s%s%s", s, is_clock(&t->specs[j]) ? "msec" : "", s,
				event_name(t, j, name), s);
			if (t->runs > 1)
				fprintf(out, "%.2f%%%s", count->error > 0 ? count->error : 0, s);
			fprintf(out, "%" PRIu64 "%s%.2f%s", count->running_ns, s,
				100 * count->running, s);
			if (metric.unit)
				fprintf(out, "%.3f%s%s\n", metric.value, s, metric.unit);
			else
				fprintf(out, "%s\n", s);
		}
}

/* ---- JSON ---- */

static void json_count(const struct stat_table *t, const struct stat_row *row, size_t event,
		       FILE *out)
{
	const struct stat_count *count = &row->count[event];
	const struct metric metric = metric_of(t, row, event);
	char name[160];

	text_json_print(out, event ? ", {\"event\": " : "{\"event\": ", event_name(t, event, name));
	fprintf(out, ", \"state\": \"%s\", \"value\": ",
		count->state == COUNTER_COUNTED ? "counted" : states[count->state]);
	if (count->state == COUNTER_COUNTED)
		fprintf(out, "%.0f", count->value);
	else
		fprintf(out, "null");
	fprintf(out, ", \"unit\": \"%s\", \"running_percent\": %.2f, \"error_percent\": ",
		is_clock(&t->specs[event]) ? "ns" : "events", 100 * count->running);
	if (count->error >= 0)
		fprintf(out, "%.2f", count->error);
	else
		fprintf(out, "null");
	if (metric.unit)
		fprintf(out, ", \"metric\": %.6g, \"metric_unit\": \"%s\"", metric.value,
			metric.unit);
	fprintf(out, "}");
}

void stat_print_json(const struct stat_table *t, FILE *out)
{
	fprintf(out, "{");
	if (t->at_s >= 0)
		fprintf(out, "\"time_s\": %.6f, ", t->at_s);
	fprintf(out, "\"elapsed_s\": %.6f, \"runs\": %" PRIu32, t->elapsed_s, t->runs);
	if (t->user_s >= 0)
		fprintf(out, ", \"user_s\": %.6f, \"system_s\": %.6f", t->user_s, t->system_s);
	fprintf(out, ", \"rows\": [");
	for (size_t i = 0; i < t->n_rows; i++) {
		text_json_print(out, i ? ", {\"row\": " : "{\"row\": ", t->rows[i].label);
		fprintf(out, ", \"counts\": [");
		for (size_t j = 0; j < t->n_events; j++)
			json_count(t, &t->rows[i], j, out);
		fprintf(out, "]}");
	}
	fprintf(out, "]}\n");
}
