/* task-sums.h - the values of a process in a row of the table of tasks: its last thread has them. */
#pragma once

#include "protos/trace.pb-c.h"

/* NULL: the row has none. */
static inline const Pb__PerfwindTask *sums(const Pb__ProcessStats__Process *p)
{
	return p->n_threads ? p->threads[p->n_threads - 1]->perfwind_process : NULL;
}
