/* session.c - see session.h.
 *
 * One function does the work (session_work): rings -> entries, outcomes -> packets, the loader's
 * answers.  It runs when a ring passes its watermark, when another thread wakes main, and at every
 * tick; it leaves only when nothing is left to do, having said "main sleeps" first, so that no
 * wake-up is lost. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "proc/procfs.h"
#include "session/session-private.h"

enum { MAX_TURNS = 64, MAX_OUTCOMES = 4096 };

void session_fail(struct session *s, int r, const char *what)
{
	if (!s->error) {
		s->error = r;
		(void)snprintf(s->why, sizeof(s->why), "%s: %s", what, strerror(-r));
		(void)session_keep_note(s, s->why);
	}
	session_stop(s);
}

/* ---- outcomes and answers ---- */

static int take_outcome(struct session *s, const struct outcome *o)
{
	switch (o->kind) {
	case OUTCOME_SAMPLE:
		reader_answered(s->reader, &o->info);
		return emit_outcome(s->emit, o);
	case OUTCOME_WANT_MODULE:
		return reader_want_module(s->reader, o->info.process, o->module);
	case OUTCOME_WANT_MAPS:
		return reader_want_maps(s->reader, o->info.process,
					o->reason == UW_NO_MODULE ? o->stopped_at : 0);
	case OUTCOME_EVICTED:
		(void)uw_module_unref(o->module);
		return 0;
	case OUTCOME_FLUSHED:
		session_flush_answered(s, o->info.count);
		return 0;
	case OUTCOME_DRAINED:
		s->drained = true;
		return 0;
	default:
		return fail(-EINVAL);
	}
}

static int take_outcomes(struct session *s, size_t *ret_n)
{
	const struct outcome *o;
	size_t len, n = 0;
	int r = 0, first = 0;

	while (n < MAX_OUTCOMES && (o = byte_queue_next(&s->outcomes, &len))) {
		r = take_outcome(s, o);
		first = first ? first : r;
		n++;
	}
	byte_queue_release(&s->outcomes);
	*ret_n = n;
	return first;
}

/* Why the names of a perf map are missing, once a session: there may be as many as processes. */
static void tell_jit(struct session *s, const struct load_answer *a)
{
	if (a->error == -EXDEV)
		session_note(s,
			     "names of JIT code in a container are missing: its perf map may not "
			     "be read (hint: direct = yes, or be root)");
	if (a->error != -EACCES || s->jit_told)
		return;
	s->jit_told = true;
	session_note(s,
		     "names of JIT code are missing: %s is not believed, as other users may write "
		     "it, or it is not of the user whose process it is (hint: chmod go-w, umask "
		     "022; more such ones are not told)",
		     uw_module_path(a->request.module));
}

static int take_answers(struct session *s, size_t *ret_n)
{
	struct load_answer a;
	int r = 0;

	for (*ret_n = 0; r >= 0 && loader_answer(s->loader, &a); (*ret_n)++) {
		if (a.request.process) {
			session_raw_process(s, &a);
			r = reader_process_answer(s->reader, &a);
		} else {
			bool unwind = a.request.kind == LOAD_UNWIND;

			if (a.from_memory)
				log_verbose("%s: read from the memory of process %u",
					    uw_module_path(a.request.module), a.request.pid);
			else if (unwind && !a.error && !a.proved && a.request.module &&
				 uw_module_kind(a.request.module) == UW_MODULE_FILE)
				log_verbose("%s: not proved to be the file that is mapped",
					    uw_module_path(a.request.module));
			if (unwind && a.error)
				(void)session_unreadable(
					s, a.request.module); /* or it is not tried again */
			s->loaded += unwind;
			if (a.request.kind == LOAD_SYMBOLS)
				tell_jit(s, &a);
			r = emit_answer(s->emit, &a);
			if (r >= 0 && unwind)
				r = reader_control(s->reader, ENTRY_MODULE, a.request.module);
		}
		load_answer_deinit(&a);
	}
	return r < 0 ? trace(r) : 0;
}

