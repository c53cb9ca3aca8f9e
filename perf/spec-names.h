/* spec-names.h - the kernel's generic events by name.  Thread: main.
 * Names as perf-list(1) gives them; numbers of linux/perf_event.h (enum perf_hw_id, perf_sw_ids,
 * perf_hw_cache_id ...). */
#pragma once

#include "base/nearest.h"
#include "perf/spec.h"

/* Sets type, config, weight, precise_ip and counter.  False: no generic event has this name. */
bool spec_names_find(const char *name, struct perf_spec *ret_spec);
bool spec_names_find_counter(int32_t counter, struct perf_spec *ret_spec);
/* Is this the usual name of the cycles counter? */
bool spec_names_is_cycles(const char *name);
/* Offers all names. */
void spec_names_offer(struct nearest *nearest);
