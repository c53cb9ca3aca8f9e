/* jitdump.c - see jitdump.h.
 *
 * The format is jitdump-specification.txt of linux tools/perf/Documentation: a header, then records of u32 id, u32 size, u64
 * time (CLOCK_MONOTONIC, or by a flag in the header) and a body:
 *
 *   load        u32 pid, tid; u64 vma, address, size, index; name, NUL; the code
 *   move        u32 pid, tid; u64 vma, old address, new address, size, index
 *   debug       u64 address, n; n times u64 address, u32 line, discriminator; file, NUL ("\xff": that of the one before)
 *   unwinding   u64 size, header's size, mapped size; .eh_frame, .eh_frame_hdr
 *   close       nothing
 *
 * Debug and unwinding information stand before the load of their code.  Unwinding information is written as if it followed
 * the code, at the next multiple of 8 (V8's src/diagnostics/eh-frame.cc, linux tools/perf/util/genelf.c).
 *
 * The code makes the file large: one pread() reads the heads and names of many small records, and of a large one no more than these. */
#include "symbols/jitdump.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/table.h"
#include "base/tsc.h"
#include "symbols/cfi-table.h"
#include "symbols/jit-index.h"
#include "symbols/symbols.h"

enum {
	PREFIX = 16,
	LOAD_FIXED = 40,
	NAME_BYTES = 1024,
	HEAD = PREFIX + LOAD_FIXED + NAME_BYTES + 1,
	WINDOW = 32 << 10,
	BODY_MAX = 4 << 20, /* of debug and unwinding information */
	CFI_MAX = 64 << 20, /* beyond each limit nothing is kept */
	RECORDS_MAX = 4 << 20,
	FLAG_OTHER_CLOCK = 1,
};
enum { LOAD, MOVE, DEBUG, CLOSE, UNWINDING };
#define MAGIC 0x4a695444u /* as a little endian machine writes it */

/* What belongs to code besides its entry in the index. */
struct extra {
	uint64_t origin;       /* where it was loaded: a move changes its address */
	uint32_t cfi, cfi_len; /* in the buffer of unwinding information */
};

struct jitdump {
	uint64_t device, inode, file_size;
	uint64_t at; /* of the first record that was not read */
	uint64_t records;
	uint64_t last_time; /* of the last record */
	bool other_clock, has_tsc;
	struct tsc_clock tsc; /* has_tsc: its times are of the processor's counter, which is here */
	bool converts;	      /* ... or of that of another machine */
	struct tsc_conversion conversion;
	struct buffer codes, extras, lines, pool, cfi;
	struct table latest; /* address -> number of the code that is there */
	uint64_t unwound_at; /* up to where a load has given the unwinding information */
	/* What the next load gets. */
	uint64_t debug_address;
	uint32_t first_line, n_lines, next_cfi, next_cfi_len;
	uint32_t file; /* in the pool, of the last line; 0: none */
};

struct record {
	uint32_t id, size;
	uint64_t at, time;
	struct cursor body; /* as far as it was read, in a window */
};

/* The part of a file that was read last. */
struct window {
	int fd;
	uint64_t file_size, at;
	size_t len;
	uint32_t last; /* size of the last record */
	uint8_t bytes[WINDOW];
};

struct jitdump *jitdump_free(struct jitdump *dump)
{
	if (!dump)
		return NULL;
	buffer_deinit(&dump->codes);
	buffer_deinit(&dump->extras);
	buffer_deinit(&dump->lines);
	buffer_deinit(&dump->pool);
	buffer_deinit(&dump->cfi);
	table_deinit(&dump->latest);
	free(dump);
	return NULL;
}

static size_t read_at(int fd, uint64_t offset, void *to, size_t len)
{
	ssize_t n = read_fd_at(fd, to, len, offset);

	return n < 0 ? 0 : (size_t)n;
}

bool jitdump_is(int fd)
{
	uint32_t magic = 0;
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       read_at(fd, 0, &magic, sizeof(magic)) == sizeof(magic) && magic == MAGIC;
}

static size_t n_codes(const struct jitdump *d)
{
	return d->codes.len / sizeof(struct jit_code);
}

