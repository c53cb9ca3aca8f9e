/* gate.c - see gate.h. */
#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "perf/attr.h"
#include "perf/gate.h"

int64_t gate_sysctl(const char *name, int64_t fallback)
{
	_cleanup_(freep) char *text = NULL;
	bool negative;
	char path[128];
	uint64_t value;

	(void)snprintf(path, sizeof(path), "/proc/sys/kernel/%s", name);
	if (read_file(path, 64, &text, NULL) < 0)
		return fallback;
	text[strcspn(text, "\n")] = 0;
	negative = text[0] == '-';
	if (parse_u64(text + negative, 10, INT32_MAX, &value) < 0)
		return fallback;
	return negative ? -(int64_t)value : (int64_t)value;
}

/* Would the same event open with the monotonic clock? */
static bool is_clock(const struct gate_case *refused)
{
	struct perf_options options = *refused->options;
	struct perf_event_attr attr;
	int fd;

	if (options.clock == CLOCK_MONOTONIC || options.clock == CLOCK_MONOTONIC_RAW)
		return false;
	options.clock = CLOCK_MONOTONIC;
	options.leader = *refused->spec;
	options.leader.precise_ip = 0;
	options.n_followers = 0;
	attr_leader(&options, 0, &attr);
	fd = perf_event_open(&attr, refused->tid, (int)options.cpus[0], -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return false;
	fd_close(fd);
	return true;
}

static bool has_capability(int capability)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};

	return syscall(SYS_capget, &header, data) == 0 &&
	       data[CAP_TO_INDEX(capability)].effective & CAP_TO_MASK(capability);
}

/* Own user code may be profiled by all at 2.  Debian, Ubuntu and Android have added 3 and 4, where their
 * patch asks for CAP_SYS_ADMIN: CAP_PERFMON does not do.  Else the kernel's own gate is open, and the
 * refusal is a security module's (SELinux: perf_event { open }). */
static enum perf_gate explain_closed(char *error, size_t size)
{
	int64_t paranoid = gate_sysctl("perf_event_paranoid", INT32_MAX);

	if (paranoid <= 2 || has_capability(CAP_SYS_ADMIN)) {
		(void)snprintf(error, size,
			       "perf_event_open is refused by a security module (SELinux, "
			       "AppArmor) or a filter: "
			       "allow perf_event to this program in its policy; what it refused "
			       "stands in its log "
			       "(ausearch -m avc, dmesg)");
		return PERF_GATE_MODULE;
	}
	(void)snprintf(error, size,
		       "profiling is closed %s on this machine (perf_event_paranoid = %d): "
		       "run as root, or: "
		       "sudo sysctl kernel.perf_event_paranoid=2",
		       has_capability(CAP_PERFMON) ? "even to CAP_PERFMON" : "to users",
		       (int)gate_sysctl("perf_event_paranoid", 3));
	return PERF_GATE_PARANOID;
}

/* EPERM, or ENOSYS of a kernel that has the call. */
static enum perf_gate explain_filter(char *error, size_t size)
{
	(void)snprintf(error, size,
		       "perf_event_open is refused by a filter (seccomp), as in a container: start "
		       "it with --cap-add PERFMON --security-opt seccomp=unconfined, or run on the "
		       "host");
	return PERF_GATE_SECCOMP;
}

static enum perf_gate explain_permission(const struct gate_case *refused, char *error, size_t size)
{
	int paranoid = (int)gate_sysctl("perf_event_paranoid", 2);
	const struct perf_spec *spec = refused->spec;
	int harmless = perf_event_try(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY);

