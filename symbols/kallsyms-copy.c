/* kallsyms-copy.c - a copy of /proc/kallsyms in a file, of which little is parsed.
 *
 *   text:    |..........|..........|......    the kernel's own symbols ascend
 *   look at:   ^^         ^^         ^^       WINDOW bytes of every STEP
 *   parts:     |.........|...........|...     each from the first line there with another address
 *                                             than the line before
 *
 * A recording has a few hundred addresses of the kernel, its names are 120,000 lines: to parse them
 * all was a tenth of an import.  As all names of an address are in one part, a part on its own gives
 * the same name as the whole.  Modules' symbols follow the kernel's own, and end the last part. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "symbols/kallsyms-private.h"

enum { STEP = 4096, WINDOW = 512, SIZE_MAX_BYTES = 256 << 20 };

struct part {
	uint64_t first;	 /* address; of the first part 0 */
	uint64_t offset; /* in the file */
	struct uw_kallsyms *symbols;
	bool bad;
};

struct kallsyms_copy {
	int fd;
	uint64_t end; /* of the last part's text */
	uint64_t text, first, last;
	size_t n;
	struct part *parts;
};

struct kallsyms_copy *kallsyms_copy_free(struct kallsyms_copy *c)
{
	if (!c)
		return NULL;
	for (size_t i = 0; i < c->n; i++)
		(void)uw_kallsyms_free(c->parts[i].symbols);
	free(c->parts);
	fd_close(c->fd);
	free(c);
	return NULL;
}

static void copy_freep(struct kallsyms_copy **c)
{
	kallsyms_copy_free(*c);
}

enum look { LOOK_NOTHING, LOOK_BEGINS, LOOK_ENDS };

/* Where a part may begin, or the last one ends, in the text, which begins anywhere in a line; it
 * stands at @at. */
static enum look look_at(const char *text, size_t len, uint64_t at, struct part *part)
{
	const char *p = memchr(text, '\n', len), *end = text + len, *nl;
	uint64_t before = 0, address;
	bool known = false, is_text;

	for (; p && (nl = memchr(p + 1, '\n', (size_t)(end - p - 1))); p = nl) {
		part->offset = at + (uint64_t)(p + 1 - text);
		if (nl[-1] == ']')
			return LOOK_ENDS;
		if (!kallsyms_read_head(p + 1, nl, &address, &is_text)) {
			known = false;
			continue;
		}
		if (known && is_text && address > before) {
			part->first = address;
			return LOOK_BEGINS;
		}
		known = true;
		before = address;
	}
	return LOOK_NOTHING;
}

static int find_parts(struct kallsyms_copy *c)
{
	char window[WINDOW];

	c->parts[c->n++] = (struct part){0};
	for (uint64_t at = STEP; at < c->end; at += STEP) {
		struct part part = {0};
		ssize_t n = pread(c->fd, window, WINDOW, (off_t)at);
		enum look look;

		if (n < 0)
			return fail(-errno);
		look = look_at(window, (size_t)n, at, &part);
		if (look == LOOK_ENDS)
			c->end = part.offset;
		else if (look == LOOK_BEGINS && part.first > c->parts[c->n - 1].first)
			c->parts[c->n++] = part;
		else if (look == LOOK_BEGINS)
			return KALLSYMS_WHOLE; /* it does not ascend */
	}
	return 0;
}

static const struct uw_kallsyms *symbols_of(struct kallsyms_copy *c, size_t i)
{
	struct part *p = &c->parts[i];
	uint64_t to = i + 1 < c->n ? p[1].offset : c->end;

	if (!p->symbols && !p->bad)
		p->bad = kallsyms_read_part(c->fd, p->offset, to, &p->symbols) < 0;
	return p->symbols;
}

/* The two ends of what it has: _text is among the first. */
static int find_range(struct kallsyms_copy *c)
{
	const struct uw_kallsyms *low = symbols_of(c, 0), *high = symbols_of(c, c->n - 1);

	if (!low || !high || !low->n || !high->n || !low->text)
		return KALLSYMS_WHOLE;
	c->text = low->text;
	c->first = kallsyms_symbols(low)[0].start;
	c->last = kallsyms_symbols(high)[high->n - 1].start;
	return 0;
}

int kallsyms_copy_new(int fd, struct kallsyms_copy **ret_copy)
{
	_cleanup_(copy_freep) struct kallsyms_copy *c = calloc(1, sizeof(*c));
	struct stat st;
	int r;

	if (!c)
		return fail(-ENOMEM);
	c->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (c->fd < 0 || fstat(fd, &st) < 0)
		return fail(-errno);
	if (st.st_size > SIZE_MAX_BYTES)
		return KALLSYMS_WHOLE;
	c->end = (uint64_t)st.st_size;
	c->parts = calloc(c->end / STEP + 2, sizeof(*c->parts));
	if (!c->parts)
		return fail(-ENOMEM);
	r = find_parts(c);
	if (r == 0)
		r = find_range(c);
	if (r != 0)
		return r < 0 ? trace(r) : r;
	*ret_copy = take(c);
	return 0;
}

const struct uw_kallsyms *kallsyms_copy_part(struct kallsyms_copy *c, uint64_t address)
{
	size_t low = 0, high = c->n; /* the last that begins at or below lies in [low, high) */

	while (high - low > 1) {
		size_t mid = low + (high - low) / 2;

		if (c->parts[mid].first <= address)
			low = mid;
		else
			high = mid;
	}
	return symbols_of(c, low);
}

uint64_t kallsyms_copy_text(const struct kallsyms_copy *c)
{
	return c->text;
}

void kallsyms_copy_range(const struct kallsyms_copy *c, uint64_t *ret_first, uint64_t *ret_last)
{
	*ret_first = c->first;
	*ret_last = c->last;
}
