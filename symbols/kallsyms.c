/* kallsyms.c - see kallsyms.h.
 *
 *   address type name [module]     a line each, 200,000 and more; sorted in parts only
 *
 * Text symbols are kept in one array by address and one block of names, or in one of each for every
 * part of a file that was used.  Symbols that come and go later (BPF programs, trampolines:
 * PERF_RECORD_KSYMBOL) are in an overlay with names of its own; a symbol of the text that goes is
 * only marked, as the array is never changed. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "symbols/kallsyms.h"

enum { KALLSYMS_NAME_MAX = 511 }; /* KSYM_NAME_LEN - 1, Linux 6.1 */

struct kallsyms_copy;

struct symbol {
	uint64_t start;
	uint32_t name;
	uint32_t
		order; /* in the text; above it the owner; the top bit set for local and weak names */
};

#define GONE UINT32_MAX /* as a name: it was removed */

struct extra {
	uint64_t start;
	uint32_t len;
	char *name;
};

struct uw_kallsyms {
	struct buffer symbols, names;
	size_t n;
	struct kallsyms_copy *copy; /* not NULL: all symbols are in its parts */
	uint64_t by;		    /* the distance that they are moved */
	struct extra *extras;	    /* sorted, not overlapping */
	size_t n_extras, room;
	bool zeros;
	/* while reading */
	bool core;	/* without the symbols of modules */
	uint32_t owner; /* of the line */
	uint32_t n_owners;
	char in[64];	 /* its module's name */
	bool nuls;	 /* there are NULs in the text */
	uint64_t text;	 /* of _text; 0: not met */
	size_t n_sorted; /* the first so many ascend */
	uint64_t last;
	char high[8]; /* the first digits of the line before, and their value */
	uint64_t high_is;
};

static inline struct symbol *kallsyms_symbols(const struct uw_kallsyms *ks)
{
	return (struct symbol *)(void *)ks->symbols.data;
}

static inline void kallsyms_freep(struct uw_kallsyms **ks)
{
	uw_kallsyms_free(*ks);
}

/* ---- reading the text ----
 *
 * 120,000 lines and more, so each is read once: addresses by eight digits, names in pieces, and only
 * symbols that are out of order are sorted. */

enum {
	CHUNK = 256 << 10,
	LINE_MIN = 5, /* "1 T x" and a newline, which the last line lacks */
	SYMBOLS_MAX = 2 << 20,
	NAMES_MAX = 128 << 20,
	PART_MAX = 64 << 20,
	SLACK = 64, /* bytes that may be read behind what is read, and written */
	ORDER_BITS = 21,
};
#define OWNER_MASK ((uint32_t)UW_KALLSYMS_OTHER << ORDER_BITS)
#define ORDER_SECOND (1u << 31)
_Static_assert(SYMBOLS_MAX <= 1 << ORDER_BITS && UW_KALLSYMS_OTHER < 1 << (31 - ORDER_BITS),
	       "an order and an owner fit below ORDER_SECOND");

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
		/* 0-9 and a-f without a branch */
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

/* Short names in pieces: there is SLACK behind both. */
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
		.order = (uint32_t)ks->n | ks->owner << ORDER_BITS |
			 (type == 'T' ? 0 : ORDER_SECOND),
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

/* The address of a line, and whether it is a symbol of the text; false: not a line. */
static bool kallsyms_read_head(const char *line, const char *end, uint64_t *ret_address,
			       bool *ret_text)
{
	const char *p = read_short_address(line, end, ret_address);

	if (!p || end - p < 4 || p[0] != ' ' || p[2] != ' ')
		return false;
	*ret_text = is_text(p[1]) && p[3] != '$' && end[-1] != ']';
	return true;
}

/* "\t[module]" behind a name. The symbols of a module follow each other.  The kernel also lists code that is made at run time:
 * [bpf], [__builtin__ftrace], [__builtin__kprobes]. */
