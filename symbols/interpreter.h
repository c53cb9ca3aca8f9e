/* interpreter.h - the module of the functions that an interpreter runs (module.h): the layout of its frames for the engine,
 * and names.  One table for all languages.  Private to symbols/.  Thread: loader.
 *
 *   python.h   CPython      php.h   PHP      ruby.h   Ruby      v8.h   Node.js
 *
 * The process is not trusted, and it runs on while it is read: each read is checked, each name has a limit. */
#pragma once

#include "symbols/image.h"

struct interpreter;
struct uw_symbols;
/* The language of the module with this path. */
enum uw_language interpreter_language(const char *path);
/* Both halves of @module, the interpreter with its image at @image.  -ENOEXEC: none is there; -ENOTSUP: a version or a build with
 * unknown frames; -ENOMEM. */
int interpreter_load(struct uw_module *module, struct uw_memory *memory, uint64_t image,
		     struct uw_image **ret_image, struct uw_symbols **ret_symbols);
/* As uw_module_lines(). */
int interpreter_lines(struct uw_module *module, struct uw_memory *memory, uint64_t image,
		      uint64_t address, void (*add)(void *arg, const struct uw_line *line),
		      void *arg);
struct interpreter *interpreter_free(struct interpreter *interpreter);
