/* cmd-doctor.c - perfwind doctor: what can be seen here, what it costs where it cannot, and the hint.
 * Thread: main.  Its exit status indicates whether a default recording works.
 *
 * Facts are found by trying, where that can be, else by reading: events are opened on ourselves or on the first CPU and closed at
 * once; nothing is left changed.  Then each gate is judged: what the facts mean, what it costs, and what to type. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/error.h"
#include "base/peer.h"
#include "cli/cmd-doctor.h"
#include "cli/command.h"
#include "cli/common-options.h"
#include "daemon/control/control-protocol.h"
#include "perf/gate.h"
#include "perf/probe.h"
#include "perf/spec.h"
#include "perf/uapi.h"
#include "profile/profile-text.h"
#include "session/session.h"

/* ---- facts ---- */

enum {
	SECCOMP_FILTER = 2,
	STACK_BYTES = 65528,
};

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

/* As a default recording has them, by its own code: what is locked counts for all rings together. */
static void look_at_rings(struct doctor_facts *f)
{
	struct perf_options options = {
		.leader = {.name = "cpu-clock",
			   .type = PERF_TYPE_SOFTWARE,
			   .config = PERF_COUNT_SW_CPU_CLOCK,
			   .weight = PERF_WEIGHT_TIME,
			   .code = FRAMES_USER},
		.frequency = min_u64(999, f->max_rate),
		.stack_bytes = STACK_BYTES,
		.clock = CLOCK_MONOTONIC,
		.tasks = true,
		.features = f->features,
	};
	_cleanup_(freep) uint32_t *cpus = NULL;
	struct perf_source *source = NULL;
	struct perf_counts counts;
	enum perf_gate gate;
	char error[256];

	if (perf_online_cpus(&cpus, &options.n_cpus) < 0)
		return;
	options.cpus = cpus;
	options.ring_bytes = f->ring_wanted = session_ring_of_tasks(options.frequency);
	if (perf_source_new(&options, &source, &gate, error, sizeof(error)) >= 0 &&
	    perf_source_add_task(source, (pid_t)syscall(SYS_gettid), &gate, error, sizeof(error)) ==
		    0)
		f->ring_bytes = perf_source_options(source)->ring_bytes;
	/* The limit of all rings, which many CPUs share, is perfwind's own. */
	if (f->ring_bytes && perf_source_counts(source, &counts) == 0 && !counts.small_rings)
		f->ring_wanted = f->ring_bytes;
	(void)perf_source_free(source);
}

static void look_at_rights(struct doctor_facts *f)
{
	uint64_t has = gate_capabilities();

	f->root = geteuid() == 0 && !f->user_namespace;
	f->cap_admin = has & CAPS_BIT(CAP_SYS_ADMIN);
	f->cap_perfmon = has & (CAPS_BIT(CAP_PERFMON) | CAPS_BIT(CAP_SYS_ADMIN));
	f->cap_ptrace = has & CAPS_BIT(CAP_SYS_PTRACE);
	f->cap_syslog = has & CAPS_BIT(CAP_SYSLOG);
	f->cap_ipc_lock = has & CAPS_BIT(CAP_IPC_LOCK);
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
	const struct perf_spec_env env = {.root = ""};
	struct perf_spec spec;
	char error[256];
	int r = perf_spec_of_tracepoint(&env, "sched:sched_switch", &spec, error, sizeof(error));

	if (r < 0)
		return r;
	r = try_event(spec.type, spec.config, true, false);
	perf_spec_deinit(&spec);
	return r;
}

static bool listens(const char *path, bool *ret_outside)
{
	_cleanup_(fd_closep) int fd = -1;
	struct ucred listener = {0};
	bool listens = unix_connect(path, SOCK_NONBLOCK, 0, &listener, &fd) >= 0;

	/* A process that has no id here is 0 (pid_namespaces(7)). */
	*ret_outside = listens && listener.pid == 0;
	return listens;
}

