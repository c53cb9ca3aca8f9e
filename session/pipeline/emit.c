/* emit.c - see emit.h.  Outcomes into packets; emit-stack.c and emit-frame.c find frame ids,
 * emit-late.c brings late names. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "session/pipeline/emit-private.h"

/* ---- samples ---- */

/* The unwinder sees that something is not there, and not why: where it was refused because it did not
 * answer, that is the reason. */
static enum uw_reason reason_of(const struct outcome *o)
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

/* A frame at the root side that says why the stack stops there. */
static int end_marker(struct emit *em, const struct outcome *o, uint32_t *ret_id)
{
	char name[64];
	int r;

	if (o->result == UW_CUT)
		(void)snprintf(name, sizeof(name), "[cut]");
	else
		(void)snprintf(name, sizeof(name), "[failed: %s]", uw_reason_name(reason_of(o)));
	r = writer_mapping(em->c.writer, "", NULL, 0, 0, 0, &em->end_mapping);
	if (r < 0)
		return trace(r);
	return writer_frame(em->c.writer, em->end_mapping,
			    o->result == UW_CUT ? 0 : 1ull + reason_of(o), name, ret_id);
}

/* Perfetto's StackUnwindError (facts: PerfSample) for an outcome. */
static uint32_t unwind_error(const struct outcome *o)
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
	return o->result == UW_CUT ? 2 : errors[reason_of(o)];
}

/* What waits for its name will hardly be without one; of JIT code that many never get one is known. */
static void settle_nameless(struct emit *em)
{
	for (size_t i = 0; i < em->n_nameless; i++) {
		struct emit_module *m = em->modules[em->nameless[i].module];

		if (emit_names_to_come(m) && uw_module_kind(m->module) != UW_MODULE_JIT)
			m->nameless_samples -= em->nameless[i].samples;
	}
	em->n_nameless = 0;
}

static void forget_ids(struct emit *em)
{
	em->generation = writer_generation(em->c.writer);
	memset(em->cache, 0, CACHE_SLOTS * sizeof(*em->cache));
	memset(em->named, 0, NAMED_SLOTS * sizeof(*em->named)); /* of names and modules by index */
	settle_nameless(em);
	emit_recent_forget(em);
	em->has_unknown_mapping = false;
	for (size_t i = 0; i < em->n_modules; i++) {
		em->modules[i]->has_mapping = false;
		table_clear(&em->modules[i]->frames);
	}
}

void emit_check_ids(struct emit *em)
{
	if (em->generation != writer_generation(em->c.writer))
		forget_ids(em);
}

static void module_free(struct emit_module *m)
{
	(void)uw_module_unref(m->module);
	table_deinit(&m->frames);
	free(m->unnamed.items);
	free(m->unlined.items);
	free(m);
}

/* Those with nameless frames are told of at the end. */
void emit_forget_modules(struct emit *em)
{
	size_t n = em->n_modules;

	forget_ids(em);
	table_clear(&em->by_serial);
	em->n_modules = em->n_unlined = 0;
	for (size_t i = 0; i < n; i++) {
		struct emit_module *m = em->modules[i];

		m->unlined.n = m->unlined_asked = m->unlined_due = 0;
		if (!m->nameless_samples || em->n_modules >= MAX_MODULES / 4 ||
		    table_put(&em->by_serial, uw_module_serial(m->module), em->n_modules + 1) < 0) {
			module_free(m);
			continue;
		}
		m->index = (uint32_t)em->n_modules;
		em->modules[em->n_modules++] = m;
	}
}

static int stack_of(struct emit *em, const struct outcome *o, uint32_t *ret_callstack)
{
	size_t n;
	int r;

	emit_check_ids(em);
	if (em->n_modules >= MAX_MODULES)
		emit_forget_modules(em);
	r = emit_stack_ids(em, o, &n);
	if (r < 0)
		return trace(r);
	if (o->result != UW_WHOLE) {
		r = end_marker(em, o, &em->ids[n++]);
		if (r < 0)
			return trace(r);
	}
	return writer_callstack(em->c.writer, em->ids, n, ret_callstack);
}

/* ---- names ----
 * A reader gives a sample to the life and the names that stand last before it.  Samples that were
 * parked come after later ones: of the life before an exec, or from before a rename.  So what the
 * trace says last is compared with what the sample needs, each time. */

/* The number of @p's life in the trace.  A process that was evicted and came back goes on with its
 * own. */
static uint64_t life_of(struct emit *em, struct process *p)
{
	uint64_t last;

	if (!p->life)
		p->life =
			!p->begun && table_get(&em->life_by_pid, p->pid, &last) ? last : p->serial;
	return p->life;
}

static bool is_announced(const struct emit *em, const struct process_thread *thread, uint64_t time)
{
	return thread->announced == em->telling &&
	       !memcmp(thread->announced_as, process_thread_comm_at(thread, time),
		       sizeof(thread->announced_as));
}

static void set_announced(const struct emit *em, struct process_thread *thread, const char *comm)
{
	memcpy(thread->announced_as, comm, sizeof(thread->announced_as));
	thread->announced = em->telling;
}

static uint64_t told_at(const struct emit *em, uint64_t sample_time)
{
	return em->c.past ? sample_time : clock_ns(CLOCK_BOOTTIME);
}

