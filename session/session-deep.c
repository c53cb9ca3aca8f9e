/* session-deep.c - stacks beyond the kernel's copies, frames of interpreters: the session's side of perf/at-sample.h.
 * Thread: main. */
#include <time.h>

#include "base/error.h"
#include "session/pipeline/python-entry.h"
#include "session/session-private.h"

struct deep *session_deep(const struct session *s)
{
	return s->options.at_sample ? s->options.at_sample->deep : NULL;
}

struct python_stacks *session_python(const struct session *s)
{
	return s->options.at_sample ? s->options.at_sample->python : NULL;
}

int session_deep_join(struct session *s)
{
	int fd = session_deep(s) ? deep_fd(session_deep(s)) : -1;

	/* once per wake-up that the program asked for: records stay in it meanwhile */
	return fd < 0 ? 0
		      : loop_add(s->loop, &s->rings[s->n_rings++].source, fd, EPOLLIN | EPOLLET,
				 session_ring_ready);
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
	if (s->early_ticks > SESSION_EARLY_TICKS)
		s->early_ticks = SESSION_EARLY_TICKS;
	return session_deep_join(s);
}

void session_want_program(struct session *s)
{
	int fd = s->options.at_sample && s->state == SESSION_RUNNING
			 ? at_sample_want(s->options.at_sample)
			 : -1;

	if (fd >= 0)
		(void)loop_add(s->loop, &s->program, fd, EPOLLIN, program_ready);
}

void session_deep_begin(struct session *s)
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
}

/* While stacks end beyond their copies, which no program copies, the rings are read as soon as a sample
 * is there, and where that is not possible as soon as one may be there: the thread has moved less then. */
enum { EAGER_READ_US = 250, EAGER_MS = 200, SOON_MS = 300 };

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
	s->n_soon += !s->soon_until[i];
	unwind_stage_hurry(s->unwinder, true);
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
		unwind_stage_hurry(s->unwinder, s->n_soon > 0);
	}
}

static void read_soon(struct session *s, uint32_t cpu)
{
	if (s->state != SESSION_RUNNING || wake_at_samples(s, cpu))
		return;
	if (!s->eager_until)
		(void)loop_timer_set(&s->tick, EAGER_READ_US * 1000, EAGER_READ_US * 1000);
	s->eager_until = clock_ns(CLOCK_MONOTONIC) + EAGER_MS * NSEC_PER_MSEC;
}

bool session_deep_tick(struct session *s, uint64_t now)
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

/* A smaller copy is made larger (session-adapt.c) where more than a few stacks go on beyond it; a wake-up a sample costs more
 * than any copy. */
static bool reads_soon(const struct session *s, uint32_t copy)
{
	const struct perf_options *o = perf_source_options(s->source);

	return !s->budget.saving && (!o->tasks || copy >= o->stack_bytes);
}

/* The stack of GHC's code is in the heap, and no copy has it but the program's. */
static void learn_stg(struct session *s, const struct outcome *o)
{
	struct process *process =
		o->stg && session_python(s) ? process_find(s->processes, o->info.pid) : NULL;

	if (!process || process->has_stg)
		return;
	python_entry_add_stg(session_python(s), process);
	session_want_program(s);
}

void session_deep_learn(struct session *s, const struct outcome *o)
{
	bool beyond = o->stack_used > o->info.full_copy ||
		      (o->result == UW_CUT && o->reason != UW_TOO_DEEP);

	if (o->info.full_copy && beyond && o->info.stack_len == o->info.full_copy &&
	    reads_soon(s, o->info.full_copy))
		read_soon(s, o->info.cpu);
	learn_stg(s, o);
	/* The next one may need more than any copy holds. */
	if (o->info.full_copy && (beyond || o->stack_used > ADAPT_MAX / 2))
		session_want_program(s);
	if (session_deep(s) && o->info.full_copy && !o->skipped && o->info.space)
		deep_learn(session_deep(s), o->info.tid, o->stack_used, o->info.full_copy,
			   o->result == UW_WHOLE || o->reason == UW_TOO_DEEP);
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
		python_entry_add(session_python(s), a->request.pid, a->request.module);
		session_want_program(s);
		if (python_stacks_run(session_python(s)))
			return;
	}
	/* The sooner frames are read after their sample, the fewer are those of other calls.  A service chose its pace. */
	if (s->options.producer)
		return;
	s->early_ticks = UINT32_MAX;
	(void)loop_timer_set(&s->tick, session_read_ns(s), session_read_ns(s));
}
