/* uapi.c - the perf_event_open system call and attr bits that old headers lack.  Thread: any.
 * The flag bits of struct perf_event_attr are one 64-bit word right behind read_format, bit 0 the
 * lowest (linux/perf_event.h; the byte order is little endian as everywhere here). */
#include "perf/uapi.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

_Static_assert(offsetof(struct perf_event_attr, read_format) + 16 ==
		       offsetof(struct perf_event_attr, wakeup_events),
	       "the flag word stands between read_format and wakeup_events");

int perf_event_open(struct perf_event_attr *attr, pid_t pid, int cpu, int group_fd,
		    unsigned long flags)
{
	long fd = syscall(SYS_perf_event_open, attr, pid, cpu, group_fd,
			  flags | PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd; /* not fail(): the caller walks a ladder of refusals */
}

int perf_event_try(uint32_t type, uint64_t config)
{
	struct perf_event_attr attr = {
		.type = type,
		.size = sizeof(attr),
		.config = config,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	int fd = perf_event_open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return fd;
	fd_close(fd);
	return 0;
}

#define FLAGS_AT (offsetof(struct perf_event_attr, read_format) + sizeof(uint64_t))

uint64_t perf_attr_flags(const struct perf_event_attr *attr)
{
	uint64_t flags;

	memcpy(&flags, (const uint8_t *)attr + FLAGS_AT, sizeof(flags));
	return flags;
}

void perf_attr_set_flags(struct perf_event_attr *attr, uint64_t bits)
{
	uint64_t flags = perf_attr_flags(attr) | bits;

	memcpy((uint8_t *)attr + FLAGS_AT, &flags, sizeof(flags));
}
