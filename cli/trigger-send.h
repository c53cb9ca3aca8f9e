/* trigger-send.h - triggers to all that may wait for them: this user's trace sessions (trigger-socket.h), and the tracing
 * service (daemon/producer/activate.h).  Thread: main. */
#pragma once

#include "base/util.h"

/* Sends all @names, and logs the answers.  The exit status: 0: each was accepted by a session, or the service took it; else 1. */
int trigger_send(const char *const *names, size_t n);
