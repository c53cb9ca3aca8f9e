/* session.c - the life cycle of a session, and its work (session.h).
 *
 * session_work() does all the work: rings -> entries, outcomes -> packets, answers of the loader.
 * It runs when a ring passes its watermark, when another thread wakes main, and at every tick.  It
 * returns only when no work is left, and has announced "main sleeps" before its last look, so that
 * no wake-up is lost.
 *
 * A flush ("all samples from before are in the sink"):
 *
 *   session_flush() ─► the next round of the reader has ended ─► ENTRY_FLUSH through the unwinder
 *         ─► OUTCOME_FLUSHED (behind the outcomes of all earlier samples) ─► sink ─► callback
 *
 * The entry carries the time until which parked samples may delay it.  Callbacks to the owner are
 * recorded as due first and called last, from the loop, because each may free the session.
 *
 * Counters that are polled: the events are a source without rings; a timer reads the group of each
 * CPU and writes one packet. */
#include <assert.h>
#include <errno.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/error.h"
#include "proc/procfs.h"
#include "session/pipeline/thin.h"
#include "session/session-private.h"

enum {
	MAX_TURNS = 64,
	GIVE_UP_MS = 1000, /* of a flush that the unwinder does not answer, which would be a bug */
};

/* In the order of the calls. */
static const struct session_part *const parts[] = {&session_copies, &session_waits, &session_marks};

/* A step of each part, until one does not return 0. */
#define EACH_PART(step, ...)                                                 \
	({                                                                   \
		int r_ = 0;                                                  \
		for (size_t i_ = 0; i_ < ARRAY_SIZE(parts) && r_ == 0; i_++) \
			if (parts[i_]->step)                                 \
				r_ = parts[i_]->step(__VA_ARGS__);           \
		r_;                                                          \
	})

/* The first failure is the one that is reported.  The recorded part is completed. */
static void fail_session(struct session *s, int r, const char *what)
{
	if (!s->error) {
		s->error = r;
		(void)snprintf(s->why, sizeof(s->why), "%s: %s", what, strerror(-r));
		(void)session_keep_note(s, s->why);
	}
	session_stop(s);
}

/* ---- flushes and callbacks ---- */

/* Lets the loop return to this session soon. */
static void wake(struct session *s)
{
	const uint64_t one = 1;

	(void)!write(s->main_waker.fd, &one, sizeof(one));
}

int session_flush(struct session *s, void (*flushed)(void *arg), void *arg)
{
	struct session_flushes *list = &s->flushes;
	struct session_flush *flush;

	if (list->n == list->room && !array_grow(list->items, list->room, 8))
		return fail(-ENOMEM);
	flush = &list->items[list->n++];
	*flush = (struct session_flush){
		.flushed = flushed,
		.arg = arg,
		.number = ++list->last,
		.asked_at = clock_ns(CLOCK_MONOTONIC),
		.round = s->reader ? reader_rounds(s->reader) + 1 : 0,
	};
	wake(s);
	return 0;
}

/* After a round of the reader; @all_read: no record was left. */
static int send_flushes(struct session *s, bool all_read)
{
	struct session_flushes *list = &s->flushes;

	for (; list->n_sent < list->n && list->sent - list->answered < UNWIND_FLUSHES;
	     list->n_sent++) {
		const struct session_flush *flush = &list->items[list->n_sent];
		uint64_t deadline = flush->asked_at + SESSION_FLUSH_MS * NSEC_PER_MSEC;
		int r;

		if (!all_read || (session_reads(s) && reader_rounds(s->reader) < flush->round))
			return 0;
		r = reader_flush(s->reader, flush->number, deadline);
		if (r < 0)
			return trace(r);
		list->sent = flush->number;
	}
	return 0;
}

/* Flushes that were answered or are given up. */
static size_t n_through(const struct session *s)
{
	const struct session_flushes *list = &s->flushes;
	uint64_t now = list->n ? clock_ns(CLOCK_MONOTONIC) : 0;
	size_t n = 0;

	while (n < list->n && (s->state == SESSION_READY || s->state == SESSION_DONE ||
			       list->items[n].number <= list->answered ||
			       now > list->items[n].asked_at + GIVE_UP_MS * NSEC_PER_MSEC))
		n++;
	return n;
}

