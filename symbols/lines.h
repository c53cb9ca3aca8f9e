/* lines.h - inlined calls and source lines of one address, by libdw.  Private to symbols/.
 * Thread: loader. */
#pragma once

#include <elfutils/libdw.h>

#include "symbols/elf.h"

/* The DWARF of one module: of its file, or of a separate debug file. */
struct uw_lines;
/* @elf: the image of the module; @path: its path for the target.  Without DWARF the result is empty.
 * -ENOMEM. */
int uw_lines_new(const struct uw_elf *elf, const char *path, struct uw_source *source,
		 struct uw_lines **ret_lines);
struct uw_lines *uw_lines_free(struct uw_lines *lines);
size_t uw_lines_bytes(const struct uw_lines *lines);
/* See uw_module_lines().  After -ENOMEM @lines must be freed. */
int uw_lines_at(struct uw_lines *lines, uint64_t vaddr,
		void (*add)(void *arg, const struct uw_line *line), void *arg);

/* See uw_module_lines_span(). */
bool uw_lines_span(struct uw_lines *lines, uint64_t vaddr, struct uw_span *ret_span);
