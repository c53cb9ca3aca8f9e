/* emit-sample.c - one outcome as packets: the process and the thread that the trace lacks, the stack, the sample.  See
 * emit-private.h.
 *
 * A reader of the trace assigns a sample to the process and the names that were written last
 * before it.  A parked sample is written after later ones, and may belong to an incarnation of the
 * pid from before an exec, or carry a name from before a rename.  So the last announcement of a
 * pid is compared with what the sample needs, for each sample. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "proc/process.h"
#include "session/pipeline/emit-private.h"
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

/* Of outcome.waker, before its frames get ids: in an interrupt the task is not what woke, so only the interrupt's frames stay,
 * and info.pid is 0.  @names may be NULL. */
static void wait_cut_waker(struct outcome *waker, struct uw_kernel_names *names)
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

/* ---- processes and threads ---- */

enum { MAX_INCARNATIONS = 8192 }; /* remembered; then all processes are announced once more */

/* The number of this incarnation in the trace.  A process that was evicted from the process table
 * and came back keeps the number. */
static uint64_t incarnation_of(struct announcer *an, struct process *p)
{
	uint64_t last;

	if (!p->incarnation)
		p->incarnation =
			!p->begun && table_get(&an->incarnations, p->pid, &last) ? last : p->serial;
	return p->incarnation;
}

static bool is_announced(const struct announcer *an, const struct process_thread *thread,
			 uint64_t time)
{
	return thread->announced == an->round &&
	       !memcmp(thread->announced_as, process_thread_comm_at(thread, time),
		       sizeof(thread->announced_as));
}

static void set_announced(const struct announcer *an, struct process_thread *thread,
			  const char *comm)
{
	memcpy(thread->announced_as, comm, sizeof(thread->announced_as));
	thread->announced = an->round;
}

/* Packets of an import carry the time of their sample, not the present. */
static uint64_t packet_time(const struct emit *em, uint64_t sample_time)
{
	return em->c.past ? sample_time : clock_ns(CLOCK_BOOTTIME);
}

static int announce_process(struct emit *em, struct process *p, uint64_t time)
{
	struct announcer *an = &em->announcer;
	struct process_thread *first = process_thread_get(p, p->pid);
	const char *comm = first ? process_thread_comm_at(first, time) : "";
	const struct writer_process process = {
		.pid = p->pid,
		.ppid = p->ppid,
		.uid = p->uid,
		.incarnation = incarnation_of(an, p),
		.comm = comm,
		.cmdline = p->cmdline,
		.cmdline_len = p->cmdline_len,
		.cgroup = p->cgroup,
		.kernel_thread = p->kernel_thread,
	};
	int r = writer_process(em->c.writer, &process, packet_time(em, time));

	if (r < 0)
		return trace(r);
	if (an->incarnations.n_used >= MAX_INCARNATIONS)
		table_clear(&an->incarnations);
	r = table_put(&an->incarnations, p->pid, process.incarnation);
	if (r < 0)
		return trace(r);
	p->announced = an->round;
	if (first)
		set_announced(an, first, comm);
	return 0;
}

/* Writes the process and the thread of a sample where the trace lacks them. */
static int announce_sample(struct emit *em, const struct sample_info *info)
{
	struct announcer *an = &em->announcer;
	struct process *p = info->process;
	struct process_thread *thread = process_thread_get(p, info->tid);
	bool known = !thread || is_announced(an, thread, info->time);
	const char *comm;
	uint64_t last;
	int r = 0;

	if (p->announced != an->round || (!known && info->tid == p->pid) ||
	    !table_get(&an->incarnations, p->pid, &last) || last != incarnation_of(an, p))
		r = announce_process(em, p, info->time);
	if (r < 0 || known || info->tid == p->pid)
		return r < 0 ? trace(r) : 0;
	comm = process_thread_comm_at(thread, info->time);
	r = writer_thread(em->c.writer, p->pid, info->tid, comm, packet_time(em, info->time));
	if (r < 0)
		return trace(r);
	set_announced(an, thread, comm);
	return 0;
}

/* ---- the stack ---- */

/* Why its stack failed, if it did.  The unwinder knows that something is missing, but not why: UW_UNRESPONSIVE: it was not read
 * because an earlier read of it got no answer.  Main. */
static enum uw_reason outcome_reason(const struct outcome *o)
{
	enum uw_reason reason = (enum uw_reason)o->reason;
	const struct uw_map *map;

	if (o->result != UW_FAILED)
		return reason;
	if (reason == UW_NO_MODULE && o->info.process && o->info.process->unresponsive)
		return UW_UNRESPONSIVE;
	if (reason != UW_UNREADABLE || !o->info.space)
		return reason;
	map = uw_space_find(o->info.space, o->stopped_at);
	return map && map->module && uw_module_unresponsive(map->module) ? UW_UNRESPONSIVE : reason;
}

