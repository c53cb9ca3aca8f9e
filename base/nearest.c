/* nearest.c - see nearest.h.
 * A name that contains the wanted word is nearer than any misspelling: "sched_switch" wants
 * "sched:sched_switch".  Otherwise a third of the letters may differ; beyond that a hint only
 * misleads. */
#include <ctype.h>
#include <string.h>

#include "base/nearest.h"

static unsigned int min_uint(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

unsigned int nearest_distance(const char *a, const char *b)
{
	/* three rows of the usual table: a swap looks two rows back */
	unsigned int rows[3][NEAREST_LEN + 1];
	size_t len_a = strnlen(a, NEAREST_LEN), len_b = strnlen(b, NEAREST_LEN);

	if (len_a >= NEAREST_LEN || len_b >= NEAREST_LEN)
		return NEAREST_LEN;
	for (size_t j = 0; j <= len_b; j++)
		rows[0][j] = (unsigned int)j;
	for (size_t i = 1; i <= len_a; i++) {
		unsigned int *row = rows[i % 3], *above = rows[(i + 2) % 3];
		const unsigned int *above2 = rows[(i + 1) % 3];

		row[0] = (unsigned int)i;
		for (size_t j = 1; j <= len_b; j++) {
			int ca = tolower((unsigned char)a[i - 1]),
			    cb = tolower((unsigned char)b[j - 1]);

			row[j] = min_uint(above[j - 1] + (ca != cb),
					  min_uint(above[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && ca == tolower((unsigned char)b[j - 2]) &&
			    cb == tolower((unsigned char)a[i - 2]))
				row[j] = min_uint(row[j], above2[j - 2] + 1);
		}
	}
	return rows[len_a % 3][len_b];
}

void nearest_offer(struct nearest *nearest, const char *name)
{
	size_t len = strlen(nearest->wanted), limit = len / 3 > 2 ? len / 3 : 2, at;
	unsigned int distance;

	if (strlen(name) >= NEAREST_LEN)
		return;
	if (len >= 3 && strcasestr(name, nearest->wanted))
		distance = 0;
	else
		distance = nearest_distance(nearest->wanted, name);
	if (distance > limit)
		return;
	for (at = 0; at < nearest->n; at++) {
		if (strcmp(nearest->best[at].name, name) == 0)
			return;
		if (distance < nearest->best[at].distance)
			break;
	}
	if (at == NEAREST_MAX)
		return;
	if (nearest->n < NEAREST_MAX)
		nearest->n++;
	memmove(&nearest->best[at + 1], &nearest->best[at],
		(nearest->n - at - 1) * sizeof(nearest->best[0]));
	memcpy(nearest->best[at].name, name, strlen(name) + 1);
	nearest->best[at].distance = distance;
}

void nearest_append(const struct nearest *nearest, char *error, size_t error_size)
{
	for (size_t i = 0; i < nearest->n; i++) {
		size_t len = strnlen(error, error_size);
		const char *before = i == 0		   ? "; did you mean "
				     : i + 1 == nearest->n ? " or "
							   : ", ";

		if (len >= error_size)
			return;
		(void)snprintf(error + len, error_size - len, "%s%s%s", before,
			       nearest->best[i].name, i + 1 == nearest->n ? "?" : "");
	}
}