static const struct jit_code *codes_of(const struct jitdump *d)
{
	return (const struct jit_code *)d->codes.data;
}

static const struct extra *extras_of(const struct jitdump *d)
{
	return (const struct extra *)d->extras.data;
}

/* ---- records ---- */

static void window_begin(struct window *w, int fd, uint64_t file_size)
{
	w->fd = fd;
	w->file_size = file_size;
	w->at = w->len = w->last = 0;
}

/* What is in the window from @at on, HEAD bytes or up to the file's end. */
static struct cursor look(struct window *w, uint64_t at)
{
	uint64_t wanted = at < w->file_size ? min_u64(HEAD, w->file_size - at) : 0;

	if (at < w->at || at - w->at > w->len || w->len - (at - w->at) < wanted) {
		w->len = read_at(w->fd, at, w->bytes, w->last > WINDOW / 8 ? HEAD : WINDOW);
		w->at = at;
	}
	return cursor_of(w->bytes + (at - w->at), w->len - (at - w->at));
}

/* false: the end, or a record that is not written whole.  @record is valid up to the next one. */
static bool read_record(struct window *w, uint64_t at, struct record *record)
{
	struct cursor c = look(w, at);

	record->at = at;
	record->id = cursor_u32(&c);
	record->size = cursor_u32(&c);
	record->time = cursor_u64(&c);
	if (c.bad || record->size < PREFIX || w->file_size < at || record->size > w->file_size - at)
		return false;
	w->last = record->size;
	record->body = cursor_of(c.p, min_u64(record->size - PREFIX, cursor_left(&c)));
	return true;
}

/* The whole body, at most BODY_MAX bytes, and a NUL behind.  *ret_body NULL: too long, or it cannot be read. */
static int body_of(int fd, const struct record *record, uint8_t **ret_body, size_t *ret_len)
{
	size_t len = record->size - PREFIX;
	bool is_read = cursor_left(&record->body) == len;
	uint8_t *body;

	*ret_body = NULL;
	*ret_len = len;
	if (len > BODY_MAX)
		return 0;
	body = malloc(len + 1);
	if (!body)
		return fail(-ENOMEM);
	if (!is_read && read_at(fd, record->at + PREFIX, body, len) != len) {
		free(body);
		return 0;
	}
	if (is_read)
		memcpy(body, record->body.p, len);
	body[len] = 0;
	*ret_body = body;
	return 0;
}

/* The place of a text in the pool; 0: there is no room. */
static uint32_t add_text(struct jitdump *d, const char *text, size_t len)
{
	size_t at = d->pool.len;

	if (at + len >= JIT_POOL_MAX)
		return 0;
	buffer_append(&d->pool, text, len);
	buffer_append(&d->pool, "", 1);
	return d->pool.bad ? 0 : (uint32_t)at;
}

static int add_code(struct jitdump *d, const struct jit_code *code, const struct extra *extra)
{
	int r;

	if (!code->size || code->start > UINT64_MAX - code->size || n_codes(d) >= JIT_CODES_MAX ||
	    !code->name)
		return 0;
	buffer_append(&d->codes, code, sizeof(*code));
	buffer_append(&d->extras, extra, sizeof(*extra));
	if (d->codes.bad || d->extras.bad)
		return fail(-ENOMEM);
	r = table_put(&d->latest, code->start, n_codes(d) - 1);
	return r < 0 ? trace(r) : 0;
}

/* Are its times of a clock that the samples do not have? */
static bool is_timeless(const struct jitdump *d)
{
	return d->converts ? !d->other_clock : d->other_clock && !d->has_tsc;
}

static uint64_t time_of(const struct jitdump *d, const struct record *record)
{
	if (is_timeless(d))
		return 0;
	if (d->converts)
		return tsc_converted(&d->conversion, record->time);
	return d->has_tsc ? tsc_clock_ns(&d->tsc, record->time) : record->time;
}

