/* diagnosis.c - see diagnosis.h: what the facts mean, what it costs, and what to type.  Thread: main. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "cli/diagnosis.h"
#include "perf/gate.h"

#define SAY(member, ...) (void)snprintf(f->member, sizeof(f->member), __VA_ARGS__)

/* A row of the table that recordings use too. */
static void say_gate(struct doctor_finding *f, enum gate_row row, int64_t value, int64_t limit)
{
	struct gate_text text;

	text = gate_text(row, value, limit);
	SAY(what, "%s", text.cause);
	SAY(hint, "%s", text.hint);
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
	SAY(what, "unknown while perf_event_open is refused");
	SAY(cost, "see own-programs");
	SAY(hint, "see own-programs, then run perfwind doctor again");
	return true;
}

static bool judge_own_rings(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->ring_bytes)
		return false;
	f->state = DOCTOR_SHUT;
	say_gate(f, GATE_NO_RINGS, 0, 0);
	return true;
}

static void judge_own_programs(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (by_own_privileges(d)) {
		if (d->cap_perfmon)
			SAY(what, "your own programs can be sampled (CAP_PERFMON)");
		else
			SAY(what,
			    "your own programs can be sampled (kernel.perf_event_paranoid = %d)",
			    d->paranoid);
		return;
	}
	f->state = doctor_by_daemon(d) ? DOCTOR_PARTLY : DOCTOR_SHUT;
	SAY(cost, doctor_by_daemon(d) ? "the daemon records, within its limits for you (see daemon)"
				      : "perfwind cannot record");
	if (d->own_user == 0 && judge_own_rings(d, f))
		return;
	if (d->paranoid == INT_MAX)
		say_gate(f, GATE_NO_PERF_EVENTS, 0, 0);
	else if (is_filtered(d))
		say_gate(f, GATE_FILTER, 0, 0);
	else if (d->paranoid > 2 && !d->cap_admin)
		/* of Debian, Ubuntu, Android: at 3 and more they ask for CAP_SYS_ADMIN */
		say_gate(f, d->cap_perfmon ? GATE_CLOSED_PERFMON : GATE_CLOSED, d->paranoid, 0);
	else
		say_gate(f, GATE_MODULE, 0, 0);
}

/* Not perf_event_paranoid's doing at @level. */
static bool is_module(const struct doctor_facts *d, int level)
{
	return d->paranoid <= level || d->cap_perfmon;
}

static void judge_kernel(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->own_kernel == 0) {
		SAY(what, "the time your programs spend in the kernel can be sampled");
		return;
	}
	if (no_events(d, f))
		return;
	f->state = DOCTOR_SHUT;
	SAY(cost, "system calls and page faults of your programs are not seen (--user-only)");
	say_gate(f, is_module(d, 1) ? GATE_KERNEL_MODULE : GATE_KERNEL, d->paranoid, 0);
}

static void judge_machine(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->machine == 0 && d->pid_namespace) {
		f->state = DOCTOR_PARTLY;
		say_gate(f, GATE_PID_NAMESPACE, 0, 0);
		SAY(cost, "-a cannot distinguish processes outside from the idle task");
		return;
	}
	if (d->machine == 0) {
		SAY(what, "the whole machine can be sampled (-a)");
		return;
	}
	if (no_events(d, f))
		return;
	f->state = DOCTOR_SHUT;
	SAY(cost, "-a is refused; your own programs do not need it");
	say_gate(f, is_module(d, 0) ? GATE_MACHINE_MODULE : GATE_MACHINE, d->paranoid, 0);
}

static void judge_others(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->cap_ptrace && d->first_process == 0) {
		SAY(what, "processes of all users can be sampled and read (CAP_SYS_PTRACE)");
		return;
	}
	if (d->cap_ptrace) {
		f->state = DOCTOR_PARTLY;
		say_gate(f, GATE_PROTECTED, 0, 0);
		SAY(cost, "stacks of these processes may lack frames");
		return;
	}
	f->state = DOCTOR_SHUT;
	say_gate(f, GATE_OTHERS, 0, 0);
	SAY(cost, d->cap_perfmon ? "Linux before 6.15 shows no stacks of processes that run "
				   "already, except with their consent (perfwind run)"
				 : "-p of another user's process is refused");
}

