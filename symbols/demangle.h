/* demangle.h - readable names of C++, Rust, D, OCaml and Haskell functions.  Thread: any. */
#pragma once

#include <string.h>

#include "base/util.h"

/* Writes the demangled form of a name of one of these languages, or any other name itself, into
 * @to (always with a NUL, cut at @size).  Time and memory are bounded. */
void uw_demangle(const char *name, char *to, size_t size);

/* ---- for demangle*.c ---- */

enum { UW_MANGLED_MAX = 4096 }; /* a longer name stays as it is */

/* Text that is cut at the end of the caller's room. */
struct uw_text {
	char *to;
	size_t size, len; /* size: with the NUL that comes last */
};

/* false: the text was cut. */
static inline bool uw_text_add(struct uw_text *text, const char *bytes, size_t len)
{
	size_t room = text->size - 1 - text->len, n = len < room ? len : room;

	if (n) /* libiberty gives NULL for text of no length */
		memcpy(text->to + text->len, bytes, n);
	text->len += n;
	return n == len;
}

static inline bool uw_text_puts(struct uw_text *text, const char *string)
{
	return uw_text_add(text, string, strlen(string));
}

/* false: @name is not a Rust name; @text is undefined then. */
bool uw_demangle_rust(const char *name, struct uw_text *text);
