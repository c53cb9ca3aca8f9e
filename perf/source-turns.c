/* source-turns.c - events of a task that sample in turn.  See source-parts.h.
 *
 * Neither the size of an event's copies nor its watermark can be changed, and an inherited event cannot be replaced without
 * losing the children that inherited it.  So each task has more events a CPU from the start, equal to the leader but for:
 *
 *   soon           wakeup_events = 1.  The watermark of a ring saves wake-ups, but a stack that goes on beyond its copy is read
 *                  from the memory of the process, and each microsecond until then the thread moves on.
 *   middle, small  PERF_MIDDLE_BYTES and PERF_SMALL_BYTES of each stack
 *
 * One event samples.  Enabling or disabling an opened event reaches all copies that children have inherited.  But a
 * child gets the state that the event of its parent had when the fork began, and is reached only when it is in the list
 * (inherit_event() in kernel/events/core.c reads the state before it takes child_mutex): a child that was forked meanwhile
 * has the old event only.  So both events run for a while, and each request is repeated:
 *
 *     old    ───────────────────────────────┤ off       off
 *     new        on ├─────────────────── on ├────────── on
 *                         SETTLE_NS         t  SETTLE_NS
 *
 * Samples of new before t, and of old after it, are doubles (perf_source_is_double()); what new counted until t is taken off
 * the counts.  For `soon` the first request changes over at once.  Events of whole CPUs are replaced (source-count.c). */
#include <errno.h>
#include <sys/ioctl.h>
#include <time.h>

#include "perf/attr.h"
#include "perf/source-parts.h"

enum { FIRST_TURN = FD_SOON, SETTLE_NS = 50000000 /* longer than a fork */ };

static uint32_t bytes_of(const struct perf_source *source, int turn)
{
	return turn == FD_MIDDLE  ? PERF_MIDDLE_BYTES
	       : turn == FD_SMALL ? PERF_SMALL_BYTES
				  : source->options.stack_bytes;
}

static bool is_wanted(const struct perf_source *source, int turn)
{
	const struct perf_options *o = &source->options;

	if (!o->tasks || !source->rings || source->no_turn[turn - FIRST_TURN])
		return false;
	return turn == FD_SOON ? o->soon : o->sizes && bytes_of(source, turn) < o->stack_bytes;
}

static int open_one(struct perf_source *source, struct source_task *task, size_t cpu_index,
		    int turn)
{
	struct source_group *group = &task->groups[cpu_index];
	struct perf_event_attr attr;
	uint64_t id;
	/* Sizes save time; stacks that are read soon are whole. */
	size_t most = source_most_extra() / (turn == FD_SOON ? 1 : 2);
	int fd, r;

	if (source->n_turns[turn - FIRST_TURN] == most)
		return -EMFILE;
	attr_leader(&source->options, bytes_of(source, turn), &attr);
	attr.enable_on_exec = 0;
	attr.wakeup_events = source_wakeup_events(source, turn == FD_SOON, bytes_of(source, turn));
	fd = perf_event_open(&attr, task->tid, (int)source->cpus[cpu_index].cpu, -1,
			     PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return fd;
	group->fds[turn] = fd;
	source->n_turns[turn - FIRST_TURN]++;
	if (source->options.leader.filter &&
	    ioctl(fd, PERF_EVENT_IOC_SET_FILTER, source->options.leader.filter) < 0)
		return -errno;
	if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, source->rings[2 * cpu_index].ring.fd) < 0 ||
	    ioctl(fd, PERF_EVENT_IOC_ID, &id) < 0)
		return -errno;
	source_attach_program(source, fd);
	r = table_put(&source->turn_ids, id, SPAN_TASKS + (uint64_t)turn);
	return r < 0 ? r : table_put(&source->tid_of_id, id, (uint64_t)task->tid);
}

/* @what (PERF_EVENT_IOC_ENABLE ...) to the events of all tasks on a CPU.  The first error. */
static int request(const struct perf_source *source, size_t cpu_index, int turn, unsigned long what)
{
	int first_error = 0;

	for (size_t t = 0; t < source->n_tasks; t++) {
		int fd = source->tasks[t].groups[cpu_index].fds[turn];

		if (fd >= 0 && ioctl(fd, what, 0) < 0 && !first_error)
			first_error = -errno;
	}
	return first_error < 0 ? fail(first_error) : 0;
}

static bool runs(const struct perf_source *source)
{
	return source_samples(source) || source->options.enable_on_exec;
}

