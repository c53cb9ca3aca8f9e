/* statistics.h - the result of a recording or an import, as statistics of its trace.
 * Thread: main. */
#pragma once

#include "trace/writer.h"
#include "session/session.h"
#include "session/pipeline/emit.h"

struct stats {
	struct writer_stat stats[80];
	char names[80][48];
	size_t n;
};
/* Adds one; without room it is dropped. */
void stats_add(struct stats *list, double value, const char *format, ...) _printf_(3, 4);
/* All statistics of the recording itself, none of the machine that writes the trace. */
void stats_of(const struct session_summary *summary, struct stats *list);
/* Samples with a function of CPython, PHP or Ruby that has no name, by summary->unsymbolized. */
uint64_t stats_freed_samples(const struct session_summary *summary);
/* Fills in summary->unsymbolized. */
void stats_unsymbolized(struct emit *emit, struct session_summary *summary);
