/* doctor.c - see doctor.h: what the facts mean, what it costs, and what to type.  Thread: main. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "daemon/doctor.h"

#define SAY(member, ...) (void)snprintf(f->member, sizeof(f->member), __VA_ARGS__)

bool doctor_can_record(const struct doctor_facts *d)
{
	return d->own_user == 0;
}

static void judge_own_programs(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->own_user == 0) {
		SAY(what, "your own programs can be sampled");
		return;
	}
	f->state = DOCTOR_SHUT;
	SAY(cost, "perfwind cannot record at all without a daemon to ask");
	if (d->own_user == -ENOSYS || d->paranoid == INT_MAX) {
		SAY(what, "this kernel was built without perf events");
		SAY(mend, "a kernel with CONFIG_PERF_EVENTS");
	} else if (d->own_user == -EPERM && d->seccomp) {
		SAY(what, "a seccomp filter refuses perf_event_open, as containers have one");
		SAY(mend, "docker run --cap-add PERFMON --security-opt seccomp=unconfined ...");
	} else if (d->paranoid > 2 && !d->cap_perfmon) {
		SAY(what, "kernel.perf_event_paranoid = %d keeps users from it", d->paranoid);
		SAY(mend, "sudo sysctl kernel.perf_event_paranoid=2");
	} else {
		SAY(what, "perf_event_open: %s (a security module?)", strerror(-d->own_user));
		SAY(mend, "sudo ausearch -m avc -ts recent; allow perf_event to it");
	}
}

static void judge_kernel(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->own_kernel == 0) {
		SAY(what, "the time your programs spend in the kernel can be sampled");
		return;
	}
	f->state = DOCTOR_SHUT;
	SAY(what, "kernel.perf_event_paranoid = %d keeps the kernel out", d->paranoid);
	SAY(cost, "system calls and page faults of your programs are not seen (--user-only)");
	SAY(mend, "sudo sysctl kernel.perf_event_paranoid=1");
}

static void judge_machine(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->machine == 0 && d->pid_namespace) {
		f->state = DOCTOR_PARTLY;
		SAY(what, "whole CPUs can be sampled, but this is a container with process ids of "
			  "its own");
		SAY(cost, "-a cannot tell what runs outside from the idle task, and leaves it out");
		SAY(mend, "docker run --pid=host ..., or run perfwind on the host");
	} else if (d->machine == 0) {
		SAY(what, "the whole machine can be sampled (-a)");
	} else {
		f->state = DOCTOR_SHUT;
		SAY(what, "whole CPUs may not be sampled (perf_event_paranoid = %d)", d->paranoid);
		SAY(cost, "-a is refused; your own programs need it not");
		SAY(mend, "sudo sysctl kernel.perf_event_paranoid=0");
	}
}

static void judge_others(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->cap_ptrace) {
		SAY(what, "memory and mappings of all processes can be read");
		return;
	}
	f->state = DOCTOR_SHUT;
	SAY(what, "other users' processes cannot be read (no CAP_SYS_PTRACE)");
	SAY(cost, "-p of another user's process is refused, unless it consents (perfwind run)");
	SAY(mend, "sudo perfwind record -p PID");
	if (d->ptrace_scope == 3)
		SAY(mend, "none until the next boot: kernel.yama.ptrace_scope = 3 is final");
}

static void judge_hardware(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->cycles == 0) {
		SAY(what, "the CPU's own counters are there: cycles is the default event");
		return;
	}
	f->state = DOCTOR_PARTLY;
	if (d->cycles == -ENOENT || d->cycles == -EOPNOTSUPP || d->cycles == -ENODEV) {
		SAY(what, "no hardware counters: a virtual machine without a virtual PMU?");
		SAY(mend, "on its host (KVM): -cpu host,pmu=on; in a cloud: a type of machine with "
			  "a PMU");
	} else {
		SAY(what, "hardware counters are refused: %s", strerror(-d->cycles));
		SAY(mend, "sudo sysctl kernel.perf_event_paranoid=1");
	}
	SAY(cost, "sampling is by cpu-clock, a timer: code with interrupts off is seen late");
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
		SAY(what, "tracefs is not mounted");
		SAY(mend, "sudo mount -t tracefs nodev /sys/kernel/tracing");
	} else {
		SAY(what, "tracepoints: %s", strerror(-d->tracepoints));
		SAY(mend, "sudo perfwind record -e ...");
	}
}

static void judge_kernel_names(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->kernel_addresses) {
		SAY(what, "kernel functions have names");
		return;
	}
	f->state = DOCTOR_SHUT;
	SAY(what, "/proc/kallsyms shows no addresses (kernel.kptr_restrict = %d)",
	    d->kptr_restrict);
	SAY(cost, "kernel frames are in the trace without names");
	SAY(mend, d->kptr_restrict == 2 ? "sudo sysctl kernel.kptr_restrict=1, and run as root"
					: "sudo sysctl kernel.kptr_restrict=0");
}

static void judge_rings(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->ring_bytes >= d->ring_wanted) {
		SAY(what, "a ring of %lu MiB a CPU can be had", d->ring_wanted >> 20);
		return;
	}
	f->state = d->ring_bytes ? DOCTOR_PARTLY : DOCTOR_SHUT;
	SAY(what, "the largest ring is %lu KiB a CPU (kernel.perf_event_mlock_kb = %lu)",
	    d->ring_bytes >> 10, d->mlock_kb);
	SAY(cost, "at high rates with large stacks samples can get lost, and are counted");
	SAY(mend, "sudo sysctl kernel.perf_event_mlock_kb=65536");
}

static void judge_files(const struct doctor_facts *d, struct doctor_finding *f)
{
	enum { ENOUGH = 16384 };

	SAY(what, "%lu descriptors", d->files);
	if (d->files >= ENOUGH)
		return;
	f->state = DOCTOR_PARTLY;
	SAY(cost, "a process of more than some %lu threads is sampled by whole CPUs, if at all",
	    d->files / 8);
	SAY(mend, "ulimit -Hn %d  (as root, or in /etc/security/limits.conf)", (int)ENOUGH);
}

static void judge_rate(const struct doctor_facts *d, struct doctor_finding *f)
{
	SAY(what, "up to %lu samples a second and CPU", d->max_rate);
	if (d->max_rate >= 4000)
		return;
	f->state = DOCTOR_PARTLY;
	SAY(cost, "-F above it is refused");
	SAY(mend, "sudo sysctl kernel.perf_event_max_sample_rate=100000");
}

static void judge_facilities(const struct doctor_facts *d, struct doctor_finding *f)
{
	size_t n = 0;

	for (int i = 0; i < FEATURE_COUNT; i++) {
		if (d->features.has[i] || n >= sizeof(f->cost) - 32)
			continue;
		n += (size_t)snprintf(f->cost + n, sizeof(f->cost) - n, "%s%s",
				      n ? ", " : "done the older way: ", feature_name(i));
	}
	SAY(what, n ? "the kernel lacks some newer facilities" : "all newer facilities are there");
	f->state = n ? DOCTOR_PARTLY : DOCTOR_OPEN;
	if (n)
		SAY(mend, "none needed; Linux 6.13 has all of them");
}

static void judge_daemon(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->daemon) {
		SAY(what, "a perfwind daemon is there to ask");
		return;
	}
	SAY(what, "no perfwind daemon listens: your own rights are all there is");
	if (d->root)
		return;
	f->state = DOCTOR_PARTLY;
	SAY(cost, "what the lines above refuse stays refused");
	SAY(mend, "sudo systemctl start perfwind.socket, where perfwind is installed");
}

static void judge_symbols(const struct doctor_facts *d, struct doctor_finding *f)
{
	if (d->debug_files || d->debuginfod) {
		SAY(what, "debug information: %s%s%s", d->debug_files ? "/usr/lib/debug" : "",
		    d->debug_files && d->debuginfod ? ", " : "",
		    d->debuginfod ? "debuginfod (perfwind asks it only if told to)" : "");
		return;
	}
	f->state = DOCTOR_PARTLY;
	SAY(what, "no separate debug information is installed");
	SAY(cost, "of stripped binaries only exported functions have names");
	SAY(mend, "install the -dbgsym or -debuginfo package of what you profile");
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
	[DOCTOR_RINGS] = {"rings", judge_rings},
	[DOCTOR_FILES] = {"files", judge_files},
	[DOCTOR_RATE] = {"rate", judge_rate},
	[DOCTOR_FACILITIES] = {"facilities", judge_facilities},
	[DOCTOR_DAEMON] = {"daemon", judge_daemon},
	[DOCTOR_SYMBOLS] = {"symbols", judge_symbols},
};

void doctor_judge(const struct doctor_facts *facts, enum doctor_gate gate, struct doctor_finding *f)
{
	*f = (struct doctor_finding){.name = gates[gate].name, .state = DOCTOR_OPEN};
	gates[gate].judge(facts, f);
}
