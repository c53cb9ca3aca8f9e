/* cmd-export.c - `perfwind export --to FORMAT FILE`.  Thread: main.
 * Written to FILE's name with the format's suffix, or to -o; a temporary file next to it that is
 * renamed when it is whole, so that a full disk or a signal leaves no half of a file under the
 * name. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/common-options.h"
#include "cli/filter-options.h"
#include "cli/terminal.h"
#include "cli/trace-input.h"
#include "base/error.h"
#include "profile/profile-export.h"

struct export_command {
	const char *output, *event;
	uint32_t format; /* index + 1; 0: not given */
	struct profile_filter only;
	bool weight, inlined, collapse;
};

/* For completion. */
static const char *const formats[] = {"html", "folded", "pprof", "systrace", "str", "bin", NULL};

static int option_format(void *to, const char *value)
{
	for (uint32_t n = 0; export_formats[n].name; n++)
		if (!strcmp(export_formats[n].name, value)) {
			*(uint32_t *)to = n + 1;
			return 0;
		}
	log_error("export: unknown format %.64s; the formats are:", value);
	for (size_t n = 0; export_formats[n].name; n++)
		log_error("  %-7s %s", export_formats[n].name, export_formats[n].description);
	return -EINVAL;
}

#define AT(member) .offset = offsetof(struct export_command, member)
static const struct option_def defs[] = {
	{.name = "to",
	 .letter = 't',
	 .type = OPTION_CALL,
	 .argument = "FORMAT",
	 .call = option_format,
	 .choices = formats,
	 AT(format),
	 .help = "html, folded, pprof, systrace, str or bin (default: by the suffix of -o FILE)"},
	TEXT("output", 'o', "FILE", output,
	     "write here; - is standard output (default: FILE with the format's suffix)"),
	FLAG("collapse-recursion", 0, collapse,
	     "of the calls of one function in a stack only the innermost"),
	FLAG("weight", 'w', weight,
	     "folded: weights (time, cycles ...) in place of numbers of samples"),
	FLAG("inlined", 0, inlined,
	     "folded: _[i] behind the names of calls that the compiler inlined in all stacks"),
	TEXT("event", 'e', "EVENT", event, EVENT_OPTION_HELP),
	OPTION_FILTERS(only),
	{0},
};

static const struct options options = {
	.command = "export",
	.usage = "--to FORMAT | -o FILE [OPTIONS] [FILE]",
	.description =
		"Writes a trace in the format of another tool.  FILE defaults to " DEFAULT_TRACE
		";\na perf.data file is imported first.\n  html    one "
		"self-contained flame graph page\n  folded  one line a stack, "
		"`comm;root;...;leaf count`, for the flame graph tools\n  pprof   gzipped "
		"profile.proto, for `go tool pprof` and compatible tools\n  systrace  marks of "
		"programs, and switches of a "
		"recording of waits, as text of the kernel's tracer\n  str     samples by CPU "
		"and tasks of a flight recorder as text\n  bin     the same as fixed records to be "
		"mapped (docs/snapshot-format.md)",
	.defs = defs,
	.details =
		{"The file is readable by its owner only, as the trace is: it has the same names "
		 "of "
		 "programs, functions and paths. `chmod`, or `-o - >FILE`, gives others access."},
	.examples = "# a flame graph page: perfwind.html\n"
		    "perfwind export --to html perfwind.pftrace\n\n"
		    "# for go tool pprof\n"
		    "perfwind export --to pprof -o cpu.pb.gz perfwind.pftrace\n"
		    "go tool pprof -top cpu.pb.gz\n\n"
		    "# folded stacks of one container, weighted by time\n"
		    "perfwind export --to folded -w --cgroup /docker/4f0c -o - perfwind.pftrace",
	.max_arguments = 1,
};

/* "a/b.pftrace" and ".html" -> "a/b.html".  New memory. */
static char *output_name(const char *input, const char *suffix)
{
	const char *base = strrchr(input, '/'), *dot;
	char *name;

	base = base ? base + 1 : input;
	dot = strrchr(base, '.');
	return asprintf(&name, "%.*s%s",
			(int)(dot && dot > base ? (size_t)(dot - input) : strlen(input)), input,
			suffix) < 0
		       ? NULL
		       : name;
}

static int write_stream(const struct profile *profile, const struct export_command *command,
			const struct export_options *how, FILE *out)
{
	int r = export_formats[command->format - 1].write(profile, how, out);

	return r < 0 ? trace(r) : 0;
}

