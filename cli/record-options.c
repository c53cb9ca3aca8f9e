/* record-options.c - the options of `perfwind record`.  Thread: main. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "cli/common-options.h"
#include "cli/duration.h"
#include "cli/pid-list.h"
#include "cli/record-options.h"
#include "cli/terminal.h"
#include "cli/verdict.h"
#include "base/error.h"
#include "daemon/control/control-protocol.h"
#include "perf/gate.h"
#include "session/consent/consent.h"
#include "tracing/recorder.h"

static const char *const clock_names[] = {"monotonic", "monotonic_raw", "boottime", "realtime",
					  NULL};
static const int clock_ids[] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME,
				CLOCK_REALTIME};
static const char *const unwinder_names[] = {"native", "libunwind", "libdw", "fp", "fp-copy", NULL};

static int add_pids(void *to, const char *value)
{
	struct record_args *args = to;

	return pid_list_add(value, args->pids, &args->n_pids, RECORD_PIDS);
}

/* "{a,b}:S", perf's form of a group, is "a,b". */
static const char *without_braces(const char *value, char to[SPEC_EVENT_MAX])
{
	const char *end = *value == '{' ? strchr(value, '}') : NULL;

	if (!end)
		return value;
	(void)snprintf(to, SPEC_EVENT_MAX, "%.*s", (int)(end - value - 1), value + 1);
	return to;
}

static int add_tids(void *to, const char *value)
{
	struct record_args *args = to;

	return pid_list_add(value, args->tids, &args->n_tids, RECORD_PIDS);
}

static int set_event(void *to, const char *value)
{
	struct record_args *args = to;

	if (!*value) {
		log_error("record: an empty value for --event (see `perfwind record --help`)");
		return -EINVAL;
	}
	if (!args->event) {
		args->event = without_braces(value, args->event_text);
		return 0;
	}
	if (args->n_more == RECORD_MORE) {
		log_error("record: at most %d events are sampled at once", RECORD_MORE + 1);
		return -EINVAL;
	}
	args->more[args->n_more] = without_braces(value, args->more_text[args->n_more]);
	args->n_more++;
	return 0;
}

/* Of the event before it. */
static int set_filter(void *to, const char *value)
{
	struct record_args *args = to;

	if (!*value) {
		log_error("record: an empty value for --filter (see `perfwind record --help`)");
		return -EINVAL;
	}
	if (args->n_more)
		args->more_filter[args->n_more - 1] = value;
	else
		args->filter = value;
	return 0;
}

static int set_frequency(void *to, const char *value)
{
	static const char path[] = "/proc/sys/kernel/perf_event_max_sample_rate";
	struct record_args *args = to;
	_cleanup_(freep) char *text = NULL;
	int r = 0;

	if (!strcmp(value, "max")) {
		r = read_file(path, 64, &text, NULL);
		if (r < 0) {
			log_error("record: -F max: %s: %s", path, strerror(-r));
			return -EINVAL;
		}
		text[strcspn(text, "\n")] = 0;
		value = text;
	}
	if (parse_u64(value, 10, UINT64_MAX, &args->frequency) == 0) {
		if (text)
			args->frequency = min_u64(args->frequency, GATE_MOST_HZ);
		return 0;
	}
	log_error("record: --frequency %.64s: it is not a whole number, or `max` (see `perfwind "
		  "record --help`)",
		  value);
	return -EINVAL;
}

/* "512K", "20M", "1G"; a number without a unit is of @unit bytes. */
static int parse_size(const char *option, const char *value, uint64_t unit, uint64_t *ret_bytes)
{
	static const char units[] = "BKMG";
	size_t digits = strspn(value, "0123456789");
	const char *at = value[digits] ? strchr(units, value[digits] & ~0x20) : NULL;
	char number[24];
	uint64_t n;

	if (digits && digits < sizeof(number) && (!value[digits] || (at && !value[digits + 1]))) {
		memcpy(number, value, digits);
		number[digits] = 0;
		if (at)
			unit = 1ull << 10 * (at - units);
		if (parse_u64(number, 10, (1ull << 50) / unit, &n) == 0 && n) {
			*ret_bytes = n * unit;
			return 0;
		}
	}
	log_error("record: %s %.64s: it is not a size like 20M", option, value);
	return -EINVAL;
}

