/* cmd-script.c - `perfwind script [FILE]`: the samples of a trace, as perf-script(1) prints them.  Thread: main. */
#include <errno.h>
#include <string.h>

#include "cli/command.h"
#include "cli/common-options.h"
#include "cli/filter-options.h"
#include "cli/terminal.h"
#include "cli/trace-input.h"
#include "base/error.h"
#include "profile/script.h"

struct script_command {
	struct profile_filter only;
	const char *event, *input;
	uint64_t limit;
};

#define AT(member) .offset = offsetof(struct script_command, member)
static const struct option_def defs[] = {
	NUMBER("limit", 'n', OPTION_U64, "N", limit, 0, "at most N samples (default: all)"),
	TEXT("event", 'e', "EVENT", event, EVENT_OPTION_HELP),
	OPTION_FILTERS(only),
	{0},
};

/* perf-script(1) */
static const struct option_def foreign[] = {
	TEXT("input", 'i', "FILE", input, NULL),
	TEXT("tid", 0, "TID", only.thread, NULL),
	TEXT("comms", 'c', "NAME", only.comm, NULL),
	TEXT("symbols", 'S', "FUNC", only.function, NULL),
	IGNORED("force", 'f', NULL, NULL),
	IGNORED("header", 0, NULL,
		"a trace has no header of this kind; `perfwind report` prints its facts"),
	IGNORED("fields", 'F', "LIST",
		"the fields are comm, pid, tid, cpu, time, period, event, ip, sym, dso"),
	REFUSED("script", 's', "FILE",
		"scripts are not run; pipe the text into one: perfwind script | FILE"),
	REFUSED("gen-script", 'g', "LANGUAGE", "scripts are not run"),
	{0},
};

static const struct options options = {
	.command = "script",
	.usage = "[OPTIONS] [FILE]",
	.description =
		"Prints each sample with its stack, innermost call first, in the form of "
		"perf-script(1), for\nscripts that read that.  FILE defaults to " DEFAULT_TRACE
		"; a perf.data file is imported\nfirst.",
	.defs = defs,
	.foreign = foreign,
	.details =
		{"A sample begins with `COMM PID/TID [CPU] SECONDS: PERIOD EVENT:` and ends "
		 "with an "
		 "empty line. Each line between is an address in the file of the module, the "
		 "function, and the module, or `(inlined)`. Times are of the trace's clock "
		 "(CLOCK_BOOTTIME). A frame that is a guess (nothing proved it) has ` [guessed]` "
		 "behind the "
		 "module, where parsers of this form do not read it: a function keeps one name."},
	.examples = "# the flame graph scripts, without `perf script`\n"
		    "perfwind script | stackcollapse-perf.pl | flamegraph.pl >out.svg\n\n"
		    "# the first ten samples of one thread\n"
		    "perfwind script -n 10 --thread worker server.pftrace",
	.max_arguments = 1,
};

static int script_run(int argc, char **argv)
{
	_cleanup_(profile_deinit) struct profile profile = {0};
	struct script_command command = {0};
	struct trace_input input;
	int n, r = options_parse(&options, argc, argv, &command, &n);

	if (r)
		return options_exit_status(r);
	input = (struct trace_input){
		.path = n ? argv[0] : command.input, .event = command.event, .only = &command.only};
	if (trace_input_read(&input, "script", &profile) < 0)
		return 1;
	trace_input_note_damage(&profile, "script", input.path ? input.path : DEFAULT_TRACE);
	if (trace_input_none_left(&profile, "script", input.path ? input.path : DEFAULT_TRACE))
		return 1;
	trace_input_note_others(&profile, "script");
	r = script_write(&profile, &command.only, command.limit, stdout);
	if (r < 0) {
		log_error("script: %s", profile_strerror(&profile, r));
		terminal_output_reported();
	}
	return r < 0;
}

const struct command command_script = {"script", "print each sample, as perf script does",
				       script_run, &options};
