/* task-polls.c - see task-polls.h: a table of all tasks by number, open addressing, at most half full. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "tracing/task-polls.h"

enum { SLOTS = 2 * TASK_POLLS_TASKS, CGROUP_MAX = 96 };

struct polled {
	struct task_row row;	/* pid 0: a free slot */
	uint32_t process, poll; /* poll: the last one that saw it */
	uint64_t seen;		/* CLOCK_BOOTTIME */
	char cgroup[CGROUP_MAX];
};

struct task_polls {
	struct task_table *table;
	struct sink *to; /* while polling */
	int error;
	uint32_t poll;
	uint64_t now;
	size_t n;
	struct polled slots[SLOTS];
};

static size_t home_of(uint32_t task)
{
	return hash_u64(task) % SLOTS;
}

/* Its slot, or the free one in which it would be. */
static struct polled *find(struct task_polls *p, uint32_t task)
{
	size_t i = home_of(task);

	while (p->slots[i].row.pid && p->slots[i].row.pid != task)
		i = (i + 1) % SLOTS;
	return &p->slots[i];
}

/* Closes the gap, so that a search for a task behind it does not end there. */
static void drop(struct task_polls *p, size_t gap)
{
	for (size_t i = (gap + 1) % SLOTS; p->slots[i].row.pid; i = (i + 1) % SLOTS) {
		size_t home = home_of(p->slots[i].row.pid);

		if ((i - home + SLOTS) % SLOTS < (i - gap + SLOTS) % SLOTS)
			continue;
		p->slots[gap] = p->slots[i];
		gap = i;
	}
	p->slots[gap].row.pid = 0;
	p->n--;
}

static void write_end(struct task_polls *p, struct polled *task)
{
	int r;

	task->row.ended = true;
	task->row.age_ns = max_u64(p->now - task->seen, 1);
	task->row.cgroup = task->cgroup;
	r = p->error < 0 ? 0 : task_row_write(task->process, &task->row, p->to);
	if (r < 0)
		p->error = r;
}

static void keep(struct polled *task, uint32_t process, const struct task_row *row)
{
	task->row = *row;
	task->process = process;
	task->row.cgroup = NULL;
	/* A part of a name would be another name. */
	if (row->cgroup_len > CGROUP_MAX)
		task->row.has &= ~(uint32_t)TASK_CGROUP;
	else if (row->cgroup_len)
		memcpy(task->cgroup, row->cgroup, row->cgroup_len);
}

static void see(void *arg, uint32_t process, const struct task_row *row)
{
	struct task_polls *p = arg;
	struct polled *task = find(p, row->pid);

	if (!task->row.pid) {
		if (p->n == TASK_POLLS_TASKS)
			return;
		p->n++;
	} else if (task->row.start_ticks != row->start_ticks || task->process != process) {
		write_end(p, task); /* the number is another task's now */
	}
	keep(task, process, row);
	task->poll = p->poll;
	task->seen = p->now;
}

int task_polls_poll(struct task_polls *p, uint64_t now, struct sink *to)
{
	int r;

	p->poll++;
	p->now = now;
	p->to = to;
	p->error = 0;
	r = task_table_each(p->table, see, p);
	if (r < 0)
		return trace(r);
	for (size_t i = 0; i < SLOTS;) {
		if (!p->slots[i].row.pid || p->slots[i].poll == p->poll) {
			i++;
			continue;
		}
		write_end(p, &p->slots[i]);
		drop(p, i);
	}
	return p->error < 0 ? trace(p->error) : 0;
}

uint32_t task_polls_wait_ms(uint64_t cpu_ns)
{
	uint64_t ms = cpu_ns * TASK_POLLS_SHARE / NSEC_PER_MSEC;

	return (uint32_t)min_u64(max_u64(ms, TASK_POLLS_MIN_MS), TASK_POLLS_MAX_MS);
}

int task_polls_new(struct task_table *table, struct task_polls **ret_polls)
{
	struct task_polls *p = malloc(sizeof(*p));

	if (!p)
		return fail(-ENOMEM);
	memset(p, 1, sizeof(*p)); /* touches all of it: task_table_new() has the reason */
	p->table = table;
	p->poll = 0;
	p->n = 0;
	for (size_t i = 0; i < SLOTS; i++)
		p->slots[i].row.pid = 0;
	*ret_polls = p;
	return 0;
}

struct task_polls *task_polls_free(struct task_polls *p)
{
	free(p);
	return NULL;
}
