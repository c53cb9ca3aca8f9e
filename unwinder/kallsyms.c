/* kallsyms.c - the kernel's symbols, from the text of /proc/kallsyms.
 *
 *   address type name [module]     a line each, 200,000 and more; sorted in parts only
 *
 * Text symbols are kept in one array by address and one block of names.  What comes and goes later
 * (BPF programs, trampolines: PERF_RECORD_KSYMBOL) lies in an overlay with its own names; a symbol
 * of the text that goes is only marked, as the array is never changed. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/bytes.h"
#include "daemon/base/error.h"
#include "unwinder/names.h"

enum {
	CHUNK = 256 << 10,
	LINE_MIN = 5,	       /* "1 T x" and a newline, which the last line lacks */
	SYMBOL_NAME_MAX = 511, /* KSYM_NAME_LEN - 1, Linux 6.1 */
	SYMBOLS_MAX = 2 << 20,
	NAMES_MAX = 128 << 20,
	OVERLAY_MAX = 64 << 10,
	DISTANCE_MAX = 1 << 20,
	SLACK = 64, /* bytes that may be read behind what is read, and written */
};
#define GONE UINT32_MAX

struct symbol {
	uint64_t start;
	uint32_t name;
	uint32_t order; /* in the text; the top bit set for local and weak names */
};
#define ORDER_SECOND (1u << 31)

struct extra {
	uint64_t start;
	uint32_t len;
	char *name;
};

struct uw_kallsyms {
	struct buffer symbols, names;
	size_t n;
	struct extra *extras; /* sorted, not overlapping */
	size_t n_extras, room;
	bool zeros;
	/* while reading */
	bool core;	 /* without what modules have */
	bool nuls;	 /* there are some in what is being read */
	uint64_t text;	 /* of _text; 0: not met */
	size_t n_sorted; /* the first so many ascend */
	uint64_t last;
	char high[8]; /* the first digits of the line before, and what they are */
	uint64_t high_is;
};

static struct symbol *symbols_of(const struct uw_kallsyms *ks)
{
	return (struct symbol *)(void *)ks->symbols.data;
}

struct uw_kallsyms *uw_kallsyms_free(struct uw_kallsyms *ks)
{
	if (!ks)
		return NULL;
	for (size_t i = 0; i < ks->n_extras; i++)
		free(ks->extras[i].name);
	free(ks->extras);
	buffer_deinit(&ks->symbols);
	buffer_deinit(&ks->names);
	free(ks);
	return NULL;
}

static void kallsyms_freep(struct uw_kallsyms **ks)
{
	uw_kallsyms_free(*ks);
}

/* ---- reading ---- */

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

static void read_line(struct uw_kallsyms *ks, const char *line, const char *end)
{
	uint64_t start;
	const char *p = read_address(ks, line, end, &start), *name;
	char type;

	if (!p || end - p < 4 || p[0] != ' ' || p[2] != ' ')
		return;
	type = p[1];
	if (type != 'T' && type != 't' && type != 'W' && type != 'w')
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
		   strip_suffix(name, min_u64((uint64_t)(p - name), SYMBOL_NAME_MAX)));
}

/* Room for all that @bytes of text can hold: a line has an address, a type and a name, and no less
 * than LINE_MIN bytes with its newline. */
static bool reserve_for(struct uw_kallsyms *ks, size_t bytes)
{
	return buffer_reserve(&ks->symbols, (bytes / LINE_MIN + 1) * sizeof(struct symbol)) &&
	       buffer_reserve(&ks->names, bytes + 1 + SLACK);
}

