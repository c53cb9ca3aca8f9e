/* answer.h - the answer to one request of the daemon, inside the target.  Thread: signal handler.
 */
#pragma once

#include <stdbool.h>
#include <sys/un.h>

/* Set once before the handler is installed, constant afterwards. */
struct hook_config {
	struct sockaddr_un address;
	unsigned address_len; /* 0: no socket can be named: never answers */
	bool nondumpable;     /* answer although the process is not dumpable */
};

/* Sends this process's maps and mem to the daemon, or does nothing.  Leaves no descriptor behind
 * and errno alone.  Waits ANSWER_WAIT_MS at most, and only while the daemon's backlog is full, or
 * another thread forks (LIFE_ANSWER_WAIT_MS). */
enum { ANSWER_WAIT_MS = 10 };
void hook_answer(const struct hook_config *config);

/* In a child of fork(), when it is first known.  @undo: it was made by clone(), so that it may have
 * descriptors of an answer that was under way in its parent, or be dumpable from it. */
void hook_answer_leftovers(bool undo);
