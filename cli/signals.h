/* signals.h - signals as a source of the event loop.  Thread: main. */
#pragma once

#include "base/loop.h"

/* Blocks @signals[0..n) and makes them readable on @source.  Ignores SIGPIPE: a closed pipe is a write error, as a full
 * disk is. */
int signals_watch(struct loop *loop, struct loop_source *source, const int *signals, size_t n,
		  int (*ready)(struct loop_source *, uint32_t));
void signals_unwatch(struct loop *loop, struct loop_source *source);
/* The next pending signal; 0: none. */
int signals_next(const struct loop_source *source);
/* The same; *ret_pid: the sender, 0: the kernel.  Set only if there is a signal. */
int signals_next_from(const struct loop_source *source, uint32_t *ret_pid);
