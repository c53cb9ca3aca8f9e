/* trigger-socket.h - how running trace sessions hear triggers.  Thread: main.
 *
 *   perfwind trigger NAME ──► "TNAME"  ┐
 *   perfwind trace --start ──► "S"     ├──► @perfwind-trigger/UID/PID ──► the session ──► one byte: the answer
 *
 * An abstract datagram socket, named by the session's user and process: nothing is left behind after a crash, and
 * /proc/net/unix lists all.  Both sides check the other's user (SCM_CREDENTIALS): the own one or root.
 *
 * trigger_send() sends to all that may wait for a trigger: these sessions, and the tracing service (daemon/producer/activate.h). */
#pragma once

#include "base/loop.h"
#include "base/util.h"
#include "tracing/triggers.h"

enum { TRIGGER_LATER = 0 }; /* the answer comes by trigger_socket_answer() */

struct trigger_events {
	/* @name is checked: 1 to TRIGGER_NAME_MAX bytes.  Returns the answer, 1 to 255, or TRIGGER_LATER. */
	int (*trigger)(void *arg, const char *name, uint32_t uid);
	int (*start)(void *arg);
	void *arg;
};

struct trigger_socket;
/* Binds the name of this process.  Borrows @events' arg and @loop.  -EADDRINUSE: it has one. */
int trigger_socket_new(const struct trigger_events *events, struct loop *loop,
		       struct trigger_socket **ret_socket);
struct trigger_socket *trigger_socket_free(struct trigger_socket *socket);
/* Answers the first of the messages that wait (TRIGGER_LATER), if any. */
void trigger_socket_answer(struct trigger_socket *socket, int answer);

/* Sends @name, NULL: a start, to the session of process @pid and user @uid, and waits 2 s for its answer, which is
 * returned.  -ESRCH: no session there; -EPERM: another user's process holds the name; -ETIMEDOUT. */
int trigger_socket_send(uint32_t uid, uint32_t pid, const char *name);
/* Calls @found for each session in /proc/net/unix that this user may trigger.  The number of sessions. */
int trigger_socket_find(void (*found)(void *arg, uint32_t uid, uint32_t pid), void *arg);

/* Sends all @names, and logs the answers.  The exit status: 0: each was accepted by a session, or the service took it; else 1. */
int trigger_send(const char *const *names, size_t n);
