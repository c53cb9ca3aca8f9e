/* perfmap.c - names of code that a JIT compiler made: /tmp/perf-PID.map.
 *
 * The map is text, a line an entry: "START SIZE name to the end of the line", numbers in
 * hexadecimal (linux tools/perf/Documentation/jit-interface.txt).  The program appends to it while
 * it runs; where entries overlap, the later one is current.  A line of another form is skipped, as
 * is a last line without an end. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "symbols/jit-index.h"
#include "symbols/symbols.h"

enum { JIT_NAME_MAX = 1024 };

/* A name without an end of its own. */
static int add_name(struct uw_symbols_builder *b, uint64_t start, uint64_t size, const char *name,
		    size_t len)
{
	return trace(uw_symbols_add_kind(b, start, size, name, len, UW_RANK_GLOBAL,
					 jit_kind_of_name(name, len)));
}

/* ---- perf map ---- */

enum {
	TEXT_MAX = 64 << 20, /* of a longer file only the end is read: it has the latest entries */
};

static int read_tail(int fd, uint8_t **ret_data, size_t *ret_len)
{
	_cleanup_(freep) uint8_t *data = NULL;
	uint64_t from = 0;
	size_t size;
	ssize_t len;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return fail(-errno);
	if (!S_ISREG(st.st_mode) || st.st_size < 0)
		return fail(-EINVAL); /* the target chose it: a FIFO or a device is not read */
	size = (size_t)min_u64((uint64_t)st.st_size, TEXT_MAX);
	from = (uint64_t)st.st_size - size;
	data = malloc(size + 1);
	if (!data)
		return fail(-ENOMEM);
	len = read_fd_at(fd, data, size, from);
	if (len < 0)
		return trace((int)len);
	*ret_data = take(data);
	*ret_len = (size_t)len;
	return 0;
}

/* 1 to 16 digits, an optional 0x before. */
static bool read_hex(struct cursor *c, uint64_t *ret_value)
{
	uint64_t v = 0;
	unsigned n = 0;

	if (cursor_left(c) > 2 && c->p[0] == '0' && (c->p[1] | 0x20) == 'x')
		c->p += 2;
	for (; c->p < c->end; c->p++, n++) {
		uint8_t ch = *c->p, lower = ch | 0x20;

		if (ch >= '0' && ch <= '9')
			v = v << 4 | (uint64_t)(ch - '0');
		else if (lower >= 'a' && lower <= 'f')
			v = v << 4 | (uint64_t)(lower - 'a' + 10);
		else
			break;
	}
	*ret_value = v;
	return n >= 1 && n <= 16;
}

static int add_line(struct uw_symbols_builder *b, const uint8_t *line, size_t len)
{
	struct cursor c = cursor_of(line, len);
	uint64_t start, size;

	if (!read_hex(&c, &start) || cursor_u8(&c) != ' ' || !read_hex(&c, &size) ||
	    cursor_u8(&c) != ' ')
		return 0;
	len = cursor_left(&c);
	while (len && (c.p[len - 1] == '\r' || c.p[len - 1] == ' '))
		len--;
	if (!len || !size || size > UINT32_MAX || start > UINT64_MAX - size || memchr(c.p, 0, len))
		return 0;
	return add_name(b, start, size, (const char *)c.p, min_u64(len, JIT_NAME_MAX));
}

static int add_text(struct uw_symbols_builder *b, const uint8_t *text, size_t len)
{
	const uint8_t *end = text + len, *nl;

	for (; text < end && (nl = memchr(text, '\n', (size_t)(end - text))); text = nl + 1) {
		int r = add_line(b, text, (size_t)(nl - text));

		if (r < 0)
			return trace(r);
	}
	return 0;
}

int uw_symbols_of_perf_map(int fd, struct uw_symbols **ret_symbols)
{
	_cleanup_(uw_symbols_builder_deinit) struct uw_symbols_builder b = {.full = true};
	_cleanup_(freep) uint8_t *text = NULL;
	size_t len = 0;
	int r;

	if (fd < 0)
		return fail(-ENOENT);
	r = read_tail(fd, &text, &len);
	if (r >= 0)
		r = add_text(&b, text, len);
	if (r < 0)
		return trace(r);
	return trace(uw_symbols_build_latest(&b, ret_symbols));
}
