/* source-count.c - the counts of the kernel, and the change of stack size on one CPU.  See
 * source-parts.h.
 *
 * Replacing an event without a hole:
 *
 *     old  ────────────────────────┤ disabled, read, closed
 *     new        enabled ├──────────────────────────────
 *                           t      both run for a moment: t is the clock, read in between
 *
 * Samples of old from t on and of new before t are doubles; together each moment is covered once.
 */
#include <errno.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "perf/source-parts.h"

/* read_format of attr.c: [nr] value enabled running, or nr enabled running (value lost) ... */
enum { READ_WORDS = 3 + 2 * (1 + PERF_MAX_FOLLOWERS) };

int source_count_read(const struct perf_source *source, int fd, struct source_count *ret_count)
{
	uint64_t words[READ_WORDS];
	bool lost = source->options.features.has[FEATURE_FORMAT_LOST];
	size_t group = source->options.n_followers, want;
	ssize_t n = read(fd, words, sizeof(words));

	if (n < 0)
		return fail(-errno);
	if (n == 0) { /* an event in error state counts nothing */
		*ret_count = (struct source_count){0};
		return 0;
	}
	want = group ? 3 + (lost ? 2u : 1u) * (group + 1) : lost ? 4 : 3;
	if ((size_t)n < want * sizeof(words[0]))
		return fail(-EIO);
	*ret_count = (struct source_count){
		.value = group ? words[3] : words[0],
		.enabled_ns = words[1],
		.running_ns = words[2],
		.lost = !lost	? 0
			: group ? words[4]
				: words[3],
	};
	return 0;
}

int perf_source_read_group(const struct perf_source *source, size_t index, uint64_t *ret_counts,
			   size_t *ret_n, uint32_t *ret_cpu)
{
	uint64_t words[READ_WORDS];
	size_t group = source->options.n_followers,
	       stride = source->options.features.has[FEATURE_FORMAT_LOST] ? 2 : 1;
	size_t want = group ? 3 + stride * (group + 1) : 2 + stride;
	ssize_t n;

	if (index >= source->n_cpus)
		return fail(-EINVAL);
	n = read(source->tasks[0].groups[index].fds[0], words, sizeof(words));
	if (n < (ssize_t)(want * sizeof(words[0])))
		return fail(n < 0 ? -errno : -EIO);
	ret_counts[0] = words[0];
	for (size_t i = 0; group && i <= group; i++)
		ret_counts[i] = words[3 + i * stride];
	*ret_n = 1 + group;
	*ret_cpu = source->cpus[index].cpu;
	return 0;
}

int perf_source_lost(const struct perf_source *source, size_t index, uint64_t *ret_lost)
{
	uint64_t sum = 0;

	if (index >= source->n_cpus)
		return fail(-EINVAL);
	sum = source->cpus[index].closed.lost;
	for (size_t t = 0; t < source->n_tasks; t++) {
		const struct source_task *task = &source->tasks[t];
		struct source_count count;
		int r;

		if (task->groups[index].fds[0] < 0)
			continue;
		r = source_turns_read(source, task, index, &count);
		if (r < 0)
			return trace(r);
		sum += count.lost;
	}
	*ret_lost = sum;
	return 0;
}

int source_sideband_lost(const struct perf_source *source, int fd, uint64_t *ret_lost)
{
	uint64_t words[2]; /* value, lost */

	*ret_lost = 0;
	if (fd < 0 || !source->options.features.has[FEATURE_FORMAT_LOST])
		return 0;
	if (read(fd, words, sizeof(words)) != (ssize_t)sizeof(words))
		return fail(-EIO);
	*ret_lost = words[1];
	return 0;
}

/* Software events never wait for a counter. */
static bool multiplexes(const struct perf_source *source)
{
	uint32_t type = source->options.leader.type;

	return type != PERF_TYPE_SOFTWARE && type != PERF_TYPE_TRACEPOINT;
}

static uint64_t scaled(const struct perf_source *source, const struct source_count *count)
{
	if (!multiplexes(source) || count->running_ns == 0 ||
	    count->running_ns >= count->enabled_ns)
		return count->value;
	return (uint64_t)((unsigned __int128)count->value * count->enabled_ns / count->running_ns);
}