/* Flushes the sink for the flushes that are answered. */
static int flush_sink(struct session *s)
{
	size_t n = n_through(s);
	int r = 0, flushed;

	if (n <= s->flushes.n_due)
		return 0;
	s->flushes.n_due = n;
	if (s->state != SESSION_READY)
		r = writer_symbols_flush(s->writer);
	flushed = s->sink->flush(s->sink);
	return r < 0 ? trace(r) : trace(flushed);
}

int session_clear_incremental_state(struct session *s)
{
	int r;

	if (s->state == SESSION_READY || s->state == SESSION_DONE)
		return 0; /* nothing was written yet, or nothing follows */
	r = writer_clear_incremental_state(s->writer);
	emit_announce_again(s->emit);
	return r < 0 ? trace(r) : 0;
}

/* All but the waker. */
static void leave_loop(struct session *s)
{
	session_idle_deinit(s);
	loop_timer_remove(s->loop, &s->tick);
	loop_timer_remove(s->loop, &s->poll);
	for (size_t i = 0; i < s->n_rings; i++)
		loop_remove(s->loop, &s->rings[i].source);
}

/* Calls one callback; false: none is due. */
static bool report_one(struct session *s)
{
	struct session_flushes *list = &s->flushes;
	struct session_flush flush;

	if (list->n_due) {
		flush = list->items[0];
		list->n_due--;
		list->n_sent -= list->n_sent > 0;
		memmove(list->items, list->items + 1, --list->n * sizeof(*list->items));
		flush.flushed(flush.arg);
		return true;
	}
	if (s->state != SESSION_DONE || s->reported_done)
		return false;
	s->reported_done = true;
	leave_loop(s);
	if (s->options.done)
		s->options.done(s->options.done_arg);
	return true;
}

/* Calls the callbacks that are due.  The last action of a function that the loop called: the
 * session may be freed. */
static void report(struct session *s)
{
	s->reporting = true;
	while (!s->freed && report_one(s))
		;
	s->reporting = false;
	if (s->freed)
		free(s);
}

/* ---- polled counters ---- */

static int poll_cpu(struct session *s, size_t index)
{
	uint64_t counts[1 + PERF_MAX_FOLLOWERS];
	struct writer_sample sample = {.counts_only = true};
	size_t n;
	int r = perf_source_read_group(s->source, index, counts, &n, &sample.cpu);

	if (r < 0)
		return 0;	     /* a CPU that is offline for now */
	r = writer_renew(s->writer); /* these packets need no other definitions */
	sample.time = clock_ns(CLOCK_BOOTTIME);
	sample.count = counts[0];
	sample.follower_counts = counts + 1;
	sample.n_follower_counts = n - 1;
	s->account.received++;
	if (r >= 0)
		r = writer_sample(s->writer, &sample);
	if (r < 0)
		s->account.skipped[SKIP_OUTPUT]++;
	else
		s->account.emitted++;
	return r < 0 ? trace(r) : 0;
}

static int poll_counters(struct session *s)
{
	int r = 0;

	for (size_t i = 0; i < perf_source_options(s->source)->n_cpus && r >= 0; i++)
		r = poll_cpu(s, i);
	return r;
}

static int poll_tick(struct loop_timer *timer)
{
	struct session *s = container_of(timer, struct session, poll);
	int r = s->state == SESSION_RUNNING ? poll_counters(s) : 0;

	if (r < 0)
		fail_session(s, r, "writing the trace");
	return 0;
}

static int start_polling(struct session *s)
{
	uint64_t period = s->options.poll_ms * NSEC_PER_MSEC;

	return loop_timer_add(s->loop, &s->poll, period, period, poll_tick);
}

/* ---- outcomes and answers ---- */