/* A frame at the root side that gives the reason why the stack of @o, which is not whole, ends there. */
static int end_marker(struct writer *writer, const struct outcome *o, uint32_t *ret_id)
{
	enum uw_reason reason = outcome_reason(o);
	uint32_t mapping;
	char name[64];
	int r;

	if (o->result == UW_CUT)
		(void)snprintf(name, sizeof(name), "[cut]");
	else
		(void)snprintf(name, sizeof(name), "[failed: %s]", uw_reason_name(reason));
	r = writer_mapping(writer, "", NULL, 0, 0, 0, &mapping);
	if (r < 0)
		return trace(r);
	return writer_frame(writer, mapping, o->result == UW_CUT ? 0 : 1ull + reason, name, ret_id);
}

static int stack_of(struct emit *em, const struct outcome *o, uint32_t *ret_callstack)
{
	size_t n = 0, n_waker = 0;
	int r;

	emit_check_ids(em);
	if (em->n_modules >= EMIT_MODULES_MAX)
		emit_renew(em);
	if (o->waker)
		wait_cut_waker(o->waker, em->c.kernel_names);
	r = o->waker ? emit_stack_ids(em, o->waker, &n_waker) : 0;
	if (r >= 0 && o->waker)
		r = wait_emit_waker(em->c.writer, o->waker, em->ids, &n_waker);
	memcpy(em->waker_ids, em->ids, n_waker * sizeof(em->ids[0]));
	if (r >= 0)
		r = emit_stack_ids(em, o, &n);
	if (r < 0)
		return trace(r);
	if (o->result != UW_WHOLE) {
		r = end_marker(em->c.writer, o, &em->ids[n++]);
		if (r < 0)
			return trace(r);
	}
	memmove(em->ids + n_waker, em->ids, n * sizeof(em->ids[0]));
	memcpy(em->ids, em->waker_ids, n_waker * sizeof(em->ids[0]));
	n += n_waker;
	if (o->info.reason) {
		memmove(em->ids + 1, em->ids, n++ * sizeof(em->ids[0]));
		r = wait_emit(em->c.writer, o, em->c.kernel_names, &em->ids[0]);
		if (r < 0)
			return trace(r);
	}
	return writer_callstack(em->c.writer, em->ids, n, ret_callstack);
}

/* ---- the sample ---- */

/* The same as Perfetto's StackUnwindError (facts: PerfSample); 0: none. */
static uint32_t outcome_unwind_error(const struct outcome *o)
{
	static const uint8_t errors[UW_REASON_COUNT] = {
		[UW_NO_USER_STATE] = 9, /* SYSTEM_CALL */
		[UW_ABI] = 12,		/* BAD_ARCH */
		[UW_NO_MODULE] = 5,	/* INVALID_MAP */
		[UW_UNREADABLE] = 8,	/* INVALID_ELF */
		[UW_NO_UNWIND_INFO] = 3, [UW_BAD_CFI] = 3,
		[UW_BAD_RETURN] = 3,	 [UW_NO_PROGRESS] = 7,	 /* REPEATED_FRAME */
		[UW_MEMORY] = 2,				 /* MEMORY_INVALID */
		[UW_TOO_DEEP] = 6,	 [UW_UNRESPONSIVE] = 10, /* THREAD_TIMEOUT */
	};

	if (o->result == UW_WHOLE)
		return 0;
	return o->result == UW_CUT && o->reason != UW_TOO_DEEP ? 2 : errors[outcome_reason(o)];
}

/* SampleSkipReason (facts: PerfSample): 1 read stage, 2 unwind stage, 3 enqueue, 4 not in scope. */
static uint32_t skip_reason_number(enum skip_reason reason)
{
	switch (reason) {
	case SKIP_NOT_IN_SCOPE:
	case SKIP_NOT_ALLOWED:
		return 4;
	case SKIP_PARK_FULL:
	case SKIP_ENQUEUED:
	case SKIP_OUTPUT:
		return 3;
	default:
		return 2;
	}
}

/* When the sink has lost packets, all definitions are written again. */
static int renew(struct emit *em)
{
	int r = writer_renew(em->c.writer);

	if (r == WRITER_RENEWED)
		em->announcer.round++;
	return r < 0 ? trace(r) : 0;
}

/* The stack of its process's last sample; 0: none, or it would have to be written again. */
static uint32_t last_stack(const struct emit *em, const struct process *p)
{
	return p->stack_generation == writer_stack_generation(em->c.writer) ? p->stack : 0;
}

