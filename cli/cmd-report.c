/* cmd-report.c - `perfwind report [FILE]`: the verdict and the top of a trace, on a terminal.  Thread:
 * main. */
#include <errno.h>
#include <string.h>

#include "cli/command.h"
#include "cli/common-options.h"
#include "cli/event.h"
#include "cli/terminal.h"
#include "base/error.h"
#include "profile/profile-export.h"

struct report_command {
	enum report_by by;
	bool tree, no_colour;
	uint32_t limit;
	struct profile_filter only;
	const char *event;
	double min_percent;
};

#define AT(member) .offset = offsetof(struct report_command, member)
static const struct option_def defs[] = {
	OPTION_BY(struct report_command, by),
	{.name = "tree",
	 .letter = 't',
	 .type = OPTION_FLAG,
	 AT(tree),
	 .help = "a call tree in place of the table"},
	{.name = "limit",
	 .letter = 'n',
	 .type = OPTION_U32,
	 .argument = "N",
	 AT(limit),
	 .help = "at most N rows, 0: all (default: 40, of a tree 400)"},
	{.name = "event",
	 .letter = 'e',
	 .type = OPTION_STRING,
	 .argument = "EVENT",
	 AT(event),
	 .help = EVENT_OPTION_HELP},
	{.name = "pid",
	 .letter = 'p',
	 .type = OPTION_U32,
	 .argument = "PID",
	 AT(only.pid),
	 .help = "only this process"},
	{.name = "cgroup",
	 .letter = 'g',
	 .type = OPTION_STRING,
	 .argument = "PATH",
	 AT(only.cgroup),
	 .help = "only processes in this cgroup (a container's, a service's) or below it"},
	{.name = "min-percent",
	 .letter = 'm',
	 .type = OPTION_DOUBLE,
	 .argument = "P",
	 .max = 100,
	 AT(min_percent),
	 .help = "leave out branches of the tree below P percent of all (default: 0.5)"},
	{.name = "no-colour",
	 .type = OPTION_FLAG,
	 AT(no_colour),
	 .help = "plain text, also on a terminal"},
	{.name = "no-color", .type = OPTION_FLAG, AT(no_colour)},
	{0},
};

static const struct options options = {
	.command = "report",
	.usage = "[OPTIONS] [FILE]",
	.description = "Shows where the time of a trace went: self is the function alone, total "
		       "includes\nall functions that it called (a recursive call is counted once). "
		       " FILE defaults to " DEFAULT_TRACE ".",
	.defs = defs,
	.details = {"A frame that was not proved is marked with ` ?` in the tree. `[name]` stands "
		    "for functions of a module without symbols. The exit status is 1 if the file "
		    "cannot be read, or if it is damaged and no sample is left."},
	.examples = "# the 20 most expensive functions of perfwind.pftrace\n"
		    "perfwind report -n 20\n\n"
		    "# the call tree of one process\n"
		    "perfwind report --tree --pid 1234 server.pftrace\n\n"
		    "# the cost of each container or service\n"
		    "perfwind report --by cgroup server.pftrace",
	.max_arguments = 1,
};

static int report_run(int argc, char **argv)
{
	struct report_command command = {.limit = UINT32_MAX, .min_percent = 0.5};
	_cleanup_(profile_deinit) struct profile profile = {0};
	struct report_options how;
	const char *input;
	char error[256] = "";
	int n, r;

	r = options_parse(&options, argc, argv, &command, &n);
	if (r)
		return options_exit_status(r);
	input = n ? argv[0] : DEFAULT_TRACE;
	r = profile_read(input, &profile, error, sizeof(error));
	if (r < 0) {
		log_error("%s", *error ? error : strerror(-r));
		return 1;
	}
	if (event_choose(&profile, "report", command.event) < 0)
		return 1;
	event_tell_nothing(&profile, &command.only, "report");
	how = (struct report_options){
		.by = command.by,
		.tree = command.tree,
		.limit = command.limit != UINT32_MAX ? command.limit
			 : command.tree		     ? 400
						     : 40,
		.min_percent = command.min_percent,
		.only = command.only,
		.width = terminal_columns(),
		.colour = !command.no_colour && terminal_colour(),
	};
	r = report_write(&profile, &how, stdout);
	if (r < 0) {
		log_error("report of %s: %s", input, profile_strerror(&profile, r));
		terminal_output_reported();
	}
	/* The report's head lists what is missing. */
	return event_none_left(&profile, "report", input) || r < 0;
}

const struct command command_report = {"report", "show where the time of a trace went", report_run,
				       &options};
