/* source-watch.c - tasks that sleep and run again, without a timer.  See source-parts.h.
 *
 * A sampling ring wakes its reader when many records wait, so a timer reads the rest.  While all tasks sleep the timer
 * is a waste.  So each task has one more event a CPU, which is off: a task clock that wakes its reader at each
 * record.  It is on while the reader has no timer:
 *
 *   reader:  timer ──── nothing comes ──► watch on ──► no timer ── a record in a sideband ring ──► watch off, timer
 *
 * Inherited events can be switched on and off, unlike their period or watermark (PERF_EVENT_IOC_PERIOD reaches the
 * opened event only, and the watermark belongs to the ring). */
#include <errno.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include "perf/attr.h"
#include "perf/source-parts.h"

enum {
	WATCHES = 1024, /* one descriptor each */
	FILES_SHARE = 8,
};

size_t source_most_extra(void)
{
	struct rlimit limit = {0};

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 0;
	return min_u64(WATCHES, limit.rlim_cur / FILES_SHARE);
}

static int open_one(struct perf_source *source, const struct source_task *task, size_t cpu_index)
{
	struct source_group *group = &task->groups[cpu_index];
	struct perf_event_attr attr;
	int fd;

	if (source->n_watches == source_most_extra())
		return -EMFILE;
	attr_watch(&source->options, &attr);
	fd = perf_event_open(&attr, task->tid, (int)source->cpus[cpu_index].cpu, -1,
			     PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return fd;
	group->fds[FD_WATCH] = fd;
	source->n_watches++;
	return ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, source->rings[2 * cpu_index + 1].ring.fd) < 0
		       ? -errno
		       : 0;
}

void source_watch_open(struct perf_source *source, const struct source_task *task)
{
	source->unwatched |= !source->options.watch || !source->rings;
	for (size_t i = 0; i < source->n_cpus && !source->unwatched; i++)
		if (task->groups[i].fds[0] >= 0)
			source->unwatched = open_one(source, task, i) < 0;
}

bool perf_source_can_watch(const struct perf_source *source)
{
	return source->n_watches && !source->unwatched;
}

int perf_source_watch(struct perf_source *source, bool on)
{
	unsigned long request = on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE;
	int first_error = 0;

	for (size_t t = 0; t < source->n_tasks; t++)
		for (size_t i = 0; i < source->n_cpus; i++) {
			int fd = source->tasks[t].groups[i].fds[FD_WATCH];

			if (fd >= 0 && ioctl(fd, request, 0) < 0 && !first_error)
				first_error = -errno;
		}
	return first_error < 0 ? fail(first_error) : 0;
}

int perf_source_task_fd(const struct perf_source *source, size_t index)
{
	return index < source->n_tasks ? source->tasks[index].groups[0].sideband : -1;
}