int session_parts_outcome(struct session *s, const struct outcome *o)
{
	return EACH_PART(outcome, s, o);
}

static int take_answers(struct session *s, size_t *ret_n)
{
	struct load_answer a;
	int r = 0;

	for (*ret_n = 0; r >= 0 && loader_answer(s->loader, &a); (*ret_n)++) {
		session_note_answer(s, &a);
		session_pace_answer(s, &a);
		session_script_answer(s, &a);
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
				log_verbose("%s: not verified to be the file that is mapped",
					    uw_module_path(a.request.module));
			if (unwind && a.error && a.error != -EALREADY)
				/* without memory for it there is no retry */
				(void)session_unreadable(s, a.request.module);
			s->loaded += unwind;
			/* The names of a jitdump come with unwinding information. */
			unwind |= a.request.kind == LOAD_SYMBOLS && !a.error &&
				  !a.request.reading.names_only &&
				  uw_module_has_jit_cfi(a.request.module);
			r = emit_answer(s->emit, &a);
			if (r >= 0 && unwind)
				r = reader_control(s->reader, ENTRY_MODULE, a.request.module);
		}
		load_answer_deinit(&a);
	}
	return r < 0 ? trace(r) : 0;
}

/* ---- the end ---- */

static bool names_pending(struct session *s)
{
	return loader_pending(s->loader) > 0 || emit_lines_left(s->emit) > 0;
}

/* Samples that the unwinder still has when the time is over: received, never emitted. */
static void give_up_in_flight(struct session *s)
{
	uint64_t n = account_in_flight(&s->account);

	s->account.skipped[SKIP_UNANSWERED] += n;
	s->account.answered += n;
}

static void finish(struct session *s)
{
	int r = writer_symbols_flush(s->writer), flushed;

	r = r < 0 ? r : EACH_PART(finish, s);
	thin_settle(reader_weights(s->reader)); /* samples that were late have been answered */
	give_up_in_flight(s);
	if (emit_lines_left(s->emit))
		session_note(s,
			     "%lu addresses have no inlined calls and lines in the trace: the %s "
			     "for the lookup was over",
			     emit_lines_left(s->emit), s->relief.full ? "memory" : "time");
	if (r >= 0)
		r = session_write_stats(s);
	if (r >= 0)
		r = s->options.producer ? 0 : writer_clock_snapshot(s->writer);
	/* The packets in the buffer are complete in any case. */
	flushed = s->sink->flush(s->sink);
	s->state = SESSION_DONE;
	if (r < 0 || flushed < 0)
		fail_session(s, r < 0 ? r : flushed, "writing the trace");
}

/* The kernel's exact counts of lost samples by CPU, without those that LOST records reported. */
static int write_other_losses(struct session *s)
{
	size_t n = s->counts.lost_exact ? perf_source_n_rings(s->source) : 0;
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i++) {
		const struct perf_ring *ring = perf_source_ring(s->source, i);
		uint64_t lost, known = reader_lost(s->reader, i);

		if (ring->sideband || perf_source_lost(s->source, i / 2, &lost) < 0 ||
		    lost <= known)
			continue;
		r = writer_lost(s->writer, ring->cpu, lost - known, clock_ns(CLOCK_BOOTTIME));
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
			s->deadline = now;
			r = EACH_PART(stop, s);
			if (!s->relief.full) {
				s->deadline += SESSION_NAMING_MS * NSEC_PER_MSEC;
				emit_ask_names(s->emit);
			}
			r = r < 0 ? r : write_other_losses(s);
		}
	}
	if (s->state == SESSION_NAMING && now < s->deadline)
		emit_ask(s->emit);
	if (r < 0)
		fail_session(s, r, "the end of the recording");
	if (s->state == SESSION_NAMING && (!names_pending(s) || now >= s->deadline)) {
		finish(s);
		(void)flush_sink(s); /* marks waiting flushes as due; there is nothing to write */
	}
}

