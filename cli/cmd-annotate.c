/* cmd-annotate.c - `perfwind annotate FUNC [FILE]`: which lines and instructions of a function the samples are at.
 * Thread: main. */
#include <errno.h>
#include <string.h>

#include "cli/annotate.h"
#include "cli/command.h"
#include "cli/common-options.h"
#include "cli/module-file.h"
#include "cli/filter-options.h"
#include "cli/terminal.h"
#include "cli/trace-input.h"
#include "base/error.h"

enum { LINES = 20 };

struct annotate_command {
	struct profile_filter only;
	struct file_places places;
	const char *event, *input, *symbol, *jitdump;
	uint32_t limit;
	bool all, intel, json;
};

#define AT(member) .offset = offsetof(struct annotate_command, member)

static int set_syntax(void *to, const char *value)
{
	((struct annotate_command *)to)->intel = !strcmp(value, "intel");
	return 0;
}

static const struct option_def defs[] = {
	NUMBER("limit", 'n', OPTION_U32, "N", limit, 0,
	       "at most N lines in a table of lines, 0: all (default: 20)"),
	FLAG("all", 'a', all, "all instructions, not only those near samples"),
	FLAG("intel", 0, intel, "Intel's syntax (default: that of the GNU tools)"),
	TEXT("event", 'e', "EVENT", event, EVENT_OPTION_HELP),
	OPTION_FILTERS(only),
	OPTION_PLACES(places),
	TEXT("jitdump", 0, "FILE", jitdump,
	     "the code of a JIT compiler (default: jit-PID.dump here or in /tmp)"),
	FLAG("json", 0, json, "one JSON object on standard output, with all instructions"),
	{0},
};

/* perf-annotate(1) */
static const struct option_def foreign[] = {
	TEXT("input", 'i', "FILE", input, NULL),
	TEXT("symbol", 's', "FUNC", symbol, NULL),
	CALL("disassembler-style", 'M', "SYNTAX", set_syntax, NULL),
	IGNORED("stdio", 0, NULL, NULL),
	IGNORED("stdio2", 0, NULL, NULL),
	IGNORED("tui", 0, NULL, "the result is text"),
	IGNORED("print-line", 'l', NULL, NULL),
	IGNORED("full-paths", 'P', NULL, "--json has whole paths"),
	IGNORED("force", 'f', NULL, NULL),
	IGNORED("source", 0, NULL, NULL),
	IGNORED("asm-raw", 0, NULL, NULL),
	IGNORED("objdump", 0, "PATH", "the disassembler is libcapstone"),
	IGNORED("vmlinux", 'k', "FILE", "kernel code is not annotated"),
	REFUSED("dsos", 'd', "NAME", "the module with the most samples of the function is shown"),
	{0},
};

static const struct options options = {
	.command = "annotate",
	.usage = "[OPTIONS] FUNC [FILE]",
	.description =
		"Shows which source lines and instructions of a function its samples are at.  FILE "
		"defaults to\n" DEFAULT_TRACE "; a perf.data file is imported first.",
	.defs = defs,
	.foreign = foreign,
	.json = "{\"function\",\"module\",\"event\",\"weight\",\"samples\",\"self\",\"self_"
		"samples\","
		"\"inlined\",\n \"inlined_samples\",\"called\",\"called_samples\",\"note\" or "
		"null,\n"
		" \"lines\":[{\"file\" or null,\"line\", figures,\"self\",\"self_samples\"}],\n"
		" \"inlined_lines\":[{\"file\" or null,\"line\", figures}],\n"
		" \"parts\":[{\"function\", figures,\n"
		"   \"instructions\":[{\"address\",\"text\",\"file\" or null,\"line\", "
		"figures}]}]}\n"
		"figures: \"percent\" (of self and inlined),\"weight\",\"samples\"",
	.details =
		{"The first lines state the samples in the function itself (the self column of "
		 "report), in functions that were inlined into it, and in functions that it "
		 "called; the sum is report's total. Percentages are of the first two. The first "
		 "table has the lines of the function: an inlined call counts at the line that "
		 "calls it, and the column self leaves it out. The second table has the lines of "
		 "the inlined functions themselves. FUNC may be a function that was inlined: all "
		 "places are added up, and the instructions are shown in each function around it.",
		 "Instructions and lines come from the module's file: that at its path or in the "
		 "build-id cache, if it has the build id of the trace, or the copy below --symfs. "
		 "Without the file, the lines of the sampled addresses come from the trace. The "
		 "text of lines is read from the source files that the debug information names; "
		 "whether they are of the same version is not checked. Code of a JIT compiler "
		 "comes from "
		 "a jitdump, kernel code from nowhere: a trace has no addresses of it.",
		 "A timer samples the instruction that runs when its interrupt is taken: the "
		 "instruction that took long is often the one before."},
	.examples = "# the lines of the most expensive function\n"
		    "perfwind report -n 1\nperfwind annotate parse_line\n\n"
		    "# on another machine, with copies of the programs below ./root\n"
		    "perfwind annotate --symfs ./root parse_line server.pftrace",
	.max_arguments = 2,
};

