/* record-options.h - the options of `perfwind record`.  Thread: main. */
#pragma once

#include "cli/options.h"

enum { RECORD_PIDS = 4096 };

struct record_args {
	bool all, children, user_only, kernel_only, idle, json, plain, realtime, ask, no_ask,
		under_seccomp, no_build_ids;
	const char *event, *filter, *output, *cpus, *socket, *hook_socket, *perf_data;
	uint64_t frequency, period;
	double duration;
	uint32_t stack_bytes, unwinder, clock;
	uint32_t pids[RECORD_PIDS];
	size_t n_pids;
};

extern const struct options record_options;
/* Checks @args and sets defaults.  -EINVAL: logged. */
int record_args_check(struct record_args *args, bool command);
/* CLOCK_* */
int record_clock(const struct record_args *args);
