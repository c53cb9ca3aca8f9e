/* reader.c - from rings to entries (reader.h).
 *
 * The unwinder pops entries in order.  Main then walks the popped slots and hands each record to the source's put(), which moves the
 * tail of a ring past all records that came back without a gap.  When a ring holds more than waits for a wake-up, new samples are copied
 * into main's park and their records released at once, so that a slow moment of the unwinder does not stop the kernel.
 *
 * The entry of a sample holds a reference on its process and its space; the outcome that answers it releases them (those of an
 * ENTRY_SPACE: its popped slot).
 *
 * A control entry that finds the queue full waits in rd->control, in order.  No sample overtakes it. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "session/pipeline/adopt.h"
#include "session/pipeline/copied-entry.h"
#include "session/pipeline/cpu-counts.h"
#include "session/pipeline/scope.h"
#include "session/pipeline/thin.h"
#include "session/pipeline/waits.h"
#include "session/pipeline/sideband.h"

enum { SCANS_IN_FLIGHT = 8, SCAN_LOOKS = 64, QUERIES_IN_FLIGHT = 64 };

struct reader {
	struct reader_options options;
	struct reader_context c;
	struct scope scope;
	struct record_source records;
	struct park copies;
	struct cpu_counts counts;
	size_t n_rings;
	uint64_t rounds;	    /* begun */
	uint64_t reclaimed;	    /* position in the entry queue */
	struct record_item waiting; /* taken from the source while the queue was full */
	bool has_waiting;
	struct table pids;     /* pid -> 1, with options.only_pids */
	struct entry *control; /* control entries that found the queue full */
	size_t n_control, control_room;
	uint32_t *scan; /* processes older than the session, in the order of their requests */
	struct procfs_pids *scan_from; /* further ones; NULL: none */
	size_t n_scan, scanned, scans_in_flight, queries_in_flight;
	struct thin thin;
};

/* ---- the entry queue ---- */

static void put_item(const struct reader *rd, const struct record_item *item)
{
	rd->records.put(rd->records.arg, item->ring, item->position);
}

static void entry_done(struct reader *rd, struct entry *e)
{
	if (e->kind == ENTRY_SPACE) {
		(void)uw_space_unref(e->info.space);
		(void)process_unref(e->info.process);
	}
	if (e->kind != ENTRY_SAMPLE)
		return;
	copied_entry_put(rd->c.deep, rd->c.python, e);
	if (e->block)
		park_free(&rd->copies, (uintptr_t)e->info.process, e->block, entry_bytes(e));
	else
		rd->records.put(rd->records.arg, e->ring, e->position);
}

/* Releases the records of entries that the unwinder has popped. */
static void release_popped(struct reader *rd)
{
	uint64_t consumed = slot_queue_consumed(rd->c.entries);

	for (; rd->reclaimed != consumed; rd->reclaimed++)
		entry_done(rd, slot_queue_at(rd->c.entries, rd->reclaimed));
}

/* A popped slot still holds what must be released, and is not overwritten before that. */
static struct entry *free_slot(struct reader *rd)
{
	const struct slot_queue *q = rd->c.entries;

	if (q->filled - rd->reclaimed > q->mask)
		release_popped(rd);
	return q->filled - rd->reclaimed > q->mask ? NULL : slot_queue_push(rd->c.entries);
}

/* The next slot for a sample; NULL: none is free. */
static struct entry *entry_push(struct reader *rd)
{
	return rd->n_control ? NULL : free_slot(rd);
}

static int control_push(struct reader *rd, const struct entry *control)
{
	struct entry *e = entry_push(rd);

	if (e) {
		*e = *control;
		return 0;
	}
	if (rd->n_control == rd->control_room && !array_grow(rd->control, rd->control_room, 64))
		return fail(-ENOMEM);
	rd->control[rd->n_control++] = *control;
	return 0;
}

static void control_retry(struct reader *rd)
{
	size_t n = 0;

	while (n < rd->n_control) {
		struct entry *e = free_slot(rd);

		if (!e)
			break;
		*e = rd->control[n++];
	}
	memmove(rd->control, rd->control + n, (rd->n_control - n) * sizeof(*rd->control));
	rd->n_control -= n;
}

static void wake_unwinder(struct reader *rd)
{
	if (slot_queue_publish(rd->c.entries))
		waker_wake(rd->c.unwinder);
}

