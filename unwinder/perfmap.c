/* perfmap.c - names of code that a JIT compiler made: /tmp/perf-PID.map, or a jitdump.
 *
 * The map is text, a line an entry: "START SIZE name to the end of the line", numbers in hexadecimal
 * (linux tools/perf/Documentation/jit-interface.txt).  It is appended to while the program runs; where
 * entries overlap, the later one tells what is there now.  A line that is not of this form is skipped, also
 * the last one when it has no end yet.
 *
 * A jitdump (jitdump-specification.txt, same place) is records: u32 id, u32 size, u64 time.  Of these
 * JIT_CODE_LOAD (0) and JIT_CODE_MOVE (1) matter here; its code bytes and lines are not read. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/bytes.h"
#include "daemon/base/error.h"
#include "daemon/base/table.h"
#include "unwinder/symbols.h"

enum {
	TEXT_MAX = 64 << 20, /* of a longer file the end counts: what is new stands there */
	NAME_MAX_JIT = 1024,
	JIT_CODE_LOAD = 0,
	JIT_CODE_MOVE = 1,
};
#define JITDUMP_MAGIC 0x4a695444u /* "DTiJ" read as little endian */

static int read_tail(int fd, uint8_t **ret_data, size_t *ret_len)
{
	_cleanup_(freep) uint8_t *data = NULL;
	uint64_t from = 0;
	size_t len = 0, size;
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
	while (len < size) {
		ssize_t n = pread(fd, data + len, size - len, (off_t)(from + len));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail(-errno);
		if (n == 0)
			break;
		len += (size_t)n;
	}
	*ret_data = take(data);
	*ret_len = len;
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

	if (!read_hex(&c, &start) || cursor_u8(&c) != ' ' || !read_hex(&c, &size) || cursor_u8(&c) != ' ')
		return 0;
	len = cursor_left(&c);
	while (len && (c.p[len - 1] == '\r' || c.p[len - 1] == ' '))
		len--;
	if (!len || !size || size > UINT32_MAX || start > UINT64_MAX - size || memchr(c.p, 0, len))
		return 0;
	return trace(uw_symbols_add(b, start, size, (const char *)c.p, min_u64(len, NAME_MAX_JIT), UW_RANK_GLOBAL));
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

/* ---- jitdump ---- */

struct jit_code {
	uint64_t address, size;
	const char *name;
};

/* u32 pid, tid; u64 vma, address, size, index; name; code */
static bool read_load(struct cursor *c, struct jit_code *ret_code)
{
	(void)cursor_u64(c);
	(void)cursor_u64(c);
	ret_code->address = cursor_u64(c);
	ret_code->size = cursor_u64(c);
	(void)cursor_u64(c);
	ret_code->name = cursor_string(c);
	return !c->bad;
}

/* u32 pid, tid; u64 vma, old address, new address, size, index */
static bool read_move(struct cursor *c, uint64_t *ret_from, struct jit_code *ret_code)
{
	(void)cursor_u64(c);
	(void)cursor_u64(c);
	*ret_from = cursor_u64(c);
	ret_code->address = cursor_u64(c);
	ret_code->size = cursor_u64(c);
	return !c->bad;
}

static int add_code(struct uw_symbols_builder *b, const struct jit_code *code)
{
	if (!code->name || !code->size || code->size > UINT32_MAX || code->address > UINT64_MAX - code->size)
		return 0;
	return trace(uw_symbols_add(b, code->address, code->size, code->name, strnlen(code->name, NAME_MAX_JIT),
				    UW_RANK_GLOBAL));
}

static int add_jitdump(struct uw_symbols_builder *b, const uint8_t *data, size_t len)
{
	_cleanup_(table_deinit) struct table names = {0}; /* address -> name, for moves */
	struct cursor c = cursor_of(data, len);
	uint32_t header;

	(void)cursor_u64(&c); /* magic, version */
	header = cursor_u32(&c);
	c = cursor_of(data, len);
	(void)cursor_bytes(&c, header);
	while (cursor_left(&c) >= 16) {
		uint32_t id = cursor_u32(&c), size = cursor_u32(&c);
		struct cursor body;
		struct jit_code code = {0};
		uint64_t from;
		int r = 0;

		(void)cursor_u64(&c);
		if (size < 16 || size - 16 > cursor_left(&c))
			break; /* damaged, or not written whole yet */
		body = cursor_of(cursor_bytes(&c, size - 16), size - 16);
		if (id == JIT_CODE_MOVE && read_move(&body, &from, &code))
			code.name = table_pointer(&names, from);
		else if (id != JIT_CODE_LOAD || !read_load(&body, &code))
			continue;
		r = add_code(b, &code);
		if (r >= 0 && code.name)
			r = table_put(&names, code.address, (uint64_t)(uintptr_t)code.name);
		if (r < 0)
			return trace(r);
	}
	return 0;
}

int uw_symbols_of_jit(int fd, struct uw_symbols **ret_symbols)
{
	_cleanup_(uw_symbols_builder_deinit) struct uw_symbols_builder b = {.full = true};
	_cleanup_(freep) uint8_t *data = NULL;
	uint32_t magic = 0;
	size_t len = 0;
	int r;

	if (fd < 0)
		return fail(-ENOENT);
	r = read_tail(fd, &data, &len);
	if (r < 0)
		return trace(r);
	if (len >= sizeof(magic))
		memcpy(&magic, data, sizeof(magic));
	r = magic == JITDUMP_MAGIC ? add_jitdump(&b, data, len) : add_text(&b, data, len);
	if (r < 0)
		return trace(r);
	return trace(uw_symbols_build_latest(&b, ret_symbols));
}
