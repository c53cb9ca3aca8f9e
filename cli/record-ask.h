/* record-ask.h - `perfwind record` where own rights do not do: the options as a request to the daemon.
 * Thread: main.  The output file is opened here, by the user's own rights. */
#pragma once

#include "cli/ask-run.h"
#include "cli/record-options.h"

struct record_ask {
	const struct record_args *args;
	Pb__ControlRequest request;
	struct ask_run run;
	uint32_t pid; /* of the command */
};

/* Borrows @args, @job (its command is held back here, unless it is already) and @lacks (what own
 * rights do not do; "": nobody has looked).  @kernel: user code would be no gain.  0; ASK_RUN_DENIED
 * and < 0 with run.why; then record_ask_deinit() in any case. */
int record_ask_open(struct record_ask *ask, const struct record_args *args, struct job *job,
		    const char *lacks, bool kernel);
/* The exit status. */
int record_ask_run(struct record_ask *ask);
void record_ask_deinit(struct record_ask *ask);