static int set_max_size(void *to, const char *value)
{
	struct record_args *args = to;

	return parse_size("--max-size", value, 1, &args->max_bytes);
}

static int set_flight(void *to, const char *value)
{
	struct record_args *args = to;
	size_t len = strcspn(value, ",");
	char first[32];
	int r;

	if (duration_parse(value, NULL, &args->flight_ns) == 0) {
		args->flight_bytes = RECORDER_BYTES_USUAL;
		return 0;
	}
	(void)snprintf(first, sizeof(first), "%.*s", (int)len, value);
	r = parse_size("--flight-recorder", value[len] ? first : value, 1, &args->flight_bytes);
	if (r < 0 || !value[len] || duration_parse(value + len + 1, NULL, &args->flight_ns) == 0)
		return r;
	log_error("record: --flight-recorder %.64s: it is a size (64M), a time (10min; "
		  "units: " DURATION_UNITS "), or both (64M,10min)",
		  value);
	return -EINVAL;
}

static bool is_switch(const char *word)
{
	uint64_t ns;

	return !strcmp(word, "signal") || duration_parse(word, NULL, &ns) == 0;
}

static int set_switch(void *to, const char *value)
{
	struct record_args *args = to;

	args->switch_output = true;
	if (!value || !strcmp(value, "signal") ||
	    (duration_parse(value, NULL, &args->switch_ns) == 0 && args->switch_ns))
		return 0;
	log_error("record: --switch-output=%.64s: it is a time (30s; units: " DURATION_UNITS
		  ") or signal (SIGUSR2); --max-size SIZE ends a recording by the size of its file",
		  value);
	return -EINVAL;
}

static int set_collect(void *to, const char *value)
{
	struct record_args *args = to;

	for (const char *p = value; *p; p += *p == ',') {
		size_t len = strcspn(p, ",");

		if (len == 5 && !strncmp(p, "tasks", len)) {
			args->collect.tasks = true;
		} else if (len == 9 && !strncmp(p, "addresses", len)) {
			args->collect.addresses = true;
		} else if (len == 6 && !strncmp(p, "system", len)) {
			args->collect.system = true;
		} else {
			log_error("record: --collect %.64s: it takes tasks, system and addresses, "
				  "as in "
				  "tasks,system",
				  value);
			return -EINVAL;
		}
		p += len;
	}
	return 0;
}

/* 1%, 0.5%, 1: of one CPU. */
static int set_max_cpu(void *to, const char *value)
{
	struct record_args *args = to;
	char *end;
	double percent = strtod(value, &end);

	if (end == value || (*end && strcmp(end, "%") != 0) || !(percent >= 0.01) ||
	    percent > 10000) {
		log_error("record: --max-cpu %.64s: it is a percentage of one CPU, at least 0.01 "
			  "(1%%)",
			  value);
		return -EINVAL;
	}
	args->max_cpu_ppm = (uint32_t)(percent * 1e4);
	return 0;
}

static int set_mmap_pages(void *to, const char *value)
{
	struct record_args *args = to;
	char size[24];
	uint64_t bytes;
	int r;

	(void)snprintf(size, sizeof(size), "%.*s", (int)strcspn(value, ","), value);
	r = parse_size("--mmap-pages", size, (uint64_t)sysconf(_SC_PAGESIZE), &bytes);
	if (r < 0)
		return r;
	if (bytes < 1 << 16 || bytes > 1 << 30) {
		log_error("record: --mmap-pages %.64s: a ring has 64 KiB to 1 GiB", value);
		return -EINVAL;
	}
	args->ring_bytes = round_up_power_of_two(bytes);
	return 0;
}

static int set_mark_categories(void *to, const char *value)
{
	struct record_args *args = to;

	if (parse_u64(value, 0, UINT64_MAX >> 2, &args->mark_categories) == 0)
		return 0;
	log_error("record: --mark-categories %.64s: it is a number of at most 62 bits, like 0x5",
		  value);
	return -EINVAL;
}