void reader_reclaim(struct reader *rd)
{
	release_popped(rd);
	if (rd->n_control) {
		control_retry(rd);
		wake_unwinder(rd);
	}
}

bool reader_idle(const struct reader *rd)
{
	return !rd->has_waiting && !rd->n_control && rd->reclaimed == rd->c.entries->filled;
}

void reader_entry_drop(const struct entry *e)
{
	(void)uw_space_unref(e->info.space);
	(void)process_unref(e->info.process);
	if (e->kind == ENTRY_EVICT)
		(void)uw_module_unref(e->module);
}

static int control_send(struct reader *rd, const struct entry *e)
{
	int r = control_push(rd, e);

	if (r < 0)
		reader_entry_drop(e);
	wake_unwinder(rd);
	return r;
}

int reader_control(struct reader *rd, enum entry_kind kind, struct uw_module *module)
{
	const struct entry e = {.kind = (uint8_t)kind, .module = module};

	return control_send(rd, &e);
}

int reader_flush(struct reader *rd, uint64_t number, uint64_t deadline)
{
	const struct entry e = {.kind = ENTRY_FLUSH, .info = {.count = number, .time = deadline}};

	return control_send(rd, &e);
}

/* Sends ENTRY_SPACE: the mappings are known, or (not @known) cannot be read.  The entry holds its
 * references until its slot is popped. */
static int send_space(void *reader, struct process *process, bool known)
{
	struct reader *rd = reader;
	struct entry e = {.kind = ENTRY_SPACE};
	int r = known ? process_space(rd->c.processes, process, &e.info.space) : 0;

	if (r < 0)
		return trace(r);
	if (known)
		(void)uw_space_ref(e.info.space);
	e.info.process = process_ref(process);
	e.skip = (uint8_t)scope_skips_process(&rd->scope, process);
	e.undecided = !e.skip && scope_of(&rd->scope, process) == PROCESS_UNDECIDED;
	return control_send(rd, &e);
}

/* ---- requests to the loader ---- */

/* false: the loader has too many requests; the caller asks again later. */
static bool request(struct reader *rd, enum load_kind kind, struct process *process,
		    uint64_t address)
{
	struct load_request request = {
		.kind = kind,
		.pid = process->pid,
		.process = process_ref(process),
		.vaddr = address,
		.closed = !scope_may_open(&rd->scope, process),
	};

	if (kind == LOAD_PROCESS || kind == LOAD_QUERY)
		request.given = load_given_new(process->given_maps);
	if (loader_ask(rd->c.loader, &request))
		return true;
	load_request_deinit(&request);
	(void)process_unref(process);
	return false;
}

static void request_maps(struct reader *rd, struct process *process)
{
	process_maps_asked(process, clock_ns(CLOCK_MONOTONIC));
	(void)request(rd, LOAD_PROCESS, process, 0);
}

/* The loader reads the mappings from the descriptors even where records have given them: the
 * descriptors may belong to an address space that is gone. */
static int read_given(void *reader, struct process *process)
{
	struct reader *rd = reader;

	if (process->maps_state != PROCESS_MAPS_ASKED)
		request_maps(rd, process);
	else if (!request(rd, LOAD_PROCESS, process, 0)) /* deferred until now */
		return send_space(rd, process, false);
	return 0;
}

int reader_scan(struct reader *rd, const uint32_t *pids, size_t n)
{
	uint32_t *copy = reallocarray(NULL, n ? n : 1, sizeof(*copy));

	if (!copy)
		return fail(-ENOMEM);
	memcpy(copy, pids, n * sizeof(*copy));
	free(rd->scan);
	rd->scan = copy;
	rd->n_scan = n;
	rd->scanned = 0;
	return 0;
}

bool reader_scanned(const struct reader *rd)
{
	return rd->scanned == rd->n_scan;
}

void reader_scan_all(struct reader *rd, struct procfs_pids *pids)
{
	(void)procfs_pids_free(rd->scan_from);
	rd->scan_from = pids;
	free(rd->scan);
	rd->scan = NULL;
	rd->n_scan = rd->scanned = 0;
}

