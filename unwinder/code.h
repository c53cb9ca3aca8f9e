/* code.h - what instruction bytes say where no CFI does.  Private to unwinder/.  Thread: any. */
#pragma once

#include "unwinder/rule.h"
#include "unwinder/unwinder.h"

enum {
	CODE_BEFORE = 8, /* bytes wanted before an address */
	CODE_AFTER = 16, /* and from it on */
	CODE_SCAN = 512, /* aarch64: before an interrupted one, at most */
};

/* @code: the bytes up to a return address, @len of them (the last is the one before it).  Do they
 * end in a call? */
bool code_ends_in_call(enum uw_arch arch, const uint8_t *code, size_t len);
/* How the frame of a function that was interrupted at @code + @before is found.  @len bytes in all.
 * aarch64: both addresses are multiples of 4, so is @before. */
enum rule_form code_form(enum uw_arch arch, const uint8_t *code, size_t before, size_t len);

/* Is the return address @code + @before, of @len bytes in all, that of Go's runtime.goexit?  A new
 * goroutine is made as if called from behind goexit's first instruction: nop; call goexit1; nop. */
bool code_is_goexit(enum uw_arch arch, const uint8_t *code, size_t before, size_t len);

/* Is it behind the call in Go's runtime.systemstack or runtime.mcall?  These go on to the thread's own stack,
 * of which they are the first frame: what stands behind them there is of long ago. */
bool code_is_go_switch(enum uw_arch arch, const uint8_t *code, size_t before, size_t len);

/* code-aarch64.c */
bool code_ends_in_call_aarch64(const uint8_t *code, size_t len);
enum rule_form code_form_aarch64(const uint8_t *code, size_t before, size_t len);
