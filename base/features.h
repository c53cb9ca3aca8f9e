/* features.h - the newer kernel facilities, by name.  Thread: any.
 * The set is found out once by perf/probe.c (which also obeys PERFWIND_WITHOUT) and handed down
 * as a parameter; each user of a bit has a fallback that works on Linux 5.10. */
#pragma once

#include "base/util.h"

enum feature {
	FEATURE_BUILD_ID, /* build ids in MMAP2 records, 5.12.  Else: read from the file, as without
			     perf_options.kernel_build_ids */
	FEATURE_INHERIT_THREAD, /* attr.inherit_thread, 5.13.  Else: inherit, and children filtered
				   out */
	FEATURE_FORMAT_LOST, /* PERF_FORMAT_LOST, 6.0.  Else: LOST records only, noted in the trace */
	FEATURE_INHERIT_READ,  /* inherit with SAMPLE_READ, 6.13.  Else: no follower counts there */
	FEATURE_PROCMAP_QUERY, /* the ioctl on /proc/PID/maps, 6.11.  Else: the text is read again
				*/
	FEATURE_KSYMBOL,       /* attr.ksymbol, 5.1.  Else: kernel names as of the start */
	FEATURE_PIDFD,	       /* pidfd_open, 5.3; poll on it for exit */
	FEATURE_PEER_PIDFD,    /* SO_PEERPIDFD, 6.5.  Else: pidfd_open of SO_PEERCRED's pid */
	FEATURE_LANDLOCK, /* Landlock, 5.13.  Else: only the list of system calls confines the parser */
	FEATURE_BPF, /* BPF programs at samples and ring buffers, 5.8; root, or CAP_BPF and CAP_PERFMON.
			Else: deep stacks from the memory of the process, later */
	FEATURE_COUNT,
};

struct features {
	bool has[FEATURE_COUNT];
};

/* The names used by PERFWIND_WITHOUT and doctor: "build-id", "inherit-thread" ... */
const char *feature_name(enum feature feature);
/* What perfwind does with it, or without: a line for `-v`. */
const char *feature_words(enum feature feature, bool has);
