/* process.c - the table of processes and their threads: see process.h.
 *
 * FORK makes an incarnation of a pid; exec and pid reuse end one and make the next under the same pid;
 * EXIT of the last thread ends one.  A process that has ended stays in the table until it is evicted
 * or its pid is reused, as samples of it may still be in progress; after that it stays as long as
 * references are held. */
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

static void process_set_exited(struct process_table *table, struct process *p, bool exited)
{
	if (p->exited == exited)
		return;
	order_remove(order_of(table, p), p);
	p->exited = exited;
	order_add(order_of(table, p), p);
}

/* ---- making and freeing ---- */

/* In all tables of this program, as with mappings. */
static _Atomic size_t n_processes, n_threads;

static void count(_Atomic size_t *what, size_t by)
{
	(void)atomic_fetch_add_explicit(what, by, memory_order_relaxed);
}

size_t process_bytes_held(void)
{
	enum {
		THREAD = sizeof(struct process_thread) + 48, /* and its slot in a table */
		PROCESS = sizeof(struct process) + sizeof(struct process_maps) + 48,
	};

	return process_maps_held() + uw_spaces_held() +
	       atomic_load_explicit(&n_threads, memory_order_relaxed) * THREAD +
	       atomic_load_explicit(&n_processes, memory_order_relaxed) * PROCESS;
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
	(void)uw_module_unref(process->script);
	(void)process_unref(process->origin); /* an origin has none itself */
	threads_drop(process);
	table_deinit(&process->threads);
	free(process->cmdline);
	free(process->cgroup);
	free(process);
	count(&n_processes, (size_t)-1);
	return NULL;
}

/* Takes a process out of the table. */
static void remove_process(struct process_table *table, struct process *p)
{
	(void)table_remove(&table->by_pid, p->pid);
	order_remove(order_of(table, p), p);
	(void)process_unref(p);
}

