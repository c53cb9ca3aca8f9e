/* hook-check.h - is what came over the hook socket what it claims to be?  Thread: that of the hook
 * process (hook-process.h): a call on a descriptor of a target may hang. */
#pragma once

#include "base/util.h"
#include "libc-hook/hook-proto.h"

/* What an answer came to; all but the first are refused, closed and counted. */
enum hook_verdict {
	HOOK_GOOD,
	HOOK_STRANGER,	  /* from a process that was not asked, or has answered already */
	HOOK_GONE,	  /* from one that has exited */
	HOOK_THREAD_GONE, /* by a thread that has ended: its maps read as nothing */
	HOOK_SILENT,	  /* connected and sent nothing in time, or was pushed out by newer ones */
	HOOK_NO_MESSAGE,  /* anything but one HOOK_BYTE */
	HOOK_NOT_TWO,	  /* fewer or more descriptors */
	HOOK_WRITABLE,	  /* not open for reading only */
	HOOK_NOT_PROC,	  /* no file of a procfs */
	HOOK_NOT_ITS_OWN, /* a procfs file, but not the process's own maps and mem */
	HOOK_NOT_PASSED,  /* good, and the way to main was full */
	HOOK_VERDICTS
};
const char *hook_verdict_name(enum hook_verdict verdict);
/* A word, as the statistics of a trace have it. */
const char *hook_verdict_word(enum hook_verdict verdict);

/* Are @fds (maps, mem, in the order of hook_proto.h) files of process @pid, which has to be held to
 * its life by the caller (a pidfd that is checked afterwards)? */
enum hook_verdict hook_check(uint32_t pid, const int fds[static HOOK_DESCRIPTORS]);
