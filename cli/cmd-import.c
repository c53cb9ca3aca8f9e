/* cmd-import.c - `perfwind import perf.data`: a trace of what `perf record` wrote.  Thread: main. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/terminal.h"
#include "cli/common-options.h"
#include "cli/module-file.h"
#include "cli/trace-input.h"
#include "trace/late-sink.h"
#include "cli/debuginfod.h"
#include "cli/verdict.h"
#include "base/error.h"
#include "import/import.h"

struct import_command {
	const char *output, *event;
	struct file_places places;
	uint32_t unwinder; /* 0: not given; else an engine + 1 */
	bool no_inline, idle, plain, json, debuginfod;
};

static const char *const unwinder_names[] = {"auto", "native",	"libunwind", "libdw",
					     "fp",   "fp-copy", NULL};

#define AT(member) .offset = offsetof(struct import_command, member)
static const struct option_def defs[] = {
	TEXT("output", 'o', "FILE", output,
	     "the trace (default: FILE with the suffix .pftrace; an existing one becomes\n"
	     "FILE.old)"),
	TEXT("event", 'e', "EVENT", event,
	     "the event to import, of a recording with several (default: the first)"),
	OPTION_PLACES(places),
	OPTION_DEBUGINFOD(debuginfod),
	FLAG("no-inline", 0, no_inline, "symbols only, no inlined calls and source lines"),
	CHOICE("unwinder", "ENGINE", unwinder, unwinder_names,
	       "unwinder of copied stacks (--call-graph dwarf): native, libunwind, libdw "
	       "or\nfp-copy; fp: use the kernel's callchains instead"),
	FLAG("idle", 0, idle, "keep samples of the idle task"),
	FLAG("plain", 0, plain, "write packets without compression (three times the size)"),
	FLAG("json", 0, json, "the verdict as one JSON object on standard output"),
	{0},
};

static const struct options options = {
	.command = "import",
	.usage = "[OPTIONS] [FILE]",
	.description =
		"Makes a trace of a perf.data file, or of the output of `perf record -o -` "
		"(FILE: -).  FILE defaults to perf.data.\nSymbols come from the files on this "
		"machine, if their build id "
		"or inode proves that they\nare the recorded ones; else from perf's build-id "
		"cache (~/.debug), from a tarball of\n`perf archive` (FILE.tar.bz2 next to FILE, "
		"or --buildid-dir) or from --symfs.",
	.json = VERDICT_JSON_IMPORT,
	.defs = defs,
	.details = {"One event of the recording is imported; a note names the others. A mapped "
		    "file is found by its path and trusted by build id or inode: no names rather "
		    "than wrong ones. Damaged recordings are imported as far as possible, and a "
		    "note reports the rest."},
	.examples =
		"# perf.data.pftrace, a trace with names\n"
		"perf record --call-graph dwarf -- ./work\n"
		"perfwind import perf.data\n"
		"perfwind report perf.data.pftrace\n\n"
		"# through a pipe\n"
		"perf record --call-graph dwarf -o - -- ./work | perfwind import -o work.pftrace -",
	.max_arguments = 1,
};

/* "perf.data" -> "perf.data.pftrace"; standard input -> "perfwind.pftrace".  New memory. */
static char *output_of(const struct import_command *command, const char *input)
{
	char *name;

	if (command->output)
		return strdup(command->output);
	if (!strcmp(input, "-"))
		return strdup(DEFAULT_TRACE);
	return asprintf(&name, "%s.pftrace", input) < 0 ? NULL : name;
}

/* perf archive leaves FILE.tar.bz2 next to FILE.  What is wrong with it is not a failure: it was not asked for. */
static void use_archive_of(const char *input, struct file_places *places, struct archive *archive)
{
	_cleanup_(freep) char *path = NULL;
	struct stat st;

	if (places->buildid_dir || places->archive || asprintf(&path, "%s.tar.bz2", input) < 0)
		return;
	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	log_info("files of the recording come from %s, too", path);
	if (archive_unpack(path, archive) >= 0)
		places->archive = archive->folder;
}