static int write_file(const struct profile *profile, const struct export_command *command,
		      const struct export_options *how, const char *path)
{
	_cleanup_(freep) char *temporary = NULL;
	_cleanup_(file_closep) FILE *out = NULL;
	int r;

	if (asprintf(&temporary, "%s.part", path) < 0) {
		temporary = NULL;
		return fail(-ENOMEM);
	}
	/* What an export that was killed has left; a link is not followed. */
	(void)unlink(temporary);
	out = file_create(temporary, O_EXCL);
	if (!out)
		return fail(-errno);
	r = write_stream(profile, command, how, out);
	if (fclose(take(out)) && r == 0)
		r = fail(-errno);
	if (r == 0 && rename(temporary, path) < 0)
		r = fail(-errno);
	if (r < 0)
		(void)unlink(temporary);
	return r < 0 ? trace(r) : 0;
}

/* Devices and pipes (-o /dev/stdout, a fifo) cannot be replaced by a renamed file. */
static bool is_plain(const char *path)
{
	return strncmp(path, "/dev/", 5) != 0;
}

static int export_one(const struct profile *profile, const struct export_command *command,
		      const char *input)
{
	const struct export_options how = {.title = input,
					   .weight = command->weight,
					   .inlined = command->inlined,
					   .only = command->only};
	_cleanup_(freep) char *name = NULL;
	_cleanup_(file_closep) FILE *device = NULL;
	const char *path = command->output;
	int r;

	if (!path && !strcmp(input, "-"))
		path = "-";
	if (!path) {
		name = output_name(input, export_formats[command->format - 1].suffix);
		if (!name)
			return fail(-ENOMEM);
		path = name;
	}
	if (!strcmp(path, input) && strcmp(path, "-")) {
		log_error("export: %s would be written over itself: give -o FILE", input);
		return -EINVAL;
	}
	if (!strcmp(path, "-")) {
		r = write_stream(profile, command, &how, stdout);
	} else if (is_plain(path)) {
		r = write_file(profile, command, &how, path);
	} else {
		device = file_create(path, O_TRUNC);
		r = device ? write_stream(profile, command, &how, device) : fail(-errno);
	}
	if (r < 0) {
		log_error("export to %s: %s", path, profile_strerror(profile, r));
		terminal_output_reported();
	} else if (strcmp(path, "-")) {
		log_info("wrote %s", path);
	}
	return r < 0 ? trace(r) : 0;
}

/* The format of @output's suffix, from 1; 0: none. */
static uint32_t format_of_name(const char *output)
{
	size_t len = output ? strlen(output) : 0;

	for (uint32_t n = 0; export_formats[n].name; n++) {
		size_t suffix = strlen(export_formats[n].suffix);

		if (len > suffix && !strcmp(output + len - suffix, export_formats[n].suffix))
			return n + 1;
	}
	return 0;
}

static bool is_text(uint32_t format)
{
	const char *name = export_formats[format - 1].name;

	return strcmp(name, "pprof") && strcmp(name, "bin");
}

static int export_run(int argc, char **argv)
{
	_cleanup_(profile_deinit) struct profile profile = {0};
	struct export_command command = {0};
	struct trace_input input;
	const char *path;
	int n, r;

	r = options_parse(&options, argc, argv, &command, &n);
	if (r)
		return options_exit_status(r);
	if (!command.format)
		command.format = format_of_name(command.output);
	if (!command.format) {
		log_error("export: --to is missing: html, folded, pprof, systrace, str or bin (see "
			  "`perfwind "
			  "export "
			  "--help`)");
		return 2;
	}
	path = n ? argv[0] : DEFAULT_TRACE;
	if (!is_text(command.format) && terminal_refuses_output("export", command.output))
		return 2;
	input = (struct trace_input){
		.path = n ? path : NULL, .event = command.event, .only = &command.only};
	if (trace_input_read(&input, "export", &profile) < 0)
		return 1;
	trace_input_note_damage(&profile, "export", path);
	if (trace_input_none_left(&profile, "export", path))
		return 1;
	trace_input_note_others(&profile, "export");
	if (command.collapse)
		profile_collapse_recursion(&profile);
	r = export_one(&profile, &command, path);
	return r < 0;
}

const struct command command_export = {
	"export", "write a trace as a flame graph page, folded stacks, pprof, text or records",
	export_run, &options};
