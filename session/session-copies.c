/* session-copies.c - how much of each stack is copied.  Thread: main.
 *
 * The kernel's copies get their size while the session runs (pipeline/adapt.h, perf_source_set_stack_bytes()): each outcome has
 * the bytes of its copy that were needed.  The rest of deeper stacks, and frames of interpreters, are copied at the sample
 * (perf/at-sample.h), or read soon after it. */
#include <errno.h>
#include <time.h>

#include "base/error.h"
#include "base/go-layout.h"
#include "proc/process.h"
#include "session/session-private.h"
#include "symbols/image.h"

struct deep *session_deep(const struct session *s)
{
	return s->options.at_sample ? s->options.at_sample->deep : NULL;
}

struct python_stacks *session_python(const struct session *s)
{
	return s->options.at_sample ? s->options.at_sample->python : NULL;
}

enum { SOON_MS = 300, NAMES_MS = 20 };

/* The unwinder hands each outcome over at once for a while. */
static void hurry(struct session *s, bool on)
{
	unwind_stage_hurry(s->unwinder, on || s->n_soon || s->names_until);
}

/* A function was in a sample for the first time: its name is read before it may be freed. */
static int names_ready(struct loop_source *source, uint32_t events)
{
	struct session *s = container_of(source, struct session_ring, source)->session;

	s->names_until = clock_ns(CLOCK_MONOTONIC) + NAMES_MS * NSEC_PER_MSEC;
	hurry(s, true);
	return session_ring_ready(source, events);
}

/* Once per wake-up that the program asked for: records stay in the ring meanwhile. */
static int join(struct session *s, int fd, int (*ready)(struct loop_source *, uint32_t))
{
	bool joined = fd < 0;

	for (size_t i = 0; i < s->n_rings; i++)
		joined |= s->rings[i].source.fd == fd;
	return joined ? 0
		      : trace(loop_add(s->loop, &s->rings[s->n_rings++].source, fd,
				       EPOLLIN | EPOLLET, ready));
}

int session_deep_join(struct session *s)
{
	int r = join(s, session_deep(s) ? deep_fd(session_deep(s)) : -1, session_ring_ready);

	/* A service chose its pace. */
	if (r >= 0 && session_python(s) && !s->options.producer)
		r = join(s, python_stacks_fd(session_python(s)), names_ready);
	return r;
}

static int program_ready(struct loop_source *source, uint32_t events)
{
	struct session *s = container_of(source, struct session, program);
	int fd = source->fd, r;

	(void)events;
	/* Before the answer, which may close the descriptor: a helper that is being forked has a copy of it until it begins, and
	 * epoll would go on to report that. */
	loop_remove(s->loop, source);
	r = at_sample_answer(s->options.at_sample);
	if (r == AT_SAMPLE_WAITS)
		return trace(loop_add(s->loop, source, fd, EPOLLIN, program_ready));
	if (r != 0)
		return 0;
	if (s->early_ticks > SESSION_EARLY_TICKS && session_python(s) &&
	    python_stacks_run(session_python(s)))
		s->early_ticks = SESSION_EARLY_TICKS;
	if (s->eager_until)
		s->eager_until = 1; /* over */
	r = session_deep_join(s);
	session_want_program(s, 0);
	return r;
}

void session_want_program(struct session *s, uint32_t parts)
{
	int fd = s->options.at_sample && s->state == SESSION_RUNNING
			 ? at_sample_want(s->options.at_sample, parts)
			 : -1;

	if (fd >= 0)
		(void)loop_add(s->loop, &s->program, fd, EPOLLIN, program_ready);
}

/* At the start, and when a size has changed. */
static void begin(struct session *s)
{
	const struct perf_options *o = perf_source_options(s->source);
	uint32_t least = o->stack_bytes;

	if (s->options.at_sample)
		at_sample_set_clock(s->options.at_sample, s->options.clock);
	if (!session_deep(s))
		return;
	for (size_t i = 0; i < o->n_cpus; i++) {
		uint32_t bytes = perf_source_stack_bytes(s->source, o->cpus[i]);

		least = i ? (uint32_t)min_u64(least, bytes) : bytes;
	}
	deep_set_room(session_deep(s), least);
	deep_set_rate(session_deep(s), perf_sample_rate(o));
}

/* ---- the size of the kernel's copies ---- */

/* A guess for a stack that went on beyond its copy and was not completed. */
enum { CUT_TIMES = 4 };