static int set_min_duration(void *to, const char *value)
{
	struct record_args *args = to;
	size_t digits = strspn(value, "0123456789");
	char number[16];

	if (duration_parse(value, NULL, &args->min_duration_ns) == 0)
		return 0;
	(void)snprintf(number, sizeof(number), "%.*s", (int)digits, value);
	if (!strcmp(value + digits, "us") && digits < sizeof(number) &&
	    parse_u64(number, 10, UINT32_MAX, &args->min_duration_ns) == 0) {
		args->min_duration_ns *= 1000;
		return 0;
	}
	log_error("record: --min-duration %.64s: it is a time like 10us (units: us, " DURATION_UNITS
		  ")",
		  value);
	return -EINVAL;
}

#define AT(member) .offset = offsetof(struct record_args, member)
static const struct option_def defs[] = {
	FLAG("all", 'a', all, "the whole machine"),
	CALL("pid", 'p', "PID[,PID]", add_pids, "these processes, with all their threads"),
	CALL("tid", 't', "TID[,TID]", add_tids, "these threads alone"),
	FLAG("children", 0, children, "with -p: their children too (a command's always are)"),
	TEXT("uid", 'u', "USER", user, "the processes of this user, by name or number"),
	TEXT("cgroup", 'G', "CGROUP", cgroup, "the processes in this cgroup or below it"),
	CALL("event", 'e', "EVENT[,FOLLOWER...]", set_event,
	     "the event to sample (default: cycles, or cpu-clock without counters):\na counter's "
	     "name, GROUP:NAME (tracepoint), rHEX, PMU/terms/,\nkprobe:FUNC, uprobe:PATH:SYMBOL, "
	     "usdt:[PATH:]PROVIDER:NAME; "
	     ":u "
	     "and :k behind it;\nfollowers are counted at each sample (`perfwind list`).  Again: a "
	     "second\nprofile in the same trace (report --event)"),
	FLAG("off-cpu", 0, off_cpu,
	     "in place of an event: the time in which threads wait, by stack and reason"),
	FLAG("wall", 0, wall, "all time of each thread: running and waiting"),
	FLAG("wakers", 0, wakers,
	     "with --off-cpu or --wall: also the stack of the task that ended a wait, behind a "
	     "frame\n[woken by NAME] (needs tracefs)"),
	CALL("filter", 0, "EXPR", set_filter, "the kernel's filter of the tracepoint before it"),
	CALL("frequency", 'F', "HZ", set_frequency,
	     "samples a second of CPU time (default 999; of a tracepoint, a probe or a software "
	     "event like page-faults: each "
	     "occurrence); the word max: the kernel's limit, but not more than 25000"),
	NUMBER("count", 'c', OPTION_U64, "PERIOD", period, 0,
	       "one sample each PERIOD events, instead of -F"),
	DURATION(duration,
		 "end after this time, also 500ms or 10min (a command is then terminated)"),
	TIME("delay", 'D', "ms", "MS", delay_ms, 86400000,
	     "begin this many milliseconds later, also 2s (a command runs meanwhile)"),
	TEXT("output", 'o', "FILE", output,
	     "the trace (default " DEFAULT_TRACE "; an existing one becomes FILE.old)"),
	CALL("flight-recorder", 0, "SIZE|TIME", set_flight,
	     "keep only the latest samples, in SIZE of memory (64M), of this TIME (10min, in 64M) "
	     "or "
	     "both (8M,10min), and write the trace at the end; `perfwind snapshot` or SIGUSR2 "
	     "writes "
	     "them to FILE-1.pftrace, -2 ... while it records"),
	{.name = "switch-output",
	 .type = OPTION_CALL,
	 .argument = "TIME|signal",
	 .call = set_switch,
	 .accepts = is_switch,
	 .help = "write further files: each TIME (30s), or at SIGUSR2, the samples since the "
		 "previous file go to FILE-1.pftrace, -2 ..., and the last ones to FILE; until "
		 "then they are kept in memory (64M, or the SIZE of --flight-recorder)"},
	CALL("collect", 0, "LIST", set_collect,
	     "with --flight-recorder: also tasks (CPU time, wait, I/O, memory, cgroup of each task "
	     "at a snapshot, and at its end), system (load, pressure, memory, disks, CPU times, "
	     "once a second), addresses (of kernel frames, for export --to str and bin)"),
	FLAG("armed", 0, armed,
	     "with --flight-recorder: collect nothing until `perfwind snapshot --arm TIME`"),
	CALL("max-size", 0, "SIZE", set_max_size,
	     "end when the trace has this size (20M; a command is then terminated)"),
	CALL("max-cpu", 0, "PERCENT", set_max_cpu,
	     "use at most this much of one CPU (1%), over any 10 s after the start: where it "
	     "takes\nmore, shorter copies of stacks are taken, then fewer samples, first of "
	     "processes\nthat have many; the weight of the others is added to the samples that "
	     "are kept"),
	TEXT("perf-data", 0, "FILE", perf_data,
	     "also write the raw records, for `perf report` and `perf script`\n(large: whole "
	     "stacks; an existing one becomes FILE.old)"),
	FLAG("marks", 0, marks,
	     "also the marks of programs (perfwind-marks.h, trace_marker, -finstrument-functions): "
	     "a command loads libperfwind-marks.so, a running process must have loaded it"),
	CALL("mark-categories", 0, "MASK", set_mark_categories,
	     "with --marks: a bit for each category of perfwind-marks.h that is wanted (0x5; "
	     "default: all)"),
	CALL("min-duration", 0, "TIME", set_min_duration,
	     "with --marks: leave out shorter slices of functions built with "
	     "-finstrument-functions (10us)"),
	TEXT("cpu", 'C', "LIST", cpus, "only on these CPUs: 0-3,8"),
	FLAG("user-only", 0, user_only, "user code only"),
	FLAG("kernel-only", 0, kernel_only, "kernel code only"),
	FLAG("idle", 0, idle, "keep samples of the idle task"),
	NUMBER("stack-bytes", 0, OPTION_U32, "BYTES", stack_bytes, 65528,
	       "how much of each stack is copied, at most 65528 (default: what\n99.9 % of the "
	       "stacks on a CPU need)"),
	CALL("mmap-pages", 'm', "PAGES", set_mmap_pages,
	     "size of each CPU's ring, in pages or as 8M (default: chosen)"),
	CHOICE("unwinder", "ENGINE", unwinder, unwinder_names,
	       "native, libunwind, libdw, fp (the kernel's frame pointers) or fp-copy"),
	FLAG("native-frames", 0, native_frames,
	     "keep the interpreter's own frames next to the functions of Python, PHP, Ruby or "
	     "Node.js that it runs"),
	CHOICE("clock", "CLOCK", clock, clock_names,
	       "of the samples: monotonic, monotonic_raw, boottime or realtime"),
	FLAG("no-inline", 0, no_inline,
	     "symbols only, no inlined calls and source lines: half of the cost of a short\n"
	     "recording of a program with debug information"),
	OPTION_DEBUGINFOD(debuginfod),
	FLAG("plain", 0, plain, "do not compress packets (three times the size)"),
	OPTION_HOOK_SOCKET(hook_socket),
	OPTION_UNDER_SECCOMP(under_seccomp),
	FLAG("kernel-build-ids", 0, kernel_build_ids,
	     "take build ids from the kernel's records even where this damages the records of "
	     "other "
	     "profilers (a perf 6.1 that runs at the same time may abort)"),
	FLAG("realtime", 0, realtime, "read the rings with real-time priority (SCHED_RR)"),
	OPTION_DAEMON(ask, "record"),
	OPTION_NO_DAEMON(no_ask),
	OPTION_CONTROL_SOCKET(socket),
	FLAG("json", 0, json,
	     "print the summary as one JSON object, the last line of standard output"),
	{0},
};

