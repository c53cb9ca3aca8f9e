/* cmd-trigger.c - `perfwind trigger`: sends triggers to running trace sessions.  Thread: main. */
#include <string.h>

#include "cli/command.h"
#include "cli/trigger-socket.h"
#include "base/error.h"
#include "tracing/triggers.h"

static const struct option_def defs[] = {{0}};

static const struct options options = {
	.command = "trigger",
	.usage = "NAME...",
	.description = "Sends triggers to all your trace sessions (perfwind trace) that wait for "
		       "one of\nthese names in their trigger_config; root's go to the sessions of "
		       "all users.  Where a\ntracing service (traced) runs, it gets them too.",
	.details = {"START_TRACING sessions begin to record, STOP_TRACING sessions end "
		    "stop_delay_ms later, CLONE_SNAPSHOT sessions write a snapshot.  A session is "
		    "found by an abstract socket, so both must be in one network namespace.",
		    "The tracing service is found like by a producer: "
		    "PERFETTO_PRODUCER_SOCK_NAME, else /run/perfetto.  It does not report whether "
		    "a session of it waits for a trigger.",
		    "The exit status is 0 when each name was accepted by a session or the tracing "
		    "service took it, else 1; 2 for wrong usage."},
	.defs = defs,
	.examples = "# keep the last samples before an error\n"
		    "perfwind trace --background -c stop-at-error.pbtxt -o error.pftrace\n"
		    "perfwind trigger error",
	.min_arguments = 1,
	.max_arguments = -1,
};

static int trigger_main(int argc, char **argv)
{
	char unused;
	int n, r = options_parse(&options, argc, argv, &unused, &n);

	if (r)
		return options_exit_status(r);
	for (int i = 0; i < n; i++)
		if (!*argv[i] || strlen(argv[i]) > TRIGGER_NAME_MAX) {
			log_error("trigger: a name has 1 to %d bytes", TRIGGER_NAME_MAX);
			return 2;
		}
	return trigger_send((const char *const *)argv, (size_t)n);
}

const struct command command_trigger = {"trigger", "send a trigger to running trace sessions",
					trigger_main, &options};
