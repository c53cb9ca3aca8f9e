/* trace-name.h - trace sessions that run, by their unique_session_name.  Thread: main.
 *
 * A session holds an abstract socket of its user and name for as long as it runs: there cannot be
 * two of one name, nothing is left behind by a crash, and who holds it can be asked of the kernel. */
#pragma once

#include <stddef.h>

enum { TRACE_NAME_MAX = 80 }; /* bytes of a name */

/* *ret_fd is the name, until it is closed.  -EADDRINUSE: another session has it; -ENAMETOOLONG. */
int trace_name_take(const char *name, int *ret_fd);
/* Ends the session of this user that is called @name, as SIGTERM does, and waits for its end.
 * -ENOENT: there is none. */
int trace_name_stop(const char *name);
