/* commands.c - the table of subcommands: the whole command line.  Thread: main. */
#include "cli/command.h"

const struct command *const commands[] = {
	&command_record,    &command_snapshot, &command_top,	  &command_trace,
	&command_report,    &command_annotate, &command_diff,	  &command_script,
	&command_stat,	    &command_losses,   &command_export,	  &command_import,
	&command_symbolize, &command_watch,    &command_episodes, &command_run,
	&command_list,	    &command_doctor,   &command_daemon,
};

const size_t n_commands = ARRAY_SIZE(commands);
