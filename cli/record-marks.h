/* record-marks.h - `perfwind record --marks`: the marks that programs put into rings of their own (libperfwind-marks.so).
 * Thread: main. */
#pragma once

#include "cli/record-options.h"
#include "marks/ftrace-print.h"
#include "marks/mark-rings.h"

/* Before the command is forked and privileges are dropped: opens the socket, has @command load the library, invites the
 * processes of @args.  NULL in *ret_rings without --marks.  < 0: reported. */
int record_marks_open(const struct record_args *args, bool command, bool peer_pidfd,
		      struct mark_rings **ret_rings, struct ftrace_print **ret_print);
