/* import.h - a trace from a file of `perf record`.  Thread: main, one that unwinds (import-records.c)
 * and one that reads the kernel's names; perfdata.h reads ahead with one more.
 *
 *   perf.data ──► import-records ──► reader ──► entries, 128 at a time ──► engine ──► emit ──► sink
 *                                                        ▲                    │
 *                                                        └─ loader, inline ◄──┘ a module that is not loaded
 *
 * All but the stage that unwinds is a recording's; the file is the reader's source of records.
 * A recording parks a sample until its module is loaded, and writes it late, by the clock.  Here
 * samples wait in place, and groups begin and end at the same place in the file each time: the same
 * file gives the same bytes.  Entries point into the
 * blocks that the file was read into.  /proc/PID is not read: a pid in the file may be another
 * process today. */
#pragma once

#include "trace/sink.h"
#include "proc/file-places.h"
#include "session/session.h"

struct import_options {
	const char *event;  /* perf's name of it; NULL: the first that is sampled */
	bool no_inline;	    /* names of symbols only, no inlined calls and no lines */
	bool idle;	    /* keep pid 0 */
	bool engine_chosen; /* else the event's samples decide: stacks, callchains or addresses */
	enum uw_engine_kind engine;
	struct file_places places;
	size_t cache_bytes; /* limit of unwind sections and symbols; 0: UW_MODULES_BYTES */
	size_t held_bytes;  /* ... of processes, their mappings, threads and modules; 0: 128 MiB */
};

/* Parts of the file that did not get into the trace, or are not verified. */
struct import_damage {
	uint64_t bytes_not_read, bad_records;
	uint64_t unproved_modules, unread_modules;
};

struct import_result {
	struct session_summary summary; /* notes are good until import_result_deinit() */
	char event[128];
	uint64_t frequency, period; /* one is 0 */
	uint32_t stack_bytes;	    /* of a copy, at most */
	struct import_damage damage;
	size_t most_cached; /* bytes that modules held at one time */
	size_t most_held;   /* ... processes with their mappings, threads and modules */
	char *notes[16];
};
void import_result_deinit(struct import_result *result);

/* Reads @fd to its end.  Borrows @fd and @sink.  < 0: nothing (or no more) could be read or
 * written, and *error has a line without the file's name.  result->summary covers the part that was
 * done; call import_result_deinit() in any case.  A damaged file is not a failure: a note reports it. */
int import_run(int fd, const struct import_options *options, struct sink *sink,
	       struct import_result *result, char *error, size_t error_size);