bool session_may_choose_copies(const struct session_options *so)
{
	return !so->stack_bytes && !so->waits && !so->poll_ms && !so->raw;
}

static int make(struct session *s)
{
	const struct perf_options *o = perf_source_options(s->source);

	begin(s);
	if (!session_may_choose_copies(&s->options) || !o->stack_bytes || (o->tasks && !o->sizes))
		return 0;
	s->adapt = calloc(o->n_cpus, sizeof(*s->adapt));
	if (!s->adapt)
		return fail(-ENOMEM);
	s->n_adapt = o->n_cpus;
	for (size_t i = 0; i < s->n_adapt; i++)
		s->adapt[i] = (struct adapt){
			.bytes = o->stack_bytes,
			.stride = o->tasks ? 2 : 1,
		};
	return 0;
}

static uint64_t bytes_needed(const struct session *s, const struct outcome *o)
{
	uint64_t full = o->info.full_copy;

	/* The others have no count of used bytes. */
	if (s->options.engine != UW_ENGINE_NATIVE)
		return full ? CUT_TIMES * full : o->info.stack_len;
	/* (A larger copy ends at the same absent page.) */
	if (full && o->stack_used <= full && !o->other_stack && o->result == UW_CUT &&
	    o->reason != UW_TOO_DEEP && !o->page_absent)
		return CUT_TIMES * full;
	return o->stack_used;
}

static void count(struct session *s, const struct outcome *o)
{
	const struct perf_options *options;
	size_t i = 0;

	if (!s->n_adapt || o->skipped || !o->info.stack_len || o->info.wait)
		return;
	options = perf_source_options(s->source);
	while (i < s->n_adapt && options->cpus[i] != o->info.cpu)
		i++;
	if (i < s->n_adapt)
		(void)adapt_count(&s->adapt[i], bytes_needed(s, o));
}

void session_adapt_save(struct session *s, bool on)
{
	for (size_t i = 0; i < s->n_adapt; i++)
		adapt_save(&s->adapt[i], on);
}

/* The events change where another size was chosen. */
static void change_sizes(struct session *s)
{
	const struct perf_options *o = perf_source_options(s->source);
	bool changed = perf_source_settle(s->source);

	for (size_t i = 0; i < s->n_adapt && s->state == SESSION_RUNNING; i++) {
		uint32_t before = perf_source_stack_bytes(s->source, o->cpus[i]);
		uint32_t after = s->adapt[i].bytes;
		int r;

		if (after == before)
			continue;
		r = perf_source_set_stack_bytes(s->source, o->cpus[i], after);
		if (r == -EAGAIN)
			continue;
		if (r < 0) {
			s->adapt[i].bytes = before;
			continue;
		}
		log_verbose("cpu %u: stack copies of %u bytes (were %u)", o->cpus[i], after,
			    before);
		changed = true;
	}
	if (changed)
		begin(s);
}

/* ---- stacks that go on beyond them ---- */

/* While stacks go on beyond their copies and the program's, the rings are read as soon as a sample
 * is there, and where that is not possible as soon as one may be there: the thread has moved less then. */
enum { EAGER_READ_US = 250, EAGER_MS = 200 };

bool session_may_read_soon(const struct session_options *so)
{
	bool copied = so->at_sample && so->at_sample->deep;

	return so->engine == UW_ENGINE_NATIVE && so->n_specs == 1 && !copied && !so->waits &&
	       !so->poll_ms && !so->raw;
}

/* Each sample of @cpu wakes main for a while. */
static bool wake_at_samples(struct session *s, uint32_t cpu)
{
	const struct perf_options *o = perf_source_options(s->source);
	size_t i = 0;

	while (i < o->n_cpus && o->cpus[i] != cpu)
		i++;
	if (!s->soon_until)
		s->soon_until = calloc(o->n_cpus, sizeof(*s->soon_until));
	if (!s->soon_until || i == o->n_cpus || perf_source_read_soon(s->source, cpu, true) < 0)
		return false;
	if (!s->soon_until[i])
		log_verbose(
			"cpu %u: stacks are deeper than their copies: each sample is read at once",
			cpu);
	s->n_soon += !s->soon_until[i];
	hurry(s, true);
	s->soon_until[i] = clock_ns(CLOCK_MONOTONIC) + SOON_MS * NSEC_PER_MSEC;
	return true;
}

