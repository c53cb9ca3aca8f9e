/* kernel-table.h - the kernel's text symbols in a form that a later recording reads at once.  Thread: main.
 *
 *   head | n symbols of 8 bytes, ascending | names, each with its NUL, in the order of the symbols
 *
 * A recording needs few of 120,000 symbols, so a file is read by blocks, each when it is first needed.
 * A symbol has its distance from the first one, so no address of the kernel is in a file.  The table has the kernel's own
 * symbols and the symbols of modules.  Code that is made at run time (BPF programs, trampolines) is not in it: an address
 * there is not covered by the table. */
#pragma once

#include "base/bytes.h"
#include "symbols/kallsyms.h"

/* What a table is of: the boot, the loaded modules. */
struct uw_kernel_key {
	uint8_t bytes[32];
};

struct uw_kernel_table;
/* Appends the table of @kallsyms with _text at @text.  -ENOTSUP: its symbols are too far from each other; -ENOMEM. */
int uw_kernel_table_pack(const struct uw_kallsyms *kallsyms, uint64_t text,
			 const struct uw_kernel_key *key, struct buffer *to);
/* The reverse, of a file of @len bytes; @text: of the running kernel.  Consumes @fd.  Its bytes are taken as foreign ones:
 * -EBADMSG, or an address has a wrong name or none.  -ESTALE: of another key. */
int uw_kernel_table_new(int fd, size_t len, uint64_t text, const struct uw_kernel_key *key,
			struct uw_kernel_table **ret_table);
struct uw_kernel_table *uw_kernel_table_free(struct uw_kernel_table *table);
/* The name of the symbol that has @address: the next symbol has the same owner, or the address is in the same page as the
 * last symbol of its owner.  NULL: not covered.  *ret_core: of the kernel itself, not of a module. */
const char *uw_kernel_table_name(struct uw_kernel_table *table, uint64_t address,
				 uint64_t *ret_start, bool *ret_core);
