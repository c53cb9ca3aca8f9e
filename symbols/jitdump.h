/* jitdump.h - a jitdump (jit-PID.dump): what a JIT compiler writes about its code.
 * Thread: loader; jitdump_code(): any.
 *
 * The program appends to the file while it runs, so a reader continues where it stopped. */
#pragma once

#include "symbols/image.h"
#include "symbols/machine-code.h"

struct jitdump;
struct uw_source;
struct uw_symbols;

/* Is it one, by its magic number? */
bool jitdump_is(int fd);
/* Reads what was written whole since the last time into *dump, which is made where it is NULL.  *ret_symbols: the code by
 * address and time, from source->reading.known on; *ret_eh_frame: the unwinding information of the code that is there now, at
 * address 0; its size is 0 where there is none.  -EALREADY: source->reading.again, and there is no more; -EBADMSG: no jitdump;
 * -ENOMEM. */
int jitdump_load(struct jitdump **dump, const struct uw_source *source,
		 struct uw_symbols **ret_symbols, struct uw_section *ret_eh_frame);
struct jitdump *jitdump_free(struct jitdump *dump);

/* The code of the function that was at the address @vaddr, whole (at most UW_CODE_MAX); of several the last one.
 * -ENOENT: none; -EBADMSG: no jitdump, or damaged; -ENOMEM. */
int jitdump_code(int fd, uint64_t vaddr, struct uw_code *ret_code);
