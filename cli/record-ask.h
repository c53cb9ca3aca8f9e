/* record-ask.h - `perfwind record` through the daemon, for users that lack permission: the options as a request.
 * Thread: main.  The output file is opened here, with the user's privileges. */
#pragma once

#include "cli/ask.h"
#include "cli/record-options.h"

struct record_ask {
	const struct record_args *args;
	Pb__ControlRequest request;
	struct ask_run run;
	uint32_t pid; /* the command's; 0: none */
};

/* Borrows @args, @job (forks its command, held back, if that has not happened) and @lacks (the permission that the user
 * lacks; "" if not checked).  @kernel: the recording is of use only with kernel frames.  Returns 0; or ASK_RUN_DENIED
 * or < 0 with run.why.  Call record_ask_deinit() in every case. */
int record_ask_open(struct record_ask *ask, const struct record_args *args, struct job *job,
		    const char *lacks, bool kernel);
/* Returns the exit status. */
int record_ask_run(struct record_ask *ask);
void record_ask_deinit(struct record_ask *ask);
