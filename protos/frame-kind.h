/* frame-kind.h - the kinds of frames, as Frame.kind_str and Line.perfwind_kind of trace.proto name them.  Thread: any.
 *
 * A frame without a kind is machine code, native or the kernel's: its mapping shows which.  A call is inlined where
 * ModuleSymbols has further lines behind it. */
#pragma once

#include <string.h>

enum frame_kind {
	FRAME_NATIVE, /* not written */
	FRAME_KERNEL, /* the same */
	FRAME_INLINED,
	FRAME_JAVA_INTERPRETED,
	FRAME_JAVA_C1,
	FRAME_JAVA_C2,
	FRAME_PYTHON,
	FRAME_JS,
	FRAME_PHP,
	FRAME_RUBY,
	FRAME_KINDS
};

/* The word behind a kind in kind_str: the frame is a guess. */
#define FRAME_KIND_GUESSED "guessed"

/* @kind may be any number. */
static inline const char *frame_kind_name(unsigned kind)
{
	static const char *const names[FRAME_KINDS] = {
		[FRAME_NATIVE] = "native",   [FRAME_KERNEL] = "kernel",
		[FRAME_INLINED] = "inlined", [FRAME_JAVA_INTERPRETED] = "java-interpreted",
		[FRAME_JAVA_C1] = "java-c1", [FRAME_JAVA_C2] = "java-c2",
		[FRAME_PYTHON] = "python",   [FRAME_JS] = "js",
		[FRAME_PHP] = "php",	     [FRAME_RUBY] = "ruby",
	};

	return names[kind < FRAME_KINDS ? kind : FRAME_NATIVE];
}

/* The reverse of the @len bytes at @text; FRAME_NATIVE for any other text. */
static inline enum frame_kind frame_kind_of(const void *text, size_t len)
{
	for (unsigned kind = FRAME_INLINED; kind < FRAME_KINDS; kind++)
		if (len == strlen(frame_kind_name(kind)) &&
		    !memcmp(text, frame_kind_name(kind), len))
			return (enum frame_kind)kind;
	return FRAME_NATIVE;
}
