/* demangle.c - readable names.
 *
 * C++ by libiberty (linked from libiberty.a; its cp-demangle.c is GPL-2+ with the exception that
 * allows linking into programs of any licence).  Its allocating forms exit() when memory is short,
 * so the callback form is used, which allocates nothing. Rust and D are demangled here: libiberty
 * has no callback form for D, and its form for Rust can run for years on a name of thirty bytes (a
 * binder of 62^8 lifetimes).
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

/* ---- OCaml and Haskell ----
 *
 * OCaml (asmcomp/compilenv.ml): "caml", the path of the module with "__" between
 * its parts, "__" or (5.1 on) ".", the name, "_" and a number that makes it unique.  "$xx" is the
 * byte xx in hexadecimal.  camlStdlib__Hashtbl__find_996 is Stdlib.Hashtbl.find.
 *
 * Haskell (compiler/GHC/Utils/Encoding.hs of GHC): the package (none for the program's own), the
 * module, the name and the kind of the label with "_" between them, each z-encoded:
 * base_GHCziBase_zpzp_info is GHC.Base.++.  In that encoding z and Z begin an escape:
 *
 *   zi zm zd ...   one character        z3bbU   the character with that code, in hexadecimal; it
 *   ZL ZR ZC ...   the same                     begins with a digit
 *   Z3T            (,,)                 Z3H     (#,,#)
 *
 * Many a C name ends in "_info", so one without any escape is taken for Haskell in module Main only. */

static int hex_digit(char ch)
{
	if (ch >= '0' && ch <= '9')
		return ch - '0';
	return ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1;
}

static bool is_upper(char ch)
{
	return ch >= 'A' && ch <= 'Z';
}

static bool is_digit(char ch)
{
	return ch >= '0' && ch <= '9';
}

static void put(struct uw_text *text, char ch)
{
	(void)uw_text_add(text, &ch, 1);
}

/* ---- OCaml ---- */

/* The length without the number at the end.  Anonymous functions differ by nothing else. */
static size_t without_stamp(const char *name, size_t len)
{
	size_t digits = 0;

	while (digits < len && is_digit(name[len - 1 - digits]))
		digits++;
	if (!digits || digits + 2 >= len || name[len - 1 - digits] != '_' ||
	    name[len - 2 - digits] == '_')
		return len;
	len -= digits + 1;
	return len >= 5 && !memcmp(name + len - 5, "__fun", 5) ? len + digits + 1 : len;
}

static bool demangle_ocaml(const char *name, struct uw_text *text)
{
	size_t len = strlen(name);

	if (len < 5 || memcmp(name, "caml", 4) != 0 || !is_upper(name[4]))
		return false;
	if (!strstr(name + 5, "__") && !strchr(name + 5, '.'))
		return false;
	len = without_stamp(name, len);
	for (size_t i = 4; i < len; i++) {
		int high = i + 2 < len ? hex_digit(name[i + 1]) : -1;
		int low = i + 2 < len ? hex_digit(name[i + 2]) : -1;

		if (name[i] == '$' && high >= 0 && low >= 0 && high * 16 + low >= ' ') {
			put(text, (char)(high * 16 + low));
			i += 2;
		} else if (i + 2 < len && name[i] == '_' && name[i + 1] == '_') {
			put(text, '.');
			i++;
		} else {
			put(text, name[i]);
		}
	}
	return true;
}

/* ---- Haskell ---- */

struct z_part {
	const char *at;
	size_t len;
};

static void put_utf8(struct uw_text *text, uint32_t code)
{
	if (code < 0x80) {
		put(text, (char)code);
	} else if (code < 0x800) {
		put(text, (char)(0xc0 | code >> 6));
		put(text, (char)(0x80 | (code & 0x3f)));
	} else if (code < 0x10000) {
		put(text, (char)(0xe0 | code >> 12));
		put(text, (char)(0x80 | (code >> 6 & 0x3f)));
		put(text, (char)(0x80 | (code & 0x3f)));
	} else {
		put(text, (char)(0xf0 | code >> 18));
		put(text, (char)(0x80 | (code >> 12 & 0x3f)));
		put(text, (char)(0x80 | (code >> 6 & 0x3f)));
		put(text, (char)(0x80 | (code & 0x3f)));
	}
}

/* At a digit behind 'z': the length with the U, 0 if it is not a character. */
static size_t z_code(const char *at, size_t len, struct uw_text *text)
{
	uint32_t code = 0;
	size_t i = 0;

	for (; i < len && hex_digit(at[i]) >= 0 && code <= 0x10ffff; i++)
		code = code << 4 | (uint32_t)hex_digit(at[i]);
	if (i == len || at[i] != 'U' || code < ' ' || code > 0x10ffff ||
	    (code >= 0xd800 && code < 0xe000))
		return 0;
	put_utf8(text, code);
	return i + 1;
}

