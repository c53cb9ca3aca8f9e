/* gate.h - why perf_event_open() refused, in one line for the user.  Thread: main.
 * One errno has many reasons (EACCES: perf_event_paranoid, another user's process, a probe without
 * privileges), so the sysctls are read and a harmless event is tried to distinguish them. */
#pragma once

#include "perf/source.h"

struct gate_case {
	int error;		      /* -errno */
	pid_t tid;		      /* -1: the whole machine */
	const struct perf_spec *spec; /* the event that was refused */
	const struct perf_options *options;
};

/* @error gets the line with its hint. */
enum perf_gate gate_explain(const struct gate_case *refused, char *error, size_t error_size);

/* /proc/sys/kernel/@name; @fallback when it cannot be read. */
int64_t gate_sysctl(const char *name, int64_t fallback);
/* Frequency above the kernel's limit?  Then false and a line. */
bool gate_frequency_allowed(const struct perf_options *options, char *error, size_t error_size);
