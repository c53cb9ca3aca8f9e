/* cmd-diff.c - `perfwind diff A B`: what changed between two traces.  Thread: main. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/common-options.h"
#include "cli/filter-options.h"
#include "cli/terminal.h"
#include "cli/trace-input.h"
#include "base/error.h"
#include "profile/diff-inlined.h"
#include "profile/diff.h"

enum { ROWS = 40, STATUS_ABOVE = 3 };

struct diff_command {
	struct diff_options how;
	uint32_t by;
	const char *event, *page;
	bool no_colour;
};

/* "5%" or "5". */
static int set_fail_above(void *to, const char *value)
{
	struct diff_command *command = to;
	char *end;
	double percent = *value >= '0' && *value <= '9' ? strtod(value, &end) : -1;

	if (percent >= 0 && percent <= 100 && (!*end || !strcmp(end, "%") || !strcmp(end, " %"))) {
		command->how.fail_above = percent;
		return 0;
	}
	log_error("diff: --fail-above takes a percentage like 5%%: '%.64s' is not one", value);
	return -EINVAL;
}

static const char *const scale_values[] = {"median",  "total",	"time",		"share",
					   "samples", "cycles", "instructions", NULL};

/* A name of a scale; another is an event's. */
static int set_scale(void *to, const char *value)
{
	struct diff_command *command = to;

	command->how.counter = value;
	command->how.scale = !strcmp(value, "time") ? DIFF_SECOND : DIFF_COUNTER;
	for (uint32_t i = 0; diff_scale_names[i]; i++)
		if (!strcmp(diff_scale_names[i], value))
			command->how.scale = (enum diff_scale)i;
	return 0;
}

#define AT(member) .offset = offsetof(struct diff_command, member)
static const struct option_def defs[] = {
	{.name = "by",
	 .letter = 'b',
	 .type = OPTION_CHOICE,
	 .argument = "WHAT",
	 .choices = diff_by_names,
	 AT(by),
	 .help = "rows: function (default), process, thread, module or tree (call paths)"},
	TEXT("html", 0, "FILE", page,
	     "write a page too: a flame graph, red and blue (a new file is readable by its owner "
	     "only)"),
	FLAG("total", 0, how.total, "compare functions with all that they called, not alone"),
	{.name = "normalise",
	 .type = OPTION_CALL,
	 .argument = "HOW",
	 .choices = scale_values,
	 .call = set_scale,
	 .help = "median (default: the middle row has not changed), total (as recorded), time (per "
		 "second of recording), share (of the whole), samples (their numbers), or an event "
		 "that both traces count, like instructions"},
	CALL("fail-above", 0, "P", set_fail_above,
	     "exit with status 3 if a row, or (where rows are not compared by median or share) "
	     "the whole, grew significantly, by more than P percent of all of A"),
	FLAG("all", 'a', how.all, "rows without a significant change too"),
	NUMBER("limit", 'n', OPTION_U32, "N", how.limit, 0, "at most N rows, 0: all (default: 40)"),
	TEXT("event", 'e', "EVENT", event, EVENT_OPTION_HELP),
	OPTION_FILTERS(how.only),
	FLAG("json", 0, how.json, "one JSON object on standard output"),
	FLAG("no-colour", 0, no_colour, "plain text, also on a terminal"),
	FLAG("no-color", 0, no_colour, NULL),
	{0},
};

static const struct options options = {
	.command = "diff",
	.usage = "[OPTIONS] A B",
	.description =
		"Shows which functions cost more or less in trace B than in trace A: the "
		"change in\npercent of all of A, with the interval in which it lies.  Functions "
		"are matched by\nname, so the programs may be different builds.",
	.defs = defs,
	.details =
		{"A change is significant if its interval (+-) leaves out 0. The intervals hold "
		 "for all rows together with 95 % confidence; they take into account how many "
		 "samples there are, that two runs of one program differ by about 2 %, and how "
		 "much the middle row of these two differs from the ratio that the rows share.",
		 "By default B is scaled so that the middle row has not changed: on a machine that "
		 "was slower the second time, one function that became slower stands out alone. "
		 "A change of all functions alike, or of most of a program with few functions, is "
		 "found with --normalise total, which is right where both did the same work on "
		 "equal machines; where the whole changed, a line has it. With fewer than five "
		 "rows of 50 samples there is no median: profiles with equal shares are then "
		 "compared by share, others as recorded. --normalise EVENT compares the cost of "
		 "one occurrence: the event was "
		 "counted at each sample (record -e cycles,instructions) or sampled in the same "
		 "trace (record -e cycles -e page-faults); it is counted in the whole "
		 "traces, also where --pid and other filters leave samples out.",
		 "A function that is gone, and one of the same module that is new or grew by the "
		 "same cost, are listed apart as renamed or inlined; --fail-above does not count "
		 "them. Where all samples of a trace are of processes of one name, the names of "
		 "the two programs may differ. --by tree compares call paths, with the same "
		 "intervals. Where one trace has no inlined calls of a module (record --no-inline, "
		 "a build without debug information or optimisation; not where it has source lines "
		 "for almost all addresses of the same build), inlined calls of the other count "
		 "for the functions that "
		 "contain them, except where it has them as functions of their own.",
		 "The exit status is 0, 1 if a file cannot be compared, 2 for wrong usage, and 3 "
		 "if --fail-above applies."},
	.examples = "# a change that costs\n"
		    "perfwind record -o old.pftrace -- ./work-1.0\n"
		    "perfwind record -o new.pftrace -- ./work-1.1\n"
		    "perfwind diff old.pftrace new.pftrace\n\n"
		    "# for continuous integration: the same work on equal machines\n"
		    "perfwind diff --normalise total --fail-above 5% main.pftrace new.pftrace\n\n"
		    "# the cost per request: a counter that both traces have\n"
		    "perfwind record -e cycles,uprobe:./server:handle -o old.pftrace -- ./bench\n"
		    "perfwind diff --normalise uprobe:./server:handle old.pftrace new.pftrace\n\n"
		    "# the same call paths, and a page that shows them\n"
		    "perfwind diff --by tree --html diff.html main.pftrace branch.pftrace",
	.min_arguments = 2,
	.max_arguments = 2,
};