/* Is there a process left to scan?  Further pids are read a list at a time. */
static bool has_more(struct reader *rd)
{
	if (rd->scanned < rd->n_scan)
		return true;
	if (!rd->scan_from)
		return false;
	rd->scanned = rd->n_scan = 0;
	if (!rd->scan)
		rd->scan = reallocarray(NULL, SCAN_LOOKS, sizeof(*rd->scan));
	if (rd->scan)
		rd->n_scan = procfs_pids_next(rd->scan_from, rd->scan, SCAN_LOOKS);
	if (!rd->n_scan) /* the end, or no memory: the others are read when they are sampled */
		rd->scan_from = procfs_pids_free(rd->scan_from);
	return rd->n_scan > 0;
}

/* A few at a time, so that a sampled process does not wait behind all others.  A process that only
 * its consent would allow is asked when it is sampled. */
static void scan_more(struct reader *rd)
{
	size_t looked = 0;

	while (rd->scans_in_flight < SCANS_IN_FLIGHT && looked++ < SCAN_LOOKS && has_more(rd)) {
		struct process *process = process_get(rd->c.processes, rd->scan[rd->scanned++]);

		if (!process || process->maps_state != PROCESS_MAPS_UNKNOWN ||
		    !scope_may_open(&rd->scope, process) ||
		    scope_of(&rd->scope, process) == PROCESS_LEFT_OUT)
			continue;
		process->scanned = true;
		rd->scans_in_flight++;
		if (rd->options.frames & FRAMES_USER &&
		    scope_of(&rd->scope, process) == PROCESS_WANTED) {
			request_maps(rd, process);
			continue;
		}
		process->names_asked = request(rd, LOAD_NAMES, process, 0);
		if (process->names_asked)
			continue;
		process->scanned = false;
		rd->scans_in_flight--;
	}
}

int reader_want_maps(struct reader *rd, struct process *process, uint64_t unknown)
{
	if (process->maps_state == PROCESS_MAPS_ASKED)
		return 0; /* the answer in flight suffices */
	if (unknown && !process->exited && rd->options.procmap_query &&
	    rd->queries_in_flight < QUERIES_IN_FLIGHT) {
		rd->queries_in_flight += request(rd, LOAD_QUERY, process, unknown);
		return 0; /* without an answer the first result stands */
	}
	if (!process->exited && process_wants_refresh(process, clock_ns(CLOCK_MONOTONIC))) {
		request_maps(rd, process);
		return 0;
	}
	return send_space(rd, process, true);
}

int reader_want_module(struct reader *rd, struct process *process, struct uw_module *module)
{
	scope_want_module(&rd->scope, process, module);
	return 0;
}

static void names_answer(struct reader *rd, struct process *process, struct load_answer *a)
{
	if (process->replaced)
		return;
	adopt_names(rd->c.processes, process, a);
	/* Reading a thousand names takes 20 ms: the mappings do not wait for that. */
	if (a->request.kind == LOAD_PROCESS && a->status.n_threads > LOAD_THREADS_AT_ONCE &&
	    !process->threads_asked)
		process->threads_asked = request(rd, LOAD_THREADS, process, 0);
}

static int threads_answer(struct load_answer *a)
{
	adopt_threads(a->request.process, a);
	a->request.process->threads_asked &= !is_shortage(a->error);
	(void)process_unref(a->request.process);
	return 0;
}

/* The mapping that one query found at an address outside of all known mappings. */
static int query_answer(struct reader *rd, struct load_answer *a)
{
	struct process *process = a->request.process;
	const struct load_mapping *m = &a->mapping;
	int r = 0;

	rd->queries_in_flight--;
	if (!a->error && !process->exited)
		r = process_mmap(rd->c.processes, process->pid, m->start, m->end - m->start,
				 m->offset, true, m->path, &m->id);
	if (r >= 0)
		r = send_space(rd, process, true);
	(void)process_unref(process);
	return r < 0 ? trace(r) : 0;
}

/* A process of the scan.  With a filter its names are read first, and its mappings only if it is
 * wanted. */
static void scan_answered(struct reader *rd, struct process *process)
{
	if (!process->scanned)
		return;
	process->scanned = false;
	rd->scans_in_flight--;
	if (rd->options.frames & FRAMES_USER && process->maps_state == PROCESS_MAPS_UNKNOWN &&
	    scope_of(&rd->scope, process) == PROCESS_WANTED)
		request_maps(rd, process);
	scan_more(rd);
}

static int attach_space(struct reader *rd, struct entry *e, struct process *process);

