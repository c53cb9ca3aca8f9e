/* wait-emit.h - a wait in the trace: the innermost frame of its stack, and a slice on the track of its thread.  Thread: main. */
#pragma once

#include "session/pipeline/entry.h"
#include "symbols/kernel-names.h"
#include "trace/writer.h"

/* Of a sample with info.reason: writes the slice, if it stands for one wait (info.began), and returns the frame
 * of WAIT_MODULE that is the innermost one of the sample's stack.  @names may be NULL.  Errors: -ENOMEM; the sink's. */
int wait_emit(struct writer *writer, const struct outcome *outcome, struct uw_kernel_names *names,
	      uint32_t *ret_frame);
/* Of outcome.waker, before its frames get ids: in an interrupt the task is not what woke, so only the interrupt's frames stay,
 * and info.pid is 0.  @names may be NULL. */
void wait_cut_waker(struct outcome *waker, struct uw_kernel_names *names);
/* The part that outcome.waker adds to a stack: @ids, *@n frames of @waker, innermost first, become WAIT_WAKER_IDS at most: the
 * innermost frames and "[woken by COMM]" outside of them.  Errors as above. */
enum { WAIT_WAKER_IDS = 256 };
int wait_emit_waker(struct writer *writer, const struct outcome *waker, uint32_t *ids, size_t *n);
