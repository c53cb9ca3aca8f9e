/* uapi.h - linux/perf_event.h and what newer kernels added to it.  Thread: any.
 * The headers of the build machine may be older than the kernel it runs on (and the other way
 * round), so newer values are spelled out here from include/uapi/linux/perf_event.h and found out
 * at run time. */
#pragma once

#include <linux/perf_event.h>
#include <sys/types.h>

#include "base/util.h"

enum {
	PERFWIND_FORMAT_LOST = 1 << 4,	       /* PERF_FORMAT_LOST, 6.0 */
	PERFWIND_MISC_MMAP_BUILD_ID = 1 << 14, /* PERF_RECORD_MISC_MMAP_BUILD_ID, 5.12 */
	PERFWIND_RECORD_LOST_SAMPLES = 13,
	PERFWIND_RECORD_NAMESPACES = 16,
	PERFWIND_RECORD_KSYMBOL = 17,
	PERFWIND_RECORD_BPF = 18, /* BPF_EVENT */
	PERFWIND_RECORD_CGROUP = 19,
	PERFWIND_RECORD_TEXT_POKE = 20,
};

/* attr flag bits as one 64-bit word (the bit field that follows read_format), for bits that old
 * headers lack. */
#define PERFWIND_ATTR_BUILD_ID (1ull << 34)
#define PERFWIND_ATTR_INHERIT_THREAD (1ull << 35)

/* glibc has no wrapper.  Returns the fd or -errno. */
int perf_event_open(struct perf_event_attr *attr, pid_t pid, int cpu, int group_fd,
		    unsigned long flags);
/* Can an event be opened on this thread, in user code only?  0 or -errno. */
int perf_event_try(uint32_t type, uint64_t config);
/* The flag word; bits as PERFWIND_ATTR_*. */
uint64_t perf_attr_flags(const struct perf_event_attr *attr);
/* Sets flag bits given as PERFWIND_ATTR_*. */
void perf_attr_set_flags(struct perf_event_attr *attr, uint64_t bits);