/* A name that is longer than the bytes read is cut. */
static int take_load(struct jitdump *d, const struct record *record)
{
	struct cursor c = record->body;
	struct jit_code code = {.time = time_of(d, record), .order = (uint32_t)n_codes(d)};
	struct extra extra = {.cfi = d->next_cfi, .cfi_len = d->next_cfi_len};
	uint64_t size;

	(void)cursor_u64(&c);
	(void)cursor_u64(&c);
	code.start = extra.origin = cursor_u64(&c);
	size = cursor_u64(&c);
	(void)cursor_u64(&c);
	if (d->n_lines && d->debug_address == code.start) {
		code.lines = d->first_line;
		code.n_lines = d->n_lines;
	}
	d->n_lines = d->next_cfi_len = 0;
	if (c.bad || size > UINT32_MAX || !cursor_left(&c) || !*c.p || *c.p < FRAME_KINDS)
		return 0;
	code.size = (uint32_t)size;
	code.name = add_text(d, (const char *)c.p,
			     strnlen((const char *)c.p, min_u64(cursor_left(&c), NAME_BYTES)));
	return trace(add_code(d, &code, &extra));
}

static int take_move(struct jitdump *d, const struct record *record)
{
	struct cursor c = record->body;
	struct jit_code code;
	struct extra extra;
	uint64_t from, to, size, number;

	(void)cursor_u64(&c);
	(void)cursor_u64(&c);
	from = cursor_u64(&c);
	to = cursor_u64(&c);
	size = cursor_u64(&c);
	if (c.bad || size > UINT32_MAX || !table_get(&d->latest, from, &number))
		return 0;
	code = codes_of(d)[number];
	extra = extras_of(d)[number];
	code.start = to;
	code.size = (uint32_t)size;
	code.time = time_of(d, record);
	code.order = (uint32_t)n_codes(d);
	return trace(add_code(d, &code, &extra));
}

static int by_place(const void *left, const void *right)
{
	const struct jit_line *a = left, *b = right;

	return ascend(a->at, b->at);
}

static void take_debug(struct jitdump *d, const uint8_t *body, size_t len)
{
	struct cursor c = cursor_of(body, len);
	size_t first = d->lines.len / sizeof(struct jit_line), last;
	uint64_t n;

	d->debug_address = cursor_u64(&c);
	d->n_lines = 0;
	n = cursor_u64(&c);
	for (uint64_t i = 0; i < n && !c.bad; i++) {
		uint64_t at = cursor_u64(&c) - d->debug_address;
		struct jit_line line = {.at = (uint32_t)at, .line = cursor_u32(&c)};
		const char *file;

		(void)cursor_u32(&c);
		file = cursor_string(&c);
		if (!file || first + i >= JIT_LINES_MAX)
			break;
		if (strcmp(file, "\xff") != 0 &&
		    (!d->file || strcmp(file, (const char *)d->pool.data + d->file) != 0))
			d->file = add_text(d, file, min_u64(strlen(file), NAME_BYTES));
		line.file = d->file;
		if (at <= UINT32_MAX && line.line <= INT32_MAX && d->file)
			buffer_append(&d->lines, &line, sizeof(line));
	}
	last = d->lines.bad ? first : d->lines.len / sizeof(struct jit_line);
	d->first_line = (uint32_t)first;
	d->n_lines = (uint32_t)(last - first);
	if (d->n_lines)
		qsort(d->lines.data + first * sizeof(struct jit_line), d->n_lines,
		      sizeof(struct jit_line), by_place);
}

static void take_unwinding(struct jitdump *d, const uint8_t *body, size_t len)
{
	struct cursor c = cursor_of(body, len);
	uint64_t size = cursor_u64(&c), header = cursor_u64(&c);

	(void)cursor_u64(&c);
	d->next_cfi_len = 0;
	if (c.bad || size > cursor_left(&c) || header >= size || d->cfi.len + size > CFI_MAX)
		return;
	d->next_cfi = (uint32_t)d->cfi.len;
	buffer_append(&d->cfi, c.p, size - header);
	d->next_cfi_len = d->cfi.bad ? 0 : (uint32_t)(size - header);
}

