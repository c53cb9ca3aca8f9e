/* php.h - PHP describes itself: the layout of its frames by the version of its program, and the names of its functions, read from
 * the memory of its process.  Private to symbols/.  Thread: loader.
 *
 *   php8.X, php-fpm8.X or libphp8.X.so, .dynsym   execute_ex with its size, executor_globals */
#pragma once

#include "symbols/image.h"
#include "symbols/script-text.h"

/* The interpreter with its program or library at @image; errors as interpreter_load(). */
int php_new(struct vm_memory *m, uint64_t image, struct uw_script *ret_script);
/* The classes of functions that others declare: of closures.  The last ones, zeroed at first. */
struct php_declared {
	struct {
		uint64_t function, scope;
	} of[1024];
	uint32_t n;
};
/* Notes the functions that the one at @place declares: closures that it makes have its class. */
void php_declare(struct vm_memory *m, const struct uw_script *script, struct php_declared *declared,
		 uint64_t place);
/* The function and the place in it that @frame (uw_script_frame()) stands for: Class::method, file and line.  Of a function in C: its
 * name.  false: there is none. */
bool php_text(struct vm_memory *m, const struct uw_script *script,
	      const struct php_declared *declared, uint64_t frame, struct script_text *ret_text);
