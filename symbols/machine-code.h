/* machine-code.h - machine code of an image, as text.  Thread: any.
 * The disassembler is libcapstone, loaded at run time; without it code is read and there is no text for it. */
#pragma once

#include "symbols/module.h"

struct uw_code {
	uint8_t *data;
	size_t len;
	uint64_t vaddr;
	enum uw_arch arch;
};
enum { UW_CODE_MAX = 4 << 20 };

/* Reads @len bytes (at most UW_CODE_MAX) at the virtual address @vaddr of the image; fewer where its segment ends.
 * -ENOEXEC: no image of this kind; -EBADMSG: damaged, or nothing is there. */
int uw_code_load(struct uw_source *source, uint64_t vaddr, uint64_t len, struct uw_code *ret_code);
void uw_code_deinit(struct uw_code *code);

struct uw_instruction {
	uint64_t vaddr;
	uint32_t size; /* bytes */
	char text[192];
};
/* Calls @each with each instruction of @code in order of addresses; bytes that are none are one of their own.
 * @intel: the syntax of x86's maker, else that of the GNU tools.  The first result of @each that is not 0 ends it and is returned.
 * -EOPNOTSUPP: built without libcapstone, it is not installed, or the code is of another machine. */
int uw_code_each(const struct uw_code *code, bool intel,
		 int (*each)(void *arg, const struct uw_instruction *instruction), void *arg);
