/* code-walk.h - where a function without CFI keeps its return address, by walking its code to the
 * end.  Private to unwinder/.  Thread: any. */
#pragma once

#include "unwinder/unwinder.h"

enum {
	CODE_WALK_BEFORE = 64, /* bytes wanted before an address: loops jump back */
	CODE_WALK_AFTER = 320,
	CODE_WALK_MAX = 4096, /* the largest distance from rsp that is told */
};

struct code_way {
	bool by_fp;  /* rbp is the frame's: [rbp] and [rbp + 8] */
	uint32_t ra; /* else: the return address, bytes above rsp, a multiple of 8 */
	int32_t bp;  /* the caller's rbp, likewise; -1: it is in rbp */
};
/* @code: @len bytes of x86-64 code, the walk begins at @at.  false: no end was met that says so. */
bool code_walk(const uint8_t *code, size_t at, size_t len, struct code_way *ret_way);
/* The length of the instruction at @code, 0: not known, or longer than @len. */
size_t code_length(const uint8_t *code, size_t len);
