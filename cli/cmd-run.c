/* cmd-run.c - perfwind run CMD: starts a command that opts in to profiling, by loading the hook into
 * it.  Thread: main.
 *
 * What the command then is, is the command alone: perfwind is gone once it has started it. */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/common-options.h"
#include "cli/preload.h"
#include "cli/job.h"
#include "base/error.h"
#include "base/log.h"
#include "libc-hook/hook-proto.h"

struct run_args {
	const char *socket, *library;
	bool nondumpable;
};

#define AT(member) .offset = offsetof(struct run_args, member)
static const struct option_def defs[] = {
	TEXT("hook-socket", 0, "PATH", socket,
	     "the socket of the profiler (default " HOOK_SOCKET "; @NAME: abstract)"),
	TEXT("library", 0, "FILE", library, "the hook (default: the one installed with perfwind)"),
	FLAG("nondumpable", 0, nondumpable,
	     "opt in even if the command is not dumpable (unreadable for its own user)"),
	{0},
};

static const struct options options = {
	.command = "run",
	.usage = "[OPTIONS] [--] CMD [ARGUMENTS]",
	.description = "Starts a command with libperfwind-hook.so loaded (LD_PRELOAD).  This lets "
		       "an unprivileged\nperfwind profile the command and its children.  A static "
		       "program cannot load the library\nand runs without it.",
	.defs = defs,
	.examples = "# a service that an unprivileged daemon or user may profile\n"
		    "perfwind run -- ./server &\n"
		    "perfwind record -p $! -d 10",
	.min_arguments = 1,
	.max_arguments = -1,
	.stop_at_argument = true,
};

static int set_environment(const struct run_args *args, const char *library)
{
	int r = preload_set(library);

	if (r < 0)
		return trace(r);
	if ((args->socket && setenv(HOOK_ENV_SOCKET, args->socket, 1) < 0) ||
	    (args->nondumpable && setenv(HOOK_ENV_NONDUMPABLE, "1", 1) < 0))
		return fail(-errno);
	return 0;
}

static int run_run(int argc, char **argv)
{
	const struct sigaction usual = {.sa_handler = SIG_DFL};
	char found[PRELOAD_PATH_MAX];
	struct run_args args = {0};
	const char *library;
	int n, e, r = options_parse(&options, argc, argv, &args, &n);

	if (r)
		return options_exit_status(r);
	library = args.library ? args.library : found;
	if (args.library ? access(library, R_OK) < 0
			 : preload_find("libperfwind-hook.so", found, sizeof(found)) < 0) {
		log_error("run: libperfwind-hook.so is not %s: give --library FILE",
			  args.library ? args.library : "next to perfwind nor in lib/perfwind");
		return 1;
	}
	r = set_environment(&args, library);
	if (r < 0) {
		log_error("run: %s: %s", library,
			  r == -EINVAL ? "a path with a blank or colon cannot be preloaded"
				       : strerror(-r));
		return 1;
	}
	e = spawn_check(argv[0]);
	if (!e) {
		(void)sigaction(SIGXFSZ, &usual, NULL);
		(void)execvp(argv[0], argv);
		e = errno;
	}
	return spawn_cannot_run(argv[0], e, false);
}

const struct command command_run = {
	.name = "run",
	.summary = "start a command that opts in to profiling",
	.run = run_run,
	.options = &options,
};
