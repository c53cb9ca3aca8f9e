/* filter-options.h - which samples of a trace are wanted: the options that report, export, diff and script share.
 * Thread: main. */
#pragma once

#include "cli/options.h"
#include "profile/profile.h"

/* Entries of an option table; @member: struct profile_filter. */
#define OPTION_FILTERS(member)                                                                    \
	NUMBER("pid", 'p', OPTION_U32, "PID", member.pid, 0, "only this process"),                \
		TEXT("thread", 0, "TID", member.thread, "only this thread: its id, or its name"), \
		TEXT("comm", 0, "NAME", member.comm, "only threads and processes of this name"),  \
		TEXT("cgroup", 0, "PATH", member.cgroup,                                          \
		     "only processes in this cgroup (a container's, a service's) or below it"),   \
		CALL_AT("cpu", 'C', "LIST", member, filter_set_cpus,                              \
			"only samples of these CPUs: 0-3,8"),                                     \
		CALL_AT("time", 0, "FROM-TO", member, filter_set_time,                            \
			"only this part, from the first sample on: 1.5s-2s, 500ms-, -10s"),       \
		TEXT("during", 0, "MARK", member.during,                                          \
		     "only inside sections with this mark, of the same thread or process"),       \
		TEXT("outside", 0, "MARK", member.outside,                                        \
		     "only outside sections with this mark"),                                     \
		TEXT("function", 0, "FUNC", member.function, "only stacks with this function")

/* Of an OPTION_CALL at a struct profile_filter. */
int filter_set_cpus(void *filter, const char *value);
int filter_set_time(void *filter, const char *value);
