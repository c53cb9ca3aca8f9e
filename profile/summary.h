/* summary.h - what a reader should know of a trace before trusting it.  Thread: main (of a
 * command). One list of facts for the report's head and the page's; taken from perfwind's own
 * statistics where the trace has them, else counted from its samples.  Of a part of the trace (--pid,
 * --cgroup) only samples and stacks are known: what is of the whole trace all the same is marked. */
#pragma once

#include "profile/fold.h"

enum { SUMMARY_MAX = 16 };

struct summary_fact {
	const char *label;
	char value[256];
	bool warn; /* something is missing, cut or lost */
};
struct summary {
	struct summary_fact facts[SUMMARY_MAX];
	size_t n;
};

void summary_init(struct summary *summary, const struct fold *fold);
/* Seconds: the recorder's figure, else from the first to the last sample. */
double summary_duration(const struct profile *profile);