/* As the daemon would judge us: by the kernel's data about the other end of the socket. */
static void look_at_policy(struct doctor_facts *f)
{
	struct settings settings = settings_default;
	struct policy policy;
	struct policy_requester self;
	const struct passwd *pw = getpwuid(geteuid());
	const struct group *gr;
	int pair[2];

	(void)snprintf(f->user, sizeof(f->user), "%s", pw ? pw->pw_name : "USER");
	if (f->user_namespace) {
		(void)snprintf(f->settings_error, sizeof(f->settings_error),
			       "to a daemon outside of this user namespace you are another user");
		return;
	}
	if (settings_read(NULL, &settings, f->settings_error, sizeof(f->settings_error)) < 0)
		return;
	policy_of(&settings, &policy);
	gr = policy.all.n_groups ? getgrgid(policy.all.groups[0]) : NULL;
	(void)snprintf(f->group, sizeof(f->group), "%s", gr ? gr->gr_name : "");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return;
	if (policy_requester_of(pair[0], &self) >= 0) {
		f->scope = policy_scope(&policy, &self);
		policy_requester_deinit(&self);
	}
	fd_close(pair[0]);
	fd_close(pair[1]);
}

/* The check is that of ptrace (ptrace_may_access() in kernel/ptrace.c), which security modules take part in. */
static int read_first_process(void)
{
	_cleanup_(fd_closep) int fd = open("/proc/1/mem", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : 0;
}

/* Where systemd looks for what is installed: systemd.unit(5). */
static bool has_units(void)
{
	static const char *const folders[] = {"/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"};

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		char path[128];

		(void)snprintf(path, sizeof(path), "%s/systemd/system/perfwind-control.socket",
			       folders[i]);
		if (access(path, F_OK) == 0)
			return true;
	}
	return false;
}

void doctor_look(const char *control_socket, struct doctor_facts *f)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	struct rlimit limit = {0, 0};
	char error[256];

	*f = (struct doctor_facts){
		.pid_namespace = !gate_first_pid_namespace(),
		.user_namespace = !gate_first_user_namespace(),
	};
	look_at_rights(f);
	f->paranoid = (int)gate_sysctl("perf_event_paranoid", INT_MAX);
	f->kptr_restrict = (int)gate_sysctl("kptr_restrict", 0);
	f->ptrace_scope = (int)gate_sysctl("yama/ptrace_scope", -1);
	f->max_rate = (uint64_t)gate_sysctl("perf_event_max_sample_rate", 100000);
	f->own_user = try_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, false, false);
	f->own_kernel = try_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, true, false);
	f->machine = try_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, true, true);
	f->cycles = perf_spec_cycles();
	f->first_process = read_first_process();
	f->tracepoints = tracepoint();
	f->kernel_addresses = kernel_addresses();
	(void)getrlimit(RLIMIT_NOFILE, &limit);
	f->files = limit.rlim_max;
	(void)probe_features(&f->features, error, sizeof(error));
	probe_bpf(&f->features);
	look_at_rings(f);
	f->daemon = listens(control_socket, &f->daemon_outside);
	f->units = access("/run/systemd/system", F_OK) == 0 && has_units();
	errno = 0;
	f->service_user = getpwnam("perfwind") || is_shortage(-errno);
	look_at_policy(f);
	f->debug_files = access("/usr/lib/debug/.build-id", X_OK) == 0;
	f->debuginfod = urls && *urls;
}

/* ---- judgement ---- */

#define SET(member, ...) (void)snprintf(f->member, sizeof(f->member), __VA_ARGS__)

/* A row of the table that recordings use too. */
static void set_gate(struct doctor_finding *f, enum gate_row row, int64_t value, int64_t limit)
{
	struct gate_text text;

	text = gate_text(row, value, limit);
	SET(what, "%s", text.cause);
	SET(hint, "%s", text.hint);
}

static bool by_own_privileges(const struct doctor_facts *d)
{
	return d->own_user == 0 && d->ring_bytes;
}

