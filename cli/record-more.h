/* record-more.h - `record -e A -e B`: further events, each a session of its own into the same trace.  Thread: main.
 *
 *   -e A ─► session of the command (cmd-record.c) ─┐
 *   -e B ─► session, sequence 2 ───────────────────┼─► one sink, one trace with several events
 *   -e C ─► session, sequence 3 ───────────────────┘ */
#pragma once

#include "cli/record-options.h"
#include "session/session.h"

struct record_more {
	struct record_more_event {
		struct perf_spec specs[1 + PERF_MAX_FOLLOWERS];
		size_t n_specs;
		uint64_t period, frequency; /* one is 0 */
		struct session *session;
		struct session_summary *summary;
	} events[RECORD_MORE];
	size_t n;
};

/* Parses args->more.  < 0: @error has a line for the user. */
int record_more_choose(struct record_more *more, const struct record_args *args, char *error,
		       size_t error_size);
/* Opens a session for each event, like @base but for what belongs to the first one alone.  < 0: @error has a line. */
int record_more_open(struct record_more *more, const struct session_options *base,
		     struct sink *sink, struct loop *loop, char *error, size_t error_size);
int record_more_start(struct record_more *more);
void record_more_stop(struct record_more *more);
bool record_more_done(const struct record_more *more);
/* < 0: the first failure, and the line for the user. */
int record_more_error(const struct record_more *more, const char **ret_why);
bool record_more_probes(const struct record_more *more);
/* Is a session ending, or has it ended? */
bool record_more_ends(const struct record_more *more);
/* Takes the summaries: the samples of all. */
uint64_t record_more_emitted(struct record_more *more);
/* As verdict.print_more, after record_more_emitted(). */
void record_more_print(const struct record_more *more, bool json, FILE *out);
void record_more_deinit(struct record_more *more);
