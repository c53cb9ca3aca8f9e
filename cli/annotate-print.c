/* annotate-print.c - a function's lines and instructions as text or JSON (annotate.h).  Thread: main.
 *
 * The text of a source line is read from the file that the debug information names, where it is a regular file of this
 * machine.  It may be newer than the program: nothing proves it. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "cli/annotate.h"
#include "proc/open-file.h"
#include "profile/fold.h"
#include "profile/profile-text.h"

enum { SOURCE_BYTES = 16 << 20, SOURCES = 32, NEAR = 4 /* instructions around a sample */ };

/* Files that were read, the latest first. */
struct sources {
	const char *symfs;
	struct source {
		uint32_t file; /* id of its path; 0: none */
		char *text;    /* NULL: it cannot be read */
		size_t line;   /* where `at` is, from 1 */
		char *at;
	} files[SOURCES];
	size_t n;
};

struct printer {
	const struct annotation *a;
	const struct annotate_form *form;
	struct sources sources;
	FILE *out;
};

/* ---- source files ---- */

static char *read_source(const char *symfs, const char *path)
{
	_cleanup_(fd_closep) int fd = -1;
	char below[4096], *text = NULL;
	struct stat st;

	if (symfs && snprintf(below, sizeof(below), "%s/%s", symfs, path) < (int)sizeof(below))
		fd = procfs_open_regular(below, NULL, &st);
	if (fd < 0 && *path == '/')
		fd = procfs_open_regular(path, NULL, &st);
	if (fd < 0 || read_fd(fd, SOURCE_BYTES, &text, NULL) < 0)
		return NULL;
	return text;
}

static struct source *source_of(struct sources *s, uint32_t file, const char *path)
{
	struct source *to;

	for (size_t i = 0; i < s->n; i++)
		if (s->files[i].file == file)
			return &s->files[i];
	to = &s->files[s->n < SOURCES ? s->n++ : file % SOURCES];
	free(to->text);
	*to = (struct source){.file = file, .text = read_source(s->symfs, path)};
	return to;
}

/* The text of a line, up to its end; NULL: not known. */
static const char *source_line(struct printer *p, uint32_t file, uint32_t line, size_t *ret_len)
{
	struct source *source;

	if (!file || !line)
		return NULL;
	source = source_of(&p->sources, file, string_table_text(&p->a->texts, file));
	if (!source->text)
		return NULL;
	if (!source->at || source->line > line) {
		source->at = source->text;
		source->line = 1;
	}
	while (source->line < line) {
		char *end = strchr(source->at, '\n');

		if (!end)
			return NULL;
		source->at = end + 1;
		source->line++;
	}
	*ret_len = strcspn(source->at, "\n");
	return source->at;
}

static void sources_deinit(struct sources *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->files[i].text);
}

/* ---- text ---- */

/* Foreign text, of at most @len bytes, safe on a terminal; tabs as blanks. */
static void print_clean(struct printer *p, const char *text, size_t len)
{
	char copy[256];
	size_t n = 0;

	for (size_t i = 0; i < len && text[i] && n + 8 < sizeof(copy); i++) {
		if (text[i] == '\t')
			do
				copy[n++] = ' ';
			while (n % 8);
		else
			copy[n++] = text[i];
	}
	copy[n] = 0;
	text_print(p->out, copy);
}

static const char *text_of(const struct annotation *a, uint32_t id)
{
	return id ? string_table_text(&a->texts, id) : "";
}

/* "file.c:12   the text of the line" */
static void print_place(struct printer *p, uint32_t file, uint32_t line)
{
	const char *text, *name = fold_base_name(text_of(p->a, file));
	char place[64];
	size_t len = 0;

	if (!file) {
		fprintf(p->out, "[no line]\n");
		return;
	}
	if (line)
		(void)snprintf(place, sizeof(place), "%.48s:%" PRIu32, name, line);
	else
		(void)snprintf(place, sizeof(place), "%.48s  [no line]", name);
	print_clean(p, place, strlen(place));
	text = source_line(p, file, line, &len);
	if (text) {
		fprintf(p->out, "%*s  ", (int)(strlen(place) < 20 ? 20 - strlen(place) : 0), "");
		print_clean(p, text, len);
	}
	fputc('\n', p->out);
}

/* "12 samples", as many as @count. */
static const char *samples(uint64_t count, char to[64])
{
	char n[32];

	(void)snprintf(to, 64, "%s sample%s", text_count(count, n), count == 1 ? "" : "s");
	return to;
}

