/* line-cache.c - see line-cache.h.
 *
 *   head | spans of addresses, ascending, with their lines | lines, by span | text: strings with their NULs
 *
 * One module is open at a time, as its DWARF is. */
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/cache-dir.h"
#include "base/error.h"
#include "base/table.h"
#include "session/loader/line-cache.h"
#include "session/loader/load-parse.h"

enum {
	FILES_BYTES = 64 << 20, /* of all modules */
	SPANS_MAX = 1 << 18,
	TEXT_ROOM = 4096, /* of one string */
	NAME_ROOM = 96,
};
#define PREFIX "lines-"
#define NO_FILE UINT32_MAX

static const char magic[24] = "pwlines2 " PERFWIND_VERSION;

struct file_head {
	char magic[sizeof(magic)];
	struct load_file file;
	struct uw_build_id id;
	uint8_t padding[3];
	uint64_t n_spans, n_lines, text;
};

struct file_span {
	uint64_t low, high;
	uint32_t n_lines, first;
};

struct file_line {
	uint32_t function, file; /* in the text; NO_FILE */
	uint32_t line, kind;
};

struct line_file {
	uint8_t *data;
	const struct file_span *spans;
	const struct file_line *lines;
	const char *text;
	size_t n_spans, text_len;
};

/* That was looked up now. */
struct new_span {
	uint64_t low, high;
	size_t first, n_lines; /* of line_cache.lines */
};

struct line_cache {
	int dir;
	struct table files; /* serial of a module -> struct load_file * */
	/* the open module */
	uint32_t serial; /* 0: none */
	struct load_file of;
	struct uw_build_id id;
	struct line_file *old;
	struct new_span *spans;
	size_t n_spans, spans_room;
	struct load_line *lines;
	size_t n_lines, lines_room;
};

/* ---- the content of a file ---- */

struct line_file *line_file_free(struct line_file *f)
{
	if (f)
		free(f->data);
	free(f);
	return NULL;
}

static bool is_text(uint32_t at, uint64_t len, const char *text)
{
	return at < len && strnlen(text + at, TEXT_ROOM) < TEXT_ROOM;
}

/* Ascending spans without overlap, with lines that follow each other; names that begin and end in the text. */
static bool is_sound(const struct line_file *f, const struct file_head *head)
{
	uint64_t first = 0;

	if (head->text && f->text[head->text - 1])
		return false;
	for (size_t i = 0; i < head->n_spans; i++) {
		const struct file_span *s = &f->spans[i];

		if (s->first != first || s->n_lines > LOAD_LINES_MAX || s->high <= s->low ||
		    (i && s->low < s[-1].high))
			return false;
		first += s->n_lines;
	}
	for (size_t i = 0; i < head->n_lines; i++) {
		const struct file_line *line = &f->lines[i];

		if (!is_text(line->function, head->text, f->text) || line->kind >= FRAME_KINDS ||
		    (line->file != NO_FILE && !is_text(line->file, head->text, f->text)))
			return false;
	}
	return first == head->n_lines;
}

static int read_content(struct line_file *f, size_t len, const struct load_file *file,
			const struct uw_build_id *id)
{
	struct cursor c = cursor_of(f->data, len);
	const struct file_head *head = cursor_bytes(&c, sizeof(*head));

	if (!head || memcmp(head->magic, magic, sizeof(magic)) != 0)
		return -EBADMSG;
	if (memcmp(&head->file, file, sizeof(*file)) != 0 ||
	    memcmp(&head->id, id, sizeof(*id)) != 0)
		return -ESTALE;
	if (head->n_spans > SPANS_MAX || head->n_lines > LINE_FILE_BYTES ||
	    head->text > LINE_FILE_BYTES)
		return -EBADMSG;
	f->spans = cursor_bytes(&c, head->n_spans * sizeof(*f->spans));
	f->lines = cursor_bytes(&c, head->n_lines * sizeof(*f->lines));
	f->text = cursor_bytes(&c, head->text);
	f->n_spans = head->n_spans;
	f->text_len = head->text;
	return c.bad || cursor_left(&c) || !is_sound(f, head) ? -EBADMSG : 0;
}

