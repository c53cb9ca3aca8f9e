/* reader-control.c - entries that are not samples, and what is asked of the loader about processes.
 * Thread: main.
 *
 * A control entry that finds the queue full waits here, in order, and nothing overtakes it: samples
 * wait too. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "session/pipeline/reader-private.h"

enum { SCANS_IN_FLIGHT = 8, SCAN_LOOKS = 64, QUERIES_IN_FLIGHT = 64 };

/* ---- entries ---- */

/* A slot that the unwinder has popped still tells us what to give back: it is not written over before
 * that is done. */
static struct entry *free_slot(struct reader *rd)
{
	const struct slot_queue *q = rd->c.entries;

	if (q->filled - rd->reclaimed > q->mask)
		reader_take_back(rd);
	return q->filled - rd->reclaimed > q->mask ? NULL : slot_queue_push(rd->c.entries);
}

struct entry *reader_entry_push(struct reader *rd)
{
	return rd->n_control ? NULL : free_slot(rd);
}

static int control_push(struct reader *rd, const struct entry *control)
{
	struct entry *e = reader_entry_push(rd);

	if (e) {
		*e = *control;
		return 0;
	}
	if (rd->n_control == rd->control_room) {
		size_t room = rd->control_room ? rd->control_room * 2 : 64;
		struct entry *more = reallocarray(rd->control, room, sizeof(*more));

		if (!more)
			return fail(-ENOMEM);
		rd->control = more;
		rd->control_room = room;
	}
	rd->control[rd->n_control++] = *control;
	return 0;
}

void reader_control_retry(struct reader *rd)
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

void reader_wake_unwinder(struct reader *rd)
{
	if (slot_queue_publish(rd->c.entries))
		waker_wake(rd->c.unwinder);
}

static int control_send(struct reader *rd, const struct entry *e)
{
	int r = control_push(rd, e);

	if (r < 0)
		reader_entry_drop(e);
	reader_wake_unwinder(rd);
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

/* "The mappings are known" (not @known: "they will not come"): the entry holds the references until
 * its slot is popped. */
static int tell_space(struct reader *rd, struct process *process, bool known)
{
	struct entry e = {.kind = ENTRY_SPACE};
	int r = known ? process_space(rd->c.processes, process, &e.info.space) : 0;

	if (r < 0)
		return trace(r);
	if (known)
		(void)uw_space_ref(e.info.space);
	e.info.process = process_ref(process);
	e.left_out = (uint8_t)reader_left_out(rd, process);
	e.undecided = !e.left_out && reader_scope_of(rd, process) == PROCESS_UNDECIDED;
	return control_send(rd, &e);
}

int reader_space_push(struct reader *rd, struct process *process)
{
	return tell_space(rd, process, true);
}

int reader_no_space(struct reader *rd, struct process *process)
{
	return tell_space(rd, process, false);
}

/* ---- processes ---- */

bool reader_ask(struct reader *rd, enum load_kind kind, struct process *process, uint64_t address)
{
	struct load_request request = {
		.kind = kind,
		.pid = process->pid,
		.process = process_ref(process),
		.vaddr = address,
		.closed = !reader_may_open(rd, process),
	};

	if (kind == LOAD_PROCESS || kind == LOAD_QUERY)
		request.given = load_given_new(process->given_maps);
	if (loader_ask(rd->c.loader, &request))
		return true;
	load_request_deinit(&request);
	(void)process_unref(process);
	return false;
}

void reader_ask_maps(struct reader *rd, struct process *process)
{
	process_maps_asked(process, clock_ns(CLOCK_MONOTONIC));
	(void)reader_ask(rd, LOAD_PROCESS, process, 0);
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

/* Is there one to look at?  Those behind the list are read a list at a time. */
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
	if (!rd->n_scan) /* these were all, or there is no memory: they are asked for when sampled */
		rd->scan_from = procfs_pids_free(rd->scan_from);
	return rd->n_scan > 0;
}

/* A few at a time: a process that is sampled does not wait behind all the others.  Whom only their
 * consent would allow are asked when they are sampled. */
void reader_scan_more(struct reader *rd)
{
	size_t looked = 0;

	while (rd->scans_in_flight < SCANS_IN_FLIGHT && looked++ < SCAN_LOOKS && has_more(rd)) {
		struct process *process = process_get(rd->c.processes, rd->scan[rd->scanned++]);

		if (!process || process->maps_state != PROCESS_MAPS_UNKNOWN ||
		    !reader_may_open(rd, process) ||
		    reader_scope_of(rd, process) == PROCESS_LEFT_OUT)
			continue;
		process->scanned = true;
		rd->scans_in_flight++;
		if (rd->options.user_frames && reader_scope_of(rd, process) == PROCESS_WANTED) {
			reader_ask_maps(rd, process);
			continue;
		}
		process->names_asked = reader_ask(rd, LOAD_NAMES, process, 0);
		if (process->names_asked)
			continue;
		process->scanned = false;
		rd->scans_in_flight--;
	}
}

int reader_want_maps(struct reader *rd, struct process *process, uint64_t unknown)
{
	if (process->maps_state == PROCESS_MAPS_ASKED)
		return 0; /* the answer that is on its way will do */
	if (unknown && !process->exited && rd->options.procmap_query &&
	    rd->queries_in_flight < QUERIES_IN_FLIGHT) {
		rd->queries_in_flight += reader_ask(rd, LOAD_QUERY, process, unknown);
		return 0; /* unanswered: what was found first stands */
	}
	if (!process->exited && process_wants_refresh(process, clock_ns(CLOCK_MONOTONIC))) {
		reader_ask_maps(rd, process);
		return 0;
	}
	return reader_space_push(rd, process);
}

int reader_want_module(struct reader *rd, struct process *process, struct uw_module *module)
{
	struct load_request request = loader_module_request(process, module);

	(void)uw_module_ref(module);
	if (!loader_ask(rd->c.loader, &request)) {
		load_request_deinit(&request);
		(void)uw_module_unref(
			module); /* the samples that wait for it time out, and are counted */
	}
	return 0;
}

static void adopt_threads(struct process *process, const struct load_answer *a)
{
	for (size_t i = 0; i < a->n_threads && !process->replaced; i++) {
		struct process_thread *thread = process_thread_get(process, a->threads[i].tid);

		if (thread && !thread->told)
			memcpy(thread->comm, a->threads[i].comm, sizeof(thread->comm));
	}
}

static void adopt_names(struct reader *rd, struct process *process, struct load_answer *a)
{
	const struct procfs_status *status = &a->status;
	struct process_thread *main_thread = process_thread_get(process, process->pid);

	/* What was read after an exec is the next life's command line, even when its record has not
	 * come by. */
	bool same = !main_thread || !main_thread->told || !strcmp(main_thread->comm, status->comm);

	if (process->replaced)
		return;
	if (same && a->cmdline && a->cmdline_len) {
		process_set_cmdline(process, take(a->cmdline), a->cmdline_len);
		process->announced = 0;
	}
	process_set_cgroup(process, take(a->cgroup));
	process->ppid = process->ppid ? process->ppid : status->ppid;
	process->uid = status->uid;
	process->owner = status->owner;
	process_set_ns_pid(rd->c.processes, process, status->ns_pid);
	process->kernel_thread = status->kernel_thread;
	if (main_thread && !main_thread->comm[0])
		memcpy(main_thread->comm, status->comm, sizeof(main_thread->comm));
	adopt_threads(process, a);
	/* A thousand names take 20 ms to read: the mappings do not wait for them. */
	if (a->request.kind == LOAD_PROCESS && status->n_threads > LOAD_THREADS_AT_ONCE &&
	    !process->threads_asked)
		process->threads_asked = reader_ask(rd, LOAD_THREADS, process, 0);
}

static int threads_answer(struct load_answer *a)
{
	adopt_threads(a->request.process, a);
	(void)process_unref(a->request.process);
	return 0;
}

/* What one query found at an address that no mapping covered. */
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
		r = reader_space_push(rd, process);
	(void)process_unref(process);
	return r < 0 ? trace(r) : 0;
}

