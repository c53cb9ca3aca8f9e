/* jitdump.c - see jitdump.h.
 *
 * The format is jitdump-specification.txt of linux tools/perf/Documentation: a header, then records
 * of u32 id, u32 size, u64 time and a body.  JIT_CODE_LOAD and JIT_CODE_MOVE tell names and
 * addresses:
 *
 *   load   u32 pid, tid; u64 vma, address, size, index; name, NUL; the code
 *   move   u32 pid, tid; u64 vma, old address, new address, size, index
 *
 * The code makes the file large, so it is stepped over: one pread a record gets its head and name.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/table.h"
#include "symbols/jitdump.h"

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
	uint8_t bytes[PREFIX + LOAD_FIXED + UW_JIT_NAME_MAX + 1];
	struct cursor body;
};

static size_t read_at(int fd, uint64_t offset, void *to, size_t len)
{
	ssize_t n;

	if (offset > INT64_MAX)
		return 0;
	do
		n = pread(fd, to, len, (off_t)offset);
	while (n < 0 && errno == EINTR);
	return n < 0 ? 0 : (size_t)n;
}

bool uw_jitdump_is(int fd)
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

/* A name that is longer than what was read of it is cut. */
static size_t name_of(const struct cursor *body, const char **ret_name)
{
	struct cursor c = *body;

	(void)cursor_bytes(&c, LOAD_FIXED);
	*ret_name = (const char *)c.p;
	return strnlen(*ret_name, min_u64(cursor_left(&c), UW_JIT_NAME_MAX));
}

static int add(struct uw_symbols_builder *b, uint64_t address, uint64_t size,
	       const struct cursor *named)
{
	const char *name;
	size_t len = name_of(named, &name);

	if (!size || size > UINT32_MAX || address > UINT64_MAX - size)
		return 0;
	return trace(uw_symbols_add(b, address, size, name, len, UW_RANK_GLOBAL));
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

int uw_jitdump_add(struct uw_symbols_builder *b, int fd)
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
