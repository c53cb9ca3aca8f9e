/* options-help.c - what a person reads: --help out of the table, and the name that was meant.  See
 * options.h.
 *
 *   -F, --frequency HZ         samples a second and CPU
 *   ^2                         ^HELP_COLUMN, text broken at HELP_WIDTH */
#include <string.h>

#include "cli/options.h"
#include "base/nearest.h"

enum { HELP_COLUMN = 30, HELP_WIDTH = 80 };

/* Breaks at blanks; a line feed is one. */
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

const char *options_nearest(const char *text, size_t len, const char *const *names, size_t n)
{
	const char *best = NULL;
	size_t best_distance = SIZE_MAX;
	char wanted[NEAREST_LEN];

	if (!len || len >= sizeof(wanted))
		return NULL;
	memcpy(wanted, text, len);
	wanted[len] = 0;
	for (size_t i = 0; i < n; i++) {
		size_t name_len = strlen(names[i]), d = nearest_distance(wanted, names[i]);

		if (name_len >= NEAREST_LEN)
			continue;
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
