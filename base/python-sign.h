/* python-sign.h - what identifies a code object of CPython besides its address, as the memory of one that was freed is used for others.
 * For code of the host and of BPF.  Thread: any.
 *
 *   PyCodeObject   [number of instructions][first line][address of the file's name][qualified name: length, first and last 8 characters]
 *
 * These stay while the object does.  The hashes of the strings do not: most are not set until they are needed. */
#pragma once

#include "base/sign-mix.h"

enum { PYTHON_NAME_AT = 16 };
/* The words of a str from PYTHON_NAME_AT on; its characters of ASCII begin in one of the last two. */
struct python_name {
	unsigned long long length, hash, state, word_40, word_48;
};
struct python_content {
	unsigned long long units, line, filename, length, head, tail;
};

enum { PYTHON_NAME_ASCII = 1 << 6, PYTHON_NAME_MAX = 1 << 24 };

/* @minor: Python's minor version. */
static inline unsigned long long python_name_head(const struct python_name *n, unsigned int minor)
{
	unsigned long long word = minor < 12 ? n->word_48 : n->word_40;

	if (!(n->state & PYTHON_NAME_ASCII) || !n->length)
		return 0;
	return n->length < 8 ? word & ((1ull << 8 * n->length) - 1) : word;
}

/* Where the last 8 characters of the name at @address are.  0: the first word has all, or they are not of ASCII. */
static inline unsigned long long python_name_tail(const struct python_name *n, unsigned int minor,
						  unsigned long long address)
{
	if (!(n->state & PYTHON_NAME_ASCII) || n->length <= 8 || n->length > PYTHON_NAME_MAX)
		return 0;
	return address + (minor < 12 ? 48 : 40) + n->length - 8;
}

/* PYTHON_SIGN_BITS bits, never 0. */
enum { PYTHON_SIGN_BITS = 12, PYTHON_HIDDEN = 1 << PYTHON_SIGN_BITS /* in a frame's record */ };
static inline unsigned int python_sign(const struct python_content *c)
{
	unsigned long long hash = sign_mix(0, c->units << 32 | c->line);

	hash = sign_mix(hash, c->filename);
	hash = sign_mix(hash, c->length);
	hash = sign_mix(hash, c->head);
	hash = sign_mix(hash, c->tail);
	return 1 + (unsigned int)((hash >> 32) % ((1 << PYTHON_SIGN_BITS) - 1));
}
