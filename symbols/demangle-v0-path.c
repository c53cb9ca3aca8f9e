/* demangle-v0-path.c - paths, types and constants of Rust's v0 names (RFC 2603; "v0 Symbol Format"
 * in the rustc book).  A function a construct, named by the letter that begins it. */
#include "symbols/demangle-v0.h"

static bool parse_type(struct v0 *r);
static bool parse_const(struct v0 *r);

/* ---- references ---- */

/* "B" offset: what stood there stands here too.  Back only, so that none leads to itself; the
 * budget and the depth do the rest. */
static bool parse_reference(struct v0 *r,
			    bool (*parse)(struct v0 *r, bool in_value, bool *ret_open),
			    bool in_value, bool *ret_open)
{
	size_t start = r->at - 1, back;
	uint64_t offset;
	bool result;

	if (!v0_parse_base62(r, &offset) || offset >= start)
		return false;
	if (r->skip)
		return true;
	back = r->at;
	r->at = (size_t)offset;
	result = parse(r, in_value, ret_open);
	r->at = back;
	return result;
}

static bool type_of_reference(struct v0 *r, bool in_value, bool *ret_open)
{
	(void)in_value;
	(void)ret_open;
	return parse_type(r);
}

static bool const_of_reference(struct v0 *r, bool in_value, bool *ret_open)
{
	(void)in_value;
	(void)ret_open;
	return parse_const(r);
}

/* ---- paths ---- */

static bool parse_generic_argument(struct v0 *r)
{
	uint64_t lifetime;

	if (v0_eat(r, 'L'))
		return v0_parse_base62(r, &lifetime) && v0_put_lifetime(r, lifetime);
	if (v0_eat(r, 'K'))
		return parse_const(r);
	return parse_type(r);
}

/* "I" path arguments "E".  With @ret_open the '>' is left to the caller. */
static bool parse_generics(struct v0 *r, bool in_value, bool *ret_open)
{
	if (!v0_parse_path(r, in_value, NULL) || !v0_puts(r, in_value ? "::<" : "<"))
		return false;
	for (bool first = true; !v0_eat(r, 'E'); first = false)
		if ((!first && !v0_puts(r, ", ")) || !parse_generic_argument(r))
			return false;
	if (ret_open) {
		*ret_open = true;
		return true;
	}
	return v0_puts(r, ">");
}

/* "N" namespace path identifier: closures and shims have names in braces. */
static bool parse_nested(struct v0 *r, bool in_value)
{
	struct v0_identifier id;
	char ns = v0_peek(r);

	if (!((ns >= 'a' && ns <= 'z') || (ns >= 'A' && ns <= 'Z')))
		return false;
	r->at++;
	if (!v0_parse_path(r, in_value, NULL) || !v0_parse_identifier(r, &id))
		return false;
	if (ns >= 'a')
		return (!id.len && !id.punycode) || (v0_puts(r, "::") && v0_put_identifier(r, &id));
	if (!v0_puts(r, "::{") || !(ns == 'C'	? v0_puts(r, "closure")
				    : ns == 'S' ? v0_puts(r, "shim")
						: v0_put(r, &ns, 1)))
		return false;
	if ((id.len || id.punycode) && !(v0_puts(r, ":") && v0_put_identifier(r, &id)))
		return false;
	return v0_puts(r, "#") && v0_put_number(r, id.disambiguator) && v0_puts(r, "}");
}

/* "M" and "X" name the place of the impl first: of no use to a reader. */
static bool parse_impl(struct v0 *r, char tag)
{
	uint64_t disambiguator;

	if (tag != 'Y') {
		bool ok;

		r->skip++;
		ok = v0_parse_optional(r, 's', &disambiguator) && v0_parse_path(r, false, NULL);
		r->skip--;
		if (!ok)
			return false;
	}
	if (!v0_puts(r, "<") || !parse_type(r))
		return false;
	if (tag != 'M' && !(v0_puts(r, " as ") && v0_parse_path(r, false, NULL)))
		return false;
	return v0_puts(r, ">");
}

