/* kernel-names.h - names for addresses of the running kernel, read when the first one is asked for.  Thread: any, one at a time.
 *
 *   address ─► symbols that came since (KSYMBOL) ─► the table of an earlier run, if it is of this boot and these modules
 *           ─► /proc/kallsyms: where the table does not exist, the table does not cover the address (a BPF program), or
 *              modules were loaded since
 *
 * The kernel takes 30 ms to print 120,000 lines.  A recording without kernel frames needs none, and a recording after
 * another one reads the table of that one (base/cache-dir.h), which gives the same names.
 *
 * The table:
 *
 *   head | n symbols of 8 bytes, ascending | names, each with its NUL, in the order of the symbols
 *
 * A recording needs few of 120,000 symbols, so a file is read by blocks, each when it is first needed.
 * A symbol has its distance from the first one, so no address of the kernel is in a file.  The table has the kernel's own
 * symbols and the symbols of modules.  Code that is made at run time (BPF programs, trampolines) is not in it: an address
 * there is not covered by the table. */
#pragma once

#include "base/bytes.h"
#include "base/util.h"
#include "symbols/kallsyms.h"

struct uw_kernel_names;

enum { UW_KERNEL_HIDDEN = 1 };
/* Looks whether this user sees addresses, and reads no symbol.  @root: "" or the folder of a fake proc/.  Consumes @cache, a
 * folder of cache-dir.h, -1: none.  UW_KERNEL_HIDDEN: the kernel shows none (kptr_restrict), *ret is NULL; < 0. */
int uw_kernel_names_new(const char *root, int cache, struct uw_kernel_names **ret_names);
/* Of symbols that were read elsewhere, of a kernel that does not run: no file is read or written.  Consumes @symbols; -ENOMEM:
 * it does not. */
int uw_kernel_names_new_of(struct uw_kallsyms *symbols, struct uw_kernel_names **ret_names);
/* Writes the table for later runs, if symbols were read that are not in one. */
struct uw_kernel_names *uw_kernel_names_free(struct uw_kernel_names *names);

/* Reads the symbols at once; in a thread of its own _add() and _tick() may be called meanwhile, nothing else. */
void uw_kernel_names_read(struct uw_kernel_names *names);
/* As uw_kallsyms_name(); borrowed until the next call of this header. */
const char *uw_kernel_name(struct uw_kernel_names *names, uint64_t address, uint64_t *ret_start);
/* PERF_RECORD_KSYMBOL. */
int uw_kernel_names_add(struct uw_kernel_names *names, uint64_t start, uint32_t len,
			const char *name);
void uw_kernel_names_remove(struct uw_kernel_names *names, uint64_t start);
/* Once a second: the list of modules may be looked at again when a name is asked for. */
void uw_kernel_names_tick(struct uw_kernel_names *names);
/* Other than at an earlier call: modules have changed, so names that were given are not valid for other addresses. */
uint32_t uw_kernel_names_generation(const struct uw_kernel_names *names);
/* The address of _text; 0: not known. */
uint64_t uw_kernel_names_text(const struct uw_kernel_names *names);
/* < 0: the symbols could not be read when they were needed. */
int uw_kernel_names_error(const struct uw_kernel_names *names);

/* ---- the table of an earlier run: for tests ---- */

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
