/* cmd-trace.h - the sessions of `perfwind trace` by unique_session_name.  Thread: main.
 *
 * A session binds an abstract socket, named by its user and session name, while it runs: the name is unique, a crash
 * leaves nothing behind, and the kernel reports which process holds it. */
#pragma once

#include <stddef.h>

enum { TRACE_NAME_MAX = 80 }; /* bytes of a name */

/* Binds @name; it stays bound until *ret_fd is closed.  -EADDRINUSE: another session has it; -ENAMETOOLONG. */
int trace_name_take(const char *name, int *ret_fd);
/* Sends SIGTERM to this user's session @name and waits for its end.  -ENOENT: it does not exist. */
int trace_name_stop(const char *name);
/* Starts this user's session @name, which has deferred_start.  -ENOENT: it does not exist; -EALREADY: it runs; else
 * as trigger_socket_send(). */
int trace_name_start(const char *name);
