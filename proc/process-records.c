/* process-records.c - COMM, FORK and EXIT: see process.h.
 *
 * Threads that exited stay for a while: a late sample must not give the thread a second, nameless
 * entry.
 *
 * EXIT says nothing of other threads, so "the last" is counted.  The count is sure where a life was
 * seen from its start, or its threads were listed; else a record about a process that seemed dead
 * brings it back. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "proc/maps.h"

enum { EXITED_THREADS_MAX = 256 };

/* Cut to what the kernel itself keeps: 15 bytes.  No bytes are left over behind the NUL. */
static void set_comm(struct process_thread *t, const char *comm)
{
	size_t len = strnlen(comm, sizeof(t->comm) - 1);

	memset(t->comm, 0, sizeof(t->comm));
	memcpy(t->comm, comm, len);
}

/* Into *ret_copy, which is NULL. */
static int copy_text(const char *text, char **ret_copy)
{
	if (!text)
		return 0;
	*ret_copy = strdup(text);
	return *ret_copy ? 0 : fail(-ENOMEM);
}

/* A new image: everything mapped from here on is told by records. */
static int exec_life(struct process_table *table, uint32_t pid, struct process **ret_process)
{
	struct process *old = process_find(table, pid), *p;
	_cleanup_(freep) char *cgroup = NULL;
	uint32_t ppid = 0, uid = 0, ns_pid = 0;
	int r;

	if (old && !old->exited) {
		ppid = old->ppid;
		uid = old->uid;
		ns_pid = old->ns_pid;
		r = copy_text(old->cgroup, &cgroup);
		if (r < 0)
			return trace(r);
	}
	r = process_new_life(table, pid, &p);
	if (r < 0)
		return trace(r);
	p->ppid = ppid;
	p->uid = uid;
	p->ns_pid = ns_pid;
	p->cgroup = take(cgroup);
	p->begun = p->threads_known = true;
	p->maps_read_at = 1;
	*ret_process = p;
	return 0;
}

/* The main thread's name is its process's where no command line is known. */
static void rename_thread(struct process *p, struct process_thread *t, const char *comm,
			  uint64_t time)
{
	char before[sizeof(t->comm)];

	memcpy(before, t->comm, sizeof(before));
	set_comm(t, comm);
	t->told = true;
	if (!memcmp(before, t->comm, sizeof(before)))
		return;
	if (t->tid == p->pid)
		p->announced = 0;
	if (!before[0])
		return; /* what it was called is not known: as it is now */
	memcpy(t->before, before, sizeof(t->before));
	t->renamed_at = time;
}

int process_comm(struct process_table *table, uint32_t pid, uint32_t tid, const char *comm,
		 bool exec, uint64_t time)
{
	struct process_thread *t;
	struct process *p = NULL;
	int r;

	if (exec) {
		r = exec_life(table, pid, &p);
		if (r < 0)
			return trace(r);
		tid = pid; /* whichever thread called it is the main thread now */
	} else {
		p = process_of_record(table, pid);
		if (!p)
			return fail(-ENOMEM);
	}
	t = process_thread_get(p, tid);
	if (t) /* else past the limit: nameless */
		rename_thread(p, t, comm, time);
	return 0;
}

static void inherit_comm(struct process_thread *t, const struct process *from, uint32_t tid)
{
	const struct process_thread *parent = table_pointer(&from->threads, tid);

	if (!parent)
		parent = table_pointer(&from->threads, from->pid);
	if (!parent || !t || parent == t)
		return;
	memcpy(t->comm, parent->comm, sizeof(t->comm));
	t->told = parent->comm[0] != 0;
}

static int fork_thread(struct process_table *table, uint32_t pid, uint32_t tid, uint32_t ptid)
{
	struct process *p = process_of_record(table, pid);
	struct process_thread *t;

	if (!p)
		return fail(-ENOMEM);
	t = table_pointer(&p->threads, tid);
	if (t) {
		/* the tid again: another thread */
		if (t->exited) {
			p->n_exited--;
			p->n_live++;
		}
		*t = (struct process_thread){.tid = tid};
	} else {
		t = process_thread_add(p, tid);
	}
	inherit_comm(t, p, ptid);
	return 0;
}

static int copy_cmdline(struct process *to, const struct process *from)
{
	if (!from->cmdline)
		return 0;
	to->cmdline = malloc(from->cmdline_len + 1);
	if (!to->cmdline)
		return fail(-ENOMEM);
	memcpy(to->cmdline, from->cmdline, from->cmdline_len);
	to->cmdline[from->cmdline_len] = 0;
	to->cmdline_len = from->cmdline_len;
	return 0;
}

/* Until it changes something, a child has exactly what its parent has. */
static int inherit(struct process *p, struct process *parent, uint32_t ptid)
{
	int r;

	(void)process_maps_unref(p->maps);
	p->maps = process_maps_ref(parent->maps);
	p->maps_read_at = parent->unsure ? 0 : parent->maps_read_at;
	p->unsure = parent->unsure;
	p->uid = parent->uid;
	p->owner = parent->owner;
	p->kernel_thread = parent->kernel_thread;
	/* In the first pid namespace the child is as well, or its init: told when it is asked
	 * about. */
	if (parent->ns_pid == parent->pid)
		p->ns_pid = p->pid;
	if (!p->maps_read_at)
		p->origin = process_ref(parent->origin ? parent->origin : parent);
	inherit_comm(table_pointer(&p->threads, p->pid), parent, ptid);
	r = copy_text(parent->cgroup, &p->cgroup);
	if (r >= 0)
		r = copy_cmdline(p, parent);
	return trace(r);
}

int process_fork(struct process_table *table, uint32_t pid, uint32_t ppid, uint32_t tid,
		 uint32_t ptid)
{
	_cleanup_(process_unrefp) struct process *parent = NULL;
	struct process *p;
	int r;

	if (pid == ppid)
		return fork_thread(table, pid, tid, ptid);
	parent = table_pointer(&table->by_pid, ppid);
	if (parent)
		(void)process_ref(parent); /* making the child may evict it */
	r = process_new_life(table, pid, &p);
	if (r < 0)
		return trace(r);
	p->ppid = ppid;
	p->begun = p->threads_known = true;
	if (!parent)
		return 0;
	r = inherit(p, parent, ptid);
	return r < 0 ? trace(r) : 0;
}

/* Drops at least half of the threads that exited, the oldest: `exits` counts those of all
 * processes. */
static void forget_threads(struct process_table *table, struct process *p)
{
	uint32_t tids[EXITED_THREADS_MAX + 1];
	size_t n = 0;

	table_for_each (&p->threads, slot) {
		const struct process_thread *t = (void *)(uintptr_t)slot->value;

		if (t->exited && t->exited + EXITED_THREADS_MAX / 2 <= table->exits &&
		    n < ARRAY_SIZE(tids))
			tids[n++] = t->tid;
	}
	for (size_t i = 0; i < n; i++) {
		free(table_pointer(&p->threads, tids[i]));
		(void)table_remove(&p->threads, tids[i]);
		p->n_exited--;
	}
}

int process_exit(struct process_table *table, uint32_t pid, uint32_t tid)
{
	struct process *p = process_find(table, pid);
	struct process_thread *t;

	if (!p)
		return 0;
	t = table_pointer(&p->threads, tid);
	if (t && !t->exited) {
		t->exited = ++table->exits;
		p->n_live--;
		p->n_exited++;
	}
	if (!p->n_live)
		process_set_exited(table, p, true);
	else if (p->n_exited > EXITED_THREADS_MAX)
		forget_threads(table, p);
	return 0;
}
