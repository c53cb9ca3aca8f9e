/* demangle.c - readable names.
 *
 * C++ and Rust by libiberty (linked from libiberty.a; cp-demangle.c is GPL-2+ with the exception that
 * allows linking into programs of any licence, rust-demangle.c LGPL-2+ with the same kind of exception).
 * Its allocating forms exit() when memory is short, so the callback forms are used; these hold no memory
 * for C++, and for Rust only while one non-ASCII identifier is printed.
 *
 * A name comes from the target.  A hundred bytes of substitutions can stand for more text than there are
 * atoms: when @to is full, the callback leaves by longjmp.  Where that would leak the buffer of such an
 * identifier, the name may have a few back references only and is printed to its end.  Input over a limit
 * stays as it is, and the depth of the recursion is limited by libiberty itself.
 *
 * D names are done here, as libiberty has no callback form: the qualified name only, types are dropped. */
#include <libiberty/demangle.h>
#undef ARRAY_SIZE /* ours is the same */
#include <setjmp.h>
#include <string.h>

#include "daemon/base/bytes.h"
#include "unwinder/names.h"

enum {
	INPUT_MAX = 4096,
	/* libiberty refuses a name of more components than 2048, counting two a byte; a stack of 1 MiB is
	 * enough for what INPUT_MAX allows, so that limit is lifted for longer names */
	SHORT_INPUT = 1000,
	REFERENCES_MAX = 8, /* each may double the text */
};

struct output {
	char *to;
	size_t size, len;
	bool to_the_end; /* what does not fit is dropped */
	jmp_buf full;
};

static void output_add(struct output *out, const char *text, size_t len)
{
	size_t room = out->size - 1 - out->len, n = len < room ? len : room;

	memcpy(out->to + out->len, text, n);
	out->len += n;
}

/* Does not leave the first bytes of a UTF-8 character at the end. */
static void output_end(struct output *out)
{
	size_t back = 0;

	if (out->len == out->size - 1) {
		while (back < 3 && back < out->len && ((uint8_t)out->to[out->len - 1 - back] & 0xc0) == 0x80)
			back++;
		if (back < out->len) {
			uint8_t lead = (uint8_t)out->to[out->len - 1 - back];
			size_t need = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc0 ? 1 : 0;

			if (need > back)
				out->len -= back + 1;
		}
	}
	out->to[out->len] = 0;
}

static void on_text(const char *text, size_t len, void *arg)
{
	struct output *out = arg;
	bool full = len > out->size - 1 - out->len;

	output_add(out, text, len);
	if (full && !out->to_the_end)
		longjmp(out->full, 1);
}

typedef int (*demangler)(const char *name, int options, demangle_callbackref callback, void *arg);

static bool run(demangler demangle, const char *name, int options, struct output *out)
{
	out->len = 0;
	if (setjmp(out->full))
		return true; /* cut, but a name */
	return demangle(name, options, on_text, out) && out->len;
}

/* In the v0 form a non-ASCII identifier is 'u' and a length, a back reference begins with 'B'. */
static bool run_rust(const char *name, struct output *out)
{
	unsigned references = 0;

	out->to_the_end = false;
	for (const char *p = name; *p; p++) {
		out->to_the_end |= p[0] == 'u' && p[1] >= '0' && p[1] <= '9';
		references += *p == 'B';
	}
	if (name[1] != 'R') /* the older form has neither */
		out->to_the_end = false;
	if (out->to_the_end && references > REFERENCES_MAX)
		return false;
	return run(rust_demangle_callback, name, DMGL_PARAMS, out);
}

/* ---- D ---- */

static size_t read_number(struct cursor *c)
{
	size_t v = 0;

	for (; c->p < c->end && *c->p >= '0' && *c->p <= '9'; c->p++)
		if (v <= INPUT_MAX)
			v = v * 10 + (size_t)(*c->p - '0');
	return v;
}

