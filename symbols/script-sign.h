/* script-sign.h - what identifies a function of PHP or Ruby besides its address, as the memory of one that was freed is used for others: the
 * words of its head, of its name and of its class's.  Thread: any.
 *
 *   PHP    op_array or function in C   [name, class][number of instructions, instructions][file, first line]
 *          string                      [length, first 8 characters] and the last 8
 *   Ruby   iseq                        body: [type and length, instructions][path .. label, first line], three words of the label, its end
 *          method entry                [definition, number of the name, class]
 *
 * The program at the samples (perf/at-sample.bpf.c) mixes the same words. */
#pragma once

#include "base/sign-mix.h"
#include "symbols/image.h"
#include "symbols/vm-memory.h"

enum { SCRIPT_PARTS = 8, SCRIPT_PART_WORDS = 4 };
struct script_sign {
	uint64_t at[SCRIPT_PARTS]; /* the words, in this order */
	uint8_t words[SCRIPT_PARTS];
	uint32_t n;
	uint32_t sign; /* 16 bits, never 0 */
};
/* Of the function at @function, as its memory is now.  false: it cannot be read. */
bool script_sign(struct vm_memory *m, const struct uw_script *script, bool ruby, uint64_t function,
		 struct script_sign *ret_sign);
/* PHP: of the function at @function, if its class were @class (0: none): of a closure, by the function that it is a copy of. */
bool script_sign_in_class(struct vm_memory *m, const struct uw_script *script, uint64_t function,
			  uint64_t class, uint32_t *ret_sign);
/* Does the memory have the function that @place (uw_script_place()) is in?  Without a sign that is not known: true. */
bool script_sign_fits(struct vm_memory *m, const struct uw_script *script, bool ruby,
		      uint64_t place);
