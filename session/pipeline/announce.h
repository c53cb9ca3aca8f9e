/* announce.h - processes and threads in the trace, each before its first sample.  Thread: main.
 *
 * A reader of the trace assigns a sample to the process and the names that were written last
 * before it.  A parked sample is written after later ones, and may belong to an incarnation of the
 * pid from before an exec, or carry a name from before a rename.  So the last announcement of a
 * pid is compared with what the sample needs, for each sample. */
#pragma once

#include "base/table.h"
#include "proc/process.h"
#include "session/pipeline/entry.h"
#include "trace/writer.h"

struct announcer {
	struct writer *writer;	   /* borrowed */
	bool past;		   /* packets carry the time of their sample, not the present */
	uint32_t round;		   /* of announcements; starts at 1 */
	struct table incarnations; /* pid -> the incarnation in its last announcement */
};

void announcer_deinit(struct announcer *an);
/* Writes the process and the thread of a sample where the trace lacks them. */
int announce_sample(struct announcer *an, const struct sample_info *info);
/* Readers have lost what was announced: all is written again, each before its next sample. */
void announce_again(struct announcer *an);