/* The system call is let through by none, or all but none. */
static bool is_filtered(const struct doctor_facts *d)
{
	return (d->own_user == -EPERM && d->seccomp) ||
	       (d->own_user == -ENOSYS && d->paranoid != INT_MAX);
}

bool doctor_by_daemon(const struct doctor_facts *d)
{
	/* A setting that keeps us out keeps the daemon out too; a filter is ours alone. */
	return !by_own_privileges(d) && is_filtered(d) && d->daemon && d->scope != POLICY_NOTHING &&
	       !*d->settings_error && !d->daemon_outside;
}

bool doctor_can_record(const struct doctor_facts *d)
{
	return by_own_privileges(d) || doctor_by_daemon(d);
}

/* Facts that depend on events are unknown where none can be opened. */
static bool no_events(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->own_user == 0)
		return false;
	f->state = DOCTOR_SHUT;
	SET(what, "unknown while perf_event_open is refused");
	SET(cost, "see own-programs");
	SET(hint, "see own-programs, then run perfwind doctor again");
	return true;
}

static bool judge_own_rings(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->ring_bytes)
		return false;
	f->state = DOCTOR_SHUT;
	set_gate(f, GATE_NO_RINGS, 0, 0);
	return true;
}

static void judge_own_programs(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (by_own_privileges(d)) {
		if (d->cap_perfmon)
			SET(what, "your own programs can be sampled (CAP_PERFMON)");
		else
			SET(what,
			    "your own programs can be sampled (kernel.perf_event_paranoid = %d)",
			    d->paranoid);
		return;
	}
	f->state = doctor_by_daemon(d) ? DOCTOR_PARTLY : DOCTOR_SHUT;
	SET(cost, doctor_by_daemon(d) ? "the daemon records, within its limits for you (see daemon)"
				      : "perfwind cannot record");
	if (d->own_user == 0 && judge_own_rings(d, f))
		return;
	if (d->paranoid == INT_MAX)
		set_gate(f, GATE_NO_PERF_EVENTS, 0, 0);
	else if (is_filtered(d))
		set_gate(f, GATE_FILTER, 0, 0);
	else if (d->paranoid > 2 && !d->cap_admin)
		/* of Debian, Ubuntu, Android: at 3 and more they ask for CAP_SYS_ADMIN */
		set_gate(f, d->cap_perfmon ? GATE_CLOSED_PERFMON : GATE_CLOSED, d->paranoid, 0);
	else
		set_gate(f, GATE_MODULE, 0, 0);
}

/* Not perf_event_paranoid's doing at @level. */
static bool is_module(const struct doctor_facts *d, int level)
{
	return d->paranoid <= level || d->cap_perfmon;
}

static void judge_kernel(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->own_kernel == 0) {
		SET(what, "the time your programs spend in the kernel can be sampled");
		return;
	}
	if (no_events(d, f))
		return;
	f->state = DOCTOR_SHUT;
	SET(cost, "system calls and page faults of your programs are not seen (--user-only)");
	set_gate(f, is_module(d, 1) ? GATE_KERNEL_MODULE : GATE_KERNEL, d->paranoid, 0);
}

static void judge_machine(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->machine == 0 && d->pid_namespace) {
		f->state = DOCTOR_PARTLY;
		set_gate(f, GATE_PID_NAMESPACE, 0, 0);
		SET(cost, "-a cannot distinguish processes outside from the idle task");
		return;
	}
	if (d->machine == 0) {
		SET(what, "the whole machine can be sampled (-a)");
		return;
	}
	if (no_events(d, f))
		return;
	f->state = DOCTOR_SHUT;
	SET(cost, "-a is refused; your own programs do not need it");
	set_gate(f, is_module(d, 0) ? GATE_MACHINE_MODULE : GATE_MACHINE, d->paranoid, 0);
}

