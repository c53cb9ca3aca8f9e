/* announce.c - processes and threads in the trace (announce.h). */
#include "session/pipeline/announce.h"

#include <string.h>
#include <time.h>

#include "base/error.h"

enum { MAX_INCARNATIONS = 8192 }; /* remembered; then all processes are announced once more */

void announcer_deinit(struct announcer *an)
{
	table_deinit(&an->incarnations);
}

void announce_again(struct announcer *an)
{
	an->round++;
}

/* The number of this incarnation in the trace.  A process that was evicted from the process table
 * and came back keeps the number. */
static uint64_t incarnation_of(struct announcer *an, struct process *p)
{
	uint64_t last;

	if (!p->incarnation)
		p->incarnation =
			!p->begun && table_get(&an->incarnations, p->pid, &last) ? last : p->serial;
	return p->incarnation;
}

static bool is_announced(const struct announcer *an, const struct process_thread *thread,
			 uint64_t time)
{
	return thread->announced == an->round &&
	       !memcmp(thread->announced_as, process_thread_comm_at(thread, time),
		       sizeof(thread->announced_as));
}

static void set_announced(const struct announcer *an, struct process_thread *thread,
			  const char *comm)
{
	memcpy(thread->announced_as, comm, sizeof(thread->announced_as));
	thread->announced = an->round;
}

static uint64_t packet_time(const struct announcer *an, uint64_t sample_time)
{
	return an->past ? sample_time : clock_ns(CLOCK_BOOTTIME);
}

static int announce_process(struct announcer *an, struct process *p, uint64_t time)
{
	struct process_thread *first = process_thread_get(p, p->pid);
	const char *comm = first ? process_thread_comm_at(first, time) : "";
	const struct writer_process process = {
		.pid = p->pid,
		.ppid = p->ppid,
		.uid = p->uid,
		.life = incarnation_of(an, p),
		.comm = comm,
		.cmdline = p->cmdline,
		.cmdline_len = p->cmdline_len,
		.cgroup = p->cgroup,
		.kernel_thread = p->kernel_thread,
	};
	int r = writer_process(an->writer, &process, packet_time(an, time));

	if (r < 0)
		return trace(r);
	if (an->incarnations.n_used >= MAX_INCARNATIONS)
		table_clear(&an->incarnations);
	r = table_put(&an->incarnations, p->pid, process.life);
	if (r < 0)
		return trace(r);
	p->announced = an->round;
	if (first)
		set_announced(an, first, comm);
	return 0;
}

int announce_sample(struct announcer *an, const struct sample_info *info)
{
	struct process *p = info->process;
	struct process_thread *thread = process_thread_get(p, info->tid);
	bool known = !thread || is_announced(an, thread, info->time);
	const char *comm;
	uint64_t last;
	int r = 0;

	if (p->announced != an->round || (!known && info->tid == p->pid) ||
	    !table_get(&an->incarnations, p->pid, &last) || last != incarnation_of(an, p))
		r = announce_process(an, p, info->time);
	if (r < 0 || known || info->tid == p->pid)
		return r < 0 ? trace(r) : 0;
	comm = process_thread_comm_at(thread, info->time);
	r = writer_thread(an->writer, p->pid, info->tid, comm, packet_time(an, info->time));
	if (r < 0)
		return trace(r);
	set_announced(an, thread, comm);
	return 0;
}
