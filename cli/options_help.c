/* options_help.c - what a person reads: --help out of the table, and the name that was meant.  See
 * options.h.
 *
 *   -F, --frequency HZ         samples a second and CPU
 *   ^2                         ^HELP_COLUMN, text broken at HELP_WIDTH */
#include <string.h>

#include "cli/options.h"

enum { HELP_COLUMN = 30, HELP_WIDTH = 80 };

/* Breaks at blanks; a line feed in the text begins a new line. */
static void print_wrapped(FILE *out, const char *text, size_t column)
{
	size_t at = column;

	while (*text) {
		size_t len = strcspn(text, " \n");

		if (at > column && at + 1 + len > HELP_WIDTH) {
			fprintf(out, "\n%*s", (int)column, "");
			at = column;
		}
		if (at > column) {
			fputc(' ', out);
			at++;
		}
		fwrite(text, 1, len, out);
		at += len;
		text += len;
		if (*text == '\n') {
			fprintf(out, "\n%*s", (int)column, "");
			at = column;
		}
		text += *text != 0;
	}
	fputc('\n', out);
}

static void print_option(FILE *out, const struct option_def *def)
{
	char left[128] = "      ";
	size_t len;

	if (!def->help)
		return;
	if (def->letter)
		(void)snprintf(left, sizeof(left), "  -%c, ", def->letter);
	len = strlen(left);
	(void)snprintf(left + len, sizeof(left) - len, "--%s%s%s", def->name,
		       def->argument ? " " : "", def->argument ? def->argument : "");
	len = strlen(left);
	if (len + 2 > HELP_COLUMN)
		fprintf(out, "%s\n%*s", left, HELP_COLUMN, "");
	else
		fprintf(out, "%-*s", HELP_COLUMN, left);
	print_wrapped(out, def->help, HELP_COLUMN);
}

void options_print_help(const struct options *options, FILE *out)
{
	fprintf(out, "Usage: perfwind %s %s\n", options->command, options->usage);
	if (options->description)
		fprintf(out, "\n%s\n", options->description);
	fprintf(out, "\nOptions:\n");
	for (const struct option_def *d = options->defs; d && d->name; d++)
		print_option(out, d);
	for (const struct option_def *d = options_common; d->name; d++)
		print_option(out, d);
}

enum { NAME_MAX_LEN = 48 };

/* Edits (insert, delete, replace, swap of neighbours) that make @a into @b. */
static size_t edit_distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t rows[3][NAME_MAX_LEN + 1];

	for (size_t j = 0; j <= b_len; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= a_len; i++) {
		size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];

		row[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			size_t d = above[j - 1] + (a[i - 1] != b[j - 1]);

			d = min_u64(d, above[j] + 1);
			d = min_u64(d, row[j - 1] + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				d = min_u64(d, above2[j - 2] + 1);
			row[j] = d;
		}
	}
	return rows[a_len % 3][b_len];
}

const char *options_nearest(const char *text, size_t len, const char *const *names, size_t n)
{
	const char *best = NULL;
	size_t best_distance = SIZE_MAX;

	if (!len || len > NAME_MAX_LEN)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		size_t name_len = strlen(names[i]), d;

		if (name_len > NAME_MAX_LEN)
			continue;
		d = edit_distance(text, len, names[i], name_len);
		/* "--freq" is --frequency, however far; else a third of the letters may be wrong.
		 */
		if (len >= 2 && name_len > len && !memcmp(text, names[i], len))
			d = 1;
		if (d < best_distance && d <= 1 + len / 3) {
			best = names[i];
			best_distance = d;
		}
	}
	return best;
}