static int take_record(struct jitdump *d, int fd, const struct record *record)
{
	_cleanup_(freep) uint8_t *body = NULL;
	size_t len = 0;
	int r = 0;

	switch (record->id) {
	case LOAD:
		return trace(take_load(d, record));
	case MOVE:
		return trace(take_move(d, record));
	case DEBUG:
		r = body_of(fd, record, &body, &len);
		if (body)
			take_debug(d, body, len);
		break;
	case UNWINDING:
		r = body_of(fd, record, &body, &len);
		if (body)
			take_unwinding(d, body, len);
		break;
	default: /* close, and what later versions have */
		break;
	}
	if (r >= 0 && (d->lines.bad || d->pool.bad || d->cfi.bad))
		r = fail(-ENOMEM);
	return trace(r);
}

/* ---- the file ---- */

/* magic, version, size of the header, machine, padding, pid; u64 time, flags. */
static int read_header(struct jitdump *d, int fd)
{
	uint8_t bytes[40];
	struct cursor c = cursor_of(bytes, read_at(fd, 0, bytes, sizeof(bytes)));

	if (cursor_u32(&c) != MAGIC)
		return fail(-EBADMSG);
	(void)cursor_u32(&c);
	d->at = cursor_u32(&c);
	if (c.bad || d->at < 12)
		return fail(-EBADMSG);
	(void)cursor_bytes(&c, 20);
	if (d->at >= sizeof(bytes))
		d->other_clock = cursor_u64(&c) & FLAG_OTHER_CLOCK && !c.bad;
	buffer_append(&d->pool, "", 1); /* 0 is not text */
	return d->pool.bad ? fail(-ENOMEM) : 0;
}

enum { KNOWN = 1 };

/* KNOWN: it continues. */
static int begin(struct jitdump **dump, const struct uw_source *source)
{
	struct jitdump *d = *dump;
	int fd = source->fd;
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return fail(-EBADMSG);
	if (d && d->device == st.st_dev && d->inode == st.st_ino && d->at <= (uint64_t)st.st_size) {
		d->file_size = (uint64_t)st.st_size;
		return KNOWN;
	}
	*dump = jitdump_free(d);
	d = calloc(1, sizeof(*d));
	if (!d)
		return fail(-ENOMEM);
	d->device = st.st_dev;
	d->inode = st.st_ino;
	d->file_size = (uint64_t)st.st_size;
	r = read_header(d, fd);
	if (r < 0) {
		(void)jitdump_free(d);
		return trace(r);
	}
	d->has_tsc = d->other_clock && source->live && tsc_clock_begin(&d->tsc);
	d->converts = source->conversion;
	if (source->conversion)
		d->conversion = *source->conversion;
	*dump = d;
	return 0;
}

/* Reads what was written whole since the last time.  KNOWN: nothing was. */
static int read_more(struct jitdump **dump, const struct uw_source *source)
{
	_cleanup_(freep) struct window *w = malloc(sizeof(*w));
	int r = w ? begin(dump, source) : fail(-ENOMEM);
	bool known = r == KNOWN;
	struct record record;
	struct jitdump *d = *dump;
	uint64_t before;

	if (r < 0)
		return trace(r);
	window_begin(w, source->fd, d->file_size);
	before = d->at;
	if (d->has_tsc)
		tsc_clock_look(&d->tsc);
	for (; d->records < RECORDS_MAX && read_record(w, d->at, &record);
	     d->at += record.size, d->records++) {
		d->last_time = time_of(d, &record);
		r = take_record(d, source->fd, &record);
		if (r < 0) {
			*dump = jitdump_free(d);
			return trace(r);
		}
	}
	return known && d->at == before ? KNOWN : 0;
}

/* What the dump has behind @known. */
static int symbols_of(const struct jitdump *dump, const struct uw_extent *known,
		      struct uw_symbols **ret_symbols)
{
	const struct uw_extent end = {
		.codes = (uint32_t)n_codes(dump),
		.lines = (uint32_t)(dump->lines.len / sizeof(struct jit_line)),
		.pool = (uint32_t)dump->pool.len,
	};
	bool goes_on =
		known->codes <= end.codes && known->lines <= end.lines && known->pool <= end.pool;
	const struct uw_extent first = goes_on ? *known : (struct uw_extent){.codes = 0};
	const struct jit_part from = {
		.first = first,
		.end = end,
		.codes = (struct jit_code *)dump->codes.data + first.codes,
		.n = end.codes - first.codes,
		.lines = (struct jit_line *)dump->lines.data + first.lines,
		.n_lines = end.lines - first.lines,
		.pool = (char *)dump->pool.data + first.pool,
		.pool_len = end.pool - first.pool,
	};
	/* A part of a record at the end: the runtime writes large pieces, and has the rest in its memory. */
	bool all = dump->at == dump->file_size || is_timeless(dump);

