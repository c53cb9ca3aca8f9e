/* json.h - text as a JSON string.  Thread: main. */
#pragma once

#include <stdio.h>

/* Prints @text with quotes.  Valid UTF-8 is kept; each invalid byte becomes U+FFFD. */
void json_string(FILE *out, const char *text);
