/* session-waits.c - what threads wait for (session/pipeline/waits.h), and the bound on its cost.  Thread: main.
 *
 * A sample of a switch costs the target a few microseconds and us as much again.  So while more than
 * THIN_PER_S switches a second and CPU are sampled, only one in PERF_SWITCHES_THIN is.  Times stay exact: they are of
 * the records of switches, which cost 0.2 us each. */
#include <errno.h>
#include <time.h>

#include "base/error.h"
#include "proc/procfs.h"
#include "session/session-private.h"

enum {
	READ_MS = 5, /* a wait that lasts longer is seen while it lasts */
	MIN_WAIT_NS = 2 * NSEC_PER_MSEC,
	THIN_PER_S = 5000,
	THIN_LOOK_MS = 100,
	THIN_LOOKS = 3,	  /* in a row; a burst is not worth the stacks that follow it */
	THIN_FLOOD = 8,	  /* ... but not this many times the limit */
	THIN_QUIET_S = 2, /* so long with few switches, and all are sampled again */
};

static uint64_t *count_of(void *arg, uint32_t cpu)
{
	return reader_cpu_count(((struct session *)arg)->reader, cpu);
}

static int emit_wait(void *arg, const struct outcome *o)
{
	return emit_outcome(((struct session *)arg)->emit, o);
}

/* Read during the wait: with the registers of x86-64 that the kernel shows a stack can be unwound, but by an engine that
 * takes copies. */
static bool can_read_stacks(const struct session *s)
{
	return UW_ARCH_HOST == UW_ARCH_X86_64 && s->options.engine != UW_ENGINE_FP &&
	       session_frames(s) & FRAMES_USER;
}

static int make(struct session *s)
{
	bool sampled = perf_source_samples_switches(s->source), read = can_read_stacks(s);
	const struct waits_options options = {
		.running = s->options.waits == SESSION_WAITS_WALL,
		.stacks = sampled || read,
		.read = read,
		.cpu_wide = !perf_source_options(s->source)->tasks,
	};

	if (!s->options.waits)
		return 0;
	if (!sampled)
		session_note(
			s,
			"switches cannot be sampled: %s (hint: run as root, or sudo sysctl "
			"kernel.perf_event_paranoid=1)",
			read ? "stacks are read from threads that wait for 5 ms or more, and are "
			       "marked as guessed"
			     : "waits have their times, and no stacks");
	if (s->options.wakers && s->options.waking && !perf_source_samples_wakers(s->source))
		session_note(
			s,
			"wakers are not recorded: the kernel refuses to sample sched:sched_waking "
			"(hint: run as root)");
	if (!sampled && read)
		s->options.read_ms = READ_MS;
	return waits_new(
		&options,
		&(struct waits_context){
			.account = &s->account, .count = count_of, .emit = emit_wait, .arg = s},
		&s->waits);
}

/* Wake-ups by tasks that are not recorded: a thread that has just begun is known a moment later. */
static void filter_wakings(struct session *s)
{
	uint32_t tids[PERF_WAKINGS];
	bool changed;
	size_t n = waits_tids(s->waits, tids, ARRAY_SIZE(tids), &changed);

	if (changed)
		perf_source_filter_wakings(s->source, tids, n);
}

/* A time of CLOCK_MONOTONIC on the clock of the events.  On the same one without a look at it: between two looks main may wait for
 * a CPU. */
static uint64_t on_clock(const struct session *s, uint64_t time)
{
	if (s->options.clock == CLOCK_MONOTONIC)
		return time;
	return clock_ns(s->options.clock) - (clock_ns(CLOCK_MONOTONIC) - time);
}

/* Threads that sleep all the time have no record. */
static int start(struct session *s)
{
	bool tasks = perf_source_options(s->source)->tasks;
	int r = 0;

	if (!s->waits)
		return 0;
	/* Opening took a while: what is recorded before all events are on has gaps. */
	s->started_at = clock_ns(CLOCK_MONOTONIC);
	waits_start(s->waits, on_clock(s, s->started_at));
	s->thin.at = clock_ns(CLOCK_MONOTONIC);
	for (size_t i = 0; i < s->n_scope_pids && !s->options.child && r >= 0; i++) {
		_cleanup_(freep) uint32_t *tids = NULL;
		struct process *process = process_get(s->processes, s->scope_pids[i]);
		size_t n = 0;

		if (!process)
			return fail(-ENOMEM);
		if (procfs_threads(s->options.proc_root, s->scope_pids[i], &tids, &n) < 0)
			continue;
		for (size_t k = 0; k < n && r >= 0; k++)
			if (!tasks || perf_source_has_task(s->source, (pid_t)tids[k]))
				r = waits_thread(s->waits, process, tids[k]);
	}
	filter_wakings(s);
	return r < 0 ? trace(r) : 0;
}

/* Takes an outcome over: to its wait, or straight to the emitter. */
static int take_outcome(struct session *s, const struct outcome *o)
{
	if (!s->waits)
		return emit_outcome(s->emit, o);
	return o->info.wait ? waits_outcome(s->waits, o) : waits_run_outcome(s->waits, o);
}

/* By the waits that ended since the last look: about the switches out. */
static int tick(struct session *s, uint64_t now)
{
	uint64_t ns, limit, waits = s->account.waits - s->thin.waits;

	if (!s->waits || s->state != SESSION_RUNNING)
		return 0;
	ns = now - s->thin.at;
	reader_ask_stacks(s->reader, clock_ns(s->options.clock) - MIN_WAIT_NS);
	if (ns < THIN_LOOK_MS * NSEC_PER_MSEC)
		return 0;
	filter_wakings(s);
	limit = THIN_PER_S * perf_source_options(s->source)->n_cpus * ns / NSEC_PER_SEC;
	s->thin.at = now;
	s->thin.waits = s->account.waits;
	s->thin.looks = waits > limit ? s->thin.looks + 1 : 0;
	if (s->thin.looks)
		s->thin.many_at = now;
	if (s->thin.looks >= THIN_LOOKS || waits > THIN_FLOOD * limit)
		return trace(perf_source_thin_switches(s->source, true));
	if (now - s->thin.many_at >= THIN_QUIET_S * NSEC_PER_SEC)
		return trace(perf_source_thin_switches(s->source, false));
	return 0;
}

/* Ends the waits that go on. */
static int stop(struct session *s)
{
	return s->waits ? waits_finish(s->waits, on_clock(s, s->stopped_at)) : 0;
}

const struct session_part session_waits = {
	.make = make, .start = start, .outcome = take_outcome, .tick = tick, .stop = stop};