/* A stack that was read while its thread waits becomes a sample. */
static int stack_answer(struct reader *rd, const struct load_answer *a)
{
	struct entry e;
	int r = 0;

	if (wait_reader_answer(&rd->scope, &rd->copies, a, &e)) {
		r = attach_space(rd, &e, a->request.process);
		if (r >= 0)
			r = control_push(rd, &e);
		wake_unwinder(rd);
	}
	(void)process_unref(a->request.process);
	return r < 0 ? trace(r) : 0;
}

int reader_process_answer(struct reader *rd, struct load_answer *a)
{
	struct process *process = a->request.process;
	bool changed, undecided = scope_of(&rd->scope, process) == PROCESS_UNDECIDED;
	int r = 0;

	if (a->request.kind == LOAD_QUERY)
		return query_answer(rd, a);
	if (a->request.kind == LOAD_WAIT)
		return stack_answer(rd, a);
	if (a->request.kind == LOAD_THREADS)
		return threads_answer(a);
	if (!a->error || a->status.pid)
		names_answer(rd, process, a);
	if (a->memory && !process->memory && !process->replaced)
		process_set_memory(process, take(a->memory));
	scope_process_read(&rd->scope, process);
	if (scope_ask_consent(&rd->scope, process, a)) {
		scan_answered(rd, process); /* the mappings follow its answer */
		(void)process_unref(process);
		return 0;
	}
	if (a->request.kind == LOAD_PROCESS)
		process->unresponsive = a->error == -ETIMEDOUT || a->error == -EBUSY;
	if (a->request.kind == LOAD_PROCESS)
		r = process_maps_answer(rd->c.processes, process, a->maps, a->maps_len, a->error,
					clock_ns(CLOCK_MONOTONIC), &changed);
	if (r >= 0 && (a->request.kind == LOAD_PROCESS || undecided))
		r = send_space(rd, process, true);
	scan_answered(rd, process);
	(void)process_unref(process);
	return r < 0 ? trace(r) : 0;
}

/* ---- records that are not samples ---- */

/* A new process is in scope with its parent.  A pid that was in scope may be used again by another
 * process. */
static void follow(struct reader *rd, const struct record_event *e)
{
	if (rd->options.children && table_pointer(&rd->pids, e->task.ppid))
		(void)table_put(&rd->pids, e->pid, 1);
	else
		(void)table_remove(&rd->pids, e->pid);
}

static int leave(struct reader *rd, const struct record_event *e)
{
	int r = process_exit(rd->c.processes, e->pid, e->tid);
	const struct process *p = process_find(rd->c.processes, e->pid);

	if (rd->options.n_only_pids && p && p->exited)
		(void)table_remove(&rd->pids, e->pid);
	return r;
}

static bool has_pid(const struct reader *rd, uint32_t pid)
{
	uint64_t v;

	return !rd->options.n_only_pids || table_get(&rd->pids, pid, &v);
}

uint64_t *reader_cpu_count(struct reader *rd, uint32_t cpu)
{
	return &rd->counts.cpus[ring_of_cpu(rd->c.source, cpu)].count;
}

static int wait_record(struct reader *rd, uint32_t ring, const struct record_event *e)
{
	return has_pid(rd, e->pid) ? wait_reader_record(&rd->scope, ring, e) : 0;
}

void reader_ask_stacks(struct reader *rd, uint64_t before)
{
	wait_reader_ask(&rd->scope, before);
}

/* Of a process in a file no more is known than its records contain. */
static void settle_process(const struct reader *rd, struct process *process)
{
	if (!process || rd->c.source)
		return;
	process->maps_state = PROCESS_MAPS_KNOWN;
	process->maps_read_at = 1;
	process->names_asked = true;
}

static int lost_record(struct reader *rd, const struct record_item *item)
{
	uint64_t n = item->event.lost.count;

	if (item->from && item->from->sideband) {
		rd->c.account->lost_sideband_records += n;
		process_table_unsure(rd->c.processes);
		return 0;
	}
	rd->c.account->lost_records += n;
	rd->counts.cpus[item->ring].lost += n;
	return rd->c.lost(rd->c.arg, item->cpu, n, item->event.time);
}

