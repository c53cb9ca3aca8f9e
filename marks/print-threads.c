/* print-threads.c - see print-threads.h. */
#include "marks/print-threads.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "proc/procfs.h"

enum { STATUS_MAX = 16384 };

void print_threads_init(struct print_threads *t, const char *root)
{
	*t = (struct print_threads){.root = root};
}

void print_threads_deinit(struct print_threads *t)
{
	table_deinit(&t->known);
	table_deinit(&t->strangers);
}

void print_threads_exit(struct print_threads *t, uint32_t tid)
{
	(void)table_remove(&t->known, tid);
}

void print_threads_again(struct print_threads *t)
{
	table_clear(&t->strangers);
}

void print_threads_forget(struct print_threads *t)
{
	table_clear(&t->known);
	table_clear(&t->strangers);
}

/* The process of a thread that runs, by /proc; *ret_pid 0: it is gone.  < 0: it is not known whether it runs. */
static int pid_of_thread(const struct print_threads *t, uint32_t tid, uint32_t *ret_pid)
{
	_cleanup_(freep) char *text = NULL;
	char path[PROCFS_PATH_MAX];
	const char *line;
	uint64_t pid;
	int r = procfs_path(path, t->root, tid, "status");

	*ret_pid = 0;
	if (r >= 0)
		r = read_file(path, STATUS_MAX, &text, NULL);
	line = r < 0 ? NULL : strstr(text, "\nTgid:\t");
	if (!line)
		return is_shortage(r) ? trace(r) : 0;
	line += strlen("\nTgid:\t");
	text[(size_t)(line - text) + strcspn(line, "\n")] = 0;
	*ret_pid = parse_u64(line, 10, INT32_MAX, &pid) < 0 ? 0 : (uint32_t)pid;
	return 0;
}

/* The process of a thread that has ended, as records showed it; 0: none did. */
static uint32_t pid_of_ended(struct process_table *processes, uint32_t tid, uint32_t named)
{
	const struct process *p;

	if (process_find(processes, tid))
		return tid;
	p = named ? process_find(processes, named) : NULL;
	return p && table_pointer(&p->threads, tid) ? named : 0;
}

uint32_t print_threads_process(struct print_threads *t, struct process_table *processes, bool all,
			       uint32_t tid, uint32_t named)
{
	uint64_t known;
	uint32_t pid;
	int r;

	if (table_get(&t->known, tid, &known))
		return (uint32_t)known;
	if (table_get(&t->strangers, tid, &known))
		return 0;
	r = pid_of_thread(t, tid, &pid);
	if (pid && !all && !process_find(processes, pid))
		pid = 0;
	else if (!pid)
		pid = pid_of_ended(processes, tid, named);
	if (pid) {
		if (t->known.n_used >= PRINT_THREADS_MAX)
			table_clear(&t->known);
		(void)table_put(&t->known, tid, pid);
		return pid;
	}
	if (r < 0)
		return 0; /* the next line of the thread looks again */
	if (t->strangers.n_used >= PRINT_THREADS_MAX)
		table_clear(&t->strangers);
	(void)table_put(&t->strangers, tid, 1);
	return 0;
}
