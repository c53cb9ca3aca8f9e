/* archive-members.c - see archive-members.h.
 *
 * Blocks of 512 bytes (tar(5)): a header, then the bytes of the member, filled up with zeros.  A block of zeros ends the archive.
 *
 *   0 name[100]  124 size[12]  148 checksum[8]  156 type  257 "ustar"  345 prefix[155]
 *
 * Numbers are octal text; a size may be big-endian binary behind a byte 0x80.  The name of a member that is too long for its
 * header comes before it: as bytes of a member of type L (GNU), or as "LENGTH path=NAME\n" in one of type x (pax), which may
 * have "size=" too. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "proc/archive-members.h"

enum { NAME_AT = 0, NAME_LEN = 100, SIZE_AT = 124, SIZE_LEN = 12, SUM_AT = 148, SUM_LEN = 8 };
enum { TYPE_AT = 156, MAGIC_AT = 257, PREFIX_AT = 345, PREFIX_LEN = 155 };
enum { HEADER, FILE_BYTES, NAME_BYTES, PAX_BYTES, PASSED_BYTES, ENDED };

const char *archive_kind_name(enum archive_kind kind)
{
	static const char *const names[ARCHIVE_KINDS] = {
		[ARCHIVE_ELF] = "elf",
		[ARCHIVE_DEBUG] = "debug",
		[ARCHIVE_VDSO] = "vdso",
		[ARCHIVE_KALLSYMS] = "kallsyms",
	};

	return names[kind];
}

/* ---- names ---- */

