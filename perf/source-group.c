/* source-group.c - the events of one task on one CPU: leader, followers, samples of a task that leaves the CPU.  See source-parts.h.
 *
 * Switches: two events a CPU: one samples each switch, the other each PERF_SWITCHES_THIN-th, and one of the two is
 * enabled.  Of an inherited event the period cannot be changed (PERF_EVENT_IOC_PERIOD does not reach
 * the copies of the children), but it can be disabled for all copies.
 *
 * The software event context-switches is used, not the tracepoint sched:sched_switch: it needs no tracefs,
 * and fires in the task that leaves, so the sample has its registers and stack. */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "perf/attr.h"
#include "perf/source-parts.h"

/* source->switch_ids */
enum { ID_SWITCH = 1, ID_WAKER };
enum { FIRST_NS = 250000 }; /* from the start of sampling to the first sample of a timer */

static const uint64_t periods[] = {1, PERF_SWITCHES_THIN};

/* After the leader.  A refusal for lack of permission is not a failure: switches are then not sampled. */
static int open_switches(struct perf_source *source, pid_t tid, size_t cpu_index,
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

void source_group_init(struct source_group *group)
{
	for (size_t i = 0; i < ARRAY_SIZE(group->fds); i++)
		group->fds[i] = -1;
	group->sideband = -1;
	group->id = 0;
}

void source_group_deinit(struct source_group *group)
{
	/* followers first: a leader that goes makes them leaders */
	for (size_t i = ARRAY_SIZE(group->fds); i-- > 0;)
		group->fds[i] = fd_close(group->fds[i]);
	group->sideband = fd_close(group->sideband);
}

static int open_event(struct perf_source *source, struct perf_event_attr *attr,
		      const struct perf_spec *spec, pid_t tid, int cpu, int group_fd)
{
	int fd;

	source->failed = spec;
	fd = perf_event_open(attr, tid, cpu, group_fd, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return fd;
	if (spec && spec->filter && ioctl(fd, PERF_EVENT_IOC_SET_FILTER, spec->filter) < 0) {
		int r = -errno;

		source->failed_filter = true;
		fd_close(fd);
		return r;
	}
	return fd;
}

/* Tracepoints and probes take programs of another type: their samples go without. */
void source_attach_program(const struct perf_source *source, int fd)
{
	const struct at_sample *at = source->options.at_sample;

	if (at && !source->options.poll && ioctl(fd, PERF_EVENT_IOC_SET_BPF, at->program_fd) < 0)
		log_debug("BPF program not attached: %s", strerror(errno));
}

static int open_members(struct perf_source *source, pid_t tid, size_t cpu_index,
			uint32_t stack_bytes, struct source_group *group)
{
	const struct perf_options *options = &source->options;
	int cpu = (int)source->cpus[cpu_index].cpu;
	struct perf_event_attr attr;
	int fd;

	attr_leader(options, stack_bytes, &attr);
	attr.wakeup_events = source_wakeup_events(
		source, !options->tasks && source->cpus[cpu_index].soon, stack_bytes);
	fd = open_event(source, &attr, &options->leader, tid, cpu, -1);
	if (fd < 0)
		return fd;
	group->fds[0] = fd;
	for (size_t i = 0; i < options->n_followers; i++) {
		attr_follower(options, i, &attr);
		fd = open_event(source, &attr, &options->followers[i], tid, cpu, group->fds[0]);
		if (fd < 0)
			return fd;
		group->fds[1 + i] = fd;
	}
	source->failed = NULL;
	if (ioctl(group->fds[0], PERF_EVENT_IOC_ID, &group->id) < 0)
		return fail(-errno);
	source_attach_program(source, group->fds[0]);
	return open_switches(source, tid, cpu_index, group);
}

int source_group_open(struct perf_source *source, pid_t tid, size_t cpu_index, uint32_t stack_bytes,
		      struct source_group *group)
{
	int r = open_members(source, tid, cpu_index, stack_bytes, group);

	if (r < 0) /* not the sideband event, which may be there already */
		for (size_t i = ARRAY_SIZE(group->fds); i-- > 0;)
			group->fds[i] = fd_close(group->fds[i]);
	return r; /* the caller may fall back: not yet a failure */
}

/* @kind: ID_*, or 0. */
static int put_id(struct perf_source *source, int fd, pid_t tid, uint64_t kind)
{
	uint64_t id;
	int r;

	if (fd < 0)
		return 0;
	if (ioctl(fd, PERF_EVENT_IOC_ID, &id) < 0)
		return fail(-errno);
	r = kind ? table_put(&source->switch_ids, id, kind) : 0;
	if (r >= 0 && tid >= 0)
		r = table_put(&source->tid_of_id, id, (uint64_t)tid);
	return r < 0 ? trace(r) : 0;
}

int source_switch_remember(struct perf_source *source, const struct source_task *task)
{
	int r = 0;

	for (size_t i = 0; i < source->n_cpus && source->options.switches && r >= 0; i++) {
		const struct source_group *group = &task->groups[i];

		r = put_id(source, group->sideband, task->tid, 0);
		if (r >= 0)
			r = put_id(source, group->fds[FD_SWITCH], task->tid, ID_SWITCH);
		if (r >= 0)
			r = put_id(source, group->fds[FD_SWITCH_THIN], task->tid, ID_SWITCH);
	}
	return r < 0 ? trace(r) : 0;
}

/* Of whole CPUs where that is permitted, in the first task's group: the event of a task is not delivered to it when another
 * task wakes it (Linux 6.18; perf_tp_event_target_task() in kernel/events/core.c should).  Else of the task: wake-ups by
 * the tasks that are recorded. */
static int open_wide(struct perf_source *source, size_t cpu_index, bool wakers)
{
	struct perf_options options = source->options;
	struct perf_event_attr attr;

	options.tasks = false;
	if (wakers)
		attr_waker(&options, &attr);
	else
		attr_waking(&options, &attr);
	attr.disabled = !source->options.enable_on_exec; /* else nothing enables it */
	return perf_event_open(&attr, -1, (int)source->cpus[cpu_index].cpu, -1,
			       PERF_FLAG_FD_CLOEXEC);
}

static int open_of_task(struct perf_source *source, pid_t tid, size_t cpu_index, bool wakers)
{
	struct perf_event_attr attr;

	if (wakers)
		attr_waker(&source->options, &attr);
	else
		attr_waking(&source->options, &attr);
	return perf_event_open(&attr, tid, (int)source->cpus[cpu_index].cpu, -1,
			       PERF_FLAG_FD_CLOEXEC);
}

/* A refusal is not a failure: wake-ups are then not known. */
static int open_waking(struct perf_source *source, pid_t tid, size_t cpu_index,
		       struct source_group *group, bool wakers)
{
	int *fd = &group->fds[wakers ? FD_WAKER : FD_WAKING];
	int ring = wakers ? source->rings[2 * cpu_index].ring.fd : group->sideband;
	char filter[32];

	if (!source->options.waking || *fd >= 0 || (source->wakings_wide && source->n_tasks))
		return 0;
	if (tid >= 0 && !source->n_tasks)
		*fd = open_wide(source, cpu_index, wakers);
	if (*fd >= 0) {
		source->wakings_wide = true;
		(void)snprintf(filter, sizeof(filter), "pid==%d", tid);
		(void)ioctl(*fd, PERF_EVENT_IOC_SET_FILTER, filter);
	} else {
		*fd = open_of_task(source, tid, cpu_index, wakers);
	}
	if (*fd < 0)
		return 0;
	source->samples_wakers |= wakers;
	if (ioctl(*fd, PERF_EVENT_IOC_SET_OUTPUT, ring) < 0)
		return fail(-errno);
	return wakers ? put_id(source, *fd, -1, ID_WAKER) : 0;
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
	if (source->options.wakers && group->fds[FD_SWITCH] >= 0 &&
	    open_waking(source, task->tid, cpu_index, group, true) < 0)
		return fail(-errno);
	return open_waking(source, task->tid, cpu_index, group, false);
}

int source_switch_request(const struct perf_source *source, const struct source_group *group,
			  bool sideband, unsigned long request)
{
	const int *fds = group->fds;
	const int sampling[] = {fds[group->turn], fds[FD_SWITCH + source->thin],
				source->thin ? -1 : fds[FD_WAKER]};
	const int others[] = {group->sideband, fds[FD_WAKING]};
	size_t n = sideband ? ARRAY_SIZE(others) : ARRAY_SIZE(sampling);
	int first_error = 0;

	for (size_t i = 0; i < n; i++) {
		int fd = sideband ? others[i] : sampling[i];

		if (fd >= 0 && ioctl(fd, request, 0) < 0 && !first_error)
			first_error = -errno;
	}
	return first_error < 0 ? fail(first_error) : 0;
}

bool perf_source_samples_switches(const struct perf_source *source)
{
	return source->samples_switches;
}

bool perf_source_is_switch(const struct perf_source *source, uint64_t id)
{
	uint64_t v;

	return source->options.switches && table_get(&source->switch_ids, id, &v) && v == ID_SWITCH;
}

void perf_source_filter_wakings(struct perf_source *source, const uint32_t *tids, size_t n)
{
	char filter[PERF_WAKINGS * 18] = "pid>=0"; /* too many threads: all wake-ups */
	size_t len = 0;

	if (!source->wakings_wide || !n)
		return;
	for (size_t i = 0; i < n && n <= PERF_WAKINGS; i++)
		len += (size_t)snprintf(filter + len, sizeof(filter) - len, "%spid==%u",
					i ? "||" : "", tids[i]);
	for (size_t i = 0; i < source->n_cpus; i++)
		for (int k = FD_WAKING; k <= FD_WAKER; k++) {
			int fd = source->tasks[0].groups[i].fds[k];

			if (fd >= 0)
				(void)ioctl(fd, PERF_EVENT_IOC_SET_FILTER, filter);
		}
}

bool perf_source_samples_wakers(const struct perf_source *source)
{
	return source->samples_wakers;
}

bool perf_source_is_waker(const struct perf_source *source, uint64_t id)
{
	uint64_t v;

	return source->samples_wakers && table_get(&source->switch_ids, id, &v) && v == ID_WAKER;
}

int perf_source_thin_switches(struct perf_source *source, bool thin)
{
	unsigned long request = thin ? PERF_EVENT_IOC_DISABLE : PERF_EVENT_IOC_ENABLE;
	int first_error = 0;

	if (!source->samples_switches || source->thin == thin)
		return 0;
	source->thin = thin;
	if (!source_samples(source) && !source->options.enable_on_exec)
		return 0;
	for (size_t t = 0; t < source->n_tasks; t++) {
		for (size_t i = 0; i < source->n_cpus; i++) {
			const int *fds = &source->tasks[t].groups[i].fds[FD_SWITCH];
			int waker = source->tasks[t].groups[i].fds[FD_WAKER];

			/* The new one first: no switch is missed, and the joiner drops doubles. */
			if (fds[thin] >= 0 && ioctl(fds[thin], PERF_EVENT_IOC_ENABLE, 0) < 0)
				first_error = first_error ? first_error : -errno;
			if (fds[!thin] >= 0 && ioctl(fds[!thin], PERF_EVENT_IOC_DISABLE, 0) < 0)
				first_error = first_error ? first_error : -errno;
			if (waker >= 0 && ioctl(waker, request, 0) < 0)
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
