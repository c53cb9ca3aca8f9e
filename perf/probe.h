/* probe.h - which of the newer kernel facilities this machine has, found out by trying each.
 * Thread: main. PERFWIND_WITHOUT=NAME,NAME... (or "all") in the environment makes a probe report
 * "missing", for the tests of the fallbacks.  Names: base/features.h. */
#pragma once

#include "base/features.h"

/* 0; -v logs the result.  Where perf_event_open() is refused altogether its facilities count as absent,
 * and the open of the session reports the reason.  -EINVAL when PERFWIND_WITHOUT has an unknown name:
 * then @error has one line. */
int probe_features(struct features *ret_features, char *error, size_t error_size);
/* FEATURE_BPF, which probe_features() only takes away: bpf(2) is for sessions that use it, as a list of system calls (the
 * unit's) may end a process that calls it. */
void probe_bpf(struct features *features);
