/* sideband.c - records about processes (sideband.h). */
#include "session/pipeline/sideband.h"

#include <string.h>

static int apply_mmap(struct process_table *processes, const struct record_event *e)
{
	struct uw_file_id id = {
		.major = e->mmap.major,
		.minor = e->mmap.minor,
		.inode = e->mmap.inode,
		.generation = e->mmap.generation,
	};
	/* PERF_RECORD_MMAP has no protection word: MISC_MMAP_DATA separates data from code. */
	bool exec = e->type == PERF_RECORD_MMAP2 ? e->mmap.prot & 4
						 : !(e->misc & PERF_RECORD_MISC_MMAP_DATA);

	if (e->mmap.build_id_len) {
		id = (struct uw_file_id){.build_id.len = e->mmap.build_id_len};
		memcpy(id.build_id.bytes, e->mmap.build_id, sizeof(id.build_id.bytes));
	}
	if (e->pid == UINT32_MAX) /* the kernel's own text */
		return 0;
	return process_mmap(processes, e->pid, e->mmap.start, e->mmap.len, e->mmap.offset, exec,
			    e->mmap.path, &id);
}

int sideband_apply(struct process_table *processes, const struct record_event *e)
{
	switch (e->type) {
	case PERF_RECORD_COMM:
		return process_comm(processes, e->pid, e->tid, e->comm.name, e->comm.exec, e->time);
	case PERF_RECORD_FORK:
		return process_fork(processes, e->pid, e->task.ppid, e->tid, e->task.ptid);
	case PERF_RECORD_EXIT:
		return process_exit(processes, e->pid, e->tid);
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		return apply_mmap(processes, e);
	default:
		return 0;
	}
}
