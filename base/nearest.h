/* nearest.h - "did you mean": the known names nearest to one that is not known.  Thread: main. Only
 * used for an error line, so it may be slow. */
#pragma once

#include "base/util.h"

enum { NEAREST_MAX = 3, NEAREST_LEN = 128 };

struct nearest {
	const char *wanted; /* borrowed */
	struct {
		char name[NEAREST_LEN];
		unsigned int distance;
	} best[NEAREST_MAX]; /* ascending */
	size_t n;
};

void nearest_offer(struct nearest *nearest, const char *name);
/* Appends "; did you mean A, B or C?" to the text in @error, or nothing when no name is near. */
void nearest_append(const struct nearest *nearest, char *error, size_t error_size);

/* The insertions, deletions, replacements and swaps of neighbours that turn @a into @b, ignoring
 * case. Texts of NEAREST_LEN or more count as far from everything. */
unsigned int nearest_distance(const char *a, const char *b);
