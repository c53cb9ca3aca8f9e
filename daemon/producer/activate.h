/* activate.h - sends triggers to a tracing service: ProducerPort's ActivateTriggers.  Thread: main.
 *
 *   connect ─► BindService ─► InitializeConnection ─► ActivateTriggers ─► its answer ─► close
 *
 * A connection of its own, as a producer without data sources.  The service gets the names and nothing else; it does not report
 * whether a session waits for them. */
#pragma once

#include "base/util.h"

enum { ACTIVATE_MS = 2000 };

/* @socket: NULL: producer_socket_name(), by the user's privileges.  Waits ACTIVATE_MS at most for the service's answers.
 * -ENOENT, -ECONNREFUSED: no service runs there.  -EOPNOTSUPP: it takes no triggers; -EACCES: it refused the connection;
 * -EBADMSG: an answer that is not of the protocol; -EPIPE: it closed the connection; -ETIMEDOUT. */
int activate_triggers(const char *socket, const char *const *names, size_t n);
