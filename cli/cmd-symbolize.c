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
#include "cli/debug-package.h"
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
	OPTION_PLACES(places),
	OPTION_DEBUGINFOD(debuginfod),
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
		log_error("%s: %s%s", output ? output : path, strerror(-r),
			  !output && (r == -EACCES || r == -EROFS)
				  ? " (hint: -o FILE writes a copy with the names)"
				  : "");
	return r;
}

static void print_fetched(const struct debuginfod_result *result, size_t n)
{
	char text[96] = "";

	if (result->unanswered)
		(void)snprintf(text, sizeof(text),
			       "; no server answered for %zu (hint: check DEBUGINFOD_URLS)",
			       result->unanswered);
	log_info("debuginfod: %zu of %zu debug files%s%s", result->found, n, text,
		 result->asked < n ? "; the time was over (hint: --debuginfod-time)" : "");
}

/* Debug files that lack here, out of the servers of DEBUGINFOD_URLS.  Before the privileges for that go. */
static void fetch(struct symbolize_command *command, const struct profile *profile)
{
	static char folder[PATH_MAX];
	struct uw_build_id ids[DEBUGINFOD_FILES_MAX];
	size_t n = symbolize_missing(profile, &command->places, ids, ARRAY_SIZE(ids));
	struct debuginfod_result result;
	double given = command->debuginfod_time > 0 ? command->debuginfod_time : DEBUGINFOD_SECONDS;
	unsigned seconds = (unsigned)min_u64((uint64_t)given, 3600);
	int r;

	if (n)
		log_info("debuginfod: asking for %zu debug file%s, for at most %u s (Ctrl-C ends "
			 "it)",
			 n, n == 1 ? "" : "s", seconds);
	r = debuginfod_fetch(ids, n, seconds, &result);
	if (r == -ENOENT)
		log_error("--debuginfod: libdebuginfod.so.1 is not installed (hint: apt install "
			  "libdebuginfod1)");
	else if (r < 0)
		log_error("--debuginfod: %s", strerror(-r));
	if (r < 0)
		return;
	print_fetched(&result, n);
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

/* The modules that lack names still; @packages: of Debian; @asked: servers were asked for them. */
static void print_missing(const struct symbolize_result *result, const char *const *packages,
			  bool asked)
{
	static const char *const why[][2] = {
		/* before and behind the path */
		[SYMBOLIZE_NO_FILE] = {"not found: ", " (there is no file here)"},
		[SYMBOLIZE_OTHER_BUILD] = {"not found: ", " (the file there is of another build)"},
		[SYMBOLIZE_NO_BUILD_ID] = {"not found: ",
					   " (the trace has no build id of it: --symfs only)"},
		[SYMBOLIZE_STRIPPED] = {"no symbols: ", ""},
	};
	size_t shown = min_u64(result->n_missing, ARRAY_SIZE(result->missing)), others = 0;
	char n[32];

	for (size_t i = 0; i < shown; i++) {
		const struct symbolize_missing *missing = &result->missing[i];

		printf("  %s", why[missing->why][0]);
		text_print(stdout, missing->path);
		printf("%s", why[missing->why][1]);
		if (*packages[i])
			printf(" (hint: %s)", packages[i]);
		printf("\n");
		others += !*packages[i];
	}
	if (result->n_missing > shown)
		printf("  and %s more\n", text_count(result->n_missing - shown, n));
	if (others)
		printf("  hint: --symfs DIR with copies of the files at their paths, --debug-dir "
		       "DIR with their debug files,\n        %s--buildid-dir FILE of `perf "
		       "archive`%s\n",
		       asked ? "or " : "", asked ? "" : ", or --debuginfod");
}

/* @may_look: not where the process is confined. */
static void print_with_packages(const struct symbolize_result *result, bool may_look)
{
	enum { MISSING = ARRAY_SIZE(result->missing) };
	struct debug_package packages[MISSING] = {0};
	char texts[MISSING][128 + DEBUG_PACKAGE_NAME];
	const char *paths[MISSING], *ids[MISSING], *hints[MISSING];
	size_t shown = min_u64(result->n_missing, MISSING);

	for (size_t i = 0; i < shown; i++) {
		hints[i] = texts[i];
		texts[i][0] = 0;
		/* The owner of a path on this machine has nothing to do with another build. */
		paths[i] =
			result->missing[i].why == SYMBOLIZE_STRIPPED ? result->missing[i].path : "";
		ids[i] = result->missing[i].build_id;
	}
	if (may_look && shown)
		debug_packages("", paths, ids, shown, packages);
	for (size_t i = 0; i < shown; i++)
		if (packages[i].name[0])
			debug_package_command("", &packages[i], texts[i], sizeof(texts[i]));
	print_missing(result, hints, !may_look);
}

static void print_result(const struct symbolize_result *result, bool may_look)
{
	char a[32], b[32], c[32];

	printf("%s of %s modules found; of %s addresses ", text_count(result->found, a),
	       text_count(result->modules, b), text_count(result->addresses, c));
	printf("%s got names, %s inlined calls and lines\n", text_count(result->named, a),
	       text_count(result->lined, b));
	print_with_packages(result, may_look);
}

static int symbolize_run(int argc, char **argv)
{
	struct symbolize_command command = {.output = NULL};
	_cleanup_(archive_deinit) struct archive archive = {.keeper = 0};
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
	if (module_file_open_places(&command.places, &archive) < 0)
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
	print_result(&result, !command.debuginfod);
	return 0;
}

const struct command command_symbolize = {
	.name = "symbolize",
	.summary = "add names and lines to a trace",
	.run = symbolize_run,
	.options = &options,
};