int line_file_new(uint8_t *data, size_t len, const struct load_file *file,
		  const struct uw_build_id *id, struct line_file **ret_file)
{
	struct line_file *f = calloc(1, sizeof(*f));
	int r;

	if (!f) {
		free(data);
		return fail(-ENOMEM);
	}
	f->data = data;
	r = read_content(f, len, file, id);
	if (r < 0) {
		(void)line_file_free(f);
		return r;
	}
	*ret_file = f;
	return 0;
}

static int lines_of(const struct line_file *f, const struct file_span *s,
		    struct load_line ret_lines[64])
{
	for (uint32_t i = 0; i < s->n_lines; i++) {
		const struct file_line *line = &f->lines[s->first + i];
		char *text = (char *)(uintptr_t)f->text;

		ret_lines[i] = (struct load_line){
			.function = text + line->function,
			.file = line->file == NO_FILE ? NULL : text + line->file,
			.line = line->line,
			.kind = (enum frame_kind)line->kind,
		};
	}
	return (int)s->n_lines;
}

int line_file_find(const struct line_file *f, uint64_t vaddr, struct load_line ret_lines[64])
{
	/* The first that begins beyond the address. */
	size_t low = bisect(i, f->n_spans, f->spans[i].low <= vaddr);

	if (!low || vaddr >= f->spans[low - 1].high)
		return -1;
	return lines_of(f, &f->spans[low - 1], ret_lines);
}

/* ---- writing ---- */

struct content {
	struct buffer spans, lines, text;
	struct hash_index by_text;   /* of the strings of `text`, by their numbers in `at` */
	struct buffer at;	     /* uint32_t each */
	uint64_t seed, n_lines, end; /* of the last span */
	bool bad;
};

static const char *text_at(const struct content *c, uint32_t number, uint32_t *ret_at)
{
	memcpy(ret_at, c->at.data + number * sizeof(*ret_at), sizeof(*ret_at));
	return (const char *)c->text.data + *ret_at;
}

static uint64_t hash_of_text(const void *owner, uint32_t number)
{
	const struct content *c = owner;
	uint32_t at;
	const char *text = text_at(c, number, &at);

	return hash_seeded(c->seed, text, strlen(text));
}

static uint32_t put_text(struct content *c, const char *text)
{
	size_t len = strlen(text);
	uint64_t hash = hash_seeded(c->seed, text, len);
	uint32_t at;

	hash_index_for_each(&c->by_text, hash, i)
	{
		if (!strcmp(text_at(c, (uint32_t)i, &at), text))
			return at;
	}
	at = (uint32_t)c->text.len;
	if (len >= TEXT_ROOM || hash_index_add(&c->by_text, hash, hash_of_text, c) < 0)
		c->bad = true;
	buffer_append(&c->at, &at, sizeof(at));
	buffer_append(&c->text, text, len + 1);
	c->bad |= c->at.bad || c->text.bad; /* the index has what was not appended */
	return at;
}

/* The part that the spans before it do not have; false: there is none. */
static bool begin_span(struct content *c, uint64_t low, uint64_t high, size_t n)
{
	const struct file_span span = {max_u64(low, c->end), high, (uint32_t)n,
				       (uint32_t)c->n_lines};

	if (span.low >= span.high)
		return false;
	buffer_append(&c->spans, &span, sizeof(span));
	c->end = high;
	c->n_lines += n;
	c->bad |= c->spans.bad || c->lines.bad || c->text.bad || c->at.bad ||
		  c->text.len + c->lines.len + c->spans.len > LINE_FILE_BYTES / 2;
	return true;
}

