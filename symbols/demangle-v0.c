/* demangle-v0.c - see demangle-v0.h. */
#include "symbols/demangle-v0.h"

enum { PUNYCODE_MAX = 128 };

bool v0_put(struct v0 *r, const char *bytes, size_t len)
{
	if (r->skip)
		return true;
	r->full |= !uw_text_add(r->text, bytes, len);
	return !r->full;
}

bool v0_puts(struct v0 *r, const char *string)
{
	return v0_put(r, string, strlen(string));
}

bool v0_put_number(struct v0 *r, uint64_t n)
{
	char digits[24];

	(void)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);
	return v0_puts(r, digits);
}

bool v0_parse_base62(struct v0 *r, uint64_t *ret_value)
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

bool v0_parse_optional(struct v0 *r, char tag, uint64_t *ret_value)
{
	*ret_value = 0;
	if (!v0_eat(r, tag))
		return true;
	if (!v0_parse_base62(r, ret_value) || *ret_value == UINT64_MAX)
		return false;
	++*ret_value;
	return true;
}

bool v0_parse_decimal(struct v0 *r, size_t *ret_value)
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

/* ---- identifiers ---- */

bool v0_put_utf8(struct v0 *r, uint32_t c)
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

bool v0_put_identifier(struct v0 *r, const struct v0_identifier *id)
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

bool v0_parse_plain(struct v0 *r, struct v0_identifier *ret_id)
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

bool v0_parse_identifier(struct v0 *r, struct v0_identifier *ret_id)
{
	uint64_t disambiguator;

	if (!v0_parse_optional(r, 's', &disambiguator) || !v0_parse_plain(r, ret_id))
		return false;
	ret_id->disambiguator = disambiguator;
	return true;
}

/* ---- lifetimes ---- */

bool v0_put_lifetime(struct v0 *r, uint64_t index)
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

bool v0_parse_binder(struct v0 *r, uint64_t *ret_n)
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