void session_stop(struct session *s)
{
	int r;

	if (s->state != SESSION_RUNNING) {
		if (s->state == SESSION_READY) {
			s->state = SESSION_DONE;
			wake(s);
		}
		return;
	}
	session_wake_up(s);
	s->state = SESSION_DRAINING;
	s->stopped_at = clock_ns(CLOCK_MONOTONIC);
	if (s->options.poll_ms && poll_counters(s) < 0)
		fail_session(s, -EIO, "writing the trace");
	s->deadline = s->stopped_at +
		      (s->relief.full ? SESSION_FULL_MS : SESSION_DRAIN_MS) * NSEC_PER_MSEC;
	/* Without these counts the losses of the trace are unknown. */
	r = perf_source_disable(s->source);
	if (r < 0)
		fail_session(s, r, "the events cannot be stopped");
	if (s->waits) /* the sum of each thread: there are records up to now */
		s->stopped_at = clock_ns(CLOCK_MONOTONIC);
	r = perf_source_counts(s->source, &s->counts);
	if (r < 0)
		fail_session(s, r, "the kernel's counts cannot be read");
	s->used_at_stop = session_used_ns(s);
	if (!s->relief.full)
		loader_pace(s->loader, 0);
	reader_thin(s->reader, UINT64_MAX);
	reader_end_throttles(s->reader);
	reader_release_all(s->reader);
	/* The tick checks the deadlines. */
	(void)loop_timer_set(&s->tick, SESSION_TICK_MS * NSEC_PER_MSEC,
			     SESSION_TICK_MS * NSEC_PER_MSEC);
	wake(s);
}

/* ---- work ---- */

/* True: something was done, and more may be left. */
static bool work_once(struct session *s)
{
	size_t outcomes, answers;
	bool more = false;
	int r = 0;

	if (session_reads(s))
		r = reader_round(s->reader, &more);
	else
		reader_reclaim(s->reader);
	/* What is read soon after its sample is read by the thread at once. */
	unwind_stage_serve(s->unwinder, !s->eager_until && !session_is_early(s));
	if (r < 0) {
		/* A damaged ring: the samples read so far stand, and the session ends. */
		reader_reclaim(s->reader);
		s->drain_sent = true;
		fail_session(s, r, r == -ENOMEM ? "reading samples" : "a perf ring is damaged");
		(void)reader_control(s->reader, ENTRY_DRAIN, NULL); /* else the deadline ends it */
	}
	if (process_table_interpreters(s->processes))
		session_want_program(s, AT_SAMPLE_PYTHON);
	/* The first outcome waits for the modules of its process. */
	if (s->account.met_deep)
		session_want_program(s, AT_SAMPLE_DEEP);
	if (send_flushes(s, !more) < 0)
		fail_session(s, -ENOMEM, "a flush");
	r = session_take_outcomes(s, &outcomes);
	if (r >= 0)
		r = flush_sink(s);
	if (r < 0)
		fail_session(s, r, "writing the trace");
	r = take_answers(s, &answers);
	/* A burst of large modules can pass the limit within a second. */
	if (r >= 0 && s->loaded >= SESSION_GUARDED_LOADS)
		r = session_keep_memory_small(s);
	if (r >= 0 && (s->relief.near || s->state == SESSION_NAMING))
		r = session_keep_cgroup(s);
	if (r < 0)
		fail_session(s, r, "mappings and names");
	assert(account_holds(&s->account));
	return outcomes || answers || (more && outcomes);
}

static void session_work(struct session *s)
{
	bool again = true;

	session_wake_up(s);
	if (s->state == SESSION_READY || s->state == SESSION_DONE) {
		if (flush_sink(s) < 0)
			fail_session(s, -EIO, "writing the trace");
		return;
	}
	session_budget_enter(s);
	for (int turn = 0; again && turn < MAX_TURNS; turn++) {
		waker_prepare(&s->main_waker);
		again = work_once(s);
	}
	session_budget_leave(s);
	s->worked_at = clock_ns(CLOCK_MONOTONIC);
	advance(s);
}

