/* common-options.h - options that several commands have: entries of their tables.  Thread: main.
 * @args has @member of the option's own type. */
#pragma once

#include "cli/options.h"
#include "daemon/control/control-protocol.h"
#include "session/consent/consent.h"
#include "profile/profile-export.h"

/* The trace that record writes, and report reads, where none is named. */
#define DEFAULT_TRACE "perfwind.pftrace"

/* The recorder: this process, or the daemon (bool, bool, const char *).  @does: "record". */
#define OPTION_DAEMON(args, member, does)                                                \
	{                                                                                \
		.name = "daemon", .type = OPTION_FLAG, .offset = offsetof(args, member), \
		.help = "let the daemon " does                                           \
			" (default: only if your privileges do not suffice)",            \
	}
#define OPTION_NO_DAEMON(args, member)                                                      \
	{                                                                                   \
		.name = "no-daemon", .type = OPTION_FLAG, .offset = offsetof(args, member), \
		.help = "never ask the daemon",                                             \
	}
#define OPTION_CONTROL_SOCKET(args, member)                                              \
	{                                                                                \
		.name = "control-socket", .type = OPTION_STRING, .argument = "PATH",     \
		.offset = offsetof(args, member),                                        \
		.help = "the control socket of the daemon (default " CONTROL_SOCKET ")", \
	}

/* Consent (const char *, bool). */
#define OPTION_HOOK_SOCKET(args, member)                                                      \
	{                                                                                     \
		.name = "hook-socket", .type = OPTION_STRING, .argument = "PATH",             \
		.offset = offsetof(args, member),                                             \
		.help = "the socket at which processes that opted in answer\n(perfwind run; " \
			"default " HOOK_SOCKET "; @NAME: abstract)",                          \
	}
#define OPTION_UNDER_SECCOMP(args, member)                                                   \
	{                                                                                    \
		.name = "consent-under-seccomp", .type = OPTION_FLAG,                        \
		.offset = offsetof(args, member),                                            \
		.help = "also signal processes under a seccomp filter, which may kill them", \
	}

/* Where files are looked for that are gone or of another machine; @args has @member of struct file_places. */
#define OPTION_PLACES(args, member)                                                                \
	{.name = "symfs",                                                                          \
	 .type = OPTION_STRING,                                                                    \
	 .argument = "DIR",                                                                        \
	 .offset = offsetof(args, member.symfs),                                                   \
	 .help = "a folder with copies of the recorded files, each at its path (DIR/usr/bin/x)"},  \
		{.name = "buildid-dir",                                                            \
		 .type = OPTION_STRING,                                                            \
		 .argument = "DIR",                                                                \
		 .offset = offsetof(args, member.buildid_dir),                                     \
		 .help = "a build-id cache of perf (default: $PERF_BUILDID_DIR, or ~/.debug), or " \
			 "a tarball\nof `perf archive`, which is unpacked for the time of the "    \
			 "command"},                                                               \
	{                                                                                          \
		.name = "debug-dir", .type = OPTION_STRING, .argument = "DIR",                     \
		.offset = offsetof(args, member.debug_dir),                                        \
		.help = "debug files laid out as in /usr/lib/debug, which is searched after it"    \
	}

/* A flag; debuginfod.h. */
#define OPTION_DEBUGINFOD(args, member)                                                      \
	{                                                                                    \
		.name = "debuginfod", .type = OPTION_FLAG, .offset = offsetof(args, member), \
		.help = "fetch missing debug files by build id from the servers of "         \
			"$DEBUGINFOD_URLS\n(nothing goes to the network without it, or "     \
			"PERFWIND_DEBUGINFOD=yes)"                                           \
	}

/* The rows of a table (enum report_by). */
#define OPTION_BY(args, member)                                                                 \
	{                                                                                       \
		.name = "by", .letter = 'b', .type = OPTION_CHOICE, .argument = "WHAT",         \
		.choices = report_by_names, .offset = offsetof(args, member),                   \
		.help = "rows of the table: function (default), process, pid, thread, module, " \
			"cgroup, reason (of waits) or mark (slowest sections first)",           \
	}

/* Entries of a table for which the file defines AT(member). */
#define FLAG(name_, letter_, member, help_)                                            \
	{                                                                              \
		.name = (name_), .letter = (letter_), .type = OPTION_FLAG, AT(member), \
		.help = (help_),                                                       \
	}
#define TEXT(name_, letter_, argument_, member, help_)                       \
	{                                                                    \
		.name = (name_), .letter = (letter_), .type = OPTION_STRING, \
		.argument = (argument_), AT(member), .help = (help_),        \
	}
#define NUMBER(name_, letter_, type_, argument_, member, max_, help_)                           \
	{                                                                                       \
		.name = (name_), .letter = (letter_), .type = (type_), .argument = (argument_), \
		AT(member), .max = (max_), .help = (help_),                                     \
	}
/* A double, in @unit_ ("s", "ms"); the value may name another unit. */
#define TIME(name_, letter_, unit_, argument_, member, max_, help_)                         \
	{                                                                                   \
		.name = (name_), .letter = (letter_), .type = OPTION_TIME, .unit = (unit_), \
		.argument = (argument_), AT(member), .max = (max_), .help = (help_),        \
	}
#define CHOICE(name_, argument_, member, choices_, help_)                                    \
	{                                                                                    \
		.name = (name_), .type = OPTION_CHOICE, .argument = (argument_), AT(member), \
		.choices = (choices_), .help = (help_),                                      \
	}
/* @call gets the whole struct. */
#define CALL(name_, letter_, argument_, call_, help_)                      \
	{                                                                  \
		.name = (name_), .letter = (letter_), .type = OPTION_CALL, \
		.argument = (argument_), .call = (call_), .help = (help_), \
	}
/* Of perf; @note may be NULL. */
#define IGNORED(name_, letter_, argument_, note_)                                    \
	{                                                                            \
		.name = (name_), .letter = (letter_), .type = OPTION_WITHOUT_EFFECT, \
		.argument = (argument_), .note = (note_),                            \
	}
#define REFUSED(name_, letter_, argument_, note_)                             \
	{                                                                     \
		.name = (name_), .letter = (letter_), .type = OPTION_REFUSED, \
		.argument = (argument_), .note = (note_),                     \
	}
