/* terminal.h - size and colour of standard output, and keys from standard input.  Thread: main. */
#pragma once

#include "base/util.h"

/* 0 if standard output is not a terminal; 80 and 24 if its size is unknown. */
int terminal_columns(void);
int terminal_rows(void);
/* True for a terminal, by default: https://no-color.org (NO_COLOR set and not empty). */
bool terminal_colour(void);
/* Is @output "-", and standard output a terminal?  Then logs that what @command writes is not text. */
bool terminal_refuses_output(const char *command, const char *output);
/* A failure of standard output has been reported: main() does not report it a second time. */
void terminal_output_reported(void);

/* Switches the terminal to unbuffered, silent input, and standard input to reads that do not wait, until
 * terminal_restore(), which also runs when the process dies of a fault.  Ctrl-C and the other signal keys keep working.
 * Call again after SIGCONT.  False: standard input or output is not a terminal, or the process is in the background. */
bool terminal_keys(void);
/* Restores the settings from before the first terminal_keys(), if any.  Async-signal-safe. */
void terminal_restore(void);