static int apply_event(struct reader *rd, const struct record_item *item)
{
	struct process_table *processes = rd->c.processes;
	const struct record_event *e = &item->event;
	const uint32_t ring = item->ring;
	int r;

	switch (e->type) {
	case PERF_RECORD_FORK:
		if (e->pid != e->task.ppid)
			follow(rd, e);
		r = sideband_apply(processes, e);
		return r < 0 ? trace(r) : wait_record(rd, ring, e);
	case PERF_RECORD_COMM:
		r = sideband_apply(processes, e);
		return r < 0 ? trace(r) : wait_record(rd, ring, e);
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		return wait_record(rd, ring, e);
	case PERF_RECORD_EXIT:
		if (rd->c.source)
			perf_source_forget_task(rd->c.source, (pid_t)e->tid);
		if (rd->c.exited)
			rd->c.exited(rd->c.arg, e->pid, e->tid, e->time);
		r = rd->c.waits ? waits_exit(rd->c.waits, e->tid, e->time) : 0;
		return r < 0 ? trace(r) : leave(rd, e);
	case PERF_RECORD_LOST:
	case PERFWIND_RECORD_LOST_SAMPLES:
		return lost_record(rd, item);
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE:
		rd->c.account->throttled_ns +=
			cpu_count_throttle(&rd->counts.cpus[ring], e->throttle.on, e->time);
		return 0;
	case PERFWIND_RECORD_KSYMBOL:
		rd->c.ksymbol(rd->c.arg, e->ksymbol.start, e->ksymbol.len, e->ksymbol.name,
			      e->ksymbol.unregister);
		return 0;
	default:
		return sideband_apply(processes, e);
	}
}

static int take_event(struct reader *rd, const struct record_item *item)
{
	int r = apply_event(rd, item);

	if (!rd->c.source)
		settle_process(rd, process_find(rd->c.processes, item->event.pid));
	put_item(rd, item);
	return r < 0 ? trace(r) : 0;
}

/* ---- samples ---- */

/* More is held than waits for a wake-up: that much is no sign of a slow unwinder, and a copy costs as much as the unwinding. */
static bool fills_up(const struct ring *ring)
{
	return ring_held(ring) > ring_wake_most(ring_size(ring));
}

/* Copies the bytes of a sample out of a ring that fills up. */
static void copy_out(struct reader *rd, struct entry *e, const struct record_item *item)
{
	e->block = park_alloc(&rd->copies, (uintptr_t)e->info.process, entry_bytes(e));
	if (!e->block)
		return; /* it stays in the ring */
	entry_copy(e, e->block);
	copied_entry_put(rd->c.deep, rd->c.python, e);
	rd->c.account->copied++;
	put_item(rd, item);
}

static bool has_user_part(const struct reader *rd, const struct entry *e)
{
	uint32_t n;

	if (!(rd->options.frames & FRAMES_USER))
		return false;
	if (rd->options.by_callchain)
		return entry_chain_part(e, CHAIN_USER, &n) && n;
	return entry_has_user_copy(e);
}

/* Adds its weight to the count of its CPU. */
static void fill_entry(const struct reader *rd, struct entry *e, const struct record_item *item,
		       const struct record_sample *s, struct process *process)
{
	struct cpu_count *cpu = &rd->counts.cpus[item->ring];
	uint64_t time = cpu_count_add(cpu, s->period, s->time);

	entry_of_sample(s, rd->options.arch, e);
	e->info.time = item->from ? time : s->time; /* what is in a file stays */
	e->ring = item->ring;
	e->position = item->position;
	e->info.process = process;
	e->info.count = cpu->count;
	e->info.cpu = item->cpu;
	e->info.n_followers = (uint8_t)(s->n_counts > 1 ? s->n_counts - 1 : 0);
	for (uint32_t i = 1; i < s->n_counts && i < SAMPLE_MAX_COUNTS; i++)
		e->info.followers[i - 1] = s->counts[i];
}

/* The mappings to unwind with; NULL while they are being read (the sample will wait). */
static int attach_space(struct reader *rd, struct entry *e, struct process *process)
{
	int r;

	if (!e->user_state || (e->undecided && !scope_may_open(&rd->scope, process))) {
		if (e->undecided && !process->names_asked)
			process->names_asked = request(rd, LOAD_NAMES, process, 0);
		return 0;
	}
	if (process->maps_state == PROCESS_MAPS_UNKNOWN ||
	    (process->unsure && process->maps_state != PROCESS_MAPS_ASKED))
		request_maps(rd, process);
	else if (!process->names_asked)
		/* records gave the mappings; the command line and the memory are missing */
		process->names_asked = request(rd, LOAD_NAMES, process, 0);
	process->names_asked |= process->maps_state == PROCESS_MAPS_ASKED;
	if (process->maps_state == PROCESS_MAPS_ASKED && !process->maps_read_at)
		return 0;
	r = process_space(rd->c.processes, process, &e->info.space);
	if (r < 0)
		return trace(r);
	(void)uw_space_ref(e->info.space);
	return 0;
}