/* The figures add up to the function's row in a report: self, and total. */
static void print_figures(struct printer *p)
{
	const struct annotation *a = p->a;
	uint64_t all = a->count + a->called.count, weight = a->weight + a->called.weight;
	char share[32], n[64];

	fprintf(p->out, "%s of %s (%s) in the function itself", samples(a->self.count, n),
		p->form->event, text_share(a->self.weight, a->all_weight, share));
	fprintf(p->out, ", of %s\n", text_count(a->all_count, n));
	if (a->inlined.count)
		fprintf(p->out, "%s (%s) in functions that were inlined into it\n",
			samples(a->inlined.count, n),
			text_share(a->inlined.weight, a->all_weight, share));
	if (a->called.count)
		fprintf(p->out, "%s (%s) in functions that it called, not shown here\n",
			samples(a->called.count, n),
			text_share(a->called.weight, a->all_weight, share));
	if (a->inlined.count || a->called.count)
		fprintf(p->out, "%s (%s) in total\n", samples(all, n),
			text_share(weight, a->all_weight, share));
}

static void print_head(struct printer *p)
{
	const struct annotation *a = p->a;
	char n[64];

	print_clean(p, text_of(a, a->function), 200);
	fprintf(p->out, "  ");
	print_clean(p, text_of(a, a->module), 200);
	fputc('\n', p->out);
	print_figures(p);
	if (a->n_functions > 1)
		fprintf(p->out,
			"%" PRIu32 " functions have this name: their samples are added up\n",
			a->n_functions);
	if (a->elsewhere)
		fprintf(p->out, "%s of functions of this name in other modules are left out\n",
			samples(a->elsewhere, n));
	if (a->left_out)
		fprintf(p->out,
			"%s in further functions that it was inlined into: no instructions\n",
			samples(a->left_out, n));
	if (a->unsplit)
		fprintf(p->out,
			"%s of the function itself: in inlined functions, which the trace does not "
			"separate (record --no-inline)\n",
			samples(a->unsplit, n));
	if (a->note)
		fprintf(p->out, "%s: %s\n", a->interpreted ? "note" : "without instructions",
			a->note);
}

/* @self: with the function's own share. */
static void print_lines(struct printer *p, const struct annotate_lines *lines, const char *head,
			bool self)
{
	size_t n = p->form->limit ? min_u64(p->form->limit, lines->n) : lines->n;

	fprintf(p->out, "\n percent%s  %s\n", self ? "    self" : "", head);
	for (size_t i = 0; i < n; i++) {
		const struct annotate_line *line = &lines->list[i];

		fprintf(p->out, "%8.2f", text_percent(line->all.weight, p->a->weight));
		if (self)
			fprintf(p->out, "%8.2f", text_percent(line->self.weight, p->a->weight));
		fprintf(p->out, "  ");
		print_place(p, line->file, line->line);
	}
	if (n < lines->n)
		fprintf(p->out, "          and %zu more (-n 0)\n", lines->n - n);
}

static void print_all_lines(struct printer *p)
{
	const struct annotation *a = p->a;
	bool none = a->lines.n == 1 && !a->lines.list[0].file;

	if (none && !a->note)
		fprintf(p->out, "without lines: no debug information was found\n");
	if (!none)
		print_lines(p, &a->lines, "line", a->inlined.count > 0);
	if (a->inlined_lines.n)
		print_lines(p, &a->inlined_lines, "line in an inlined function", false);
}

/* Is a sample at most NEAR instructions away? */
static bool is_near(const struct annotate_part *part, size_t at)
{
	size_t from = at < NEAR ? 0 : at - NEAR, to = min_u64(at + NEAR + 1, part->n);

	for (size_t i = from; i < to; i++)
		if (part->instructions[i].count)
			return true;
	return false;
}

static void print_part(struct printer *p, const struct annotate_part *part)
{
	uint32_t file = 0, line = 0;
	bool gap = false;

	if (p->a->interpreted ||
	    (part->n == 1 &&
	     !part->instructions[0].address)) /* kernel code: its address is not known */
		return;
	fprintf(p->out, "\n percent  address           ");
	if (part->name)
		print_clean(p, text_of(p->a, part->name), 200);
	fputc('\n', p->out);
	for (size_t i = 0; i < part->n; i++) {
		const struct annotate_instruction *insn = &part->instructions[i];

		if (!p->form->all && !is_near(part, i)) {
			gap = true;
			continue;
		}
		if (gap)
			fprintf(p->out, "          ...\n");
		if (insn->file && (gap || insn->file != file || insn->line != line)) {
			fprintf(p->out, "          ");
			print_place(p, insn->file, insn->line);
		}
		gap = false;
		file = insn->file;
		line = insn->line;
		if (insn->count)
			fprintf(p->out, "%8.2f", text_percent(insn->weight, p->a->weight));
		else
			fprintf(p->out, "%8s", "");
		fprintf(p->out, "  %8" PRIx64 "  %s\n", insn->address, text_of(p->a, insn->text));
	}
}