static bool parse_path_inside(struct v0 *r, bool in_value, bool *ret_open)
{
	struct v0_identifier id;
	char tag = v0_peek(r);

	if (!tag)
		return false;
	r->at++;
	switch (tag) {
	case 'C':
		return v0_parse_identifier(r, &id) && v0_put_identifier(r, &id);
	case 'N':
		return parse_nested(r, in_value);
	case 'M':
	case 'X':
	case 'Y':
		return parse_impl(r, tag);
	case 'I':
		return parse_generics(r, in_value, ret_open);
	case 'B':
		return parse_reference(r, v0_parse_path, in_value, ret_open);
	default:
		return false;
	}
}

bool v0_parse_path(struct v0 *r, bool in_value, bool *ret_open)
{
	return v0_enter(r) && v0_leave(r, parse_path_inside(r, in_value, ret_open));
}

/* ---- types ---- */

static const char *basic_type(char tag)
{
	static const char *const names[26] = {"i8",   "bool",  "char",	"f64", "str", "f32", NULL,
					      "u8",   "isize", "usize", NULL,  "i32", "u32", "i128",
					      "u128", "_",     NULL,	NULL,  "i16", "u16", "()",
					      "...",  NULL,    "i64",	"u64", "!"};

	return tag >= 'a' && tag <= 'z' ? names[tag - 'a'] : NULL;
}

static bool parse_pointer(struct v0 *r, char tag)
{
	uint64_t lifetime;

	if (tag == 'P' || tag == 'O')
		return v0_puts(r, tag == 'P' ? "*const " : "*mut ") && parse_type(r);
	if (!v0_puts(r, "&"))
		return false;
	if (v0_eat(r, 'L')) {
		if (!v0_parse_base62(r, &lifetime))
			return false;
		if (lifetime && !(v0_put_lifetime(r, lifetime) && v0_puts(r, " ")))
			return false;
	}
	return (tag == 'R' || v0_puts(r, "mut ")) && parse_type(r);
}

static bool parse_tuple(struct v0 *r)
{
	unsigned n = 0;

	if (!v0_puts(r, "("))
		return false;
	for (; !v0_eat(r, 'E'); n++)
		if ((n && !v0_puts(r, ", ")) || !parse_type(r))
			return false;
	return v0_puts(r, n == 1 ? ",)" : ")");
}

static bool parse_abi(struct v0 *r)
{
	struct v0_identifier id;

	if (!v0_puts(r, "extern \""))
		return false;
	if (v0_eat(r, 'C'))
		return v0_puts(r, "C\" ");
	if (!v0_parse_plain(r, &id) || id.punycode)
		return false;
	for (size_t i = 0; i < id.len; i++)
		if (!v0_put(r, id.text[i] == '_' ? "-" : &id.text[i], 1))
			return false;
	return v0_puts(r, "\" ");
}

static bool parse_function(struct v0 *r)
{
	if (v0_eat(r, 'U') && !v0_puts(r, "unsafe "))
		return false;
	if (v0_eat(r, 'K') && !parse_abi(r))
		return false;
	if (!v0_puts(r, "fn("))
		return false;
	for (bool first = true; !v0_eat(r, 'E'); first = false)
		if ((!first && !v0_puts(r, ", ")) || !parse_type(r))
			return false;
	if (!v0_puts(r, ")"))
		return false;
	if (v0_eat(r, 'u')) /* returns () */
		return true;
	return v0_puts(r, " -> ") && parse_type(r);
}

static bool parse_dyn_trait(struct v0 *r)
{
	bool open = false;

	if (!v0_parse_path(r, false, &open))
		return false;
	while (v0_eat(r, 'p')) {
		struct v0_identifier id;

		if (!v0_puts(r, open ? ", " : "<") || !v0_parse_plain(r, &id) ||
		    !v0_put_identifier(r, &id) || !v0_puts(r, " = ") || !parse_type(r))
			return false;
		open = true;
	}
	return !open || v0_puts(r, ">");
}