/* A sample that is counted but not written to the trace. */
static int count_only(struct reader *rd, const struct record_item *item, uint64_t *counter)
{
	(*counter)++;
	put_item(rd, item);
	return 0;
}

static int leave_out(struct reader *rd, const struct record_item *item, enum skip_reason why)
{
	rd->c.account->received++;
	return count_only(rd, item, &rd->c.account->skipped[why]);
}

/* A sample that is written to the trace without a stack. */
static int skip_sample(struct reader *rd, const struct record_item *item,
		       const struct record_sample *s, struct process *process, enum skip_reason why)
{
	struct account *account = rd->c.account;
	struct entry e;
	int r = 0;

	account->received++;
	account->skipped[why]++;
	if (rd->c.skipped) {
		fill_entry(rd, &e, item, s, process);
		r = rd->c.skipped(rd->c.arg, &e.info, why);
	}
	put_item(rd, item);
	return r < 0 ? trace(r) : 0;
}

enum { QUEUE_FULL = 1 };

/* Sends a sample to the unwinder as @e, a free slot.  @wait: sample_info.wait; @user: with its user part. */
static int send_sample(struct reader *rd, struct entry *e, const struct record_item *item,
		       const struct record_sample *s, struct process *process, uint32_t wait,
		       bool user)
{
	const struct perf_ring *ring = item->from;
	int r;

	rd->c.account->received++;
	rd->c.account->queued++;
	thin_sent(process);
	fill_entry(rd, e, item, s, process_ref(process));
	e->info.wait = wait;
	e->undecided = user && ring && scope_of(&rd->scope, process) == PROCESS_UNDECIDED;
	e->user_state = user && has_user_part(rd, e);
	e->check_chain = !rd->options.chains_unchecked;
	if (ring) {
		copied_entry_attach(rd->c.deep, rd->c.python, s, e);
		rd->c.account->deep += e->deep;
		rd->c.account->met_deep |= copied_entry_is_deep(s, e);
	}
	rd->scope.enqueued_bytes += e->info.stack_len;
	r = attach_space(rd, e, process);
	if (r < 0)
		return trace(r);
	if (ring && fills_up(ring->ring))
		copy_out(rd, e, item);
	return 0;
}

/* A sample of the task that woke a thread which waits: of any process.  One that is not recorded has kernel frames and a name. */
static int take_waker(struct reader *rd, const struct record_item *item, struct record_sample *s)
{
	struct process *process = process_get(rd->c.processes, s->pid);
	struct entry *e;
	bool user;

	if (!process)
		return fail(-ENOMEM);
	user = !scope_skips_process(&rd->scope, process);
	if (!wait_reader_wants_waker(&rd->scope, s)) {
		put_item(rd, item);
		return 0;
	}
	e = entry_push(rd);
	if (!e)
		return QUEUE_FULL;
	if (!process->names_asked && s->pid)
		process->names_asked = request(rd, LOAD_NAMES, process, 0);
	s->period = 0;
	return send_sample(rd, e, item, s, process, wait_reader_waker(&rd->scope, s), user);
}

/* Samples like this one that can be sent before the queue or the ring is full. */
static uint64_t room_for(const struct reader *rd, const struct record_item *item)
{
	uint64_t slots = rd->c.entries->mask + 1 - (rd->c.entries->filled - rd->reclaimed);

	return min_u64(slots, ring_room_for(item));
}

/* A sample of a ring that is not in scope, or is thinned, is put, and *ret_taken is false.  *weight: what it stands for. */
static int choose_sample(struct reader *rd, struct record_item *item, struct process *process,
			 uint64_t *weight, bool *ret_taken)
{
	struct record_sample *s = &item->sample;
	enum skip_reason why = scope_skips_sample(&rd->scope, process, s);

	*ret_taken = false;
	if (why) {
		thin_passed(&rd->thin, s->period);
		if (rd->scope.c.waits) /* the time is in the records of switches */
			s->period = 0;
		return skip_sample(rd, item, s, process, why);
	}
	if (!wait_reader_wants(&rd->scope, s, process))
		return leave_out(rd, item, SKIP_DOUBLE);
	process_share_set(&process->share, s->tid, item->cpu, s->time);
	if (!thin_keeps(&rd->thin, process, room_for(rd, item), weight))
		return leave_out(rd, item, SKIP_THINNED);
	*ret_taken = true;
	return 0;
}

