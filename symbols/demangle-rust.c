/* demangle-rust.c - Rust's two manglings.
 *
 *   legacy   a C++ name with the last part 17h and 16 hexadecimal digits: _ZN4core3ptr...17h<hash>E
 *   v0       _R and a path
 *
 * Hashes and crate disambiguators are left out.  v0 has back references that double the text and
 * numbers that repeat it: every step is charged to one budget, the depth is limited, and a full text
 * ends the parsing.  Parts that are only skipped (the path of an impl) follow no reference.  Nothing
 * is allocated. */
#include "symbols/demangle.h"

/* ---- v0: words ----
 *
 * Each function returns false to end the parsing: the name is not a v0 name, or the text is full. */

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

/* The beginning of every construct. */
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

enum { PUNYCODE_MAX = 128 };

/* Nothing is printed while r->skip. */
static bool v0_put(struct v0 *r, const char *bytes, size_t len)
{
	if (r->skip)
		return true;
	r->full |= !uw_text_add(r->text, bytes, len);
	return !r->full;
}

static bool v0_puts(struct v0 *r, const char *string)
{
	return v0_put(r, string, strlen(string));
}

static bool v0_put_number(struct v0 *r, uint64_t n)
{
	char digits[24];

	(void)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);
	return v0_puts(r, digits);
}

/* "_" is 0, "0_" 1, ... */
static bool v0_parse_base62(struct v0 *r, uint64_t *ret_value)
{
	uint64_t v = 0;

	if (v0_eat(r, '_')) {
		*ret_value = 0;
		return true;
	}
	while (!v0_eat(r, '_')) {
		char ch = v0_peek(r);
		unsigned digit;

		if (ch >= '0' && ch <= '9')
			digit = (unsigned)(ch - '0');
		else if (ch >= 'a' && ch <= 'z')
			digit = (unsigned)(ch - 'a') + 10;
		else if (ch >= 'A' && ch <= 'Z')
			digit = (unsigned)(ch - 'A') + 36;
		else
			return false;
		if (v > (UINT64_MAX - 62) / 62)
			return false;
		v = v * 62 + digit;
		r->at++;
	}
	*ret_value = v + 1;
	return true;
}

/* @tag and a number, which counts one more; 0 without the tag. */
static bool v0_parse_optional(struct v0 *r, char tag, uint64_t *ret_value)
{
	*ret_value = 0;
	if (!v0_eat(r, tag))
		return true;
	if (!v0_parse_base62(r, ret_value) || *ret_value == UINT64_MAX)
		return false;
	++*ret_value;
	return true;
}

static bool v0_parse_decimal(struct v0 *r, size_t *ret_value)
{
	size_t v = 0;

	if (v0_peek(r) < '0' || v0_peek(r) > '9')
		return false;
	if (v0_eat(r, '0')) {
		*ret_value = 0;
		return true;
	}
	for (; v0_peek(r) >= '0' && v0_peek(r) <= '9'; r->at++) {
		v = v * 10 + (size_t)(v0_peek(r) - '0');
		if (v > UW_MANGLED_MAX)
			return false;
	}
	*ret_value = v;
	return true;
}

static bool v0_parse_path(struct v0 *r, bool in_value, bool *ret_open);
static bool parse_type(struct v0 *r);
static bool parse_const(struct v0 *r);

/* ---- v0: identifiers ---- */

static bool v0_put_utf8(struct v0 *r, uint32_t c)
{
	char b[4];

	if (c < 0x80) {
		b[0] = (char)c;
		return v0_put(r, b, 1);
	}
	if (c < 0x800) {
		b[0] = (char)(0xc0 | c >> 6);
		b[1] = (char)(0x80 | (c & 63));
		return v0_put(r, b, 2);
	}
	if (c < 0x10000) {
		b[0] = (char)(0xe0 | c >> 12);
		b[1] = (char)(0x80 | (c >> 6 & 63));
		b[2] = (char)(0x80 | (c & 63));
		return v0_put(r, b, 3);
	}
	b[0] = (char)(0xf0 | c >> 18);
	b[1] = (char)(0x80 | (c >> 12 & 63));
	b[2] = (char)(0x80 | (c >> 6 & 63));
	b[3] = (char)(0x80 | (c & 63));
	return v0_put(r, b, 4);
}

/* RFC 3492, 6.1 */
static uint32_t adapt(uint32_t delta, uint32_t points, bool first)
{
	uint32_t k = 0;

	delta = first ? delta / 700 : delta / 2;
	for (delta += delta / points; delta > 35 * 26 / 2; k += 36)
		delta /= 35;
	return k + 36 * delta / (delta + 38);
}

