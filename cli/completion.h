/* completion.h - shell completion out of the option tables.  Thread: main. */
#pragma once

#include <stdio.h>

/* Each writes a whole script: for bash (sourced), zsh (a file _perfwind in fpath) and fish (sourced). */
void completion_bash(FILE *out);
void completion_zsh(FILE *out);
void completion_fish(FILE *out);
