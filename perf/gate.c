/* gate.c - see gate.h. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/error.h"
#include "perf/attr.h"
#include "perf/gate.h"

/* ---- the table ---- */

#define PARANOID "kernel.perf_event_paranoid"
#define CLOSED_HINT "sudo sysctl " PARANOID "=2"
#define AUDIT "sudo ausearch -m avc -ts recent"

/* Formats of gate_text()'s numbers, in their order. */
static const struct {
	const char *cause, *hint, *brief;
} rows[GATE_ROWS] = {
	[GATE_NO_PERF_EVENTS] = {"this kernel was built without perf events",
				 "a kernel with CONFIG_PERF_EVENTS", NULL},
	[GATE_FILTER] = {"a seccomp filter refuses perf_event_open (common in containers)",
			 "docker run --cap-add PERFMON --security-opt seccomp=unconfined ...",
			 NULL},
	[GATE_MODULE] =
		{"a security module (SELinux, AppArmor) or a filter refuses perf_event_open",
		 AUDIT ", or dmesg; allow perf_event to perfwind", NULL},
	[GATE_CLOSED] = {"profiling is closed to users (" PARANOID " = %1$ld)", CLOSED_HINT, NULL},
	[GATE_CLOSED_PERFMON] = {"profiling is closed even to CAP_PERFMON (" PARANOID " = %1$ld)",
				 CLOSED_HINT, NULL},
	[GATE_KERNEL] = {"kernel not permitted (" PARANOID " = %1$ld)",
			 "sudo sysctl " PARANOID "=1", "no kernel frames"},
	[GATE_KERNEL_MODULE] = {"kernel not permitted by a security module or lockdown",
				"cat /sys/kernel/security/lockdown; " AUDIT, "no kernel frames"},
	[GATE_MACHINE] = {"the whole machine may not be sampled (" PARANOID " = %1$ld)",
			  "sudo sysctl " PARANOID "=0", NULL},
	[GATE_MACHINE_MODULE] = {"a security module refuses to sample the whole machine",
				 AUDIT "; allow perf_event { cpu } to perfwind", NULL},
	[GATE_PID_NAMESPACE] = {"this container has its own pid namespace: processes outside of it "
				"are not recorded",
				"docker run --pid=host ..., or run perfwind on the host",
				"no processes outside of the container"},
	[GATE_OTHERS] = {"other users' processes cannot be read (no CAP_SYS_PTRACE)",
			 "sudo perfwind record -p PID", NULL},
	[GATE_PROTECTED] =
		{"processes of all users can be read, except some that a security module or a "
		 "sandbox (Landlock) protects, as process 1",
		 "run perfwind outside of the sandbox; " AUDIT, NULL},
	[GATE_TRACEPOINTS] = {"tracepoints and probes are not permitted to this user (" PARANOID
			      " = %1$ld)",
			      "run as root", NULL},
	[GATE_TRACEFS] = {"tracefs or its events are closed to this user", "run as root", NULL},
	[GATE_TRACEFS_MOUNT] = {"tracefs is not mounted",
				"sudo mount -t tracefs nodev /sys/kernel/tracing", NULL},
	[GATE_CYCLES] =
		{GATE_CYCLES_CAUSE,
		 "on its host (KVM): -cpu host,pmu=on; in a cloud: a type of machine with a PMU",
		 "cpu-clock instead of cycles"},
	[GATE_RINGS] = {"rings of %1$ld KiB a CPU instead of %2$ld (limit of locked memory)",
			"sudo sysctl kernel.perf_event_mlock_kb=65536", "small rings"},
	[GATE_NO_RINGS] = {"not even the smallest rings fit into the limit of locked memory",
			   "sudo sysctl kernel.perf_event_mlock_kb=2048", NULL},
	[GATE_FILES] =
		{"too few file descriptors (one a thread, CPU and event)",
		 "ulimit -Hn %1$ld (as root, or in /etc/security/limits.conf), or record the "
		 "whole machine (-a)",
		 NULL},
	[GATE_RATE] = {"%1$ld samples a second are above the kernel's limit of %2$ld",
		       "sudo sysctl kernel.perf_event_max_sample_rate=%1$ld", NULL},
};

struct gate_text gate_text(enum gate_row row, int64_t value, int64_t limit)
{
	struct gate_text text;

	(void)snprintf(text.cause, sizeof(text.cause), rows[row].cause, value, limit);
	(void)snprintf(text.hint, sizeof(text.hint), rows[row].hint, value, limit);
	return text;
}

