/* command.h - the subcommands.  Thread: main.
 * main.c's table is the whole command line; a new command is its file, a declaration here and a
 * line there. */
#pragma once

#include "cli/options.h"

struct command {
	const char *name, *summary;
	/* argv[0] is the command's name.  Returns the exit status of perfwind: 0, 1 (it failed), 2
	 * (wrong usage), or the status of the program that it ran. */
	int (*run)(int argc, char **argv);
	const struct options *options;
};

extern const struct command command_record, command_report, command_export, command_run,
	command_doctor;
