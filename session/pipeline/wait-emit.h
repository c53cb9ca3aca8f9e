/* wait-emit.h - a wait in the trace: the innermost frame of its stack, and a slice on the track of its thread.  Thread: main. */
#pragma once

#include "session/pipeline/entry.h"
#include "symbols/kernel-names.h"
#include "trace/writer.h"

/* Of a sample with info.reason: writes the slice, if it stands for one wait (info.began), and returns the frame
 * of WAIT_MODULE that is the innermost one of the sample's stack.  @names may be NULL.  Errors: -ENOMEM; the sink's. */
int wait_emit(struct writer *writer, const struct outcome *outcome, struct uw_kernel_names *names,
	      uint32_t *ret_frame);
