/* known-limits.c - see known-limits.h. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/cache-dir.h"
#include "cli/known-limits.h"

enum { MAX_BYTES = 16384 };
#define FILE_NAME "limits"

static bool is_known(const char *text, size_t size, const char *line)
{
	size_t len = strlen(line);

	for (const char *at = text, *end = text + size; at < end;) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));

		if (!stop)
			return false;
		if ((size_t)(stop - at) == len && !memcmp(at, line, len))
			return true;
		at = stop + 1;
	}
	return false;
}

/* A list that is too long for the file loses its oldest lines. */
static void remember(int dir, struct buffer *all)
{
	const char *text = (const char *)all->data, *end = text + all->len;

	while (end - text > MAX_BYTES) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));

		text = stop ? stop + 1 : end;
	}
	if (!all->bad)
		(void)cache_dir_write(dir, FILE_NAME, text, (size_t)(end - text));
}

bool known_limits(const char *const lines[], size_t n)
{
	_cleanup_(buffer_deinit) struct buffer all = {0};
	_cleanup_(fd_closep) int dir = -1;
	_cleanup_(freep) uint8_t *text = NULL;
	const char *notes = getenv("PERFWIND_NOTES");
	size_t size = 0, unknown = 0;

	if (notes && !strcmp(notes, "all"))
		return false;
	dir = cache_dir_open();
	if (dir < 0)
		return false;
	if (cache_dir_read(dir, FILE_NAME, MAX_BYTES, &text, &size) < 0)
		size = 0;
	buffer_append(&all, text, size);
	for (size_t i = 0; i < n; i++) {
		if (is_known((const char *)text, size, lines[i]))
			continue;
		unknown++;
		buffer_append(&all, lines[i], strlen(lines[i]));
		buffer_append(&all, "\n", 1);
	}
	if (unknown)
		remember(dir, &all);
	return !unknown;
}
