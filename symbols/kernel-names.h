/* kernel-names.h - names for addresses of the running kernel, read when the first one is asked for.  Thread: any, one at a time.
 *
 *   address ─► symbols that came since (KSYMBOL) ─► the table of an earlier run, if it is of this boot and these modules
 *           ─► /proc/kallsyms: where the table does not exist, the table does not cover the address (a BPF program), or
 *              modules were loaded since
 *
 * The kernel takes 30 ms to print 120,000 lines.  A recording without kernel frames needs none, and a recording after
 * another one reads the table of that one (base/cache-dir.h), which gives the same names. */
#pragma once

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