	return trace(uw_symbols_of_codes(&from, all ? UINT64_MAX : dump->last_time,
					 is_timeless(dump), ret_symbols));
}

/* ---- unwinding information ---- */

/* Of code @code: [start, + size), once loaded at @origin. */
struct source {
	const struct jit_code *code;
	uint64_t origin;
	const uint8_t *bytes;
	size_t len;
};

struct cie {
	size_t at, len; /* in the source, its length field included */
	size_t encoding_at;
	uint8_t encoding;
	bool augmented;
};

struct output {
	struct buffer b;
	size_t cie_at, cie_len; /* the last one written; cie_len 0: none */
};

/* The record at @at: its bytes behind the length.  false: the end, or damaged. */
static bool open_record(const struct source *s, size_t at, struct cursor *ret_body)
{
	struct cursor c = cursor_of(s->bytes + at, s->len - at);
	uint32_t len = cursor_u32(&c);
	const void *body = cursor_bytes(&c, len);

	if (c.bad || len < 4 || len == UINT32_MAX)
		return false;
	*ret_body = cursor_of(body, len);
	return true;
}

/* The letters behind 'z' of an augmentation, with their data: where the encoding of addresses is. */
static bool read_augmentation(const struct source *s, const char *letters, struct cursor *c,
			      struct cie *cie)
{
	size_t len = cursor_uleb(c);
	const uint8_t *data = cursor_bytes(c, len);
	struct cursor d;

	if (!data)
		return false;
	d = cursor_of(data, len);
	for (; *letters; letters++) {
		uint8_t encoding;

		switch (*letters) {
		case 'R':
			cie->encoding_at = (size_t)(d.p - s->bytes);
			cie->encoding = cursor_u8(&d);
			break;
		case 'L':
			(void)cursor_u8(&d);
			break;
		case 'P': /* relative to its place, which changes; it is not used */
			encoding = cursor_u8(&d);
			if (encoding != PE_OMIT)
				(void)cfi_pointer(&d, encoding);
			break;
		case 'S':
		case 'B':
			break;
		default:
			return false;
		}
	}
	return !d.bad;
}

static bool read_cie(const struct source *s, size_t at, struct cie *ret_cie)
{
	struct cie cie = {.at = at};
	const char *letters;
	struct cursor c;
	uint8_t version;

	if (at >= s->len || !open_record(s, at, &c) || cursor_u32(&c) != 0)
		return false;
	cie.len = (size_t)(c.end - s->bytes) - at;
	version = cursor_u8(&c);
	letters = cursor_string(&c);
	if (!letters || (version != 1 && version != 3))
		return false;
	(void)cursor_uleb(&c);
	(void)cursor_sleb(&c);
	(void)(version == 1 ? cursor_u8(&c) : cursor_uleb(&c));
	cie.augmented = *letters == 'z';
	if (cie.augmented ? !read_augmentation(s, letters + 1, &c, &cie) : *letters)
		return false;
	*ret_cie = cie;
	return !c.bad;
}

static void put(struct output *o, const void *data, size_t len)
{
	if (o->b.len < CFI_MAX)
		buffer_append(&o->b, data, len);
	else
		o->b.bad = true;
}

/* Addresses become absolute, as the place of the record changes.  One CIE serves all FDEs that follow with an equal one. */
static void put_cie(struct output *o, const struct source *s, const struct cie *cie)
{
	const uint8_t absolute = PE_ABS;
	const uint8_t *from = s->bytes + cie->at;
	size_t behind = cie->encoding_at ? cie->encoding_at + 1 - cie->at : 0;

	if (o->cie_len == cie->len && !o->b.bad &&
	    !memcmp(o->b.data + o->cie_at, from, behind ? behind - 1 : cie->len) &&
	    !memcmp(o->b.data + o->cie_at + behind, from + behind, cie->len - behind))
		return;
	o->cie_at = o->b.len;
	o->cie_len = cie->len;
	if (behind) {
		put(o, from, behind - 1);
		put(o, &absolute, 1);
	}
	put(o, from + behind, cie->len - behind);
}

