/* hook-check.h - verification of the descriptors that a target sent.  Thread: that of the hook
 * process (hook-process.h), as a call on a descriptor of a target may hang. */
#pragma once

#include "base/util.h"
#include "libc-hook/hook-proto.h"

/* The verdict on an answer; all but the first are rejected, closed and counted. */
enum hook_verdict {
	HOOK_GOOD,
	HOOK_STRANGER,	  /* from a process that was not asked, or has already answered */
	HOOK_GONE,	  /* from a process that has exited */
	HOOK_THREAD_GONE, /* by a thread that has ended: its maps read as empty */
	HOOK_SILENT, /* connected and sent nothing in time, or was displaced by newer connections */
	HOOK_NO_MESSAGE,  /* anything but one HOOK_BYTE */
	HOOK_NOT_TWO,	  /* not two descriptors */
	HOOK_WRITABLE,	  /* not open for reading only */
	HOOK_NOT_PROC,	  /* no file of a procfs */
	HOOK_NOT_ITS_OWN, /* a procfs file, but not the maps or mem of this process */
	HOOK_NOT_PASSED,  /* good, but the channel to main was full */
	HOOK_VERDICTS
};
/* A word, for the statistics of a trace. */
const char *hook_verdict_word(enum hook_verdict verdict);

/* Are @fds (maps, mem, in the order of hook-proto.h) files of process @pid?  The caller makes sure
 * that the pid was not reused meanwhile (a pidfd that is checked afterwards). */
enum hook_verdict hook_check(uint32_t pid, const int fds[static HOOK_DESCRIPTORS]);