/* RFC 3492, 6.2, into @c; the number of characters, 0: not punycode or too long. */
static size_t decode(const struct v0_identifier *id, uint32_t c[PUNYCODE_MAX])
{
	uint32_t next = 128, i = 0, bias = 72;
	size_t n = id->len, at = 0;

	if (n >= PUNYCODE_MAX)
		return 0;
	for (size_t k = 0; k < n; k++)
		c[k] = (uint8_t)id->text[k];
	while (at < id->punycode_len) {
		uint32_t before = i, weight = 1;

		for (uint32_t k = 36;; k += 36) {
			uint32_t limit = k <= bias ? 1 : k >= bias + 26 ? 26 : k - bias, digit;
			char ch = at < id->punycode_len ? id->punycode[at++] : '!';

			if (ch >= 'a' && ch <= 'z')
				digit = (uint32_t)(ch - 'a');
			else if (ch >= '0' && ch <= '9')
				digit = (uint32_t)(ch - '0') + 26;
			else
				return 0;
			if (weight > UINT32_MAX / 64 || i > UINT32_MAX / 2 ||
			    digit * weight > UINT32_MAX / 2)
				return 0;
			i += digit * weight;
			if (digit < limit)
				break;
			weight *= 36 - limit;
		}
		if (++n >= PUNYCODE_MAX)
			return 0;
		bias = adapt(i - before, (uint32_t)n, before == 0);
		next += i / (uint32_t)n;
		i %= (uint32_t)n;
		if (next > 0x10ffff || (next >= 0xd800 && next < 0xe000))
			return 0;
		memmove(c + i + 1, c + i, (n - 1 - i) * sizeof(*c));
		c[i++] = next;
	}
	return n;
}

static bool v0_put_identifier(struct v0 *r, const struct v0_identifier *id)
{
	uint32_t c[PUNYCODE_MAX];
	size_t n;

	if (!id->punycode || r->skip)
		return v0_put(r, id->text, id->len);
	n = decode(id, c);
	if (!n)
		return v0_puts(r, "punycode{") && v0_put(r, id->text, id->len) && v0_puts(r, "-") &&
		       v0_put(r, id->punycode, id->punycode_len) && v0_puts(r, "}");
	for (size_t i = 0; i < n; i++)
		if (!v0_put_utf8(r, c[i]))
			return false;
	return true;
}

/* ["u"] length ["_"] bytes; of a punycoded one "ascii_rest". */
static bool v0_parse_plain(struct v0 *r, struct v0_identifier *ret_id)
{
	bool punycode = v0_eat(r, 'u');
	struct v0_identifier id = {0};

	if (!v0_parse_decimal(r, &id.len))
		return false;
	(void)v0_eat(r, '_');
	if (id.len > r->len - r->at)
		return false;
	id.text = r->s + r->at;
	r->at += id.len;
	if (punycode) {
		const char *split = memrchr(id.text, '_', id.len);
		size_t plain = split ? (size_t)(split - id.text) : 0;

		id.punycode = split ? split + 1 : id.text;
		id.punycode_len = id.len - plain - (split ? 1 : 0);
		id.len = plain;
		if (!id.punycode_len)
			return false;
	}
	*ret_id = id;
	return true;
}

static bool v0_parse_identifier(struct v0 *r, struct v0_identifier *ret_id)
{
	uint64_t disambiguator;

	if (!v0_parse_optional(r, 's', &disambiguator) || !v0_parse_plain(r, ret_id))
		return false;
	ret_id->disambiguator = disambiguator;
	return true;
}

/* ---- v0: lifetimes ---- */

/* The lifetime @index binders out, 0: '_. */
static bool v0_put_lifetime(struct v0 *r, uint64_t index)
{
	char name[2] = {'\'', '_'};
	uint64_t depth;

	if (!index)
		return v0_put(r, name, 2);
	if (index > r->bound)
		return r->skip > 0;
	depth = r->bound - index;
	if (depth >= 26)
		return v0_puts(r, "'_") && v0_put_number(r, depth);
	name[1] = (char)('a' + depth);
	return v0_put(r, name, 2);
}

/* "for<'a, 'b> " for a "G"; the caller subtracts its lifetimes from r->bound afterwards. */
static bool v0_parse_binder(struct v0 *r, uint64_t *ret_n)
{
	if (!v0_parse_optional(r, 'G', ret_n) || *ret_n > V0_BOUND_MAX ||
	    r->bound + *ret_n > V0_BOUND_MAX)
		return false;
	if (!*ret_n)
		return true;
	if (!v0_puts(r, "for<"))
		return false;
	for (uint64_t i = 0; i < *ret_n; i++) {
		r->bound++;
		if ((i && !v0_puts(r, ", ")) || !v0_put_lifetime(r, 1))
			return false;
	}
	return v0_puts(r, "> ");
}

/* ---- v0: paths, types and constants (RFC 2603; "v0 Symbol Format" in the rustc book) ----
 *
 * One function a construct, named by the letter that begins it. */

/* ---- v0: references ---- */