static uint32_t owner_of(struct uw_kallsyms *ks, const char *p, const char *end)
{
	size_t len = (size_t)(end - p);

	if (p == end)
		return UW_KALLSYMS_CORE;
	if (len < 4 || len >= sizeof(ks->in) || p[1] != '[' || !memcmp(p + 2, "bpf]", 4) ||
	    !strncmp(p + 2, "__builtin__", 11))
		return UW_KALLSYMS_OTHER;
	if (!strncmp(ks->in, p, len) && !ks->in[len])
		return ks->n_owners;
	memcpy(ks->in, p, len);
	ks->in[len] = 0;
	if (ks->n_owners < UW_KALLSYMS_OTHER)
		ks->n_owners++;
	return ks->n_owners;
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
	ks->owner = owner_of(ks, p, end);
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

/* Reads all complete lines; returns the rest. NULL: no memory. */
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

/* Of two names of an address. */
static bool comes_first(const struct symbol *a, const struct symbol *b)
{
	return (a->order & ~OWNER_MASK) < (b->order & ~OWNER_MASK);
}

static int by_start(const void *left, const void *right)
{
	const struct symbol *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return comes_first(a, b) ? -1 : comes_first(b, a);
}

/* The kernel's own symbols are in order, symbols of modules and BPF are not: only these are sorted,
 * and merged. */
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
			if (comes_first(&s[i], &s[n - 1]))
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

/* The whole text; with @core without the symbols of modules. */
static int kallsyms_read(int fd, bool core, struct uw_kallsyms **ret_kallsyms)
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

/* The lines of a file from @from to @to, without the symbols of modules. */
static int kallsyms_read_part(int fd, uint64_t from, uint64_t to, struct uw_kallsyms **ret_kallsyms)
{
	_cleanup_(kallsyms_freep) struct uw_kallsyms *ks = calloc(1, sizeof(*ks));
	size_t len = min_u64(to - from, PART_MAX);
	_cleanup_(freep) char *text = calloc(1, len + SLACK);
	const char *rest;
	ssize_t n;
	int r;

	if (!ks || !text)
		return fail(-ENOMEM);
	ks->core = true;
	n = read_fd_at(fd, text, len, from);
	if (n < 0)
		return trace((int)n);
	rest = read_lines(ks, text, text + n);
	if (!rest)
		return fail(-ENOMEM);
	read_line(ks, rest, text + n);
	r = finish(ks);
	if (r < 0)
		return trace(r);
	*ret_kallsyms = take(ks);
	return 0;
}

/* ---- a copy of the text in a file, of which little is parsed ----
 *
 *   text:    |..........|..........|......    the kernel's own symbols ascend
 *   read:      ^^         ^^         ^^       WINDOW bytes of every STEP
 *   parts:     |.........|...........|...     each from the first line there with another address
 *                                             than the line before
 *
 * A recording has a few hundred addresses of the kernel, its names are 120,000 lines: to parse them
 * all was a tenth of an import.  As all names of an address are in one part, a part on its own gives
 * the same name as the whole.  Modules' symbols follow the kernel's own, and end the last part. */

enum { KALLSYMS_WHOLE = 1 };
enum { STEP = 4096, WINDOW = 512, SIZE_MAX_BYTES = 256 << 20 };

struct part {
	uint64_t first;		     /* address; of the first part 0 */
	uint64_t offset;	     /* in the file */
	struct uw_kallsyms *symbols; /* NULL: not needed yet, or not read */
	bool bad;		     /* not for want of memory: the next name may have that */
};

struct kallsyms_copy {
	int fd;
	uint64_t end; /* of the last part's text */
	uint64_t text, first, last;
	size_t n;
	struct part *parts;
};

static struct kallsyms_copy *kallsyms_copy_free(struct kallsyms_copy *c)
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

/* Finds a line where a part may begin, or the last one ends. @text, at @at in the file, begins
 * anywhere in a line. */
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

	if (!p->symbols && !p->bad) {
		int r = kallsyms_read_part(c->fd, p->offset, to, &p->symbols);

		p->bad = r < 0 && !is_shortage(r);
	}
	return p->symbols;
}

/* The first and the last symbol: _text is among the first. */
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

/* 0; KALLSYMS_WHOLE: it has to be read as a whole.  Keeps a descriptor of its own. */
static int kallsyms_copy_new(int fd, struct kallsyms_copy **ret_copy)
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

/* The symbols of the part that has the address; NULL: it cannot be read. */
static const struct uw_kallsyms *kallsyms_copy_part(struct kallsyms_copy *c, uint64_t address)
{
	/* the last that begins at or below; the first begins at 0 */
	return symbols_of(c, bisect(i, c->n, c->parts[i].first <= address) - 1);
}

/* ---- making and freeing ---- */

