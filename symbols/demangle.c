/* demangle.c - readable names.
 *
 * C++ by libiberty (linked from libiberty.a; its cp-demangle.c is GPL-2+ with the exception that
 * allows linking into programs of any licence).  Its allocating forms exit() when memory is short,
 * so the callback form is used, which allocates nothing. Rust and D are demangled here: libiberty
 * has no callback form for D, and its form for Rust can run for years on a name of thirty bytes (a
 * binder of 62^8 lifetimes). OCaml and Haskell: demangle-functional.c.
 *
 * A name comes from the target.  A hundred bytes of substitutions can stand for more text than
 * there are atoms: when the room is full, the callback leaves by longjmp.  Input over a limit is
 * not demangled, and libiberty itself limits the depth of its recursion. */
#include <libiberty/demangle.h>
#undef ARRAY_SIZE /* ours is the same */
#include <setjmp.h>
#include <string.h>

#include "base/bytes.h"
#include "symbols/demangle.h"

enum {
	/* libiberty refuses a name of more components than 2048, counting two a byte; a stack of 1
	 * MiB is enough for what UW_MANGLED_MAX allows, so that limit is lifted for longer names */
	SHORT_INPUT = 1000,
};

/* ---- D: the qualified name only, types are dropped ----
 *
 * libiberty's D demangler has no form that does not allocate, and its allocations exit() when
 * memory is short.  A nested function is shown as the outermost one: its own name follows a type. */

static size_t read_number(struct cursor *c)
{
	size_t v = 0;

	for (; c->p < c->end && *c->p >= '0' && *c->p <= '9'; c->p++)
		if (v <= UW_MANGLED_MAX)
			v = v * 10 + (size_t)(*c->p - '0');
	return v;
}

/* A back reference: the distance from the 'Q' to an identifier, base 26, A-Z and an a-z at the end.
 */
static bool follow_reference(struct cursor *c, const uint8_t *start, struct cursor *ret_target)
{
	const uint8_t *q = c->p++;
	size_t distance = 0;

	while (c->p < c->end && *c->p >= 'A' && *c->p <= 'Z' && distance <= UW_MANGLED_MAX)
		distance = distance * 26 + (size_t)(*c->p++ - 'A');
	if (c->p >= c->end || *c->p < 'a' || *c->p > 'z')
		return false;
	distance = distance * 26 + (size_t)(*c->p++ - 'a');
	if (!distance || distance > (size_t)(q - start))
		return false;
	*ret_target = (struct cursor){.p = q - distance, .end = c->end};
	return *ret_target->p >= '0' && *ret_target->p <= '9';
}

static bool d_identifier(struct uw_text *out, struct cursor *c)
{
	static const char *const special[][2] = {
		{"__ctor", "this"}, {"__dtor", "~this"}, {"__postblit", "this(this)"}};
	size_t len = read_number(c);
	const char *name = len ? cursor_bytes(c, len) : NULL;
	struct cursor inner;

	if (!name)
		return false;
	if (out->len)
		(void)uw_text_add(out, ".", 1);
	if (len > 4 && (!memcmp(name, "__T", 3) || !memcmp(name, "__U", 3)) && name[3] >= '0' &&
	    name[3] <= '9') {
		inner = cursor_of(name + 3, len - 3);
		len = read_number(&inner);
		name = len ? cursor_bytes(&inner, len) : NULL;
		if (!name)
			return false;
		(void)uw_text_add(out, name, len);
		(void)uw_text_add(out, "!(...)", 6);
		return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(special); i++) {
		if (len != strlen(special[i][0]) || memcmp(name, special[i][0], len) != 0)
			continue;
		(void)uw_text_add(out, special[i][1], strlen(special[i][1]));
		return true;
	}
	(void)uw_text_add(out, name, len);
	return true;
}