static void judge_others(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->cap_ptrace && d->first_process == 0) {
		SET(what, "processes of all users can be sampled and read (CAP_SYS_PTRACE)");
		return;
	}
	if (d->cap_ptrace) {
		f->state = DOCTOR_PARTLY;
		set_gate(f, GATE_PROTECTED, 0, 0);
		SET(cost, "stacks of these processes may lack frames");
		return;
	}
	f->state = DOCTOR_SHUT;
	set_gate(f, GATE_OTHERS, 0, 0);
	SET(cost, d->cap_perfmon ? "Linux before 6.15 shows no stacks of processes that run "
				   "already, except with their consent (perfwind run)"
				 : "-p of another user's process is refused");
}

static void judge_hardware(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->cycles == 0) {
		SET(what, "hardware counters are available: cycles is the default event");
		return;
	}
	if (no_events(d, f))
		return;
	f->state = DOCTOR_PARTLY;
	SET(cost,
	    "perfwind samples by cpu-clock, a timer: code with interrupts off is sampled late");
	if (d->cycles == -ENOENT || d->cycles == -EOPNOTSUPP || d->cycles == -ENODEV) {
		set_gate(f, GATE_CYCLES, 0, 0);
	} else {
		SET(what, "hardware counters are refused: %s", strerror(-d->cycles));
		SET(hint, "sudo perfwind record ...");
	}
}

static void judge_tracepoints(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->tracepoints == 0) {
		SET(what, "tracepoints can be sampled (-e sched:sched_switch)");
		return;
	}
	f->state = DOCTOR_SHUT;
	SET(cost, "-e GROUP:NAME is refused");
	if (d->tracepoints == -ENOENT) {
		set_gate(f, GATE_TRACEFS_MOUNT, 0, 0);
	} else if (!no_events(d, f)) {
		set_gate(f, GATE_TRACEFS, 0, 0);
	}
}

static void judge_kernel_names(const struct doctor_facts *d, struct doctor_finding *f)
{
	struct gate_text text;

	if (d->kernel_addresses) {
		SET(what, "kernel functions have names (/proc/kallsyms shows addresses)");
		return;
	}
	f->state = DOCTOR_SHUT;
	SET(cost, "kernel frames are in the trace without names");
	text = gate_kernel_names(d->kptr_restrict, d->paranoid, d->cap_syslog);
	SET(what, "%s", text.cause);
	SET(hint, "%s", text.hint);
}

static void judge_capabilities(const struct doctor_facts *d, struct doctor_finding *f)
{
	const struct {
		const char *name;
		bool has;
	} caps[] = {{"PERFMON", d->cap_perfmon},
		    {"SYS_PTRACE", d->cap_ptrace},
		    {"SYSLOG", d->cap_syslog},
		    {"IPC_LOCK", d->cap_ipc_lock}};
	char has[64] = "", lacks[64] = "";

	for (size_t i = 0; i < ARRAY_SIZE(caps); i++) {
		char *to = caps[i].has ? has : lacks;
		size_t len = strlen(to);

		(void)snprintf(to + len, sizeof(has) - len, " %s", caps[i].name);
	}
	SET(what, "held:%s; not held:%s", *has ? has : " none", *lacks ? lacks : " none");
	if (!*lacks)
		return;
	f->state = *has ? DOCTOR_PARTLY : DOCTOR_SHUT;
	if (d->user_namespace)
		SET(what, "capabilities of a user namespace do not count for the machine");
	SET(cost, "you have the access of an ordinary user, as the settings above allow");
	SET(hint, d->user_namespace ? "run perfwind outside of the user namespace"
				    : "sudo perfwind record ...");
}

static void judge_seccomp(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (is_filtered(d)) {
		f->state = DOCTOR_SHUT;
		set_gate(f, GATE_FILTER, 0, 0);
		SET(cost, "perfwind cannot record inside this filter");
		return;
	}
	SET(what, d->seccomp ? "a filter of system calls is active and allows perf_event_open"
			     : "no filter of system calls");
}