struct uw_kallsyms *uw_kallsyms_free(struct uw_kallsyms *ks)
{
	if (!ks)
		return NULL;
	for (size_t i = 0; i < ks->n_extras; i++)
		free(ks->extras[i].name);
	free(ks->extras);
	(void)kallsyms_copy_free(ks->copy);
	buffer_deinit(&ks->symbols);
	buffer_deinit(&ks->names);
	free(ks);
	return NULL;
}

int uw_kallsyms_new_empty(struct uw_kallsyms **ret_kallsyms)
{
	*ret_kallsyms = calloc(1, sizeof(**ret_kallsyms));
	return *ret_kallsyms ? 0 : fail(-ENOMEM);
}

int uw_kallsyms_new(int fd, struct uw_kallsyms **ret_kallsyms)
{
	_cleanup_(kallsyms_freep) struct uw_kallsyms *ks = NULL;
	int r = kallsyms_read(fd, false, &ks);

	if (r < 0)
		return trace(r);
	*ret_kallsyms = ks->n ? take(ks) : NULL;
	return *ret_kallsyms ? 0 : UW_KALLSYMS_HIDDEN;
}

/* ---- the list ---- */

size_t uw_kallsyms_count(const struct uw_kallsyms *ks)
{
	return ks->copy ? 0 : ks->n;
}

static uint32_t owner_at(const struct uw_kallsyms *ks, size_t i)
{
	return (kallsyms_symbols(ks)[i].order & OWNER_MASK) >> ORDER_BITS;
}

void uw_kallsyms_at(const struct uw_kallsyms *ks, size_t i, struct uw_kallsyms_symbol *ret_symbol)
{
	const struct symbol *s = &kallsyms_symbols(ks)[i];

	*ret_symbol = (struct uw_kallsyms_symbol){
		.start = s->start,
		.name = s->name == GONE ? "" : (const char *)ks->names.data + s->name,
		.owner = owner_at(ks, i),
	};
}

/* The first symbol and the last, not moved; false: there is none. */
static bool range_of(const struct uw_kallsyms *ks, uint64_t *ret_first, uint64_t *ret_last)
{
	if (ks->copy) {
		*ret_first = ks->copy->first;
		*ret_last = ks->copy->last;
		return true;
	}
	if (!ks->n)
		return false;
	*ret_first = kallsyms_symbols(ks)[0].start;
	*ret_last = kallsyms_symbols(ks)[ks->n - 1].start;
	return true;
}

/* Moves the symbols to the _text of another run of the same kernel. false: impossible. */
static bool move(struct uw_kallsyms *ks, uint64_t text)
{
	uint64_t first, last;

	if (!ks->text || !range_of(ks, &first, &last))
		return false;
	ks->by = text - ks->text;
	return first + ks->by <= last + ks->by;
}

int uw_kallsyms_new_moved(int fd, uint64_t text, struct uw_kallsyms **ret_kallsyms)
{
	_cleanup_(kallsyms_freep) struct uw_kallsyms *ks = calloc(1, sizeof(*ks));
	int r;

	if (!ks)
		return fail(-ENOMEM);
	r = kallsyms_copy_new(fd, &ks->copy);
	if (r == 0) {
		ks->text = ks->copy->text;
	} else if (r == KALLSYMS_WHOLE) {
		ks = uw_kallsyms_free(ks);
		r = kallsyms_read(fd, true, &ks);
	}
	if (r < 0)
		return trace(r);
	*ret_kallsyms = move(ks, text) ? take(ks) : NULL;
	return *ret_kallsyms ? 0 : UW_KALLSYMS_HIDDEN;
}

enum { OVERLAY_MAX = 64 << 10, DISTANCE_MAX = 1 << 20 };

/* ---- looking up ---- */

/* The last symbol at or below @address (not moved), and the table with its name; NULL: none. */
static struct symbol *symbol_below(const struct uw_kallsyms *ks, uint64_t address,
				   const struct uw_kallsyms **ret_in)
{
	const struct uw_kallsyms *in = ks->copy ? kallsyms_copy_part(ks->copy, address) : ks;
	size_t low = bisect(i, in ? in->n : 0, kallsyms_symbols(in)[i].start <= address);

	*ret_in = in;
	return low ? &kallsyms_symbols(in)[low - 1] : NULL;
}

bool uw_kallsyms_in_core(const struct uw_kallsyms *ks, uint64_t address)
{
	const struct uw_kallsyms *in;
	const struct symbol *s = symbol_below(ks, address - ks->by, &in);
	size_t i = s ? (size_t)(s - kallsyms_symbols(in)) : 0;

	return s && owner_at(in, i) == UW_KALLSYMS_CORE && i + 1 < in->n &&
	       owner_at(in, i + 1) == UW_KALLSYMS_CORE;
}

