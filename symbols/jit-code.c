/* jit-code.c - the code of one function out of a jitdump (code.h).  jitdump.c has the format.
 *
 * A jitdump of a long run has one record for each version of a function: the last one at an address is taken. */
#include <errno.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/table.h"
#include "symbols/code.h"
#include "symbols/jitdump.h"

enum { PREFIX = 16, HEAD = PREFIX + 48, RECORDS_MAX = 4 << 20, LOAD = 0, MOVE = 1 };

struct finder {
	uint64_t wanted, file_size;
	struct table loads; /* address -> position of the record with the code */
	/* what was found last */
	uint64_t start, size, load;
	bool found;
};

static int take_record(struct finder *f, struct cursor *body, uint32_t id, uint64_t at)
{
	uint64_t start, size;

	(void)cursor_u64(body); /* pid, tid */
	(void)cursor_u64(body); /* vma */
	start = cursor_u64(body);
	if (id == MOVE) {
		if (!table_get(&f->loads, start, &at))
			return 0;
		start = cursor_u64(body);
	}
	size = cursor_u64(body);
	if (body->bad)
		return 0;
	if (f->wanted >= start && f->wanted - start < size) {
		f->start = start;
		f->size = size;
		f->load = at;
		f->found = true;
	}
	return trace(table_put(&f->loads, start, at));
}

/* The size of the record at @at, with its head in @to; 0: the end, or it is not written whole. */
static uint32_t read_record(int fd, uint64_t at, uint64_t file_size, uint8_t to[static HEAD],
			    struct cursor *ret_body, uint32_t *ret_id)
{
	ssize_t n = read_fd_at(fd, to, HEAD, at);
	struct cursor c = cursor_of(to, n < 0 ? 0 : (size_t)n);
	uint32_t size;

	*ret_id = cursor_u32(&c);
	size = cursor_u32(&c);
	(void)cursor_u64(&c); /* time */
	if (c.bad || size < PREFIX || at > file_size || size > file_size - at)
		return 0;
	*ret_body = cursor_of(c.p, min_u64(size - PREFIX, cursor_left(&c)));
	return size;
}

static int find(struct finder *f, int fd)
{
	uint8_t head[HEAD];
	struct cursor body;
	uint32_t header[3], id, size; /* magic, version, size of the header */
	uint64_t at;
	int r = 0;

	if (read_fd_at(fd, header, sizeof(header), 0) != sizeof(header))
		return fail(-EBADMSG);
	at = header[2];
	for (unsigned i = 0; i < RECORDS_MAX && r >= 0; i++, at += size) {
		size = read_record(fd, at, f->file_size, head, &body, &id);
		if (!size)
			break;
		if (id == LOAD || id == MOVE)
			r = take_record(f, &body, id, at);
	}
	return r < 0 ? trace(r) : 0;
}

/* The code stands behind the name, at the end of the record. */
static int read_code(const struct finder *f, int fd, struct uw_code *ret)
{
	_cleanup_(freep) uint8_t *data = NULL;
	uint64_t len = min_u64(f->size, UW_CODE_MAX);
	uint8_t head[HEAD];
	struct cursor body;
	uint32_t id, size = read_record(fd, f->load, f->file_size, head, &body, &id);

	if (!size || f->size > size - PREFIX)
		return fail(-EBADMSG);
	data = malloc(len + 1);
	if (!data)
		return fail(-ENOMEM);
	if (read_fd_at(fd, data, len, f->load + size - f->size) != (ssize_t)len)
		return fail(-EBADMSG);
	*ret = (struct uw_code){take(data), len, f->start, UW_ARCH_HOST};
	return 0;
}

int uw_code_load_jit(int fd, uint64_t vaddr, struct uw_code *ret)
{
	struct finder f = {.wanted = vaddr};
	struct stat st;
	int r;

	if (!jitdump_is(fd) || fstat(fd, &st) < 0)
		return fail(-EBADMSG);
	f.file_size = (uint64_t)st.st_size;
	r = find(&f, fd);
	table_deinit(&f.loads);
	if (r >= 0 && !f.found)
		return fail(-ENOENT);
	return r < 0 ? trace(r) : trace(read_code(&f, fd, ret));
}
