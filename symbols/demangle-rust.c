/* demangle-rust.c - Rust's two manglings.
 *
 *   legacy   a C++ name whose last part is 17h and 16 hexadecimal digits: _ZN4core3ptr...17h<hash>E
 *   v0       _R and a path (demangle-v0-path.c)
 *
 * Hashes and crate disambiguators are left out.  v0 has back references that double and numbers
 * that count: every step costs from one budget, nesting is limited, and a text that is full ends it
 * all.  What is only skipped (the path of an impl) follows no reference.  No memory is taken. */
#include "symbols/demangle-v0.h"

/* ".llvm.HASH" tells nobody anything. */
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

/* "$LT$" and its like; the bytes used, 0: none such. */
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