static bool demangle_d(const char *name, struct uw_text *out)
{
	struct cursor c, target;
	const uint8_t *start;

	if (strncmp(name, "_D", 2) != 0)
		return false;
	c = cursor_of(name + 2, strlen(name + 2));
	start = c.p;
	if (!strcmp(name, "_Dmain")) {
		(void)uw_text_add(out, "D main", 6);
		return true;
	}
	while (c.p < c.end) {
		bool is_template =
			cursor_left(&c) > 3 && (!memcmp(c.p, "__T", 3) || !memcmp(c.p, "__U", 3));

		if (is_template)
			c.p += 3;
		if (*c.p == 'Q') {
			if (!follow_reference(&c, start, &target) || !d_identifier(out, &target))
				return false;
		} else if (*c.p >= '0' && *c.p <= '9') {
			if (!d_identifier(out, &c))
				return false;
		} else {
			break;
		}
		if (is_template) { /* its arguments have no length in front: stop here */
			(void)uw_text_add(out, "!(...)", 6);
			break;
		}
	}
	return out->len;
}

/* ---- C++ ---- */

struct output {
	struct uw_text *text;
	jmp_buf full;
};

static void on_text(const char *bytes, size_t len, void *arg)
{
	struct output *out = arg;

	if (!uw_text_add(out->text, bytes, len))
		longjmp(out->full, 1);
}

static bool demangle_cxx(const char *name, struct uw_text *text)
{
	const int options = DMGL_PARAMS | DMGL_ANSI | DMGL_RET_DROP;
	struct output out = {.text = text};

	if (setjmp(out.full))
		return true; /* cut, but a name */
	return cplus_demangle_v3_callback(
		       name, options | (strlen(name) > SHORT_INPUT ? DMGL_NO_RECURSE_LIMIT : 0),
		       on_text, &out) &&
	       text->len;
}

/* ---- all languages ---- */

static bool is_word(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		char ch = text[i];

		if (!((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
		      (ch >= '0' && ch <= '9') || ch == '_' || ch == '.' || ch == '$'))
			return false;
	}
	return len > 0;
}

/* The length of the name before "@VERSION" or "@@VERSION"; a JIT's "f@file.js:3" has no version. */
static size_t without_version(const char *name, size_t len)
{
	const char *at = strchr(name, '@'), *version;
	size_t base, left;

	if (!at || !is_word(name, (size_t)(at - name)))
		return len;
	base = (size_t)(at - name);
	version = at + 1 + (at[1] == '@');
	left = len - (size_t)(version - name);
	return is_word(version, left) && !(version[0] >= '0' && version[0] <= '9') ? base : len;
}

/* Does not leave the first bytes of a UTF-8 character at the end. */
static void end_text(struct uw_text *text)
{
	size_t back = 0;

	if (text->len == text->size - 1) {
		while (back < 3 && back < text->len &&
		       ((uint8_t)text->to[text->len - 1 - back] & 0xc0) == 0x80)
			back++;
		if (back < text->len) {
			uint8_t lead = (uint8_t)text->to[text->len - 1 - back];
			size_t need = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc0 ? 1 : 0;

			if (need > back)
				text->len -= back + 1;
		}
	}
	text->to[text->len] = 0;
}

/* Rust's older names are C++ names with a hash at the end, so Rust is tried first. */
static bool demangle_into(const char *name, struct uw_text *text)
{
	static bool (*const languages[2][3])(const char *name, struct uw_text *text) = {
		{uw_demangle_ocaml, uw_demangle_haskell},
		{uw_demangle_rust, demangle_d, demangle_cxx}};
	bool underscore = name[0] == '_';

	for (size_t i = 0; i < ARRAY_SIZE(languages[0]) && languages[underscore][i]; i++) {
		text->len = 0;
		if (languages[underscore][i](name, text))
			return true;
	}
	return false;
}

void uw_demangle(const char *name, char *to, size_t size)
{
	struct uw_text text = {.to = to, .size = size};
	size_t len = strlen(name);
	char base[UW_MANGLED_MAX + 1];
	bool plt = len > 4 && !strcmp(name + len - 4, "@plt");

	if (!size)
		return;
	if (plt)
		len -= 4;
	if (len > UW_MANGLED_MAX) {
		(void)uw_text_add(&text, name, len);
		end_text(&text);
		return;
	}
	memcpy(base, name, len);
	base[len] = 0;
	len = without_version(base, len);
	base[len] = 0;
	if (!demangle_into(base, &text)) {
		text.len = 0;
		(void)uw_text_add(&text, base, len);
	}
	if (plt)
		(void)uw_text_puts(&text, "@plt");
	end_text(&text);
}
