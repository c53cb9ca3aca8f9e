/* doctor-look.c - see doctor.h: what can be found out by trying, else by reading.  Thread: main.
 * Events are opened on ourselves or on the first CPU and closed at once; nothing is left changed.
 */
#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/doctor.h"
#include "daemon/perf/gate.h"
#include "daemon/perf/uapi.h"
#include "daemon/probe.h"

enum { SECCOMP_FILTER = 2, RING_WANTED = 16 << 20 };

static int try_event(uint32_t type, uint64_t config, bool kernel, bool machine)
{
	struct perf_event_attr attr = {
		.type = type,
		.size = sizeof(attr),
		.config = config,
		.disabled = 1,
		.exclude_kernel = !kernel,
		.exclude_hv = 1,
	};
	int fd = perf_event_open(&attr, machine ? -1 : 0, machine ? 0 : -1, -1,
				 PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return fd;
	fd_close(fd);
	return 0;
}

/* The largest power of two of pages that one ring may have, up to RING_WANTED. */
static uint64_t largest_ring(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	_cleanup_(fd_closep) int fd = perf_event_open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	for (size_t bytes = RING_WANTED; fd >= 0 && bytes >= page; bytes /= 2) {
		void *ring = mmap(NULL, bytes + page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		if (ring == MAP_FAILED)
			continue;
		(void)munmap(ring, bytes + page);
		return bytes;
	}
	return 0;
}

static void look_at_rights(struct doctor_facts *f)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};

	f->root = geteuid() == 0;
	if (syscall(SYS_capget, &header, data) == 0) {
		uint64_t has = data[0].effective | (uint64_t)data[1].effective << 32;

		f->cap_perfmon = has & (1ull << CAP_PERFMON | 1ull << CAP_SYS_ADMIN);
		f->cap_ptrace = has & (1ull << CAP_SYS_PTRACE);
		f->cap_syslog = has & (1ull << CAP_SYSLOG);
		f->cap_ipc_lock = has & (1ull << CAP_IPC_LOCK);
	}
	f->seccomp = prctl(PR_GET_SECCOMP) == SECCOMP_FILTER;
}

/* Any text symbol will do; without the right all addresses read as 0. */
static bool kernel_addresses(void)
{
	char line[256];
	_cleanup_(file_closep) FILE *f = fopen("/proc/kallsyms", "re");

	for (int i = 0; f && i < 64 && fgets(line, sizeof(line), f); i++)
		if (strtoull(line, NULL, 16))
			return true;
	return false;
}

static int tracepoint(void)
{
	static const char *const roots[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
	int r = -ENOENT;

	for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
		_cleanup_(freep) char *text = NULL;
		char path[128];
		uint64_t id;

		(void)snprintf(path, sizeof(path), "%s/events/sched/sched_switch/id", roots[i]);
		r = read_file(path, 32, &text, NULL);
		if (r < 0)
			continue;
		text[strcspn(text, "\n")] = 0;
		if (parse_u64(text, 10, UINT32_MAX, &id) == 0)
			return try_event(PERF_TYPE_TRACEPOINT, id, true, false);
	}
	return r;
}

static bool listens(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_(fd_closep) int fd = -1;

	if (strlen(path) >= sizeof(address.sun_path))
		return false;
	memcpy(address.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
}

/* Its inode is a constant: PROC_PID_INIT_INO, the kernel's include/linux/proc_ns.h. */
static bool own_pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino != 0xeffffffc;
}

void doctor_look(const char *control_socket, struct doctor_facts *f)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	struct rlimit limit = {0, 0};
	char error[256];

	*f = (struct doctor_facts){.ring_wanted = RING_WANTED};
	look_at_rights(f);
	f->paranoid = (int)gate_sysctl("perf_event_paranoid", INT_MAX);
	f->kptr_restrict = (int)gate_sysctl("kptr_restrict", 0);
	f->ptrace_scope = (int)gate_sysctl("yama/ptrace_scope", -1);
	f->mlock_kb = (uint64_t)gate_sysctl("perf_event_mlock_kb", 516);
	f->max_rate = (uint64_t)gate_sysctl("perf_event_max_sample_rate", 100000);
	f->pid_namespace = own_pid_namespace();
	f->own_user = try_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, false, false);
	f->own_kernel = try_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, true, false);
	f->machine = try_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, true, true);
	f->cycles = try_event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, false, false);
	f->tracepoints = tracepoint();
	f->kernel_addresses = kernel_addresses();
	f->ring_bytes = largest_ring();
	(void)getrlimit(RLIMIT_NOFILE, &limit);
	f->files = limit.rlim_max;
	(void)probe_features(&f->features, error, sizeof(error));
	f->daemon = listens(control_socket);
	f->debug_files = access("/usr/lib/debug/.build-id", X_OK) == 0;
	f->debuginfod = urls && *urls;
}