/* A process of the scan: with a filter its name comes first, and its mappings only if it is wanted.
 */
static void scan_answered(struct reader *rd, struct process *process)
{
	if (!process->scanned)
		return;
	process->scanned = false;
	rd->scans_in_flight--;
	if (rd->options.user_frames && process->maps_state == PROCESS_MAPS_UNKNOWN &&
	    reader_scope_of(rd, process) == PROCESS_WANTED)
		reader_ask_maps(rd, process);
	reader_scan_more(rd);
}

int reader_process_answer(struct reader *rd, struct load_answer *a)
{
	struct process *process = a->request.process;
	bool changed, undecided = reader_scope_of(rd, process) == PROCESS_UNDECIDED;
	int r = 0;

	if (a->request.kind == LOAD_QUERY)
		return query_answer(rd, a);
	if (a->request.kind == LOAD_THREADS)
		return threads_answer(a);
	if (!a->error || a->status.pid)
		adopt_names(rd, process, a);
	if (a->memory && !process->memory && !process->replaced)
		process_set_memory(process, take(a->memory));
	reader_scope_answered(rd, process);
	if (reader_consent(rd, process, a)) {
		scan_answered(rd, process); /* the mappings come when it has answered */
		(void)process_unref(process);
		return 0;
	}
	if (a->request.kind == LOAD_PROCESS)
		process->unresponsive = a->error == -ETIMEDOUT || a->error == -EBUSY;
	if (a->request.kind == LOAD_PROCESS)
		r = process_maps_answer(rd->c.processes, process, a->maps, a->maps_len, a->error,
					clock_ns(CLOCK_MONOTONIC), &changed);
	if (r >= 0 && (a->request.kind == LOAD_PROCESS || undecided))
		r = reader_space_push(rd, process);
	scan_answered(rd, process);
	(void)process_unref(process);
	return r < 0 ? trace(r) : 0;
}