static int announce_process(struct emit *em, struct process *p, uint64_t time)
{
	struct process_thread *first = process_thread_get(p, p->pid);
	const char *comm = first ? process_thread_comm_at(first, time) : "";
	const struct writer_process process = {
		.pid = p->pid,
		.ppid = p->ppid,
		.uid = p->uid,
		.life = life_of(em, p),
		.comm = comm,
		.cmdline = p->cmdline,
		.cmdline_len = p->cmdline_len,
		.cgroup = p->cgroup,
		.kernel_thread = p->kernel_thread,
	};
	int r = writer_process(em->c.writer, &process, told_at(em, time));

	if (r < 0)
		return trace(r);
	if (em->life_by_pid.n_used >= MAX_LIVES)
		table_clear(&em->life_by_pid);
	r = table_put(&em->life_by_pid, p->pid, process.life);
	if (r < 0)
		return trace(r);
	p->announced = em->telling;
	if (first)
		set_announced(em, first, comm);
	return 0;
}

static int announce(struct emit *em, const struct sample_info *info)
{
	struct process *p = info->process;
	struct process_thread *thread = process_thread_get(p, info->tid);
	bool told = !thread || is_announced(em, thread, info->time);
	const char *comm;
	uint64_t last;
	int r = 0;

	if (p->announced != em->telling || (!told && info->tid == p->pid) ||
	    !table_get(&em->life_by_pid, p->pid, &last) || last != life_of(em, p))
		r = announce_process(em, p, info->time);
	if (r < 0 || told || info->tid == p->pid)
		return r < 0 ? trace(r) : 0;
	comm = process_thread_comm_at(thread, info->time);
	r = writer_thread(em->c.writer, p->pid, info->tid, comm, told_at(em, info->time));
	if (r < 0)
		return trace(r);
	set_announced(em, thread, comm);
	return 0;
}

void emit_tell_again(struct emit *em)
{
	em->telling++;
}

static void count_outcome(struct account *a, const struct outcome *o)
{
	a->emitted++;
	a->whole += o->result == UW_WHOLE;
	a->completed += o->completed;
	a->cut += o->result == UW_CUT;
	if (o->result == UW_FAILED)
		a->failed[reason_of(o)]++;
	a->frames += o->n_kernel + o->n_user;
	for (uint32_t i = o->n_kernel; i < o->n_kernel + o->n_user; i++)
		a->guessed_frames += !!(o->frames[i] & UW_FRAME_GUESSED);
	if (o->info.pid)
		a->weight += o->info.weight;
}

/* SampleSkipReason (facts: PerfSample): 1 read stage, 2 unwind stage, 3 enqueue, 4 not in scope. */
static uint32_t skip_number(enum skip_reason reason)
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

/* What the sink has lost, readers have to be told again. */
static int renew(struct emit *em)
{
	int r = writer_renew(em->c.writer);

	if (r == WRITER_RENEWED)
		emit_tell_again(em);
	return r < 0 ? trace(r) : 0;
}

static int write_sample(struct emit *em, const struct outcome *o)
{
	const struct sample_info *info = &o->info;
	struct writer_sample sample = {
		.time = info->time,
		.cpu = info->cpu,
		.pid = info->pid,
		.tid = info->tid,
		.cpu_mode = info->cpu_mode,
		.count = info->count,
		.follower_counts = info->followers,
		.n_follower_counts = info->n_followers,
	};
	int r = renew(em);

	if (r < 0)
		return trace(r);
	/* That its time went to some process is told, and not to which program. */
	r = o->skipped == SKIP_NOT_ALLOWED ? 0 : announce(em, info);
	if (r < 0)
		return trace(r);
	em->n_samples++;
	if (o->skipped) {
		sample.skipped_reason = skip_number(o->skipped);
	} else {
		r = stack_of(em, o, &sample.callstack);
		if (r < 0)
			return trace(r);
		sample.unwind_error = unwind_error(o);
	}
	return writer_sample(em->c.writer, &sample);
}

int emit_outcome(struct emit *em, const struct outcome *o)
{
	struct account *account = em->c.account;
	int r = write_sample(em, o);

	account->answered++;
	if (r < 0)
		account->skipped[SKIP_OUTPUT]++;
	else if (o->skipped)
		account->skipped[o->skipped]++;
	else
		count_outcome(account, o);
	(void)uw_space_unref(o->info.space);
	(void)process_unref(o->info.process);
	return r < 0 ? trace(r) : 0;
}

int emit_left_out(struct emit *em, const struct sample_info *info, enum skip_reason why)
{
	const struct outcome o = {.kind = OUTCOME_SAMPLE, .skipped = (uint8_t)why, .info = *info};

	return write_sample(em, &o);
}

int emit_new(const struct emit_context *context, struct emit **ret_emit)
{
	struct emit *em = calloc(1, sizeof(*em));

	if (!em)
		return fail(-ENOMEM);
	em->c = *context;
	em->telling = 1;
	em->generation = writer_generation(context->writer);
	em->started_at = clock_ns(CLOCK_MONOTONIC);
	em->cache = calloc(CACHE_SLOTS, sizeof(*em->cache));
	em->named = calloc(NAMED_SLOTS, sizeof(*em->named));
	if (!em->cache || !em->named || emit_recent_new(em) < 0) {
		(void)emit_free(em);
		return fail(-ENOMEM);
	}
	*ret_emit = em;
	return 0;
}

void emit_set_kallsyms(struct emit *em, struct uw_kallsyms *kallsyms)
{
	em->c.kallsyms = kallsyms;
}

struct emit *emit_free(struct emit *em)
{
	if (!em)
		return NULL;
	for (size_t i = 0; i < em->n_modules; i++)
		module_free(em->modules[i]);
	free(em->modules);
	table_deinit(&em->by_serial);
	free(em->nameless);
	free(em->recent);
	table_deinit(&em->life_by_pid);
	free(em->cache);
	free(em->named);
	free(em);
	return NULL;
}