/* The counts of an event that is enabled now, and later will be the one that samples. */
static void count_first(struct perf_source *source, size_t cpu_index, int turn)
{
	for (size_t t = 0; t < source->n_tasks; t++) {
		struct source_group *group = &source->tasks[t].groups[cpu_index];

		if (group->fds[turn] < 0 ||
		    source_count_read(source, group->fds[turn], &group->first) < 0)
			group->first = (struct source_count){0};
	}
}

/* What it has counted since is taken off the counts. */
static void count_twice(struct perf_source *source, size_t cpu_index, int turn)
{
	for (size_t t = 0; t < source->n_tasks; t++) {
		struct source_group *group = &source->tasks[t].groups[cpu_index];
		struct source_count count;

		if (group->fds[turn] < 0 || source_count_read(source, group->fds[turn], &count) < 0)
			continue;
		group->twice.value += count.value - group->first.value;
		group->twice.running_ns += count.running_ns - group->first.running_ns;
		group->twice.lost += count.lost - group->first.lost;
	}
}

static void pause_settling(struct perf_source *source, struct source_cpu *cpu)
{
	source->n_settling -= cpu->state != TURN_SETTLED;
	cpu->state = TURN_SETTLED;
}

static void set_state(struct perf_source *source, struct source_cpu *cpu, int before,
		      enum turn_state state)
{
	pause_settling(source, cpu);
	source->n_settling++;
	cpu->state = state;
	cpu->before = (uint8_t)before;
	cpu->settle_at = clock_ns(CLOCK_MONOTONIC) + SETTLE_NS;
}

/* From now on the samples of @turn are the good ones.  If @counts, its events run already, and have been counted since. */
static int change_over(struct perf_source *source, size_t cpu_index, int turn, bool counts)
{
	struct source_cpu *cpu = &source->cpus[cpu_index];
	int old = cpu->turn, r = 0, q = 0;
	uint64_t time;

	if (runs(source))
		r = request(source, cpu_index, turn, PERF_EVENT_IOC_ENABLE);
	time = clock_ns(source->options.clock);
	if (counts)
		count_twice(source, cpu_index, turn);
	if (runs(source)) {
		q = request(source, cpu_index, old, PERF_EVENT_IOC_DISABLE);
		source_add_span(cpu, SPAN_TASKS + (uint64_t)old, SPAN_TASKS + (uint64_t)turn, time);
		set_state(source, cpu, old, TURN_REPEAT);
	}
	for (size_t t = 0; t < source->n_tasks; t++)
		source->tasks[t].groups[cpu_index].turn = (uint8_t)turn;
	cpu->turn = (uint8_t)turn;
	cpu->stack_bytes = bytes_of(source, turn);
	cpu->soon = turn == FD_SOON;
	source->turns_used |= 1u << turn;
	return r < 0 ? trace(r) : trace(q);
}

/* The event that was to take over, but does not. */
static void call_off(struct perf_source *source, size_t cpu_index)
{
	struct source_cpu *cpu = &source->cpus[cpu_index];

	if (cpu->state != TURN_BOTH)
		return;
	(void)request(source, cpu_index, cpu->next, PERF_EVENT_IOC_DISABLE);
	count_twice(source, cpu_index, cpu->next);
	pause_settling(source, cpu);
}

/* Without an event of this task there is none for the others. */
static void give_up(struct perf_source *source, struct source_task *task, int turn)
{
	source->no_turn[turn - FIRST_TURN] = true;
	for (size_t i = 0; i < source->n_cpus; i++) {
		task->groups[i].turn = 0; /* it is not among the tasks yet, and off */
		if (source->cpus[i].state == TURN_BOTH && source->cpus[i].next == turn)
			call_off(source, i);
		if (source->cpus[i].turn == turn)
			(void)change_over(source, i, 0, false);
		task->groups[i].turn = source->cpus[i].turn;
	}
}

void source_turns_open(struct perf_source *source, struct source_task *task)
{
	for (size_t i = 0; i < source->n_cpus; i++)
		task->groups[i].turn = source->cpus[i].turn;
	for (int turn = FIRST_TURN; turn < FDS; turn++)
		for (size_t i = 0; i < source->n_cpus && is_wanted(source, turn); i++)
			if (task->groups[i].fds[0] >= 0 && open_one(source, task, i, turn) < 0)
				give_up(source, task, turn);
}

