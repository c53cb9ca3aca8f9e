/* source-count.c - the counts of the kernel; the events that replace others or sample in turn with them: another
 * size of copies, another watermark, a CPU that came back.  See source-parts.h.
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
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "perf/attr.h"
#include "perf/source-parts.h"

/* ---- events of a task that sample in turn ----
 *
 * Neither the size of an event's copies nor its watermark can be changed, and an inherited event cannot be replaced without
 * losing the children that inherited it.  A new period (PERF_EVENT_IOC_PERIOD) reaches the parent alone.  So each task has more
 * events a CPU from the start, equal to the leader but for:
 *
 *   soon           wakeup_events = 1.  The watermark of a ring saves wake-ups, but a stack that goes on beyond its copy is read
 *                  from the memory of the process, and each microsecond until then the thread moves on.
 *   middle, small  PERF_MIDDLE_BYTES and PERF_SMALL_BYTES of each stack
 *   slow ...       a lower rate (PERF_RATE_STEP)
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
 * the counts.  For `soon` the first request changes over at once.  Events of whole CPUs are replaced (source_replace()). */

enum {
	WATCHES = 1024, /* one descriptor each */
	FILES_SHARE = 8,
};

enum { READ_WORDS = 3 + 2 * (1 + PERF_MAX_FOLLOWERS) };

enum { FIRST_TURN = FD_SOON, SETTLE_NS = 50000000 /* longer than a fork */ };

/* The next event of a CPU, with copies of @bytes, takes over (machine). */
static int source_replace(struct perf_source *source, size_t index, uint32_t bytes);

static uint32_t bytes_of(const struct perf_source *source, int turn)
{
	return turn == FD_MIDDLE  ? PERF_MIDDLE_BYTES
	       : turn == FD_SMALL ? PERF_SMALL_BYTES
				  : source->options.stack_bytes;
}

static uint64_t rate_of(const struct perf_source *source, int turn)
{
	uint64_t hz = source->options.frequency;

	for (; turn >= FD_SLOW; turn--)
		hz /= PERF_RATE_STEP;
	return hz;
}

static bool is_wanted(const struct perf_source *source, int turn)
{
	const struct perf_options *o = &source->options;

	if (!o->tasks || !source->rings || source->no_turn[turn - FIRST_TURN])
		return false;
	if (turn >= FD_SLOW)
		return o->rates && rate_of(source, turn) >= PERF_RATE_LEAST;
	return turn == FD_SOON ? o->soon : o->sizes && bytes_of(source, turn) < o->stack_bytes;
}