int session_ring_ready(struct loop_source *source, uint32_t events)
{
	struct session_ring *ring = container_of(source, struct session_ring, source);

	/* All events of the ring have ended (the targets exited): it would stay ready. */
	if (events & (EPOLLHUP | EPOLLERR))
		loop_remove(ring->session->loop, source);
	session_work(ring->session);
	report(ring->session);
	return 0;
}

static int main_ready(struct loop_source *source, uint32_t events)
{
	struct session *s = container_of(source, struct session, main_source);

	(void)events;
	waker_awake(&s->main_waker, true);
	session_work(s);
	report(s);
	return 0;
}

static void session_tick(struct session *s)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	bool sleeps;
	int r;

	session_budget_tick(s, now);
	/* Not again right after a ring's watermark. */
	if (s->state != SESSION_RUNNING || s->eager_until || now >= s->second_at ||
	    (!session_is_calm(s, now) && now - s->worked_at > session_read_ns(s) / 2)) {
		session_work(s);
		session_budget_add_skipped(s, now);
	}
	if (s->state == SESSION_READY || s->state == SESSION_DONE)
		return;
	r = EACH_PART(tick, s, now);
	if (r < 0)
		fail_session(s, r, "waits and marks");
	if (r == SESSION_TICK_ENDS)
		return;
	r = reader_consent_tick(s->reader);
	if (r >= 0 && s->state == SESSION_RUNNING)
		r = session_own_turn(s);
	if (r < 0)
		fail_session(s, r, "mappings and names");
	emit_read_dumps(s->emit, now, false);
	sleeps = session_idle_tick(s, now);
	if (now < s->second_at && !sleeps)
		return;
	s->second_at = now + NSEC_PER_SEC - NSEC_PER_SEC / 100; /* timers fire together */
	r = emit_tick(s->emit);
	if (r >= 0)
		r = session_second(s);
	if (r >= 0)
		r = s->sink->flush(s->sink);
	if (r < 0)
		fail_session(s, r, "writing the trace");
	else if (sleeps)
		session_sleep(s);
}

static int tick(struct loop_timer *timer)
{
	struct session *s = container_of(timer, struct session, tick);

	if (s->early_ticks && !--s->early_ticks)
		(void)loop_timer_set(&s->tick, session_read_ns(s), session_read_ns(s));
	session_tick(s);
	report(s);
	return 0;
}

/* ---- the start ---- */

static int scan_processes(struct session *s)
{
	struct procfs_pids *pids;

	if (s->options.poll_ms)
		return 0; /* no process is sampled */
	if (s->own.wanted)
		return session_own_turn(s);
	if (!s->options.machine)
		return reader_scan(s->reader, s->scope_pids, s->n_scope_pids);
	/* With --max-cpu no process without samples is read. */
	if (!s->options.max_cpu_ppm && procfs_pids_open(s->options.proc_root, &pids) >= 0)
		reader_scan_all(s->reader, pids);
	return 0; /* else their mappings are read when they are sampled */
}

static void be_realtime(struct session *s)
{
	const struct sched_param param = {.sched_priority = 1};

	if (sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &param) == 0)
		session_note(s, "the reader runs with real-time priority (SCHED_RR 1)");
	else
		session_note(s,
			     "real-time priority was refused (%s); hint: run as root, or "
			     "raise RLIMIT_RTPRIO",
			     strerror(errno));
}

int session_sample(struct session *s, bool on)
{
	return s->state == SESSION_RUNNING ? trace(perf_source_sample(s->source, on)) : 0;
}

