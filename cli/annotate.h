/* annotate.h - the samples of one function by source line and by instruction.  Thread: main.
 *
 *   trace: leaf addresses of the function's samples ──► file of their module (by build id) ──► instructions, lines
 *
 * Without the file there are the sampled addresses with the lines that the trace has.
 *
 * A sample is the function's own (the self column of a report), of a call that was inlined into it, at any depth, or of one
 * that it called.  The first two are shown, at the line of the function itself that the calls were inlined at; those of
 * inlined calls at their own lines, too.  Instructions are those of the function of the image around them. */
#pragma once

#include "base/table.h"
#include "proc/file-places.h"
#include "profile/profile.h"

enum { ANNOTATE_PARTS = 16, ANNOTATE_INSTRUCTIONS = 1 << 19 };

struct annotate_options {
	const char *function;
	const struct profile_filter *only; /* may be NULL */
	const struct file_places *places;
	const char *jitdump; /* the file with the code of a JIT compiler; NULL: looked for */
	bool intel;	     /* syntax */
};

struct annotate_figure {
	uint64_t weight, count; /* count: of samples */
};
struct annotate_line {
	uint32_t file, line; /* 0: unknown.  file: in texts */
	struct annotate_figure all, self;
};
/* By weight. */
struct annotate_lines {
	struct annotate_line *list;
	size_t n;
};
struct annotate_instruction {
	uint64_t address;
	uint64_t weight, count; /* of samples at it */
	uint32_t file, line;	/* 0: unknown */
	uint32_t text;		/* in texts, 0: not disassembled */
};
/* A function of the image: that of the name, or one that it was inlined into. */
struct annotate_part {
	uint32_t name; /* in texts, 0: unknown */
	uint64_t start, weight, count;
	struct annotate_instruction *instructions; /* ascending */
	size_t n, room;
};
struct annotation {
	struct string_table texts;
	uint32_t module, function;	      /* in texts: a path, a name */
	uint32_t n_functions;		      /* of this name, in this module */
	struct annotate_figure self, inlined; /* its own samples; of what was inlined into it */
	struct annotate_figure called;	      /* its other samples, in calls */
	uint64_t unsplit;		/* of self.count: in inlined calls that the trace lacks */
	uint64_t weight, count;		/* self and inlined */
	uint64_t elsewhere;		/* the same in other modules */
	uint64_t all_weight, all_count; /* of the profile */
	struct annotate_part parts[ANNOTATE_PARTS]; /* by weight */
	size_t n_parts;
	uint64_t left_out;		     /* samples in further parts */
	struct annotate_lines lines;	     /* of the function */
	struct annotate_lines inlined_lines; /* of what was inlined into it */
	const char *note;		     /* why there are no instructions; NULL: there are */
	bool interpreted;		     /* its addresses are not of code */
};

/* -ENOENT: profile_strerror() has a line; -ENODATA: all samples of the function are in calls; else as fold_init(). */
int annotate_init(struct annotation *annotation, const struct profile *profile,
		  const struct annotate_options *options);
void annotate_deinit(struct annotation *annotation);

struct annotate_form {
	const char *event; /* name */
	const char *symfs; /* before the paths of source files; may be NULL */
	uint32_t limit;	   /* lines of a table of lines; 0: all */
	bool all;	   /* instructions far from samples too */
	bool json;
};
/* -errno of writing. */
int annotate_write(const struct annotation *annotation, const struct annotate_form *form,
		   FILE *out);