/* How many events there may be for each of these uses, besides what a recording needs. */
static size_t source_most_extra(void)
{
	struct rlimit limit = {0};

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 0;
	return min_u64(WATCHES, limit.rlim_cur / FILES_SHARE);
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
	if (turn >= FD_SLOW)
		attr.sample_freq = rate_of(source, turn);
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

/* Of a leader, unscaled. */
static int source_count_read(const struct perf_source *source, int fd,
			     struct source_count *ret_count)
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

/* The same: from @time on the samples of @new_id are the good ones. */
static void source_add_span(struct source_cpu *cpu, uint64_t old_id, uint64_t new_id, uint64_t time)
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

static int source_turns_read(const struct perf_source *source, const struct source_task *task,
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

/* From now on the events of @turn run, too: the others until perf_source_settle(). */
static int take_turn(struct perf_source *source, size_t cpu_index, int turn)
{
	struct source_cpu *cpu = &source->cpus[cpu_index];
	int r;

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

/* Does a CPU have a lower rate, or will it have one? */
static bool is_slow(const struct source_cpu *cpu)
{
	return (cpu->state == TURN_BOTH ? cpu->next : cpu->turn) >= FD_SLOW;
}

static int source_turns_set_frequency(struct perf_source *source, uint64_t hz)
{
	int turn = FDS, first_error = 0;

	while (--turn >= FD_SLOW && (!is_wanted(source, turn) || rate_of(source, turn) != hz))
		;
	if (turn < FD_SLOW)
		turn = 0;
	if (!runs(source) || rate_of(source, turn) != hz)
		return -EOPNOTSUPP; /* an answer: the rate stays */
	for (size_t i = 0; i < source->n_cpus; i++) {
		struct source_cpu *cpu = &source->cpus[i];
		int r;

		if (!turn && !is_slow(cpu)) /* it may be of any size */
			continue;
		call_off(source, i);
		r = cpu->turn == turn ? 0 : take_turn(source, i, turn);
		first_error = first_error ? first_error : r;
	}
	return first_error;
}

static int source_turns_set_bytes(struct perf_source *source, size_t cpu_index, uint32_t bytes)
{
	struct source_cpu *cpu = &source->cpus[cpu_index];
	int turn = 0;

	if (!source->options.sizes || !runs(source))
		return -EOPNOTSUPP; /* an answer: the size stays */
	for (int i = FD_MIDDLE; i < FD_SLOW; i++)
		if (bytes_of(source, i) == bytes)
			turn = i;
	if (bytes != bytes_of(source, turn))
		return fail(-EINVAL);
	if (turn && !is_wanted(source, turn))
		return -EOPNOTSUPP;
	if (cpu->state == TURN_BOTH || cpu->soon || is_slow(cpu))
		return -EAGAIN;
	return cpu->turn == turn ? 0 : take_turn(source, cpu_index, turn);
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

/* tasks: SPAN_TASKS + the index of the event @id. */
static uint64_t source_turn_of(const struct perf_source *source, uint64_t id)
{
	uint64_t turn;

	return table_get(&source->turn_ids, id, &turn) ? turn : SPAN_TASKS;
}

/* Index in cpus[]; n_cpus: it is not one of ours. */
static size_t source_cpu_index(const struct perf_source *source, uint32_t cpu)
{
	size_t i;

	if (cpu < source->n_cpus && source->cpus[cpu].cpu == cpu) /* all CPUs, as mostly */
		return cpu;
	for (i = 0; i < source->n_cpus && source->cpus[i].cpu != cpu; i++)
		;
	return i;
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
		if (is_slow(&source->cpus[index]))
			return on ? -EOPNOTSUPP : 0;
		call_off(source, index);
		return trace(change_over(source, index, on ? FD_SOON : 0, false));
	}
	source->cpus[index].soon = on;
	r = source_replace(source, index, source->cpus[index].stack_bytes);
	if (r < 0)
		source->cpus[index].soon = !on;
	return trace(r);
}

/* ---- tasks that sleep and run again, without a timer ----
 *
 * A sampling ring wakes its reader when many records wait, so a timer reads the rest.  While all tasks sleep the timer
 * is a waste.  So each task has one more event a CPU, which is off: a task clock that wakes its reader at each
 * record.  It is on while the reader has no timer:
 *
 *   reader:  timer ──── nothing comes ──► watch on ──► no timer ── a record in a sideband ring ──► watch off, timer
 *
 * Inherited events can be switched on and off, unlike their period or watermark (PERF_EVENT_IOC_PERIOD reaches the
 * opened event only, and the watermark belongs to the ring). */

static int open_watch(struct perf_source *source, const struct source_task *task, size_t cpu_index)
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
			source->unwatched = open_watch(source, task, i) < 0;
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

/* ---- CPUs that go offline and come back ----
 *
 * The kernel takes the events of a CPU that goes offline away for good: they stay open and count no more, not even the time
 * for which they are enabled, which otherwise grows whether an event has a counter or not.  So a leader of which that time
 * stands still from one reading of the counts to the next is dead.  Opening an event on a CPU that is offline fails
 * (ENODEV), and is tried again later.  Rings stay: their memory does not belong to a CPU. */

/* The counts of a CPU's leader were read. */
static void source_hotplug_look(const struct perf_source *source, struct source_cpu *cpu,
				uint64_t enabled_ns)
{
	cpu->dead = cpu->counted && source_samples(source) && enabled_ns == cpu->enabled_ns;
	cpu->counted = source_samples(source);
	cpu->enabled_ns = enabled_ns;
}

/* Records that the sideband event @fd (-1: none) has lost. */
static int source_sideband_lost(const struct perf_source *source, int fd, uint64_t *ret_lost)
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

/* Mappings and names first: samples depend on their records. */
static int reopen_sideband(struct perf_source *source, size_t index)
{
	struct source_group *group = &source->tasks[0].groups[index];
	struct perf_event_attr attr;
	uint64_t lost;
	int fd;

	attr_sideband(&source->options, &attr);
	fd = perf_event_open(&attr, -1, (int)source->cpus[index].cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return fd; /* an answer: the CPU is offline */
	if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, source->rings[2 * index + 1].ring.fd) < 0 ||
	    ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) < 0) {
		int r = -errno;

		(void)fd_close(fd);
		return fail(r);
	}
	if (source_sideband_lost(source, group->sideband, &lost) >= 0)
		source->cpus[index].sideband_lost += lost;
	(void)fd_close(group->sideband);
	group->sideband = fd;
	return 0;
}

void perf_source_reopen_cpus(struct perf_source *source, void (*back)(void *arg, uint32_t cpu),
			     void *arg)
{
	if (source->options.tasks || source->options.poll || source->options.switches)
		return;
	for (size_t i = 0; i < source->n_cpus; i++) {
		struct source_cpu *cpu = &source->cpus[i];

		if (!cpu->dead || reopen_sideband(source, i) < 0 ||
		    source_replace(source, i, cpu->stack_bytes) < 0)
			continue;
		cpu->dead = cpu->counted = false;
		back(arg, cpu->cpu);
	}
}

/* ---- counts ---- */

/* read_format of attr.c: [nr] value enabled running, or nr enabled running (value lost) ... */
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
	struct perf_counts sum = {.lost_exact = source->options.features.has[FEATURE_FORMAT_LOST],
				  .small_rings = source->small_rings};
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

static int source_replace(struct perf_source *source, size_t index, uint32_t bytes)
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

size_t perf_source_fds_per_task(const struct perf_options *options)
{
	return options->n_cpus * (1 + options->n_followers + 1 + (options->switches ? 4 : 0) +
				  (options->rates ? PERF_RATE_STEPS : 0)) +
	       1;
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

/* PERF_EVENT_IOC_PERIOD changes the period of a timer, but not the period that its samples report (last_period in
 * perf_swevent_hrtimer(), kernel/events/core.c).  So the events of whole CPUs are replaced, as for another size of copies: the
 * period of each sample is that of its event.  Those of tasks take turns. */
int perf_source_set_frequency(struct perf_source *source, uint64_t hz)
{
	int first_error = 0;

	if (source->options.poll || source->options.switches || source->options.n_followers ||
	    !source->options.frequency)
		return -EOPNOTSUPP; /* an answer: the caller has another way */
	if (!hz)
		return fail(-EINVAL);
	if (source->options.tasks)
		return source_turns_set_frequency(source, hz);
	if (source->options.frequency == hz)
		return 0;
	source->options.frequency = hz;
	for (size_t i = 0; i < source->n_cpus; i++) {
		/* One that is offline gets the new rate when it comes back. */
		int r = source->cpus[i].dead
				? 0
				: source_replace(source, i, source->cpus[i].stack_bytes);

		first_error = first_error || r == -ENODEV ? first_error : r;
	}
	return first_error < 0 ? trace(first_error) : 0;
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
