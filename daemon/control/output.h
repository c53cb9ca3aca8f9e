/* output.h - the open descriptor that a request over the control socket brings for its packets: which
 * is taken, and the process that looks.  Thread: output_look() any that may hang; else main.
 *
 * Taken is only what can never keep the one who writes to it waiting: one end of a pair that
 * socketpair(AF_UNIX, SOCK_STREAM) made.  A write to a file, a pipe (whoever shares it may take
 * O_NONBLOCK off it), a TCP socket or a device lasts as long as others like; a send to such a pair
 * with MSG_DONTWAIT sleeps on nothing of others.  Both ends must be without a name: whoever is
 * connected to a server got its trust, or is our own client's other end.
 *
 * Not even to look can be main's: a descriptor that was received must be closed, and close() of a
 * file whose FUSE server does not answer FLUSH cannot be killed.  So a helper process (base/helper.h)
 * looks into the connection's queue, where the descriptor stays; main gets the good ones alone.  What
 * was bad is closed by the helper when it is told so: whoever waits for that in vain knows whose it
 * was.
 *
 * Nothing is ever received from an output: its sender has it too, and who reads it with a buffer that
 * cannot be written (userfaultfd) has its lock. */
#pragma once

#include "base/helper.h"

#define OUTPUT_NAME "pw-output"

enum output_verdict {
	OUTPUT_GOOD,
	OUTPUT_NONE,
	OUTPUT_MANY,
	OUTPUT_NOT_RECEIVED,
	OUTPUT_NO_SOCKET,
	OUTPUT_NOT_UNIX,
	OUTPUT_NO_STREAM,
	OUTPUT_NOT_CONNECTED,
	OUTPUT_NAMED,
	OUTPUT_VERDICTS
};
/* Why not, for its sender. */
const char *output_reason(enum output_verdict verdict);

/* What the next bytes at @connection bring first; it stays there.  *ret_fds, as many as *ret_n, are the
 * caller's to close, which may hang for ever; OUTPUT_GOOD: one. */
enum output_verdict output_look(int connection, int ret_fds[static 2], size_t *ret_n);

/* Requests and answers are a byte: OUTPUT_LOOK with the connection is answered by the verdict, good
 * ones with the descriptor; OUTPUT_LET_GO, by anything, when what was bad is closed. */
enum { OUTPUT_LOOK, OUTPUT_LET_GO };
extern const struct helper_role output_role;
