/* signals.h - the signals that end a command, as something the loop can wait for.  Thread: main. */
#pragma once

#include "base/loop.h"

/* Blocks @signals[0..n) and makes them readable on @source; ignores SIGPIPE, so that a reader that
 * went away is an error of writing, as a full disk is. */
int signals_watch(struct loop *loop, struct loop_source *source, const int *signals, size_t n,
		  int (*ready)(struct loop_source *, uint32_t));
void signals_unwatch(struct loop *loop, struct loop_source *source);
/* The next one that has come; 0: none. */
int signals_next(const struct loop_source *source);
