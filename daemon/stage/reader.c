/* reader.c - see reader.h.
 *
 * Giving back: entries are popped by the unwinder in order; main walks the popped slots and hands each record
 * to merge_put(), which moves a ring's tail over what is back without a gap.  When a ring is more than a
 * quarter held, new samples are copied into main's park and their records go back at once, so that a slow
 * moment of the unwinder does not stop the kernel.
 *
 * An entry holds a reference on its process and its space; the outcome that answers it gives them back. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "daemon/base/error.h"
#include "daemon/stage/reader.h"

enum { SCANS_IN_FLIGHT = 8, QUERIES_IN_FLIGHT = 64 };

struct cpu_state {
	uint64_t count;        /* running sum of weights */
	uint64_t throttled_at; /* 0: not throttled */
	struct reader_stack_use use;
};

struct reader {
	struct reader_options options;
	struct reader_context c;
	struct merge *merge;
	struct park copies;
	struct cpu_state *cpus; /* by ring */
	size_t n_rings;
	uint64_t reclaimed;     /* position in the entry queue */
	struct merge_item waiting; /* taken from the merge, not yet placed: the queue was full */
	bool has_waiting;
	struct table scope;     /* pid -> 1, when only_pids */
	uint32_t *scan;         /* processes that were there before us, to be asked for in order */
	size_t n_scan, scanned, scans_in_flight, queries_in_flight;
	struct entry *control;  /* control entries that found the queue full */
	size_t n_control, control_room;
};

/* ---- entries ---- */

static struct entry *entry_push(struct reader *rd)
{
	return rd->n_control ? NULL : slot_queue_push(rd->c.entries);
}