void source_turns_stop(struct perf_source *source)
{
	for (size_t i = 0; i < source->n_cpus; i++) {
		call_off(source, i);
		if (source->cpus[i].state == TURN_REPEAT)
			(void)request(source, i, source->cpus[i].before, PERF_EVENT_IOC_DISABLE);
		pause_settling(source, &source->cpus[i]);
	}
}

int source_turns_read(const struct perf_source *source, const struct source_task *task,
		      size_t cpu_index, struct source_count *ret_count)
{
	const struct source_group *group = &task->groups[cpu_index];
	const struct source_cpu *cpu = &source->cpus[cpu_index];
	struct source_count sum = {0};

	for (int turn = 0; turn < FDS; turn++) {
		struct source_count count = group->first;
		bool first = cpu->state == TURN_BOTH && cpu->next == turn;
		int r;

		if (group->fds[turn] < 0 || (turn && !(source->turns_used & 1u << turn)))
			continue;
		r = first ? 0 : source_count_read(source, group->fds[turn], &count);
		if (r < 0)
			return trace(r);
		sum.value += count.value;
		sum.enabled_ns = turn ? sum.enabled_ns : count.enabled_ns;
		sum.running_ns += count.running_ns;
		sum.lost += count.lost;
	}
	sum.value -= group->twice.value;
	sum.running_ns -= group->twice.running_ns;
	sum.lost -= group->twice.lost;
	*ret_count = sum;
	return 0;
}

int source_turns_set_bytes(struct perf_source *source, size_t cpu_index, uint32_t bytes)
{
	struct source_cpu *cpu = &source->cpus[cpu_index];
	int turn = 0, r;

	if (!source->options.sizes || !runs(source))
		return -EOPNOTSUPP; /* an answer: the size stays */
	for (int i = FD_MIDDLE; i < FDS; i++)
		if (bytes_of(source, i) == bytes)
			turn = i;
	if (bytes != bytes_of(source, turn))
		return fail(-EINVAL);
	if (turn && !is_wanted(source, turn))
		return -EOPNOTSUPP;
	if (cpu->state == TURN_BOTH || cpu->soon)
		return -EAGAIN;
	if (cpu->turn == turn)
		return 0;
	if (cpu->state == TURN_REPEAT)
		(void)request(source, cpu_index, cpu->before, PERF_EVENT_IOC_DISABLE);
	if (!cpu->n_spans) /* records are read while both events run */
		source_add_span(cpu, SPAN_TASKS, SPAN_TASKS, 0);
	source->turns_used |= 1u << turn;
	cpu->next = (uint8_t)turn;
	count_first(source, cpu_index, turn);
	r = request(source, cpu_index, turn, PERF_EVENT_IOC_ENABLE);
	set_state(source, cpu, cpu->turn, TURN_BOTH);
	return trace(r);
}

bool perf_source_settle(struct perf_source *source)
{
	uint64_t now = source->n_settling ? clock_ns(CLOCK_MONOTONIC) : 0;
	bool changed = false;

	for (size_t i = 0; i < source->n_cpus && source->n_settling; i++) {
		struct source_cpu *cpu = &source->cpus[i];

		if (cpu->state == TURN_SETTLED || now < cpu->settle_at)
			continue;
		if (cpu->state == TURN_BOTH) {
			(void)change_over(source, i, cpu->next, true);
			changed = true;
			continue;
		}
		(void)request(source, i, cpu->turn, PERF_EVENT_IOC_ENABLE);
		(void)request(source, i, cpu->before, PERF_EVENT_IOC_DISABLE);
		pause_settling(source, cpu);
	}
	return changed;
}

uint64_t source_turn_of(const struct perf_source *source, uint64_t id)
{
	uint64_t turn;

	return table_get(&source->turn_ids, id, &turn) ? turn : SPAN_TASKS;
}

int perf_source_read_soon(struct perf_source *source, uint32_t cpu, bool on)
{
	size_t index = source_cpu_index(source, cpu);
	int r;

	if (!source->options.soon || index == source->n_cpus || !source->rings ||
	    (source->options.tasks && !is_wanted(source, FD_SOON)))
		return -EOPNOTSUPP; /* an answer: the caller has another way */
	if (source->cpus[index].soon == on)
		return 0;
	if (source->options.tasks) {
		call_off(source, index);
		return trace(change_over(source, index, on ? FD_SOON : 0, false));
	}
	source->cpus[index].soon = on;
	r = source_replace(source, index, source->cpus[index].stack_bytes);
	if (r < 0)
		source->cpus[index].soon = !on;
	return trace(r);
}
