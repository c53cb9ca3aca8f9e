/* fail-in-loop.h - a peer and the daemon in one thread, of which only the daemon's calls fail: those in its loop.  Included before the
 * fixture that runs the loop. */
#pragma once

#include "base/loop.h"
#include "tests/unit/fail-calls.h"

static unsigned long suspended;

/* From here on no call fails but in the loop. */
static void suspend(void)
{
	suspended = calls_fail_at;
	calls_fail_at = 0;
}
static void resume(void)
{
	calls_fail_at = suspended;
}

static int run_once(struct loop *loop, int timeout_ms)
{
	int r;

	resume();
	r = loop_run_once(loop, timeout_ms);
	suspend();
	return r;
}
#define loop_run_once run_once
