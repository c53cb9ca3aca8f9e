/* terminal.h - standard output as a terminal, or not.  Thread: main. */
#pragma once

#include "daemon/base/util.h"

/* 0 when standard output is no terminal; 80 and 24 where it does not tell. */
int terminal_columns(void);
int terminal_rows(void);
/* Are colours wanted there?  https://no-color.org: NO_COLOR set and not empty. */
bool terminal_colour(void);
