/* gopclntab.h - .gopclntab, the table that the runtime of Go reads: names of functions, sizes of their frames, and inlined
 * calls and lines of a program without DWARF.  Private to symbols/.  Thread: loader. */
#pragma once

#include "symbols/elf.h"
#include "symbols/symbols.h"

enum { GOPCLNTAB_MAX = 128 << 20 };

/* Adds all functions of a Go program; nothing for other images, or where the table is damaged.
 * -ENOMEM. */
int uw_gopclntab_add(struct uw_symbols_builder *b, const struct uw_elf *elf);

/* The sizes of frames (pcsp) as the .debug_frame that Go's linker makes of them, for all functions where @frame is empty.  Behind a
 * .debug_frame that is there: for the functions of the runtime that go to the thread's own stack, which that does not state.  0: no
 * x86-64 Go program of version 1.18 or later, or a damaged table: @frame stays as it is; 1: made; -ENOMEM. */
int uw_gopclntab_frames(const struct uw_elf *elf, struct uw_section *frame);

/* Inlined calls and lines. */
struct uw_golines;
/* -ENOENT: no Go program of version 1.18 or later that has a section of its own for the table; -ENOMEM. */
int uw_golines_new(const struct uw_elf *elf, struct uw_golines **ret_lines);
struct uw_golines *uw_golines_free(struct uw_golines *lines);
size_t uw_golines_bytes(const struct uw_golines *lines);
/* As uw_module_lines(). */
int uw_golines_at(const struct uw_golines *lines, uint64_t vaddr,
		  void (*add)(void *arg, const struct uw_line *line), void *arg);