static bool is_file(int fd, const char *path)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && S_ISREG(a.st_mode) && stat(path, &b) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static void print_result(const struct import_command *command, const struct import_result *result,
			 const char *file, const struct sink *sink, bool complete)
{
	const struct verdict verdict = {
		.summary = &result->summary,
		.file = file,
		.event = result->event,
		.frequency = result->frequency,
		.period = result->period,
		.damage = &result->damage,
		.stack_bytes = result->stack_bytes,
		.unwritten = verdict_unwritten(&result->summary, sink, 0),
		.complete = complete,
	};

	if (log_level > LOG_LEVEL_QUIET)
		verdict_print(&verdict, stderr);
	if (command->json)
		verdict_print_json(&verdict, stdout);
}

/* Errors that only a file that is written has. */
static bool is_of_output(int r)
{
	return r == -ENOSPC || r == -EDQUOT || r == -EFBIG || r == -EPIPE;
}

static int import_file(const struct import_command *command, const char *input, const char *output)
{
	const struct import_options io = {
		.event = command->event,
		.no_inline = command->no_inline,
		.idle = command->idle,
		.places = command->places,
		.engine_chosen = command->unwinder > 0,
		.engine = (enum uw_engine_kind)(command->unwinder ? command->unwinder - 1 : 0),
	};
	_cleanup_(fd_closep) int fd = trace_input_open_recording(input);
	struct import_result result;
	struct sink *sink;
	char error[512];
	int r;

	if (fd < 0)
		return fd;
	if (is_file(fd, output)) {
		log_error("%s: is the input, and cannot be the trace too", output);
		return -EINVAL;
	}
	r = late_sink_new_threaded(output, command->plain, &sink);
	if (r < 0) {
		log_error("%s: %s", output, strerror(-r));
		return r;
	}
	r = import_run(fd, &io, sink, &result, error, sizeof(error));
	if (r >= 0) {
		r = late_sink_end(sink, false);
		result.summary.bytes = sink->bytes;
		if (r < 0)
			(void)snprintf(error, sizeof(error), "cannot be imported: %s",
				       strerror(-r));
	}
	if (r >= 0)
		print_result(command, &result, output, sink, r == 0);
	else if (is_of_output(r) && !late_sink_report(sink))
		log_error("writing the trace to %s: %s", output, strerror(-r));
	else if (!late_sink_report(sink))
		log_error("%s %s", strcmp(input, "-") ? input : "standard input", error);
	import_result_deinit(&result);
	(void)sink_free(sink);
	return r;
}

static int import_main(int argc, char **argv)
{
	const struct sigaction ignored = {.sa_handler = SIG_IGN};
	_cleanup_(freep) char *output = NULL;
	struct import_command command = {0};
	_cleanup_(archive_deinit) struct archive archive = {.keeper = 0};
	struct symbolize_later later = {.pid = 0};
	const char *input;
	int n, r;

	r = options_parse(&options, argc, argv, &command, &n);
	if (r != 0)
		return options_exit_status(r);
	if (module_file_open_places(&command.places, &archive) < 0)
		return 2;
	input = n ? argv[0] : "perf.data";
	output = output_of(&command, input);
	if (!output) {
		log_error("%s", strerror(ENOMEM));
		return 1;
	}
	if (command.json && !strcmp(output, "-")) {
		log_error("--json and -o - both use standard output");
		return 2;
	}
	if (terminal_refuses_output("import", output))
		return 2;
	if (symbolize_later_start(&later, command.debuginfod, output) < 0)
		return 2;
	use_archive_of(input, &command.places, &archive);
	/* A reader of `-o -` that goes away is an error of writing. */
	(void)sigaction(SIGPIPE, &ignored, NULL);
	r = import_file(&command, input, output);
	symbolize_later_end(&later, r < 0 ? NULL : output);
	return r < 0 ? 1 : 0;
}

const struct command command_import = {
	.name = "import",
	.summary = "make a trace of a perf.data file",
	.run = import_main,
	.options = &options,
};
