/* demangle-functional.c - names of OCaml and Haskell.
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
#include "base/bytes.h"
#include "symbols/demangle.h"

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

bool uw_demangle_ocaml(const char *name, struct uw_text *text)
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

/* At a digit behind 'z': the length with the U, 0 if it is no character. */
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

bool uw_demangle_haskell(const char *name, struct uw_text *text)
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
