/* perf-config.h - the config of a `linux.perf` data source into the options of a session.
 * Thread: main.
 *
 * Every field of PerfEventConfig is honoured or refused by name.  An absent field takes the
 * reference's default, except for the rings: without ring_buffer_pages their size follows the rate, and
 * without ring_buffer_read_period_ms they are read as those of any session (session-pace.c: each 100 or 500 ms, and at
 * once for a flush).  The read period is an upper bound. */
#pragma once

#include "proc/filter.h"
#include "config/session-options.h"
#include "protos/trace_config.pb-c.h"

/* The share of the processes that one tracing session takes (process_shard_count): its first data
 * source with one chooses, the others follow.  All zero at first. */
struct perf_config_share {
	uint32_t count, chosen;
};

struct perf_config_env {
	const char *root; /* before /sys and /proc: "" on a machine */
	struct features features;
	struct perf_config_share *share; /* NULL: this source is alone */
};

enum {
	PERF_CONFIG_HZ = 10,
	PERF_CONFIG_MAPS_WAIT_MS = 100,
	PERF_CONFIG_CLEAR_MS = 5 * 60 * 1000,
};

struct perf_config {
	struct session_options
		options; /* points into this object; sink, done ... are the caller's */
	const Pb__PerfEventConfig *message; /* borrowed */
	struct perf_spec specs[1 + PERF_MAX_FOLLOWERS];
	size_t n_specs;
	uint32_t *cpus;
	struct filter *filter;
};

/* Borrows @config while the perf_config lives.  NULL: a config without fields, which counts cpu-clock at
 * 10 Hz.  -EINVAL, -ENOENT,
 * -EACCES: *error is "FIELD: why".  -ENODEV: none of the CPUs that are asked for is here (a config
 * may be meant for several kinds of machines). */
int perf_config_new(const struct perf_config_env *env, const Pb__PerfEventConfig *config,
		    struct perf_config **ret_config, char *error, size_t error_size);
struct perf_config *perf_config_free(struct perf_config *config);
