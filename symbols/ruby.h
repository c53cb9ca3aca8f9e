/* ruby.h - Ruby describes itself: the layout of its frames by the version that its library exports, and the names of its
 * functions, read from the memory of its process.  Private to symbols/.  Thread: loader.
 *
 *   libruby-3.X.so or ruby, .dynsym    ruby_version
 *                           .eh_frame  the evaluation loop (vm_exec_core), which has no symbol */
#pragma once

#include "symbols/image.h"
#include "symbols/script-text.h"

/* The interpreter with its library or program at @image; errors as interpreter_load(). */
int ruby_new(struct vm_memory *m, uint64_t image, struct uw_script *ret_script);
/* The function and the place in it that @frame (uw_script_frame()) stands for: its label, file and line.  Of a method in C: its
 * name.  @script notes where names are; @image as for ruby_new().  false: there is none. */
bool ruby_text(struct vm_memory *m, struct uw_script *script, uint64_t image, uint64_t frame,
	       struct script_text *ret_text);
