/* features.c - see features.h. */
#include "base/features.h"

const char *feature_name(enum feature feature)
{
	static const char *const names[FEATURE_COUNT] = {
		[FEATURE_BUILD_ID] = "build-id",
		[FEATURE_INHERIT_THREAD] = "inherit-thread",
		[FEATURE_FORMAT_LOST] = "format-lost",
		[FEATURE_INHERIT_READ] = "inherit-read",
		[FEATURE_PROCMAP_QUERY] = "procmap-query",
		[FEATURE_KSYMBOL] = "ksymbol",
		[FEATURE_PIDFD] = "pidfd",
		[FEATURE_PEER_PIDFD] = "peer-pidfd",
		[FEATURE_LANDLOCK] = "landlock",
		[FEATURE_BPF] = "bpf",
	};

	return names[feature];
}

const char *feature_words(enum feature feature, bool has)
{
	static const char *const words[FEATURE_COUNT][2] = {
		[FEATURE_BUILD_ID] =
			{"no build ids in mapping records (Linux 5.12 has them)",
			 "build ids in mapping records, taken with --kernel-build-ids only"},
		[FEATURE_INHERIT_THREAD] = {"children inherit events as threads do (before Linux "
					    "5.13): they are filtered out where not wanted",
					    "threads inherit events, children only where wanted"},
		[FEATURE_FORMAT_LOST] =
			{"lost samples are known from records only (before Linux 6.0)",
			 "lost samples are counted exactly"},
		[FEATURE_INHERIT_READ] = {"of processes one event is counted (before Linux 6.13), "
					  "of CPUs groups",
					  "of processes and CPUs groups of events are counted"},
		[FEATURE_PROCMAP_QUERY] = {"mappings are read as text (before Linux 6.11)",
					   "single mappings are queried"},
		[FEATURE_KSYMBOL] = {"the kernel's names are read once, at the start",
				     "the kernel reports new and removed names"},
		[FEATURE_PIDFD] = {"processes are identified by their ids",
				   "processes are held by pidfds"},
		[FEATURE_PEER_PIDFD] = {"peers are identified by their ids (before Linux 6.5)",
					"peers are held by pidfds"},
		[FEATURE_LANDLOCK] = {"processes that parse are confined by system calls alone "
				      "(Landlock is of Linux 5.13)",
				      "processes that parse have no file system (Landlock)"},
		[FEATURE_BPF] =
			{"deep stacks and frames of interpreters are read from memory shortly "
			 "after the "
			 "sample "
			 "(no BPF program: root, or CAP_BPF and CAP_PERFMON, and Linux 5.8)",
			 "deep stacks and frames of interpreters are copied at the moment of the "
			 "sample "
			 "(BPF)"},
	};

	return words[feature][has];
}
