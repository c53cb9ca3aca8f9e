/* probe.c - see probe.h.
 * Trying is the only reliable test: distributions backport, containers filter, version
 * numbers prove nothing.  Each try is an event that counts nothing (dummy) on this thread, user side only, so that it
 * needs no privilege; a kernel that does not know a bit answers EINVAL.  Runs once at the start:
 * about ten system calls. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory-left.h"
#include "perf/bpf.h"
#include "perf/probe.h"
#include "perf/uapi.h"

/* PROCMAP_QUERY of linux/fs.h, 6.11: the argument is 104 bytes, the number 17 of 'f'. */
struct procmap_query_probe {
	uint64_t size, query_flags, query_addr;
	uint64_t rest[10];
};
_Static_assert(sizeof(struct procmap_query_probe) == 104, "the size is part of the ioctl's number");
#define PROCMAP_QUERY_PROBE _IOWR('f', 17, struct procmap_query_probe)
enum { PROCMAP_COVERING_OR_NEXT = 0x10 };
enum { BPF_NEEDS = 192 << 20 }; /* left by the memory cgroup, of which its maps take 20 MiB */

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* asm-generic/socket.h, Linux 6.5 */
#endif

static bool opens(struct perf_event_attr *attr)
{
	int fd = perf_event_open(attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return false;
	fd_close(fd);
	return true;
}

static struct perf_event_attr dummy(void)
{
	return (struct perf_event_attr){
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(struct perf_event_attr),
		.config = PERF_COUNT_SW_DUMMY,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
}

static bool have_build_id(void)
{
	struct perf_event_attr attr = dummy();

	attr.mmap = 1;
	attr.mmap2 = 1;
	perf_attr_set_flags(&attr, PERFWIND_ATTR_BUILD_ID);
	return opens(&attr);
}

static bool have_inherit_thread(void)
{
	struct perf_event_attr attr = dummy();

	attr.inherit = 1;
	perf_attr_set_flags(&attr, PERFWIND_ATTR_INHERIT_THREAD);
	return opens(&attr);
}

static bool have_format_lost(void)
{
	struct perf_event_attr attr = dummy();

	attr.read_format = PERFWIND_FORMAT_LOST;
	return opens(&attr);
}

static bool have_inherit_read(void)
{
	struct perf_event_attr attr = dummy();

	attr.inherit = 1;
	attr.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_READ;
	return opens(&attr);
}

static bool have_procmap_query(void)
{
	_cleanup_(fd_closep) int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	struct procmap_query_probe query = {
		.size = sizeof(query),
		.query_flags = PROCMAP_COVERING_OR_NEXT,
	};

	return fd >= 0 && ioctl(fd, PROCMAP_QUERY_PROBE, &query) == 0;
}

static bool have_ksymbol(void)
{
	struct perf_event_attr attr = dummy();

	attr.ksymbol = 1;
	return opens(&attr);
}

static bool have_pidfd(void)
{
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	if (fd < 0)
		return false;
	fd_close(fd);
	return true;
}

static bool have_peer_pidfd(void)
{
	int pair[2], pidfd = -1;
	socklen_t len = sizeof(pidfd);
	bool has;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return false;
	has = getsockopt(pair[0], SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) == 0;
	fd_close(pidfd);
	fd_close(pair[0]);
	fd_close(pair[1]);
	return has;
}

/* landlock_create_ruleset(LANDLOCK_CREATE_RULESET_VERSION) of linux/landlock.h, by the number that all machines have. */
static bool have_landlock(void)
{
	return syscall(444, NULL, 0, 1) >= 1;
}

/* Clears what PERFWIND_WITHOUT names. */
static int without(const char *text, bool ret_wanted[FEATURE_COUNT], char *error, size_t error_size)
{
	while (*text) {
		size_t len = strcspn(text, ",");
		bool found = len == 0;

		for (enum feature f = 0; f < FEATURE_COUNT; f++) {
			const char *name = feature_name(f);

			if ((len == strlen(name) && memcmp(text, name, len) == 0) ||
			    (len == 3 && memcmp(text, "all", 3) == 0)) {
				ret_wanted[f] = false;
				found = true;
			}
		}
		if (!found) {
			size_t at = (size_t)snprintf(
				error, error_size, "PERFWIND_WITHOUT names '%.*s'; there are: all",
				(int)min_u64(len, 64), text);

			for (enum feature f = 0; f < FEATURE_COUNT && at < error_size; f++)
				at += (size_t)snprintf(error + at, error_size - at, " %s",
						       feature_name(f));
			return fail(-EINVAL);
		}
		text += len;
		text += *text == ',';
	}
	return 0;
}

int probe_features(struct features *ret_features, char *error, size_t error_size)
{
	static bool (*const probes[FEATURE_COUNT])(void) = {
		[FEATURE_BUILD_ID] = have_build_id,
		[FEATURE_INHERIT_THREAD] = have_inherit_thread,
		[FEATURE_FORMAT_LOST] = have_format_lost,
		[FEATURE_INHERIT_READ] = have_inherit_read,
		[FEATURE_PROCMAP_QUERY] = have_procmap_query,
		[FEATURE_KSYMBOL] = have_ksymbol,
		[FEATURE_PIDFD] = have_pidfd,
		[FEATURE_PEER_PIDFD] = have_peer_pidfd,
		[FEATURE_LANDLOCK] = have_landlock,
	};
	const char *text = secure_getenv("PERFWIND_WITHOUT");
	bool wanted[FEATURE_COUNT];
	int r;

	for (enum feature f = 0; f < FEATURE_COUNT; f++)
		wanted[f] = true;
	r = text ? without(text, wanted, error, error_size) : 0;
	if (r < 0)
		return trace(r);
	for (enum feature f = 0; f < FEATURE_COUNT; f++) {
		ret_features->has[f] = wanted[f] && (!probes[f] || probes[f]());
		if (probes[f])
			log_verbose("kernel: %s", feature_words(f, ret_features->has[f]));
	}
	return 0;
}

void probe_bpf(struct features *features)
{
	/* Its maps are charged to the memory cgroup, rings of events are not. */
	features->has[FEATURE_BPF] =
		features->has[FEATURE_BPF] && memory_left("") >= BPF_NEEDS && bpf_try() >= 0;
	log_verbose("kernel: %s", feature_words(FEATURE_BPF, features->has[FEATURE_BPF]));
}