/* ---- JSON ---- */

static void json_place(struct printer *p, uint32_t file, uint32_t line)
{
	text_json_print(p->out, "\"file\": ", file ? text_of(p->a, file) : NULL);
	fprintf(p->out, ", \"line\": %" PRIu32, line);
}

static void json_figures(struct printer *p, uint64_t weight, uint64_t count)
{
	fprintf(p->out, ", \"percent\": %.4f, \"weight\": %" PRIu64 ", \"samples\": %" PRIu64,
		text_percent(weight, p->a->weight), weight, count);
}

static void json_lines(struct printer *p, const char *name, const struct annotate_lines *lines,
		       bool self)
{
	fprintf(p->out, ",\n\"%s\": [", name);
	for (size_t i = 0; i < lines->n; i++) {
		const struct annotate_line *line = &lines->list[i];

		fprintf(p->out, "%s\n{", i ? "," : "");
		json_place(p, line->file, line->line);
		json_figures(p, line->all.weight, line->all.count);
		if (self)
			fprintf(p->out, ", \"self\": %" PRIu64 ", \"self_samples\": %" PRIu64,
				line->self.weight, line->self.count);
		fprintf(p->out, "}");
	}
	fprintf(p->out, "]");
}

static void json_part(struct printer *p, const struct annotate_part *part)
{
	text_json_print(p->out, "{\"function\": ", text_of(p->a, part->name));
	json_figures(p, part->weight, part->count);
	fprintf(p->out, ", \"instructions\": [");
	for (size_t i = 0; i < part->n; i++) {
		const struct annotate_instruction *insn = &part->instructions[i];

		fprintf(p->out, "%s\n{\"address\": %" PRIu64, i ? "," : "", insn->address);
		text_json_print(p->out, ", \"text\": ", text_of(p->a, insn->text));
		fprintf(p->out, ", ");
		json_place(p, insn->file, insn->line);
		json_figures(p, insn->weight, insn->count);
		fprintf(p->out, "}");
	}
	fprintf(p->out, "]}");
}

static void print_json(struct printer *p)
{
	const struct annotation *a = p->a;

	text_json_print(p->out, "{\"function\": ", text_of(a, a->function));
	text_json_print(p->out, ", \"module\": ", text_of(a, a->module));
	text_json_print(p->out, ", \"event\": ", p->form->event);
	fprintf(p->out, ", \"weight\": %" PRIu64 ", \"samples\": %" PRIu64, a->weight, a->count);
	fprintf(p->out, ", \"self\": %" PRIu64 ", \"self_samples\": %" PRIu64, a->self.weight,
		a->self.count);
	fprintf(p->out, ", \"inlined\": %" PRIu64 ", \"inlined_samples\": %" PRIu64,
		a->inlined.weight, a->inlined.count);
	fprintf(p->out, ", \"called\": %" PRIu64 ", \"called_samples\": %" PRIu64, a->called.weight,
		a->called.count);
	text_json_print(p->out, ", \"note\": ", a->note);
	json_lines(p, "lines", &a->lines, true);
	json_lines(p, "inlined_lines", &a->inlined_lines, false);
	fprintf(p->out, ",\n\"parts\": [");
	for (size_t i = 0; i < a->n_parts; i++) {
		fprintf(p->out, "%s", i ? ",\n" : "");
		json_part(p, &a->parts[i]);
	}
	fprintf(p->out, "]}\n");
}

int annotate_write(const struct annotation *a, const struct annotate_form *form, FILE *out)
{
	struct printer p = {.a = a, .form = form, .sources.symfs = form->symfs, .out = out};

	if (form->json) {
		print_json(&p);
	} else {
		print_head(&p);
		print_all_lines(&p);
		for (size_t i = 0; i < a->n_parts; i++)
			print_part(&p, &a->parts[i]);
	}
	sources_deinit(&p.sources);
	return text_finish(out);
}