int session_start(struct session *s)
{
	int r;

	if (s->options.realtime)
		be_realtime(s);
	s->nice = getpriority(PRIO_PROCESS, 0);
	r = writer_start(s->writer);
	if (r >= 0)
		r = s->sink->flush(s->sink);
	if (r < 0)
		return trace(r);
	s->cpu_at_start = session_own_cpu_ns();
	s->started_at = s->urgent_at = clock_ns(CLOCK_MONOTONIC);
	s->used_at_start = session_used_ns(s);
	s->state = SESSION_RUNNING;
	session_budget_start(s);
	if (s->options.child)
		return trace(EACH_PART(start, s));
	if (s->options.armed)
		perf_source_hold(s->source);
	r = perf_source_enable(s->source);
	/* After the events are on: records report all changes from here. */
	if (r >= 0)
		r = EACH_PART(start, s);
	if (r >= 0)
		r = scan_processes(s);
	if (r >= 0 && s->options.poll_ms)
		r = start_polling(s);
	if (r < 0)
		fail_session(s, r, "the events cannot be started");
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
	return perf_source_kernel_refused(s->source) && s->options.code & FRAMES_KERNEL;
}

uint64_t session_in_flight(const struct session *s)
{
	return account_in_flight(&s->account);
}

/* ---- construction ---- */

static int lost_seen(void *arg, uint32_t cpu, uint64_t records, uint64_t time)
{
	struct session *s = arg;

	(void)time;
	(void)writer_lost(s->writer, cpu, records, clock_ns(CLOCK_BOOTTIME));
	return 0;
}

static int skipped(void *arg, const struct sample_info *info, enum skip_reason why)
{
	struct session *s = arg;

	return emit_skipped(s->emit, info, why);
}

/* A sink that fails here fails again at the next sample, or at the end. */
static int owed(void *arg, const struct sample_info *info)
{
	struct session *s = arg;

	return emit_owed(s->emit, info);
}

static void ksymbol_seen(void *arg, uint64_t start, uint32_t len, const char *name, bool gone)
{
	struct session *s = arg;

	if (!s->kernel_names)
		return;
	if (gone && session_kernel_names_read(s, true))
		uw_kernel_names_remove(s->kernel_names, start);
	else
		(void)uw_kernel_names_add(s->kernel_names, start, len, name);
}

static int make_loader(struct session *s)
{
	enum uw_engine_kind engine = s->options.engine;
	struct loader_options options = {
		.root = s->options.proc_root,
		.answers = &s->main_waker,
		.copies = engine == UW_ENGINE_LIBUNWIND || engine == UW_ENGINE_LIBDW,
	};
	int r = memory_guard_new(SESSION_MEMORY_READ_MS * NSEC_PER_MSEC, &s->memory_guard);

	if (r < 0)
		return trace(r);
	options.memory = s->memory_guard;
	options.cache = session_cache(s);
	r = loader_new(&options, &s->loader);
	/* The first helper processes are forked from here, while the session is small; later ones come from the spare. */
	if (r < 0)
		return trace(r);
	child_spare();
	s->has_spare = true;
	return 0;
}

static int make_reader(struct session *s, uint64_t maps_wait_ns)
{
	const struct session_options *so = &s->options;
	struct reader_options ro = {
		.idle = so->idle,
		.frames = session_frames(s),
		.by_callchain = so->engine == UW_ENGINE_FP,
		.procmap_query = so->features.has[FEATURE_PROCMAP_QUERY],
		.clock = so->clock,
		.children = so->children,
		.wanted_by_cmdline = so->wanted_by_cmdline,
		.consent_allows = so->consent_allows,
		.enqueued_bytes = so->enqueued_bytes,
		.maps_wait_ns = maps_wait_ns,
		.copy_bytes = SESSION_COPY_BYTES,
	};

	if (s->stood_in ||
	    (!so->machine && !so->children && !so->features.has[FEATURE_INHERIT_THREAD])) {
		ro.only_pids = s->scope_pids;
		ro.n_only_pids = s->n_scope_pids;
	}
	if (session_consent(s))
		consent_counts(session_consent(s), s->answers_before);
	return trace(reader_new(&ro,
				&(struct reader_context){
					.source = s->source,
					.processes = s->processes,
					.loader = s->loader,
					.entries = &s->entries,
					.unwinder = &s->unwinder_waker,
					.account = &s->account,
					.deep = session_deep(s),
					.python = session_python(s),
					.lost = lost_seen,
					.skipped = so->producer ? skipped : NULL,
					.owed = owed,
					.memory_guard = s->memory_guard,
					.consent = session_consent(s),
					.note = session_note_line,
					.wanted = so->wanted,
					.wanted_arg = so->wanted_arg,
					.allowed = so->allowed,
					.allowed_arg = so->allowed_arg,
					.ksymbol = ksymbol_seen,
					.exited = so->ftrace_print ? session_marks_exited : NULL,
					.waits = s->waits,
					.running = so->waits == SESSION_WAITS_WALL,
					.raw = so->raw ? session_raw_record : NULL,
					.arg = s,
				},
				&s->reader));
}

