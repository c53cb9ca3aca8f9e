/* common-options.h - options that several commands have: entries of their tables.  Thread: main.
 * Their table's struct has @member of the option's own type. */
#pragma once

#include "cli/options.h"
#include "daemon/control/control-protocol.h"
#include "session/consent/consent.h"
#include "profile/profile-export.h"

/* The trace that record writes, and report reads, where none is named. */
#define DEFAULT_TRACE "perfwind.pftrace"

/* The recorder: this process, or the daemon (bool, bool, const char *).  @does: "record". */
#define OPTION_DAEMON(member, does) \
	FLAG("daemon", 0, member,   \
	     "let the daemon " does " (default: only if your privileges do not suffice)")
#define OPTION_NO_DAEMON(member) FLAG("no-daemon", 0, member, "never ask the daemon")
#define OPTION_CONTROL_SOCKET(member)             \
	TEXT("control-socket", 0, "PATH", member, \
	     "the control socket of the daemon (default " CONTROL_SOCKET ")")

/* Consent (const char *, bool). */
#define OPTION_HOOK_SOCKET(member)                                                 \
	TEXT("hook-socket", 0, "PATH", member,                                     \
	     "the socket at which processes that opted in answer\n(perfwind run; " \
	     "default " HOOK_SOCKET "; @NAME: abstract)")
#define OPTION_UNDER_SECCOMP(member)             \
	FLAG("consent-under-seccomp", 0, member, \
	     "also signal processes under a seccomp filter, which may kill them")

/* Where files are looked for that are gone or of another machine; @member: struct file_places. */
#define OPTION_PLACES(member)                                                                      \
	TEXT("symfs", 0, "DIR", member.symfs,                                                      \
	     "a folder with copies of the recorded files, each at its path (DIR/usr/bin/x)"),      \
		TEXT("buildid-dir", 0, "DIR", member.buildid_dir,                                  \
		     "a build-id cache of perf (default: $PERF_BUILDID_DIR, or ~/.debug), or a "   \
		     "tarball\nof `perf archive`, which is unpacked for the time of the command"), \
		TEXT("debug-dir", 0, "DIR", member.debug_dir,                                      \
		     "debug files laid out as in /usr/lib/debug, which is searched after it")

/* A flag; debuginfod.h. */
#define OPTION_DEBUGINFOD(member)                                             \
	FLAG("debuginfod", 0, member,                                         \
	     "fetch missing debug files by build id from the servers of "     \
	     "$DEBUGINFOD_URLS\n(nothing goes to the network without it, or " \
	     "PERFWIND_DEBUGINFOD=yes)")

/* The rows of a table (enum report_by). */
#define OPTION_BY(member)                                                                       \
	{                                                                                       \
		.name = "by", .letter = 'b', .type = OPTION_CHOICE, .argument = "WHAT",         \
		.choices = report_by_names, AT(member),                                         \
		.help = "rows of the table: function (default), process, pid, thread, module, " \
			"cgroup, reason (of waits) or mark (slowest sections first)",           \
	}
