/* kallsyms.h - the kernel's text symbols.  Thread: main.  Names only; addresses never leave. */
#pragma once

#include "base/util.h"

struct uw_kallsyms;

enum { UW_KALLSYMS_HIDDEN = 1 };
/* Parses the text of /proc/kallsyms from @fd.  0; UW_KALLSYMS_HIDDEN when all addresses are zero
 * (kptr_restrict), then *ret is NULL; < 0. */
int uw_kallsyms_new(int fd, struct uw_kallsyms **ret_kallsyms);
/* The same for a copy of the text from another run of the same kernel, moved so that _text is at
 * @text. Only the kernel's own symbols: modules have other addresses in each run.
 * UW_KALLSYMS_HIDDEN also when the copy has no _text. */
int uw_kallsyms_new_moved(int fd, uint64_t text, struct uw_kallsyms **ret_kallsyms);
struct uw_kallsyms *uw_kallsyms_free(struct uw_kallsyms *kallsyms);
/* Without symbols, for those that come and go alone. */
int uw_kallsyms_new_empty(struct uw_kallsyms **ret_kallsyms);

/* The symbols of a table that was read as a whole, ascending, one for each address. */
enum {
	UW_KALLSYMS_CORE, /* the kernel's own; then modules, numbered from 1 */
	UW_KALLSYMS_OTHER =
		1023, /* code that is made at run time (BPF), and modules beyond the numbers */
};
struct uw_kallsyms_symbol {
	uint64_t start;
	const char *name; /* borrowed; "": removed since */
	uint32_t owner;
};
size_t uw_kallsyms_count(const struct uw_kallsyms *kallsyms);
void uw_kallsyms_at(const struct uw_kallsyms *kallsyms, size_t i,
		    struct uw_kallsyms_symbol *ret_symbol);
/* The nearest lower text symbol within 1 MiB; NULL: none.  Borrowed until the next change.
 * *ret_start identifies the symbol (an opaque number for interning). */
const char *uw_kallsyms_name(const struct uw_kallsyms *kallsyms, uint64_t address,
			     uint64_t *ret_start);
/* Is it in the kernel's own text, as far as the symbols show?  Modules and code that is made at run time can change. */
bool uw_kallsyms_in_core(const struct uw_kallsyms *kallsyms, uint64_t address);
/* Between the first symbol and the last; no search. */
bool uw_kallsyms_spans(const struct uw_kallsyms *kallsyms, uint64_t address);
/* PERF_RECORD_KSYMBOL: BPF programs and trampolines come and go. */
int uw_kallsyms_add(struct uw_kallsyms *kallsyms, uint64_t start, uint32_t len, const char *name);
void uw_kallsyms_remove(struct uw_kallsyms *kallsyms, uint64_t start);

/* The address of _text, from the first lines of /proc/kallsyms in @fd; its position is reset to
 * the start. 0: absent, or hidden. */
uint64_t kernel_text_start(int fd);