const char *gate_brief(enum gate_row row)
{
	return rows[row].brief;
}

/* kernel/ksyms_common.c: at kptr_restrict 0 they are shown to users with permission to sample the kernel, and as at 1 to
 * CAP_SYSLOG; at 2 to no user. */
struct gate_text gate_kernel_names(int64_t kptr, int64_t paranoid, bool syslog)
{
	bool closed = paranoid > 1 && !syslog;
	char by_kptr[64] = "", by_paranoid[64] = "";
	struct gate_text text;

	if (kptr < 2 && (syslog || (!kptr && !closed)))
		return (struct gate_text){
			"/proc/kallsyms shows no addresses, although its settings allow it",
			"run perfwind outside of the container or unit that hides it "
			"(ProtectKernelTunables=)"};
	if (kptr)
		(void)snprintf(by_kptr, sizeof(by_kptr), "kernel.kptr_restrict = %ld%s", kptr,
			       closed ? ", " : "");
	if (closed)
		(void)snprintf(by_paranoid, sizeof(by_paranoid), PARANOID " = %ld", paranoid);
	(void)snprintf(text.cause, sizeof(text.cause), "/proc/kallsyms shows no addresses (%s%s%s)",
		       by_kptr, by_paranoid, syslog ? "" : ", no CAP_SYSLOG");
	(void)snprintf(text.hint, sizeof(text.hint), "sudo sysctl%s%s%s",
		       kptr ? " kernel.kptr_restrict=" : "",
		       !kptr	? ""
		       : syslog ? "1"
				: "0",
		       closed ? " " PARANOID "=1" : "");
	return text;
}

/* ---- this machine ---- */

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

/* The numbers of the namespaces that a machine starts with are constants: include/linux/proc_ns.h. */
static bool is_first(const char *namespace, ino_t number)
{
	struct stat st;

	return stat(namespace, &st) < 0 || st.st_ino == number;
}

bool gate_first_pid_namespace(void)
{
	return is_first("/proc/self/ns/pid", 0xeffffffc);
}

bool gate_first_user_namespace(void)
{
	return is_first("/proc/self/ns/user", 0xeffffffd);
}

uint64_t gate_capabilities(void)
{
	struct caps caps;

	return gate_first_user_namespace() && caps_get(&caps) >= 0 ? caps.effective : 0;
}

static bool has_capability(int capability)
{
	return gate_capabilities() & CAPS_BIT(capability);
}

/* As perf_mmap() of kernel/events/core.c: of the user for each CPU that is online, of the process by its limit. */
uint64_t gate_locked_bytes(void)
{
	int64_t kib = gate_sysctl("perf_event_mlock_kb", 512);
	_cleanup_(freep) uint32_t *online = NULL;
	struct rlimit limit;
	size_t n = 1;

	if (has_capability(CAP_IPC_LOCK) || gate_sysctl("perf_event_paranoid", 2) < 0 ||
	    getrlimit(RLIMIT_MEMLOCK, &limit) < 0 || limit.rlim_cur >= UINT64_MAX / 2)
		return UINT64_MAX;
	(void)perf_online_cpus(&online, &n);
	return n * ((uint64_t)(kib > 0 ? kib : 0) << 10) + limit.rlim_cur;
}

struct gate_text gate_own_kernel_names(void)
{
	return gate_kernel_names(gate_sysctl("kptr_restrict", 0),
				 gate_sysctl("perf_event_paranoid", 2), has_capability(CAP_SYSLOG));
}

/* ---- refusals ---- */

/* "@before: cause; hint: hint". */
static enum perf_gate gate_result(const struct gate_text *text, const char *before, char *error,
				  size_t size, enum perf_gate gate)
{
	(void)snprintf(error, size, "%s%s; hint: %s", before, text->cause, text->hint);
	return gate;
}

/* Own user code may be profiled by all at 2.  Debian, Ubuntu and Android have added 3 and 4, where their
 * patch asks for CAP_SYS_ADMIN: CAP_PERFMON does not do.  Else the kernel's own gate is open, and the
 * refusal is a security module's (SELinux: perf_event { open }). */
static enum perf_gate explain_closed(char *error, size_t size)
{
	int64_t paranoid = gate_sysctl("perf_event_paranoid", INT32_MAX);
	struct gate_text text;

