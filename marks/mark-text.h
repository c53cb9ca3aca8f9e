/* mark-text.h - a line of trace_marker -> a mark.  Thread: any.
 *
 *	B|pid|name               E|pid, E           C|pid|name|value
 *	S|pid|name|cookie        F|pid|name|cookie  I|pid|name
 *	G|pid|track|name|cookie  H|pid|track|cookie, H|pid|track|name|cookie  N|pid|track|name
 *
 * The format is Android's atrace (system/core/libcutils, frameworks/native Trace).  A name ends at the next '|' where a field
 * follows, else at the end of the line, so B, I and the last name of N may contain '|'.  The text is a program's: any bytes. */
#pragma once

#include "marks/mark.h"

enum {
	MARK_TEXT_OTHER = 1, /* of no form: free text, which becomes an instant; *ret_mark is set */
	MARK_TEXT_DAMAGED, /* begins as a mark, but a field is missing or no number, or nothing is there; no mark */
};
/* @text: @len bytes without a NUL at the end necessarily; ends at the first NUL or newline, if one is there.  Sets kind, names
 * (within @text, cut to MARK_NAME_MAX), named_pid and value of *ret_mark; everything else is 0.  0 or an outcome. */
int mark_text_parse(const char *text, size_t len, struct mark *ret_mark);