/* ---- options of `perf record` ---- */

static int set_call_graph(void *to, const char *value)
{
	struct record_args *args = to;
	uint64_t bytes;

	if (!strcmp(value, "dwarf"))
		return 0;
	if (!strcmp(value, "fp")) {
		args->unwinder = UW_ENGINE_FP;
		return 0;
	}
	if (!strcmp(value, "lbr")) {
		log_info("record: --call-graph lbr: branch records are not used; stacks are copied "
			 "and unwound");
		return 0;
	}
	if (!strncmp(value, "dwarf,", 6) && parse_u64(value + 6, 10, UINT32_MAX, &bytes) == 0) {
		args->stack_bytes = (uint32_t)min_u64(bytes, 65528) & ~7u;
		return 0;
	}
	log_error("record: --call-graph %.64s: it is one of dwarf, dwarf,BYTES, fp, lbr", value);
	return -EINVAL;
}

static int set_clock(void *to, const char *value)
{
	struct record_args *args = to;

	if (!strncasecmp(value, "CLOCK_", 6))
		value += 6;
	if (!strcasecmp(value, "mono"))
		value = "monotonic";
	for (uint32_t i = 0; clock_names[i]; i++)
		if (!strcasecmp(clock_names[i], value)) {
			args->clock = i;
			return 0;
		}
	log_error("record: --clockid %.64s: it is one of monotonic, monotonic_raw, boottime, "
		  "realtime",
		  value);
	return -EINVAL;
}

