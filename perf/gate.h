/* gate.h - what limits perf events on this machine, and why perf_event_open() refused.  Thread: main.
 * One errno has many reasons (EACCES: perf_event_paranoid, another user's process, a probe without
 * privileges), so the sysctls are read and a harmless event is tried to distinguish them.
 *
 * Each limit has its cause and its hint in one table, for the refusals and notes of recordings and for `perfwind
 * doctor`. */
#pragma once

#include "perf/source.h"

/* Of GATE_CYCLES. */
#define GATE_CYCLES_CAUSE "no hardware cycle counter here (a virtual machine?)"

enum gate_row { /* in brackets: @value and @limit of gate_text() */
		GATE_NO_PERF_EVENTS,
		GATE_FILTER,	     /* seccomp */
		GATE_MODULE,	     /* SELinux, AppArmor */
		GATE_CLOSED,	     /* to users (perf_event_paranoid: 3, 4 of distributions) */
		GATE_CLOSED_PERFMON, /* ... to CAP_PERFMON too */
		GATE_KERNEL,	     /* kernel frames (perf_event_paranoid) */
		GATE_KERNEL_MODULE,  /* ... by a security module */
		GATE_MACHINE,	     /* whole CPUs (perf_event_paranoid) */
		GATE_MACHINE_MODULE, /* ... by a security module */
		GATE_PID_NAMESPACE,  /* whole CPUs, but not all processes */
		GATE_OTHERS,	     /* processes of other users */
		GATE_PROTECTED,	     /* ... that CAP_SYS_PTRACE does not open */
		GATE_TRACEPOINTS,    /* (perf_event_paranoid) */
		GATE_TRACEFS,	     /* closed to this user */
		GATE_TRACEFS_MOUNT,  /* not mounted */
		GATE_CYCLES,	     /* no hardware counters */
		GATE_RINGS,	     /* smaller ones (KiB a CPU, KiB that were wanted) */
		GATE_NO_RINGS,	     /* not even the smallest */
		GATE_FILES,	     /* descriptors (how many are enough) */
		GATE_RATE,	     /* (Hz that are wanted, the kernel's limit) */
		GATE_ROWS
};

enum { GATE_FILES_ENOUGH = 16384 };

struct gate_text {
	char cause[192]; /* a clause without a stop */
	char hint[160];	 /* a line to type, or words */
};
/* Of -F max: at the kernel's limit of 100,000 the timer of a machine without counters leaves a program no time. */
enum { GATE_MOST_HZ = 25000 };
struct gate_text gate_text(enum gate_row row, int64_t value, int64_t limit);
/* The limit in a few words, for a line that lists several; NULL: the row limits no recording, or refuses it. */
const char *gate_brief(enum gate_row row);
/* Why /proc/kallsyms shows this user no addresses.  @syslog: the user has CAP_SYSLOG. */
struct gate_text gate_kernel_names(int64_t kptr_restrict, int64_t paranoid, bool syslog);
/* The same of this process. */
struct gate_text gate_own_kernel_names(void);

/* Is this the machine's own namespace, not a container's? */
bool gate_first_pid_namespace(void);
bool gate_first_user_namespace(void);
/* CAPS_BIT()s that this process has over the machine: root of a user namespace has none. */
uint64_t gate_capabilities(void);

struct gate_case {
	int error;		      /* -errno */
	pid_t tid;		      /* -1: the whole machine */
	const struct perf_spec *spec; /* the event that was refused */
	const struct perf_options *options;
};

/* @error gets the line with its hint. */
enum perf_gate gate_explain(const struct gate_case *refused, char *error, size_t error_size);

/* Bytes of rings that this user and process may lock in all; UINT64_MAX: no limit.  Rings of others of the user are in it. */
uint64_t gate_locked_bytes(void);
/* /proc/sys/kernel/@name; @fallback when it cannot be read. */
int64_t gate_sysctl(const char *name, int64_t fallback);
/* Frequency above the kernel's limit?  Then false and a line. */
bool gate_frequency_allowed(const struct perf_options *options, char *error, size_t error_size);
