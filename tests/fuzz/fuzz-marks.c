/* fuzz-marks.c - any bytes as text of trace_marker, each line one mark.  What must hold: names lie in the text and within their
 * bound, a mark that was refused sets nothing. */
#include <string.h>

#include "base/util.h"
#include "marks/mark-text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_name(const char *name, size_t len, const char *text, size_t size)
{
	if (len > MARK_NAME_MAX || (len && (name < text || name + len > text + size)))
		abort();
}

/* The bytes end where the allocation ends: a sanitizer sees one byte too many. */
static void one(const char *bytes, size_t size)
{
	char *text = malloc(size ? size : 1);
	struct mark m;
	int r;

	if (!text)
		return;
	memset(&m, 0x55, sizeof(m));
	memcpy(text, bytes, size);
	r = mark_text_parse(text, size, &m);
	if (r < 0 || r > MARK_TEXT_DAMAGED)
		abort();
	if (r == MARK_TEXT_DAMAGED) {
		if (m.kind != 0x55)
			abort();
	} else {
		if (m.kind < MARK_BEGIN || m.kind > MARK_TRACK_END || m.named_pid < 0 ||
		    (r == MARK_TEXT_OTHER && m.kind != MARK_INSTANT))
			abort();
		check_name(m.name, m.name_len, text, size);
		check_name(m.track, m.track_len, text, size);
	}
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;

	one(text, size);
	for (size_t at = 0, end; at < size; at = end + 1) {
		const char *newline = memchr(text + at, '\n', size - at);

		end = newline ? (size_t)(newline - text) : size;
		one(text + at, end - at);
	}
	return 0;
}
