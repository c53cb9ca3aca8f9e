/* hook-proto.h - the protocol between the daemon and a target that opts in.  Included by both
 * sides; plain constants.
 *
 *   daemon ── HOOK_SIGNAL, si_code SI_QUEUE, value HOOK_VALUE ──► target (by pidfd)
 *   target ── connect HOOK_SOCKET, one message: 1 byte + SCM_RIGHTS {maps, mem} ──► daemon
 *
 * On Linux the default action of the signal is to ignore it, so that no race with exec or exit can
 * kill.  On Android it is the platform's own profiling signal, bionic's BIONIC_SIGNAL_PROFILER:
 * its default action is to kill, as that of every real-time signal: there the libc installs its
 * handler, or ignores the signal, early at startup. A process between execve() and that moment is
 * killed by a request that was sent to the program before. This also holds for the platform's own
 * profilers. */
#pragma once

#include <signal.h>

#ifdef __ANDROID__
#define HOOK_SIGNAL 36
#else
#define HOOK_SIGNAL SIGURG
#endif

enum {
	HOOK_VALUE = 1, /* si_value.sival_int */
	HOOK_MAPS = 0,	/* places of the descriptors in the message */
	HOOK_MEM = 1,
	HOOK_DESCRIPTORS = 2,
	HOOK_BYTE = 'p', /* the one byte of data */
};

#ifdef __ANDROID__
#define HOOK_SOCKET "/dev/socket/perfwind_hook" /* rc/perfwind.rc */
#else
#define HOOK_SOCKET "/run/perfwind/hook.sock"
#endif

/* In the target's environment, read once when it starts: another socket ("@name": abstract); "1":
 * never answers; "1": answers although the process is not dumpable. */
#define HOOK_ENV_SOCKET "PERFWIND_HOOK_SOCKET"
#define HOOK_ENV_DENY "PERFWIND_HOOK_DENY"
#define HOOK_ENV_NONDUMPABLE "PERFWIND_HOOK_NONDUMPABLE"