static bool parse_dyn(struct v0 *r)
{
	for (bool first = true; !v0_eat(r, 'E'); first = false)
		if ((!first && !v0_puts(r, " + ")) || !parse_dyn_trait(r))
			return false;
	return true;
}

/* What a binder may stand before. */
static bool parse_bound(struct v0 *r, bool (*parse)(struct v0 *r))
{
	uint64_t outer = r->bound, n;
	bool ok = v0_parse_binder(r, &n) && parse(r);

	r->bound = outer;
	return ok;
}

static bool parse_type_inside(struct v0 *r)
{
	char tag = v0_peek(r);
	uint64_t lifetime;

	if (!tag)
		return false;
	if (basic_type(tag)) {
		r->at++;
		return v0_puts(r, basic_type(tag));
	}
	switch (tag) {
	case 'C':
	case 'M':
	case 'X':
	case 'Y':
	case 'N':
	case 'I':
		return v0_parse_path(r, false, NULL);
	default:
		r->at++;
	}
	switch (tag) {
	case 'B':
		return parse_reference(r, type_of_reference, false, NULL);
	case 'R':
	case 'Q':
	case 'P':
	case 'O':
		return parse_pointer(r, tag);
	case 'A':
		return v0_puts(r, "[") && parse_type(r) && v0_puts(r, "; ") && parse_const(r) &&
		       v0_puts(r, "]");
	case 'S':
		return v0_puts(r, "[") && parse_type(r) && v0_puts(r, "]");
	case 'T':
		return parse_tuple(r);
	case 'F':
		return parse_bound(r, parse_function);
	case 'D':
		if (!v0_puts(r, "dyn ") || !parse_bound(r, parse_dyn) || !v0_eat(r, 'L') ||
		    !v0_parse_base62(r, &lifetime))
			return false;
		return !lifetime || (v0_puts(r, " + ") && v0_put_lifetime(r, lifetime));
	default:
		return false;
	}
}

static bool parse_type(struct v0 *r)
{
	return v0_enter(r) && v0_leave(r, parse_type_inside(r));
}

/* ---- constants ---- */

/* Hexadecimal digits and "_". */
static bool parse_hex(struct v0 *r, uint64_t *ret_value, const char **ret_digits, size_t *ret_n)
{
	uint64_t v = 0;

	*ret_digits = r->s + r->at;
	for (*ret_n = 0; !v0_eat(r, '_'); ++*ret_n, r->at++) {
		char ch = v0_peek(r);

		if (ch >= '0' && ch <= '9')
			v = v << 4 | (uint64_t)(ch - '0');
		else if (ch >= 'a' && ch <= 'f')
			v = v << 4 | (uint64_t)(ch - 'a' + 10);
		else
			return false;
	}
	*ret_value = v;
	return true;
}

static bool parse_number(struct v0 *r, char tag)
{
	const char *digits;
	uint64_t v;
	size_t n;

	if (strchr("aslxni", tag) && v0_eat(r, 'n') && !v0_puts(r, "-"))
		return false;
	if (!parse_hex(r, &v, &digits, &n))
		return false;
	if (tag == 'b')
		return v < 2 && v0_puts(r, v ? "true" : "false");
	if (tag == 'c')
		return v >= ' ' && v != 0x7f && v <= 0x10ffff && v0_puts(r, "'") &&
		       v0_put_utf8(r, (uint32_t)v) && v0_puts(r, "'");
	return n <= 16 ? v0_put_number(r, v) : v0_puts(r, "0x") && v0_put(r, digits, n);
}

/* Numbers, bool, char and "_"; the structured constants of unstable Rust make the name stay as it
 * is. */
static bool parse_const_inside(struct v0 *r)
{
	char tag = v0_peek(r);

	if (!tag)
		return false;
	r->at++;
	if (tag == 'B')
		return parse_reference(r, const_of_reference, false, NULL);
	if (tag == 'p')
		return v0_puts(r, "_");
	return strchr("hmtyojaslxnibc", tag) && parse_number(r, tag);
}

static bool parse_const(struct v0 *r)
{
	return v0_enter(r) && v0_leave(r, parse_const_inside(r));
}