static int digit_of(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool id_of(const char *hex, size_t len, struct uw_build_id *id)
{
	if (len < 4 || len % 2 || len > 2 * UW_BUILD_ID_MAX)
		return false;
	*id = (struct uw_build_id){.len = (uint8_t)(len / 2)};
	for (size_t i = 0; i < len; i += 2) {
		int high = digit_of(hex[i]), low = digit_of(hex[i + 1]);

		if (high < 0 || low < 0)
			return false;
		id->bytes[i / 2] = (uint8_t)(high << 4 | low);
	}
	return true;
}

/* "usr/bin/x/ab01/elf". */
static bool member_of(const char *name, struct archive_member *m)
{
	const char *kind = strrchr(name, '/'), *id = kind;

	if (!kind)
		return false;
	while (id > name && id[-1] != '/')
		id--;
	if (!id_of(id, (size_t)(kind - id), &m->id))
		return false;
	for (unsigned i = 0; i < ARCHIVE_KINDS; i++) {
		m->kind = (enum archive_kind)i;
		if (!strcmp(kind + 1, archive_kind_name(m->kind)))
			return true;
	}
	return false;
}

/* ---- headers ---- */

/* -EBADMSG: not a number. */
static int octal_of(const uint8_t *at, size_t len, uint64_t *ret)
{
	uint64_t value = 0;
	size_t i = 0;

	while (i < len && at[i] == ' ')
		i++;
	for (; i < len && at[i] && at[i] != ' '; i++) {
		if (at[i] < '0' || at[i] > '7' || value >> 60)
			return fail(-EBADMSG);
		value = value << 3 | (uint64_t)(at[i] - '0');
	}
	*ret = value;
	return 0;
}

static int size_of(const uint8_t *at, uint64_t *ret)
{
	uint64_t value = 0;

	if (!(at[0] & 0x80))
		return octal_of(at, SIZE_LEN, ret);
	for (size_t i = 1; i < SIZE_LEN; i++) {
		if (value >> 55)
			return fail(-EBADMSG);
		value = value << 8 | at[i];
	}
	*ret = value;
	return 0;
}

static bool sum_is_right(const uint8_t *block)
{
	uint64_t sum = 0, wanted;

	for (size_t i = 0; i < ARCHIVE_BLOCK; i++)
		sum += i - SUM_AT < SUM_LEN ? ' ' : block[i];
	return octal_of(block + SUM_AT, SUM_LEN, &wanted) >= 0 && sum == wanted;
}

static bool is_zero(const uint8_t *block)
{
	for (size_t i = 0; i < ARCHIVE_BLOCK; i++)
		if (block[i])
			return false;
	return true;
}

static void take_name(struct archive_reader *r)
{
	const char *block = (const char *)r->block;
	int prefix = 0;

	if (*r->name)
		return;
	if (!memcmp(block + MAGIC_AT, "ustar\0", 6)) /* GNU's magic is "ustar ": no prefix */
		prefix = (int)strnlen(block + PREFIX_AT, PREFIX_LEN);
	(void)snprintf(r->name, sizeof(r->name), "%.*s%s%.*s", prefix, block + PREFIX_AT,
		       prefix ? "/" : "", NAME_LEN, block + NAME_AT);
}

static void forget_name(struct archive_reader *r)
{
	r->name[0] = 0;
	r->n_name = 0;
	r->has_size = false;
}

static int begin_file(struct archive_reader *r)
{
	struct archive_member m = {.size = r->left};
	int e;

	take_name(r);
	r->state = PASSED_BYTES;
	if (!member_of(r->name, &m)) {
		forget_name(r);
		return 0;
	}
	forget_name(r);
	r->state = FILE_BYTES;
	e = r->member(r->arg, &m);
	return e < 0 ? trace(e) : 0;
}

static int begin_member(struct archive_reader *r)
{
	uint8_t type = r->block[TYPE_AT];
	uint64_t size;
	int e;

	if (is_zero(r->block)) {
		r->state = ENDED;
		return ARCHIVE_END;
	}
	e = sum_is_right(r->block) ? size_of(r->block + SIZE_AT, &size) : fail(-EBADMSG);
	if (e < 0)
		return trace(e);
	if (r->has_size && type != 'x' && type != 'L')
		size = r->size;
	r->left = size;
	r->padding = (ARCHIVE_BLOCK - size % ARCHIVE_BLOCK) % ARCHIVE_BLOCK;
	if (type == 'L') {
		r->state = NAME_BYTES;
		r->n_name = 0;
		return 0;
	}
	if (type == 'x') {
		r->state = PAX_BYTES;
		r->n_words = 0;
		return 0;
	}
	if (type == '0' || type == 0 || type == '7')
		return begin_file(r);
	r->state = PASSED_BYTES; /* links, folders, all other types */
	forget_name(r);
	return 0;
}

/* ---- names that come before a header ---- */

static void append(char *to, size_t *n, const uint8_t *data, size_t len)
{
	size_t room = ARCHIVE_NAME_MAX - 1 - *n;

	len = min_u64(len, room);
	memcpy(to + *n, data, len);
	*n += len;
	to[*n] = 0;
}

/* "LENGTH KEYWORD=VALUE\n", again and again.  Words behind a damaged one are not read. */
static void read_words(struct archive_reader *r)
{
	const char *at = r->words, *end = r->words + r->n_words;

	while (at < end) {
		char *behind;
		uint64_t len = 0;
		const char *word = at;

		while (word < end && *word >= '0' && *word <= '9' && len < ARCHIVE_NAME_MAX)
			len = len * 10 + (uint64_t)(*word++ - '0');
		if (word == end || *word != ' ' || len <= (uint64_t)(word + 1 - at) ||
		    len > (uint64_t)(end - at) || at[len - 1] != '\n')
			return;
		word++;
		behind = r->words + (at - r->words) + len - 1;
		*behind = 0;
		if (!strncmp(word, "path=", 5))
			(void)snprintf(r->name, sizeof(r->name), "%s", word + 5);
		else if (!strncmp(word, "size=", 5))
			r->has_size = parse_u64(word + 5, 10, INT64_MAX, &r->size) >= 0;
		at += len;
	}
}

static void end_member(struct archive_reader *r)
{
	if (r->state == PAX_BYTES)
		read_words(r);
	r->state = HEADER;
}

/* ---- bytes ---- */

static int take_bytes(struct archive_reader *r, const uint8_t *data, size_t len)
{
	int e = 0;

	if (r->state == FILE_BYTES)
		e = r->data(r->arg, data, len);
	else if (r->state == NAME_BYTES)
		append(r->name, &r->n_name, data, len);
	else if (r->state == PAX_BYTES)
		append(r->words, &r->n_words, data, len);
	return e < 0 ? trace(e) : 0;
}

/* How many of the @len bytes at @data were used, or an error. */
static ssize_t take_some(struct archive_reader *r, const uint8_t *data, size_t len)
{
	size_t n;
	int e;

	if (r->state == HEADER) {
		n = min_u64(len, ARCHIVE_BLOCK - r->n_block);
		memcpy(r->block + r->n_block, data, n);
		r->n_block += n;
		if (r->n_block < ARCHIVE_BLOCK)
			return (ssize_t)n;
		r->n_block = 0;
		e = begin_member(r);
		if (e < 0)
			return trace(e);
	} else if (r->left) {
		n = min_u64(len, r->left);
		e = take_bytes(r, data, n);
		if (e < 0)
			return trace(e);
		r->left -= n;
	} else {
		n = min_u64(len, r->padding);
		r->padding -= n;
	}
	if (r->state != HEADER && r->state != ENDED && !r->left && !r->padding)
		end_member(r);
	return (ssize_t)n;
}

int archive_read(struct archive_reader *r, const uint8_t *data, size_t len)
{
	while (len && r->state != ENDED) {
		ssize_t n = take_some(r, data, len);

		if (n < 0)
			return (int)n;
		data += n;
		len -= (size_t)n;
	}
	return r->state == ENDED ? ARCHIVE_END : 0;
}

bool archive_may_end(const struct archive_reader *r)
{
	return r->state == ENDED || (r->state == HEADER && !r->n_block);
}
