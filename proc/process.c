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
#include "proc/maps.h"
#include "proc/procfs.h"

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

void process_set_exited(struct process_table *table, struct process *p, bool exited)
{
	if (p->exited == exited)
		return;
	order_remove(order_of(table, p), p);
	p->exited = exited;
	order_add(order_of(table, p), p);
}

/* ---- life of the struct ---- */

static void threads_drop(struct process *p)
{
	table_for_each (&p->threads, slot) {
		free((void *)(uintptr_t)slot->value);
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

struct process_thread *process_thread_add(struct process *p, uint32_t tid)
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
	return t;
}

int process_new_life(struct process_table *table, uint32_t pid, struct process **ret_process)
{
	_cleanup_(process_unrefp) struct process *p = calloc(1, sizeof(*p));
	struct process *old = table_pointer(&table->by_pid, pid);
	int r;

	if (!p)
		return fail(-ENOMEM);
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

size_t process_table_count(const struct process_table *table)
{
	return table->by_pid.n_used;
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
