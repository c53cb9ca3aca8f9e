/* kallsyms-read.c - the kernel's symbols out of the text of /proc/kallsyms.
 *
 * 120,000 lines and more, so each is looked at once: addresses by eight digits, names by pieces, and
 * only what does not come in order is sorted. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "symbols/kallsyms-private.h"

enum {
	CHUNK = 256 << 10,
	LINE_MIN = 5, /* "1 T x" and a newline, which the last line lacks */
	SYMBOLS_MAX = 2 << 20,
	NAMES_MAX = 128 << 20,
	PART_MAX = 64 << 20,
	SLACK = 64, /* bytes that may be read behind what is read, and written */
};
#define ORDER_SECOND (1u << 31)

/* Clang's control flow integrity names the body "f.cfi" and the jump table "f.cfi_jt". */
static size_t strip_suffix(const char *name, size_t len)
{
	static const char *const suffixes[] = {".cfi_jt", ".cfi"};

	if (name[len - 1] != 't' && name[len - 1] != 'i')
		return len;
	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		size_t n = strlen(suffixes[i]);

		if (len > n && !memcmp(name + len - n, suffixes[i], n))
			return len - n;
	}
	return len;
}

static const char *read_short_address(const char *p, const char *end, uint64_t *ret_address)
{
	uint64_t v = 0;
	const char *first = p;

	if (end - p > 16)
		end = p + 16;
	for (; p < end; p++) {
		/* 0-9 and a-f without a branch on which of them it is */
		unsigned digit = (unsigned char)*p, letter = digit >> 6;
		unsigned value = (digit & 15) + 9 * letter;

		if (value > 15 || (letter ? digit - 'a' > 5 : digit - '0' > 9))
			break;
		v = v << 4 | value;
	}
	*ret_address = v;
	return p > first ? p : NULL;
}

#define EACH_BYTE(value) (0x0101010101010101ull * (value))

/* Eight digits at once; false where one is none.  The lines of a 64-bit kernel have sixteen. */
static bool read_8_digits(const char *p, uint64_t *ret_value)
{
	uint64_t text, v, is_letter;

	memcpy(&text, p, sizeof(text));
	v = (text & EACH_BYTE(0x0f)) + (text >> 6 & EACH_BYTE(1)) * 9;
	if (v & EACH_BYTE(0xf0))
		return false;
	is_letter = (v + EACH_BYTE(0x76)) >> 7 & EACH_BYTE(1);
	if (text != v + EACH_BYTE('0') + is_letter * ('a' - 10 - '0'))
		return false;
	v = __builtin_bswap64(v); /* the first digit is the highest */
	v = (v | v >> 4) & 0x00ff00ff00ff00ff;
	v = (v | v >> 8) & 0x0000ffff0000ffff;
	*ret_value = (v | v >> 16) & 0xffffffff;
	return true;
}

/* The first half is most often that of the line before. */
static bool read_high(struct uw_kallsyms *ks, const char *p)
{
	if (!memcmp(ks->high, p, sizeof(ks->high)))
		return true;
	if (!read_8_digits(p, &ks->high_is))
		return false;
	memcpy(ks->high, p, sizeof(ks->high));
	return true;
}

static const char *read_address(struct uw_kallsyms *ks, const char *p, const char *end,
				uint64_t *ret_address)
{
	uint64_t low;

	if (end - p > 16 && p[16] == ' ' && read_high(ks, p) && read_8_digits(p + 8, &low)) {
		*ret_address = ks->high_is << 32 | low;
		return p + 16;
	}
	return read_short_address(p, end, ret_address);
}

/* Short ones by pieces: there is SLACK behind both. */
static void copy_name(uint8_t *to, const char *name, size_t len)
{
	if (len > SLACK) {
		memcpy(to, name, len);
		return;
	}
	for (size_t i = 0; i < len; i += 16)
		memcpy(to + i, name + i, 16);
}

