/* code.h - what instruction bytes say where no CFI does.  Private to unwinder/.  Thread: any. */
#pragma once

#include "unwinder/rule.h"

enum {
	CODE_BEFORE = 8, /* bytes wanted before an address */
	CODE_AFTER = 16, /* and from it on */
};

/* @code: the bytes up to a return address, @len of them (the last is the one before it).  Do they
 * end in a call? */
bool code_ends_in_call(const uint8_t *code, size_t len);
/* How the frame of a function that was interrupted at @code + @before is found.  @len bytes in all.
 */
enum rule_form code_form(const uint8_t *code, size_t before, size_t len);