static int read_text(struct uw_kallsyms *ks, int fd)
{
	_cleanup_(freep) char *chunk = calloc(1, CHUNK + SLACK);
	size_t have = 0;

	if (!chunk)
		return fail(-ENOMEM);
	for (;;) {
		ssize_t n = read(fd, chunk + have, CHUNK - have);
		const char *p = chunk, *end, *nl;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail(-errno);
		end = chunk + have + (size_t)n;
		ks->nuls = memchr(chunk, 0, (size_t)(end - chunk));
		if (!reserve_for(ks, (size_t)(end - p)))
			return fail(-ENOMEM);
		for (; (nl = memchr(p, '\n', (size_t)(end - p))); p = nl + 1)
			read_line(ks, p, nl);
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
	struct symbol *s = symbols_of(ks);
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
	struct symbol *s = symbols_of(ks);
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

/* To where _text is in another run of the same kernel.  false: no such place. */
static bool move(struct uw_kallsyms *ks, uint64_t text)
{
	struct symbol *s = symbols_of(ks);
	uint64_t by = text - ks->text;

	if (!ks->text || !ks->n || s[0].start + by > s[ks->n - 1].start + by)
		return false;
	for (size_t i = 0; i < ks->n; i++)
		s[i].start += by;
	return true;
}

static int read_symbols(int fd, bool core, struct uw_kallsyms **ret_kallsyms)
{
	_cleanup_(kallsyms_freep) struct uw_kallsyms *ks = calloc(1, sizeof(*ks));
	int r;

	if (!ks)
		return fail(-ENOMEM);
	ks->core = core;
	r = read_text(ks, fd);
	if (r < 0)
		return trace(r);
	if (ks->symbols.bad || ks->names.bad)
		return fail(-ENOMEM);
	sort_symbols(ks);
	drop_aliases(ks);
	ks->symbols.len = ks->n * sizeof(struct symbol);
	shrink(&ks->symbols);
	shrink(&ks->names);
	*ret_kallsyms = take(ks);
	return 0;
}

int uw_kallsyms_new(int fd, struct uw_kallsyms **ret_kallsyms)
{
	_cleanup_(kallsyms_freep) struct uw_kallsyms *ks = NULL;
	int r = read_symbols(fd, false, &ks);

	if (r < 0)
		return trace(r);
	*ret_kallsyms = ks->n ? take(ks) : NULL;
	return *ret_kallsyms ? 0 : UW_KALLSYMS_HIDDEN;
}

int uw_kallsyms_new_moved(int fd, uint64_t text, struct uw_kallsyms **ret_kallsyms)
{
	_cleanup_(kallsyms_freep) struct uw_kallsyms *ks = NULL;
	int r = read_symbols(fd, true, &ks);

	if (r < 0)
		return trace(r);
	*ret_kallsyms = move(ks, text) ? take(ks) : NULL;
	return *ret_kallsyms ? 0 : UW_KALLSYMS_HIDDEN;
}

/* ---- looking up ---- */

/* The last symbol at or below, NULL when there is none. */
static struct symbol *symbol_below(const struct uw_kallsyms *ks, uint64_t address)
{
	size_t low = 0, high = ks->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (symbols_of(ks)[mid].start <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low ? &symbols_of(ks)[low - 1] : NULL;
}

bool uw_kallsyms_spans(const struct uw_kallsyms *ks, uint64_t address)
{
	const struct symbol *s = symbols_of(ks);

	return address >= s[0].start && address <= s[ks->n - 1].start;
}

/* The number of extras that begin at or below. */
static size_t extras_below(const struct uw_kallsyms *ks, uint64_t address)
{
	size_t low = 0, high = ks->n_extras;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (ks->extras[mid].start <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

const char *uw_kallsyms_name(const struct uw_kallsyms *ks, uint64_t address, uint64_t *ret_start)
{
	size_t i = extras_below(ks, address);
	const struct symbol *s;

	if (i && address - ks->extras[i - 1].start < ks->extras[i - 1].len) {
		*ret_start = ks->extras[i - 1].start;
		return ks->extras[i - 1].name;
	}
	s = symbol_below(ks, address);
	if (!s || address - s->start > DISTANCE_MAX || s->name == GONE)
		return NULL;
	*ret_start = s->start;
	return (const char *)ks->names.data + s->name;
}

/* ---- what comes and goes ---- */

static void remove_extras(struct uw_kallsyms *ks, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		free(ks->extras[i].name);
	memmove(ks->extras + from, ks->extras + to, (ks->n_extras - to) * sizeof(*ks->extras));
	ks->n_extras -= to - from;
}

static int insert_extra(struct uw_kallsyms *ks, size_t at, struct extra extra)
{
	if (ks->n_extras == ks->room) {
		size_t room = ks->room ? ks->room * 2 : 64;
		struct extra *more = reallocarray(ks->extras, room, sizeof(*more));

		if (!more)
			return fail(-ENOMEM);
		ks->extras = more;
		ks->room = room;
	}
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
	extra.name = strndup(name, SYMBOL_NAME_MAX);
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
	struct symbol *s;

	if (i && ks->extras[i - 1].start == start)
		remove_extras(ks, i - 1, i);
	s = symbol_below(ks, start);
	if (s && s->start == start)
		s->name = GONE;
}
