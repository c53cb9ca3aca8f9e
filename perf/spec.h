/* spec.h - events: from the text of a command line or a config to type and config of an attr.
 * Thread: main.  Names: perf-list(1); /sys/bus/event_source/devices; tracefs. */
#pragma once

#include "perf/frames.h"
#include "perf/uapi.h"

enum perf_weight {
	PERF_WEIGHT_EVENTS, /* a count of something */
	PERF_WEIGHT_TIME,   /* nanoseconds: cpu-clock, task-clock */
	PERF_WEIGHT_CYCLES,
};

struct perf_spec {
	char name[128]; /* as the user wrote it, or its usual name */
	bool unnamed;	/* the user gave none: the trace leaves it to its readers */
	uint32_t type;
	uint64_t config, config1, config2;
	unsigned code;	    /* FRAMES_*: it counts there; 0: nowhere */
	uint8_t precise_ip; /* the highest to try; the kernel's refusal lowers it */
	enum perf_weight weight;
	char *filter; /* tracepoints; owned; NULL: none */
	char usdt
		[128]; /* "PROVIDER:NAME" of a static probe: its samples are marks too; "": it is none */
	char *probe_path;     /* uprobe/kprobe PMU: what config1 points to; owned */
	char tracepoint[128]; /* "GROUP:NAME" (a config's: as it stands there), empty when it is
				 none */
	int32_t counter;      /* Perfetto's PerfEvents.Counter number, -1: none */
};
void perf_spec_deinit(struct perf_spec *spec);
/* True if one of the events is a kprobe or uprobe. */
bool perf_has_kernel_probe(const struct perf_spec *specs, size_t n);

/* Where the kernel's tables are read: "" on a machine, a directory with a fake /sys in tests. */
struct perf_spec_env {
	const char *root;
};

/* Parses "EVENT[:MODIFIERS][,FOLLOWER...]": the first is sampled, the others are counted at each
 * sample. Events: cycles instructions cpu-clock ... ; GROUP:NAME or GROUP/NAME tracepoints; rHEX
 * raw; PMU/config=..,config1=../ and PMU/EVENT/; kprobe:FUNC[+OFF], uprobe:PATH:OFF or PATH:SYMBOL;
 * usdt:PATH:PROVIDER:NAME;
 * modifiers u k h p pp ppp.
 * @ret_specs has room for @max.  On -EINVAL/-ENOENT/-EACCES *error (size @error_size) has one line
 * for the user, with the nearest names where there are some. */
int perf_spec_parse(const struct perf_spec_env *env, const char *text, struct perf_spec *ret_specs,
		    size_t max, size_t *ret_n, char *error, size_t error_size);
/* By Perfetto's PerfEvents.Counter number (facts: PerfEvents).  -EINVAL. */
int perf_spec_of_counter(int32_t counter, struct perf_spec *ret_spec);
/* A tracepoint as a config names it: "GROUP/NAME" or "GROUP:NAME".  Sets type, config, tracepoint
 * and the usual name.  Errors and lines as above. */
int perf_spec_of_tracepoint(const struct perf_spec_env *env, const char *name,
			    struct perf_spec *ret_spec, char *error, size_t error_size);
/* The type number of a PMU that sysfs names.  -ENOENT with a line. */
int perf_spec_pmu_type(const struct perf_spec_env *env, const char *pmu, uint32_t *ret_type,
		       char *error, size_t error_size);
/* 0: there is a hardware cycles counter that can be opened on this machine; else -errno. */
int perf_spec_cycles(void);
/* The default event: hardware cycles at the highest precision available, or a timer where there are
 * none; then *ret_note is a line for the user (else NULL). */
const char *perf_spec_default(const char **ret_note);
/* Calls @each with the generic names: PERF_TYPE_HARDWARE, _SOFTWARE and _HW_CACHE. */
void perf_spec_each_name(void (*each)(void *arg, uint32_t type, const char *name), void *arg);
