/* adopt.h - an answer of the loader into the process that it describes.  Thread: main. */
#pragma once

#include "proc/process.h"
#include "session/loader/load-request.h"

/* The names of its threads. */
void adopt_threads(struct process *process, const struct load_answer *answer);
/* Command line, cgroup, users, names: what records did not give.  Takes texts of @answer. */
void adopt_names(struct process_table *processes, struct process *process,
		 struct load_answer *answer);
