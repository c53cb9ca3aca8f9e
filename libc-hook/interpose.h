/* interpose.h - the libc's functions that set signal actions.  Thread: any. */
#pragma once

#include "libc-hook/actions.h"

/* Looks the functions up: a signal handler could not (dlsym() takes locks).  Returns the libc's sigaction, or NULL: it is not
 * there, or the program's calls do not come here (the library was loaded by dlopen()). */
action_function *interpose_begin(void);
