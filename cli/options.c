/* options.c - see options.h.
 *
 * argv is rewritten in place: `out` trails the reading position, so an argument is never
 * overwritten before it was looked at.  argv[0] is free from the start (the command's name, known
 * from the table). */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/nearest.h"
#include "cli/duration.h"
#include "cli/options.h"

struct parser {
	const struct options *options;
	char **argv;
	int argc, at; /* at: the next to read */
	void *to;
	uint32_t verbose;
	bool quiet;
	const char *folders; /* of -v */
};

/* Their offsets are in struct parser: see option_store(). */
enum { COMMON_VERBOSE, COMMON_QUIET, COMMON_HELP, COMMON_COUNT };
const struct option_def options_common[] = {
	[COMMON_VERBOSE] = {.name = "verbose",
			    .letter = 'v',
			    .type = OPTION_COUNT,
			    .help = "print more; twice: each failure with file and line\n"
				    "(-v FOLDER,FOLDER, --verbose=FOLDER: of these source folders)",
			    .offset = offsetof(struct parser, verbose)},
	[COMMON_QUIET] = {.name = "quiet",
			  .letter = 'q',
			  .type = OPTION_FLAG,
			  .help = "print errors only",
			  .offset = offsetof(struct parser, quiet)},
	[COMMON_HELP] = {.name = "help",
			 .letter = 'h',
			 .type = OPTION_FLAG,
			 .help = "print this text"},
	{0},
};

static bool option_is_common(const struct option_def *def)
{
	return def >= options_common && def < options_common + COMMON_COUNT;
}

static const struct option_def *option_in(const struct option_def *defs, const char *name,
					  size_t len, char letter)
{
	for (; defs && defs->name; defs++)
		if (letter ? defs->letter == letter
			   : strlen(defs->name) == len && !memcmp(defs->name, name, len))
			return defs;
	return NULL;
}

/* The command's own come first: it may give -q another meaning. */
static const struct option_def *option_find(const struct parser *p, const char *name, size_t len,
					    char letter)
{
	const struct option_def *def = option_in(p->options->defs, name, len, letter);

	def = def ? def : option_in(p->options->foreign, name, len, letter);
	return def ? def : option_in(options_common, name, len, letter);
}

static int usage_error(const struct parser *p, const char *what, const char *text, const char *more)
{
	log_error("%s: %s%s%s (see `perfwind %s --help`)", p->options->command, what, text, more,
		  p->options->command);
	return -EINVAL;
}

static int unknown_option(const struct parser *p, const char *text, size_t len)
{
	const char *names[128];
	const char *nearest;
	size_t n = 0;
	char more[128] = "";

	for (const struct option_def *d = p->options->defs;
	     d && d->name && n < ARRAY_SIZE(names) - 3; d++)
		names[n++] = d->name;
	for (const struct option_def *d = options_common; d->name; d++)
		names[n++] = d->name;
	nearest = options_nearest(text, len, names, n);
	if (nearest)
		(void)snprintf(more, sizeof(more), "; did you mean --%s?", nearest);
	log_error("%s: unknown option --%.*s%s (see `perfwind %s --help`)", p->options->command,
		  (int)min_u64(len, 64), text, more, p->options->command);
	return -EINVAL;
}

static bool takes_value(const struct option_def *def)
{
	return def->argument != NULL;
}

static int store_double(const struct option_def *def, double *to, const char *value)
{
	char *end;
	double v;

	/* strtod() takes blanks, signs, "inf" and hexadecimal: none is meant. */
	if (strspn(value, "0123456789.eE+-") != strlen(value) || strchr("+-eE", *value))
		return -EINVAL;
	v = strtod(value, &end);
	if (*end || end == value)
		return -EINVAL;
	if (!isfinite(v) || (def->max && v > (double)def->max))
		return -ERANGE;
	*to = v;
	return 0;
}

/* 0 is a time, by default: none. */
static int store_time(const struct option_def *def, double *to, const char *value)
{
	double unit = *def->unit == 's' ? 1e9 : 1e6;
	uint64_t ns = 0;

	if (strspn(value, "0.") != strlen(value) && duration_parse(value, def->unit, &ns) < 0)
		return -EINVAL;
	if ((def->max && (double)ns / unit > (double)def->max) || (def->above_0 && !ns))
		return -ERANGE;
	*to = (double)ns / unit;
	return 0;
}

