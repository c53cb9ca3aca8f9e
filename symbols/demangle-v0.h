/* demangle-v0.h - the words that Rust's v0 names are made of.  Private to unwinder/demangle-*.c.
 * Each function returns false to end the parsing: the name is none, or the text is full. */
#pragma once

#include "symbols/demangle.h"

enum { V0_STEPS_MAX = 20000, V0_DEPTH_MAX = 200, V0_BOUND_MAX = 64 };

struct v0 {
	const char *s; /* behind "_R" */
	size_t len, at;
	struct uw_text *text;
	unsigned steps, depth;
	uint64_t bound; /* lifetimes of the binders around */
	unsigned skip;	/* > 0: parsed, not printed */
	bool full;
};

struct v0_identifier {
	const char *text, *punycode;
	size_t len, punycode_len;
	uint64_t disambiguator;
};

static inline char v0_peek(const struct v0 *r)
{
	return r->at < r->len ? r->s[r->at] : 0;
}

static inline bool v0_eat(struct v0 *r, char ch)
{
	if (v0_peek(r) != ch || !ch)
		return false;
	r->at++;
	return true;
}

/* Every construct passes here on its way in. */
static inline bool v0_enter(struct v0 *r)
{
	if (!r->steps || r->depth >= V0_DEPTH_MAX)
		return false;
	r->steps--;
	r->depth++;
	return true;
}

static inline bool v0_leave(struct v0 *r, bool result)
{
	r->depth--;
	return result;
}

/* Texts: nothing is printed while r->skip. */
bool v0_put(struct v0 *r, const char *bytes, size_t len);
bool v0_puts(struct v0 *r, const char *string);
bool v0_put_number(struct v0 *r, uint64_t n);
bool v0_put_utf8(struct v0 *r, uint32_t c);
bool v0_put_identifier(struct v0 *r, const struct v0_identifier *id);
/* The lifetime @index binders out, 0: '_. */
bool v0_put_lifetime(struct v0 *r, uint64_t index);

/* "_" is 0, "0_" 1, ... */
bool v0_parse_base62(struct v0 *r, uint64_t *ret_value);
/* @tag and a number that then is one more, or nothing: 0. */
bool v0_parse_optional(struct v0 *r, char tag, uint64_t *ret_value);
bool v0_parse_decimal(struct v0 *r, size_t *ret_value);
/* ["u"] length ["_"] bytes; of a punycoded one "ascii_rest". */
bool v0_parse_plain(struct v0 *r, struct v0_identifier *ret_id);
bool v0_parse_identifier(struct v0 *r, struct v0_identifier *ret_id);
/* "for<'a, 'b> " for the "G" of what follows; the caller takes them off r->bound again. */
bool v0_parse_binder(struct v0 *r, uint64_t *ret_n);

/* demangle-v0-path.c: a path, as the whole name begins with one. */
bool v0_parse_path(struct v0 *r, bool in_value, bool *ret_open);
