/* source-switch.c - samples of tasks that leave their CPU.  See source-parts.h.
 *
 * Two events a CPU: one samples each switch, the other each PERF_SWITCHES_THIN-th, and one of the two is
 * enabled.  Of an inherited event the period cannot be changed (PERF_EVENT_IOC_PERIOD does not reach
 * the copies of the children), but it can be disabled for all of them.
 *
 * The software event context-switches is used, not the tracepoint sched:sched_switch: it needs no tracefs,
 * and fires in the task that leaves, so the sample has its registers and stack. */
#include <errno.h>
#include <sys/ioctl.h>
#include <time.h>

#include "perf/attr.h"
#include "perf/source-parts.h"

enum { FIRST_NS = 250000 }; /* from the start of sampling to the first sample of a timer */

static const uint64_t periods[] = {1, PERF_SWITCHES_THIN};

int source_switch_open(struct perf_source *source, pid_t tid, size_t cpu_index,
		       struct source_group *group)
{
	if (!source->options.switches || (source->settled && !source->samples_switches))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(periods); i++) {
		struct perf_event_attr attr;
		int fd;

		attr_switch(&source->options, periods[i], &attr);
		attr.enable_on_exec &= periods[i] == 1;
		fd = perf_event_open(&attr, tid, (int)source->cpus[cpu_index].cpu, -1,
				     PERF_FLAG_FD_CLOEXEC);
		if ((fd == -EACCES || fd == -EPERM) && !source->settled) {
			source->samples_switches = false;
			return 0;
		}
		if (fd < 0)
			return fd;
		group->fds[FD_SWITCH + i] = fd;
	}
	source->samples_switches = true;
	return 0;
}

static int put_id(struct perf_source *source, int fd, pid_t tid, bool is_switch)
{
	uint64_t id;
	int r;

	if (fd < 0)
		return 0;
	if (ioctl(fd, PERF_EVENT_IOC_ID, &id) < 0)
		return fail(-errno);
	r = is_switch ? table_put(&source->switch_ids, id, 1) : 0;
	if (r >= 0 && tid >= 0)
		r = table_put(&source->tid_of_id, id, (uint64_t)tid);
	return r < 0 ? trace(r) : 0;
}

int source_switch_remember(struct perf_source *source, const struct source_task *task)
{
	int r = 0;

	for (size_t i = 0; i < source->n_cpus && source->options.switches && r >= 0; i++) {
		const struct source_group *group = &task->groups[i];

		r = put_id(source, group->sideband, task->tid, false);
		if (r >= 0)
			r = put_id(source, group->fds[FD_SWITCH], task->tid, true);
		if (r >= 0)
			r = put_id(source, group->fds[FD_SWITCH_THIN], task->tid, true);
	}
	return r < 0 ? trace(r) : 0;
}

/* A refusal is no failure: wake-ups are then not known. */
static int open_waking(struct perf_source *source, pid_t tid, size_t cpu_index,
		       struct source_group *group)
{
	struct perf_event_attr attr;
	int fd;

	if (!source->options.waking || group->fds[FD_WAKING] >= 0)
		return 0;
	attr_waking(&source->options, &attr);
	fd = perf_event_open(&attr, tid, (int)source->cpus[cpu_index].cpu, group->sideband,
			     PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return 0;
	group->fds[FD_WAKING] = fd;
	return ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, group->sideband) < 0 ? fail(-errno) : 0;
}

int source_switch_output(struct perf_source *source, const struct source_task *task,
			 size_t cpu_index)
{
	struct source_group *group = &task->groups[cpu_index];
	int ring = source->rings[2 * cpu_index].ring.fd;

	if (!source->options.switches)
		return 0;
	for (int i = FD_SWITCH; i <= FD_SWITCH_THIN; i++)
		if (group->fds[i] >= 0 && ioctl(group->fds[i], PERF_EVENT_IOC_SET_OUTPUT, ring) < 0)
			return fail(-errno);
	return open_waking(source, task->tid, cpu_index, group);
}

bool perf_source_samples_switches(const struct perf_source *source)
{
	return source->samples_switches;
}

bool perf_source_is_switch(const struct perf_source *source, uint64_t id)
{
	uint64_t v;

	return source->options.switches && table_get(&source->switch_ids, id, &v);
}

int perf_source_thin_switches(struct perf_source *source, bool thin)
{
	int first_error = 0;

	if (!source->samples_switches || source->thin == thin)
		return 0;
	source->thin = thin;
	if (!source_samples(source) && !source->options.enable_on_exec)
		return 0;
	for (size_t t = 0; t < source->n_tasks; t++) {
		for (size_t i = 0; i < source->n_cpus; i++) {
			const int *fds = &source->tasks[t].groups[i].fds[FD_SWITCH];

			/* The new one first: no switch is missed, and the joiner drops doubles. */
			if (fds[thin] >= 0 && ioctl(fds[thin], PERF_EVENT_IOC_ENABLE, 0) < 0)
				first_error = first_error ? first_error : -errno;
			if (fds[!thin] >= 0 && ioctl(fds[!thin], PERF_EVENT_IOC_DISABLE, 0) < 0)
				first_error = first_error ? first_error : -errno;
		}
	}
	return first_error < 0 ? fail(first_error) : 0;
}

/* ---- all events ---- */

void perf_source_hold(struct perf_source *source)
{
	source->held = true;
}

/* The period of a timer (cpu-clock, task-clock) in ns; 0: the event is none, or fires soon anyway. */
static uint64_t timer_period(const struct perf_source *source)
{
	const struct perf_options *o = &source->options;
	uint64_t ns = o->frequency ? NSEC_PER_SEC / o->frequency : o->period;

	if (o->leader.type != PERF_TYPE_SOFTWARE || (o->leader.config != PERF_COUNT_SW_CPU_CLOCK &&
						     o->leader.config != PERF_COUNT_SW_TASK_CLOCK))
		return 0;
	return ns > 2 * FIRST_NS ? ns : 0;
}

/* Counts from now; a kernel that refuses leaves the period as it was. */
static void set_periods(const struct perf_source *source, uint64_t ns)
{
	for (size_t t = 0; t < source->n_tasks; t++)
		for (size_t i = 0; i < source->n_cpus; i++)
			if (source->tasks[t].groups[i].fds[0] >= 0)
				(void)ioctl(source->tasks[t].groups[i].fds[0],
					    PERF_EVENT_IOC_PERIOD, &ns);
}

/* The first sample of a timer would come a whole period later: the first period is short.  Threads that inherited the event keep
 * theirs (see above). */
int perf_source_sample(struct perf_source *source, bool on)
{
	const struct timespec first = {.tv_nsec = FIRST_NS + FIRST_NS / 2};
	uint64_t period = source->enabled && source->held && on ? timer_period(source) : 0;
	int r;

	source->held = !on;
	if (!source->enabled)
		return 0;
	if (period)
		set_periods(source, FIRST_NS);
	r = source_switch_all(source, on, true);
	if (period) {
		(void)nanosleep(&first, NULL);
		set_periods(source, period);
	}
	return r < 0 ? trace(r) : 0;
}