/* -s FUNC or the first argument; the rest is FILE.  -EINVAL: logged. */
static int take_arguments(struct annotate_command *command, int n, char **argv)
{
	if (!command->symbol && n)
		command->symbol = *argv++, n--;
	if (n > 1 || (n && command->input)) {
		log_error("annotate takes one FUNC and one FILE");
		return -EINVAL;
	}
	if (n)
		command->input = *argv;
	if (command->symbol)
		return 0;
	log_error("annotate needs a function: perfwind annotate FUNC [FILE] (`perfwind report` "
		  "lists them)");
	return -EINVAL;
}

static int annotate(const struct annotate_command *command, const struct profile *profile)
{
	const struct annotate_options how = {
		.function = command->symbol,
		.only = &command->only,
		.places = &command->places,
		.jitdump = command->jitdump,
		.intel = command->intel,
	};
	const struct annotate_form form = {
		.event = profile->event_name,
		.symfs = command->places.symfs,
		.limit = command->limit,
		.all = command->all,
		.json = command->json,
	};
	struct annotation annotation;
	int r = annotate_init(&annotation, profile, &how);

	if (r == -ENODATA)
		log_error("annotate: '%.128s' has no sample of its own, only in functions that it "
			  "called (report --callees %.128s)",
			  command->symbol, command->symbol);
	else if (r < 0)
		log_error("annotate: %s", profile_strerror(profile, r));
	if (r < 0)
		return r;
	r = annotate_write(&annotation, &form, stdout);
	annotate_deinit(&annotation);
	if (r < 0) {
		log_error("annotate: %s", strerror(-r));
		terminal_output_reported();
	}
	return r;
}

static int annotate_run(int argc, char **argv)
{
	_cleanup_(profile_deinit) struct profile profile = {0};
	struct annotate_command command = {.limit = LINES};
	_cleanup_(archive_deinit) struct archive archive = {.keeper = 0};
	struct trace_input input;
	const char *path;
	int n, r = options_parse(&options, argc, argv, &command, &n);

	if (r)
		return options_exit_status(r);
	if (module_file_open_places(&command.places, &archive) < 0)
		return 2;
	if (take_arguments(&command, n, argv) < 0)
		return 2;
	input = (struct trace_input){
		.path = command.input, .event = command.event, .only = &command.only};
	path = input.path ? input.path : DEFAULT_TRACE;
	if (trace_input_read(&input, "annotate", &profile) < 0)
		return 1;
	trace_input_note_damage(&profile, "annotate", path);
	if (trace_input_none_left(&profile, "annotate", path))
		return 1;
	trace_input_note_others(&profile, "annotate");
	return annotate(&command, &profile) < 0;
}

const struct command command_annotate = {
	"annotate", "show the lines and instructions of a function", annotate_run, &options};
