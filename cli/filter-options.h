/* filter-options.h - which samples of a trace are wanted: the options that report, export, diff and script share.
 * Thread: main. */
#pragma once

#include "cli/options.h"
#include "profile/profile.h"

/* Entries of an option table; @args has @member of struct profile_filter. */
#define OPTION_FILTERS(args, member)                                                            \
	{.name = "pid",                                                                         \
	 .letter = 'p',                                                                         \
	 .type = OPTION_U32,                                                                    \
	 .argument = "PID",                                                                     \
	 .offset = offsetof(args, member.pid),                                                  \
	 .help = "only this process"},                                                          \
		{.name = "thread",                                                              \
		 .type = OPTION_STRING,                                                         \
		 .argument = "TID",                                                             \
		 .offset = offsetof(args, member.thread),                                       \
		 .help = "only this thread: its id, or its name"},                              \
		{.name = "comm",                                                                \
		 .type = OPTION_STRING,                                                         \
		 .argument = "NAME",                                                            \
		 .offset = offsetof(args, member.comm),                                         \
		 .help = "only threads and processes of this name"},                            \
		{.name = "cgroup",                                                              \
		 .type = OPTION_STRING,                                                         \
		 .argument = "PATH",                                                            \
		 .offset = offsetof(args, member.cgroup),                                       \
		 .help = "only processes in this cgroup (a container's, a service's) or below " \
			 "it"},                                                                 \
		{.name = "cpu",                                                                 \
		 .letter = 'C',                                                                 \
		 .type = OPTION_CALL,                                                           \
		 .argument = "LIST",                                                            \
		 .call = filter_set_cpus,                                                       \
		 .offset = offsetof(args, member),                                              \
		 .help = "only samples of these CPUs: 0-3,8"},                                  \
		{.name = "time",                                                                \
		 .type = OPTION_CALL,                                                           \
		 .argument = "FROM-TO",                                                         \
		 .call = filter_set_time,                                                       \
		 .offset = offsetof(args, member),                                              \
		 .help = "only this part, from the first sample on: 1.5s-2s, 500ms-, -10s"},    \
		{.name = "during",                                                              \
		 .type = OPTION_STRING,                                                         \
		 .argument = "MARK",                                                            \
		 .offset = offsetof(args, member.during),                                       \
		 .help = "only inside sections with this mark, of the same thread or process"}, \
		{.name = "outside",                                                             \
		 .type = OPTION_STRING,                                                         \
		 .argument = "MARK",                                                            \
		 .offset = offsetof(args, member.outside),                                      \
		 .help = "only outside sections with this mark"},                               \
	{                                                                                       \
		.name = "function", .type = OPTION_STRING, .argument = "FUNC",                  \
		.offset = offsetof(args, member.function),                                      \
		.help = "only stacks with this function"                                        \
	}

/* Of an OPTION_CALL at a struct profile_filter. */
int filter_set_cpus(void *filter, const char *value);
int filter_set_time(void *filter, const char *value);