/* ---- states ---- */

static bool names_pending(struct session *s)
{
	return loader_pending(s->loader) > 0 || emit_lines_left(s->emit) > 0;
}

/* What the unwinder still has when no time is left: received, and never to be emitted. */
static void give_up_in_flight(struct session *s)
{
	uint64_t n = account_in_flight(&s->account);

	s->account.skipped[SKIP_UNANSWERED] += n;
	s->account.answered += n;
}

static void finish(struct session *s)
{
	int r = writer_symbols_flush(s->writer), flushed;

	give_up_in_flight(s);
	if (emit_lines_left(s->emit))
		session_note(s,
			     "%lu addresses have no inlined calls and lines in the trace: no time "
			     "was left",
			     emit_lines_left(s->emit));
	if (r >= 0)
		r = session_write_stats(s);
	if (r >= 0)
		r = s->options.producer ? 0 : writer_clock_snapshot(s->writer);
	/* What is in the buffer is whole in any case. */
	flushed = s->sink->flush(s->sink);
	s->state = SESSION_DONE;
	if (r < 0 || flushed < 0)
		session_fail(s, r < 0 ? r : flushed, "writing the trace");
}

/* The kernel's exact counts of lost samples, beyond what LOST records told: of each CPU. */
static int write_untold_losses(struct session *s)
{
	size_t n = s->counts.lost_exact ? perf_source_n_rings(s->source) : 0;
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i++) {
		const struct perf_ring *ring = perf_source_ring(s->source, i);
		uint64_t lost, told = reader_lost(s->reader, i);

		if (ring->sideband || perf_source_lost(s->source, i / 2, &lost) < 0 || lost <= told)
			continue;
		r = writer_lost(s->writer, ring->cpu, lost - told, clock_ns(CLOCK_BOOTTIME));
	}
	return r;
}

static void advance(struct session *s)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	int r = 0;

	if (s->state == SESSION_DRAINING) {
		if (!s->drain_sent && reader_idle(s->reader)) {
			s->drain_sent = true;
			r = reader_control(s->reader, ENTRY_DRAIN, NULL);
		}
		if (r >= 0 && (s->drained || now > s->deadline)) {
			s->state = SESSION_NAMING;
			s->deadline = now + SESSION_NAMING_MS * NSEC_PER_MSEC;
			r = write_untold_losses(s);
		}
	}
	if (s->state == SESSION_NAMING)
		emit_ask(s->emit);
	if (r < 0)
		session_fail(s, r, "the end of the recording");
	if (s->state == SESSION_NAMING && (!names_pending(s) || now > s->deadline)) {
		finish(s);
		(void)session_flush_sink(s); /* flushed just now; whoever waits is told */
	}
}

void session_stop(struct session *s)
{
	int r;

	if (s->state != SESSION_RUNNING) {
		if (s->state == SESSION_READY) {
			s->state = SESSION_DONE;
			session_wake(s);
		}
		return;
	}
	s->state = SESSION_DRAINING;
	s->stopped_at = clock_ns(CLOCK_MONOTONIC);
	if (s->options.poll_ms && session_poll_counters(s) < 0)
		session_fail(s, -EIO, "writing the trace");
	s->deadline = s->stopped_at + SESSION_DRAIN_MS * NSEC_PER_MSEC;
	/* Without them the trace is whole, but not known to be: its losses are not. */
	r = perf_source_disable(s->source);
	if (r < 0)
		session_fail(s, r, "the events cannot be stopped");
	r = perf_source_counts(s->source, &s->counts);
	if (r < 0)
		session_fail(s, r, "the kernel's counts cannot be read");
	s->used_at_stop = session_used_ns(s);
	reader_end_throttles(s->reader);
	reader_release_all(s->reader);
	/* Deadlines are looked at by the tick. */
	(void)loop_timer_set(&s->tick, SESSION_TICK_MS * NSEC_PER_MSEC,
			     SESSION_TICK_MS * NSEC_PER_MSEC);
	session_wake(s);
}

