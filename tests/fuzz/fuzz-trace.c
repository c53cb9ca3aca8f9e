/* fuzz-trace.c - any bytes as a trace: read, everything that was read looked at, so that an index out of
 * its table is seen, written in each format, and printed as text. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "profile/diff.h"
#include "profile/profile-export.h"
#include "profile/script.h"
#include "profile/trace-text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t sum;

static void look_at_frame(const struct profile *p, uint32_t index)
{
	const struct profile_frame *f = &p->frames[index];
	char name[64];

	if (index >= p->n_frames || (f->module != UINT32_MAX && f->module >= p->n_modules) ||
	    !f->n_lines)
		abort();
	for (uint32_t i = 0; i < f->n_lines; i++)
		sum += strlen(profile_line_name(p, f, i, name, sizeof(name)));
}

static void look_at(const struct profile *p)
{
	char end[200];

	if (profile_end_text(p, end, sizeof(end)) != (p->end.cut || p->end.missing))
		abort();
	for (size_t i = 0; i < p->n_samples; i++) {
		const struct profile_sample *s = &p->samples[i];
		uint32_t process;

		if (i && s->time < p->samples[i - 1].time)
			abort();

		if (s->thread >= p->n_threads)
			abort();
		process = profile_sample_process(p, s);
		/* Whatever was sampled has a name. */
		if (process >= p->n_processes || !p->processes[process].name ||
		    !p->threads[s->thread].name)
			abort();
		sum += strlen(profile_process_name(p, process)) +
		       strlen(profile_thread_name(p, s->thread));
		if (s->stack == UINT32_MAX)
			continue;
		for (uint32_t at = s->stack; at != UINT32_MAX; at = p->nodes[at].up) {
			if (at >= p->n_nodes ||
			    (p->nodes[at].up >= at && p->nodes[at].up != UINT32_MAX))
				abort();
			look_at_frame(p, p->nodes[at].frame);
		}
	}
	for (size_t i = 0; i < p->n_notes; i++)
		sum += strlen(string_table_text(&p->strings, p->notes[i]));
	for (size_t i = 0; i < p->n_stats; i++)
		sum += strlen(string_table_text(&p->strings, p->stats[i].name));
	for (size_t i = 0; i < p->n_lines; i++)
		if (p->lines[i].function > p->strings.n_entries ||
		    p->lines[i].file > p->strings.n_entries)
			abort();
}

static void print(const uint8_t *data, size_t size)
{
	static FILE *null;
	char error[128] = "";
	int fd = memfd_create("trace", MFD_CLOEXEC);

	if (!null)
		null = fopen("/dev/null", "we");
	if (fd < 0 || !null || write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET))
		abort();
	if (trace_text(fd, null, error, sizeof(error)) < 0 && !*error)
		abort();
	close(fd);
}

/* Each kind of rows and each form, around the last function, and of a part of the samples. */
static void write_reports(const struct profile *p, FILE *out)
{
	uint32_t function = p->n_lines ? p->lines[p->n_lines - 1].function : 0;
	const char *name = function ? string_table_text(&p->strings, function) : "f";
	const struct report_options trees[] = {
		{.tree = true},
		{.tree = true, .form = REPORT_CSV, .max_depth = 3},
		{.callers = name},
		{.callees = name, .form = REPORT_JSON},
		{.only = {.function = name}},
		{.only = {.thread = "1", .by_cpu = true, .cpus = {1}}},
		{.only = {.by_time = true, .from = 1, .to = UINT64_MAX, .comm = name}},
	};

	for (uint32_t by = 0; report_by_names[by]; by++) {
		const struct report_options table = {
			.by = (enum report_by)by,
			.sort = (enum report_sort)(by % (REPORT_SORT_NAME + 1)),
			.form = (enum report_form)(by % (REPORT_CSV + 1)),
			.width = by % 2 ? 80 : 0,
		};

		(void)report_write(p, &table, out);
	}
	for (size_t i = 0; i < ARRAY_SIZE(trees); i++)
		(void)report_write(p, &trees[i], out);
}

/* With itself: there is no change. */
static void compare(const struct profile *p, FILE *out)
{
	static const char *const names[] = {"a", "b"};
	const struct diff_options options = {.all = true, .fail_above = 0};
	char error[256];
	struct diff d;

	if (diff_init(&d, p, p, &options, error, sizeof(error)) < 0)
		return;
	if (diff_fails(&d, &options))
		abort();
	(void)diff_write(&d, &options, names, out);
	diff_deinit(&d);
}

static void write_formats(const struct profile *p)
{
	FILE *out = fopen("/dev/null", "we");

	if (!out)
		abort();
	for (size_t i = 0; export_formats[i].name; i++)
		(void)export_formats[i].write(p, NULL, out);
	write_reports(p, out);
	(void)script_write(p, NULL, 0, out);
	compare(p, out);
	(void)fclose(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct profile p;
	char error[128];

	print(data, size);
	if (profile_parse(data, size, &p, error, sizeof(error)) < 0)
		return 0;
	if (p.truncated_at >= size)
		abort();
	look_at(&p);
	write_formats(&p);
	profile_deinit(&p);
	return 0;
}
