/* print-threads.c - see print-threads.h. */
#include "marks/print-threads.h"

#include <stdio.h>
#include <string.h>

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

/* The process of a thread that runs, by /proc; 0: it is gone. */
static uint32_t pid_of_thread(const struct print_threads *t, uint32_t tid)
{
	_cleanup_(freep) char *text = NULL;
	char path[PROCFS_PATH_MAX];
	const char *line;
	uint64_t pid;

	if (procfs_path(path, t->root, tid, "status") < 0 ||
	    read_file(path, STATUS_MAX, &text, NULL) < 0 || !(line = strstr(text, "\nTgid:\t")))
		return 0;
	line += strlen("\nTgid:\t");
	text[(size_t)(line - text) + strcspn(line, "\n")] = 0;
	return parse_u64(line, 10, INT32_MAX, &pid) < 0 ? 0 : (uint32_t)pid;
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

	if (table_get(&t->known, tid, &known))
		return (uint32_t)known;
	if (table_get(&t->strangers, tid, &known))
		return 0;
	pid = pid_of_thread(t, tid);
	if (pid && !all && !process_find(processes, pid))
		pid = 0;
	else if (!pid)
		pid = pid_of_ended(processes, tid, named);
	if (pid) {
		if (t->known.n_used >= PRINT_THREADS_MAX)
			table_clear(&t->known);
		return table_put(&t->known, tid, pid) < 0 ? 0 : pid;
	}
	if (t->strangers.n_used >= PRINT_THREADS_MAX)
		table_clear(&t->strangers);
	(void)table_put(&t->strangers, tid, 1);
	return 0;
}
