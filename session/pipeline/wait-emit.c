/* wait-emit.c - see wait-emit.h. */
#include "session/pipeline/wait-emit.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "proc/process.h"
#include "session/pipeline/wait-reason.h"
#include "trace/slices.h"

enum { FUNCTIONS = 64 }; /* of a stack, that are looked at */

/* "[sleep]" -> "sleep" */
static void slice_name(enum wait_reason reason, char *name, size_t size)
{
	const char *frame = wait_reason_frame(reason);
	size_t len = strlen(frame);

	(void)snprintf(name, size, "%.*s", len > 2 ? (int)len - 2 : 0, frame + 1);
}

/* Of a wait: by its kernel frames, where the outcome itself does not have it.  @names may be NULL. */
static enum wait_reason reason_of(const struct outcome *o, struct uw_kernel_names *names)
{
	enum wait_reason reason = (enum wait_reason)o->info.reason;
	uint64_t start;

	if (reason != WAIT_OTHER || !names)
		return reason;
	for (uint32_t i = 0; i < o->n_kernel && i < FUNCTIONS; i++)
		reason = wait_reason_of_function(reason,
						 uw_kernel_name(names, o->frames[i], &start));
	return reason;
}

int wait_emit(struct writer *writer, const struct outcome *o, struct uw_kernel_names *names,
	      uint32_t *ret_frame)
{
	enum wait_reason reason = reason_of(o, names);
	char name[32];
	struct writer_slice slice = {
		.pid = o->info.pid,
		.tid = o->info.tid,
		.begin = o->info.began,
		.end = o->info.ended,
		.category = "wait",
		.name = name,
	};
	uint32_t mapping;
	int r;

	slice_name(reason, name, sizeof(name));
	r = o->info.began ? writer_slice(writer, &slice) : 0;
	if (r >= 0)
		r = writer_mapping(writer, WAIT_MODULE, NULL, 0, 0, 0, &mapping);
	if (r >= 0)
		r = writer_frame(writer, mapping, reason, wait_reason_frame(reason), ret_frame);
	return r < 0 ? trace(r) : 0;
}

/* The functions at which an interrupt begins, outside of what it does (x86-64, aarch64). */
static bool begins_interrupt(const char *function)
{
	static const char *const starts[] = {"asm_sysvec_",   "asm_common_interrupt",
					     "el1h_64_irq",   "el0t_64_irq",
					     "el1_interrupt", "el0_interrupt"};

	for (size_t i = 0; function && i < ARRAY_SIZE(starts); i++)
		if (!strncmp(function, starts[i], strlen(starts[i])))
			return true;
	return false;
}

void wait_cut_waker(struct outcome *waker, struct uw_kernel_names *names)
{
	uint64_t start;

	for (uint32_t i = 0; names && i < waker->n_kernel; i++) {
		if (!begins_interrupt(uw_kernel_name(names, waker->frames[i], &start)))
			continue;
		waker->n_kernel = i + 1;
		waker->n_user = waker->info.pid = 0;
	}
}

int wait_emit_waker(struct writer *writer, const struct outcome *waker, uint32_t *ids, size_t *n)
{
	const struct process_thread *thread =
		waker->info.process ? process_thread_get(waker->info.process, waker->info.tid)
				    : NULL;
	const char *comm = thread ? process_thread_comm_at(thread, waker->info.time) : "";
	char name[64];
	uint32_t mapping;
	int r;

	if (!waker->info.pid)
		(void)snprintf(name, sizeof(name), "[woken by an interrupt]");
	else if (*comm)
		(void)snprintf(name, sizeof(name), "[woken by %.16s]", comm);
	else
		(void)snprintf(name, sizeof(name), "[woken by pid %u]", waker->info.pid);
	*n = min_u64(*n, WAIT_WAKER_IDS - 1);
	r = writer_mapping(writer, WAIT_MODULE, NULL, 0, 0, 0, &mapping);
	if (r >= 0)
		r = writer_frame(writer, mapping, 0, name, &ids[(*n)++]);
	return r < 0 ? trace(r) : 0;
}
