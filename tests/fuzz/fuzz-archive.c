/* fuzz-archive.c - a tarball of perf archive.  What must hold: each file has the bytes that it announced, or the archive ends in
 * it; a build id has a length; the pieces in which the bytes come change nothing. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proc/archive-members.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
	uint64_t left, files, sum;
};

static int member(void *arg, const struct archive_member *m)
{
	struct seen *s = arg;

	if (s->left || m->id.len < 2 || m->id.len > UW_BUILD_ID_MAX || m->kind >= ARCHIVE_KINDS)
		abort();
	s->left = m->size;
	s->files++;
	s->sum = s->sum * 31 + m->size + m->id.bytes[0] + m->kind;
	return m->size > (1ull << 40) ? -EFBIG : 0;
}

static int bytes(void *arg, const uint8_t *data, size_t len)
{
	struct seen *s = arg;

	if (!len || len > s->left)
		abort();
	s->left -= len;
	for (size_t i = 0; i < len; i++)
		s->sum = s->sum * 31 + data[i];
	return 0;
}

static int read_in(const uint8_t *data, size_t size, size_t piece, struct seen *s)
{
	struct archive_reader r = {.member = member, .data = bytes, .arg = s};
	int e = 0;

	*s = (struct seen){0};
	for (size_t at = 0; at < size && e == 0; at += piece)
		e = archive_read(&r, data + at, min_u64(piece, size - at));
	if (e == 0 && archive_may_end(&r) && s->left)
		abort();
	return e;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen whole, parts;

	if (read_in(data, size, size + 1, &whole) != read_in(data, size, 3, &parts) ||
	    whole.sum != parts.sum || whole.files != parts.files || whole.left != parts.left)
		abort();
	return 0;
}