static void judge_ptrace(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->ptrace_scope <= 0 || (d->cap_ptrace && d->ptrace_scope < 3)) {
		/* What else limits reading is a matter of the gate `others`. */
		if (d->ptrace_scope < 0)
			SET(what, "the security module Yama is not active: it limits no reading of "
				  "memory");
		else
			SET(what,
			    "kernel.yama.ptrace_scope = %d does not limit reading of memory%s",
			    d->ptrace_scope, d->ptrace_scope ? " by CAP_SYS_PTRACE" : "");
		return;
	}
	f->state = d->ptrace_scope == 1 ? DOCTOR_PARTLY : DOCTOR_SHUT;
	SET(what, "kernel.yama.ptrace_scope = %d: memory of %s can be read", d->ptrace_scope,
	    d->ptrace_scope == 1 ? "programs that perfwind starts" : "no process");
	SET(cost, "with -p, stacks deeper than the copy are cut, and frames in code without a file "
		  "are guessed");
	if (d->ptrace_scope == 3)
		SET(hint, "reboot with kernel.yama.ptrace_scope below 3 (3 cannot be lowered)");
	else
		SET(hint, "sudo sysctl kernel.yama.ptrace_scope=0");
}

static void judge_rings(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (no_events(d, f))
		return;
	if (d->ring_bytes >= d->ring_wanted) {
		SET(what, "rings of %lu KiB a CPU are possible", d->ring_wanted >> 10);
		return;
	}
	f->state = d->ring_bytes ? DOCTOR_PARTLY : DOCTOR_SHUT;
	set_gate(f, GATE_RINGS, (int64_t)d->ring_bytes >> 10, (int64_t)d->ring_wanted >> 10);
	SET(cost, "samples can get lost at high rates with large stacks; losses are counted");
}

static void judge_files(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->files < GATE_FILES_ENOUGH) {
		f->state = DOCTOR_PARTLY;
		set_gate(f, GATE_FILES, GATE_FILES_ENOUGH, 0);
		SET(cost, "a process with more than about %lu threads needs events of whole CPUs",
		    d->files / 8);
	}
	SET(what, "%lu descriptors", d->files);
}

static void judge_rate(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->max_rate < 4000) {
		f->state = DOCTOR_PARTLY;
		set_gate(f, GATE_RATE, 100000, (int64_t)d->max_rate);
		SET(cost, "-F above it is refused");
	}
	SET(what, "up to %lu samples a second and CPU", d->max_rate);
}

static void judge_facilities(const struct doctor_facts *d, struct doctor_finding *f)
{
	size_t n = 0;

	if (no_events(d, f))
		return;
	for (int i = 0; i < FEATURE_COUNT; i++) {
		/* No newer kernel brings BPF to a user without its privileges. */
		if (d->features.has[i] || i == FEATURE_BPF || n >= sizeof(f->cost) - 32)
			continue;
		n += (size_t)snprintf(f->cost + n, sizeof(f->cost) - n, "%s%s",
				      n ? ", " : "fallbacks in use: ", feature_name(i));
	}
	SET(what,
	    n ? "the kernel lacks some newer facilities" : "all newer facilities are available");
	f->state = n ? DOCTOR_PARTLY : DOCTOR_OPEN;
	if (n)
		SET(hint, "none needed; Linux 6.13 has all facilities");
}

static void judge_bpf(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (no_events(d, f))
		return;
	SET(what, d->features.has[FEATURE_BPF]
			  ? "BPF programs are permitted: stacks deeper than "
			    "64 KiB and frames of interpreters are copied at the "
			    "sample"
			  : "no BPF programs");
	if (d->features.has[FEATURE_BPF])
		return;
	f->state = DOCTOR_PARTLY;
	SET(cost, "stacks deeper than 64 KiB and frames of interpreters are read from memory "
		  "shortly after the "
		  "sample: some are cut, or guessed");
	SET(hint, d->root ? "none here: the kernel is older than 5.8, or a container refuses bpf()"
			  : "run as root, or with CAP_BPF and CAP_PERFMON");
}