static const struct option_def foreign[] = {
	{.name = "g", .letter = 'g', .type = OPTION_WITHOUT_EFFECT},
	CALL("call-graph", 0, "MODE", set_call_graph, NULL),
	CALL("clockid", 'k', "CLOCK", set_clock, NULL),
	FLAG("all-cpus", 0, all, NULL),
	FLAG("all-user", 0, user_only, NULL),
	FLAG("all-kernel", 0, kernel_only, NULL),
	IGNORED("no-buildid", 'B', NULL, NULL),
	TEXT("user", 0, "USER", user, NULL),
	CALL("freq", 0, "HZ", set_frequency, NULL),
	IGNORED("stat", 's', NULL, "threads are always recorded apart: report --by thread"),
	IGNORED("no-inherit", 'i', NULL,
		"children of a command are always recorded: report --pid PID"),
	IGNORED("timestamp", 'T', NULL, NULL),
	IGNORED("period", 'P', NULL, NULL),
	IGNORED("sample-cpu", 0, NULL, NULL),
	IGNORED("no-buildid-cache", 'N', NULL, NULL),
	IGNORED("buildid-all", 0, NULL, NULL),
	IGNORED("raw-samples", 'R', NULL, "fields of a tracepoint are not recorded"),
	IGNORED("compression-level", 'z', NULL, NULL),
	IGNORED("strict-freq", 0, NULL, NULL),
	IGNORED("tail-synthesize", 0, NULL, NULL),
	REFUSED("branch-any", 'b', NULL,
		"branch records are not recorded; stacks are whole without them"),
	REFUSED("branch-filter", 'j', "FILTER",
		"branch records are not recorded; stacks are whole without them"),
	REFUSED("overwrite", 0, NULL, "--flight-recorder SIZE keeps the latest samples"),
	{0},
};

const struct options record_options = {
	.command = "record",
	.usage = "[OPTIONS] -a | -p PID[,PID] | -t TID | [--] COMMAND [ARGUMENTS]",
	.description =
		"Samples the machine, processes or a command and writes a symbolised "
		"trace.\nWith -a, -p, -u or -G a command is the stop-watch: the recording ends "
		"when it exits.",
	.json = VERDICT_JSON,
	.details =
		{"The exit status is that of the command: 127 if it was not found, 126 if it "
		 "cannot be executed, 128 + N after signal N, 0 after --duration. It is 1 if "
		 "perfwind failed and 2 for wrong usage. If the recording fails (a full disk, a "
		 "closed pipe, a daemon that ended), the command runs on; its exit status then "
		 "counts, or 1 if it is 0.",
		 "Ctrl-C ends the recording; a second one ends perfwind at once (a flight recorder "
		 "writes what it holds). A SIGINT for "
		 "perfwind alone ends the recording, and perfwind waits for the command.",
		 "The trace is readable by its owner only. It can be read up to its last whole "
		 "packet at any moment. An output that is a device or a pipe is written to "
		 "directly. With -o -, what the command prints to standard output goes to "
		 "standard error, as standard output has the trace.",
		 "The last lines are the verdict: the share of CPU time that was seen, outcomes "
		 "of stacks, losses, cost, the file, and modules without symbols."},
	.examples = "# a command with its children, into perfwind.pftrace\n"
		    "perfwind record -- make -j8\n\n"
		    "# a running process for 10 seconds, 4000 samples a second\n"
		    "perfwind record -p 1234 -d 10 -F 4000 -o server.pftrace\n\n"
		    "# all processes of one name, while a load test runs\n"
		    "perfwind record -p \"$(pgrep -x nginx)\" -- ./load-test\n\n"
		    "# the whole machine until Ctrl-C\n"
		    "sudo perfwind record -a\n\n"
		    "# a flight recorder: the latest 64 MiB of packets (hours at 49 Hz); after a "
		    "spike, "
		    "its samples in spike-1.pftrace\n"
		    "perfwind record -p 1234 -F 49 --flight-recorder 64M -o spike.pftrace &\n"
		    "perfwind snapshot --last 30s\n\n"
		    "# what a service waits for: stacks and reasons\n"
		    "sudo perfwind record --off-cpu -p 1234 -d 10\n"
		    "sudo perfwind report --by reason\n\n"
		    "# all time of a command, running and waiting, as a flame graph\n"
		    "sudo perfwind record --wall -- ./job\n"
		    "sudo perfwind export --to html\n\n"
		    "# page faults in user code only, with the verdict for a program\n"
		    "perfwind record -e page-faults:u --json -- ./server >verdict.json\n\n"
		    "# cycles, and instructions counted at each sample\n"
		    "perfwind record -e cycles,instructions -- ./work\n\n"
		    "# two profiles in one trace: CPU time and page faults\n"
		    "perfwind record -e cpu-clock -e page-faults -- ./work\n"
		    "perfwind report --event page-faults",
	.defs = defs,
	.foreign = foreign,
	.max_arguments = -1,
	.stop_at_argument = true,
};

