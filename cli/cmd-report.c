/* cmd-report.c - `perfwind report [FILE]`: the verdict and the top of a trace, on a terminal.  Thread:
 * main. */
#include <errno.h>
#include <string.h>

#include "cli/command.h"
#include "cli/common-options.h"
#include "cli/filter-options.h"
#include "cli/debuginfod.h"
#include "cli/terminal.h"
#include "cli/trace-input.h"
#include "base/error.h"
#include "profile/profile-export.h"

enum { ROWS = 40, CALLS = 400 };
#define LEAST_OF_TREE 0.5 /* percent */

struct report_command {
	enum report_by by;
	enum report_sort sort;
	bool tree, no_colour, json, csv, collapse, debuginfod;
	uint32_t limit, max_depth;
	struct profile_filter only;
	const char *event, *input, *callers, *callees;
	double min_percent;
};

/* A column, or the keys of perf: they choose the rows. */
static int set_sort(void *to, const char *value)
{
	static const struct {
		const char *key;
		enum report_by by;
	} keys[] = {
		{"symbol", REPORT_FUNCTION}, {"sym", REPORT_FUNCTION},	    {"dso", REPORT_MODULE},
		{"comm", REPORT_PROCESS},    {"pid", REPORT_PID},	    {"tid", REPORT_THREAD},
		{"cgroup", REPORT_CGROUP},   {"overhead", REPORT_FUNCTION},
	};
	struct report_command *command = to;
	const char *last = strrchr(value, ',');

	for (uint32_t i = 0; report_sort_names[i]; i++)
		if (!strcmp(report_sort_names[i], value)) {
			command->sort = (enum report_sort)i;
			return 0;
		}
	last = last ? last + 1 : value;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strcmp(keys[i].key, last))
			continue;
		command->by = keys[i].by;
		if (last != value)
			log_info("report: --sort %.64s: rows are of one kind: --by %s", value,
				 report_by_names[keys[i].by]);
		return 0;
	}
	log_error("report: --sort %.64s: it is one of self, total, samples, name (or perf's comm, "
		  "pid, "
		  "tid, dso, symbol, cgroup: --by)",
		  value);
	return -EINVAL;
}

#define AT(member) .offset = offsetof(struct report_command, member)
static const struct option_def defs[] = {
	OPTION_BY(by),
	FLAG("debuginfod", 0, debuginfod,
	     "add missing names to the trace first, as symbolize --debuginfod does"),
	{.name = "sort",
	 .letter = 's',
	 .type = OPTION_CALL,
	 .argument = "COLUMN",
	 .call = set_sort,
	 .choices = report_sort_names,
	 .help = "the order of rows: self (default), total, samples or name"},
	FLAG("tree", 't', tree, "a call tree in place of the table"),
	TEXT("callers", 0, "FUNC", callers, "a tree of the callers of this function, outwards"),
	TEXT("callees", 0, "FUNC", callees, "a tree of what this function calls"),
	NUMBER("max-depth", 0, OPTION_U32, "N", max_depth, 0, "at most N calls deep"),
	FLAG("collapse-recursion", 0, collapse,
	     "of the calls of one function in a stack only the innermost"),
	NUMBER("limit", 'n', OPTION_U32, "N", limit, 0,
	       "at most N rows, 0: all (default: 40, of a tree 400)"),
	TEXT("event", 'e', "EVENT", event, EVENT_OPTION_HELP),
	OPTION_FILTERS(only),
	NUMBER("min-percent", 'm', OPTION_DOUBLE, "P", min_percent, 100,
	       "leave out branches of the tree (default: 0.5) and rows of a table (default: 0) "
	       "below P percent of all"),
	FLAG("json", 0, json, "one JSON object on standard output"),
	FLAG("csv", 0, csv, "comma-separated rows on standard output"),
	FLAG("no-colour", 0, no_colour, "plain text, also on a terminal"),
	FLAG("no-color", 0, no_colour, NULL),
	{0},
};

/* ---- options of `perf report` ---- */