/* The old text stays where it is, and with it the lines. */
static void put_old_text(struct content *c, const struct line_file *f)
{
	buffer_append(&c->text, f->text, f->text_len);
	c->bad |= c->text.bad;
	for (uint32_t at = 0; at < f->text_len && !c->bad;) {
		const char *text = f->text + at;
		size_t len = strlen(text);

		c->bad |= hash_index_add(&c->by_text, hash_seeded(c->seed, text, len), hash_of_text,
					 c) < 0;
		buffer_append(&c->at, &at, sizeof(at));
		c->bad |= c->at.bad;
		at += (uint32_t)len + 1;
	}
}

static void put_old_span(struct content *c, const struct line_file *f, const struct file_span *s)
{
	if (begin_span(c, s->low, s->high, s->n_lines))
		buffer_append(&c->lines, &f->lines[s->first],
			      s->n_lines * sizeof(struct file_line));
}

static void put_span(struct content *c, uint64_t low, uint64_t high, const struct load_line *lines,
		     size_t n)
{
	if (!begin_span(c, low, high, n))
		return;
	for (size_t i = 0; i < n && !c->bad; i++) {
		const struct file_line line = {
			.function = put_text(c, lines[i].function),
			.file = lines[i].file ? put_text(c, lines[i].file) : NO_FILE,
			.line = lines[i].line,
			.kind = lines[i].kind,
		};

		buffer_append(&c->lines, &line, sizeof(line));
	}
}

static int by_low(const void *left, const void *right)
{
	const struct new_span *a = left, *b = right;

	return a->low < b->low ? -1 : a->low > b->low;
}

/* The old spans and the new ones, merged. */
static void put_all(struct line_cache *cache, struct content *c, bool with_old)
{
	size_t n_old = cache->old && with_old ? cache->old->n_spans : 0, old = 0, new = 0;

	if (n_old)
		put_old_text(c, cache->old);
	qsort(cache->spans, cache->n_spans, sizeof(*cache->spans), by_low);
	while ((old < n_old || new < cache->n_spans) && !c->bad) {
		const struct new_span *s = &cache->spans[new];
		const struct file_span *o = old < n_old ? &cache->old->spans[old] : NULL;

		if (!o || (new < cache->n_spans && s->low <= o->low)) {
			put_span(c, s->low, s->high, cache->lines + s->first, s->n_lines);
			new ++;
		} else {
			put_old_span(c, cache->old, o);
			old++;
		}
	}
	c->bad |= c->lines.bad || c->text.bad || c->at.bad;
}

static void content_deinit(struct content *c)
{
	buffer_deinit(&c->spans);
	buffer_deinit(&c->lines);
	buffer_deinit(&c->text);
	buffer_deinit(&c->at);
	hash_index_deinit(&c->by_text);
}

static void file_name(const struct line_cache *cache, char to[static NAME_ROOM])
{
	uint64_t hash = hash_bytes(&cache->of, sizeof(cache->of));
	int n = snprintf(to, NAME_ROOM, PREFIX "%016lx-", hash);

	for (size_t i = 0; i < cache->id.len; i++)
		n += snprintf(to + n, NAME_ROOM - (size_t)n, "%02x", cache->id.bytes[i]);
}

static void write_content(const struct line_cache *cache, const struct content *c)
{
	_cleanup_(buffer_deinit) struct buffer all = {0};
	struct file_head head;
	char name[NAME_ROOM];

	memset(&head, 0, sizeof(head));
	memcpy(head.magic, magic, sizeof(magic));
	head.file = cache->of;
	head.id = cache->id;
	head.n_spans = c->spans.len / sizeof(struct file_span);
	head.n_lines = c->n_lines;
	head.text = c->text.len;
	buffer_append(&all, &head, sizeof(head));
	buffer_append(&all, c->spans.data, c->spans.len);
	buffer_append(&all, c->lines.data, c->lines.len);
	buffer_append(&all, c->text.data, c->text.len);
	file_name(cache, name);
	if (!all.bad && cache_dir_write(cache->dir, name, all.data, all.len) >= 0)
		cache_dir_trim(cache->dir, PREFIX, FILES_BYTES);
}

