/* annotate.h - the samples of one function by source line and by instruction.  Thread: main.
 *
 *   trace: leaf addresses of the function's samples ──► file of their module (by build id) ──► instructions, lines
 *
 * Without the file there are the sampled addresses with the lines that the trace has.  A call that was inlined is of its
 * own lines; its instructions are shown among the instructions of the function that it was inlined into. */
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

struct annotate_line {
	uint32_t file, line; /* file: in texts, 0: unknown */
	uint64_t weight, count;
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
	uint32_t module, function;		    /* in texts: a path, a name */
	uint64_t weight, count;			    /* of the function alone, in this module */
	uint64_t elsewhere;			    /* its samples in other modules */
	uint64_t all_weight, all_count;		    /* of the profile */
	struct annotate_part parts[ANNOTATE_PARTS]; /* by weight */
	size_t n_parts;
	uint64_t left_out;	     /* samples in further parts */
	struct annotate_line *lines; /* by weight */
	size_t n_lines;
	const char *note; /* why there are no instructions; NULL: there are */
	bool interpreted; /* its addresses are not of code */
};

/* -ENOENT: profile_strerror() has a line; -ENODATA: the function has no sample of its own; else as fold_init(). */
int annotate_init(struct annotation *annotation, const struct profile *profile,
		  const struct annotate_options *options);
void annotate_deinit(struct annotation *annotation);

struct annotate_form {
	const char *event; /* name */
	const char *symfs; /* before the paths of source files; may be NULL */
	uint32_t limit;	   /* lines of the first table; 0: all */
	bool all;	   /* instructions far from samples too */
	bool json;
};
/* -errno of writing. */
int annotate_write(const struct annotation *annotation, const struct annotate_form *form,
		   FILE *out);
