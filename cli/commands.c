/* commands.c - the table of subcommands: the whole command line.  Thread: main. */
#include "cli/command.h"

const struct command *const commands[] = {
	/* In the order of the help: measure, look, other files, keep what was rare, machine, Perfetto. */
	&command_record,    &command_top,    &command_stat,	&command_report,
	&command_annotate,  &command_diff,   &command_script,	&command_export,
	&command_symbolize, &command_import, &command_snapshot, &command_watch,
	&command_episodes,  &command_list,   &command_doctor,	&command_run,
	&command_daemon,    &command_trace,  &command_trigger,	&command_losses,
};

const size_t n_commands = ARRAY_SIZE(commands);