static int take_sample(struct reader *rd, struct record_item *item)
{
	struct account *account = rd->c.account;
	struct record_sample *s = &item->sample;
	uint64_t weight = s->period;
	struct process *process;
	struct entry *e;
	uint32_t wait;
	bool taken = true;
	int r = 0;

	if (item->from && perf_source_is_waker(rd->c.source, s->id))
		return take_waker(rd, item, s);
	if (!s->pid)
		account->idle_weight += s->period;
	if (!s->pid && !rd->options.idle)
		return count_only(rd, item, &account->idle);
	if (!has_pid(rd, s->pid))
		return leave_out(rd, item, SKIP_NOT_IN_SCOPE);
	if (item->from && ring_has_double(rd->c.source, item))
		return leave_out(rd, item, SKIP_DOUBLE);
	process = process_get(rd->c.processes, s->pid);
	if (!process)
		return fail(-ENOMEM);
	settle_process(rd, process);
	if (item->from)
		r = choose_sample(rd, item, process, &weight, &taken);
	if (!taken)
		return r < 0 ? trace(r) : 0;
	e = entry_push(rd);
	if (!e) {
		thin_again(&rd->thin, process, weight);
		return QUEUE_FULL;
	}
	s->period = weight;
	s->period = wait_reader_weigh(&rd->scope, s, process, &wait);
	return send_sample(rd, e, item, s, process, wait, true);
}

/* ---- rounds ---- */

static int take_item(struct reader *rd, struct record_item *item)
{
	int r;

	if (item->kind == RECORD_EVENT)
		return take_event(rd, item);
	if (item->kind == RECORD_SAMPLE)
		return take_sample(rd, item);
	r = wait_reader_woken(&rd->scope, &item->from->layout, item->record);
	put_item(rd, item);
	return r < 0 ? trace(r) : 0;
}

static void copy_raw(const struct reader *rd, const struct record_item *item)
{
	if (rd->c.raw)
		rd->c.raw(rd->c.arg, item->from->sideband, item->record);
}

int reader_round(struct reader *rd, bool *ret_more)
{
	uint64_t now = clock_ns(rd->options.clock);
	int r;

	*ret_more = false;
	reader_reclaim(rd);
	/* Samples of 100 ms use a part of the queue: the same part each time, which is in the cache. */
	if (reader_idle(rd) && waker_claim(rd->c.unwinder)) {
		slot_queue_rewind(rd->c.entries);
		rd->reclaimed = 0;
		waker_return(rd->c.unwinder, false);
	}
	if (!rd->has_waiting) {
		rd->rounds++;
		r = rd->records.begin ? rd->records.begin(rd->records.arg, now) : 0;
		if (r < 0)
			return trace(r);
	}
	for (;;) {
		if (!rd->has_waiting) {
			r = rd->records.next(rd->records.arg, &rd->waiting);
			if (r < 0)
				return trace(r);
			if (r == RECORDS_DONE)
				break;
			copy_raw(rd, &rd->waiting);
			if (rd->waiting.ring >= rd->counts.n)
				r = cpu_counts_grow(&rd->counts, 2 * (size_t)rd->waiting.ring + 1);
			if (r < 0)
				return trace(r);
		}
		r = take_item(rd, &rd->waiting);
		rd->has_waiting = r == QUEUE_FULL;
		if (r < 0)
			return trace(r);
		if (rd->has_waiting) {
			*ret_more = true;
			break;
		}
	}
	if (rd->c.raw)
		rd->c.raw(rd->c.arg, false, NULL);
	if (rd->c.deep && !*ret_more)
		(void)deep_expire(rd->c.deep, now); /* a damaged ring: stacks without it */
	if (rd->c.python && !*ret_more)
		python_stacks_expire(rd->c.python, now);
	(void)slot_queue_publish(rd->c.entries);
	if (!rd->scans_in_flight)
		scan_more(rd);
	return 0;
}

void reader_thin(struct reader *rd, uint64_t allowed)
{
	thin_next(&rd->thin, allowed, rings_fill_up(rd->c.source));
}

