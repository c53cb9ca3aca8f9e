/* diff.h - two profiles compared, by function, module or process.  Thread: main (of a command).
 *
 * Rows are matched by name.  B is brought to the scale of A first, then each row has its change, in percent of all of
 * A, and the half width of the interval in which the change lies: with 95 % confidence for all rows together.  A
 * change with an interval that leaves out 0 is significant.  diff.c states the model of the errors. */
#pragma once

#include <math.h>

#include "base/bytes.h"
#include "profile/fold.h"
#include "profile/profile-export.h"

enum diff_scale {
	DIFF_MEDIAN,  /* the middle function has not changed: one that did stands out alone */
	DIFF_TOTAL,   /* as recorded: the same work was done twice */
	DIFF_SECOND,  /* per second of recording */
	DIFF_SHARE,   /* shares of the whole */
	DIFF_SAMPLES, /* by the numbers of samples */
	DIFF_COUNTER, /* by the counts of diff_options.counter */
};
extern const char *const diff_scale_names[]; /* up to DIFF_SAMPLES; ends with NULL */
extern const char *const diff_by_names[]; /* ends with NULL; as enum report_by, and DIFF_BY_TREE */
enum { DIFF_BY_TREE = REPORT_MODULE + 1 };

struct diff_options {
	enum report_by by;
	enum diff_scale scale;
	const char *
		counter; /* of DIFF_COUNTER: an event, or a follower of the compared event, in both traces */
	bool tree;  /* rows are call paths; instead of `by` */
	bool page;  /* diff_page_write() follows */
	bool total; /* with what a function called, else without */
	struct profile_filter only;
	/* For the writers: */
	bool all, json;	   /* rows without a significant change too */
	uint32_t limit;	   /* rows; 0: all */
	double fail_above; /* percent of A; < 0: none */
	int width;	   /* columns of the terminal; 0: no limit */
	bool colour;
};

/* The calls of both profiles as one tree, matched by name from the process on. */
struct diff_tree_node {
	uint32_t up;   /* always before this node; UINT32_MAX: a process */
	uint32_t name; /* in names */
	uint32_t self_count[2],
		count[2]; /* samples of A and B: of the call alone, with all below it */
	uint64_t self_weight[2], weight[2];
};
struct diff_tree {
	struct string_table names;
	struct diff_tree_node *nodes;
	size_t n, room;
	struct table children; /* (parent + 1, name) -> index */
};

struct diff_row {
	const char *name;     /* in names */
	const char *module;   /* base name, of functions; "" */
	uint32_t node;	      /* of a call path: in the tree */
	uint64_t count[2];    /* samples in A and B */
	uint64_t weight[2];   /* as recorded */
	double change, error; /* percent of all of A; error: half of the interval */
	bool significant;
	/* By function: the cost of one that is gone turned up in one that is new (renamed, outlined) or that grew (inlined into
	 * it).  Both rows have the number of the pair and are not significant.  0: none. */
	uint32_t pair;
};
/* The names of a program of one process, which those of another build may not have.  NULL: unknown. */
struct diff_program {
	const char *process, *thread, *module; /* borrowed from the profile; path of the module */
	char code[272];			       /* "[NAME]": its functions without a name */
};
struct diff {
	struct string_table names, modules;
	struct diff_program programs[2]; /* both with a process: rows have the names of A's */
	struct diff_tree tree;		 /* of call paths and of a page */
	struct diff_row *rows; /* significant ones first, then by the size of the change */
	size_t n, room;
	uint64_t count[2], weight[2];
	double seconds[2];
	uint64_t counted
		[2]; /* of DIFF_COUNTER: in the whole traces, whatever options->only leaves out */
	double counter_error; /* relative, of the ratio: 0, or of an event that was sampled */
	char unit[16];
	double scale; /* of B */
	/* The change of the whole and half of its interval, 95 %, in percent of A: with the scale, except that DIFF_MEDIAN and
	 * DIFF_SHARE hide it, for which it is as recorded. */
	double whole_change, whole_error;
	/* The scale used.  Without enough rows for a median: DIFF_SHARE if no share has changed, else DIFF_TOTAL; without
	 * durations: DIFF_TOTAL. */
	enum diff_scale scaled;
	bool fell_back; /* another scale was wanted */
	uint32_t n_pairs;
	size_t n_middle; /* DIFF_MEDIAN: functions that the median is of */
};

/* -EINVAL: the units differ, a profile is empty, or one does not have the counter, and *error has a line.  Else as fold_init() of either. */
int diff_init(struct diff *diff, const struct profile *a, const struct profile *b,
	      const struct diff_options *options, char *error, size_t error_size);
void diff_deinit(struct diff *diff);
/* Is a program of A compared with one of another name? */
bool diff_renames(const struct diff *diff);
/* Did a row, or (where the scale does not hide it) the whole, grow by more than options->fail_above, significantly? */
bool diff_fails(const struct diff *diff, const struct diff_options *options);
/* The only process of each profile, by name. */
static inline bool diff_has_programs(const struct diff *d)
{
	return d->programs[0].process && d->programs[1].process;
}
/* A scale by median or share makes a change of the whole vanish. */
static inline bool diff_hides_whole(const struct diff *d)
{
	return d->scaled == DIFF_MEDIAN || d->scaled == DIFF_SHARE;
}
static inline bool diff_whole_is_significant(const struct diff *d)
{
	return fabs(d->whole_change) > d->whole_error;
}
/* Text or JSON.  @names: of the two files. */
int diff_write(const struct diff *diff, const struct diff_options *options,
	       const char *const names[2], FILE *out);
/* A page with a flame graph of both, of options->page: red where B costs more, blue where it costs less.  @names: as
 * above.  -errno of writing. */
int diff_page_write(const struct diff *diff, const char *const names[2], FILE *out);
