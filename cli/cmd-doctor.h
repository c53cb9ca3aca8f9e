/* cmd-doctor.h - every gate that decides what can be seen on this machine, by this user.  Thread: main.
 * Looking (facts: by trying, where that can be) stands apart from judging, which is arithmetic. */
#pragma once

#include "base/features.h"
#include "daemon/policy/policy.h"

enum doctor_gate {
	DOCTOR_OWN_PROGRAMS, /* user code of programs that the user starts: a default recording */
	DOCTOR_KERNEL,	     /* ... with their time in the kernel */
	DOCTOR_MACHINE,	     /* -a */
	DOCTOR_OTHERS,	     /* -p of other users' processes */
	DOCTOR_HARDWARE,     /* cycles and the other counters of the CPU */
	DOCTOR_TRACEPOINTS,
	DOCTOR_KERNEL_NAMES,
	DOCTOR_CAPABILITIES,
	DOCTOR_SECCOMP,
	DOCTOR_PTRACE, /* reading memory of one's own processes */
	DOCTOR_RINGS,
	DOCTOR_FILES, /* descriptors, for many threads */
	DOCTOR_RATE,
	DOCTOR_FACILITIES, /* of newer kernels */
	DOCTOR_BPF,	   /* BPF programs at samples */
	DOCTOR_DAEMON,	   /* somebody to ask */
	DOCTOR_SYMBOLS,	   /* debug information at hand */
	DOCTOR_DEBUGINFOD,
	DOCTOR_GATES,
};
enum doctor_state { DOCTOR_OPEN, DOCTOR_PARTLY, DOCTOR_SHUT };

/* What was found.  Errors are -errno, 0: it went well. */
struct doctor_facts {
	/* rights over the machine: root of a user namespace has none */
	bool root, cap_admin, cap_perfmon, cap_ptrace, cap_syslog, cap_ipc_lock;
	int paranoid;	   /* kernel.perf_event_paranoid; INT_MAX: no perf events in this kernel */
	int kptr_restrict; /* kernel.kptr_restrict */
	int ptrace_scope;  /* kernel.yama.ptrace_scope; -1: without the module */
	bool seccomp;	   /* this process runs under a filter */
	bool pid_namespace, user_namespace;
	int own_user, own_kernel, machine, cycles; /* opening an event of this kind */
	int first_process;			   /* reading memory of process 1 */
	int tracepoints;			   /* reading the number of one */
	bool kernel_addresses;			   /* /proc/kallsyms shows them */
	uint64_t ring_bytes, ring_wanted; /* the largest that all CPUs could have at once */
	uint64_t files;			  /* hard limit of descriptors */
	uint64_t max_rate;		  /* kernel.perf_event_max_sample_rate, Hz */
	struct features features;
	bool daemon;	     /* a daemon listens on the control socket */
	bool daemon_outside; /* it runs outside of this pid namespace, where processes have other ids */
	bool units;	   /* systemd is the machine's first program, and has the daemon's units */
	bool service_user; /* the user that these and --user name is there */
	/* What the settings give this user of a daemon that is asked; why they are not known, or "". */
	enum policy_scope scope;
	char settings_error[160];
	char user[64], group[64]; /* this user; a group that may record everything, or "" */
	bool debug_files;	  /* separate debug information is installed */
	bool debuginfod;	  /* DEBUGINFOD_URLS is set */
};

/* One gate's finding: plain sentences, "" where there is nothing to report. */
struct doctor_finding {
	const char *name; /* stable, for programs */
	enum doctor_state state;
	char what[256]; /* what is the case */
	char cost[256]; /* what cannot be seen because of it */
	char hint[256]; /* one line to type, or words */
};

void doctor_look(const char *control_socket, struct doctor_facts *ret_facts);
void doctor_judge(const struct doctor_facts *facts, enum doctor_gate gate,
		  struct doctor_finding *ret_finding);
/* Is this a container, where sysctls are its host's? */
static inline bool doctor_in_container(const struct doctor_facts *facts)
{
	return facts->pid_namespace || facts->user_namespace;
}
/* Does `perfwind record -- CMD` work? */
bool doctor_can_record(const struct doctor_facts *facts);
/* ... though not with your own privileges. */
bool doctor_by_daemon(const struct doctor_facts *facts);
