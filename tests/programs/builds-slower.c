/* builds-slower.c - builds.c with convert() 20 % slower. */
#define SLOWER 20
#include "builds.c"