/* thin.settle. */
static void write_owed(void *arg, struct process *process, uint64_t weight)
{
	struct reader *rd = arg;
	size_t ring = ring_of_cpu(rd->c.source, process->share.cpu);

	scope_write_owed(&rd->scope, &rd->counts.cpus[ring], process, weight);
}

struct thin *reader_weights(struct reader *rd)
{
	return &rd->thin;
}

uint64_t reader_rounds(const struct reader *rd)
{
	return rd->rounds;
}

void reader_release_all(struct reader *rd)
{
	merge_finish(perf_source_merge(rd->c.source));
}

uint64_t reader_lost(const struct reader *rd, size_t index)
{
	return rd->counts.cpus[index].lost;
}

void reader_end_throttles(struct reader *rd)
{
	uint64_t now = clock_ns(rd->options.clock);

	for (size_t i = 0; i < rd->counts.n; i++)
		rd->c.account->throttled_ns += cpu_count_throttle(&rd->counts.cpus[i], false, now);
}

void reader_trim(struct reader *rd)
{
	park_trim(&rd->copies);
}

static bool got_no_stack(enum skip_reason why)
{
	return why == SKIP_MAPS_TIMEOUT || why == SKIP_MODULE_TIMEOUT || why == SKIP_PARK_FULL ||
	       why == SKIP_NO_MEMORY;
}

void reader_answered(struct reader *rd, const struct sample_info *info, enum skip_reason skipped)
{
	rd->scope.enqueued_bytes -= info->stack_len;
	thin_back(info->process);
	/* (with waits the time is in the records of switches) */
	if (!got_no_stack(skipped) || rd->scope.c.waits)
		return;
	process_share_set(&info->process->share, info->tid, info->cpu, info->time);
	thin_return(&rd->thin, info->process, info->weight);
}

void reader_consent_counts(const struct reader *rd, struct reader_consent_counts *ret_counts)
{
	*ret_counts = rd->scope.counts;
}

int reader_consent_tick(struct reader *rd)
{
	return scope_tick(&rd->scope);
}

/* ---- life cycle ---- */

int reader_new(const struct reader_options *options, const struct reader_context *context,
	       struct reader **ret_reader)
{
	struct reader *rd = calloc(1, sizeof(*rd));
	int r;

	if (!rd)
		return fail(-ENOMEM);
	rd->options = *options;
	rd->c = *context;
	rd->scope = (struct scope){.options = *options,
				   .c = *context,
				   .send_space = send_space,
				   .read_given = read_given,
				   .reader = rd};
	thin_init(&rd->thin, write_owed, rd);
	if (!rd->options.arch)
		rd->options.arch = UW_ARCH_HOST;
	rd->n_rings = context->source ? perf_source_n_rings(context->source) : 0;
	rd->records = context->source ? ring_records(context->source) : context->records;
	r = cpu_counts_grow(&rd->counts, max_u64(rd->n_rings, 1));
	if (r >= 0 && context->source)
		r = park_init(&rd->copies, options->copy_bytes);
	for (size_t i = 0; i < options->n_only_pids && r >= 0; i++)
		r = table_put(&rd->pids, options->only_pids[i], 1);
	if (r < 0) {
		(void)reader_free(rd);
		return fail(r);
	}
	*ret_reader = rd;
	return 0;
}

/* Popped samples are answered: of popped slots only control entries hold references. */
static void drop_entries(struct reader *rd)
{
	struct slot_queue *entries = rd->c.entries;

	for (; rd->reclaimed != entries->filled; rd->reclaimed++) {
		const struct entry *e = slot_queue_at(entries, rd->reclaimed);

		if (rd->reclaimed >= slot_queue_consumed(entries) || e->kind == ENTRY_SPACE)
			reader_entry_drop(e);
	}
	for (size_t i = 0; i < rd->n_control; i++)
		reader_entry_drop(&rd->control[i]);
}

struct reader *reader_free(struct reader *rd)
{
	if (!rd)
		return NULL;
	scope_deinit(&rd->scope);
	thin_deinit(&rd->thin);
	drop_entries(rd);
	park_deinit(&rd->copies);
	table_deinit(&rd->pids);
	free(rd->control);
	free(rd->scan);
	(void)procfs_pids_free(rd->scan_from);
	cpu_counts_deinit(&rd->counts);
	free(rd);
	return NULL;
}