/* The FDE in @c, behind its CIE pointer. */
static void put_fde(struct output *o, const struct source *s, const struct cie *cie,
		    struct cursor *c)
{
	uint64_t begin_at = (uint64_t)(c->p - s->bytes), begin, range;
	const struct jit_code *code = s->code;
	uint64_t base = code->start + ((code->size + 7ull) & ~7ull);
	uint32_t length, back;

	begin = cfi_pointer(c, cie->encoding);
	if ((cie->encoding & PE_APPLY) == PE_PCREL)
		begin += base + begin_at;
	else if (!(cie->encoding & PE_APPLY))
		begin += code->start - s->origin;
	else
		return;
	range = cfi_pointer(c, cie->encoding & PE_FORMAT);
	if (c->bad || begin < code->start || !range || begin - code->start > code->size ||
	    range > code->size - (begin - code->start))
		return;
	put_cie(o, s, cie);
	back = (uint32_t)(o->b.len + 4 - o->cie_at);
	length = (uint32_t)(4 + 8 + 8 + cursor_left(c));
	put(o, &length, sizeof(length));
	put(o, &back, sizeof(back));
	put(o, &begin, sizeof(begin));
	put(o, &range, sizeof(range));
	put(o, c->p, cursor_left(c));
}

static void put_source(struct output *o, const struct source *s)
{
	struct cursor c;

	for (size_t at = 0; at < s->len && open_record(s, at, &c);) {
		size_t id_at = at + 4;
		uint32_t id = cursor_u32(&c);
		struct cie cie;

		at = (size_t)(c.end - s->bytes);
		if (id && id <= id_at && read_cie(s, id_at - id, &cie))
			put_fde(o, s, &cie, &c);
	}
}

static int by_start(const void *left, const void *right, void *arg)
{
	const struct jit_code *codes = arg;
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

	return ascend(codes[a].start, codes[b].start) ?: ascend(a, b);
}

/* The numbers of the codes that no later one was written over, by start. */
static size_t live_codes(const struct jitdump *d, uint32_t *numbers)
{
	const struct jit_code *codes = codes_of(d);
	size_t n = 0, all = n_codes(d);

	for (size_t i = 0; i < all; i++)
		numbers[i] = (uint32_t)i;
	qsort_r(numbers, all, sizeof(*numbers), by_start, (void *)codes);
	for (size_t i = 0; i < all; i++) {
		uint32_t now = numbers[i];
		bool dead = false;

		while (n && !dead &&
		       codes[now].start - codes[numbers[n - 1]].start <
			       codes[numbers[n - 1]].size) {
			dead = numbers[n - 1] > now;
			n -= !dead;
		}
		if (!dead)
			numbers[n++] = now;
	}
	return n;
}

static int eh_frame_of(const struct jitdump *dump, struct uw_section *ret_section)
{
	_cleanup_(freep) uint32_t *numbers = NULL;
	struct output o = {.cie_len = 0};
	const uint32_t end = 0;
	size_t n;

	if (!dump->cfi.len)
		return 0;
	numbers = reallocarray(NULL, n_codes(dump) + 1, sizeof(*numbers));
	if (!numbers)
		return fail(-ENOMEM);
	n = live_codes(dump, numbers);
	for (size_t i = 0; i < n; i++) {
		const struct extra *extra = &extras_of(dump)[numbers[i]];
		const struct source s = {
			.code = &codes_of(dump)[numbers[i]],
			.origin = extra->origin,
			.bytes = dump->cfi.data + extra->cfi,
			.len = extra->cfi_len,
		};

		put_source(&o, &s);
	}
	if (!o.b.len && !o.b.bad) {
		buffer_deinit(&o.b);
		return 0;
	}
	put(&o, &end, sizeof(end));
	if (o.b.bad) {
		buffer_deinit(&o.b);
		return fail(-ENOMEM);
	}
	*ret_section = (struct uw_section){.data = o.b.data, .size = o.b.len};
	return 0;
}