/* True when something was done and more may be there. */
static bool work_once(struct session *s)
{
	size_t outcomes, answers;
	bool more = false;
	int r = 0;

	if (session_reads(s))
		r = reader_round(s->reader, &more);
	else
		reader_reclaim(s->reader);
	if (r < 0) {
		/* A damaged ring: what was read stands, the session ends. */
		reader_reclaim(s->reader);
		s->drain_sent = true;
		session_fail(s, r, r == -ENOMEM ? "reading samples" : "a perf ring is damaged");
		(void)reader_control(s->reader, ENTRY_DRAIN, NULL); /* or the deadline ends it */
	}
	if (session_flush_send(s, !more) < 0)
		session_fail(s, -ENOMEM, "a flush");
	r = take_outcomes(s, &outcomes);
	if (r >= 0)
		r = session_flush_sink(s);
	if (r < 0)
		session_fail(s, r, "writing the trace");
	r = take_answers(s, &answers);
	/* A burst of large modules would be past the limit long before the second is over. */
	if (r >= 0 && s->loaded >= SESSION_GUARDED_LOADS)
		r = session_keep_memory_small(s);
	if (r < 0)
		session_fail(s, r, "mappings and names");
	assert(account_holds(&s->account));
	return outcomes || answers || (more && outcomes);
}

static void session_work(struct session *s)
{
	bool again = true;

	if (s->state == SESSION_READY || s->state == SESSION_DONE) {
		if (session_flush_sink(s) < 0)
			session_fail(s, -EIO, "writing the trace");
		return;
	}
	for (int turn = 0; again && turn < MAX_TURNS; turn++) {
		waker_prepare(&s->main_waker);
		again = work_once(s);
	}
	s->worked_at = clock_ns(CLOCK_MONOTONIC);
	advance(s);
}

static int ring_ready(struct loop_source *source, uint32_t events)
{
	struct session_ring *ring = container_of(source, struct session_ring, source);

	/* All events of a ring have ended (the targets exited): it would be ready for ever. */
	if (events & (EPOLLHUP | EPOLLERR))
		loop_remove(ring->session->loop, source);
	session_work(ring->session);
	session_report(ring->session);
	return 0;
}

static int main_ready(struct loop_source *source, uint32_t events)
{
	struct session *s = container_of(source, struct session, main_source);

	(void)events;
	waker_awake(&s->main_waker, true);
	session_work(s);
	session_report(s);
	return 0;
}

static void session_tick(struct session *s)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	int r;

	/* What a ring's watermark just made us do need not be done again. */
	if (s->state != SESSION_RUNNING || now - s->worked_at > session_read_ns(s) / 2)
		session_work(s);
	if (s->state == SESSION_READY || s->state == SESSION_DONE)
		return;
	r = reader_consent_tick(s->reader);
	if (r >= 0 && s->state == SESSION_RUNNING)
		r = session_own_turn(s);
	if (r < 0)
		session_fail(s, r, "mappings and names");
	if (now < s->second_at)
		return;
	s->second_at = now + NSEC_PER_SEC - NSEC_PER_SEC / 100; /* timers fire together */
	r = emit_tick(s->emit);
	if (r >= 0)
		r = session_second(s);
	if (r >= 0)
		r = s->sink->flush(s->sink);
	if (r < 0)
		session_fail(s, r, "writing the trace");
}

static int tick(struct loop_timer *timer)
{
	struct session *s = container_of(timer, struct session, tick);

	session_tick(s);
	session_report(s);
	return 0;
}

