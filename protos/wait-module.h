/* wait-module.h - how a trace marks waits: the innermost frame of a wait's stack is a frame of this module, and its name is
 * the reason in brackets, "[sleep]".  Thread: any. */
#pragma once

#define WAIT_MODULE "[wait]"
/* Not a wait: running time of a thread without a sample. */
#define WAIT_RUNNING_FRAME "[running]"
