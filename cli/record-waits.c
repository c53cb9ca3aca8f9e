/* record-waits.c - see record-waits.h. */
#include "cli/record-waits.h"

enum { COUNTER_CPU_CLOCK = 1 }; /* PerfEvents.Counter: weights are ns */

enum session_waits record_waits(const struct record_args *args)
{
	return args->off_cpu ? SESSION_WAITS_OFF_CPU
	       : args->wall  ? SESSION_WAITS_WALL
			     : SESSION_WAITS_NONE;
}

void record_waits_event(struct record_args *args, struct perf_spec *ret_spec)
{
	*ret_spec = (struct perf_spec){
		.type = PERF_TYPE_SOFTWARE,
		.config = args->wall ? PERF_COUNT_SW_CPU_CLOCK : PERF_COUNT_SW_DUMMY,
		.weight = PERF_WEIGHT_TIME,
		.counter = COUNTER_CPU_CLOCK,
		.exclude_kernel = args->user_only,
	};
	(void)snprintf(ret_spec->name, sizeof(ret_spec->name), "%s",
		       args->wall ? "wall-clock" : "off-cpu");
	if (args->frequency)
		args->period =
			max_u64(2, NSEC_PER_SEC / args->frequency); /* 1 has another meaning */
	args->frequency = 0;
}

void record_waits_set(const struct record_args *args, struct session_options *options)
{
	const struct perf_spec_env env = {""};
	struct perf_spec spec = {0};
	char why[256];

	options->waits = record_waits(args);
	if (options->waits &&
	    perf_spec_of_tracepoint(&env, "sched:sched_waking", &spec, why, sizeof(why)) >= 0)
		options->waking = spec.config;
	perf_spec_deinit(&spec);
}
