/* spec-elf.h - the file offset of a function, for uprobes.  Thread: main. */
#pragma once

#include "base/nearest.h"

/* The file offset of function @symbol in the ELF file @path.  -ENOENT: the file does not have this symbol
 * (similar names are offered to @nearest); -ENOEXEC: not an ELF file with symbols. */
int spec_elf_offset(const char *path, const char *symbol, struct nearest *nearest,
		    uint64_t *ret_offset);
