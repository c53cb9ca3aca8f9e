/* python.h - CPython describes itself: the layout of its frames by the version that its library exports, and the names of
 * its code objects, read from the memory of its process.  Private to symbols/.  Thread: loader.
 *
 *   libpython3.X.so or python3.X, .dynsym   Py_Version, PyCode_Type, PyUnicode_Type, _Py_NoneStruct, _PyRuntime,
 *                                           _PyEval_EvalFrameDefault with its size
 *
 * The process is not trusted, and it runs on while it is read: each read is checked, each name has a limit. */
#pragma once

#include "symbols/image.h"

struct python;
/* The interpreter with its library or program at @image.  -ENOEXEC: none there; -ENOTSUP: a version or a build of which the
 * frames are not known; -ENOMEM. */
int python_new(struct uw_memory *memory, uint64_t image, struct python **ret_python);
struct python *python_free(struct python *python);
/* For the engine. */
const struct uw_python *python_layout(const struct python *python);
/* The function of the code object at @code, as uw_module_lines() reports it: its qualified name, file, and the line where
 * it begins.  Where @code has a sign (image.h), it must be the object's.  Returns how many: 1, or 0: the code object is not
 * there, or not any more. */
int python_lines(struct python *python, struct uw_memory *memory, uint64_t code,
		 void (*add)(void *arg, const struct uw_line *line), void *arg);
