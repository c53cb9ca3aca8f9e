/* mark-text.c - see mark-text.h.  A cursor over the text: no byte is read past its end, nothing is copied. */
#include "marks/mark-text.h"

#include <string.h>

struct cursor {
	const char *at, *end;
};
struct field {
	const char *text;
	size_t len;
};

/* The bytes up to the next '|', which is passed.  False at the end of the text. */
static bool next_field(struct cursor *c, struct field *ret_field)
{
	const char *bar;

	if (c->at > c->end)
		return false;
	bar = memchr(c->at, '|', (size_t)(c->end - c->at));
	ret_field->text = c->at;
	ret_field->len = (size_t)((bar ? bar : c->end) - c->at);
	c->at = (bar ? bar : c->end) + 1;
	return true;
}

/* The rest, with all '|' in it. */
static bool last_field(struct cursor *c, struct field *ret_field)
{
	if (c->at > c->end)
		return false;
	ret_field->text = c->at;
	ret_field->len = (size_t)(c->end - c->at);
	c->at = c->end + 1;
	return true;
}

/* Decimal, with one sign at most and nothing else; the range of int64_t. */
static bool number(const struct field *f, int64_t *ret_value)
{
	const bool minus = f->len && f->text[0] == '-';
	size_t i = minus || (f->len && f->text[0] == '+');
	uint64_t v = 0;

	if (i >= f->len)
		return false;
	for (; i < f->len; i++) {
		const unsigned digit = (unsigned char)f->text[i] - (unsigned)'0';

		if (digit > 9 || __builtin_mul_overflow(v, (uint64_t)10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)digit, &v))
			return false;
	}
	if (v > (uint64_t)INT64_MAX + minus)
		return false;
	*ret_value = (int64_t)(minus ? 0 - v : v);
	return true;
}

static bool next_number(struct cursor *c, int64_t *ret_value)
{
	struct field f;

	return next_field(c, &f) && number(&f, ret_value);
}

/* Shortens a name to MARK_NAME_MAX, not within a character of UTF-8. */
static void set_name(const struct field *f, const char **ret_name, size_t *ret_len)
{
	size_t len = f->len;

	if (len > MARK_NAME_MAX) {
		len = MARK_NAME_MAX;
		for (unsigned i = 0; i < 3 && ((unsigned char)f->text[len] & 0xc0) == 0x80; i++)
			len--;
	}
	*ret_name = f->text;
	*ret_len = len;
}

/* "pid|": an empty one is allowed where the format has it without (E, "B||name" of old programs). */
static bool next_pid(struct cursor *c, int32_t *ret_pid)
{
	struct field f;
	int64_t pid = 0;

	if (!next_field(c, &f) || (f.len && !number(&f, &pid)) || pid < 0 || pid > INT32_MAX)
		return false;
	*ret_pid = (int32_t)pid;
	return true;
}

static bool track_fields(struct cursor *c, struct mark *m)
{
	struct field track, name, cookie;

	if (!next_field(c, &track))
		return false;
	set_name(&track, &m->track, &m->track_len);
	if (m->kind == MARK_TRACK_INSTANT) {
		if (!last_field(c, &name))
			return false;
		set_name(&name, &m->name, &m->name_len);
		return true;
	}
	if (!next_field(c, &name))
		return false;
	if (!next_field(c, &cookie)) {
		/* H|pid|track|cookie */
		return m->kind == MARK_TRACK_END && number(&name, &m->value);
	}
	set_name(&name, &m->name, &m->name_len);
	return number(&cookie, &m->value);
}

static bool parse_fields(struct cursor *c, struct mark *m)
{
	struct field name;

	if (m->kind == MARK_END && c->at > c->end)
		return true; /* "E" */
	if (!next_pid(c, &m->named_pid))
		return false;
	switch (m->kind) {
	case MARK_END: /* "E|pid", and "E|pid|anything" of some programs */
		return true;
	case MARK_BEGIN:
	case MARK_INSTANT:
		if (!last_field(c, &name))
			return false;
		set_name(&name, &m->name, &m->name_len);
		return true;
	case MARK_COUNTER: /* "C|pid|name|value", and "...|category" of the kernel's users */
	case MARK_ASYNC_BEGIN:
	case MARK_ASYNC_END:
		if (!next_field(c, &name))
			return false;
		set_name(&name, &m->name, &m->name_len);
		return next_number(c, &m->value);
	default:
		return track_fields(c, m);
	}
}

/* 0: no mark begins like this. */
static uint8_t kind_of(const char *text, size_t len)
{
	static const char letters[] = "BEICSFNGH";
	static const uint8_t kinds[] = {MARK_BEGIN,	    MARK_END,	      MARK_INSTANT,
					MARK_COUNTER,	    MARK_ASYNC_BEGIN, MARK_ASYNC_END,
					MARK_TRACK_INSTANT, MARK_TRACK_BEGIN, MARK_TRACK_END};
	const char *letter = memchr(letters, text[0], sizeof(letters) - 1);

	if (!letter || (len == 1 ? text[0] != 'E' : text[1] != '|'))
		return 0;
	return kinds[letter - letters];
}

int mark_text_parse(const char *text, size_t len, struct mark *ret_mark)
{
	struct mark m = {0};
	struct cursor c;

	for (size_t i = 0; i < len; i++)
		if (!text[i] || text[i] == '\n') {
			len = i;
			break;
		}
	if (!len)
		return MARK_TEXT_DAMAGED;
	m.kind = kind_of(text, len);
	if (!m.kind) {
		const struct field all = {text, len};

		m.kind = MARK_INSTANT;
		set_name(&all, &m.name, &m.name_len);
		*ret_mark = m;
		return MARK_TEXT_OTHER;
	}
	c = (struct cursor){text + 2, text + len}; /* past the end of "E" */
	if (!parse_fields(&c, &m))
		return MARK_TEXT_DAMAGED;
	*ret_mark = m;
	return 0;
}