static int make_stages(struct session *s)
{
	const struct session_options *so = &s->options;
	struct unwind_options uo = {
		.engine = so->engine,
		.realtime = so->realtime,
		/* The oracles parse copies of whole files. */
		.in_main = so->engine != UW_ENGINE_LIBUNWIND && so->engine != UW_ENGINE_LIBDW,
		.frames = session_frames(s),
		.maps_wait_ns = (so->maps_wait_ms ? so->maps_wait_ms : SESSION_MAPS_WAIT_MS) *
				NSEC_PER_MSEC,
		.module_wait_ns = SESSION_MODULE_WAIT_MS * NSEC_PER_MSEC,
		.park_bytes = SESSION_PARK_BYTES,
		.drop = reader_entry_drop,
		.settings = {.native_frames = so->native_frames,
			     .clock = so->clock,
			     .fallback = so->engine == UW_ENGINE_NATIVE},
	};
	int r = slot_queue_init(&s->entries, SESSION_ENTRIES, sizeof(struct entry));

	if (r >= 0)
		r = byte_queue_init(&s->outcomes, SESSION_OUTCOME_BYTES);
	if (r >= 0)
		r = make_loader(s);
	if (r >= 0)
		r = EACH_PART(make, s);
	if (r >= 0)
		r = make_reader(s, uo.maps_wait_ns);
	if (r >= 0)
		r = emit_new(
			&(struct emit_context){
				.writer = s->writer,
				.loader = s->loader,
				.modules = s->modules,
				.clock = so->clock,
				.addresses = so->addresses,
				.lines_at_end = so->max_cpu_ppm != 0,
				.kernel_names = s->kernel_names,
				.account = &s->account,
				.no_lines = so->no_lines || (so->producer && !so->lines),
			},
			&s->emit);
	if (r >= 0)
		r = unwind_stage_new(&uo, &s->entries, &s->unwinder_waker, &s->outcomes,
				     &s->main_waker, &s->unwinder);
	return r < 0 ? trace(r) : 0;
}

/* Adds the rings, the waker and the tick to the loop. */
static int join_loop(struct session *s)
{
	size_t n = perf_source_n_rings(s->source);
	int r;

	s->rings = calloc(n + SESSION_PROGRAM_RINGS, sizeof(*s->rings));
	if (!s->rings)
		return fail(-ENOMEM);
	s->n_rings = n;
	for (size_t i = 0; i < n + SESSION_PROGRAM_RINGS; i++)
		s->rings[i] = (struct session_ring){.source.fd = -1, .session = s};
	for (size_t i = 0; i < s->n_rings; i++) {
		r = loop_add(s->loop, &s->rings[i].source, perf_source_ring(s->source, i)->fd,
			     EPOLLIN, session_ring_ready);
		if (r < 0)
			return trace(r);
	}
	r = loop_add(s->loop, &s->main_source, s->main_waker.fd, EPOLLIN, main_ready);
	if (r >= 0)
		r = session_deep_join(s);
	if (r < 0)
		return trace(r);
	s->early_ticks =
		session_python(s) || perf_source_options(s->source)->soon ? SESSION_EARLY_TICKS : 0;
	return loop_timer_add(s->loop, &s->tick, session_read_ns(s), session_read_ns(s), tick);
}

