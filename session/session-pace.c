/* session-pace.c - how often the rings are read.  Thread: main.
 *
 * A wake-up brings the code and tables of the pipeline back into the caches, which costs as much as 20 to 50 samples.  So while
 * nothing depends on it the rings are read each SESSION_CALM_MS, or when they reach their watermark, and the ticks in between look
 * only at the heads of the rings:
 *
 *   tick       100   200   300   400   500   600   700 ms
 *   calm        -     -     -     -   read    -     -
 *   a fork      -   read  read  read  read  read  read      for CALM_AFTER_MS
 *
 * Records of processes and mappings, requests, and stacks that memory is read for do not wait.
 *
 * While the targets sleep there is no timer:
 *
 *   AWAKE ── no sample for IDLE_MS ──► LISTENING ── none for LISTEN_MS ──► ASLEEP
 *     ▲            timer              watch on, timer │                      │ watch on, no timer
 *     └───────────────── a sample ───────────────────┴──── any wake-up ─────┘
 *
 * While the tasks are watched (perf/source.h) a task that runs wakes main.  The timer goes on for a while after the watch is
 * on, so that a sample from before it is read.  The owner's timers are its own: options.asleep() reports the change.
 *
 * Sessions of whole CPUs have samples of the idle task all the time, and those with waits look at sleeping threads:
 * they keep the timer. */
#include <poll.h>
#include <time.h>

#include "session/session-private.h"
#include "symbols/module.h"

enum { CALM_AFTER_MS = 1000 };

bool session_has_records(const struct session *s, bool sideband)
{
	for (size_t i = 0; i < perf_source_n_rings(s->source); i++) {
		const struct perf_ring *ring = perf_source_ring(s->source, i);

		if (ring->sideband == sideband && ring_backlog(ring->ring))
			return true;
	}
	return false;
}

void session_pace_answer(struct session *s, const struct load_answer *a)
{
	const struct uw_module *module = a->request.module;

	/* Their code and frames are read from the process when a stack is unwound. */
	if (a->request.kind == LOAD_UNWIND && !a->request.process &&
	    (uw_module_is_vm(module) || uw_module_has_jit_cfi(module) ||
	     uw_module_kind(module) == UW_MODULE_JIT))
		s->never_calm = true;
}

/* The rings of the events wake main in time, but the program's has no watermark. */
static bool python_has_room(const struct session *s)
{
	const struct perf_options *o = perf_source_options(s->source);
	uint64_t tick = o->frequency ? (uint64_t)o->frequency * o->n_cpus * SESSION_TICK_MS / 1000
				     : SIZE_MAX;

	return !session_python(s) || python_stacks_room(session_python(s)) == SIZE_MAX ||
	       python_stacks_room(session_python(s)) > tick;
}

/* Is there something that depends on the next reading? */
static bool is_urgent(const struct session *s)
{
	return s->early_ticks || s->eager_until || s->n_soon || s->names_until || s->hold.since ||
	       s->flushes.n || account_in_flight(&s->account) || loader_pending(s->loader);
}

bool session_is_calm(struct session *s, uint64_t now)
{
	const struct session_options *so = &s->options;

	/* With allowed() a process is judged by what it is when its samples are read. */
	if (s->state != SESSION_RUNNING || s->never_calm || so->read_ms || so->waits || s->marks ||
	    so->raw || so->max_cpu_ppm || so->poll_ms || so->allowed)
		return false;
	if (session_has_records(s, true))
		s->urgent_at = now;
	return !is_urgent(s) && python_has_room(s) &&
	       now - s->urgent_at >= CALM_AFTER_MS * NSEC_PER_MSEC &&
	       now - s->worked_at < (SESSION_CALM_MS - SESSION_TICK_MS / 2) * NSEC_PER_MSEC;
}

enum { IDLE_MS = 300, LISTEN_MS = 90 };

