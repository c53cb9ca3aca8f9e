/* script-sign.c - see script-sign.h. */
#include "symbols/script-sign.h"

enum {
	PHP_INTERNAL = 1,
	PHP_NAME = 8, /* of a zend_function: name, class */
	PHP_CLASS_NAME = 8,
	PHP_LEN = 16, /* of a zend_string: its length, then its characters */
	PHP_TEXT = 24,
	RUBY_IMEMO_AT = 12,
	RUBY_METHOD = 6,
	RUBY_HEAP = 1 << 13, /* a string that is not embedded */
	RUBY_PATH = 64,	     /* in a body: path, real path, label, first line */
	RUBY_LABEL = 16,     /* in the string: what differs from others of its kind */
	TEXT_MAX = 1 << 24,
};

struct signing {
	struct vm_memory *m;
	struct script_sign *s;
	uint64_t hash;
};

/* The words at @at are the next ones. */
static bool add(struct signing *x, uint64_t at, uint32_t n, uint64_t words[SCRIPT_PART_WORDS])
{
	if (x->s->n == SCRIPT_PARTS || n > SCRIPT_PART_WORDS ||
	    !vm_memory_read(x->m, at, words, 8ul * n))
		return false;
	x->s->at[x->s->n] = at;
	x->s->words[x->s->n++] = (uint8_t)n;
	for (uint32_t i = 0; i < n; i++)
		x->hash = sign_mix(x->hash, words[i]);
	return true;
}

/* The last 8 characters of @len at @text. */
static bool add_end(struct signing *x, uint64_t text, uint64_t len)
{
	uint64_t words[SCRIPT_PART_WORDS];

	return len < 8 || len > TEXT_MAX || add(x, text + len - 8, 1, words);
}

static bool add_php_string(struct signing *x, uint64_t string)
{
	uint64_t words[SCRIPT_PART_WORDS];

	if (!string)
		return true;
	return add(x, string + PHP_LEN, 2, words) && add_end(x, string + PHP_TEXT, words[0]);
}

/* @class: in place of its own; NULL: its own. */
static bool sign_php(struct signing *x, const struct uw_script_offsets *o, uint64_t function,
		     const uint64_t *class)
{
	uint64_t head[SCRIPT_PART_WORDS], words[SCRIPT_PART_WORDS];
	uint8_t type;

	if (!vm_memory_read(x->m, function, &type, 1) || !add(x, function + PHP_NAME, 2, head))
		return false;
	if (class) {
		head[1] = *class;
		x->hash = sign_mix(sign_mix(0, head[0]), head[1]);
	}
	if (type != PHP_INTERNAL && (!add(x, function + (o->len & ~7u), 2, words) ||
				     !add(x, function + o->filename, 2, words)))
		return false;
	/* The code of a file has no name. */
	if (!add_php_string(x, head[0] || type == PHP_INTERNAL ? head[0] : words[0]))
		return false;
	return !head[1] ||
	       (add(x, head[1] + PHP_CLASS_NAME, 1, words) && add_php_string(x, words[0]));
}

static bool sign_ruby(struct signing *x, const struct uw_script_offsets *o, uint64_t function)
{
	uint64_t flags, body, words[SCRIPT_PART_WORDS], label;

	if (!vm_memory_read(x->m, function, &flags, 8))
		return false;
	if ((flags >> RUBY_IMEMO_AT & 0xf) == RUBY_METHOD)
		return add(x, function + o->definition, 3, words);
	if (!add(x, function + o->body, 1, words))
		return false;
	body = words[0];
	if (!add(x, body, 2, words) || !add(x, body + RUBY_PATH, 4, words))
		return false;
	label = words[2];
	if (!vm_memory_read(x->m, label, &flags, 8) || !add(x, label + RUBY_LABEL, 3, words))
		return false;
	if (flags & RUBY_HEAP) /* [length, characters] */
		return add_end(x, words[1], words[0]);
	return !o->sizes || add_end(x, label + RUBY_LABEL + 8, words[0]);
}

bool script_sign(struct vm_memory *m, const struct uw_script *script, bool ruby, uint64_t function,
		 struct script_sign *ret_sign)
{
	struct script_sign sign = {.n = 0};
	struct signing x = {.m = m, .s = &sign};

	if (function & 7 || !(ruby ? sign_ruby(&x, &script->offsets, function)
				   : sign_php(&x, &script->offsets, function, NULL)))
		return false;
	sign.sign = sign_end(x.hash);
	*ret_sign = sign;
	return true;
}

bool script_sign_in_class(struct vm_memory *m, const struct uw_script *script, uint64_t function,
			  uint64_t class, uint32_t *ret_sign)
{
	struct script_sign sign = {.n = 0};
	struct signing x = {.m = m, .s = &sign};

	if (function & 7 || !sign_php(&x, &script->offsets, function, &class))
		return false;
	*ret_sign = sign_end(x.hash);
	return true;
}

bool script_sign_fits(struct vm_memory *m, const struct uw_script *script, bool ruby,
		      uint64_t place)
{
	struct script_sign now;

	return !uw_script_is_signed(place) ||
	       (script_sign(m, script, ruby, uw_script_function(place), &now) &&
		uw_script_has_sign(place, now.sign));
}