static void add(const struct source_count *count, uint64_t value, struct perf_counts *sum)
{
	sum->count += value;
	sum->enabled_ns += count->enabled_ns;
	sum->running_ns += count->running_ns;
	sum->lost_samples += count->lost;
}

static int count_machine(const struct perf_source *source, size_t index, struct perf_counts *sum)
{
	const struct source_count *closed = &source->cpus[index].closed;
	const struct source_group *group = &source->tasks[0].groups[index];
	struct source_count count;
	uint64_t lost;
	int r;

	r = source_count_read(source, group->fds[0], &count);
	if (r >= 0)
		r = source_sideband_lost(source, group->sideband, &lost);
	if (r < 0)
		return trace(r);
	source_hotplug_look(source, &source->cpus[index], count.enabled_ns);
	add(&count, scaled(source, &count), sum);
	add(closed, closed->value, sum);
	sum->lost_sideband += lost + source->cpus[index].sideband_lost;
	return 0;
}

/* A task's events, one a CPU, run only while the task is on their CPU, and what the kernel counts
 * as enabled besides differs between those that were inherited and those that were not (tried
 * on 6.18).  Enabled is the task's CPU time; they run when one event does. */
static int count_task(const struct perf_source *source, const struct source_task *task,
		      struct perf_counts *sum)
{
	struct source_count all = {0}, count;
	uint64_t lost, clock;
	int r;

	for (size_t i = 0; i < source->n_cpus; i++) {
		if (task->groups[i].fds[0] < 0)
			continue;
		r = source_turns_read(source, task, i, &count);
		if (r >= 0)
			r = source_sideband_lost(source, task->groups[i].sideband, &lost);
		if (r < 0)
			return trace(r);
		all.value += count.value;
		all.running_ns += count.running_ns;
		all.lost += count.lost;
		sum->lost_sideband += lost;
	}
	if (read(task->clock_fd, &clock, sizeof(clock)) != (ssize_t)sizeof(clock))
		return fail(-EIO);
	all.enabled_ns = clock;
	add(&all, scaled(source, &all), sum);
	sum->task_clock_ns += clock;
	return 0;
}

int perf_source_counts(struct perf_source *source, struct perf_counts *ret_counts)
{
	struct perf_counts sum = {.lost_exact = source->options.features.has[FEATURE_FORMAT_LOST]};
	size_t n = source->options.tasks ? source->n_tasks : source->n_cpus;

	for (size_t i = 0; i < n; i++) {
		int r = source->options.tasks ? count_task(source, &source->tasks[i], &sum)
					      : count_machine(source, i, &sum);

		if (r < 0)
			return trace(r);
	}
	*ret_counts = sum;
	return 0;
}

/* An event with a ring hangs up when its task and all children that inherited it are gone
 * (kernel/events/core.c, perf_poll()).  The sideband event is polled: a poll consumes the ring's
 * wake-up, which is not needed there. */
static bool hung_up(const struct source_task *task)
{
	struct pollfd pfd = {.fd = task->groups[0].sideband};

	return poll(&pfd, 1, 0) > 0 && pfd.revents & POLLHUP;
}

bool perf_source_tasks_gone(struct perf_source *source)
{
	if (!source->options.tasks || !source->n_tasks)
		return false;
	for (size_t i = 0; i < source->n_tasks; i++) {
		if (!hung_up(&source->tasks[source->living]))
			return false;
		source->living = (source->living + 1) % source->n_tasks;
	}
	return true;
}

size_t source_cpu_index(const struct perf_source *source, uint32_t cpu)
{
	size_t i;

	if (cpu < source->n_cpus && source->cpus[cpu].cpu == cpu) /* all CPUs, as mostly */
		return cpu;
	for (i = 0; i < source->n_cpus && source->cpus[i].cpu != cpu; i++)
		;
	return i;
}