/* perf-report(1), -g: "graph,0.5,callee,function,percent".  Anything else is the file. */
static bool is_call_graph(const char *word)
{
	static const char *const words[] = {"none",   "graph",	 "fractal",  "flat",	"folded",
					    "caller", "callee",	 "function", "address", "srcline",
					    "branch", "percent", "period",   "count"};

	while (*word) {
		size_t len = strcspn(word, ",");
		bool known = strspn(word, "0123456789.") == len;

		for (size_t i = 0; i < ARRAY_SIZE(words) && !known; i++)
			known = strlen(words[i]) == len && !strncmp(words[i], word, len);
		if (!known)
			return false;
		word += len + (word[len] == ',');
	}
	return true;
}

static int set_call_graph(void *to, const char *value)
{
	struct report_command *command = to;

	command->tree = !value || strncmp(value, "none", 4) != 0;
	return 0;
}

static int sort_by_total(void *to, const char *value)
{
	(void)value;
	((struct report_command *)to)->sort = REPORT_SORT_TOTAL;
	return 0;
}

static int by_thread(void *to, const char *value)
{
	(void)value;
	((struct report_command *)to)->by = REPORT_THREAD;
	return 0;
}

static const struct option_def foreign[] = {
	{.name = "call-graph",
	 .letter = 'g',
	 .type = OPTION_CALL,
	 .argument = "MODE",
	 .accepts = is_call_graph,
	 .call = set_call_graph},
	TEXT("input", 'i', "FILE", input, NULL),
	{.name = "children", .type = OPTION_CALL, .call = sort_by_total},
	{.name = "threads", .letter = 'T', .type = OPTION_CALL, .call = by_thread},
	IGNORED("no-children", 0, NULL, NULL), /* the default: self first */
	IGNORED("stdio", 0, NULL, NULL),
	IGNORED("stdio2", 0, NULL, NULL),
	IGNORED("tui", 0, NULL, "the report is text; `export --to html` makes a page"),
	IGNORED("gtk", 0, NULL, "the report is text; `export --to html` makes a page"),
	IGNORED("force", 'f', NULL, NULL),
	IGNORED("header", 0, NULL, NULL),
	IGNORED("show-nr-samples", 0, NULL, NULL),
	IGNORED("show-total-period", 0, NULL, NULL),
	IGNORED("demangle", 0, NULL, NULL),
	IGNORED("percentage", 0, "WHICH", "percentages are of all that the options choose"),
	IGNORED("vmlinux", 'k', "FILE", "the trace has its names already"),
	IGNORED("kallsyms", 0, "FILE", "the trace has its names already"),
	IGNORED("symfs", 0, "FOLDER", "the trace has its names already"),
	IGNORED("no-inline", 0, NULL, "`perfwind import --no-inline` leaves inlined calls out"),
	TEXT("tid", 0, "TID", only.thread, NULL),
	TEXT("comms", 'c', "NAME", only.comm, NULL),
	TEXT("symbols", 'S', "FUNC", only.function, NULL),
	TEXT("symbol-filter", 0, "FUNC", only.function, NULL),
	NUMBER("percent-limit", 0, OPTION_DOUBLE, "P", min_percent, 100, NULL),
	NUMBER("max-stack", 0, OPTION_U32, "N", max_depth, 0, NULL),
	REFUSED("inverted", 'G', NULL, "--callers FUNC shows the callers of a function"),
	REFUSED("dsos", 'd', "NAME", "--by module shows modules"),
	{0},
};