int jitdump_load(struct jitdump **dump, const struct uw_source *source,
		 struct uw_symbols **ret_symbols, struct uw_section *ret_eh_frame)
{
	struct uw_symbols *symbols = NULL;
	int r = read_more(dump, source);

	*ret_eh_frame = (struct uw_section){.data = NULL};
	if (r == KNOWN && source->reading.again && n_codes(*dump) == source->reading.known.codes &&
	    (source->reading.names_only || (*dump)->unwound_at == (*dump)->at))
		return fail(-EALREADY);
	if (r >= 0)
		r = symbols_of(*dump, &source->reading.known, &symbols);
	if (r < 0)
		return trace(r);
	r = source->reading.names_only ? 0 : eh_frame_of(*dump, ret_eh_frame);
	if (r < 0) {
		(void)uw_symbols_free(symbols);
		return trace(r);
	}
	(*dump)->unwound_at = source->reading.names_only ? (*dump)->unwound_at : (*dump)->at;
	*ret_symbols = symbols;
	return 0;
}

/* ---- the code of one function ---- */

struct finder {
	uint64_t wanted;
	struct table loads; /* address -> position of the record with the code */
	/* the version that was found last: a long run has one record for each */
	uint64_t start, size, load;
	bool found;
};

static int take_version(struct finder *f, const struct record *record)
{
	struct cursor c = record->body;
	uint64_t start, size, load = record->at;

	(void)cursor_u64(&c); /* pid, tid */
	(void)cursor_u64(&c); /* vma */
	start = cursor_u64(&c);
	if (record->id == MOVE) {
		if (!table_get(&f->loads, start, &load))
			return 0;
		start = cursor_u64(&c);
	}
	size = cursor_u64(&c);
	if (c.bad)
		return 0;
	if (f->wanted >= start && f->wanted - start < size) {
		f->start = start;
		f->size = size;
		f->load = load;
		f->found = true;
	}
	return trace(table_put(&f->loads, start, load));
}

static int find_version(struct finder *f, struct window *w)
{
	uint32_t header[3]; /* magic, version, size of the header */
	struct record record;
	uint64_t at;
	int r = 0;

	if (read_at(w->fd, 0, header, sizeof(header)) != sizeof(header))
		return fail(-EBADMSG);
	at = header[2];
	for (unsigned i = 0; i < RECORDS_MAX && r >= 0; i++, at += record.size) {
		if (!read_record(w, at, &record))
			break;
		if (record.id == LOAD || record.id == MOVE)
			r = take_version(f, &record);
	}
	return r < 0 ? trace(r) : 0;
}

/* The code stands behind the name, at the end of the record. */
static int read_version(const struct finder *f, struct window *w, struct uw_code *ret_code)
{
	_cleanup_(freep) uint8_t *data = NULL;
	size_t len = (size_t)min_u64(f->size, UW_CODE_MAX);
	struct record record;

	if (!read_record(w, f->load, &record) || f->size > record.size - PREFIX)
		return fail(-EBADMSG);
	data = malloc(len + 1);
	if (!data)
		return fail(-ENOMEM);
	if (read_at(w->fd, f->load + record.size - f->size, data, len) != len)
		return fail(-EBADMSG);
	*ret_code = (struct uw_code){take(data), len, f->start, UW_ARCH_HOST};
	return 0;
}

int jitdump_code(int fd, uint64_t vaddr, struct uw_code *ret_code)
{
	_cleanup_(freep) struct window *w = malloc(sizeof(*w));
	struct finder f = {.wanted = vaddr};
	struct stat st;
	int r;

	if (!jitdump_is(fd) || fstat(fd, &st) < 0)
		return fail(-EBADMSG);
	if (!w)
		return fail(-ENOMEM);
	window_begin(w, fd, (uint64_t)st.st_size);
	r = find_version(&f, w);
	table_deinit(&f.loads);
	if (r >= 0 && !f.found)
		return fail(-ENOENT);
	return r < 0 ? trace(r) : trace(read_version(&f, w, ret_code));
}
