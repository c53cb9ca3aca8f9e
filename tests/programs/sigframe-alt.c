/* sigframe-alt.c - sigframe.c with the handler on an alternate stack. */
#define ALTERNATE
#include "sigframe.c"