	if (paranoid <= 2 || has_capability(CAP_SYS_ADMIN)) {
		text = gate_text(GATE_MODULE, 0, 0);
		return gate_result(&text, "", error, size, PERF_GATE_MODULE);
	}
	text = gate_text(has_capability(CAP_PERFMON) ? GATE_CLOSED_PERFMON : GATE_CLOSED, paranoid,
			 0);
	return gate_result(&text, "", error, size, PERF_GATE_PARANOID);
}

/* EPERM, or ENOSYS of a kernel that has the call. */
static enum perf_gate explain_filter(char *error, size_t size)
{
	struct gate_text text;

	text = gate_text(GATE_FILTER, 0, 0);
	return gate_result(&text, "", error, size, PERF_GATE_SECCOMP);
}

/* Is perf_event_paranoid above @level, and counts for this process? */
static bool is_paranoid(int64_t paranoid, int64_t level)
{
	return paranoid > level && !has_capability(CAP_PERFMON) && !has_capability(CAP_SYS_ADMIN);
}

static enum perf_gate explain_permission(const struct gate_case *refused, char *error, size_t size)
{
	int64_t paranoid = gate_sysctl("perf_event_paranoid", 2);
	const struct perf_spec *spec = refused->spec;
	int harmless = perf_event_try(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY);
	struct gate_text text;
	char before[sizeof(spec->name) + 64];
	bool closed;

	if (harmless == -EPERM)
		return explain_filter(error, size);
	if (harmless == -EACCES)
		return explain_closed(error, size);
	if (spec->tracepoint[0] || spec->probe_path || spec->type == PERF_TYPE_TRACEPOINT) {
		(void)snprintf(before, sizeof(before), "'%s': ", spec->name);
		text = gate_text(GATE_TRACEPOINTS, paranoid, 0);
		return gate_result(&text, before, error, size, PERF_GATE_PARANOID);
	}
	if (refused->tid < 0) {
		closed = is_paranoid(paranoid, 0);
		text = gate_text(closed ? GATE_MACHINE : GATE_MACHINE_MODULE, paranoid, 0);
		return gate_result(&text, "", error, size,
				   closed ? PERF_GATE_PARANOID : PERF_GATE_MODULE);
	}
	if (spec->code & FRAMES_KERNEL && paranoid > 1) {
		(void)snprintf(before, sizeof(before), "'%s' happens in the kernel: ", spec->name);
		text = gate_text(GATE_KERNEL, paranoid, 0);
		return gate_result(&text, before, error, size, PERF_GATE_PARANOID);
	}
	text = gate_text(GATE_OTHERS, 0, 0);
	(void)snprintf(error, size,
		       "process %d may not be profiled by this user: it is another user's or "
		       "protects itself; hint: %s",
		       (int)refused->tid, text.hint);
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

/* A limit that most recordings have enough with is no hint to one that has it. */
static struct gate_text too_few_files(void)
{
	struct gate_text text = gate_text(GATE_FILES, GATE_FILES_ENOUGH, 0);
	struct rlimit limit = {0};

	(void)getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_max >= GATE_FILES_ENOUGH)
		(void)snprintf(text.hint, sizeof(text.hint),
			       "record the whole machine (-a), or fewer threads");
	return text;
}

enum perf_gate gate_explain(const struct gate_case *refused, char *error, size_t size)
{
	struct gate_text text;

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
		text = too_few_files();
		return gate_result(&text, "", error, size, PERF_GATE_FILES);
	case ESRCH:
		(void)snprintf(error, size, "there is no process %d (any more)", (int)refused->tid);
		return PERF_GATE_GONE;
	case ENOSYS:
		if (gate_sysctl("perf_event_paranoid", INT32_MAX) != INT32_MAX)
			return explain_filter(error, size);
		text = gate_text(GATE_NO_PERF_EVENTS, 0, 0);
		return gate_result(&text, "", error, size, PERF_GATE_OTHER);
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

	struct gate_text text;

	if (options->frequency <= (uint64_t)limit)
		return true;
	text = gate_text(GATE_RATE, (int64_t)min_u64(options->frequency, INT64_MAX), limit);
	if (limit >= GATE_MOST_HZ)
		(void)snprintf(error, error_size,
			       "%s; hint: -F max is the most that leaves programs time",
			       text.cause);
	else
		(void)snprintf(error, error_size, "%s; hint: %s, or -F max", text.cause, text.hint);
	return false;
}