static void end_soon(struct session *s, uint64_t now)
{
	const struct perf_options *o = perf_source_options(s->source);

	for (size_t i = 0; i < o->n_cpus && s->n_soon; i++) {
		if (!s->soon_until[i] || now < s->soon_until[i])
			continue;
		s->soon_until[i] = 0;
		s->n_soon--;
		(void)perf_source_read_soon(s->source, o->cpus[i], false);
		hurry(s, false);
	}
	if (s->names_until && now >= s->names_until) {
		s->names_until = 0;
		hurry(s, false);
	}
}

static void read_soon(struct session *s, uint32_t cpu)
{
	if (s->state != SESSION_RUNNING || wake_at_samples(s, cpu))
		return;
	if (!s->eager_until)
		log_verbose("stacks are deeper than their copies: the rings are read each %d us",
			    EAGER_READ_US);
	if (!s->eager_until)
		(void)loop_timer_set(&s->tick, EAGER_READ_US * 1000, EAGER_READ_US * 1000);
	s->eager_until = clock_ns(CLOCK_MONOTONIC) + EAGER_MS * NSEC_PER_MSEC;
}

/* The work of a tick is due, not just the rings. */
static bool is_due(struct session *s, uint64_t now)
{
	end_soon(s, now);
	if (!s->eager_until)
		return true;
	if (now > s->eager_until) {
		s->eager_until = 0;
		if (s->state == SESSION_RUNNING)
			(void)loop_timer_set(&s->tick, session_read_ns(s), session_read_ns(s));
	}
	if (now < s->tick_due)
		return false;
	s->tick_due = now + session_read_ns(s);
	return true;
}

/* A smaller copy is made larger (change_sizes()) where more than a few stacks go on beyond it; a wake-up a sample costs more
 * than any copy.  The largest copies have fewer bytes than were requested: a record has 65,535 at most. */
static bool reads_soon(const struct session *s, uint32_t cpu)
{
	const struct perf_options *o = perf_source_options(s->source);

	return !s->budget.saving &&
	       (!o->tasks || perf_source_stack_bytes(s->source, cpu) >= o->stack_bytes);
}

static void add_script(struct python_stacks *stacks, uint32_t pid, const struct uw_script *s,
		       bool php)
{
	uint32_t ruby = PYTHON_IS_RUBY | s->offsets.frame_bytes |
			(s->offsets.sizes ? (uint32_t)PYTHON_HAS_SIZES : 0);

	python_stacks_add(stacks, pid,
			  &(struct python_threads){
				  .kind = php ? (uint32_t)PYTHON_IS_PHP : ruby,
				  .interpreter = s->current,
				  .threads = s->thread,
				  .next = php ? s->offsets.len & 0xfff8 : s->next_thread,
				  .native = php ? s->offsets.filename : s->native,
				  .context = s->context,
				  .through = s->through,
				  .frame = s->innermost,
			  });
}

/* From now on the samples of @process have the stack of GHC's code (unwinder/native-stg.c). */
static void add_stg(struct python_stacks *stacks, struct process *process)
{
	if (process->has_stg)
		return;
	process->has_stg = true;
	python_stacks_add(stacks, process->pid, &(struct python_threads){.kind = PYTHON_IS_STG});
}

/* The same of a goroutine's stack where its thread is on its own (unwinder/native-go.c). */
static void add_go(struct python_stacks *stacks, struct process *process)
{
	if (process->has_go || process->language)
		return;
	process->has_go = true;
	/* m.procid proves the layout. */
	python_stacks_add(stacks, process->pid,
			  &(struct python_threads){.kind = PYTHON_IS_GO,
						   .native = GO_G_M,
						   .threads = GO_M_PROCID,
						   .next = GO_M_CURG,
						   .frame = GO_G_SP});
}

/* From now on the samples of process @pid have the frames of its interpreter; @module is the loaded one. */
static void add_frames(struct python_stacks *stacks, uint32_t pid, const struct uw_module *module)
{
	const struct uw_image *image = uw_module_image(module);
	const struct uw_python *py = image ? &image->python : NULL;
	const struct uw_script *script = image ? &image->script : NULL;

	if (stacks && script && script->version && script->current)
		add_script(stacks, pid, script, uw_module_language(module) == UW_LANGUAGE_PHP);
	if (stacks && py && py->version && py->threads.interpreter)
		python_stacks_add(stacks, pid,
				  &(struct python_threads){
					  .kind = py->version & 0xff,
					  .interpreter = py->threads.interpreter,
					  .threads = py->threads.threads,
					  .next = py->threads.next,
					  .native = py->threads.native,
					  .frame = py->threads.frame,
					  .code_type = py->code_type,
				  });
}