static void add_symbol(struct uw_kallsyms *ks, uint64_t start, char type, const char *name,
		       size_t len)
{
	struct symbol s = {
		.start = start,
		.name = (uint32_t)ks->names.len,
		.order = (uint32_t)ks->n | (type == 'T' ? 0 : ORDER_SECOND),
	};

	if (ks->n >= SYMBOLS_MAX || ks->names.len > NAMES_MAX)
		return;
	/* There is room: reserve_for(). */
	memcpy(ks->symbols.data + ks->symbols.len, &s, sizeof(s));
	ks->symbols.len += sizeof(s);
	copy_name(ks->names.data + ks->names.len, name, len);
	ks->names.data[ks->names.len + len] = 0;
	ks->names.len += len + 1;
	ks->n++;
	if (start >= ks->last && ks->n_sorted + 1 == ks->n) {
		ks->n_sorted = ks->n;
		ks->last = start;
	}
}

static bool is_text(char type)
{
	return type == 'T' || type == 't' || type == 'W' || type == 'w';
}

bool kallsyms_read_head(const char *line, const char *end, uint64_t *ret_address, bool *ret_text)
{
	const char *p = read_short_address(line, end, ret_address);

	if (!p || end - p < 4 || p[0] != ' ' || p[2] != ' ')
		return false;
	*ret_text = is_text(p[1]) && p[3] != '$' && end[-1] != ']';
	return true;
}

static void read_line(struct uw_kallsyms *ks, const char *line, const char *end)
{
	uint64_t start;
	const char *p = read_address(ks, line, end, &start), *name;
	char type;

	if (!p || end - p < 4 || p[0] != ' ' || p[2] != ' ')
		return;
	type = p[1];
	if (!is_text(type))
		return;
	if (!start) {
		ks->zeros = true;
		return;
	}
	name = p + 3;
	/* Only a module's symbol has something behind its name: "\t[module]". */
	for (p = end[-1] == ']' ? name : end; p < end && *p != '\t' && *p != ' ';)
		p++;
	if (p == name || *name == '$' || (ks->nuls && memchr(name, 0, (size_t)(p - name))))
		return;
	if (ks->core) {
		if (p < end && *p == '\t')
			return;
		if (p - name == 5 && !memcmp(name, "_text", 5))
			ks->text = start;
	}
	add_symbol(ks, start, type, name,
		   strip_suffix(name, min_u64((uint64_t)(p - name), KALLSYMS_NAME_MAX)));
}

/* Room for all that @bytes of text can hold: a line has an address, a type and a name, and no less
 * than LINE_MIN bytes with its newline. */
static bool reserve_for(struct uw_kallsyms *ks, size_t bytes)
{
	return buffer_reserve(&ks->symbols, (bytes / LINE_MIN + 1) * sizeof(struct symbol)) &&
	       buffer_reserve(&ks->names, bytes + 1 + SLACK);
}

/* All that end; what is left begins at the pointer returned.  NULL: no memory. */
static const char *read_lines(struct uw_kallsyms *ks, const char *p, const char *end)
{
	const char *nl;

	ks->nuls = memchr(p, 0, (size_t)(end - p));
	if (!reserve_for(ks, (size_t)(end - p)))
		return NULL;
	for (; (nl = memchr(p, '\n', (size_t)(end - p))); p = nl + 1)
		read_line(ks, p, nl);
	return p;
}

static int read_text(struct uw_kallsyms *ks, int fd)
{
	_cleanup_(freep) char *chunk = calloc(1, CHUNK + SLACK);
	size_t have = 0;

	if (!chunk)
		return fail(-ENOMEM);
	for (;;) {
		ssize_t n = read(fd, chunk + have, CHUNK - have);
		const char *p = chunk, *end;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail(-errno);
		end = chunk + have + (size_t)n;
		p = read_lines(ks, p, end);
		if (!p)
			return fail(-ENOMEM);
		if (n == 0) {
			read_line(ks, p, end);
			return 0;
		}
		have = (size_t)(end - p);
		if (have == CHUNK)
			have = 0; /* no line is that long: not kallsyms */
		else
			memmove(chunk, p, have);
	}
}