/* Whether and what it records for this user. */
static void judge_policy(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->scope == POLICY_ALL && !*d->settings_error) {
		SET(what, "a perfwind daemon listens: you may record every process and the kernel "
			  "(-a, -p)");
		return;
	}
	f->state = DOCTOR_PARTLY;
	if (*d->settings_error) {
		SET(what, "a perfwind daemon listens; its permissions for you are unknown: %s",
		    d->settings_error);
		SET(cost, "a recording by the daemon may be refused, with the reason");
		SET(hint, "perfwind record --daemon -a -d 1");
		return;
	}
	SET(what, "a perfwind daemon listens: %s",
	    d->scope == POLICY_OWN
		    ? "you may record your own processes, user code only (-a: all your processes)"
		    : "it records nothing for you (own-processes = no in " SETTINGS_FILE ")");
	SET(cost, "other users' processes and the kernel are not shown to you");
	if (*d->group)
		SET(hint, "sudo usermod -aG %s %s, and log in again", d->group, d->user);
	else
		SET(hint, "all-users = %s in " SETTINGS_FILE ", then: sudo kill -HUP its daemon",
		    d->user);
}

static void judge_daemon(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->daemon) {
		judge_policy(d, f);
		return;
	}
	SET(what, "no perfwind daemon listens: only your own privileges count");
	if (d->root)
		return;
	f->state = DOCTOR_PARTLY;
	SET(cost, "the gates above stay as they are");
	if (d->units)
		SET(hint,
		    "sudo %ssystemctl enable --now perfwind-hook.socket "
		    "perfwind-control.socket",
		    d->service_user ? "" : "systemd-sysusers && sudo ");
	else
		SET(hint, "sudo %sperfwind daemon --user perfwind",
		    d->service_user ? "" : "useradd -r perfwind && sudo ");
}

static void judge_symbols(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->debug_files) {
		SET(what, "separate debug information is installed (/usr/lib/debug)");
		return;
	}
	f->state = DOCTOR_PARTLY;
	SET(what, "no separate debug information is installed (/usr/lib/debug)");
	SET(cost, "only exported functions of stripped binaries have names");
	SET(hint, "install the -dbgsym or -debuginfo package of the profiled program");
}

static void judge_debuginfod(const struct doctor_facts *d, struct doctor_finding *f)
{
	SET(what, d->debuginfod
			  ? "DEBUGINFOD_URLS is set; its servers are asked with --debuginfod only"
			  : "DEBUGINFOD_URLS is not set; perfwind makes no network requests");
	if (!d->debuginfod || d->debug_files)
		return;
	f->state = DOCTOR_PARTLY;
	SET(cost, "debug information of debuginfod is not used for names");
	SET(hint, "perfwind record --debuginfod, or perfwind symbolize --debuginfod FILE");
}

static const struct {
	const char *name;
	void (*judge)(const struct doctor_facts *d, struct doctor_finding *f);
} gates[DOCTOR_GATES] = {
	[DOCTOR_OWN_PROGRAMS] = {"own-programs", judge_own_programs},
	[DOCTOR_KERNEL] = {"kernel", judge_kernel},
	[DOCTOR_MACHINE] = {"machine", judge_machine},
	[DOCTOR_OTHERS] = {"others", judge_others},
	[DOCTOR_HARDWARE] = {"hardware", judge_hardware},
	[DOCTOR_TRACEPOINTS] = {"tracepoints", judge_tracepoints},
	[DOCTOR_KERNEL_NAMES] = {"kernel-names", judge_kernel_names},
	[DOCTOR_CAPABILITIES] = {"capabilities", judge_capabilities},
	[DOCTOR_SECCOMP] = {"seccomp", judge_seccomp},
	[DOCTOR_PTRACE] = {"ptrace", judge_ptrace},
	[DOCTOR_RINGS] = {"rings", judge_rings},
	[DOCTOR_FILES] = {"files", judge_files},
	[DOCTOR_RATE] = {"rate", judge_rate},
	[DOCTOR_FACILITIES] = {"facilities", judge_facilities},
	[DOCTOR_BPF] = {"bpf", judge_bpf},
	[DOCTOR_DAEMON] = {"daemon", judge_daemon},
	[DOCTOR_SYMBOLS] = {"symbols", judge_symbols},
	[DOCTOR_DEBUGINFOD] = {"debuginfod", judge_debuginfod},
};