/* The stacks of GHC's code and of goroutines are in the heap, and no copy has them but the program's. */
static void learn_heap_stack(struct session *s, const struct outcome *o)
{
	struct process *process = (o->stg || o->other_stack) && session_python(s)
					  ? process_find(s->processes, o->info.pid)
					  : NULL;

	if (!process || process->has_stg || process->has_go)
		return;
	if (o->stg)
		add_stg(session_python(s), process);
	else
		add_go(session_python(s), process);
	session_want_program(s, AT_SAMPLE_PYTHON);
}

/* Does the program copy a stack like that of the next sample? */
static bool is_copied(const struct session *s, const struct outcome *o)
{
	bool ends = o->result != UW_CUT || o->reason == UW_TOO_DEEP;

	return session_deep(s) &&
	       deep_copies(session_deep(s),
			   ends ? o->stack_used : o->info.stack_len + (uint64_t)DEEP_PAGE);
}

static bool copies_heap_stacks(const struct session *s)
{
	return session_python(s) && python_stacks_run(session_python(s));
}

/* How much of its stack the thread of a sample needs. */
static int learn(struct session *s, const struct outcome *o)
{
	bool cut = !o->other_stack && o->result == UW_CUT && o->reason != UW_TOO_DEEP;
	bool beyond = o->stack_used > o->info.full_copy || cut;
	/* The program's copy had not all of it, either. */
	bool incomplete = o->stack_used > o->info.stack_len || cut;

	if (o->other_stack && !s->budget.saving && !copies_heap_stacks(s))
		read_soon(s, o->info.cpu);
	else if (o->info.full_copy && incomplete && !is_copied(s, o) && reads_soon(s, o->info.cpu))
		read_soon(s, o->info.cpu);
	learn_heap_stack(s, o);
	/* The next one may need more than any copy holds. */
	if (o->info.full_copy && (beyond || o->stack_used > ADAPT_MAX / 2))
		session_want_program(s, AT_SAMPLE_DEEP);
	if (session_deep(s) && o->info.full_copy && !o->skipped && o->info.space)
		deep_learn(session_deep(s), o->info.tid, o->stack_used, o->info.full_copy,
			   o->result == UW_WHOLE || o->reason == UW_TOO_DEEP || o->other_stack);
	count(s, o);
	return 0;
}

/* Looks for the perf map of compiled code before the first frame of it: without one its functions are named as interpreted ones. */
static void ask_compiled(struct session *s, const struct load_request *of)
{
	struct process *process = process_find(s->processes, of->pid);
	struct load_request request = {.kind = LOAD_SYMBOLS, .pid = of->pid, .owner = of->owner};

	if (!process || !process->jit || !uw_module_want_symbols(process->jit))
		return;
	request.module = uw_module_ref(process->jit);
	if (!loader_ask(s->loader, &request))
		(void)uw_module_unref(process->jit);
}

void session_script_answer(struct session *s, const struct load_answer *a)
{
	if (a->request.kind != LOAD_UNWIND || !uw_module_language(a->request.module))
		return;
	if (uw_module_language(a->request.module) == UW_LANGUAGE_JS)
		ask_compiled(s, &a->request);
	/* No program copies V8's objects. */
	if (session_python(s) && uw_module_language(a->request.module) != UW_LANGUAGE_JS) {
		add_frames(session_python(s), a->request.pid, a->request.module);
		session_want_program(s, AT_SAMPLE_PYTHON);
		if (python_stacks_run(session_python(s)))
			return;
	}
	/* The sooner frames are read after their sample, the fewer are those of other calls.  The pace of a service is
	 * left to it. */
	if (s->options.producer) {
		s->never_calm = true;
		return;
	}
	s->early_ticks = UINT32_MAX;
	(void)loop_timer_set(&s->tick, session_read_ns(s), session_read_ns(s));
}

static int tick(struct session *s, uint64_t now)
{
	if (!is_due(s, now))
		return SESSION_TICK_ENDS;
	change_sizes(s);
	return 0;
}

const struct session_part session_copies = {.make = make, .outcome = learn, .tick = tick};