static void judge_hardware(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->cycles == 0) {
		SAY(what, "hardware counters are available: cycles is the default event");
		return;
	}
	if (no_events(d, f))
		return;
	f->state = DOCTOR_PARTLY;
	SAY(cost,
	    "perfwind samples by cpu-clock, a timer: code with interrupts off is sampled late");
	if (d->cycles == -ENOENT || d->cycles == -EOPNOTSUPP || d->cycles == -ENODEV) {
		say_gate(f, GATE_CYCLES, 0, 0);
	} else {
		SAY(what, "hardware counters are refused: %s", strerror(-d->cycles));
		SAY(hint, "sudo perfwind record ...");
	}
}

static void judge_tracepoints(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->tracepoints == 0) {
		SAY(what, "tracepoints can be sampled (-e sched:sched_switch)");
		return;
	}
	f->state = DOCTOR_SHUT;
	SAY(cost, "-e GROUP:NAME is refused");
	if (d->tracepoints == -ENOENT) {
		say_gate(f, GATE_TRACEFS_MOUNT, 0, 0);
	} else if (!no_events(d, f)) {
		say_gate(f, GATE_TRACEFS, 0, 0);
	}
}

static void judge_kernel_names(const struct doctor_facts *d, struct doctor_finding *f)
{
	struct gate_text text;

	if (d->kernel_addresses) {
		SAY(what, "kernel functions have names (/proc/kallsyms shows addresses)");
		return;
	}
	f->state = DOCTOR_SHUT;
	SAY(cost, "kernel frames are in the trace without names");
	text = gate_kernel_names(d->kptr_restrict, d->paranoid, d->cap_syslog);
	SAY(what, "%s", text.cause);
	SAY(hint, "%s", text.hint);
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
	SAY(what, "held:%s; not held:%s", *has ? has : " none", *lacks ? lacks : " none");
	if (!*lacks)
		return;
	f->state = *has ? DOCTOR_PARTLY : DOCTOR_SHUT;
	if (d->user_namespace)
		SAY(what, "capabilities of a user namespace do not count for the machine");
	SAY(cost, "you have the access of an ordinary user, as the settings above allow");
	SAY(hint, d->user_namespace ? "run perfwind outside of the user namespace"
				    : "sudo perfwind record ...");
}

static void judge_seccomp(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (is_filtered(d)) {
		f->state = DOCTOR_SHUT;
		say_gate(f, GATE_FILTER, 0, 0);
		SAY(cost, "perfwind cannot record inside this filter");
		return;
	}
	SAY(what, d->seccomp ? "a filter of system calls is active and allows perf_event_open"
			     : "no filter of system calls");
}

static void judge_ptrace(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->ptrace_scope <= 0 || (d->cap_ptrace && d->ptrace_scope < 3)) {
		SAY(what, "memory of %s can be read%s%s",
		    d->cap_ptrace ? "all processes" : "your own processes",
		    d->cap_ptrace && d->first_process ? ", except protected ones (see others)" : "",
		    d->ptrace_scope < 0 ? "" : " (kernel.yama.ptrace_scope)");
		return;
	}
	f->state = d->ptrace_scope == 1 ? DOCTOR_PARTLY : DOCTOR_SHUT;
	SAY(what, "kernel.yama.ptrace_scope = %d: memory of %s can be read", d->ptrace_scope,
	    d->ptrace_scope == 1 ? "programs that perfwind starts" : "no process");
	SAY(cost, "with -p, stacks deeper than the copy are cut, and frames in code without a file "
		  "are guessed");
	if (d->ptrace_scope == 3)
		SAY(hint, "reboot with kernel.yama.ptrace_scope below 3 (3 cannot be lowered)");
	else
		SAY(hint, "sudo sysctl kernel.yama.ptrace_scope=0");
}

static void judge_rings(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (no_events(d, f))
		return;
	if (d->ring_bytes >= d->ring_wanted) {
		SAY(what, "rings of %lu KiB a CPU are possible", d->ring_wanted >> 10);
		return;
	}
	f->state = d->ring_bytes ? DOCTOR_PARTLY : DOCTOR_SHUT;
	say_gate(f, GATE_RINGS, (int64_t)d->ring_bytes >> 10, (int64_t)d->ring_wanted >> 10);
	SAY(cost, "samples can get lost at high rates with large stacks; losses are counted");
}

static void judge_files(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->files < GATE_FILES_ENOUGH) {
		f->state = DOCTOR_PARTLY;
		say_gate(f, GATE_FILES, GATE_FILES_ENOUGH, 0);
		SAY(cost, "a process with more than about %lu threads needs events of whole CPUs",
		    d->files / 8);
	}
	SAY(what, "%lu descriptors", d->files);
}

static void judge_rate(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->max_rate < 4000) {
		f->state = DOCTOR_PARTLY;
		say_gate(f, GATE_RATE, 100000, (int64_t)d->max_rate);
		SAY(cost, "-F above it is refused");
	}
	SAY(what, "up to %lu samples a second and CPU", d->max_rate);
}

