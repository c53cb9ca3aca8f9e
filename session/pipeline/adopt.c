/* adopt.c - see adopt.h. */
#include <string.h>

#include "base/error.h"
#include "session/pipeline/adopt.h"

void adopt_threads(struct process *process, const struct load_answer *a)
{
	for (size_t i = 0; i < a->n_threads && !process->replaced; i++) {
		struct process_thread *thread = process_thread_get(process, a->threads[i].tid);

		if (thread && !thread->from_record)
			memcpy(thread->comm, a->threads[i].comm, sizeof(thread->comm));
	}
}

void adopt_names(struct process_table *processes, struct process *process, struct load_answer *a)
{
	const struct procfs_status *status = &a->status;
	struct process_thread *main_thread = process_thread_get(process, process->pid);

	/* A command line that was read after an exec belongs to the new program, even if the record
	 * of that exec has not been read yet. */
	bool same = !main_thread || !main_thread->from_record ||
		    !strcmp(main_thread->comm, status->comm);

	if (same && a->cmdline && a->cmdline_len) {
		process_set_cmdline(process, take(a->cmdline), a->cmdline_len);
		process->announced = 0;
	}
	process_set_cgroup(process, take(a->cgroup));
	process->ppid = process->ppid ? process->ppid : status->ppid;
	process->uid = status->uid;
	process->owner = status->owner;
	process_set_ns_pid(processes, process, status->ns_pid);
	process->kernel_thread = status->kernel_thread;
	if (main_thread && !main_thread->comm[0])
		memcpy(main_thread->comm, status->comm, sizeof(main_thread->comm));
	adopt_threads(process, a);
}