static int by_start(const void *left, const void *right)
{
	const struct symbol *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

/* The kernel's own come in order, modules' and BPF's in any: only those are sorted, and merged in. */
static void sort_symbols(struct uw_kallsyms *ks)
{
	struct symbol *s = kallsyms_symbols(ks);
	size_t n = ks->n_sorted, left = ks->n - n, to = ks->n;
	_cleanup_(freep) struct symbol *tail = left ? malloc(left * sizeof(*tail)) : NULL;

	if (!left)
		return;
	if (!tail) {
		qsort(s, ks->n, sizeof(*s), by_start);
		return;
	}
	memcpy(tail, s + n, left * sizeof(*tail));
	qsort(tail, left, sizeof(*tail), by_start);
	while (left)
		s[--to] = n && s[n - 1].start > tail[left - 1].start ? s[--n] : tail[--left];
}

/* One name an address: the first global one, else the first. */
static void drop_aliases(struct uw_kallsyms *ks)
{
	struct symbol *s = kallsyms_symbols(ks);
	size_t n = 0;

	for (size_t i = 0; i < ks->n; i++) {
		if (n && s[n - 1].start == s[i].start) {
			if (s[i].order < s[n - 1].order)
				s[n - 1] = s[i];
		} else {
			s[n++] = s[i];
		}
	}
	ks->n = n;
}

/* Growing by doubling left up to half of it unused. */
static void shrink(struct buffer *b)
{
	uint8_t *less = b->len ? realloc(b->data, b->len) : NULL;

	if (less) {
		b->data = less;
		b->room = b->len;
	}
}

static int finish(struct uw_kallsyms *ks)
{
	if (ks->symbols.bad || ks->names.bad)
		return fail(-ENOMEM);
	sort_symbols(ks);
	drop_aliases(ks);
	ks->symbols.len = ks->n * sizeof(struct symbol);
	shrink(&ks->symbols);
	shrink(&ks->names);
	return 0;
}

int kallsyms_read(int fd, bool core, struct uw_kallsyms **ret_kallsyms)
{
	_cleanup_(kallsyms_freep) struct uw_kallsyms *ks = calloc(1, sizeof(*ks));
	int r;

	if (!ks)
		return fail(-ENOMEM);
	ks->core = core;
	r = read_text(ks, fd);
	if (r >= 0)
		r = finish(ks);
	if (r < 0)
		return trace(r);
	*ret_kallsyms = take(ks);
	return 0;
}

/* As much as there is. */
static int read_at(int fd, char *to, size_t len, uint64_t at, size_t *ret_len)
{
	size_t have = 0;

	while (have < len) {
		ssize_t n = pread(fd, to + have, len - have, (off_t)(at + have));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail(-errno);
		if (n == 0)
			break;
		have += (size_t)n;
	}
	*ret_len = have;
	return 0;
}

int kallsyms_read_part(int fd, uint64_t from, uint64_t to, struct uw_kallsyms **ret_kallsyms)
{
	_cleanup_(kallsyms_freep) struct uw_kallsyms *ks = calloc(1, sizeof(*ks));
	size_t len = min_u64(to - from, PART_MAX);
	_cleanup_(freep) char *text = calloc(1, len + SLACK);
	const char *rest;
	int r;

	if (!ks || !text)
		return fail(-ENOMEM);
	ks->core = true;
	r = read_at(fd, text, len, from, &len);
	if (r < 0)
		return trace(r);
	rest = read_lines(ks, text, text + len);
	if (!rest)
		return fail(-ENOMEM);
	read_line(ks, rest, text + len);
	r = finish(ks);
	if (r < 0)
		return trace(r);
	*ret_kallsyms = take(ks);
	return 0;
}
