/* cmd-symbolize.c - `perfwind symbolize FILE`: names and lines for a trace, after debug files were
 * installed or on another machine.  Thread: main.
 *
 * The packets are appended, as Perfetto's traceconv does: readers apply them to all frames. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/common-options.h"
#include "cli/module-file.h"
#include "cli/debuginfod.h"
#include "cli/own-session.h"
#include "cli/symbolize.h"
#include "cli/trace-input.h"
#include "perf/probe.h"
#include "profile/profile-text.h"
#include "trace/sink.h"

struct symbolize_command {
	const char *output;
	struct file_places places;
	bool debuginfod;
	double debuginfod_time;
};

#define AT(member) .offset = offsetof(struct symbolize_command, member)
static const struct option_def defs[] = {
	TEXT("output", 'o', "FILE", output,
	     "write a copy with the names (default: they are appended to the trace)"),
	OPTION_PLACES(struct symbolize_command, places),
	OPTION_DEBUGINFOD(struct symbolize_command, debuginfod),
	TIME("debuginfod-time", 0, "s", "SECONDS", debuginfod_time, 0,
	     "the time for all files of --debuginfod (default: 60)"),
	{0},
};

static const struct options options = {
	.command = "symbolize",
	.usage = "[OPTIONS] [FILE]",
	.description =
		"Adds names, inlined calls and source lines to a trace, for frames that lack "
		"them: after\ndebug packages were installed, or on another machine.  A file "
		"must have the build id that\nthe trace has; one without a build id is "
		"taken from --symfs only.  FILE defaults to " DEFAULT_TRACE ".",
	.defs = defs,
	.examples = "# names of a library after its debug package was installed\n"
		    "apt install libssl3-dbgsym\n"
		    "perfwind symbolize perfwind.pftrace\n\n"
		    "# the same with debug files of a server\n"
		    "DEBUGINFOD_URLS=https://debuginfod.debian.net perfwind symbolize --debuginfod "
		    "perfwind.pftrace",
	.max_arguments = 1,
};

/* Appends to @path, or to a copy of it at @output. */
static int write_packets(const char *path, const char *output, const struct buffer *packets)
{
	_cleanup_(freep) char *data = NULL;
	struct sink *sink = NULL;
	size_t len = 0;
	int fd, r;

	if (!output) {
		fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
		r = fd < 0 ? -errno : sink_fd_new(fd, &sink);
	} else {
		r = read_file(path, SIZE_MAX / 2, &data, &len);
		if (r >= 0)
			r = sink_file_new(output, &sink);
		if (r >= 0)
			r = sink->write(sink, data, len);
	}
	if (r >= 0 && packets->len)
		r = sink->write(sink, packets->data, packets->len);
	if (r >= 0)
		r = sink->flush(sink);
	(void)sink_free(sink);
	if (r < 0)
		log_error("%s: %s", output ? output : path, strerror(-r));
	return r;
}

/* Debug files that lack here, out of the servers of DEBUGINFOD_URLS.  Before the privileges for that go. */
static void fetch(struct symbolize_command *command, const struct profile *profile)
{
	static char folder[PATH_MAX];
	struct uw_build_id ids[DEBUGINFOD_FILES_MAX];
	size_t n = symbolize_missing(profile, &command->places, ids, ARRAY_SIZE(ids)), asked = 0;
	double seconds =
		command->debuginfod_time > 0 ? command->debuginfod_time : DEBUGINFOD_SECONDS;
	int r = debuginfod_fetch(ids, n, (unsigned)min_u64((uint64_t)seconds, 3600), &asked);

	if (r == -ENOENT)
		log_error("--debuginfod: libdebuginfod.so.1 is not installed (hint: apt install "
			  "libdebuginfod1)");
	else if (r < 0)
		log_error("--debuginfod: %s", strerror(-r));
	if (r < 0)
		return;
	log_info("debuginfod: %d of %zu debug files%s", r, n,
		 asked < n ? "; the time was over (hint: --debuginfod-time)" : "");
	debuginfod_folder(folder, sizeof(folder));
	command->places.fetched = folder;
}

/* What parses the files has a list of system calls and no file system. */
static void confine(void)
{
	struct features features = {.has = {false}};
	char error[256];

	if (probe_features(&features, error, sizeof(error)) < 0)
		log_verbose("%s", error);
	own_session_give_up(&features, false);
}

static void print_result(const struct symbolize_result *result)
{
	char a[32], b[32], c[32];

	printf("%s of %s modules found; of %s addresses ", text_count(result->found, a),
	       text_count(result->modules, b), text_count(result->addresses, c));
	printf("%s got names, %s inlined calls and lines\n", text_count(result->named, a),
	       text_count(result->lined, b));
	for (size_t i = 0; i < result->n_missing; i++) {
		struct buffer text = {0};

		text_clean(&text, result->missing[i]);
		printf("  not found: %.*s\n", (int)text.len, (const char *)text.data);
		buffer_deinit(&text);
	}
}

static int symbolize_run(int argc, char **argv)
{
	struct symbolize_command command = {.output = NULL};
	_cleanup_(buffer_deinit) struct buffer packets = {0};
	struct symbolize_result result;
	struct profile profile;
	char error[512];
	const char *path = DEFAULT_TRACE;
	int n, r = options_parse(&options, argc, argv, &command, &n);

	if (r != 0)
		return options_exit_status(r);
	if (n)
		path = argv[0];
	if (module_file_check_places(&command.places) < 0)
		return 2;
	command.debuginfod = debuginfod_wanted(command.debuginfod);
	if (command.debuginfod && debuginfod_refusal()) {
		log_error("--debuginfod: %s", debuginfod_refusal());
		return 2;
	}
	r = profile_read(path, &profile, error, sizeof(error));
	if (r < 0) {
		log_error("%s%s", error, trace_input_hint(path, r, false));
		return 1;
	}
	if (profile.truncated_at) {
		log_error("%s: damaged at byte %lu: appended names would not be read", path,
			  profile.truncated_at);
		r = -EBADMSG;
	} else {
		if (command.debuginfod) {
			fetch(&command, &profile);
			confine();
		}
		r = symbolize(&profile, &command.places, &packets, &result);
		if (r < 0)
			log_error("%s: %s", path, strerror(-r));
	}
	profile_deinit(&profile);
	if (r < 0 || write_packets(path, command.output, &packets) < 0)
		return 1;
	print_result(&result);
	return 0;
}

const struct command command_symbolize = {
	.name = "symbolize",
	.summary = "add names and lines to a trace",
	.run = symbolize_run,
	.options = &options,
};