static int store_number(const struct option_def *def, void *to, const char *value)
{
	uint64_t max = def->type == OPTION_U32 ? UINT32_MAX : UINT64_MAX, v;
	int r = parse_u64(value, 10, def->max && def->max < max ? def->max : max, &v);

	if (r < 0)
		return r;
	if (def->type == OPTION_U32)
		*(uint32_t *)to = (uint32_t)v;
	else
		*(uint64_t *)to = v;
	return 0;
}

static int store_choice(const struct option_def *def, void *to, const char *value)
{
	for (uint32_t i = 0; def->choices[i]; i++)
		if (!strcmp(def->choices[i], value)) {
			memcpy(to, &i, sizeof(i));
			return 0;
		}
	return -ENOENT;
}

/* Prints what would have been right. */
static int value_error(const struct parser *p, const struct option_def *def, const char *value,
		       int r)
{
	char more[256] = "";
	size_t len = 0;

	if (def->type == OPTION_CHOICE)
		for (size_t i = 0; def->choices[i] && len < sizeof(more); i++)
			len += (size_t)snprintf(more + len, sizeof(more) - len, "%s%s",
						i ? ", " : "it is one of ", def->choices[i]);
	else if (r == -ERANGE && def->max)
		(void)snprintf(more, sizeof(more), "it is at most %llu%s%s",
			       (unsigned long long)def->max, def->unit ? " " : "",
			       def->unit ? def->unit : "");
	else if (r == -ERANGE)
		(void)snprintf(more, sizeof(more), "it %s",
			       def->above_0 ? "must be more than 0 s" : "is too large");
	else if (def->type == OPTION_CALL)
		(void)snprintf(more, sizeof(more), "%s", strerror(-r));
	else if (def->type == OPTION_TIME)
		(void)snprintf(more, sizeof(more),
			       "it is not a time like 500ms, 1.5s or 10min (without a unit: %s)",
			       def->unit);
	else
		(void)snprintf(more, sizeof(more), "it is not a%s number",
			       def->type == OPTION_DOUBLE ? "" : " whole");
	log_error("%s: --%s %.64s: %s (see `perfwind %s --help`)", p->options->command, def->name,
		  value, more, p->options->command);
	return -EINVAL;
}

static int option_store(struct parser *p, const struct option_def *def, const char *value)
{
	void *to = (char *)(option_is_common(def) ? (void *)p : p->to) + def->offset;
	int r = 0;

	if (value && !*value && def->type < OPTION_CALL)
		return usage_error(p, "an empty value for --", def->name, "");
	switch (def->type) {
	case OPTION_FLAG:
		*(bool *)to = true;
		break;
	case OPTION_COUNT:
		++*(uint32_t *)to;
		break;
	case OPTION_STRING:
		*(const char **)to = value;
		break;
	case OPTION_U32:
	case OPTION_U64:
		r = store_number(def, to, value);
		break;
	case OPTION_DOUBLE:
		r = store_double(def, to, value);
		break;
	case OPTION_TIME:
		r = store_time(def, to, value);
		break;
	case OPTION_CHOICE:
		r = store_choice(def, to, value);
		break;
	case OPTION_CALL:
		r = def->call(to, value);
		if (r == -EINVAL)
			return r; /* it has printed the reason itself */
		break;
	case OPTION_WITHOUT_EFFECT:
		if (def->note)
			log_info("%s: --%s: %s", p->options->command, def->name, def->note);
		break;
	case OPTION_REFUSED:
		log_error("%s: --%s: %s", p->options->command, def->name, def->note);
		return -EINVAL;
	}
	return r < 0 ? value_error(p, def, value ? value : "", r) : 0;
}

static int option_help(const struct parser *p)
{
	options_print_help(p->options, stdout);
	return OPTIONS_HELPED;
}

/* "-" is standard input or output, "-1" a number. */
static bool looks_like_option(const char *word)
{
	return word[0] == '-' && (word[1] == '-' || isalpha((unsigned char)word[1]));
}

static int refuse_option_as_value(const struct parser *p, const struct option_def *def,
				  const char *word)
{
	log_error("%s: a value is missing behind --%s: '%.64s' looks like an option (if it is the "
		  "value: --%s=%.64s)",
		  p->options->command, def->name, word, def->name, word);
	return -EINVAL;
}

/* Is each name of the list the beginning of a source folder's name? */
static bool are_folders(const char *list)
{
	for (size_t len;; list += len + 1) {
		const char *folder = " " PERFWIND_FOLDERS;

		len = strcspn(list, ",");
		while (folder && strncmp(folder + 1, list, len))
			folder = strchr(folder + 1, ' ');
		if (!len || !folder)
			return false;
		if (!list[len])
			return true;
	}
}

