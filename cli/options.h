/* options.h - one parser and one help text for all option tables.  Thread: main.
 *
 * A command describes its command line in one constant struct options; parsing, --help and the
 * messages for wrong usage all come from it.  Values are stored by offset into the command's own
 * struct. Every command also understands -h/--help, -v/--verbose (-vv: debug) and -q/--quiet (both
 * set log_level).
 *
 *   --name=VALUE  --name VALUE  -nVALUE  -n VALUE  -abc (flags together)  -- (ends the options)
 *
 * An option may be given again: the last one wins, but for OPTION_COUNT and OPTION_CALL. */
#pragma once

#include "base/util.h"

enum option_type {
	OPTION_FLAG,   /* bool: true */
	OPTION_COUNT,  /* uint32_t: one more each time */
	OPTION_STRING, /* const char *: borrowed from argv, never empty */
	OPTION_U32,    /* uint32_t, at most `max` (0: no limit) */
	OPTION_U64,    /* uint64_t, at most `max` (0: no limit) */
	OPTION_DOUBLE, /* double, >= 0 and finite, at most `max` (0: no limit) */
	OPTION_TIME, /* double, in `unit`, >= 0 or `above_0`, at most `max` units (0: no limit); "500ms", "10min" too (duration.h) */
	OPTION_CHOICE, /* uint32_t or an enum: which of `choices`, from 0 */
	OPTION_CALL, /* call(to + offset, value); value is NULL when `argument` is, or is left out */
	/* Of another profiler: nothing is stored. */
	OPTION_WITHOUT_EFFECT, /* `note` (if any) is printed */
	OPTION_REFUSED,	       /* wrong usage; `note` names the nearest way */
};

struct option_def {
	const char *name; /* without the dashes */
	char letter;	  /* 0: none */
	enum option_type type;
	const char *argument; /* "HZ": how --help calls the value.  Needed by all but FLAG, COUNT
				 and CALL */
	const char *help;     /* NULL: understood, not shown */
	size_t offset;	      /* offsetof(struct x, member) */
	uint64_t max;
	const char *unit;	    /* of a TIME: "s" or "ms" */
	bool above_0;		    /* of a TIME: 0 is refused */
	const char *const *choices; /* ends with NULL; of a CALL: for completion only */
	/* 0, or -EINVAL after a log_error() of its own, or another -errno that the parser reports.
	 */
	int (*call)(void *to, const char *value);
	/* Not NULL: the value may be left out; the next word is the value only if this accepts it. */
	bool (*accepts)(const char *word);
	const char *note;
};

/* Entries of a table for which the file defines AT(member). */
#define FLAG(name_, letter_, member, help_)                                            \
	{                                                                              \
		.name = (name_), .letter = (letter_), .type = OPTION_FLAG, AT(member), \
		.help = (help_),                                                       \
	}
#define TEXT(name_, letter_, argument_, member, help_)                       \
	{                                                                    \
		.name = (name_), .letter = (letter_), .type = OPTION_STRING, \
		.argument = (argument_), AT(member), .help = (help_),        \
	}
#define NUMBER(name_, letter_, type_, argument_, member, max_, help_)                           \
	{                                                                                       \
		.name = (name_), .letter = (letter_), .type = (type_), .argument = (argument_), \
		AT(member), .max = (max_), .help = (help_),                                     \
	}
/* A double, in @unit_ ("s", "ms"); the value may name another unit. */
#define TIME(name_, letter_, unit_, argument_, member, max_, help_)                         \
	{                                                                                   \
		.name = (name_), .letter = (letter_), .type = OPTION_TIME, .unit = (unit_), \
		.argument = (argument_), AT(member), .max = (max_), .help = (help_),        \
	}
#define DURATION(member, help_)                                                      \
	{                                                                            \
		.name = "duration", .letter = 'd', .type = OPTION_TIME, .unit = "s", \
		.argument = "SECONDS", AT(member), .above_0 = true, .help = (help_), \
	}
#define CHOICE(name_, argument_, member, choices_, help_)                                    \
	{                                                                                    \
		.name = (name_), .type = OPTION_CHOICE, .argument = (argument_), AT(member), \
		.choices = (choices_), .help = (help_),                                      \
	}
/* @call gets the whole struct. */
#define CALL(name_, letter_, argument_, call_, help_)                      \
	{                                                                  \
		.name = (name_), .letter = (letter_), .type = OPTION_CALL, \
		.argument = (argument_), .call = (call_), .help = (help_), \
	}
#define CALL_AT(name_, letter_, argument_, member, call_, help_)                       \
	{                                                                              \
		.name = (name_), .letter = (letter_), .type = OPTION_CALL,             \
		.argument = (argument_), AT(member), .call = (call_), .help = (help_), \
	}
/* Of perf; @note may be NULL. */
#define IGNORED(name_, letter_, argument_, note_)                                    \
	{                                                                            \
		.name = (name_), .letter = (letter_), .type = OPTION_WITHOUT_EFFECT, \
		.argument = (argument_), .note = (note_),                            \
	}
#define REFUSED(name_, letter_, argument_, note_)                             \
	{                                                                     \
		.name = (name_), .letter = (letter_), .type = OPTION_REFUSED, \
		.argument = (argument_), .note = (note_),                     \
	}

struct options {
	const char *command;	 /* "record" */
	const char *usage;	 /* what stands behind it: "[OPTIONS] FILE" */
	const char *description; /* a paragraph or two, lines already broken; may be NULL */
	/* Of the man page only; each may be NULL. */
	const char *json;	/* the meaning of the keys of --json */
	const char *details[4]; /* paragraphs behind the description */
	const char *examples;	/* "# comment" and command lines, an empty line between examples */
	const struct option_def *defs; /* ends with a NULL name; may be NULL */
	const struct option_def
		*foreign; /* of perf's command of this name: understood, not shown */
	const char
		*words; /* completed as the first argument: "list show delete"; NULL: files are */
	int min_arguments, max_arguments; /* max < 0: no limit */
	/* Options end at the first argument: `record CMD --its-own-option`. */
	bool stop_at_argument;
};

/* What every command understands besides its own. */
extern const struct option_def options_common[];

enum { OPTIONS_HELPED = 1 }; /* --help was asked for and is printed: leave with status 0 */

/* Stores into @to and leaves the other arguments in argv[0..*ret_n), a NULL behind.  argv[0] is the
 * command's name.  -EINVAL: wrong usage, one line was logged. */
int options_parse(const struct options *options, int argc, char **argv, void *to, int *ret_n);
/* The exit status for a result that is not 0: 0 for OPTIONS_HELPED, 2 for -EINVAL, else 1. */
int options_exit_status(int r);
void options_print_help(const struct options *options, FILE *out);

/* The one of @names[0..n) that a person most likely meant by @text; NULL when none is near. */
const char *options_nearest(const char *text, size_t len, const char *const *names, size_t n);
