/* marks.h - one process's marks, inside the target (marks.c).  Thread: any, signal handlers included, by default.
 *
 * Without a recording the mask is 0, and no call from here does anything. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "libmarks/marks-ring.h"

/* The page that the recording switches; never NULL.  Only marks_* change it. */
extern struct marks_head *marks_head __attribute__((visibility("hidden")));

static inline bool marks_wanted(uint64_t category)
{
	return __builtin_expect(
		(__atomic_load_n(&marks_head->mask, __ATOMIC_RELAXED) & category) != 0, 0);
}

/* Puts one mark into the ring of this thread, or counts it as lost.  @kind: enum marks_kind, with flags << 8.  @name: @len
 * bytes.  errno stays. */
void marks_put(unsigned kind, const char *name, size_t len, uint64_t value, uint64_t extra);
/* Has a recording of this process begun (and not ended), or been announced by the environment? */
bool marks_recorded(void);

/* Sets the program's atrace_enabled_tags as the recording has switched the categories. */
void marks_follow(void);

/* In the program's first thread, before it runs: functions.c. */
void functions_begin(void);