/* At a digit behind 'Z': a tuple. */
static size_t z_tuple(const char *at, size_t len, struct uw_text *text)
{
	size_t n = 0, i = 0;
	bool boxed;

	for (; i < len && is_digit(at[i]) && n < 1000; i++)
		n = n * 10 + (size_t)(at[i] - '0');
	if (i == len || n > 64 || (at[i] != 'T' && at[i] != 'H'))
		return 0;
	boxed = at[i] == 'T';
	(void)uw_text_puts(text, boxed ? "(" : "(#");
	for (size_t k = 1; k < n; k++)
		put(text, ',');
	(void)uw_text_puts(text, boxed ? ")" : n < 2 ? " #)" : "#)");
	return i + 1;
}

static char z_escaped(char first, char second)
{
	static const char pairs[][3] = {
		{'z', 'a', '&'},  {'z', 'b', '|'},  {'z', 'c', '^'}, {'z', 'd', '$'},
		{'z', 'e', '='},  {'z', 'g', '>'},  {'z', 'h', '#'}, {'z', 'i', '.'},
		{'z', 'l', '<'},  {'z', 'm', '-'},  {'z', 'n', '!'}, {'z', 'p', '+'},
		{'z', 'q', '\''}, {'z', 'r', '\\'}, {'z', 's', '/'}, {'z', 't', '*'},
		{'z', 'u', '_'},  {'z', 'v', '%'},  {'z', 'z', 'z'}, {'Z', 'L', '('},
		{'Z', 'R', ')'},  {'Z', 'M', '['},  {'Z', 'N', ']'}, {'Z', 'C', ':'},
		{'Z', 'Z', 'Z'},
	};

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++)
		if (pairs[i][0] == first && pairs[i][1] == second)
			return pairs[i][2];
	return 0;
}

/* false: it is not z-encoded.  Counts its escapes. */
static bool z_decode(struct z_part part, struct uw_text *text, size_t *escapes)
{
	for (size_t i = 0; i < part.len; i++) {
		const char *at = part.at + i + 1;
		size_t left = part.len - i - 1, n;
		char ch = part.at[i], plain;

		if (ch != 'z' && ch != 'Z') {
			put(text, ch);
			continue;
		}
		if (!left)
			return false;
		++*escapes;
		if (is_digit(*at)) {
			n = ch == 'z' ? z_code(at, left, text) : z_tuple(at, left, text);
			if (!n)
				return false;
			i += n;
			continue;
		}
		plain = z_escaped(ch, *at);
		if (!plain)
			return false;
		put(text, plain);
		i++;
	}
	return true;
}

/* Splits at each '_', into 5 parts at most; 0: an empty one, or more. */
static size_t z_split(const char *name, struct z_part parts[5])
{
	size_t n = 0;

	for (;; name++) {
		size_t len = strcspn(name, "_");

		if (!len || n == 5)
			return 0;
		parts[n++] = (struct z_part){name, len};
		name += len;
		if (!*name)
			return n;
	}
}

static bool part_is(struct z_part part, const char *text)
{
	return part.len == strlen(text) && !memcmp(part.at, text, part.len);
}

/* The parts without the kind of the label; 0: it is not a label of code. */
static size_t without_kind(const struct z_part *parts, size_t n)
{
	static const char *const kinds[] = {"info", "entry", "ret", "slow", "fast"};

	for (size_t i = 0; i < ARRAY_SIZE(kinds) && n > 2; i++) {
		if (!part_is(parts[n - 1], kinds[i]))
			continue;
		n--;
		if (n > 2 && (part_is(parts[n - 1], "con") || part_is(parts[n - 1], "static")))
			n--;
		return n;
	}
	return 0;
}

static bool demangle_haskell(const char *name, struct uw_text *text)
{
	struct z_part parts[5], module;
	char unused[256];
	struct uw_text package = {.to = unused, .size = sizeof(unused)};
	size_t n = without_kind(parts, z_split(name, parts)), escapes = 0;

	if (n != 2 && n != 3)
		return false;
	module = parts[n - 2];
	if (!is_upper(*module.at) || (n == 3 && !z_decode(parts[0], &package, &escapes)) ||
	    !z_decode(module, text, &escapes))
		return false;
	put(text, '.');
	return z_decode(parts[n - 1], text, &escapes) && (escapes || part_is(module, "Main"));
}

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
		{demangle_ocaml, demangle_haskell}, {uw_demangle_rust, demangle_d, demangle_cxx}};
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