static int control_push(struct reader *rd, const struct entry *control)
{
	struct entry *e = entry_push(rd);

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

static void control_retry(struct reader *rd)
{
	size_t n = 0;

	while (n < rd->n_control) {
		struct entry *e = slot_queue_push(rd->c.entries);

		if (!e)
			break;
		*e = rd->control[n++];
	}
	memmove(rd->control, rd->control + n, (rd->n_control - n) * sizeof(*rd->control));
	rd->n_control -= n;
}

static void wake_unwinder(struct reader *rd)
{
	slot_queue_publish(rd->c.entries);
	waker_wake(rd->c.unwinder);
}

int reader_control(struct reader *rd, enum entry_kind kind, struct uw_module *module)
{
	int r = control_push(rd, &(struct entry){.kind = (uint8_t)kind, .module = module});

	wake_unwinder(rd);
	return r;
}

/* "The mappings are known": the entry holds the references until its slot is popped. */
static int space_push(struct reader *rd, struct process *process)
{
	struct entry e = {.kind = ENTRY_SPACE};
	int r = process_space(rd->c.processes, process, &e.info.space);

	if (r < 0)
		return trace(r);
	(void)uw_space_ref(e.info.space);
	e.info.process = process_ref(process);
	r = control_push(rd, &e);
	wake_unwinder(rd);
	return r;
}

static size_t sample_bytes(const struct entry *e)
{
	size_t regs = UW_ARCH_HOST == UW_ARCH_AARCH64 ? (size_t)UW_ARM64_COUNT : (size_t)UW_X86_COUNT;

	return (e->regs ? regs * sizeof(uint64_t) : 0) + e->n_chain * sizeof(uint64_t) + e->info.stack_len;
}

static void entry_done(struct reader *rd, struct entry *e)
{
	if (e->kind == ENTRY_SPACE) {
		(void)uw_space_unref(e->info.space);
		(void)process_unref(e->info.process);
	}
	if (e->kind != ENTRY_SAMPLE)
		return;
	if (e->block)
		park_free(&rd->copies, e->block, sample_bytes(e));
	else
		merge_put(rd->merge, e->ring, e->position);
}

void reader_reclaim(struct reader *rd)
{
	uint64_t consumed = slot_queue_consumed(rd->c.entries);

	for (; rd->reclaimed != consumed; rd->reclaimed++)
		entry_done(rd, slot_queue_at(rd->c.entries, rd->reclaimed));
	if (rd->n_control) {
		control_retry(rd);
		wake_unwinder(rd);
	}
}

bool reader_idle(const struct reader *rd)
{
	return !rd->has_waiting && !rd->n_control && rd->reclaimed == rd->c.entries->filled;
}

/* ---- processes ---- */

static void ask(struct reader *rd, enum load_kind kind, struct process *process, uint64_t address)
{
	struct load_request request = {
		.kind = kind,
		.pid = process->pid,
		.process = process_ref(process),
		.vaddr = address,
	};

	if (!loader_ask(rd->c.loader, &request))
		(void)process_unref(process);
}

static void ask_maps(struct reader *rd, struct process *process)
{
	process_maps_asked(process, clock_ns(CLOCK_MONOTONIC));
	ask(rd, LOAD_PROCESS, process, 0);
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

/* A few at a time: a process that is sampled does not wait behind all the others. */
static void scan_more(struct reader *rd)
{
	while (rd->scanned < rd->n_scan && rd->scans_in_flight < SCANS_IN_FLIGHT) {
		struct process *process = process_get(rd->c.processes, rd->scan[rd->scanned++]);

		if (!process || process->maps_state != PROCESS_MAPS_UNKNOWN)
			continue;
		process->scanned = true;
		rd->scans_in_flight++;
		ask_maps(rd, process);
	}
}

int reader_want_maps(struct reader *rd, struct process *process, uint64_t unknown)
{
	if (process->maps_state == PROCESS_MAPS_ASKED)
		return 0; /* the answer that is on its way will do */
	if (unknown && !process->exited && rd->options.procmap_query && rd->queries_in_flight < QUERIES_IN_FLIGHT) {
		rd->queries_in_flight++;
		ask(rd, LOAD_QUERY, process, unknown);
		return 0;
	}
	if (!process->exited && process_wants_refresh(process, clock_ns(CLOCK_MONOTONIC))) {
		ask_maps(rd, process);
		return 0;
	}
	return space_push(rd, process);
}

int reader_want_module(struct reader *rd, struct process *process, struct uw_module *module)
{
	struct load_request request = {.kind = LOAD_UNWIND, .pid = process->pid, .module = module};
	struct process_mapping mapping;

	if (process_mapping_of(process, module, &mapping)) {
		request.start = mapping.start;
		request.end = mapping.end;
		request.offset = mapping.offset;
		request.id = mapping.id;
	}
	(void)uw_module_ref(module);
	if (!loader_ask(rd->c.loader, &request))
		(void)uw_module_unref(module); /* the samples that wait for it time out, and are counted */
	return 0;
}

static void adopt_names(struct reader *rd, struct process *process, const struct load_answer *a)
{
	const struct procfs_status *status = &a->status;
	struct process_thread *main_thread = process_thread_get(process, process->pid);

	process->ppid = process->ppid ? process->ppid : status->ppid;
	process->uid = status->uid;
	process_set_ns_pid(rd->c.processes, process, status->ns_pid);
	process->kernel_thread = status->kernel_thread;
	if (main_thread && !main_thread->comm[0])
		memcpy(main_thread->comm, status->comm, sizeof(main_thread->comm));
	for (size_t i = 0; i < a->n_threads; i++) {
		struct process_thread *thread = process_thread_get(process, a->threads[i].tid);

		if (thread && !thread->told)
			memcpy(thread->comm, a->threads[i].comm, sizeof(thread->comm));
	}
}

/* What one query found at an address that no mapping covered. */
static int query_answer(struct reader *rd, struct load_answer *a)
{
	struct process *process = a->request.process;
	const struct load_mapping *m = &a->mapping;
	int r = 0;

	rd->queries_in_flight--;
	if (!a->error && !process->exited)
		r = process_mmap(rd->c.processes, process->pid, m->start, m->end - m->start, m->offset, true, m->path,
				 &m->id);
	if (r >= 0)
		r = space_push(rd, process);
	(void)process_unref(process);
	return r < 0 ? trace(r) : 0;
}

int reader_process_answer(struct reader *rd, struct load_answer *a)
{
	struct process *process = a->request.process;
	bool changed;
	int r = 0;

	if (a->request.kind == LOAD_QUERY)
		return query_answer(rd, a);
	if (!a->error || a->status.pid)
		adopt_names(rd, process, a);
	if (a->cmdline && a->cmdline_len) {
		process_set_cmdline(process, take(a->cmdline), a->cmdline_len);
		process->announced = false;
	}
	if (a->memory && !process->memory)
		process_set_memory(process, take(a->memory));
	if (a->request.kind == LOAD_PROCESS) {
		r = process_maps_answer(rd->c.processes, process, a->maps, a->maps_len, a->error,
					clock_ns(CLOCK_MONOTONIC), &changed);
		if (r >= 0)
			r = space_push(rd, process);
	}
	if (a->request.kind == LOAD_PROCESS && process->scanned) {
		process->scanned = false;
		rd->scans_in_flight--;
		scan_more(rd);
	}
	(void)process_unref(process);
	return r < 0 ? trace(r) : 0;
}

/* ---- side-band ---- */

static int apply_mmap(struct reader *rd, const struct record_event *e)
{
	struct uw_file_id id = {
		.major = e->mmap.major,
		.minor = e->mmap.minor,
		.inode = e->mmap.inode,
		.generation = e->mmap.generation,
	};
	/* PERF_RECORD_MMAP has no protection word: MISC_MMAP_DATA tells data from code. */
	bool exec = e->type == PERF_RECORD_MMAP2 ? e->mmap.prot & 4 : !(e->misc & PERF_RECORD_MISC_MMAP_DATA);

	if (e->mmap.build_id_len) {
		id = (struct uw_file_id){.build_id.len = e->mmap.build_id_len};
		memcpy(id.build_id.bytes, e->mmap.build_id, sizeof(id.build_id.bytes));
	}
	if (e->pid == UINT32_MAX) /* the kernel's own text */
		return 0;
	return process_mmap(rd->c.processes, e->pid, e->mmap.start, e->mmap.len, e->mmap.offset, exec,
			    e->mmap.path, &id);
}

static void throttle(struct reader *rd, uint32_t ring, const struct record_event *e)
{
	struct cpu_state *cpu = &rd->cpus[ring];

	if (e->throttle.on) {
		cpu->throttled_at = e->time;
	} else if (cpu->throttled_at) {
		rd->c.account->throttled_ns += e->time > cpu->throttled_at ? e->time - cpu->throttled_at : 0;
		cpu->throttled_at = 0;
	}
}

static int apply(struct reader *rd, uint32_t ring, bool sideband, const struct record_event *e)
{
	struct process_table *processes = rd->c.processes;

	switch (e->type) {
	case PERF_RECORD_COMM:
		return process_comm(processes, e->pid, e->tid, e->comm.name, e->comm.exec);
	case PERF_RECORD_FORK:
		if (rd->options.children && e->pid != e->task.ppid && table_pointer(&rd->scope, e->task.ppid))
			(void)table_put(&rd->scope, e->pid, 1);
		return process_fork(processes, e->pid, e->task.ppid, e->tid, e->task.ptid);
	case PERF_RECORD_EXIT:
		return process_exit(processes, e->pid, e->tid);
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		return apply_mmap(rd, e);
	case PERF_RECORD_LOST:
	case PERFWIND_RECORD_LOST_SAMPLES:
		if (sideband) {
			rd->c.account->lost_sideband_records += e->lost.count;
			process_table_unsure(processes);
		} else {
			rd->c.account->lost_records += e->lost.count;
			rd->c.lost(rd->c.arg, perf_source_ring(rd->c.source, ring)->cpu, e->lost.count, e->time);
		}
		return 0;
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE:
		throttle(rd, ring, e);
		return 0;
	case PERFWIND_RECORD_KSYMBOL:
		rd->c.ksymbol(rd->c.arg, e->ksymbol.start, e->ksymbol.len, e->ksymbol.name, e->ksymbol.unregister);
		return 0;
	default:
		return 0;
	}
}

/* ---- samples ---- */

static bool in_scope(const struct reader *rd, uint32_t pid)
{
	uint64_t v;

	return !rd->options.n_only_pids || table_get(&rd->scope, pid, &v);
}

static enum uw_arch arch_of(const struct record_sample *s)
{
	return s->regs_abi == PERF_SAMPLE_REGS_ABI_64 ? UW_ARCH_HOST : UW_ARCH_NONE;
}

/* Copies the sample's bytes out of a ring that runs full. */
static void copy_out(struct reader *rd, struct entry *e, const struct merge_item *item)
{
	size_t regs = sample_bytes(e) - e->n_chain * sizeof(uint64_t) - e->info.stack_len;
	uint8_t *block = park_alloc(&rd->copies, sample_bytes(e));

	if (!block)
		return; /* stays in the ring */
	e->block = block;
	if (regs)
		e->regs = memcpy(block, e->regs, regs);
	block += regs;
	if (e->n_chain)
		e->chain = memcpy(block, e->chain, e->n_chain * sizeof(uint64_t));
	block += e->n_chain * sizeof(uint64_t);
	if (e->info.stack_len)
		e->stack = memcpy(block, e->stack, e->info.stack_len);
	rd->c.account->copied++;
	merge_put(rd->merge, item->ring, item->position);
}

/* Kernel threads and exiting tasks have no user part.  Nor has a task inside execve(), between the end of the old
 * image and the start of the new: its registers are the old program's, its stack is no more (nothing of it could
 * be copied).  Such a stack is whole with its kernel frames. */
static bool has_user_part(const struct reader *rd, const struct record_sample *s)
{
	if (!rd->options.user_frames)
		return false;
	if (rd->options.by_callchain)
		return s->n_chain > 0;
	return s->regs_abi != 0 && (s->stack_len > 0 || s->cpu_mode == PERF_RECORD_MISC_USER);
}

static void fill_entry(struct reader *rd, struct entry *e, const struct merge_item *item,
		       const struct record_sample *s, struct process *process)
{
	struct cpu_state *cpu = &rd->cpus[item->ring];

	*e = (struct entry){
		.kind = ENTRY_SAMPLE,
		.user_state = has_user_part(rd, s),
		.stack_full = s->stack_len == s->stack_room,
		.arch = (uint8_t)arch_of(s),
		.ring = item->ring,
		.position = item->position,
		.regs = s->regs_abi ? s->regs : NULL,
		.stack = s->stack,
		.chain = s->chain,
		.n_chain = (uint32_t)s->n_chain,
		.info = {
			.process = process_ref(process),
			.time = s->time,
			.weight = s->period,
			.count = cpu->count,
			.pid = s->pid,
			.tid = s->tid,
			.cpu = perf_source_ring(rd->c.source, item->ring)->cpu,
			.stack_len = s->stack_len,
			.cpu_mode = s->cpu_mode,
			.n_followers = (uint8_t)(s->n_counts > 1 ? s->n_counts - 1 : 0),
		},
	};
	for (uint32_t i = 1; i < s->n_counts && i < SAMPLE_MAX_COUNTS; i++)
		e->info.followers[i - 1] = s->counts[i];
	cpu->use.samples += s->stack_room != 0;
	cpu->use.full += s->stack_room && e->stack_full;
	cpu->use.over_half += s->stack_len > s->stack_room / 2;
}

/* The mappings to unwind with; NULL while they are on their way (the sample will wait). */
static int attach_space(struct reader *rd, struct entry *e, struct process *process)
{
	int r;

	if (!e->user_state)
		return 0;
	if (process->maps_state == PROCESS_MAPS_UNKNOWN || (process->unsure && process->maps_state != PROCESS_MAPS_ASKED))
		ask_maps(rd, process);
	else if (!process->names_asked)
		ask(rd, LOAD_NAMES, process, 0); /* its records told the mappings; the command line and memory are asked for */
	process->names_asked = true;
	if (process->maps_state == PROCESS_MAPS_ASKED && !process->maps_read_at)
		return 0;
	r = process_space(rd->c.processes, process, &e->info.space);
	if (r < 0)
		return trace(r);
	(void)uw_space_ref(e->info.space);
	return 0;
}

/* A count of something that is not sampled into the trace. */
static int leave_out(struct reader *rd, const struct merge_item *item, uint64_t *counter)
{
	(*counter)++;
	merge_put(rd->merge, item->ring, item->position);
	return 0;
}

enum { QUEUE_FULL = 1 };

static int take_sample(struct reader *rd, const struct merge_item *item)
{
	const struct perf_ring *ring = perf_source_ring(rd->c.source, item->ring);
	struct account *account = rd->c.account;
	struct record_sample s;
	struct process *process;
	struct entry *e;
	int r;

	r = record_parse_sample(&ring->layout, item->record, &s);
	if (r < 0)
		return trace(r);
	if (!s.pid && !rd->options.idle)
		return leave_out(rd, item, &account->idle);
	if (!in_scope(rd, s.pid)) {
		account->received++;
		return leave_out(rd, item, &account->skipped[SKIP_NOT_IN_SCOPE]);
	}
	if (perf_source_is_double(rd->c.source, item->ring, s.id, s.time)) {
		account->received++;
		return leave_out(rd, item, &account->skipped[SKIP_DOUBLE]);
	}
	e = entry_push(rd);
	if (!e)
		return QUEUE_FULL;
	process = process_get(rd->c.processes, s.pid);
	if (!process)
		return fail(-ENOMEM);
	account->received++;
	account->queued++;
	rd->cpus[item->ring].count += s.period;
	fill_entry(rd, e, item, &s, process);
	r = attach_space(rd, e, process);
	if (r < 0)
		return trace(r);
	if (ring_held(ring->ring) > ring_size(ring->ring) / 4)
		copy_out(rd, e, item);
	return 0;
}

static int take_event(struct reader *rd, const struct merge_item *item)
{
	const struct perf_ring *ring = perf_source_ring(rd->c.source, item->ring);
	struct record_event event;
	int r = record_parse_event(&ring->layout, item->record, &event);

	if (r == RECORD_UNKNOWN) {
		rd->c.account->unknown_records++;
		r = 0;
	} else if (r == 0) {
		r = apply(rd, item->ring, ring->sideband, &event);
	}
	merge_put(rd->merge, item->ring, item->position);
	return r < 0 ? trace(r) : 0;
}

static int take_item(struct reader *rd, const struct merge_item *item)
{
	return item->record->type == PERF_RECORD_SAMPLE ? take_sample(rd, item) : take_event(rd, item);
}

static uint64_t events_now(void *arg)
{
	const struct reader *rd = arg;

	return clock_ns(rd->options.clock);
}

int reader_round(struct reader *rd, bool *ret_more)
{
	uint64_t until;
	int r;

	*ret_more = false;
	reader_reclaim(rd);
	if (!rd->has_waiting) {
		r = merge_begin(rd->merge, events_now, rd, &until);
		if (r < 0)
			return trace(r);
	}
	for (;;) {
		if (!rd->has_waiting) {
			r = merge_next(rd->merge, &rd->waiting);
			if (r < 0)
				return trace(r);
			if (r == MERGE_DONE)
				break;
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
	wake_unwinder(rd);
	if (!rd->scans_in_flight)
		scan_more(rd);
	return 0;
}

void reader_let_all_go(struct reader *rd)
{
	merge_finish(rd->merge);
}

size_t reader_stack_use(struct reader *rd, struct reader_stack_use *ret, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < rd->n_rings && n < max; i++) {
		const struct perf_ring *ring = perf_source_ring(rd->c.source, i);

		if (ring->sideband)
			continue;
		ret[n] = rd->cpus[i].use;
		ret[n++].cpu = ring->cpu;
		rd->cpus[i].use = (struct reader_stack_use){0};
	}
	return n;
}

int reader_new(const struct reader_options *options, const struct reader_context *context, struct reader **ret_reader)
{
	struct reader *rd = calloc(1, sizeof(*rd));
	int r;

	if (!rd)
		return fail(-ENOMEM);
	rd->options = *options;
	rd->c = *context;
	rd->merge = perf_source_merge(context->source);
	rd->n_rings = perf_source_n_rings(context->source);
	rd->cpus = calloc(rd->n_rings ? rd->n_rings : 1, sizeof(*rd->cpus));
	r = rd->cpus ? park_init(&rd->copies, options->copy_bytes) : -ENOMEM;
	for (size_t i = 0; i < options->n_only_pids && r >= 0; i++)
		r = table_put(&rd->scope, options->only_pids[i], 1);
	if (r < 0) {
		(void)reader_free(rd);
		return fail(r);
	}
	*ret_reader = rd;
	return 0;
}

struct reader *reader_free(struct reader *rd)
{
	if (!rd)
		return NULL;
	park_deinit(&rd->copies);
	table_deinit(&rd->scope);
	free(rd->control);
	free(rd->scan);
	free(rd->cpus);
	free(rd);
	return NULL;
}
