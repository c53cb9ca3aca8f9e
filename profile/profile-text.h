/* profile-text.h - foreign names made fit to print, and numbers for a person.  Thread: any.
 *
 * Names come out of a trace and so out of other people's binaries and processes: they may hold
 * anything. */
#pragma once

#include <stdio.h>

#include "base/bytes.h"

/* Appends @text in well-formed UTF-8 with controls as '?': safe on a terminal, one line. */
void text_clean(struct buffer *b, const char *text);
/* Columns on a terminal of a cleaned text. */
size_t text_columns(const char *text, size_t len);
/* Appends a cleaned text in at most @columns columns; when it is longer its middle becomes "…",
 * with more of the start kept than of the end.  Returns the columns used. */
size_t text_fit(struct buffer *b, const char *text, size_t len, size_t columns);
/* The same of a text that is not clean.  0 columns: no limit. */
size_t text_fit_clean(struct buffer *b, const char *text, size_t columns);

/* A JSON string with its quotes, also safe inside <script>: no '<', '>', '&', U+2028, U+2029. */
void text_json(struct buffer *b, const char *text, size_t len);
/* @before as it is, then @text as a JSON string; NULL: null.  Those of the stream are not for a page. */
void text_json_append(struct buffer *b, const char *before, const char *text);
void text_json_print(FILE *out, const char *before, const char *text);
/* @text as text_clean() has it. */
void text_print(FILE *out, const char *text);
/* A field of CSV (RFC 4180) with its quotes, cleaned. */
void text_csv(struct buffer *b, const char *text);
/* For element content and quoted attributes. */
void text_html(struct buffer *b, const char *text, size_t len);

/* "12,431" */
const char *text_count(uint64_t value, char to[32]);
/* "812 bytes", "812 KiB", "12.3 MiB" */
const char *text_size(uint64_t bytes, char to[32]);
/* A weight in its unit ("ns", "cycles" or "events"): "2.911 s", "12.3 ms", "3.21 G". */
const char *text_weight(uint64_t value, const char *unit, char to[32]);
/* 100 * part / whole; 0 when whole is 0. */
double text_percent(uint64_t part, uint64_t whole);
/* "97.10 %"; 0 or 100 only if it is exact: "< 0.01 %", "> 99.99 %". */
const char *text_share(uint64_t part, uint64_t whole, char to[32]);
/* Flushes @out: -EIO, -ENOSPC when something written to it did not arrive. */
int text_finish(FILE *out);
