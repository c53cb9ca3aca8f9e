/* system-counters.h - load, memory, pressure, disks and CPU times of the machine, as SysStats packets.  Thread: main.
 *
 * The files are opened once: a session that has dropped its privileges still reads them. */
#pragma once

#include "trace/sink.h"

struct system_counters;
/* @root: "" on a machine.  Files that do not exist or are refused are left out.  Returns new. */
int system_counters_new(const char *root, struct system_counters **ret_counters);
struct system_counters *system_counters_free(struct system_counters *counters);
/* Reads them once, and writes one packet to @to.  Allocates nothing.  < 0: from @to. */
int system_counters_write(struct system_counters *counters, uint64_t boottime_ns, struct sink *to);
