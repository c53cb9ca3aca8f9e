/* terminal.h - standard output as a terminal, or not, and keys from standard input.  Thread: main. */
#pragma once

#include "base/util.h"

/* 0 when standard output is no terminal; 80 and 24 where it does not tell. */
int terminal_columns(void);
int terminal_rows(void);
/* Are colours wanted there?  https://no-color.org: NO_COLOR set and not empty. */
bool terminal_colour(void);
/* A failure of standard output has been reported: main() does not report it a second time. */
void terminal_output_reported(void);

/* Keys come as they are pressed, unseen, and a read of standard input does not wait: from here until
 * terminal_restore(), which comes by itself when the process dies of a fault.  Signals' keys stay
 * (Ctrl-C).  Again after SIGCONT.  False: standard input or output is no terminal, or it is another
 * job's. */
bool terminal_keys(void);
/* As it was before the first terminal_keys(); does nothing without one.  Safe in a signal handler. */
void terminal_restore(void);
