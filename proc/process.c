/* process.c - the table of processes and their threads: see process.h.
 *
 * Lives.  FORK makes one, exec and pid reuse end one and make the next under the same pid, EXIT of
 * the last thread ends one.  An ended life stays in the table until it is evicted or its pid lives
 * again, as samples of it may still be on their way; after that it stays for as long as references
 * are held. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/error.h"
#include "proc/process-maps.h"
#include "proc/procfs.h"
#include "proc/procmem.h"

/* ---- order of use ---- */

static void order_remove(struct process_order *o, struct process *p)
{
	*(p->older ? &p->older->newer : &o->oldest) = p->newer;
	*(p->newer ? &p->newer->older : &o->newest) = p->older;
	p->older = p->newer = NULL;
	o->n--;
}

static void order_add(struct process_order *o, struct process *p)
{
	p->older = o->newest;
	p->newer = NULL;
	*(o->newest ? &o->newest->newer : &o->oldest) = p;
	o->newest = p;
	o->n++;
}

static struct process_order *order_of(struct process_table *table, const struct process *p)
{
	return p->exited ? &table->exited : &table->living;
}

static void touch(struct process_table *table, struct process *p)
{
	struct process_order *o = order_of(table, p);

	if (o->newest == p)
		return;
	order_remove(o, p);
	order_add(o, p);
}

/* A new life of @pid with its main thread, in the table; one that was there is given up.  Borrowed.
 */
static void process_set_exited(struct process_table *table, struct process *p, bool exited)
{
	if (p->exited == exited)
		return;
	order_remove(order_of(table, p), p);
	p->exited = exited;
	order_add(order_of(table, p), p);
}

/* ---- life of the struct ---- */

/* Of all tables of this process, as with mappings. */
static _Atomic size_t n_lives, n_threads;

static void count(_Atomic size_t *what, size_t by)
{
	(void)atomic_fetch_add_explicit(what, by, memory_order_relaxed);
}

size_t process_bytes_held(void)
{
	enum {
		THREAD = sizeof(struct process_thread) + 48, /* and its slot in a table */
		LIFE = sizeof(struct process) + sizeof(struct process_maps) + 48,
		MAPPING = sizeof(struct process_map) + sizeof(struct uw_map)
	};

	return process_maps_held() * MAPPING +
	       atomic_load_explicit(&n_threads, memory_order_relaxed) * THREAD +
	       atomic_load_explicit(&n_lives, memory_order_relaxed) * LIFE;
}

static void thread_drop(struct process_thread *thread)
{
	count(&n_threads, (size_t)-1);
	free(thread);
}

static void threads_drop(struct process *p)
{
	table_for_each (&p->threads, slot) {
		thread_drop((void *)(uintptr_t)slot->value);
	}
	table_clear(&p->threads);
	p->n_live = p->n_exited = 0;
}

struct process *process_ref(struct process *process)
{
	atomic_fetch_add_explicit(&process->refs, 1, memory_order_relaxed);
	return process;
}

struct process *process_unref(struct process *process)
{
	if (!process || atomic_fetch_sub_explicit(&process->refs, 1, memory_order_acq_rel) != 1)
		return NULL;
	(void)uw_space_unref(process->space); /* before the memory that it borrows */
	(void)procfs_memory_free(process->memory);
	process_set_given(process, -1, -1);
	(void)process_maps_unref(process->maps);
	(void)process_log_free(process->log);
	(void)uw_module_unref(process->jit);
	(void)process_unref(process->origin); /* an origin has none itself */
	threads_drop(process);
	table_deinit(&process->threads);
	free(process->cmdline);
	free(process->cgroup);
	free(process);
	count(&n_lives, (size_t)-1);
	return NULL;
}

/* Takes a life out of the table. */
static void remove_life(struct process_table *table, struct process *p)
{
	(void)table_remove(&table->by_pid, p->pid);
	order_remove(order_of(table, p), p);
	(void)process_unref(p);
}

void process_table_release_ended(struct process_table *table)
{
	for (struct process *p = table->exited.newest; p; p = p->older) {
		/* One reference each: the table's, and the life's own.  References are taken by
		 * this thread only. */
		if (atomic_load(&p->refs) != 1 || (p->space && atomic_load(&p->space->refs) != 1))
			continue;
		if (!p->space && !p->memory && p->given_maps < 0)
			continue;
		p->space = uw_space_unref(p->space);
		p->memory = procfs_memory_free(p->memory);
		process_set_given(p, -1, -1);
	}
}

/* Of what has ended little is asked for any more. */
static void evict(struct process_table *table)
{
	while (table->exited.n >= PROCESS_MAX_ENDED || table->by_pid.n_used >= table->max)
		remove_life(table,
			    table->exited.oldest ? table->exited.oldest : table->living.oldest);
}

bool process_table_forget_one(struct process_table *table, const struct process *but)
{
	struct process *p = table->exited.oldest;

	p = p && p != but ? p : table->living.oldest;
	p = p && p == but ? p->newer : p;
	if (p)
		remove_life(table, p);
	return p;
}

static struct process_thread *process_thread_add(struct process *p, uint32_t tid)
{
	struct process_thread *t;

