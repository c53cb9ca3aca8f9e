/* source-soon.c - samples that wake their reader at once.  See source-parts.h.
 *
 * The watermark of a ring, 64 samples, saves wake-ups.  A stack that goes on beyond its copy is read from the memory of
 * the process, and each microsecond until then the thread moves on.  So for a while a CPU has another event in the
 * leader's place, equal but for its wakeup_events = 1:
 *
 *   machine   the event of the CPU is replaced, as for another size of copies (source-count.c)
 *   tasks     inherited events cannot be replaced: each task has one more event a CPU from the start, which is off
 *
 *     leader  ────────────┤ off                on ├─────────
 *     soon           on ├────────────────────────────┤ off    a period that has begun goes on when its event is on again
 */
#include <errno.h>
#include <sys/ioctl.h>

#include "perf/attr.h"
#include "perf/source-parts.h"

static int open_one(struct perf_source *source, struct source_task *task, size_t cpu_index)
{
	struct source_group *group = &task->groups[cpu_index];
	struct perf_event_attr attr;
	uint64_t id;
	int fd, r;

	if (source->n_soon == source_most_extra())
		return -EMFILE;
	attr_leader(&source->options, source->options.stack_bytes, &attr);
	attr.enable_on_exec = 0;
	attr.wakeup_events = 1;
	fd = perf_event_open(&attr, task->tid, (int)source->cpus[cpu_index].cpu, -1,
			     PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return fd;
	group->fds[FD_SOON] = fd;
	group->soon = source->cpus[cpu_index].soon;
	source->n_soon++;
	if (source->options.leader.filter &&
	    ioctl(fd, PERF_EVENT_IOC_SET_FILTER, source->options.leader.filter) < 0)
		return -errno;
	if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, source->rings[2 * cpu_index].ring.fd) < 0 ||
	    ioctl(fd, PERF_EVENT_IOC_ID, &id) < 0)
		return -errno;
	r = table_put(&source->soon_ids, id, 1);
	return r < 0 ? r : table_put(&source->tid_of_id, id, (uint64_t)task->tid);
}

static int request(const struct source_group *group, bool soon, unsigned long what)
{
	int fd = group->fds[soon ? FD_SOON : 0];

	return fd < 0 || ioctl(fd, what, 0) == 0 ? 0 : fail(-errno);
}

/* Which of the two events of each task samples from now on.  Both run for a moment: perf_source_is_double(). */
static int use(struct perf_source *source, size_t cpu_index, bool soon)
{
	bool runs = source_samples(source) || source->options.enable_on_exec;
	struct source_cpu *cpu = &source->cpus[cpu_index];
	int first_error = 0;
	uint64_t time;

	for (size_t t = 0; t < source->n_tasks && runs; t++) {
		int r = request(&source->tasks[t].groups[cpu_index], soon, PERF_EVENT_IOC_ENABLE);

		first_error = first_error ? first_error : r;
	}
	time = clock_ns(source->options.clock);
	for (size_t t = 0; t < source->n_tasks; t++) {
		struct source_group *group = &source->tasks[t].groups[cpu_index];
		int r = runs ? request(group, !soon, PERF_EVENT_IOC_DISABLE) : 0;

		first_error = first_error ? first_error : r;
		group->soon = soon;
	}
	cpu->soon = soon;
	if (runs)
		source_add_span(cpu, soon ? SPAN_LEADER : SPAN_SOON, soon ? SPAN_SOON : SPAN_LEADER,
				time);
	return first_error;
}

/* Without an event of this task no CPU can be read soon. */
static void give_up(struct perf_source *source, struct source_task *task)
{
	source->unsoon = true;
	for (size_t i = 0; i < source->n_cpus; i++) {
		task->groups[i].soon = false; /* it is not among the tasks yet, and off */
		if (source->cpus[i].soon)
			(void)use(source, i, false);
	}
}

void source_soon_open(struct perf_source *source, struct source_task *task)
{
	if (!source->options.soon || !source->options.tasks || !source->rings || source->unsoon)
		return;
	for (size_t i = 0; i < source->n_cpus; i++)
		if (task->groups[i].fds[0] >= 0 && open_one(source, task, i) < 0) {
			give_up(source, task);
			return;
		}
}

int perf_source_read_soon(struct perf_source *source, uint32_t cpu, bool on)
{
	size_t index = source_cpu_index(source, cpu);
	int r;

	if (!source->options.soon || source->unsoon || index == source->n_cpus || !source->rings)
		return -EOPNOTSUPP; /* an answer: the caller has another way */
	if (source->cpus[index].soon == on)
		return 0;
	if (source->options.tasks)
		return trace(use(source, index, on));
	source->cpus[index].soon = on;
	r = source_replace(source, index, source->cpus[index].stack_bytes);
	if (r < 0)
		source->cpus[index].soon = !on;
	return trace(r);
}
