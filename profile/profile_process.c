/* profile_process.c - ProcessTree: what processes and threads are called.  The last word on a pid or tid stands. */
#include <errno.h>

#include "daemon/base/error.h"
#include "profile/profile_reader.h"

enum {
	TREE_PROCESSES = 1,
	TREE_THREADS = 2,
	PROCESS_PID = 1,
	PROCESS_PPID = 2,
	PROCESS_CMDLINE = 3,
	PROCESS_IS_KTHREAD = 8,
	PROCESS_CMDLINE_IS_COMM = 9,
	THREAD_TID = 1,
	THREAD_NAME = 2,
	THREAD_TGID = 3,
	MAX_CMDLINE = 4096,
};

int reader_get_process(struct reader *r, uint32_t pid, struct profile_process **ret_process)
{
	struct profile *p = r->profile;
	uint64_t index;
	int e;

	if (!table_get(&p->process_by_pid, pid, &index)) {
		if (p->n_processes >= UINT32_MAX)
			return fail(-E2BIG);
		e = ROOM_FOR_ONE(p->processes, p->n_processes, r->room_processes);
		if (e < 0)
			return trace(e);
		e = table_put(&p->process_by_pid, pid, p->n_processes + 1);
		if (e < 0)
			return trace(e);
		p->processes[p->n_processes] = (struct profile_process){.pid = pid};
		index = ++p->n_processes;
	}
	*ret_process = &p->processes[index - 1];
	return 0;
}

int reader_get_thread(struct reader *r, uint32_t tid, struct profile_thread **ret_thread)
{
	struct profile *p = r->profile;
	uint64_t index;
	int e;

	if (!table_get(&p->thread_by_tid, tid, &index)) {
		if (p->n_threads >= UINT32_MAX)
			return fail(-E2BIG);
		e = ROOM_FOR_ONE(p->threads, p->n_threads, r->room_threads);
		if (e < 0)
			return trace(e);
		e = table_put(&p->thread_by_tid, tid, p->n_threads + 1);
		if (e < 0)
			return trace(e);
		p->threads[p->n_threads] = (struct profile_thread){.tid = tid};
		index = ++p->n_threads;
	}
	*ret_thread = &p->threads[index - 1];
	return 0;
}

/* "/usr/bin/python3" -> "python3"; "postgres: walwriter" and "[kthreadd]" stay: only the part before a blank is a
 * path, and only argv[0] is. */
static size_t base_name_at(const char *text, size_t len)
{
	size_t at = 0;

	for (size_t i = 0; i + 1 < len && text[i] != ' '; i++)
		if (text[i] == '/')
			at = i + 1;
	return at;
}

static int read_process(struct reader *r, struct cursor c)
{
	struct profile_process *process, read = {0};
	struct wire_field f, first = {0};
	char line[MAX_CMDLINE];
	bool has_pid = false, is_comm = false;
	size_t n = 0, at;
	int e;

	while (wire_next(&c, &f)) {
		if (wire_is(&f, PROCESS_PID)) {
			read.pid = (uint32_t)f.value;
			has_pid = true;
		} else if (wire_is(&f, PROCESS_PPID)) {
			read.ppid = (uint32_t)f.value;
		} else if (wire_is(&f, PROCESS_IS_KTHREAD)) {
			read.kernel_thread = f.value;
		} else if (wire_is(&f, PROCESS_CMDLINE_IS_COMM)) {
			is_comm = f.value;
		} else if (wire_is_bytes(&f, PROCESS_CMDLINE)) {
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
	at = is_comm || read.kernel_thread || !first.data ? 0 : base_name_at((const char *)first.data, first.len);
	if (first.len > at) {
		e = reader_string(r, first.data + at, min_u64(first.len - at, 256), &read.name);
		if (e < 0)
			return trace(e);
	}
	e = reader_string(r, line, n, &read.cmdline);
	if (e < 0)
		return trace(e);
	e = reader_get_process(r, read.pid, &process);
	if (e < 0)
		return trace(e);
	*process = read;
	return 0;
}

static int read_thread(struct reader *r, struct cursor c)
{
	struct profile_thread *thread, read = {0};
	bool has_tid = false;
	struct wire_field f;
	int e;

	while (wire_next(&c, &f)) {
		if (wire_is(&f, THREAD_TID)) {
			read.tid = (uint32_t)f.value;
			has_tid = true;
		} else if (wire_is(&f, THREAD_TGID)) {
			read.pid = (uint32_t)f.value;
		} else if (wire_is_bytes(&f, THREAD_NAME) && f.len) {
			e = reader_string(r, f.data, min_u64(f.len, 256), &read.name);
			if (e < 0)
				return trace(e);
		}
	}
	if (c.bad)
		return READER_BROKEN;
	if (!has_tid)
		return 0;
	e = reader_get_thread(r, read.tid, &thread);
	if (e < 0)
		return trace(e);
	if (!read.name)
		read.name = thread->name;
	if (!read.pid)
		read.pid = thread->pid;
	*thread = read;
	return 0;
}

int reader_process_tree(struct reader *r, struct cursor c)
{
	struct wire_field f;
	int e = 0;

	while (wire_next(&c, &f)) {
		if (wire_is_bytes(&f, TREE_PROCESSES))
			e = read_process(r, wire_message(&f));
		else if (wire_is_bytes(&f, TREE_THREADS))
			e = read_thread(r, wire_message(&f));
		if (e)
			return e < 0 ? trace(e) : e;
	}
	return c.bad ? READER_BROKEN : 0;
}
