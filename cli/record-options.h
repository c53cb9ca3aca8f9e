/* record-options.h - the options of `perfwind record`.  Thread: main. */
#pragma once

#include "cli/flight.h"
#include "cli/options.h"
#include "perf/spec-list.h"

enum { RECORD_PIDS = 4096, RECORD_MORE = 7, RECORD_HZ = 999 };

struct record_args {
	bool armed, all, children, user_only, kernel_only, idle, json, plain, realtime, ask, no_ask,
		under_seccomp, kernel_build_ids, no_inline, off_cpu, wall, wakers, native_frames,
		debuginfod, marks;
	const char *event, *filter, *output, *cpus, *socket, *hook_socket, *perf_data, *user,
		*cgroup;
	char event_text[SPEC_EVENT_MAX]; /* of braces */
	/* -e again: events with samples of their own (cmd-record.c). */
	const char *more[RECORD_MORE];
	char more_text[RECORD_MORE][SPEC_EVENT_MAX];
	const char *more_filter[RECORD_MORE]; /* --filter behind it */
	size_t n_more;
	bool rate_given; /* -F or -c */
	uint64_t frequency, period, max_bytes, ring_bytes;
	uint64_t flight_bytes, flight_ns; /* 0: not given */
	bool switch_output;
	uint64_t switch_ns; /* 0: at SIGUSR2 only */
	struct flight_collect collect;
	uint64_t mark_categories, min_duration_ns; /* of --marks */
	double duration, delay_ms;
	uint32_t stack_bytes, unwinder, clock, max_cpu_ppm;
	uint32_t pids[RECORD_PIDS];
	size_t n_pids;
	/* -t: then pids are their processes. */
	uint32_t tids[RECORD_PIDS];
	size_t n_tids;
	bool stop_watch; /* a command is given with other targets: it is not recorded, its end ends the recording */
};

extern const struct options record_options;
/* Checks @args and sets defaults.  -EINVAL: logged. */
int record_args_check(struct record_args *args, bool command);
/* The option that only a recording by the user's own privileges has (a daemon hands out no raw records, and affects no other
 * user's); NULL: none. */
const char *record_args_alone(const struct record_args *args);
/* FRAMES_*: where samples are taken. */
unsigned record_code(const struct record_args *args);
/* CLOCK_* */
int record_clock(const struct record_args *args);