const char *record_args_alone(const struct record_args *args)
{
	return args->perf_data		? "--perf-data"
	       : args->kernel_build_ids ? "--kernel-build-ids"
	       : args->user		? "-u"
	       : args->cgroup		? "-G"
	       : args->delay_ms		? "--delay"
	       : args->max_bytes	? "--max-size"
	       : args->flight_bytes	? "--flight-recorder"
	       : args->ring_bytes	? "--mmap-pages"
	       : args->no_inline	? "--no-inline"
	       : args->n_more		? "-e twice"
	       : args->n_tids		? "-t"
	       : args->off_cpu		? "--off-cpu"
	       : args->wall		? "--wall"
	       : args->marks		? "--marks"
					: NULL;
}

/* Of --flight-recorder. */
static int flight_check(const struct record_args *args, bool command)
{
	if (!args->flight_bytes) {
		if (!args->collect.tasks && !args->collect.system && !args->collect.addresses &&
		    !args->armed)
			return 0;
		log_error("%s is for --flight-recorder", args->armed ? "--armed" : "--collect");
		return -EINVAL;
	}
	if (args->armed && command && !args->stop_watch) {
		log_error(
			"--armed is for running processes (-a, -p), not for --flight-recorder of a "
			"command");
		return -EINVAL;
	}
	if (args->flight_bytes < RECORDER_BYTES_MIN || args->flight_bytes > RECORDER_BYTES_MAX) {
		log_error("--flight-recorder takes a size from 1M to 64G (or a time: 10min)");
		return -EINVAL;
	}
	if (args->max_bytes || !strcmp(args->output, "-")) {
		log_error("%s and %s exclude each other",
			  args->switch_output ? "--switch-output" : "--flight-recorder",
			  args->max_bytes ? "--max-size" : "-o -");
		return -EINVAL;
	}
	return 0;
}

/* Of --off-cpu and --wall. */
static int waits_check(const struct record_args *args)
{
	const char *name = args->off_cpu ? "--off-cpu" : "--wall";
	const char *other = args->off_cpu && args->wall ? "--wall"
			    : args->event		? "--event"
			    : args->perf_data		? "--perf-data"
			    : args->period		? "--count"
			    : args->kernel_only		? "--kernel-only"
			    : args->max_cpu_ppm		? "--max-cpu"
			    : args->idle		? "--idle"
							: NULL;

	if (args->wakers && !args->off_cpu && !args->wall) {
		log_error("--wakers is for --off-cpu and --wall");
		return -EINVAL;
	}
	if ((!args->off_cpu && !args->wall) || !other)
		return 0;
	log_error("%s and %s exclude each other", name, other);
	return -EINVAL;
}

/* Of -e again. */
static int more_check(const struct record_args *args)
{
	if (!args->n_more || (!args->perf_data && !args->flight_bytes))
		return 0;
	if (args->perf_data)
		log_error("--perf-data takes one sampled event: give -e once, or -e %.64s,%.64s, "
			  "which "
			  "counts the second at each sample of the first",
			  args->event, args->more[0]);
	else
		log_error(
			"--flight-recorder keeps one sampled event: give -e once and run a second "
			"recorder for %.64s, or -e %.64s,%.64s, which counts the second at each "
			"sample "
			"of the first",
			args->more[0], args->event, args->more[0]);
	return -EINVAL;
}

