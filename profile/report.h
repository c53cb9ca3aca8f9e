/* report.h - shared by the parts of the terminal report (report.c, report_tree.c).  Thread: main
 * (of a command). */
#pragma once

#include "profile/profile-export.h"
#include "profile/fold.h"
#include "profile/profile-text.h"

enum report_colour {
	COLOUR_NONE,
	COLOUR_DIM,
	COLOUR_BOLD,
	COLOUR_HOT,
	COLOUR_WARM,
	COLOUR_KERNEL,
	COLOUR_WARN
};

struct report {
	const struct report_options *options;
	struct fold fold;
	struct buffer out; /* on its way to the file */
	FILE *file;
	uint64_t written; /* bytes */
};

/* Writes what is in `out` when it is much, or @all. */
int report_flush(struct report *report, bool all);

/* Appends @len bytes of @text between the marks of a colour (when colours are on). */
void report_colour(struct report *report, enum report_colour colour, const char *text, size_t len);
/* The colour of a share of the whole. */
enum report_colour report_heat(double percent);
/* Appends a name, cleaned, cut to @columns (0: no limit) and padded to @pad; in @colour. */
void report_name(struct report *report, enum report_colour colour, const char *name, size_t columns,
		 size_t pad);
/* "  12.34" in heat colour. */
void report_percent(struct report *report, uint64_t part, uint64_t whole);

int report_tree(struct report *report);