/* A back reference: the distance from the 'Q' to an identifier, base 26, A-Z and an a-z at the end. */
static bool follow_reference(struct cursor *c, const uint8_t *start, struct cursor *ret_target)
{
	const uint8_t *q = c->p++;
	size_t distance = 0;

	while (c->p < c->end && *c->p >= 'A' && *c->p <= 'Z' && distance <= INPUT_MAX)
		distance = distance * 26 + (size_t)(*c->p++ - 'A');
	if (c->p >= c->end || *c->p < 'a' || *c->p > 'z')
		return false;
	distance = distance * 26 + (size_t)(*c->p++ - 'a');
	if (!distance || distance > (size_t)(q - start))
		return false;
	*ret_target = (struct cursor){.p = q - distance, .end = c->end};
	return *ret_target->p >= '0' && *ret_target->p <= '9';
}

static bool d_identifier(struct output *out, struct cursor *c)
{
	static const char *const special[][2] = {
		{"__ctor", "this"}, {"__dtor", "~this"}, {"__postblit", "this(this)"}};
	size_t len = read_number(c);
	const char *name = len ? cursor_bytes(c, len) : NULL;
	struct cursor inner;

	if (!name)
		return false;
	if (out->len)
		output_add(out, ".", 1);
	if (len > 4 && (!memcmp(name, "__T", 3) || !memcmp(name, "__U", 3)) && name[3] >= '0' && name[3] <= '9') {
		inner = cursor_of(name + 3, len - 3);
		len = read_number(&inner);
		name = len ? cursor_bytes(&inner, len) : NULL;
		if (!name)
			return false;
		output_add(out, name, len);
		output_add(out, "!(...)", 6);
		return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(special); i++) {
		if (len != strlen(special[i][0]) || memcmp(name, special[i][0], len) != 0)
			continue;
		output_add(out, special[i][1], strlen(special[i][1]));
		return true;
	}
	output_add(out, name, len);
	return true;
}

static bool demangle_d(const char *name, struct output *out)
{
	struct cursor c = cursor_of(name + 2, strlen(name + 2)), target;
	const uint8_t *start = c.p;

	out->len = 0;
	if (!strcmp(name, "_Dmain")) {
		output_add(out, "D main", 6);
		return true;
	}
	while (c.p < c.end) {
		bool is_template = cursor_left(&c) > 3 && (!memcmp(c.p, "__T", 3) || !memcmp(c.p, "__U", 3));

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
			output_add(out, "!(...)", 6);
			break;
		}
	}
	return out->len;
}

/* ---- all ---- */

static bool is_word(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		char ch = text[i];

		if (!((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
		      ch == '_' || ch == '.' || ch == '$'))
			return false;
	}
	return len > 0;
}

/* How much of the name stands before "@VERSION" or "@@VERSION"; a JIT's "f@file.js:3" is no such thing. */
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

static bool demangle_into(const char *name, size_t len, struct output *out)
{
	const int options = DMGL_PARAMS | DMGL_ANSI | DMGL_RET_DROP;

	if (name[0] != '_')
		return false;
	if (name[1] == 'D')
		return demangle_d(name, out);
	if (name[1] == 'R' || (!strncmp(name, "_ZN", 3) && strstr(name, "17h")))
		if (run_rust(name, out))
			return true;
	out->to_the_end = false;
	if (name[1] == 'Z' || !strncmp(name, "_GLOBAL_", 8))
		return run(cplus_demangle_v3_callback, name,
			   options | (len > SHORT_INPUT ? DMGL_NO_RECURSE_LIMIT : 0), out);
	return false;
}

void uw_demangle(const char *name, char *to, size_t size)
{
	struct output out = {.to = to, .size = size};
	size_t len = strlen(name);
	char base[INPUT_MAX + 1];
	bool plt = len > 4 && !strcmp(name + len - 4, "@plt");

	if (!size)
		return;
	if (plt)
		len -= 4;
	if (len > INPUT_MAX) {
		output_add(&out, name, len);
		output_end(&out);
		return;
	}
	memcpy(base, name, len);
	base[len] = 0;
	len = without_version(base, len);
	base[len] = 0;
	if (!demangle_into(base, len, &out)) {
		out.len = 0;
		output_add(&out, base, len);
	}
	if (plt)
		output_add(&out, "@plt", 4);
	output_end(&out);
}