static int write_page(const struct diff_command *command, const struct diff *diff,
		      const char *const names[2])
{
	_cleanup_(file_closep) FILE *page = file_create(command->page, O_TRUNC);
	int r = page ? diff_page_write(diff, names, page) : -errno;

	if (r < 0)
		log_error("%s: %s", command->page, strerror(-r));
	return r;
}

static int compare(const struct diff_command *command, const struct profile profiles[2],
		   const char *const names[2])
{
	char error[256] = "";
	struct diff diff;
	bool above;
	int r = diff_init(&diff, &profiles[0], &profiles[1], &command->how, error, sizeof(error));

	if (r < 0) {
		log_error("diff: %s", *error ? error : strerror(-r));
		return 1;
	}
	if (diff_renames(&diff))
		log_info("diff: %s of %s is compared with %s of %s", diff.programs[1].process,
			 names[1], diff.programs[0].process, names[0]);
	r = command->page ? write_page(command, &diff, names) : 0;
	if (r < 0) {
		diff_deinit(&diff);
		return 1;
	}
	r = diff_write(&diff, &command->how, names, stdout);
	above = diff_fails(&diff, &command->how);
	diff_deinit(&diff);
	if (r < 0) {
		log_error("diff: %s", strerror(-r));
		terminal_output_reported();
		return 1;
	}
	if (above)
		log_error("diff: a row, or the whole, grew by more than %g %% of %s",
			  command->how.fail_above, names[0]);
	return above ? STATUS_ABOVE : 0;
}

static int merge_inlined(struct profile profiles[2], const char *const names[2])
{
	for (size_t i = 0; i < 2; i++) {
		const char *module;
		int r = diff_merge_inlined(&profiles[i], &profiles[!i], &module);

		if (r < 0) {
			log_error("diff: %s", strerror(-r));
			return r;
		}
		if (r > 0)
			log_info("diff: %s has no inlined calls of %s (record --no-inline, no "
				 "debug information, or another build): inlined calls of %s count "
				 "for the "
				 "functions that contain them",
				 names[!i], module, names[i]);
	}
	return 0;
}

/* Two events of one unit can be compared, and the answer is seldom the one that was asked for. */
static void note_events(const struct profile profiles[2], const char *const names[2])
{
	if (strcmp(profiles[0].event_name, profiles[1].event_name))
		log_info("diff: %s counts %s, %s counts %s: --event chooses", names[0],
			 profiles[0].event_name, names[1], profiles[1].event_name);
}

static int diff_run(int argc, char **argv)
{
	struct diff_command command = {.how = {.limit = ROWS, .fail_above = -1}};
	struct profile profiles[2];
	int n, r, status = 0;

	memset(profiles, 0, sizeof(profiles));
	r = options_parse(&options, argc, argv, &command, &n);
	if (r)
		return options_exit_status(r);
	command.how.tree = command.by == DIFF_BY_TREE;
	command.how.by = command.how.tree ? REPORT_FUNCTION : (enum report_by)command.by;
	command.how.page = command.page != NULL;
	command.how.width = terminal_columns();
	command.how.colour = !command.no_colour && terminal_colour();
	for (size_t i = 0; i < 2 && !status; i++) {
		const struct trace_input input = {
			.path = argv[i], .event = command.event, .only = &command.how.only};

		if (trace_input_read(&input, "diff", &profiles[i]) < 0) {
			profiles[i] = (struct profile){0};
			status = 1;
		} else {
			trace_input_note_damage(&profiles[i], "diff", argv[i]);
		}
	}
	if (!status)
		status = merge_inlined(profiles, (const char *[]){argv[0], argv[1]}) < 0;
	if (!status)
		note_events(profiles, (const char *[]){argv[0], argv[1]});
	if (!status)
		status = compare(&command, profiles, (const char *[]){argv[0], argv[1]});
	for (size_t i = 0; i < 2; i++)
		profile_deinit(&profiles[i]);
	return status;
}

const struct command command_diff = {"diff", "compare two traces, with the error of each change",
				     diff_run, &options};
