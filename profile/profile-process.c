/* profile-process.c - processes and threads of a trace: which one a sample is of, and the names that
 * ProcessTree gives them. */
#include <errno.h>

#include "base/error.h"
#include "profile/profile-reader.h"
#include "protos/trace.fields.h"

/* ---- processes and threads ----
 *
 * Which process and which name a sample belongs to.
 *
 *   (sequence, pid) ──► process entry: one life of a pid, between execs; what a sample refers to
 *                            ▲
 *   (process, tid) ────► thread entry: one name of a thread
 *
 * A pid has several lives (exec, reuse) and a thread several names; a sample is of the one that was written last before it.  perfwind numbers the lives, as they may take turns: samples that had to
 * wait come late.  Other producers do not: there another name after samples is taken for another
 * life.  An entry that samples made before anybody named it takes the first name that comes, so
 * that a list of processes at the end of a trace serves as well. */

enum { MAX_ENTRIES = UINT32_MAX - 1 };

static uint64_t pair(uint32_t a, uint32_t b)
{
	return (uint64_t)a << 32 | b;
}

/* ---- processes ---- */
static int add_process(struct reader *r, const struct profile_process *process, uint32_t *ret_index)
{
	struct profile *p = r->profile;
	int e;

	if (p->n_processes >= MAX_ENTRIES)
		return fail(-E2BIG);
	e = reader_hold(r, HELD_PROCESSES, 1, sizeof(*process) + sizeof(*r->lives));
	if (e >= 0)
		e = ROOM_FOR_ONE(p->processes, p->n_processes, r->room_processes);
	if (e >= 0)
		e = ROOM_FOR_ONE(r->lives, p->n_processes, r->room_lives);
	if (e < 0)
		return trace(e);
	r->lives[p->n_processes] = (struct reader_life){0};
	p->processes[p->n_processes] = *process;
	*ret_index = (uint32_t)p->n_processes++;
	return 0;
}

/* The sequence's own data about a pid comes before that of others. */
static bool current_process(const struct reader *r, uint32_t sequence, uint32_t pid,
			    uint32_t *ret_index)
{
	uint64_t index;

	if (!table_get(&r->process_by_sequence, pair(sequence, pid), &index) &&
	    !table_get(&r->process_by_pid, pid, &index))
		return false;
	*ret_index = (uint32_t)index;
	return true;
}

/* The entry of @pid's present life, made if new. */
static int reader_current_process(struct reader *r, uint32_t sequence, uint32_t pid,
				  uint32_t *ret_index)
{
	int e;

	if (current_process(r, sequence, pid, ret_index))
		return 0;
	e = add_process(r, &(struct profile_process){.pid = pid}, ret_index);
	if (e >= 0)
		e = reader_put(r, HELD_NUMBERS, &r->process_by_pid, pid, *ret_index);
	return e < 0 ? trace(e) : 0;
}

/* The same life under equal keys; a key that meets another's by chance gives a wrong name, no wrong
 * index. */
static uint64_t life_key(uint32_t sequence, uint32_t pid, uint64_t life)
{
	return hash_u64(life ^ hash_u64(pair(sequence, pid)));
}

/* May the data that was read now stand in the entry @index, which has no such number? */
static bool is_same(const struct reader *r, uint32_t index, const struct profile_process *read,
		    const struct reader_life *life)
{
	const struct profile_process *known = &r->profile->processes[index];

	if (!known->name || !read->name || known->name == read->name)
		return !r->lives[index].number || !life->number ||
		       r->lives[index].sequence != life->sequence;
	return !r->lives[index].number && !life->number && !r->lives[index].sampled;
}

static int find_process(struct reader *r, const struct profile_process *read,
			const struct reader_life *life, uint32_t *ret_index)
{
	uint64_t key = life_key(life->sequence, read->pid, life->number), index;
	int e;

	if (life->number && table_get(&r->process_by_life, key, &index) &&
	    r->profile->processes[index].pid == read->pid) {
		*ret_index = (uint32_t)index;
		return 0;
	}
	if (!current_process(r, life->sequence, read->pid, ret_index) ||
	    !is_same(r, *ret_index, read, life)) {
		e = add_process(r, read, ret_index);
		if (e < 0)
			return trace(e);
	}
	if (!life->number)
		return 0;
	if (!r->lives[*ret_index].number) {
		r->lives[*ret_index].number = life->number;
		r->lives[*ret_index].sequence = life->sequence;
	}
	e = reader_put(r, HELD_NUMBERS, &r->process_by_life, key, *ret_index);
	return e < 0 ? trace(e) : 0;
}