/* The processes of -t. */
static int find_processes(struct record_args *args)
{
	if (args->n_tids && (args->n_pids || args->children || args->user || args->cgroup)) {
		log_error("-t and %s exclude each other", args->n_pids	   ? "-p"
							  : args->children ? "--children"
							  : args->user	   ? "-u"
									   : "-G");
		return -EINVAL;
	}
	for (size_t i = 0; i < args->n_tids; i++) {
		_cleanup_(freep) char *status = NULL;
		char path[64];
		const char *line;

		(void)snprintf(path, sizeof(path), "/proc/%u/status", args->tids[i]);
		if (read_file(path, 65536, &status, NULL) < 0 ||
		    !(line = strstr(status, "\nTgid:"))) {
			log_error("record: -t %u: there is no thread with this id", args->tids[i]);
			return -EINVAL;
		}
		args->pids[args->n_pids++] = (uint32_t)strtoul(line + 6, NULL, 10);
	}
	return 0;
}

static int check_targets(struct record_args *args, bool command)
{
	int targets;

	if (find_processes(args) < 0)
		return -EINVAL;
	targets = args->all + (args->n_pids > 0);
	args->all |= !targets && (args->user || args->cgroup);
	targets += args->all && !targets;
	if (targets > 1 || (args->n_pids && (args->user || args->cgroup))) {
		log_error("%s and -p exclude each other", args->user	 ? "-u"
							  : args->cgroup ? "-G"
									 : "-a");
		return -EINVAL;
	}
	if (!targets && !command) {
		log_error("record needs a target: -a (the machine), -p PID, -t TID, or a command");
		return -EINVAL;
	}
	args->stop_watch = targets && command;
	return 0;
}

int record_args_check(struct record_args *args, bool command)
{
	if (check_targets(args, command) < 0)
		return -EINVAL;
	if (args->ask && args->no_ask) {
		log_error("--daemon and --no-daemon exclude each other");
		return -EINVAL;
	}
	if (args->ask && record_args_alone(args)) {
		log_error("%s works without a daemon only (its protocol does not have it)",
			  record_args_alone(args));
		return -EINVAL;
	}
	if (!args->frequency || !args->period) {
		log_error("%s takes a number of at least 1", args->frequency ? "-c" : "-F");
		return -EINVAL;
	}
	/* Neither given: the default. */
	args->frequency = args->frequency == UINT64_MAX ? 0 : args->frequency;
	args->period = args->period == UINT64_MAX ? 0 : args->period;
	if (args->frequency && args->period) {
		log_error("-F and -c exclude each other");
		return -EINVAL;
	}
	args->rate_given = args->frequency || args->period;
	if (args->user_only && args->kernel_only) {
		log_error("--user-only and --kernel-only exclude each other");
		return -EINVAL;
	}
	if (args->stack_bytes % 8) {
		log_error("--stack-bytes must be a multiple of 8");
		return -EINVAL;
	}
	if (!args->frequency && !args->period) {
		bool each = args->event && perf_spec_is_point(args->event);

		*(each ? &args->period : &args->frequency) = each ? 1 : RECORD_HZ;
	}
	if (!args->output)
		args->output = DEFAULT_TRACE;
	if (!args->socket)
		args->socket = CONTROL_SOCKET;
	if (args->switch_output && !args->flight_bytes)
		args->flight_bytes = RECORDER_BYTES_USUAL;
	if (more_check(args) < 0 || waits_check(args) < 0 || flight_check(args, command) < 0)
		return -EINVAL;
	if (args->json && !strcmp(args->output, "-")) {
		log_error("--json and -o - both use standard output");
		return -EINVAL;
	}
	if (terminal_refuses_output("record", args->output))
		return -EINVAL;
	return 0;
}

unsigned record_code(const struct record_args *args)
{
	return args->user_only ? FRAMES_USER : args->kernel_only ? FRAMES_KERNEL : FRAMES_ALL;
}

int record_clock(const struct record_args *args)
{
	return clock_ids[args->clock];
}
