/* reader-event.c - side-band records into the process table, losses into the account.  Thread:
 * main. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "session/pipeline/reader-private.h"
#include "session/pipeline/sideband.h"

/* A new process is in scope with its parent; a number that was in scope may come back for a
 * stranger. */
static void follow(struct reader *rd, const struct record_event *e)
{
	if (rd->options.children && table_pointer(&rd->scope, e->task.ppid))
		(void)table_put(&rd->scope, e->pid, 1);
	else
		(void)table_remove(&rd->scope, e->pid);
}

static int leave(struct reader *rd, const struct record_event *e)
{
	int r = process_exit(rd->c.processes, e->pid, e->tid);
	const struct process *p = process_find(rd->c.processes, e->pid);

	if (rd->options.n_only_pids && p && p->exited)
		(void)table_remove(&rd->scope, e->pid);
	return r;
}

static void throttle(struct reader *rd, uint32_t ring, const struct record_event *e)
{
	struct cpu_state *cpu = &rd->cpus[ring];

	if (e->throttle.on) {
		cpu->throttled_at = e->time;
	} else if (cpu->throttled_at) {
		rd->c.account->throttled_ns +=
			e->time > cpu->throttled_at ? e->time - cpu->throttled_at : 0;
		cpu->throttled_at = 0;
	}
}

int reader_apply(struct reader *rd, uint32_t ring, bool sideband, const struct record_event *e)
{
	struct process_table *processes = rd->c.processes;

	switch (e->type) {
	case PERF_RECORD_FORK:
		if (e->pid != e->task.ppid)
			follow(rd, e);
		return sideband_apply(processes, e);
	case PERF_RECORD_EXIT:
		perf_source_forget_task(rd->c.source, (pid_t)e->tid);
		return leave(rd, e);
	case PERF_RECORD_LOST:
	case PERFWIND_RECORD_LOST_SAMPLES:
		if (sideband) {
			rd->c.account->lost_sideband_records += e->lost.count;
			process_table_unsure(processes);
		} else {
			rd->c.account->lost_records += e->lost.count;
			rd->cpus[ring].told_lost += e->lost.count;
			rd->c.lost(rd->c.arg, perf_source_ring(rd->c.source, ring)->cpu,
				   e->lost.count, e->time);
		}
		return 0;
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE:
		throttle(rd, ring, e);
		return 0;
	case PERFWIND_RECORD_KSYMBOL:
		rd->c.ksymbol(rd->c.arg, e->ksymbol.start, e->ksymbol.len, e->ksymbol.name,
			      e->ksymbol.unregister);
		return 0;
	default:
		return sideband_apply(processes, e);
	}
}

uint64_t reader_told_lost(const struct reader *rd, size_t index)
{
	return rd->cpus[index].told_lost;
}

void reader_end_throttles(struct reader *rd)
{
	uint64_t now = clock_ns(rd->options.clock);

	for (size_t i = 0; i < rd->n_rings; i++) {
		uint64_t since = rd->cpus[i].throttled_at;

		rd->c.account->throttled_ns += since && now > since ? now - since : 0;
		rd->cpus[i].throttled_at = 0;
	}
}
