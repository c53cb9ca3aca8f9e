/* command.h - the subcommands.  Thread: main.
 * commands.c holds the table of all commands; a new command needs its file, a declaration here and a row there. */
#pragma once

#include "cli/options.h"

struct command {
	const char *name, *summary;
	/* argv[0] is the command's name.  Returns the exit status of perfwind: 0, 1 (it failed), 2
	 * (wrong usage), or the status of the program that it ran. */
	int (*run)(int argc, char **argv);
	const struct options *options;
};

extern const struct command command_record, command_top, command_report, command_export,
	command_diff, command_list, command_script, command_import, command_run, command_doctor,
	command_daemon, command_trace, command_losses, command_stat, command_symbolize,
	command_snapshot, command_annotate, command_watch, command_episodes, command_trigger;
/* Not shown in the help. */
extern const struct command command_generate;
/* The table, as main.c and the help use it. */
extern const struct command *const commands[];
extern const size_t n_commands;
