/* record-marks.h - `perfwind record --marks`: the marks that programs put into rings of their own (libperfwind-marks.so).
 * Thread: main. */
#pragma once

#include "cli/record-options.h"
#include "base/shared-counts.h"
#include "marks/ftrace-print.h"
#include "marks/mark-rings.h"

/* A parent process that wants marks counted by name gives a descriptor (base/shared-counts.h) by its number. */
#define RECORD_MARK_COUNTS_ENV "PERFWIND_MARK_COUNTS"

struct record_marks { /* NULL: without --marks */
	struct mark_rings *rings;
	struct ftrace_print *print;   /* NULL: trace_marker is not read */
	struct shared_counts *counts; /* NULL: no parent wants them */
};
/* Before the command is forked and privileges are dropped: opens the socket, has @command load the library, invites the
 * processes of @args.  < 0: reported; @marks is to be closed all the same. */
int record_marks_open(const struct record_args *args, bool command, bool peer_pidfd,
		      struct record_marks *marks);
void record_marks_close(struct record_marks *marks);