	if (harmless == -EPERM)
		return explain_filter(error, size);
	if (harmless == -EACCES)
		return explain_closed(error, size);
	if (spec->tracepoint[0] || spec->probe_path || spec->type == PERF_TYPE_TRACEPOINT) {
		(void)snprintf(error, size,
			       "'%s': tracepoints and probes are not permitted to this user "
			       "(perf_event_paranoid = %d): run as root",
			       spec->name, paranoid);
		return PERF_GATE_PARANOID;
	}
	if (refused->tid < 0) {
		(void)snprintf(error, size,
			       "profiling the whole machine is not permitted (perf_event_paranoid "
			       "= %d): run as "
			       "root, or: sudo sysctl kernel.perf_event_paranoid=0; own programs "
			       "need neither",
			       paranoid);
		return PERF_GATE_PARANOID;
	}
	if (!spec->exclude_kernel && paranoid > 1) {
		(void)snprintf(error, size,
			       "'%s' happens in the kernel, which is not permitted "
			       "(perf_event_paranoid = %d): run "
			       "as root, or: sudo sysctl kernel.perf_event_paranoid=1",
			       spec->name, paranoid);
		return PERF_GATE_PARANOID;
	}
	(void)snprintf(error, size,
		       "process %d may not be profiled by this user: it is another user's or "
		       "protects itself: "
		       "run as root",
		       (int)refused->tid);
	return PERF_GATE_PTRACE;
}

static enum perf_gate explain_absent(const struct gate_case *refused, char *error, size_t size)
{
	const struct perf_spec *spec = refused->spec;

	if (spec->probe_path)
		(void)snprintf(error, size, "'%s': the kernel cannot place this probe (%s)",
			       spec->name, strerror(-refused->error));
	else
		(void)snprintf(error, size, "this machine has no counter for '%s'%s", spec->name,
			       spec->type == PERF_TYPE_HARDWARE ||
					       spec->type == PERF_TYPE_HW_CACHE ||
					       spec->type == PERF_TYPE_RAW
				       ? " (virtual machines often have none): use cpu-clock"
				       : " that can be sampled");
	return PERF_GATE_NO_EVENT;
}

static enum perf_gate explain_invalid(const struct gate_case *refused, char *error, size_t size)
{
	const struct perf_spec *spec = refused->spec;

	if (is_clock(refused)) {
		(void)snprintf(error, size,
			       "'%s' cannot be stamped with this clock (its interrupt may come at "
			       "any moment): "
			       "use monotonic or monotonic_raw",
			       spec->name);
		return PERF_GATE_OTHER;
	}
	(void)snprintf(error, size, "the kernel refuses '%s' as it was asked for: %s", spec->name,
		       strerror(-refused->error));
	return PERF_GATE_OTHER;
}

enum perf_gate gate_explain(const struct gate_case *refused, char *error, size_t size)
{
	switch (-refused->error) {
	case EACCES:
	case EPERM:
		return explain_permission(refused, error, size);
	case ENOENT:
	case ENODEV:
	case ENXIO:
	case EOPNOTSUPP:
		return explain_absent(refused, error, size);
	case EMFILE:
	case ENFILE:
		(void)snprintf(error, size,
			       "too few file descriptors (one a thread, CPU and event): raise the "
			       "limit with "
			       "ulimit -n, or profile the whole machine");
		return PERF_GATE_FILES;
	case ESRCH:
		(void)snprintf(error, size, "there is no process %d (any more)", (int)refused->tid);
		return PERF_GATE_GONE;
	case ENOSYS:
		if (gate_sysctl("perf_event_paranoid", INT32_MAX) != INT32_MAX)
			return explain_filter(error, size);
		(void)snprintf(error, size, "this kernel has no perf events (CONFIG_PERF_EVENTS)");
		return PERF_GATE_OTHER;
	case EBUSY:
		(void)snprintf(error, size, "the counter for '%s' is in use by another profiler",
			       refused->spec->name);
		return PERF_GATE_OTHER;
	default:
		return explain_invalid(refused, error, size);
	}
}

bool gate_frequency_allowed(const struct perf_options *options, char *error, size_t error_size)
{
	int64_t limit = gate_sysctl("perf_event_max_sample_rate", INT64_MAX);

	if (options->frequency <= (uint64_t)limit)
		return true;
	(void)snprintf(error, error_size,
		       "%llu samples a second is above the kernel's limit of %lld: ask for less, "
		       "or: sudo sysctl "
		       "kernel.perf_event_max_sample_rate=%llu",
		       (unsigned long long)options->frequency, (long long)limit,
		       (unsigned long long)options->frequency);
	return false;
}
