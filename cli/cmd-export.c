/* cmd-export.c - `perfwind export --to FORMAT FILE`.  Thread: main.
 * Written to FILE's name with the format's suffix, or to -o; a temporary file beside it that is
 * renamed when it is whole, so that a full disk or a signal leaves no half of a file under the
 * name. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/event.h"
#include "cli/terminal.h"
#include "base/error.h"
#include "profile/profile-export.h"

struct export_command {
	const char *output, *event;
	uint32_t format; /* index + 1; 0: not given */
	struct profile_filter only;
	bool weight;
};

static int option_format(void *to, const char *value)
{
	const char *names[8];
	const char *nearest;
	size_t n = 0;

	for (; export_formats[n].name && n < ARRAY_SIZE(names); n++) {
		names[n] = export_formats[n].name;
		if (!strcmp(export_formats[n].name, value)) {
			*(uint32_t *)to = (uint32_t)n + 1;
			return 0;
		}
	}
	nearest = options_nearest(value, strlen(value), names, n);
	log_error("export: unknown format %.64s%s%s (see `perfwind export --help`)", value,
		  nearest ? "; did you mean " : "", nearest ? nearest : "");
	return -EINVAL;
}

#define AT(member) .offset = offsetof(struct export_command, member)
static const struct option_def defs[] = {
	{.name = "to",
	 .letter = 't',
	 .type = OPTION_CALL,
	 .argument = "FORMAT",
	 .call = option_format,
	 AT(format),
	 .help = "html, folded or pprof"},
	{.name = "output",
	 .letter = 'o',
	 .type = OPTION_STRING,
	 .argument = "FILE",
	 AT(output),
	 .help = "write here; - is standard output (default: FILE with the format's suffix)"},
	{.name = "weight",
	 .letter = 'w',
	 .type = OPTION_FLAG,
	 AT(weight),
	 .help = "folded: weights (time, cycles ...) in place of numbers of samples"},
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
	{0},
};

static const struct options options = {
	.command = "export",
	.usage = "--to FORMAT [OPTIONS] FILE",
	.description = "Writes a trace in the format of another tool:\n  html    one "
		       "self-contained flame graph page\n  folded  one line a stack, "
		       "`comm;root;...;leaf count`, for the flame graph tools\n  pprof   gzipped "
		       "profile.proto, for `go tool pprof` and compatible tools",
	.defs = defs,
	.examples = "# a flame graph page: perfwind.html\n"
		    "perfwind export --to html perfwind.pftrace\n\n"
		    "# for go tool pprof\n"
		    "perfwind export --to pprof -o cpu.pb.gz perfwind.pftrace\n"
		    "go tool pprof -top cpu.pb.gz\n\n"
		    "# folded stacks of one container, weighted by time\n"
		    "perfwind export --to folded -w --cgroup /docker/4f0c -o - perfwind.pftrace",
	.min_arguments = 1,
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
	out = fopen(temporary, "wxe");
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
	const struct export_options how = {
		.title = input, .weight = command->weight, .only = command->only};
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
		device = fopen(path, "we");
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

static int export_run(int argc, char **argv)
{
	_cleanup_(profile_deinit) struct profile profile = {0};
	struct export_command command = {0};
	char error[256] = "";
	int n, r;

	r = options_parse(&options, argc, argv, &command, &n);
	if (r)
		return options_exit_status(r);
	if (!command.format) {
		log_error("export: --to is missing: html, folded or pprof (see `perfwind export "
			  "--help`)");
		return 2;
	}
	r = profile_read(argv[0], &profile, error, sizeof(error));
	if (r < 0) {
		log_error("%s", *error ? error : strerror(-r));
		return 1;
	}
	if (event_choose(&profile, "export", command.event) < 0)
		return 1;
	event_tell_damage(&profile, "export", argv[0]);
	if (event_none_left(&profile, "export", argv[0]))
		return 1;
	event_tell_others(&profile, "export");
	event_tell_nothing(&profile, &command.only, "export");
	r = export_one(&profile, &command, argv[0]);
	return r < 0;
}

const struct command command_export = {
	"export", "write a trace as folded stacks, pprof or a flame graph page", export_run,
	&options};