static int scan_processes(struct session *s)
{
	struct procfs_pids *pids;

	if (s->options.poll_ms)
		return 0; /* nobody is sampled */
	if (s->own.wanted)
		return session_own_turn(s);
	if (!s->options.machine)
		return reader_scan(s->reader, s->scope_pids, s->n_scope_pids);
	if (procfs_pids_open(s->options.proc_root, &pids) >= 0)
		reader_scan_all(s->reader, pids);
	return 0; /* else they are asked for when they are sampled */
}

/* A reader that waits for a CPU lets its rings fill.  The unwinder does the same for itself. */
static void raise_priority(struct session *s)
{
	const struct sched_param param = {.sched_priority = 1};

	if (s->options.realtime) {
		if (sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &param) == 0)
			session_note(s, "the reader runs with real-time priority (SCHED_RR 1)");
		else
			session_note(s,
				     "real-time priority was refused (%s); hint: run as root, or "
				     "raise RLIMIT_RTPRIO",
				     strerror(errno));
	} else {
		(void)setpriority(PRIO_PROCESS, 0, SESSION_NICE);
	}
	s->nice = getpriority(PRIO_PROCESS, 0);
}

int session_start(struct session *s)
{
	int r;

	raise_priority(s);
	r = writer_start(s->writer);
	if (r >= 0)
		r = s->sink->flush(s->sink);
	if (r < 0)
		return trace(r);
	s->cpu_at_start = session_own_cpu_ns();
	s->started_at = clock_ns(CLOCK_MONOTONIC);
	s->used_at_start = session_used_ns(s);
	s->state = SESSION_RUNNING;
	if (s->options.child)
		return 0;
	r = perf_source_enable(s->source);
	/* After the events are on: what changes from here is told by records. */
	if (r >= 0)
		r = scan_processes(s);
	if (r >= 0 && s->options.poll_ms)
		r = session_poll_start(s);
	if (r < 0)
		session_fail(s, r, "the events cannot be started");
	return 0;
}

enum session_state session_state(const struct session *s)
{
	return s->state;
}

int session_error(const struct session *s, const char **ret_why)
{
	if (ret_why)
		*ret_why = s->why;
	return s->error;
}

bool session_kernel_refused(const struct session *s)
{
	return perf_source_user_only(s->source) && !s->options.user_only;
}

bool session_targets_gone(struct session *s)
{
	if (!s->stood_in)
		return perf_source_tasks_gone(s->source);
	for (size_t i = 0; i < s->n_scope_pids; i++) {
		struct procfs_status status;

		if (procfs_status(s->options.proc_root, s->scope_pids[s->living], &status) >= 0 &&
		    !status.zombie)
			return false;
		s->living = (s->living + 1) % s->n_scope_pids;
	}
	return s->n_scope_pids > 0;
}

int session_join_loop(struct session *s)
{
	size_t n = perf_source_n_rings(s->source);
	int r;

	s->rings = calloc(n + 1, sizeof(*s->rings));
	if (!s->rings)
		return fail(-ENOMEM);
	s->n_rings = n;
	for (size_t i = 0; i < s->n_rings; i++)
		s->rings[i] = (struct session_ring){.source.fd = -1, .session = s};
	for (size_t i = 0; i < s->n_rings; i++) {
		r = loop_add(s->loop, &s->rings[i].source, perf_source_ring(s->source, i)->fd,
			     EPOLLIN, ring_ready);
		if (r < 0)
			return trace(r);
	}
	r = loop_add(s->loop, &s->main_source, s->main_waker.fd, EPOLLIN, main_ready);
	if (r < 0)
		return trace(r);
	return loop_timer_add(s->loop, &s->tick, session_read_ns(s), session_read_ns(s), tick);
}

void session_leave_loop(struct session *s)
{
	loop_timer_remove(s->loop, &s->tick);
	loop_timer_remove(s->loop, &s->poll);
	for (size_t i = 0; i < s->n_rings; i++)
		loop_remove(s->loop, &s->rings[i].source);
}
