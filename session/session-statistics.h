/* session-statistics.h - what a recording or an import came to, as statistics of its trace.  Thread: main. */
#pragma once

#include "trace/writer.h"
#include "session/session.h"
#include "session/pipeline/emit.h"

struct stats {
	struct writer_stat stats[64];
	char names[64][48];
	size_t n;
};
/* One more; what has no room is left out. */
void stats_add(struct stats *list, double value, const char *format, ...) _printf_(3, 4);
/* All that depends on what was recorded, nothing that depends on the machine that writes it. */
void stats_of(const struct session_summary *summary, struct stats *list);
/* Fills in summary->nameless. */
void stats_nameless(struct emit *emit, struct session_summary *summary);
