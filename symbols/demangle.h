/* demangle.h - the parts of demangling, a language each.  Private to unwinder/.  Thread: any. */
#pragma once

#include <string.h>

#include "base/util.h"

enum { UW_MANGLED_MAX = 4096 }; /* a longer name stays as it is */

/* Text that is cut where the caller's room ends. */
struct uw_text {
	char *to;
	size_t size, len; /* size: with the NUL that comes last */
};

/* false: not all of it fitted. */
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

/* Each: false when @name is not of the language (then @text holds rubbish). */
bool uw_demangle_cxx(const char *name, struct uw_text *text);
bool uw_demangle_rust(const char *name, struct uw_text *text);
bool uw_demangle_d(const char *name, struct uw_text *text);
