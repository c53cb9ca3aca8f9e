/* json.h - text as a JSON string.  Thread: main. */
#pragma once

#include <stdio.h>

/* With its quotes.  Well-formed UTF-8 goes through; each other byte becomes U+FFFD. */
void json_string(FILE *out, const char *text);
