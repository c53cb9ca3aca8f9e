/* ask_run.h - a recording by the daemon, from the request to the end.  Thread: main. */
#pragma once

#include "cli/ask.h"
#include "daemon/base/loop.h"

struct ask_run {
	const char *socket;
	const Pb__ControlRequest *request;
	struct sink *sink;
	double duration; /* seconds; 0: until it ends */
	bool live;	 /* the line that is rewritten */

	/* private */
	struct loop loop;
	struct loop_source signals;
	struct loop_timer end;
	struct ask *ask;
	bool ended, interrupted;
};

/* Ctrl-C and TERM end it, a second one leaves at once.  0, or 1 when it failed, which has been told;
 * ask_summary(run->ask) says what it came to, if anything.  Then ask_run_deinit() in any case. */
int ask_run(struct ask_run *run);
void ask_run_deinit(struct ask_run *run);
