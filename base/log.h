/* log.h - lines on standard error for a person.  Thread: any.
 * Where an error is dropped it is logged, once.  unwinder/ and libc-hook/ never log; nor does
 * per-sample code. */
#pragma once

#include "base/util.h"

enum log_level {
	LOG_LEVEL_QUIET,   /* errors only */
	LOG_LEVEL_NORMAL,  /* for the user: each loss of quality is one line */
	LOG_LEVEL_VERBOSE, /* -v */
	LOG_LEVEL_DEBUG,   /* -vv: failures with file and line */
};

/* The one global of the program; set once by main before any thread starts. */
extern enum log_level log_level;
/* Lines of verbose and debug level: of these source folders only, by the beginning of their names
 * ("unwind,session/loader"); NULL: of all.  Set by main like log_level. */
extern const char *log_folders;

/* Is there an unfinished line (progress) on the terminal of standard error?  A message then clears it first. */
void log_live_line(bool stands);
/* @file: the source file of the line, as of __FILE__. */
void log_print_from(const char *file, enum log_level level, const char *format, ...) _printf_(3, 4);

#define log_print(level, ...) log_print_from(__FILE__, (level), __VA_ARGS__)
#define log_error(...) log_print(LOG_LEVEL_QUIET, __VA_ARGS__)
#define log_info(...) log_print(LOG_LEVEL_NORMAL, __VA_ARGS__)
#define log_verbose(...) log_print(LOG_LEVEL_VERBOSE, __VA_ARGS__)
#define log_debug(...) log_print(LOG_LEVEL_DEBUG, __VA_ARGS__)