void source_add_span(struct source_cpu *cpu, uint64_t old_id, uint64_t new_id, uint64_t time)
{
	if (cpu->n_spans == 0) {
		cpu->spans[0].id = old_id;
		cpu->spans[0].from = 0;
		cpu->n_spans = 1;
	}
	if (cpu->n_spans == SOURCE_SPANS) {
		for (size_t i = 1; i < SOURCE_SPANS; i++)
			cpu->spans[i - 1] = cpu->spans[i];
		cpu->n_spans--;
	}
	cpu->spans[cpu->n_spans - 1].until = time;
	cpu->spans[cpu->n_spans].id = new_id;
	cpu->spans[cpu->n_spans].from = time;
	cpu->spans[cpu->n_spans].until = UINT64_MAX;
	cpu->n_spans++;
}

/* Both events are open and write into the ring; when this returns only @next runs. */
static int hand_over(struct perf_source *source, size_t index, struct source_group *old,
		     const struct source_group *next)
{
	struct source_cpu *cpu = &source->cpus[index];
	struct source_count count;
	uint64_t time = 0;
	int r;

	if (source_samples(source)) {
		if (ioctl(next->fds[0], PERF_EVENT_IOC_ENABLE, 0) < 0)
			return fail(-errno);
		time = clock_ns(source->options.clock);
		if (ioctl(old->fds[0], PERF_EVENT_IOC_DISABLE, 0) < 0 && !cpu->dead)
			return fail(-errno);
	}
	r = source_count_read(source, old->fds[0], &count);
	if (r < 0)
		return trace(r);
	cpu->closed.value += scaled(source, &count);
	cpu->closed.enabled_ns += count.enabled_ns;
	cpu->closed.running_ns += count.running_ns;
	cpu->closed.lost += count.lost;
	if (source_samples(source))
		source_add_span(cpu, old->id, next->id, time);
	return 0;
}

int source_replace(struct perf_source *source, size_t index, uint32_t bytes)
{
	_cleanup_(source_group_deinit) struct source_group next;
	struct source_group *group = &source->tasks[0].groups[index];
	int r;

	source_group_init(&next);
	r = source_group_open(source, -1, index, bytes, &next);
	if (r < 0)
		return fail(r);
	if (ioctl(next.fds[0], PERF_EVENT_IOC_SET_OUTPUT, source->rings[2 * index].ring.fd) < 0)
		return fail(-errno);
	r = hand_over(source, index, group, &next);
	if (r < 0)
		return trace(r);
	/* the sideband event stays; `next` takes the old ones along to be closed */
	for (size_t i = 0; i < ARRAY_SIZE(next.fds); i++) {
		int fd = group->fds[i];

		group->fds[i] = next.fds[i];
		next.fds[i] = fd;
	}
	group->id = next.id;
	source->cpus[index].stack_bytes = bytes;
	return 0;
}

int perf_source_set_stack_bytes(struct perf_source *source, uint32_t cpu, uint32_t bytes)
{
	size_t index = source_cpu_index(source, cpu);

	if (index == source->n_cpus || !source->options.stack_bytes || bytes == 0 ||
	    bytes > 65528 || bytes % 8)
		return fail(-EINVAL);
	if (source->options.tasks)
		return source_turns_set_bytes(source, index, bytes);
	if (source->cpus[index].stack_bytes == bytes)
		return 0;
	return trace(source_replace(source, index, bytes));
}

uint32_t perf_source_stack_bytes(const struct perf_source *source, uint32_t cpu)
{
	size_t index = source_cpu_index(source, cpu);

	return index < source->n_cpus ? source->cpus[index].stack_bytes : 0;
}

bool perf_source_is_double(const struct perf_source *source, uint32_t ring, uint64_t id,
			   uint64_t time)
{
	const struct source_cpu *cpu;
	bool known = false;

	if (ring >= source->n_rings)
		return false;
	cpu = &source->cpus[ring / 2];
	if (!cpu->n_spans || time < cpu->spans[0].from)
		return false;
	if (source->options.tasks)
		id = source_turn_of(source, id);
	for (size_t i = cpu->n_spans; i-- > 0;) {
		if (cpu->spans[i].id != id)
			continue;
		if (time >= cpu->spans[i].from && time < cpu->spans[i].until)
			return false;
		known = true;
	}
	/* An event of tasks that was never the one that samples: it was about to be. */
	return known || source->options.tasks;
}