static int reader_name_process(struct reader *r, uint32_t sequence, uint64_t life,
			       const struct profile_process *read)
{
	const struct reader_life now = {.number = life, .sequence = sequence};
	struct profile_process *process;
	uint32_t index, name, cgroup;
	int e = find_process(r, read, &now, &index);

	if (e < 0)
		return trace(e);
	process = &r->profile->processes[index];
	name = read->name ? read->name : process->name;
	cgroup = read->cgroup ? read->cgroup : process->cgroup;
	*process = *read;
	process->name = name;
	process->cgroup = cgroup;
	if (life)
		e = reader_put(r, HELD_NUMBERS, &r->process_by_sequence, pair(sequence, read->pid),
			       index);
	if (e >= 0)
		e = reader_put(r, HELD_NUMBERS, &r->process_by_pid, read->pid, index);
	return e < 0 ? trace(e) : 0;
}

/* ---- threads ---- */
static int add_thread(struct reader *r, const struct profile_thread *thread, uint32_t *ret_index)
{
	struct profile *p = r->profile;
	int e;

	if (p->n_threads >= MAX_ENTRIES)
		return fail(-E2BIG);
	e = reader_hold(r, HELD_THREADS, 1, sizeof(*thread) + 1);
	if (e >= 0)
		e = ROOM_FOR_ONE(p->threads, p->n_threads, r->room_threads);
	if (e >= 0)
		e = ROOM_FOR_ONE(r->thread_sampled, p->n_threads, r->room_thread_sampled);
	if (e < 0)
		return trace(e);
	r->thread_sampled[p->n_threads] = false;
	p->threads[p->n_threads] = *thread;
	*ret_index = (uint32_t)p->n_threads++;
	return 0;
}

static uint64_t name_key(const struct profile_thread *t)
{
	return hash_u64(hash_u64(pair(t->process, t->tid)) ^ t->name);
}

static bool find_named(const struct reader *r, const struct profile_thread *wanted,
		       uint32_t *ret_index)
{
	const struct profile_thread *t;
	uint64_t index;

	if (!table_get(&r->thread_by_name, name_key(wanted), &index))
		return false;
	t = &r->profile->threads[index];
	if (t->process != wanted->process || t->tid != wanted->tid || t->name != wanted->name)
		return false;
	*ret_index = (uint32_t)index;
	return true;
}

/* From here on @read->pid is this; @life 0: unknown.  A @read without a name leaves the name as it
 * is. */
static int reader_name_thread(struct reader *r, uint32_t process, uint32_t tid, uint32_t name)
{
	const struct profile_thread wanted = {process, tid, name};
	struct profile *p = r->profile;
	uint32_t index;
	uint64_t now;
	int e = 0;

	if (!name)
		return 0;
	if (!find_named(r, &wanted, &index)) {
		if (table_get(&r->thread_by_key, pair(process, tid), &now) &&
		    (!p->threads[now].name || !r->thread_sampled[now])) {
			index = (uint32_t)now;
			p->threads[index].name = name;
		} else {
			e = add_thread(r, &wanted, &index);
		}
		if (e >= 0)
			e = reader_put(r, HELD_NUMBERS, &r->thread_by_name, name_key(&wanted),
				       index);
	}
	if (e >= 0)
		e = reader_put(r, HELD_NUMBERS, &r->thread_by_key, pair(process, tid), index);
	if (e >= 0)
		e = reader_put(r, HELD_NUMBERS, &r->thread_by_tid, tid, index);
	return e < 0 ? trace(e) : 0;
}

/* The last known process of a thread; false: unknown. */
static bool reader_process_of_thread(const struct reader *r, uint32_t tid, uint32_t *ret_process)
{
	uint64_t index;

	if (!table_get(&r->thread_by_tid, tid, &index))
		return false;
	*ret_process = r->profile->threads[index].process;
	return true;
}

static int current_thread(struct reader *r, uint32_t process, uint32_t tid, uint32_t *ret_index)
{
	struct profile_thread new = {process, tid, 0};
	const struct profile *p = r->profile;
	uint64_t index;
	int e;

	if (table_get(&r->thread_by_key, pair(process, tid), &index)) {
		*ret_index = (uint32_t)index;
		return 0;
	}
	/* Who does not number lives may rename a process and not name its threads again. */
	if (!r->lives[process].number && table_get(&r->thread_by_tid, tid, &index) &&
	    p->processes[p->threads[index].process].pid == p->processes[process].pid)
		new.name = p->threads[index].name;
	e = add_thread(r, &new, ret_index);
	if (e >= 0)
		e = reader_put(r, HELD_NUMBERS, &r->thread_by_key, pair(process, tid), *ret_index);
	if (e >= 0 && new.name)
		e = reader_put(r, HELD_NUMBERS, &r->thread_by_name, name_key(&new), *ret_index);
	if (e >= 0)
		e = reader_put(r, HELD_NUMBERS, &r->thread_by_tid, tid, *ret_index);
	return e < 0 ? trace(e) : 0;
}

/* ---- samples ---- */
int reader_place_sample(struct reader *r, uint32_t sequence, uint32_t pid, uint32_t tid,
			struct profile_sample *sample)
{
	uint32_t process;
	int e = reader_current_process(r, sequence, pid, &process);