/* Two folders or more may be the next word: no command and no file is called so.  A single one may be a command's name
 * ("perf"), and needs --verbose=. */
static int apply_verbose(struct parser *p, const char *folders)
{
	const char *next = p->at < p->argc ? p->argv[p->at] : "";

	if (!folders && strchr(next, ',') && are_folders(next)) {
		folders = next;
		p->at++;
	}
	if (!folders) {
		p->verbose++;
		return 0;
	}
	if (!are_folders(folders)) {
		log_error("%s: --verbose=%.64s: no source folder; there are: " PERFWIND_FOLDERS,
			  p->options->command, folders);
		return -EINVAL;
	}
	p->verbose = 2;
	p->folders = folders;
	return 0;
}

/* @value: what stood behind the name in the same word, or NULL. */
static int option_apply(struct parser *p, const struct option_def *def, const char *value)
{
	if (def == &options_common[COMMON_HELP])
		return option_help(p);
	if (def == &options_common[COMMON_VERBOSE])
		return apply_verbose(p, value);
	if (!takes_value(def))
		return value ? usage_error(p, "no value is taken by --", def->name, "")
			     : option_store(p, def, NULL);
	if (!value && def->accepts && (p->at == p->argc || !def->accepts(p->argv[p->at])))
		return option_store(p, def, NULL);
	if (!value) {
		if (p->at == p->argc)
			return usage_error(p, "a value is missing behind --", def->name, "");
		value = p->argv[p->at++];
		if (looks_like_option(value))
			return refuse_option_as_value(p, def, value);
	}
	return option_store(p, def, value);
}

static int parse_long(struct parser *p, const char *text)
{
	const char *equals = strchr(text, '=');
	size_t len = equals ? (size_t)(equals - text) : strlen(text);
	const struct option_def *def = option_find(p, text, len, 0);

	return def ? option_apply(p, def, equals ? equals + 1 : NULL)
		   : unknown_option(p, text, len);
}

static int parse_short(struct parser *p, const char *text)
{
	for (; *text; text++) {
		const struct option_def *def = option_find(p, NULL, 0, *text);
		bool value;
		int r;

		if (!def)
			return usage_error(p, "unknown option -", (char[]){*text, 0}, "");
		value = takes_value(def) && text[1];
		r = option_apply(p, def, value ? text + 1 : NULL);
		if (r || value)
			return r;
	}
	return 0;
}

static int parse_arguments(struct parser *p, int *ret_n)
{
	bool ended = false;
	int n = 0, r;

	while (p->at < p->argc) {
		char *word = p->argv[p->at++];

		if (ended || word[0] != '-' || !word[1]) {
			ended |= p->options->stop_at_argument;
			p->argv[n++] = word;
		} else if (!strcmp(word, "--")) {
			ended = true;
		} else {
			r = word[1] == '-' ? parse_long(p, word + 2) : parse_short(p, word + 1);
			if (r)
				return r;
		}
	}
	p->argv[n] = NULL;
	*ret_n = n;
	return 0;
}

int options_parse(const struct options *options, int argc, char **argv, void *to, int *ret_n)
{
	struct parser p = {.options = options, .argv = argv, .argc = argc, .at = 1, .to = to};
	int n, r;

	r = parse_arguments(&p, &n);
	if (r)
		return r;
	if (p.quiet)
		log_level = LOG_LEVEL_QUIET;
	else if (p.verbose)
		log_level = p.verbose > 1 ? LOG_LEVEL_DEBUG : LOG_LEVEL_VERBOSE;
	log_folders = p.folders;
	if (n < options->min_arguments) {
		log_error("%s needs %s: perfwind %s %s (see `perfwind %s --help`)",
			  options->command, n ? "one argument more" : "an argument",
			  options->command, options->usage, options->command);
		return -EINVAL;
	}
	if (options->max_arguments >= 0 && n > options->max_arguments)
		return usage_error(&p, "one argument too many: ", argv[options->max_arguments], "");
	*ret_n = n;
	return 0;
}

int options_exit_status(int r)
{
	return r == OPTIONS_HELPED ? 0 : r == -EINVAL ? 2 : r < 0;
}

/* ---- for a person: --help, and the name that was meant ----
 *
 *   -F, --frequency HZ         samples a second and CPU
 *   ^2                         ^HELP_COLUMN, text broken at HELP_WIDTH */

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