bool uw_kallsyms_spans(const struct uw_kallsyms *ks, uint64_t address)
{
	uint64_t first, last;

	return range_of(ks, &first, &last) && address >= first + ks->by && address <= last + ks->by;
}

/* The number of extras that begin at or below. */
static size_t extras_below(const struct uw_kallsyms *ks, uint64_t address)
{
	return bisect(i, ks->n_extras, ks->extras[i].start <= address);
}

const char *uw_kallsyms_name(const struct uw_kallsyms *ks, uint64_t address, uint64_t *ret_start)
{
	size_t i = extras_below(ks, address);
	const struct uw_kallsyms *in;
	const struct symbol *s;

	if (i && address - ks->extras[i - 1].start < ks->extras[i - 1].len) {
		*ret_start = ks->extras[i - 1].start;
		return ks->extras[i - 1].name;
	}
	s = symbol_below(ks, address - ks->by, &in);
	if (!s || address - ks->by - s->start > DISTANCE_MAX || s->name == GONE)
		return NULL;
	*ret_start = s->start + ks->by;
	return (const char *)in->names.data + s->name;
}

/* ---- symbols that come and go ---- */

static void remove_extras(struct uw_kallsyms *ks, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		free(ks->extras[i].name);
	memmove(ks->extras + from, ks->extras + to, (ks->n_extras - to) * sizeof(*ks->extras));
	ks->n_extras -= to - from;
}

static int insert_extra(struct uw_kallsyms *ks, size_t at, struct extra extra)
{
	if (ks->n_extras == ks->room && !array_grow(ks->extras, ks->room, 64))
		return fail(-ENOMEM);
	memmove(ks->extras + at + 1, ks->extras + at, (ks->n_extras - at) * sizeof(*ks->extras));
	ks->extras[at] = extra;
	ks->n_extras++;
	return 0;
}

int uw_kallsyms_add(struct uw_kallsyms *ks, uint64_t start, uint32_t len, const char *name)
{
	struct extra extra = {.start = start, .len = len ? len : 1};
	size_t from, to;
	int r;

	if (!start || !*name)
		return 0;
	from = extras_below(ks, start);
	if (from && start - ks->extras[from - 1].start < ks->extras[from - 1].len)
		from--; /* the new one is written over it */
	for (to = from; to < ks->n_extras &&
			(ks->extras[to].start < start || ks->extras[to].start - start < extra.len);)
		to++;
	if (from < to)
		remove_extras(ks, from, to);
	if (ks->n_extras >= OVERLAY_MAX)
		return 0;
	extra.name = strndup(name, KALLSYMS_NAME_MAX);
	if (!extra.name)
		return fail(-ENOMEM);
	r = insert_extra(ks, from, extra);
	if (r < 0)
		free(extra.name);
	return trace(r);
}

void uw_kallsyms_remove(struct uw_kallsyms *ks, uint64_t start)
{
	size_t i = extras_below(ks, start);
	const struct uw_kallsyms *in;
	struct symbol *s;

	if (i && ks->extras[i - 1].start == start)
		remove_extras(ks, i - 1, i);
	s = symbol_below(ks, start - ks->by, &in);
	if (s && s->start == start - ks->by)
		s->name = GONE;
}

/* ---- the start of the kernel's text: the line "ADDRESS T _text" is among the first ---- */

enum { HEAD_BYTES = 64 << 10 };

uint64_t kernel_text_start(int fd)
{
	static const char mark[] = " T _text\n";
	_cleanup_(freep) char *head = calloc(1, HEAD_BYTES + 1);
	const char *at = NULL;
	uint64_t start;
	size_t len = 0;
	ssize_t n;

	while (head && !at && len < HEAD_BYTES &&
	       (n = read(fd, head + len, HEAD_BYTES - len)) > 0) {
		size_t before = len > sizeof(mark) ? len - sizeof(mark) : 0;

		len += (size_t)n;
		at = strstr(head + before, mark);
	}
	if (!at || at - head < 16 || lseek(fd, 0, SEEK_SET) < 0)
		return 0;
	head[at - head] = 0;
	return parse_u64(at - 16, 16, UINT64_MAX, &start) < 0 ? 0 : start;
}