void process_table_release_ended(struct process_table *table, size_t keep)
{
	struct process *older;

	for (struct process *p = table->exited.newest; p; p = older) {
		older = p->older;
		/* One reference each: the table's on the process, the process's on the space.
		 * Only this thread takes references. */
		if (atomic_load(&p->refs) != 1 || (p->space && atomic_load(&p->space->refs) != 1))
			continue;
		if (!keep) {
			remove_process(table, p);
			continue;
		}
		keep--;
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
		remove_process(table,
			       table->exited.oldest ? table->exited.oldest : table->living.oldest);
}

bool process_table_forget_one(struct process_table *table, const struct process *but)
{
	struct process *p = table->exited.oldest;

	p = p && p != but ? p : table->living.oldest;
	p = p && p == but ? p->newer : p;
	if (p)
		remove_process(table, p);
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

static int new_process(struct process_table *table, uint32_t pid, struct process **ret_process)
{
	_cleanup_(process_unrefp) struct process *p = calloc(1, sizeof(*p));
	struct process *old = table_pointer(&table->by_pid, pid);
	int r;

	if (!p)
		return fail(-ENOMEM);
	count(&n_processes, 1);
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

	if (!p && new_process(table, pid, &p) < 0)
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

/* The process that a record is about.  One that had ended is replaced by a new incarnation or, where
 * threads may have been missed, revived. */
static struct process *process_of_record(struct process_table *table, uint32_t pid)
{
	struct process *p = process_get(table, pid);

	if (!p || !p->exited)
		return p;
	if (p->threads_known) { /* reuse without a FORK record */
		if (new_process(table, pid, &p) < 0)
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
			continue; /* it can no longer be read */
		p->unsure = p->exit_lost = true;
		table_for_each (&p->threads, of)
			((struct process_thread *)(uintptr_t)of->value)->from_record = false;
		p->maps_read_at = 0;
		if (p->log)
			p->log->overflowed =
				true; /* the answer to come may be older than the loss */
	}
}

static int compare_pids(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

size_t process_table_end_missing(struct process_table *table, const uint32_t *pids, size_t n)
{
	struct process *newer;
	size_t ended = 0;

	for (struct process *p = table->living.oldest; p; p = newer) {
		newer = p->newer;
		if (!p->exit_lost)
			continue;
		if (n && bsearch(&p->pid, pids, n, sizeof(*pids), compare_pids)) {
			p->exit_lost = p->missing = false;
		} else if (p->missing) {
			process_set_exited(table, p, true);
			ended++;
		} else {
			p->missing = true;
		}
	}
	return ended;
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
 * EXIT does not report whether other threads remain, so they are counted.  The count is exact where the
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

/* A new image: all mappings from here on have records. */
static int exec_process(struct process_table *table, uint32_t pid, struct process **ret_process)
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
	r = new_process(table, pid, &p);
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
	t->from_record = true;
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
		r = exec_process(table, pid, &p);
		if (r < 0)
			return trace(r);
		tid = pid; /* whichever thread called it is the main thread now */
	} else {
		p = process_of_record(table, pid);
		if (!p)
			return fail(-ENOMEM);
	}
	t = process_thread_get(p, tid);
	if (t) /* else past the limit: no name */
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
	t->from_record = parent->comm[0] && !from->unsure;
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
	p->language = parent->language;
	/* The child is in the first pid namespace as well, or it is the init of another: its
	 * status shows which. */
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
	r = new_process(table, pid, &p);
	if (r < 0)
		return trace(r);
	p->ppid = ppid;
	p->begun = p->threads_known = true;
	if (!parent)
		return 0;
	r = inherit(p, parent, ptid);
	return r < 0 ? trace(r) : 0;
}

/* Drops at least half of the threads that exited, the oldest: `exits` counts exited threads of all
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

/* ---- records, and the text of /proc/PID/maps ----
 *
 *   records ──────────────┬──► maps ◄── text, then the records kept since it was asked for
 *                         └──► log (while a text is awaited)
 *
 * The text shows the process at some moment between request and answer.  Records after that moment
 * are missing in it, records before it are included; applying all records on top is right for both.
 * One case is not covered: a mapping that came and went in between stays until another mapping
 * covers it or the next refresh removes it.
 *
 * A text names a file by device and inode, a record mostly by build id.  Where both describe the
 * same area the file is the same, and the set of modules learns both names from it. */

static void changed_space(struct process *p)
{
	p->space = uw_space_unref(p->space);
}

static int put(struct process *p, const struct process_map *map, bool exec, bool *ret_changed)
{
	bool changed = false;
	int r = process_maps_put(&p->maps, map, exec, &changed);

	if (changed) {
		changed_space(p);
		*ret_changed = true;
	}
	return r < 0 ? trace(r) : 0;
}

int process_mmap(struct process_table *table, uint32_t pid, uint64_t start, uint64_t len,
		 uint64_t offset, bool exec, const char *path, const struct uw_file_id *id)
{
	struct process_map map = {.start = start, .end = start + len, .offset = offset};
	struct process *p = process_of_record(table, pid);
	bool changed;
	int r;

	if (!p)
		return fail(-ENOMEM);
	if (map.end <= map.start)
		return 0; /* wraps */
	if (id)
		map.id = *id;
	if (exec) {
		r = process_map_resolve(table, p, path, &map);
		if (r < 0)
			return trace(r);
	}
	process_log_add(p, &map, exec);
	r = put(p, &map, exec, &changed);
	(void)uw_module_unref(map.module);
	return r < 0 ? trace(r) : 0;
}

/* ---- applying a text ---- */

void process_maps_asked(struct process *process, uint64_t now)
{
	process->maps_state = PROCESS_MAPS_ASKED;
	process->maps_asked_at = now;
	(void)process_log_free(process->log);
	/* Without memory for the log the answer may be stale; a later refresh corrects it. */
	process->log = calloc(1, sizeof(*process->log));
}

/* The path with its NUL; the kernel writes a newline as \012.  false: no path of any file. */
static bool path_of(const struct procfs_map *line, char path[static PROCESS_PATH_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < line->path_len; i++) {
		if (n == PROCESS_PATH_MAX - 1 || !line->path[i])
			return false;
		if (line->path_len - i >= 4 && !memcmp(line->path + i, "\\012", 4)) {
			path[n++] = '\n';
			i += 3;
			continue;
		}
		path[n++] = line->path[i];
	}
	path[n] = 0;
	return true;
}

static bool same_inode(const struct uw_file_id *a, const struct uw_file_id *b)
{
	return a->inode == b->inode && a->major == b->major && a->minor == b->minor;
}

/* Is @map, a line of a text, a part of @known? */
static bool is_part(const struct process_map *known, const struct process_map *map)
{
	return known->module && known->start <= map->start && known->end >= map->end;
}

static bool same_offset(const struct process_map *a, const struct process_map *b)
{
	return a->start - a->offset == b->start - b->offset;
}

/* What is known of this very area from before: the file and its build id, or that it is code which
 * the parent made.  Most lines of a refresh are of this kind and need no look into the set of
 * modules. */
static int resolve_known(struct process_table *table, struct process *p, const char *path,
			 struct process_map *map)
{
	const struct process_map *known =
		process_maps_get(p->maps, process_maps_at(p->maps, map->start));
	bool part = known && is_part(known, map);
	enum path_kind kind = process_path_kind(path, part && known->id.build_id.len);

	if (part && kind == PATH_JIT && uw_module_kind(known->module) == UW_MODULE_JIT) {
		map->module = uw_module_ref(known->module);
		map->offset = 0;
		map->id = (struct uw_file_id){0};
		return 0;
	}
	if (part && kind == PATH_FILE && same_offset(known, map) && known->id.inode &&
	    same_inode(&known->id, &map->id)) {
		map->module = uw_module_ref(known->module);
		map->id = known->id;
		return 0;
	}
	if (part && kind == PATH_FILE && same_offset(known, map) && !known->id.inode && !p->unsure)
		map->id.build_id = known->id.build_id;
	return process_map_resolve(table, p, path, map);
}

static int put_line(struct process_table *table, struct process *p, const struct procfs_map *line,
		    struct process_maps **fresh)
{
	char path[PROCESS_PATH_MAX];
	bool changed;
	struct process_map map = {
		.start = line->start,
		.end = line->end,
		.offset = line->offset,
		.id = {.major = line->major, .minor = line->minor, .inode = line->inode},
	};
	int r;

	if (!path_of(line, path))
		return 0;
	/* It is in every text but in no record, and nothing runs there: it would be a change each
	 * time. */
	if (!strcmp(path, "[vsyscall]"))
		return 0;
	r = resolve_known(table, p, path, &map);
	if (r < 0)
		return trace(r);
	r = process_maps_put(fresh, &map, true, &changed);
	(void)uw_module_unref(map.module);
	return r < 0 ? trace(r) : 0;
}

/* Text that was moved into huge pages is anonymous and has no file any more (mremap over one's own
 * code).  It is recognized by its neighbours: both map the same file, with as many bytes between
 * them as there are addresses. */
static bool is_file_between(const struct procfs_map *before, const struct procfs_map *line,
			    const struct procfs_map *behind)
{
	return before->inode && !line->inode && !line->path_len && before->end == line->start &&
	       line->end == behind->start && before->inode == behind->inode &&
	       before->major == behind->major && before->minor == behind->minor &&
	       before->path_len == behind->path_len &&
	       !memcmp(before->path, behind->path, before->path_len) &&
	       behind->start - before->start == behind->offset - before->offset;
}

static void look_around(const struct procfs_map *before, struct procfs_map *line, const char *at,
			const char *end)
{
	struct procfs_map behind;
	uint64_t distance = line->start - before->start;

	if (line->inode || line->path_len || procfs_maps_next(&at, end, &behind) != 0 ||
	    !is_file_between(before, line, &behind))
		return;
	line->inode = before->inode;
	line->major = before->major;
	line->minor = before->minor;
	line->path = before->path;
	line->path_len = before->path_len;
	line->offset = before->offset + distance;
}

/* -ESRCH: an empty text, as of a process that is exiting. */
static int maps_of_text(struct process_table *table, struct process *p, const char *text,
			size_t len, struct process_maps **ret_fresh)
{
	_cleanup_(process_maps_unrefp) struct process_maps *fresh = NULL;
	const char *at = text;
	struct procfs_map line, before = {0};
	size_t n = 0;
	int r = process_maps_new(&fresh);

	if (r < 0)
		return trace(r);
	while ((r = procfs_maps_next(&at, text + len, &line)) != PROCFS_MAPS_END) {
		if (r < 0)
			continue; /* skipped */
		n++;
		if (line.exec)
			look_around(&before, &line, at, text + len);
		before = line;
		if (!line.exec)
			continue;
		r = put_line(table, p, &line, &fresh);
		if (r < 0)
			return trace(r);
	}
	if (!n)
		return -ESRCH;
	*ret_fresh = take(fresh);
	return 0;
}

static int replay(const struct process_log *log, struct process_maps **maps)
{
	bool changed;
	int r = 0;

	for (size_t i = 0; log && i < log->n && r >= 0; i++)
		r = process_maps_put(maps, &log->entries[i].map, log->entries[i].exec, &changed);
	return r < 0 ? trace(r) : 0;
}

/* No text: only records are known.  A child that has ended already had the mappings of its parent,
 * and in addition its own. */
static int answer_nothing(struct process *p, bool *ret_changed)
{
	_cleanup_(process_maps_unrefp) struct process_maps *maps = NULL;
	const struct process_map *m;
	bool changed = false;
	int r;

	p->unsure = false;
	p->maps_refreshes++;
	if (p->maps_read_at) {
		p->maps_state = PROCESS_MAPS_KNOWN;
		return 0;
	}
	p->maps_state = PROCESS_MAPS_FAILED;
	if (!p->origin || !p->origin->maps_read_at)
		return 0;
	maps = process_maps_ref(p->origin->maps);
	process_maps_each(p->maps, m)
	{
		r = process_maps_put(&maps, m, true, &changed);
		if (r < 0)
			return trace(r);
	}
	(void)process_maps_unref(p->maps);
	p->maps = take(maps);
	changed_space(p);
	*ret_changed = true;
	return 0;
}

static int answer_text(struct process_table *table, struct process *p, const char *text, size_t len,
		       uint64_t now, bool *ret_changed)
{
	_cleanup_(process_maps_unrefp) struct process_maps *fresh = NULL;
	bool overflowed = p->log && p->log->overflowed;
	int r = maps_of_text(table, p, text, len, &fresh);

	if (r == -ESRCH)
		return answer_nothing(p, ret_changed);
	if (r < 0)
		return trace(r);
	r = replay(p->log, &fresh);
	if (r < 0)
		return trace(r);
	process_maps_adopt(&p->maps, take(fresh), ret_changed);
	if (*ret_changed)
		changed_space(p);
	p->maps_refreshes = *ret_changed ? 0 : p->maps_refreshes + 1;
	p->maps_state = PROCESS_MAPS_KNOWN;
	p->maps_read_at = now ? now : 1;
	p->unsure = overflowed;
	p->threads_known = !overflowed;
	return 0;
}

int process_maps_answer(struct process_table *table, struct process *process, const char *text,
			size_t len, int error, uint64_t now, bool *ret_changed)
{
	bool changed = false;
	int r;

	if (process->replaced) {
		/* exec or reuse came before the answer: it may be about the next incarnation */
		process->maps_state =
			process->maps_read_at ? PROCESS_MAPS_KNOWN : PROCESS_MAPS_FAILED;
		r = 0;
	} else if (!text || error < 0) {
		r = answer_nothing(process, &changed);
	} else {
		r = answer_text(table, process, text, len, now, &changed);
	}
	process->log = process_log_free(process->log);
	process->origin = process_unref(process->origin);
	if (r < 0)
		return trace(r);
	*ret_changed = changed;
	return 0;
}

bool process_wants_refresh(const struct process *process, uint64_t now)
{
	uint64_t wait = (10 * NSEC_PER_MSEC) << min_u64(process->maps_refreshes, 10);

	if (process->exited || process->maps_state == PROCESS_MAPS_ASKED)
		return false;
	if (process->maps_state == PROCESS_MAPS_UNKNOWN)
		return true;
	if (process->maps_state == PROCESS_MAPS_FAILED)
		wait = max_u64(wait, NSEC_PER_SEC);
	return now >= process->maps_asked_at && now - process->maps_asked_at >= wait;
}

/* ---- what others see ---- */

/* A fork's child has the mappings of its parent, and functions of its own. */
static int make_space(struct process_table *table, struct process *process)
{
	int r = process_maps_space(process->maps, process->memory, &process->space);

	if (r < 0 || !process->language)
		return r < 0 ? trace(r) : 0;
	if (!process->script)
		r = uw_modules_add(table->modules, UW_MODULE_JIT,
				   uw_language_path(process->language), &process->script);
	if (r >= 0)
		uw_space_set_script(process->space, process->script);
	return r < 0 ? trace(r) : 0;
}

int process_space(struct process_table *table, struct process *process, struct uw_space **ret_space)
{
	int r = process->space ? 0 : make_space(table, process);

	if (r < 0)
		return trace(r);
	*ret_space = process->space;
	return 0;
}

/* The lowest mapping of @module; NULL: none.  Called for each module once or twice.  The part of a space takes less than half of the memory. */
static const struct process_map *map_of_module(const struct process_maps *maps,
					       const struct uw_module *module)
{
	for (size_t k = 0; k < maps->n_chunks; k++) {
		const struct process_chunk *chunk = maps->chunks[k];
		const struct uw_maps *part = chunk->part;

		for (size_t i = 0; i < chunk->n; i++)
			if ((part ? part->maps[i].module : chunk->maps[i].module) == module)
				return &chunk->maps[i];
	}
	return NULL;
}

bool process_mapping_of(const struct process *process, const struct uw_module *module,
			struct process_mapping *ret_mapping)
{
	const struct process_map *m = map_of_module(process->maps, module);

	if (m)
		*ret_mapping = (struct process_mapping){m->start, m->end, m->offset, m->id};
	return m;
}