/* "B" offset: repeats the text at that offset. Backwards only, so that no reference leads to
 * itself; the budget and the depth limit the rest. */
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

/* ---- v0: paths ---- */

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

/* "M" and "X" name the place of the impl first, which a reader does not need. */
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

/* A path: the whole name begins with one. */
static bool v0_parse_path(struct v0 *r, bool in_value, bool *ret_open)
{
	return v0_enter(r) && v0_leave(r, parse_path_inside(r, in_value, ret_open));
}

/* ---- v0: types ---- */

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

/* The types that a binder may precede. */
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

/* ---- v0: constants ---- */

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

/* ---- whole names ---- */

/* ".llvm.HASH" means nothing to a reader. */
static bool put_suffix(struct uw_text *text, const char *suffix)
{
	if (*suffix && strncmp(suffix, ".llvm.", 6) != 0)
		(void)(uw_text_puts(text, " [clone ") && uw_text_puts(text, suffix) &&
		       uw_text_puts(text, "]"));
	return true;
}

static bool demangle_v0(const char *name, struct uw_text *text)
{
	struct v0 r = {.s = name, .len = strcspn(name, "."), .text = text, .steps = V0_STEPS_MAX};
	bool ok;

	for (size_t i = 0; i < r.len; i++) /* also refuses what is only like it, "_Read-x" */
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_",
			    name[i]))
			return false;
	ok = v0_parse_path(&r, true, NULL);
	if (ok && r.at < r.len) { /* the crate that instantiated it */
		r.skip = 1;
		ok = v0_parse_path(&r, false, NULL) && r.at == r.len;
	}
	if (r.full)
		return true;
	return ok && text->len && put_suffix(text, name + r.len);
}

/* ---- legacy ---- */

static bool is_hash(const char *part, size_t len)
{
	return len == 17 && part[0] == 'h' && strspn(part + 1, "0123456789abcdef") >= 16;
}

/* "$LT$" and other escapes; the bytes used, 0: no escape. */
static size_t put_escape(struct uw_text *text, const char *p, size_t len)
{
	static const char *const escapes[][2] = {{"$SP$", "@"}, {"$BP$", "*"}, {"$RF$", "&"},
						 {"$LT$", "<"}, {"$GT$", ">"}, {"$LP$", "("},
						 {"$RP$", ")"}, {"$C$", ","}};
	struct v0 r = {.text = text};
	uint32_t c = 0;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(escapes); i++) {
		size_t n = strlen(escapes[i][0]);

		if (len < n || memcmp(p, escapes[i][0], n) != 0)
			continue;
		(void)uw_text_puts(text, escapes[i][1]);
		return n;
	}
	if (len < 4 || p[1] != 'u')
		return 0;
	for (i = 2; i < len && i < 8 && p[i] != '$'; i++) {
		if (p[i] >= '0' && p[i] <= '9')
			c = c << 4 | (uint32_t)(p[i] - '0');
		else if (p[i] >= 'a' && p[i] <= 'f')
			c = c << 4 | (uint32_t)(p[i] - 'a' + 10);
		else
			return 0;
	}
	if (i >= len || p[i] != '$' || c < ' ' || c > 0x10ffff)
		return 0;
	(void)v0_put_utf8(&r, c);
	return i + 1;
}

static void put_part(struct uw_text *text, const char *p, size_t len)
{
	if (len > 1 && p[0] == '_' && p[1] == '$') {
		p++;
		len--;
	}
	while (len) {
		size_t n = *p == '$' ? put_escape(text, p, len) : 0;

		if (!n && len > 1 && p[0] == '.' && p[1] == '.') {
			(void)uw_text_puts(text, "::");
			n = 2;
		} else if (!n) {
			(void)uw_text_add(text, p, 1);
			n = 1;
		}
		p += n;
		len -= n;
	}
}

static bool demangle_legacy(const char *name, struct uw_text *text)
{
	struct v0 r = {.s = name, .len = strlen(name)};
	bool hash = false;
	size_t len;

	for (unsigned n = 0; !v0_eat(&r, 'E'); n++) {
		const char *part;

		if (hash || !v0_parse_decimal(&r, &len) || !len || len > r.len - r.at)
			return false;
		part = r.s + r.at;
		r.at += len;
		hash = is_hash(part, len);
		if (hash)
			continue;
		if (n)
			(void)uw_text_puts(text, "::");
		put_part(text, part, len);
	}
	if (!hash || !text->len || (r.at < r.len && v0_peek(&r) != '.'))
		return false;
	return put_suffix(text, name + r.at);
}

bool uw_demangle_rust(const char *name, struct uw_text *text)
{
	if (!strncmp(name, "_R", 2))
		return demangle_v0(name + 2, text);
	return !strncmp(name, "_ZN", 3) && demangle_legacy(name + 3, text);
}
