/* perfmap.c - names of code that a JIT compiler made: /tmp/perf-PID.map, or a jitdump (jit-PID.dump).
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
#include "base/table.h"
#include "symbols/symbols.h"

enum { JIT_NAME_MAX = 1024 };

/* The kind of code, by the names that runtimes give it: CPython's py::function:file (Python/perf_trampoline.c), V8's
 * TAG:*function file:line (src/logging/log.cc: mark * ~ ^ + for the tier). */
static enum frame_kind kind_of_name(const char *name, size_t len)
{
	static const char *const tags[] = {"JS:", "LazyCompile:", "Function:", "Script:", "Eval:"};

	if (len > 4 && !memcmp(name, "py::", 4))
		return FRAME_PYTHON;
	for (size_t i = 0; i < ARRAY_SIZE(tags); i++) {
		size_t tag = strlen(tags[i]);

		if (len > tag && !memcmp(name, tags[i], tag))
			return FRAME_JS;
	}
	return FRAME_NATIVE;
}

/* A name without an end of its own. */
static int add_name(struct uw_symbols_builder *b, uint64_t start, uint64_t size, const char *name,
		    size_t len)
{
	return trace(uw_symbols_add_kind(b, start, size, name, len, UW_RANK_GLOBAL,
					 kind_of_name(name, len)));
}

/* ---- jitdump ----
 *
 * The format is jitdump-specification.txt of linux tools/perf/Documentation: a header, then records
 * of u32 id, u32 size, u64 time and a body.  JIT_CODE_LOAD and JIT_CODE_MOVE have names and
 * addresses:
 *
 *   load   u32 pid, tid; u64 vma, address, size, index; name, NUL; the code
 *   move   u32 pid, tid; u64 vma, old address, new address, size, index
 *
 * The code makes the file large, so it is skipped: one pread() a record reads its head and name. */

enum {
	PREFIX = 16,
	LOAD_FIXED = 40,
	RECORDS_MAX = 4 << 20,
	JIT_CODE_LOAD = 0,
	JIT_CODE_MOVE = 1,
};
#define JITDUMP_MAGIC 0x4a695444u /* as a little endian machine writes it */

struct record {
	uint32_t id, size;
	uint8_t bytes[PREFIX + LOAD_FIXED + JIT_NAME_MAX + 1];
	struct cursor body;
};

static size_t read_at(int fd, uint64_t offset, void *to, size_t len)
{
	ssize_t n = read_fd_at(fd, to, len, offset);

	return n < 0 ? 0 : (size_t)n;
}

static bool jitdump_is(int fd)
{
	uint32_t magic = 0;
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       read_at(fd, 0, &magic, sizeof(magic)) == sizeof(magic) && magic == JITDUMP_MAGIC;
}

/* false: the end, or a record that is not written whole. */
static bool read_record(int fd, uint64_t at, struct record *record)
{
	size_t n = read_at(fd, at, record->bytes, sizeof(record->bytes));
	struct cursor c = cursor_of(record->bytes, n);

	record->id = cursor_u32(&c);
	record->size = cursor_u32(&c);
	(void)cursor_u64(&c);
	if (c.bad || record->size < PREFIX)
		return false;
	record->body = cursor_of(c.p, min_u64(record->size - PREFIX, cursor_left(&c)));
	return true;
}

/* A name that is longer than the bytes read is cut. */
static size_t name_of(const struct cursor *body, const char **ret_name)
{
	struct cursor c = *body;

	(void)cursor_bytes(&c, LOAD_FIXED);
	*ret_name = (const char *)c.p;
	return strnlen(*ret_name, min_u64(cursor_left(&c), JIT_NAME_MAX));
}

static int add(struct uw_symbols_builder *b, uint64_t address, uint64_t size,
	       const struct cursor *named)
{
	const char *name;
	size_t len = name_of(named, &name);

	if (!size || size > UINT32_MAX || address > UINT64_MAX - size)
		return 0;
	return add_name(b, address, size, name, len);
}

/* @loads: address -> offset of the record with its name. */
static int take_record(struct uw_symbols_builder *b, int fd, struct record *record, uint64_t at,
		       struct table *loads)
{
	struct cursor c = record->body;
	struct record load;
	uint64_t from, to, size;
	int r;

	(void)cursor_u64(&c);
	(void)cursor_u64(&c);
	from = cursor_u64(&c);
	if (record->id == JIT_CODE_LOAD) {
		size = cursor_u64(&c);
		(void)cursor_u64(&c);
		if (c.bad)
			return 0;
		r = add(b, from, size, &record->body);
		if (r >= 0)
			r = table_put(loads, from, at);
		return trace(r);
	}
	to = cursor_u64(&c);
	size = cursor_u64(&c);
	if (c.bad || !table_get(loads, from, &at) || !read_record(fd, at, &load))
		return 0;
	r = add(b, to, size, &load.body);
	if (r >= 0)
		r = table_put(loads, to, at);
	return trace(r);
}

/* Adds all that is written whole.  To be built by uw_symbols_build_latest(). */
static int jitdump_add(struct uw_symbols_builder *b, int fd)
{
	_cleanup_(table_deinit) struct table loads = {0};
	struct record record;
	uint32_t header[3]; /* magic, version, size of the header */
	struct stat st;
	uint64_t at;

	if (fstat(fd, &st) < 0 || read_at(fd, 0, header, sizeof(header)) != sizeof(header))
		return fail(-EBADMSG);
	at = header[2];
	for (unsigned i = 0; i < RECORDS_MAX && read_record(fd, at, &record);
	     i++, at += record.size) {
		int r = 0;

		if (at + record.size > (uint64_t)st.st_size)
			break;
		if (record.id == JIT_CODE_LOAD || record.id == JIT_CODE_MOVE)
			r = take_record(b, fd, &record, at, &loads);
		if (r < 0)
			return trace(r);
	}
	return 0;
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

int uw_symbols_of_jit(int fd, struct uw_symbols **ret_symbols)
{
	_cleanup_(uw_symbols_builder_deinit) struct uw_symbols_builder b = {.full = true};
	_cleanup_(freep) uint8_t *text = NULL;
	size_t len = 0;
	int r;

	if (fd < 0)
		return fail(-ENOENT);
	if (jitdump_is(fd)) {
		r = jitdump_add(&b, fd);
	} else {
		r = read_tail(fd, &text, &len);
		if (r >= 0)
			r = add_text(&b, text, len);
	}
	if (r < 0)
		return trace(r);
	return trace(uw_symbols_build_latest(&b, ret_symbols));
}