static void judge_facilities(const struct doctor_facts *d, struct doctor_finding *f)
{
	size_t n = 0;

	if (no_events(d, f))
		return;
	for (int i = 0; i < FEATURE_COUNT; i++) {
		/* No newer kernel brings these two. */
		if (d->features.has[i] || i == FEATURE_BPF || i == FEATURE_BUILD_ID_CLEAN ||
		    n >= sizeof(f->cost) - 32)
			continue;
		n += (size_t)snprintf(f->cost + n, sizeof(f->cost) - n, "%s%s",
				      n ? ", " : "fallbacks in use: ", feature_name(i));
	}
	SAY(what,
	    n ? "the kernel lacks some newer facilities" : "all newer facilities are available");
	f->state = n ? DOCTOR_PARTLY : DOCTOR_OPEN;
	if (n)
		SAY(hint, "none needed; Linux 6.13 has all facilities");
}

static void judge_bpf(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (no_events(d, f))
		return;
	SAY(what, d->features.has[FEATURE_BPF]
			  ? "BPF programs are permitted: stacks deeper than "
			    "64 KiB and frames of interpreters are copied at the "
			    "sample"
			  : "no BPF programs");
	if (d->features.has[FEATURE_BPF])
		return;
	f->state = DOCTOR_PARTLY;
	SAY(cost, "stacks deeper than 64 KiB and frames of interpreters are read from memory "
		  "shortly after the "
		  "sample: some are cut, or guessed");
	SAY(hint, d->root ? "none here: the kernel is older than 5.8, or a container refuses bpf()"
			  : "run as root, or with CAP_BPF and CAP_PERFMON");
}

/* Whether and what it records for this user. */
static void judge_policy(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->scope == POLICY_ALL && !*d->settings_error) {
		SAY(what, "a perfwind daemon listens: you may record every process and the kernel "
			  "(-a, -p)");
		return;
	}
	f->state = DOCTOR_PARTLY;
	if (*d->settings_error) {
		SAY(what, "a perfwind daemon listens; its permissions for you are unknown: %s",
		    d->settings_error);
		SAY(cost, "a recording by the daemon may be refused, with the reason");
		SAY(hint, "perfwind record --daemon -a -d 1");
		return;
	}
	SAY(what, "a perfwind daemon listens: %s",
	    d->scope == POLICY_OWN
		    ? "you may record your own processes, user code only (-a: all your processes)"
		    : "it records nothing for you (own-processes = no in " SETTINGS_FILE ")");
	SAY(cost, "other users' processes and the kernel are not shown to you");
	if (*d->group)
		SAY(hint, "sudo usermod -aG %s %s, and log in again", d->group, d->user);
	else
		SAY(hint, "all-users = %s in " SETTINGS_FILE ", then: sudo kill -HUP its daemon",
		    d->user);
}

static void judge_daemon(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->daemon) {
		judge_policy(d, f);
		return;
	}
	SAY(what, "no perfwind daemon listens: only your own privileges count");
	if (d->root)
		return;
	f->state = DOCTOR_PARTLY;
	SAY(cost, "the gates above stay as they are");
	if (d->units)
		SAY(hint,
		    "sudo %ssystemctl enable --now perfwind-hook.socket "
		    "perfwind-control.socket",
		    d->service_user ? "" : "systemd-sysusers && sudo ");
	else
		SAY(hint, "sudo %sperfwind daemon --user perfwind",
		    d->service_user ? "" : "useradd -r perfwind && sudo ");
}

static void judge_symbols(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->debug_files) {
		SAY(what, "separate debug information is installed (/usr/lib/debug)");
		return;
	}
	f->state = DOCTOR_PARTLY;
	SAY(what, "no separate debug information is installed (/usr/lib/debug)");
	SAY(cost, "only exported functions of stripped binaries have names");
	SAY(hint, "install the -dbgsym or -debuginfo package of the profiled program");
}

static void judge_debuginfod(const struct doctor_facts *d, struct doctor_finding *f)
{
	SAY(what, d->debuginfod
			  ? "DEBUGINFOD_URLS is set; its servers are asked with --debuginfod only"
			  : "DEBUGINFOD_URLS is not set; perfwind makes no network requests");
	if (!d->debuginfod || d->debug_files)
		return;
	f->state = DOCTOR_PARTLY;
	SAY(cost, "debug information of debuginfod is not used for names");
	SAY(hint, "perfwind record --debuginfod, or perfwind symbolize --debuginfod FILE");
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