/* Where the old spans leave no room, the new ones replace them. */
static void save(struct line_cache *cache)
{
	for (int with_old = 1; with_old >= 0; with_old--) {
		_cleanup_(content_deinit) struct content c = {.seed = hash_seed()};

		put_all(cache, &c, with_old);
		if (c.bad || c.spans.len / sizeof(struct file_span) > SPANS_MAX)
			continue;
		write_content(cache, &c);
		return;
	}
}

/* ---- the open module ---- */

static void free_lines(struct load_line *lines, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(lines[i].function);
		free(lines[i].file);
	}
}

static void close_module(struct line_cache *cache)
{
	if (cache->serial && cache->n_spans)
		save(cache);
	free_lines(cache->lines, cache->n_lines);
	cache->old = line_file_free(cache->old);
	cache->n_spans = cache->n_lines = 0;
	cache->serial = 0;
}

static void read_module(struct line_cache *cache)
{
	char name[NAME_ROOM];
	uint8_t *data;
	size_t len;

	file_name(cache, name);
	if (cache_dir_read(cache->dir, name, LINE_FILE_BYTES, &data, &len) >= 0)
		(void)line_file_new(data, len, &cache->of, &cache->id, &cache->old);
}

/* false: its file is not known. */
static bool open_module(struct line_cache *cache, const struct uw_module *module)
{
	const struct load_file *file = table_pointer(&cache->files, uw_module_serial(module));

	if (cache->serial == uw_module_serial(module))
		return file && !memcmp(file, &cache->of, sizeof(*file));
	if (!file)
		return false;
	close_module(cache);
	cache->serial = uw_module_serial(module);
	cache->of = *file;
	cache->id = *uw_module_build_id(module);
	read_module(cache);
	return true;
}

/* ---- requests and answers ---- */

void line_cache_find(struct line_cache *cache, struct load_request *q)
{
	struct load_line lines[LOAD_LINES_MAX];

	if (q->kind != LOAD_LINES || q->n_known || !open_module(cache, q->module) || !cache->old)
		return;
	for (size_t i = q->n_vaddrs; i > 0; i--) {
		uint64_t vaddr = q->vaddrs[i - 1];

		if (line_file_find(cache->old, vaddr, lines) < 0)
			continue;
		q->vaddrs[i - 1] = q->vaddrs[--q->n_vaddrs];
		q->vaddrs[q->n_vaddrs] = vaddr;
		q->n_known++;
	}
}

/* Room for @n lines. */
static bool grow(struct load_line **lines, size_t *room, size_t n)
{
	struct load_line *more;

	if (n <= *room)
		return true;
	more = reallocarray(*lines, n * 2, sizeof(*more));
	if (!more)
		return false;
	*lines = more;
	*room = n * 2;
	return true;
}

static bool grow_spans(struct line_cache *cache, size_t n)
{
	struct new_span *more;

	if (n <= cache->spans_room)
		return true;
	more = reallocarray(cache->spans, n * 2, sizeof(*more));
	if (!more)
		return false;
	cache->spans = more;
	cache->spans_room = n * 2;
	return true;
}

static bool copy_line(struct load_line *to, const struct load_line *from)
{
	*to = *from;
	to->function = strdup(from->function);
	to->file = from->file ? strdup(from->file) : NULL;
	if (to->function && (to->file || !from->file))
		return true;
	free_lines(to, 1);
	return false;
}

/* Of the address or span number @i of an answer. */
static struct new_span span_of(const struct load_answer *a, size_t i)
{
	bool is_vaddr = i < a->request.n_vaddrs;
	uint64_t vaddr = is_vaddr ? a->request.vaddrs[i] : 0;
	struct load_span span = i < a->n_spans ? a->spans[i] : (struct load_span){0, 0};

	if (is_vaddr && (vaddr < span.low || vaddr >= span.high))
		span = (struct load_span){vaddr, vaddr + 1};
	return (struct new_span){span.low, span.high, 0, 0};
}