void doctor_judge(const struct doctor_facts *facts, enum doctor_gate gate, struct doctor_finding *f)
{
	*f = (struct doctor_finding){.name = gates[gate].name, .state = DOCTOR_OPEN};
	gates[gate].judge(facts, f);
}

struct doctor_args {
	bool json;
	const char *socket;
};

#define AT(member) .offset = offsetof(struct doctor_args, member)
static const struct option_def defs[] = {
	OPTION_CONTROL_SOCKET(socket),
	FLAG("json", 0, json, "one JSON object on standard output"),
	{0},
};

static const struct options options = {
	.command = "doctor",
	.usage = "[OPTIONS]",
	.description = "Checks every gate that limits what perfwind can see on this machine, and "
		       "prints a hint for\neach that is not open.  Ends with 0 when `perfwind "
		       "record -- CMD` works, else with 1.",
	.defs = defs,
	.examples =
		"perfwind doctor\n\n"
		"# gates that are not open, for a script\n"
		"perfwind doctor --json | jq -r '.gates[] | select(.state != \"open\") | .hint'",
};

static const char *const states[] = {
	[DOCTOR_OPEN] = "open",
	[DOCTOR_PARTLY] = "partly",
	[DOCTOR_SHUT] = "shut",
};

static void print_text(const struct doctor_facts *facts)
{
	for (int i = 0; i < DOCTOR_GATES; i++) {
		struct doctor_finding f;

		doctor_judge(facts, i, &f);
		printf("%-7s %-13s %s\n", states[f.state], f.name, f.what);
		if (*f.cost)
			printf("%22sso:   %s\n", "", f.cost);
		if (*f.hint)
			printf("%22shint: %s\n", "", f.hint);
	}
	if (doctor_in_container(facts))
		printf("\nThis is a container: set sysctls on its host.\n");
	printf("\n%s\n", doctor_by_daemon(facts)
				 ? "A recording works, by the daemon: perfwind record -- CMD"
			 : doctor_can_record(facts) ? "A recording works: perfwind record -- CMD"
						    : "A recording does not work here yet.");
}

static void print_json(const struct doctor_facts *facts)
{
	printf("{\"works\": %s, \"container\": %s, \"gates\": [",
	       doctor_can_record(facts) ? "true" : "false",
	       doctor_in_container(facts) ? "true" : "false");
	for (int i = 0; i < DOCTOR_GATES; i++) {
		struct doctor_finding f;

		doctor_judge(facts, i, &f);
		printf("%s{\"name\": \"%s\", \"state\": \"%s\"", i ? ", " : "", f.name,
		       states[f.state]);
		text_json_print(stdout, ", \"what\": ", f.what);
		text_json_print(stdout, ", \"cost\": ", f.cost);
		text_json_print(stdout, ", \"hint\": ", f.hint);
		printf("}");
	}
	printf("]}\n");
}

static int doctor_run(int argc, char **argv)
{
	struct doctor_args args = {.socket = CONTROL_SOCKET};
	struct doctor_facts facts;
	int n, r = options_parse(&options, argc, argv, &args, &n);

	if (r)
		return options_exit_status(r);
	doctor_look(args.socket, &facts);
	if (args.json)
		print_json(&facts);
	else
		print_text(&facts);
	return !doctor_can_record(&facts);
}

const struct command command_doctor = {
	.name = "doctor",
	.summary = "what can be seen on this machine, and how to see more",
	.run = doctor_run,
	.options = &options,
};