static int session_make(struct session *s, char *error, size_t error_size)
{
	int r = waker_init(&s->unwinder_waker);

	/* A reader that waits for a CPU lets its rings fill, and samples wait for the files that the loader's thread and helper
	 * processes read: these are made with the priority that is set here. */
	(void)setpriority(PRIO_PROCESS, 0, SESSION_NICE);
	if (r >= 0)
		r = waker_init(&s->main_waker);
	if (r >= 0)
		r = uw_modules_new(&s->modules);
	if (r >= 0)
		r = process_table_new(s->modules, SESSION_PROCESSES, &s->processes);
	if (r >= 0)
		r = session_open_targets(s, error, error_size);
	if (r < 0)
		return trace(r);
	session_open_kernel_names(s);
	if (s->options.raw) {
		r = session_raw_start(s);
		if (r < 0)
			return trace(r);
	}
	r = session_make_writer(s);
	if (r >= 0)
		r = make_stages(s);
	if (r >= 0)
		r = join_loop(s);
	return r < 0 ? trace(r) : 0;
}

int session_new(const struct session_options *options, struct sink *sink, struct loop *loop,
		struct session **ret_session, char *error, size_t error_size)
{
	struct session *s = calloc(1, sizeof(*s));
	int r;

	(void)snprintf(error, error_size, "cannot record: %s", strerror(ENOMEM));
	if (!s)
		return fail(-ENOMEM);
	*error = 0;
	s->options = *options;
	s->own.wanted = options->machine && options->tasks_only;
	if (s->own.wanted) {
		s->options.machine = false;
		s->options.children = true;
	}
	s->sink = sink;
	s->loop = loop;
	s->unwinder_waker.fd = s->main_waker.fd = s->main_source.fd = -1;
	s->tick.source.fd = s->poll.source.fd = s->program.fd = -1;
	session_share(s);
	if (options->note)
		session_limit(s, options->note_brief, options->note);
	r = session_fit_memory(s, error, error_size);
	if (r >= 0)
		r = session_make(s, error, error_size);
	if (r < 0) {
		if (!*error)
			(void)snprintf(error, error_size, "cannot record: %s", strerror(-r));
		(void)session_free(s);
		return trace(r);
	}
	*ret_session = s;
	return 0;
}

/* Outcomes that were never taken still hold references. */
static void drop_outcomes(struct session *s)
{
	const struct outcome *o;
	size_t len;

	while (s->outcomes.data && (o = byte_queue_next(&s->outcomes, &len))) {
		if (o->kind == OUTCOME_EVICTED)
			(void)uw_module_unref(o->module);
		if (o->kind != OUTCOME_SAMPLE)
			continue;
		(void)uw_space_unref(o->info.space);
		(void)process_unref(o->info.process);
	}
}

struct session *session_free(struct session *s)
{
	if (!s)
		return NULL;
	leave_loop(s);
	loop_remove(s->loop, &s->main_source);
	loop_remove(s->loop, &s->program);
	free(s->flushes.items);
	free(s->rings);
	free(s->soon_until);
	free(s->adapt);
	(void)unwind_stage_free(s->unwinder);
	(void)loader_free(s->loader);
	drop_outcomes(s);
	(void)reader_free(s->reader);
	(void)waits_free(s->waits);
	session_marks_free(s);
	(void)emit_free(s->emit);
	session_retry_deinit(s);
	(void)perf_source_free(s->source);
	(void)writer_free(s->writer);
	session_unshare(s);
	(void)process_table_free(s->processes);
	(void)uw_modules_free(s->modules);
	(void)memory_guard_free(s->memory_guard);
	if (s->has_spare)
		child_spare_end();
	slot_queue_deinit(&s->entries);
	byte_queue_deinit(&s->outcomes);
	waker_deinit(&s->unwinder_waker);
	waker_deinit(&s->main_waker);
	for (size_t i = 0; i < s->n_notes; i++)
		free(s->notes[i]);
	session_targets_deinit(s);
	s->freed = true;
	if (!s->reporting)
		free(s);
#ifdef __GLIBC__
	/* A freed session leaves many small holes, which would count for the other sessions. */
	(void)malloc_trim(0);
#endif
	return NULL;
}