	if (p->threads.n_used >= PROCESS_MAX_THREADS)
		return NULL;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->tid = tid;
	if (table_put(&p->threads, tid, (uint64_t)(uintptr_t)t) < 0) {
		free(t);
		return NULL;
	}
	p->n_live++;
	count(&n_threads, 1);
	return t;
}

static int process_new_life(struct process_table *table, uint32_t pid, struct process **ret_process)
{
	_cleanup_(process_unrefp) struct process *p = calloc(1, sizeof(*p));
	struct process *old = table_pointer(&table->by_pid, pid);
	int r;

	if (!p)
		return fail(-ENOMEM);
	count(&n_lives, 1);
	p->given_maps = p->given_mem = -1;
	p->owner = PROCFS_NO_OWNER;
	atomic_init(&p->refs, 1);
	p->pid = pid;
	p->serial = ++table->serial;
	r = process_maps_new(&p->maps);
	if (r < 0)
		return trace(r);
	if (!process_thread_add(p, pid))
		return fail(-ENOMEM);
	if (!old)
		evict(table);
	r = table_put(&table->by_pid, pid, (uint64_t)(uintptr_t)p);
	if (r < 0)
		return trace(r);
	if (old) {
		order_remove(order_of(table, old), old);
		old->exited = old->replaced = true;
		(void)process_unref(old);
	}
	order_add(&table->living, p);
	*ret_process = take(p);
	return 0;
}

int process_table_new(struct uw_modules *modules, size_t max, struct process_table **ret_table)
{
	struct process_table *table = calloc(1, sizeof(*table));

	if (!table)
		return fail(-ENOMEM);
	table->modules = modules;
	table->max = max ? max : 1;
	*ret_table = table;
	return 0;
}

struct process_table *process_table_free(struct process_table *table)
{
	if (!table)
		return NULL;
	table_for_each (&table->by_pid, slot) {
		(void)process_unref((void *)(uintptr_t)slot->value);
	}
	table_deinit(&table->by_pid);
	for (size_t i = 0; i < ARRAY_SIZE(table->vdsos); i++)
		(void)uw_module_unref(table->vdsos[i].module);
	free(table);
	return NULL;
}

/* ---- lookups ---- */

struct process *process_find(struct process_table *table, uint32_t pid)
{
	struct process *p = table_pointer(&table->by_pid, pid);

	if (p)
		touch(table, p);
	return p;
}

struct process *process_get(struct process_table *table, uint32_t pid)
{
	struct process *p = process_find(table, pid);

	if (!p && process_new_life(table, pid, &p) < 0)
		return NULL;
	return p;
}

struct process_thread *process_thread_get(struct process *process, uint32_t tid)
{
	struct process_thread *t = table_pointer(&process->threads, tid), *first;

	if (t)
		return t;
	t = process_thread_add(process, tid);
	first = table_pointer(&process->threads, process->pid);
	if (t && first)
		memcpy(t->comm, first->comm, sizeof(t->comm));
	return t;
}

struct process *process_of_record(struct process_table *table, uint32_t pid)
{
	struct process *p = process_get(table, pid);

	if (!p || !p->exited)
		return p;
	if (p->threads_known) { /* reuse whose FORK was not seen */
		if (process_new_life(table, pid, &p) < 0)
			return NULL;
		p->begun = true;
		return p;
	}
	process_set_exited(table, p, false);
	return p;
}

void process_table_unsure(struct process_table *table)
{
	table_for_each (&table->by_pid, slot) {
		struct process *p = (void *)(uintptr_t)slot->value;

		p->threads_known = false;
		if (p->exited)
			continue; /* there is nobody left to ask */
		p->unsure = true;
		p->maps_read_at = 0;
		if (p->log)
			p->log->overflowed =
				true; /* the answer on its way may be older than the loss */
	}
}

void process_set_memory(struct process *process, struct uw_memory *memory)
{
	if (process->memory || !memory) {
		/* snapshots in flight borrow the first; it reads the same memory */
		(void)procfs_memory_free(memory);
		return;
	}
	process->memory = memory;
	process->space = uw_space_unref(process->space);
}

void process_set_given(struct process *process, int maps_fd, int mem_fd)
{
	(void)fd_close(process->given_maps);
	(void)fd_close(process->given_mem);
	process->given_maps = maps_fd;
	process->given_mem = mem_fd;
}

void process_set_cmdline(struct process *process, char *cmdline, size_t len)
{
	free(process->cmdline);
	process->cmdline = cmdline;
	process->cmdline_len = len;
}

void process_set_cgroup(struct process *process, char *cgroup)
{
	if (!cgroup || (process->cgroup && !strcmp(process->cgroup, cgroup))) {
		free(cgroup);
		return;
	}
	free(process->cgroup);
	process->cgroup = cgroup;
	process->announced = 0;
}

size_t process_table_count(const struct process_table *table)
{
	return table->by_pid.n_used;
}

/* ---- COMM, FORK and EXIT ----
 *
 * Threads that exited stay for a while: a late sample must not give the thread a second entry
 * without a name.
 *
 * EXIT does not say whether other threads remain, so they are counted.  The count is exact where the
 * incarnation was seen from its start, or its threads were listed; otherwise a record about a
 * process that seemed dead revives it. */

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
		thread_drop(table_pointer(&p->threads, tids[i]));
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