static const struct options options = {
	.command = "report",
	.usage = "[OPTIONS] [FILE]",
	.description = "Shows where the time of a trace went: self is the function alone, total "
		       "includes\nall functions that it called (a recursive call is counted once). "
		       " FILE defaults to " DEFAULT_TRACE ".\nA perf.data file is imported first.",
	.defs = defs,
	.foreign = foreign,
	.details =
		{"What was not proved is marked with ` ?` behind the name, or with ` ? 12 %` if "
		 "that "
		 "holds for this share of the samples: in a table, of the row's total, those in "
		 "which each of its calls is a guess; in a tree, those in which the call or one "
		 "above it is, since a path with a wrong call is wrong from there on. `[name]` "
		 "stands for functions of a "
		 "module without symbols, `(inlined)` for calls that the compiler inlined in all "
		 "stacks. Processes of one name are one row; --by pid separates them. The exit "
		 "status is 1 if the file cannot be read, or if it is damaged and no sample is "
		 "left.",
		 "FUNC is the name of a function, its name without parameters, or the last part of "
		 "that: `push_back` is `std::vector<int>::push_back(int const&)`.",
		 "MARK is the name of a section of `record --marks` (docs/marks.md). --by mark has "
		 "a row for each name, in the order of the 99th percentile of its durations, then "
		 "the longest section of each with its heaviest stacks.",
		 "Options of perf-report(1) that have an equivalent are understood: -i, -g, "
		 "--stdio, --no-children, --children, --sort comm,dso,symbol, -c, -S, "
		 "--percent-limit (see docs/from-perf.md)."},
	.examples = "# the 20 most expensive functions of perfwind.pftrace\n"
		    "perfwind report -n 20\n\n"
		    "# the call tree of one process\n"
		    "perfwind report --tree --pid 1234 server.pftrace\n\n"
		    "# the callers of malloc\n"
		    "perfwind report --callers malloc\n\n"
		    "# half a second of one thread, for a program\n"
		    "perfwind report --thread worker --time 1.5s-2s --json\n\n"
		    "# sections that a program marks, slowest first; functions inside one\n"
		    "perfwind report --by mark\n"
		    "perfwind report --during draw\n\n"
		    "# the cost of each container or service\n"
		    "perfwind report --by cgroup server.pftrace",
	.max_arguments = 1,
};

static int check(const struct report_command *command, bool argument)
{
	if (command->callers && command->callees)
		log_error("report: --callers and --callees exclude each other");
	else if (command->json && command->csv)
		log_error("report: --json and --csv exclude each other");
	else if (command->input && argument)
		log_error("report: -i and FILE exclude each other");
	else
		return 0;
	return -EINVAL;
}

static struct report_options options_of(const struct report_command *command)
{
	bool data = command->json || command->csv,
	     tree = command->tree || command->callers || command->callees;

	return (struct report_options){
		.by = command->by,
		.sort = command->sort,
		.form = command->json  ? REPORT_JSON
			: command->csv ? REPORT_CSV
				       : REPORT_TEXT,
		.tree = command->tree,
		.callers = command->callers,
		.callees = command->callees,
		.max_depth = command->max_depth,
		.limit = command->limit != UINT32_MAX ? command->limit
			 : data			      ? 0
			 : tree			      ? CALLS
						      : ROWS,
		.min_percent = command->min_percent >= 0 ? command->min_percent
			       : tree			 ? LEAST_OF_TREE
							 : 0,
		.only = command->only,
		.width = terminal_columns(),
		.colour = !command->no_colour && terminal_colour(),
	};
}

static int add_names(const char *path)
{
	struct symbolize_later names;
	int r = symbolize_later_start(&names, true, path);

	if (r >= 0)
		symbolize_later_end(&names, path);
	return r;
}

static int report_run(int argc, char **argv)
{
	struct report_command command = {.limit = UINT32_MAX, .min_percent = -1};
	_cleanup_(profile_deinit) struct profile profile = {0};
	struct report_options how;
	struct trace_input input = {0};
	const char *path;
	int n, r;

	r = options_parse(&options, argc, argv, &command, &n);
	if (r)
		return options_exit_status(r);
	if (check(&command, n > 0) < 0)
		return 2;
	input = (struct trace_input){
		.path = n ? argv[0] : command.input, .event = command.event, .only = &command.only};
	path = input.path ? input.path : DEFAULT_TRACE;
	if (command.debuginfod && add_names(path) < 0)
		return 2;
	if (trace_input_read(&input, "report", &profile) < 0)
		return 1;
	if (command.collapse)
		profile_collapse_recursion(&profile);
	how = options_of(&command);
	r = report_write(&profile, &how, stdout);
	if (r < 0) {
		log_error("report of %s, to standard output: %s", path,
			  r == -EBADF ? "it is closed" : profile_strerror(&profile, r));
		terminal_output_reported();
	}
	/* The report's head lists what is missing. */
	return trace_input_none_left(&profile, "report", path) || r < 0;
}

const struct command command_report = {"report", "show where the time of a trace went", report_run,
				       &options};