	if (e >= 0)
		e = current_thread(r, process, tid, &sample->thread);
	if (e < 0)
		return trace(e);
	r->lives[process].sampled = true;
	r->thread_sampled[sample->thread] = true;
	return 0;
}

/* ---- ProcessTree ---- */

enum {
	MAX_CMDLINE = 4096,
	MAX_CGROUP = 4096,
};

/* "/usr/bin/python3" -> "python3"; "postgres: walwriter" and "[kthreadd]" stay: only the part
 * before a blank is a path, and only argv[0] is. */
static size_t base_name_at(const char *text, size_t len)
{
	size_t at = 0;

	for (size_t i = 0; i + 1 < len && text[i] != ' '; i++)
		if (text[i] == '/')
			at = i + 1;
	return at;
}

static int read_process(struct reader *r, uint32_t sequence, struct cursor c)
{
	struct profile_process read = {0};
	struct wire_field f, first = {0}, cgroup = {0};
	char line[MAX_CMDLINE];
	bool has_pid = false, is_comm = false;
	uint64_t life = 0;
	size_t n = 0, at;
	int e;

	while (wire_next(&c, &f)) {
		if (wire_is(&f, PROCESS_TREE__PROCESS__PID)) {
			read.pid = (uint32_t)f.value;
			has_pid = true;
		} else if (wire_is(&f, PROCESS_TREE__PROCESS__PPID)) {
			read.ppid = (uint32_t)f.value;
		} else if (wire_is(&f, PROCESS_TREE__PROCESS__IS_KTHREAD)) {
			read.kernel_thread = f.value;
		} else if (wire_is(&f, PROCESS_TREE__PROCESS__CMDLINE_IS_COMM)) {
			is_comm = f.value;
		} else if (wire_is(&f, PROCESS_TREE__PROCESS__PERFWIND_LIFE)) {
			life = f.value;
		} else if (wire_is_bytes(&f, PROCESS_TREE__PROCESS__PERFWIND_CGROUP)) {
			cgroup = f;
		} else if (wire_is_bytes(&f, PROCESS_TREE__PROCESS__CMDLINE)) {
			size_t len = min_u64(f.len, sizeof(line) - n);

			if (!first.data)
				first = f;
			else if (len)
				line[n++] = ' ';
			len = min_u64(f.len, sizeof(line) - n);
			if (len)
				memcpy(line + n, f.data, len);
			n += len;
		}
	}
	if (c.bad)
		return READER_BROKEN;
	if (!has_pid)
		return 0;
	at = is_comm || read.kernel_thread || !first.data
		     ? 0
		     : base_name_at((const char *)first.data, first.len);
	if (first.len > at) {
		e = reader_string(r, first.data + at, min_u64(first.len - at, 256), &read.name);
		if (e < 0)
			return trace(e);
	}
	e = reader_string(r, line, n, &read.cmdline);
	if (e >= 0 && cgroup.len)
		e = reader_string(r, cgroup.data, min_u64(cgroup.len, MAX_CGROUP), &read.cgroup);
	if (e >= 0)
		e = reader_name_process(r, sequence, life, &read);
	return e < 0 ? trace(e) : 0;
}

static int read_thread(struct reader *r, uint32_t sequence, struct cursor c)
{
	uint32_t tid = 0, pid = 0, name = 0, process;
	bool has_tid = false;
	struct wire_field f;
	int e = 0;

	while (wire_next(&c, &f)) {
		if (wire_is(&f, PROCESS_TREE__THREAD__TID)) {
			tid = (uint32_t)f.value;
			has_tid = true;
		} else if (wire_is(&f, PROCESS_TREE__THREAD__TGID)) {
			pid = (uint32_t)f.value;
		} else if (wire_is_bytes(&f, PROCESS_TREE__THREAD__NAME) && f.len) {
			e = reader_string(r, f.data, min_u64(f.len, 256), &name);
			if (e < 0)
				return trace(e);
		}
	}
	if (c.bad)
		return READER_BROKEN;
	if (!has_tid || (!pid && !reader_process_of_thread(r, tid, &process)))
		return 0;
	if (pid)
		e = reader_current_process(r, sequence, pid, &process);
	if (e >= 0)
		e = reader_name_thread(r, process, tid, name);
	return e < 0 ? trace(e) : 0;
}

int reader_process_tree(struct reader *r, uint32_t sequence, struct cursor c)
{
	struct wire_field f;
	int e = 0;

	while (wire_next(&c, &f)) {
		if (wire_is_bytes(&f, PROCESS_TREE__PROCESSES))
			e = read_process(r, sequence, wire_message(&f));
		else if (wire_is_bytes(&f, PROCESS_TREE__THREADS))
			e = read_thread(r, sequence, wire_message(&f));
		if (e)
			return e < 0 ? trace(e) : e;
	}
	return c.bad ? READER_BROKEN : 0;
}
