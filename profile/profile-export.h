/* profile-export.h - one writer a format.  Thread: main (of a command). */
#pragma once

#include "profile/profile.h"

struct export_options {
	const char *title; /* html: what the page is called, the file's name; may be NULL */
	bool weight;	   /* folded: weights in place of counts */
	bool inlined;	   /* folded: "_[i]" behind names of inlined calls */
	struct profile_filter only;
};

struct export_format {
	const char *name, *suffix, *description;
	/* Writes the whole profile to @out.  @options may be NULL.  -EIO when the stream failed,
	 * -ENOSPC when that is why. */
	int (*write)(const struct profile *profile, const struct export_options *options,
		     FILE *out);
};

/* Ends with a NULL name. */
extern const struct export_format export_formats[];

/* folded.c pprof.c html.c systrace.c; records.c has str and bin (docs/snapshot-format.md) */
int export_folded(const struct profile *profile, const struct export_options *options, FILE *out);
int export_pprof(const struct profile *profile, const struct export_options *options, FILE *out);
int export_str(const struct profile *profile, const struct export_options *options, FILE *out);
int export_bin(const struct profile *profile, const struct export_options *options, FILE *out);
int export_systrace(const struct profile *profile, const struct export_options *options, FILE *out);
int export_html(const struct profile *profile, const struct export_options *options, FILE *out);

/* Terminal report. */
/* REPORT_PROCESS: processes of one name are one row; REPORT_PID: each is a row. */
enum report_by {
	REPORT_FUNCTION,
	REPORT_PROCESS,
	REPORT_THREAD,
	REPORT_MODULE,
	REPORT_CGROUP,
	REPORT_PID,
	REPORT_REASON, /* why threads wait, of a recording of waits */
	REPORT_MARK    /* sections of programs (report-marks.h) */
};
extern const char *const report_by_names[]; /* ends with NULL */
enum report_sort { REPORT_SORT_SELF, REPORT_SORT_TOTAL, REPORT_SORT_SAMPLES, REPORT_SORT_NAME };
extern const char *const report_sort_names[]; /* ends with NULL */
enum report_form { REPORT_TEXT, REPORT_JSON, REPORT_CSV };
struct report_options {
	enum report_by by;
	enum report_sort sort;
	enum report_form form;
	bool tree;
	/* A tree of the paths to (from) this function, in place of the tree of all.  NULL: no. */
	const char *callers, *callees;
	uint32_t max_depth; /* of a tree; 0: all */
	bool no_summary;    /* the table or tree alone */
	uint32_t limit;	    /* rows; 0: all */
	double min_percent; /* branches of a tree and rows of a table below are left out */
	struct profile_filter only;
	int width; /* columns of the terminal; 0: no limit */
	bool colour;
	const char *
		match; /* a table: rows with this in their name or module, ignoring case; NULL: all */
	struct report_cursor *cursor; /* of a table on a screen; NULL: none */
};
/* A marked row.  The table begins so that it is among the `limit` rows shown. */
struct report_cursor {
	uint32_t row;	/* lowered to the last one that there is */
	uint32_t top;	/* the first row shown */
	char name[512]; /* returned: of the row; "": there are no rows */
};
int report_write(const struct profile *profile, const struct report_options *options, FILE *out);