/* Has there been nothing to do since the last tick? */
static bool is_quiet(struct session *s)
{
	uint64_t received = s->account.received;
	bool quiet = received == s->idle.received && !account_in_flight(&s->account) &&
		     !loader_pending(s->loader) && !s->flushes.n && !s->hold.since &&
		     !s->eager_until && !s->n_soon && !session_has_records(s, false);

	s->idle.received = received;
	return quiet;
}

static int end_ready(struct loop_source *source, uint32_t events)
{
	struct session_ring *end = container_of(source, struct session_ring, source);

	(void)events;
	session_wake_up(end->session); /* the owner looks for targets at its own pace */
	return 0;
}

static bool has_ended(int fd)
{
	struct pollfd pfd = {.fd = fd};

	return poll(&pfd, 1, 0) > 0 && pfd.revents & POLLHUP;
}

/* The end of a task may take too little CPU time for a wake-up by the watch. */
static void listen_for_ends(struct session *s)
{
	size_t n = perf_source_n_tasks(s->source);

	s->idle.ends = calloc(n, sizeof(*s->idle.ends));
	for (; s->idle.ends && s->idle.n_ends < n; s->idle.n_ends++) {
		struct session_ring *end = &s->idle.ends[s->idle.n_ends];
		int fd = perf_source_task_fd(s->source, s->idle.n_ends);

		*end = (struct session_ring){.source.fd = -1, .session = s};
		/* A poll of the event consumes a wake-up of its ring: EPOLLIN is one. */
		if (fd >= 0 && !has_ended(fd))
			(void)loop_add(s->loop, &end->source, fd, EPOLLIN, end_ready);
	}
}

void session_idle_deinit(struct session *s)
{
	for (size_t i = 0; i < s->idle.n_ends; i++)
		loop_remove(s->loop, &s->idle.ends[i].source);
	free(s->idle.ends);
	s->idle.ends = NULL;
	s->idle.n_ends = 0;
}

static void stop_listening(struct session *s)
{
	(void)perf_source_watch(s->source, false);
	s->idle.state = SESSION_AWAKE;
}

static void fall_asleep(struct session *s)
{
	listen_for_ends(s);
	if (!s->idle.ends || loop_timer_set(&s->tick, 0, 0) < 0) {
		session_idle_deinit(s);
		stop_listening(s);
		return;
	}
	s->idle.state = SESSION_ASLEEP;
	if (s->options.asleep)
		s->options.asleep(s->options.asleep_arg, true);
}

void session_wake_up(struct session *s)
{
	uint64_t period = session_read_ns(s);

	if (s->idle.state != SESSION_ASLEEP)
		return;
	session_idle_deinit(s);
	stop_listening(s);
	s->idle.quiet_at = clock_ns(CLOCK_MONOTONIC);
	(void)loop_timer_set(&s->tick, period, period);
	if (s->options.asleep)
		s->options.asleep(s->options.asleep_arg, false);
}

bool session_idle_tick(struct session *s, uint64_t now)
{
	/* Marks of a thread that runs for microseconds are read, and their rings' leases renewed, all the time. */
	if (s->state != SESSION_RUNNING || s->marks || !perf_source_can_watch(s->source))
		return false;
	if (!is_quiet(s)) {
		s->idle.quiet_at = now;
		if (s->idle.state == SESSION_LISTENING)
			stop_listening(s);
		return false;
	}
	if (s->idle.state == SESSION_AWAKE && now - s->idle.quiet_at >= IDLE_MS * NSEC_PER_MSEC) {
		s->idle.state = SESSION_LISTENING;
		s->idle.quiet_at = now;
		if (perf_source_watch(s->source, true) < 0)
			stop_listening(s);
		return false;
	}
	return s->idle.state == SESSION_LISTENING &&
	       now - s->idle.quiet_at >= LISTEN_MS * NSEC_PER_MSEC;
}

void session_sleep(struct session *s)
{
	if (s->state == SESSION_RUNNING && s->idle.state == SESSION_LISTENING)
		fall_asleep(s);
}