/* The count of a CPU without what is not in the trace: the next sample, of any process, would have the weight of that. */
static uint64_t written_count(const struct emit *em, const struct sample_info *info)
{
	uint64_t unwritten = 0;

	if (em->unwritten.n_used)
		(void)table_get(&em->unwritten, info->cpu, &unwritten);
	return info->count - min_u64(unwritten, info->count);
}

static void note_unwritten(struct emit *em, const struct sample_info *info)
{
	uint64_t unwritten = 0;

	(void)table_get(&em->unwritten, info->cpu, &unwritten);
	(void)table_put(&em->unwritten, info->cpu, unwritten + info->weight);
}

/* > 0: the sink has dropped it. */
static int try_sample(struct emit *em, const struct outcome *o)
{
	const struct sample_info *info = &o->info;
	uint64_t dropped;
	struct writer_sample sample = {
		.time = info->time,
		.cpu = info->cpu,
		.pid = info->pid,
		.tid = info->tid,
		.cpu_mode = info->cpu_mode,
		.count = written_count(em, info),
		.follower_counts = info->followers,
		.n_follower_counts = info->n_followers,
	};
	int r = renew(em);

	if (r < 0)
		return trace(r);
	/* A process that may not be seen: its time is recorded, its name is not. */
	r = o->skipped == SKIP_NOT_ALLOWED ? 0 : announce_sample(em, info);
	if (r < 0)
		return trace(r);
	em->n_samples++;
	if (o->skipped) {
		sample.skipped_reason = skip_reason_number(o->skipped);
	} else if (o->owed && last_stack(em, info->process)) {
		const struct outcome last = {.result = info->process->stack_result,
					     .reason = info->process->stack_reason,
					     .info = *info};

		sample.callstack = last_stack(em, info->process);
		sample.unwind_error = outcome_unwind_error(&last);
	} else {
		r = stack_of(em, o, &sample.callstack);
		if (r < 0)
			return trace(r);
		sample.unwind_error = outcome_unwind_error(o);
		info->process->stack = sample.callstack;
		info->process->stack_generation = writer_stack_generation(em->c.writer);
		info->process->stack_result = o->result;
		info->process->stack_reason = o->reason;
	}
	dropped = writer_dropped(em->c.writer);
	r = writer_sample(em->c.writer, &sample);
	return r < 0 ? trace(r) : writer_dropped(em->c.writer) != dropped;
}

static int write_sample(struct emit *em, const struct outcome *o)
{
	int r = try_sample(em, o);

	if (r != 0)
		note_unwritten(em, &o->info);
	return r < 0 ? trace(r) : 0;
}

/* Is it of the start of a program, which an interpreter spends before its frames can be read in time? */
static bool is_at_start(const struct sample_info *info)
{
	struct process *p = info->process;

	if (!p || !p->begun)
		return false;
	if (!p->sampled_at)
		p->sampled_at = info->time;
	return info->time < p->sampled_at + ACCOUNT_START_MS * NSEC_PER_MSEC;
}

int emit_outcome(struct emit *em, const struct outcome *o)
{
	struct account *account = em->c.account;
	bool at_start = is_at_start(&o->info);
	int r = write_sample(em, o);

	account->answered++;
	if (r < 0)
		account->skipped[SKIP_OUTPUT]++;
	else if (o->skipped)
		account->skipped[o->skipped]++;
	else
		account_outcome(account, o, outcome_reason(o));
	account->lacks_at_start += r >= 0 && !o->skipped && o->lacks_functions && at_start;
	(void)uw_space_unref(o->info.space);
	(void)process_unref(o->info.process);
	return r < 0 ? trace(r) : 0;
}

int emit_skipped(struct emit *em, const struct sample_info *info, enum skip_reason why)
{
	const struct outcome o = {.kind = OUTCOME_SAMPLE, .skipped = (uint8_t)why, .info = *info};

	return write_sample(em, &o);
}

int emit_owed(struct emit *em, const struct sample_info *info)
{
	struct account *account = em->c.account;
	struct outcome o = {
		.kind = OUTCOME_SAMPLE,
		.owed = true,
		.result = UW_FAILED,
		.reason = UW_THINNED,
		.info = *info,
	};
	int r = write_sample(em, &o);

	o.result = info->process->stack_result;
	o.reason = info->process->stack_reason;
	account->received++;
	if (r < 0)
		account->skipped[SKIP_OUTPUT]++;
	else
		account_outcome(account, &o, outcome_reason(&o));
	return trace(r);
}

void emit_announce_again(struct emit *em)
{
	em->announcer.round++;
}
