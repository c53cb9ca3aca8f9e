/* record-options.c - the options of `perfwind record`.  Thread: main. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "cli/common-options.h"
#include "cli/pid-list.h"
#include "cli/record-options.h"
#include "cli/verdict.h"
#include "base/error.h"
#include "daemon/control/control-protocol.h"
#include "session/consent/consent.h"

enum { DEFAULT_HZ = 999 };

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

static const struct option_def defs[] = {
	{"all", 'a', OPTION_FLAG, NULL, "the whole machine", offsetof(struct record_args, all), 0,
	 NULL, NULL},
	{"pid", 'p', OPTION_CALL, "PID[,PID]", "these processes, with all their threads", 0, 0,
	 NULL, add_pids},
	{"children", 0, OPTION_FLAG, NULL, "with -p: their children too (a command's always are)",
	 offsetof(struct record_args, children), 0, NULL, NULL},
	{"event", 'e', OPTION_STRING, "EVENT[,FOLLOWER...]",
	 "the event to sample (default: cycles, or cpu-clock without counters):\na counter's name, "
	 "GROUP:NAME (tracepoint), rHEX, PMU/terms/,\nkprobe:FUNC, uprobe:PATH:SYMBOL; :u and :k "
	 "behind it;\nfollowers are counted at each sample",
	 offsetof(struct record_args, event), 0, NULL, NULL},
	{"filter", 0, OPTION_STRING, "EXPR", "the kernel's filter of a tracepoint",
	 offsetof(struct record_args, filter), 0, NULL, NULL},
	{"frequency", 'F', OPTION_U64, "HZ", "samples a second of CPU time (default 999)",
	 offsetof(struct record_args, frequency), 0, NULL, NULL},
	{"count", 'c', OPTION_U64, "PERIOD", "one sample each PERIOD events, instead of -F",
	 offsetof(struct record_args, period), 0, NULL, NULL},
	{"duration", 'd', OPTION_DOUBLE, "SECONDS",
	 "end after this time (a command is then terminated)",
	 offsetof(struct record_args, duration), 0, NULL, NULL},
	{"output", 'o', OPTION_STRING, "FILE",
	 "the trace (default " DEFAULT_TRACE "; an existing one becomes FILE.old)",
	 offsetof(struct record_args, output), 0, NULL, NULL},
	{"perf-data", 0, OPTION_STRING, "FILE",
	 "also write the raw records, for `perf report` and `perf script`\n(large: whole stacks; "
	 "an "
	 "existing one becomes FILE.old)",
	 offsetof(struct record_args, perf_data), 0, NULL, NULL},
	{"cpu", 0, OPTION_STRING, "LIST", "only on these CPUs: 0-3,8",
	 offsetof(struct record_args, cpus), 0, NULL, NULL},
	{"user-only", 0, OPTION_FLAG, NULL, "user code only",
	 offsetof(struct record_args, user_only), 0, NULL, NULL},
	{"kernel-only", 0, OPTION_FLAG, NULL, "kernel code only",
	 offsetof(struct record_args, kernel_only), 0, NULL, NULL},
	{"idle", 0, OPTION_FLAG, NULL, "keep samples of the idle task",
	 offsetof(struct record_args, idle), 0, NULL, NULL},
	{"stack-bytes", 0, OPTION_U32, "BYTES",
	 "how much of each stack is copied, at most 65528 (default: that;\nwith -a it adapts, from "
	 "16384)",
	 offsetof(struct record_args, stack_bytes), 65528, NULL, NULL},
	{"unwinder", 0, OPTION_CHOICE, "ENGINE",
	 "native, libunwind, libdw, fp (the kernel's frame pointers) or fp-copy",
	 offsetof(struct record_args, unwinder), 0, unwinder_names, NULL},
	{"clock", 0, OPTION_CHOICE, "CLOCK",
	 "of the samples: monotonic, monotonic_raw, boottime or realtime",
	 offsetof(struct record_args, clock), 0, clock_names, NULL},
	{"plain", 0, OPTION_FLAG, NULL, "do not compress packets (three times the size)",
	 offsetof(struct record_args, plain), 0, NULL, NULL},
	OPTION_HOOK_SOCKET(struct record_args, hook_socket),
	OPTION_UNDER_SECCOMP(struct record_args, under_seccomp),
	{"no-build-ids", 0, OPTION_FLAG, NULL,
	 "read build ids from files and memory, not from the kernel's records (a perf 6.1 that "
	 "runs at the same time may abort on those records)",
	 offsetof(struct record_args, no_build_ids), 0, NULL, NULL},
	{"realtime", 0, OPTION_FLAG, NULL, "read the rings with real-time priority (SCHED_RR)",
	 offsetof(struct record_args, realtime), 0, NULL, NULL},
	OPTION_DAEMON(struct record_args, ask, "record"),
	OPTION_NO_DAEMON(struct record_args, no_ask),
	OPTION_CONTROL_SOCKET(struct record_args, socket),
	{"json", 0, OPTION_FLAG, NULL, "print the summary as one JSON object on standard output",
	 offsetof(struct record_args, json), 0, NULL, NULL},
	{0},
};

const struct options record_options = {
	.command = "record",
	.usage = "[OPTIONS] -a | -p PID[,PID] | [--] COMMAND [ARGUMENTS]",
	.description = "Samples the machine, processes or a command and writes a symbolised trace.",
	.json = VERDICT_JSON,
	.details = {"The exit status is that of the command: 127 if it was not found, 126 if it "
		    "cannot be executed, 128 + N after signal N, 0 after --duration. It is 1 if "
		    "perfwind failed and 2 for wrong usage. If the recording fails (a full disk, a "
		    "closed pipe, a daemon that ended), the command runs on; its exit status then "
		    "counts, or 1 if it is 0.",
		    "Ctrl-C ends the recording; a second one ends perfwind at once. A SIGINT for "
		    "perfwind alone ends the recording, and perfwind waits for the command.",
		    "The trace is readable by its owner only. It can be read up to its last whole "
		    "packet at any moment. An output that is a device or a pipe is written to "
		    "directly.",
		    "The last lines are the verdict: the share of CPU time that was seen, outcomes "
		    "of stacks, losses, cost, the file, and modules without symbols."},
	.examples = "# a command with its children, into perfwind.pftrace\n"
		    "perfwind record -- make -j8\n\n"
		    "# a running process for 10 seconds, 4000 samples a second\n"
		    "perfwind record -p 1234 -d 10 -F 4000 -o server.pftrace\n\n"
		    "# the whole machine until Ctrl-C\n"
		    "sudo perfwind record -a\n\n"
		    "# each context switch to another task, with its stack\n"
		    "sudo perfwind record -e sched:sched_switch -c 1 --filter 'prev_state != 0' -a "
		    "-d 5\n\n"
		    "# page faults in user code only, with the verdict for a program\n"
		    "perfwind record -e page-faults:u --json -- ./server >verdict.json\n\n"
		    "# cycles, and instructions counted at each sample\n"
		    "perfwind record -e cycles,instructions -- ./work",
	.defs = defs,
	.max_arguments = -1,
	.stop_at_argument = true,
};

int record_args_check(struct record_args *args, bool command)
{
	int targets = args->all + (args->n_pids > 0) + command;

	if (targets != 1) {
		log_error(
			targets ? "-a, -p and a command exclude each other"
				: "record needs a target: -a (the machine), -p PID, or a command");
		return -EINVAL;
	}
	if (args->ask && args->no_ask) {
		log_error("--daemon and --no-daemon exclude each other");
		return -EINVAL;
	}
	if (args->ask && args->perf_data) {
		log_error("--perf-data works without a daemon only: a daemon does not hand out raw "
			  "records");
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
	if (args->user_only && args->kernel_only) {
		log_error("--user-only and --kernel-only exclude each other");
		return -EINVAL;
	}
	if (args->stack_bytes % 8) {
		log_error("--stack-bytes must be a multiple of 8");
		return -EINVAL;
	}
	if (!args->frequency && !args->period)
		args->frequency = DEFAULT_HZ;
	if (!args->output)
		args->output = DEFAULT_TRACE;
	if (!args->socket)
		args->socket = CONTROL_SOCKET;
	if (args->json && !strcmp(args->output, "-")) {
		log_error("--json and -o - both use standard output");
		return -EINVAL;
	}
	return 0;
}

int record_clock(const struct record_args *args)
{
	return clock_ids[args->clock];
}
