/* demangle-d.c - D names: the qualified name only, types are dropped.
 *
 * libiberty's D demangler has no form that does not allocate, and its allocations exit() when
 * memory is short.  A nested function shows as the outermost one: where it continues stands behind
 * a type. */
#include "base/bytes.h"
#include "symbols/demangle.h"

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

bool uw_demangle_d(const char *name, struct uw_text *out)
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
