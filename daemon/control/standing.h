/* standing.h - the daemon's own flight recorder of the machine, as the settings ask for it (recorder-size, ...): its snapshots
 * go to requesters that may record everything.  Thread: main. */
#pragma once

#include "daemon/policy/settings.h"
#include "session/session.h"
#include "tracing/recorder.h"

struct standing;
/* Records from here on.  Borrows @shared and @loop.  NULL: the settings have none, or it cannot be started, which was
 * logged. */
struct standing *standing_start(const struct settings *settings, const struct features *features,
				struct session_shared *shared, struct loop *loop);
struct standing *standing_free(struct standing *standing);
/* Cuts now, and writes to @fd (borrowed, open until done()) the samples of @last_ns before it, 0: all.  @done: with the
 * result, from the loop.  -EBUSY: another one is in progress; -ESHUTDOWN: the recording has ended. */
int standing_snapshot(struct standing *standing, int fd, uint64_t last_ns,
		      void (*done)(void *arg, const struct recorder_result *result), void *arg);
/* done() is not called for @arg any more, and its descriptor not used by this process. */
void standing_forget(struct standing *standing, const void *arg);