/* Each address that was looked up, also one without lines. */
static void add_new(struct line_cache *cache, const struct load_answer *a)
{
	size_t n = max_u64(a->request.n_vaddrs, a->n_spans), line = 0;

	if (!grow_spans(cache, cache->n_spans + n) ||
	    !grow(&cache->lines, &cache->lines_room, cache->n_lines + a->n_lines))
		return;
	for (size_t i = 0; i < n && cache->n_spans < SPANS_MAX; i++) {
		struct new_span new = span_of(a, i);

		new.first = cache->n_lines;
		for (; line < a->n_lines && a->lines[line].address == i; line++) {
			if (!copy_line(&cache->lines[cache->n_lines], &a->lines[line]))
				return;
			cache->n_lines++;
			new.n_lines++;
		}
		cache->spans[cache->n_spans++] = new;
	}
}

/* Main asked for the addresses alone. */
static void drop_other_lines(struct load_answer *a)
{
	size_t n = 0;

	while (n < a->n_lines && a->lines[n].address < a->request.n_vaddrs)
		n++;
	free_lines(a->lines + n, a->n_lines - n);
	a->n_lines = n;
}

/* The lines of known addresses, behind the others. */
static void complete(struct line_cache *cache, struct load_answer *a)
{
	struct load_request *q = &a->request;
	struct load_line lines[LOAD_LINES_MAX];
	size_t room = a->n_lines; /* at least */

	for (; q->n_known; q->n_known--, q->n_vaddrs++) {
		int n = open_module(cache, q->module) && cache->old
				? line_file_find(cache->old, q->vaddrs[q->n_vaddrs], lines)
				: 0;

		if (n <= 0 || !grow(&a->lines, &room, a->n_lines + (size_t)n))
			continue;
		for (int i = 0; i < n; i++) {
			lines[i].address = (uint32_t)q->n_vaddrs;
			if (copy_line(&a->lines[a->n_lines], &lines[i])) {
				a->n_lines++;
				continue;
			}
			/* A part would be taken for all. */
			free_lines(a->lines + a->n_lines - i, (size_t)i);
			a->n_lines -= (size_t)i;
			break;
		}
	}
}

static void note_file(struct line_cache *cache, const struct load_answer *a)
{
	uint32_t serial = uw_module_serial(a->request.module);
	struct load_file *file = table_pointer(&cache->files, serial);

	if (!file) {
		file = malloc(sizeof(*file));
		if (!file)
			return;
		if (table_put(&cache->files, serial, (uintptr_t)file) < 0) {
			free(file);
			return;
		}
	}
	*file = a->file;
}

void line_cache_finish(struct line_cache *cache, struct load_answer *a)
{
	if (a->request.kind == LOAD_UNWIND && a->has_file && a->error >= 0)
		note_file(cache, a);
	if (a->request.kind != LOAD_LINES)
		return;
	if (a->error >= 0 && a->has_file && open_module(cache, a->request.module) &&
	    !memcmp(&a->file, &cache->of, sizeof(a->file)))
		add_new(cache, a);
	drop_other_lines(a);
	complete(cache, a);
}

/* ---- making and freeing ---- */

int line_cache_new(int dir, struct line_cache **ret_cache)
{
	struct line_cache *cache = calloc(1, sizeof(*cache));

	if (!cache) {
		(void)fd_close(dir);
		return fail(-ENOMEM);
	}
	cache->dir = dir;
	*ret_cache = cache;
	return 0;
}

struct line_cache *line_cache_free(struct line_cache *cache)
{
	if (!cache)
		return NULL;
	close_module(cache);
	table_for_each (&cache->files, slot) {
		free((void *)(uintptr_t)slot->value);
	}
	table_deinit(&cache->files);
	free(cache->spans);
	free(cache->lines);
	(void)fd_close(cache->dir);
	free(cache);
	return NULL;
}
