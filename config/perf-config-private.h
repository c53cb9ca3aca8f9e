/* perf-config-private.h - what the files of perf-config share.  Thread: main. */
#pragma once

#include "base/error.h"
#include "config/perf-config.h"

struct perf_config_job {
	const struct perf_config_env *env;
	struct perf_config *config;
	char *error;
	size_t error_size;
};

/* "FIELD: why" for the user; @r. */
int perf_config_refuse(struct perf_config_job *job, int r, const char *field, const char *format,
		       ...) _printf_(4, 5);

/* perf-config-event.c: the leader and its followers into config->specs. */
int perf_config_events(struct perf_config_job *job);
/* perf-config-cpus.c: which CPUs into config->cpus. */
int perf_config_cpus(struct perf_config_job *job);
