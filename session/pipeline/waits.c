/* waits.c - see waits.h.
 *
 * Of a thread that waits the kernel shows the stack pointer and the pc, and no other register.  The frame pointer is
 * guessed: it is the first place in the stack from which frame pointers lead upwards.  Code that is unwound by the stack
 * pointer does not need it, and a wrong guess fails at a return address that follows no call. */
#include "session/pipeline/waits.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/table.h"
#include "proc/process.h"
#include "session/pipeline/park.h"
#include "session/pipeline/wait-reason.h"

enum { READY_NS = 100 * 1000 }; /* of a thread in all, before it is written */

enum thread_state {
	THREAD_UNSEEN, /* no record since `since`: the first one shows what it did */
	THREAD_RUNS,
	THREAD_WAITS,
	THREAD_GONE, /* its last switch follows */
};

/* Waits of two kinds that never stand for each other: blocked, and not blocked (preempted, started). */
enum { KIND_BLOCKED, KIND_READY, KINDS };

struct wait_thread {
	struct process *process; /* a reference */
	uint32_t tid, cpu;	 /* cpu: the last one */
	uint8_t state, reason;	 /* reason: of the wait in hand */
	uint64_t since;		 /* the state; running: up to when its time is counted */
	uint64_t woken;		 /* in this wait; 0: not, or not known */
	uint64_t ready;		 /* time from wake-ups to runs, not yet written */
	uint64_t ran;		 /* running time that no sample has yet */
	uint32_t sampled;     /* the stack sampled last: of the switch out that follows; 0: none */
	uint32_t stack;	      /* of the wait in hand; 0: none */
	uint64_t owed[KINDS]; /* time of short waits without a stack, */
	uint64_t owed_since;  /* ... and since when; 0: there is none */
	uint32_t n_owed[KINDS];
	struct wait_thread *older, *newer; /* of w->bare, while is_bare */
	bool is_bare;
};

/* A stack that waits for its outcome or for the end of its wait, by number - 1. */
struct held_stack {
	bool done, dropped; /* the wait: its time is known; it will not be shown */
	bool is_waker;	    /* the stack is that of the task that ended a wait: */
	uint32_t of;	    /* ... this one; 0: it is not shown any more */
	uint32_t waker;	    /* of a wait: the stack of the task that ended it; 0: none */
	uint8_t reason;
	uint32_t cpu;
	uint64_t time, weight, count;
	uint64_t began, ended;	 /* the wait itself, up to the wake-up */
	uint64_t ready;		 /* ... and after the wake-up; count includes it */
	uint64_t read_until;	 /* of a stack that was read: the wait must go on until then */
	struct outcome *outcome; /* NULL: it has not come yet */
	size_t len;
	uint32_t next_free;
};

struct waits {
	struct waits_options options;
	struct waits_context c;
	uint64_t start;
	struct wait_thread *oldest_bare, *newest_bare; /* they wait, blocked, without a stack */
	struct table threads;			       /* tid -> struct wait_thread * */
	bool threads_changed;
	struct park park;
	struct held_stack *held;
	uint32_t n_held, free_held; /* the first that is free + 1 */
};

/* ---- stacks ---- */

static uint32_t held_new(struct waits *w)
{
	uint32_t number = w->free_held;

	if (!number)
		return 0;
	w->free_held = w->held[number - 1].next_free;
	w->held[number - 1] = (struct held_stack){0};
	return number;
}

static void held_free(struct waits *w, uint32_t number);

/* A waker's stack, with its outcome: it was part of a sample, or is of no use. */
static void drop_waker(struct waits *w, uint32_t number)
{
	const struct outcome *o = w->held[number - 1].outcome;

	w->c.account->received--;
	w->c.account->queued--;
	(void)uw_space_unref(o->info.space);
	(void)process_unref(o->info.process);
	held_free(w, number);
}

static void held_free(struct waits *w, uint32_t number)
{
	struct held_stack *h = &w->held[number - 1];

	if (h->waker && w->held[h->waker - 1].outcome)
		drop_waker(w, h->waker);
	else if (h->waker)
		w->held[h->waker - 1].of = 0; /* dropped when it comes */
	park_free(&w->park, PARK_ANY, h->outcome, h->len);
	h->outcome = NULL;
	h->next_free = w->free_held;
	w->free_held = number;
}

static size_t outcome_bytes(const struct outcome *o)
{
	return sizeof(*o) + ((size_t)o->n_kernel + o->n_user) * sizeof(o->frames[0]);
}

static void drop_outcome(struct waits *w, const struct outcome *o)
{
	w->c.account->answered++;
	w->c.account->skipped[SKIP_DOUBLE]++;
	(void)uw_space_unref(o->info.space);
	(void)process_unref(o->info.process);
}

/* A stack that cannot be had: the time stands without. */
static void make_stackless(struct waits *w, struct outcome *o)
{
	o->skipped = SKIP_NONE;
	o->result = UW_WHOLE;
	o->completed = o->lacks_functions = false;
	o->n_kernel = o->n_user = 0;
	o->waker = NULL;
	w->c.account->unsampled_ns += o->info.weight;
}

/* Has the wait ended, and are its outcome and that of its waker there? */
static bool is_whole(const struct waits *w, const struct held_stack *h)
{
	return h->done && h->outcome && (h->dropped || !h->waker || w->held[h->waker - 1].outcome);
}

/* Once all of it is there: writes the sample. */
static int held_emit(struct waits *w, uint32_t number, struct outcome *o)
{
	const struct held_stack *h = &w->held[number - 1];
	int r;

	if (h->dropped) {
		drop_outcome(w, o);
		held_free(w, number);
		return 0;
	}
	o->info.wait = 0;
	o->info.time = h->time;
	o->info.cpu = h->cpu;
	o->info.weight = h->weight;
	o->info.count = h->count - h->ready;
	o->info.began = h->began;
	o->info.ended = h->ended;
	if (h->reason != WAIT_OTHER || !o->info.reason)
		o->info.reason = h->reason;
	for (uint32_t i = o->n_kernel; o->info.guessed && i < o->n_kernel + o->n_user; i++)
		o->frames[i] |= UW_FRAME_GUESSED;
	o->waker = h->waker ? w->held[h->waker - 1].outcome : NULL;
	if (o->skipped && o->skipped != SKIP_NOT_ALLOWED)
		make_stackless(w, o);
	if (h->ready) { /* a second sample has the same stack */
		(void)process_ref(o->info.process);
		if (o->info.space)
			(void)uw_space_ref(o->info.space);
	}
	r = w->c.emit(w->c.arg, o);
	if (h->ready) {
		w->c.account->received++;
		w->c.account->queued++;
		o->waker = NULL;
		o->info.reason = WAIT_RUNNABLE;
		o->info.began = h->ended;
		o->info.ended = h->time;
		o->info.weight = h->ready;
		o->info.count = h->count;
		r = r < 0 ? r : w->c.emit(w->c.arg, o);
	}
	held_free(w, number);
	return r < 0 ? trace(r) : 0;
}

static int held_end(struct waits *w, uint32_t number, const struct held_stack *end)
{
	struct held_stack *h = &w->held[number - 1];

	h->done = true;
	h->dropped = end->dropped;
	h->reason = end->reason;
	h->cpu = end->cpu;
	h->time = end->time;
	h->weight = end->weight;
	h->began = end->began;
	h->ended = end->ended;
	h->ready = end->ready;
	h->count = end->count;
	return is_whole(w, h) ? held_emit(w, number, h->outcome) : 0;
}

static int held_drop(struct waits *w, uint32_t *number)
{
	const struct held_stack end = {.dropped = true};
	uint32_t old = *number;

	*number = 0;
	return old ? held_end(w, old, &end) : 0;
}

int waits_outcome(struct waits *w, const struct outcome *o)
{
	uint32_t number = o->info.wait;
	size_t len = outcome_bytes(o);
	struct held_stack *h;

	if (!number || number > w->n_held)
		return fail(-EINVAL);
	h = &w->held[number - 1];
	/* A page for each number is kept: there is always room without the frames. */
	if (w->park.n_free <= w->n_held || !(h->outcome = park_alloc(&w->park, PARK_ANY, len))) {
		len = sizeof(*o);
		h->outcome = park_alloc(&w->park, PARK_ANY, len);
	}
	if (!h->outcome)
		return fail(-ENOMEM);
	memcpy(h->outcome, o, len);
	h->len = len;
	if (len < outcome_bytes(o)) {
		h->outcome->skipped = SKIP_PARK_FULL;
		h->outcome->n_kernel = h->outcome->n_user = 0;
	}
	if (h->is_waker && !h->of) {
		drop_waker(w, number);
		return 0;
	}
	if (h->is_waker) {
		number = h->of;
		h = &w->held[number - 1];
	}
	return is_whole(w, h) ? held_emit(w, number, h->outcome) : 0;
}

/* ---- time without a stack ---- */

/* @began: of one wait of @weight ns; 0: of several, or none. */
static int emit_time(struct waits *w, struct wait_thread *t, enum wait_reason reason,
		     uint64_t weight, uint64_t time, uint64_t began)
{
	struct account *account = w->c.account;
	uint64_t *count = w->c.count(w->c.arg, t->cpu);
	const struct outcome o = {
		.kind = OUTCOME_SAMPLE,
		.result = UW_WHOLE,
		.info =
			{
				.process = process_ref(t->process),
				.time = time,
				.weight = weight,
				.count = *count += weight,
				.began = began,
				.ended = began ? began + weight : 0,
				.pid = t->process->pid,
				.tid = t->tid,
				.cpu = t->cpu,
				.cpu_mode = 1, /* PERF_RECORD_MISC_KERNEL */
				.reason = (uint8_t)reason,
			},
	};

	account->received++;
	account->queued++;
	if (reason == WAIT_RUNNING)
		account->run_unsampled_ns += weight;
	else if (reason == WAIT_UNKNOWN)
		account->unknown_ns += weight;
	else
		account->unsampled_ns += weight;
	return w->c.emit(w->c.arg, &o);
}

int waits_run_outcome(struct waits *w, const struct outcome *o)
{
	struct outcome bare = {.kind = o->kind, .result = UW_WHOLE, .info = o->info};

	if (!w->options.running || !o->skipped || o->skipped == SKIP_NOT_ALLOWED)
		return w->c.emit(w->c.arg, o);
	bare.info.reason = WAIT_RUNNING;
	w->c.account->run_unsampled_ns += o->info.weight;
	return w->c.emit(w->c.arg, &bare);
}

/* What short waits still wait for a stack. */
static int pay(struct waits *w, struct wait_thread *t, uint64_t time)
{
	int r = 0;

	for (int kind = 0; kind < KINDS && r >= 0; kind++) {
		uint64_t owed = t->owed[kind];

		if (!owed)
			continue;
		t->owed[kind] = t->n_owed[kind] = 0;
		r = emit_time(w, t, kind == KIND_READY ? WAIT_PREEMPTED : WAIT_OTHER, owed, time,
			      0);
	}
	t->owed_since = 0;
	return r;
}

static int lost_time(struct waits *w, struct wait_thread *t, uint64_t time)
{
	return time > t->since ? emit_time(w, t, WAIT_UNKNOWN, time - t->since, time, t->since) : 0;
}

/* ---- threads that wait without a stack ---- */

static void bare_remove(struct waits *w, struct wait_thread *t)
{
	if (!t->is_bare)
		return;
	*(t->older ? &t->older->newer : &w->oldest_bare) = t->newer;
	*(t->newer ? &t->newer->older : &w->newest_bare) = t->older;
	t->is_bare = false;
}

static void bare_add(struct waits *w, struct wait_thread *t)
{
	bare_remove(w, t);
	t->older = w->newest_bare;
	t->newer = NULL;
	*(t->older ? &t->older->newer : &w->oldest_bare) = t;
	w->newest_bare = t;
	t->is_bare = true;
}

struct process *waits_next_bare(struct waits *w, uint64_t before, uint32_t *ret_tid)
{
	struct wait_thread *t = w->oldest_bare;

	if (!t || t->since > before)
		return NULL;
	bare_remove(w, t);
	*ret_tid = t->tid;
	return t->process;
}

/* ---- waits ---- */

static int kind_of(enum wait_reason reason)
{
	return reason == WAIT_PREEMPTED || reason == WAIT_RUNNABLE ? KIND_READY : KIND_BLOCKED;
}

/* A wait without a stack.  Without any stacks short ones are put together, or there would be a packet a switch. */
static int end_without_stack(struct waits *w, struct wait_thread *t, uint64_t ns, uint64_t time)
{
	int kind = kind_of(t->reason);

	if (ns >= WAITS_SHORT_NS || t->reason == WAIT_RUNNABLE)
		return emit_time(w, t, t->reason, ns, time, t->since);
	t->owed[kind] += ns;
	t->n_owed[kind]++;
	if (!t->owed_since)
		t->owed_since = time;
	return !w->options.stacks && time - t->owed_since > WAITS_SHORT_NS ? pay(w, t, time) : 0;
}

/* Takes the time since the wake-up off a wait of @ns: it is written as runnable once it is worth a sample. */
static uint64_t take_ready(struct wait_thread *t, uint64_t ns, uint64_t time)
{
	uint64_t ready = t->woken && time > t->woken ? min_u64(time - t->woken, ns) : 0;

	t->woken = 0;
	t->ready += ready;
	return ns - ready;
}

static int end_wait(struct waits *w, struct wait_thread *t, uint64_t time)
{
	uint64_t ns = time > t->since ? time - t->since : 0;
	int kind = kind_of(t->reason);
	struct held_stack end = {.reason = t->reason, .cpu = t->cpu, .time = time};
	struct account *account = w->c.account;
	uint64_t *count;
	uint32_t number;
	int r = 0;

	bare_remove(w, t);
	account->waits++;
	account->wait_ns += ns;
	ns = take_ready(t, ns, time);
	if (t->stack && time < w->held[t->stack - 1].read_until)
		r = held_drop(w, &t->stack); /* it may be of a later wait */
	number = t->stack;
	t->stack = 0;
	if (!number && ns && r >= 0)
		r = end_without_stack(w, t, ns, time);
	if (!number)
		return r;
	account->waits_thinned += t->n_owed[kind];
	account->thinned_ns += t->owed[kind];
	end.weight = ns + t->owed[kind];
	end.began = t->since;
	end.ended = t->since + ns;
	t->owed[kind] = t->n_owed[kind] = 0;
	if (!t->owed[!kind])
		t->owed_since = 0;
	if (t->ready >= READY_NS) {
		end.ready = t->ready;
		t->ready = 0;
	}
	count = w->c.count(w->c.arg, t->cpu);
	end.count = *count += end.weight + end.ready;
	return held_end(w, number, &end);
}

static void begin_wait(struct waits *w, struct wait_thread *t, enum wait_reason reason,
		       uint64_t time)
{
	t->state = THREAD_WAITS;
	t->reason = (uint8_t)reason;
	t->since = time;
	t->woken = 0;
	t->stack = t->sampled;
	t->sampled = 0;
	if (w->options.read && !t->stack && reason == WAIT_OTHER)
		bare_add(w, t);
}

/* Counts running time up to @time. */
static void add_run(struct waits *w, struct wait_thread *t, uint64_t time)
{
	uint64_t ns = time > t->since ? time - t->since : 0;

	t->ran += ns;
	w->c.account->run_ns += ns;
	t->since = max_u64(t->since, time);
}

/* ---- threads ---- */

static struct wait_thread *find(const struct waits *w, uint32_t tid)
{
	return table_pointer(&w->threads, tid);
}

static void set_process(struct wait_thread *t, struct process *process)
{
	if (t->process == process)
		return;
	(void)process_unref(t->process);
	t->process = process_ref(process);
}

/* The thread, made if new: it exists since @since.  NULL: there are too many, or no memory. */
static struct wait_thread *thread_of(struct waits *w, struct process *process, uint32_t tid,
				     uint64_t since)
{
	struct wait_thread *t = find(w, tid);

	if (t) {
		set_process(t, process);
		return t;
	}
	if (w->threads.n_used >= WAITS_THREADS)
		return NULL;
	t = calloc(1, sizeof(*t));
	if (!t || table_put(&w->threads, tid, (uint64_t)(uintptr_t)t) < 0) {
		free(t);
		return NULL;
	}
	w->threads_changed = true;
	*t = (struct wait_thread){
		.process = process_ref(process), .tid = tid, .reason = WAIT_OTHER, .since = since};
	return t;
}

static void thread_free(struct waits *w, struct wait_thread *t)
{
	bare_remove(w, t);
	w->threads_changed = true;
	(void)table_remove(&w->threads, t->tid);
	(void)process_unref(t->process);
	free(t);
}

/* All that is known of the thread up to its end. */
static int thread_end(struct waits *w, struct wait_thread *t, uint64_t time)
{
	int r = 0;

	if (t->state == THREAD_UNSEEN || t->state == THREAD_WAITS)
		r = end_wait(w, t, time);
	else if (t->state == THREAD_RUNS)
		add_run(w, t, time);
	if (r >= 0)
		r = held_drop(w, &t->sampled);
	if (r >= 0)
		r = pay(w, t, time);
	if (r >= 0 && t->ready)
		r = emit_time(w, t, WAIT_RUNNABLE, t->ready, time, 0);
	t->ready = 0;
	if (r >= 0 && w->options.running && t->ran)
		r = emit_time(w, t, WAIT_RUNNING, t->ran, time, 0);
	t->ran = 0;
	t->state = THREAD_GONE;
	return r < 0 ? trace(r) : 0;
}

size_t waits_tids(struct waits *w, uint32_t *tids, size_t max, bool *ret_changed)
{
	size_t n = 0;

	table_for_each (&w->threads, slot) {
		if (n < max)
			tids[n] = (uint32_t)slot->key;
		n++;
	}
	*ret_changed = w->threads_changed;
	w->threads_changed = false;
	return n;
}

void waits_start(struct waits *w, uint64_t time)
{
	w->start = time;
}

int waits_thread(struct waits *w, struct process *process, uint32_t tid)
{
	struct wait_thread *t = thread_of(w, process, tid, w->start);

	if (t && w->options.read) /* most sleep */
		bare_add(w, t);
	return 0;
}

/* A number that is used again; the end of its last thread was lost. */
static int forget(struct waits *w, uint32_t tid, uint64_t time)
{
	struct wait_thread *t = find(w, tid);
	int r;

	if (!t)
		return 0;
	r = t->state == THREAD_GONE ? 0 : thread_end(w, t, time);
	thread_free(w, t);
	return r;
}

int waits_fork(struct waits *w, struct process *process, uint32_t tid, uint64_t time)
{
	struct wait_thread *t;
	int r = forget(w, tid, time);

	t = thread_of(w, process, tid, time);
	if (t)
		begin_wait(w, t, WAIT_RUNNABLE, time);
	return r < 0 ? trace(r) : 0;
}

static int waits_exec(struct waits *w, struct process *process, uint32_t tid, uint64_t time)
{
	bool is_new = !find(w, tid);
	struct wait_thread *t = thread_of(w, process, tid, time);

	if (t && is_new) /* events that begin with the exec */
		t->state = THREAD_RUNS;
	return 0;
}

int waits_exit(struct waits *w, uint32_t tid, uint64_t time)
{
	struct wait_thread *t = find(w, tid);
	int r;

	if (!t || t->state == THREAD_GONE)
		return 0;
	if (t->state == THREAD_UNSEEN) /* it runs at its end, whatever it did before */
		t->state = THREAD_RUNS;
	r = t->state == THREAD_WAITS ? lost_time(w, t, time) : 0;
	if (t->state == THREAD_WAITS) {
		t->state = THREAD_RUNS;
		t->since = max_u64(t->since, time);
	}
	if (r >= 0)
		r = held_drop(w, &t->stack);
	if (r >= 0)
		r = thread_end(w, t, time);
	if (!w->options.cpu_wide)
		thread_free(w, t);
	return r < 0 ? trace(r) : 0;
}

static int switch_in(struct waits *w, struct wait_thread *t, uint64_t time)
{
	int r = t->state == THREAD_RUNS ? lost_time(w, t, time) : end_wait(w, t, time);

	if (r >= 0)
		r = held_drop(w, &t->sampled); /* of a switch without its record */
	t->state = THREAD_RUNS;
	t->since = max_u64(t->since, time);
	return r;
}

static int switch_out(struct waits *w, struct wait_thread *t, const struct wait_switch *s)
{
	int r = 0;

	if (t->state == THREAD_WAITS) {
		r = lost_time(w, t, s->time);
		if (r >= 0)
			r = held_drop(w, &t->stack);
	} else {
		bare_remove(w, t);
		r = held_drop(w, &t->stack); /* read from a thread that ran, as is known now */
		add_run(w, t, s->time);
	}
	begin_wait(w, t, s->preempted ? WAIT_PREEMPTED : WAIT_OTHER, max_u64(t->since, s->time));
	return r;
}

int waits_switch(struct waits *w, const struct wait_switch *s)
{
	struct wait_thread *t = find(w, s->tid);
	int r;

	if (t && t->state == THREAD_GONE) {
		if (s->out)
			thread_free(w, t);
		return 0;
	}
	t = thread_of(w, s->process, s->tid, w->start);
	if (!t)
		return 0;
	t->cpu = s->cpu;
	r = s->out ? switch_out(w, t, s) : switch_in(w, t, s->time);
	return r < 0 ? trace(r) : 0;
}

/* SWITCH, FORK or COMM of @process, out of the ring of @cpu; others have no effect. */
static int waits_record(struct waits *w, struct process *process, uint32_t cpu,
			const struct record_event *e)
{
	if (e->time < w->start)
		return 0;
	switch (e->type) {
	case PERF_RECORD_FORK:
		return waits_fork(w, process, e->tid, e->time);
	case PERF_RECORD_COMM:
		return e->comm.exec ? waits_exec(w, process, e->tid, e->time) : 0;
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		return waits_switch(w, &(struct wait_switch){.process = process,
							     .time = e->time,
							     .tid = e->tid,
							     .cpu = cpu,
							     .out = e->switched.out,
							     .preempted = e->switched.preempted});
	default:
		return 0;
	}
}

void waits_woken(struct waits *w, uint32_t tid, uint64_t time)
{
	struct wait_thread *t = find(w, tid);

	if (t && t->state == THREAD_WAITS && t->reason == WAIT_OTHER && !t->woken &&
	    time >= t->since)
		t->woken = time;
}

bool waits_wants_waker(const struct waits *w, uint32_t tid, uint64_t time)
{
	const struct wait_thread *t = find(w, tid);

	return t && t->state == THREAD_WAITS && t->reason == WAIT_OTHER && t->stack &&
	       time >= t->since && !w->held[t->stack - 1].waker && w->free_held;
}

uint32_t waits_waker(struct waits *w, uint32_t tid)
{
	uint32_t wait = find(w, tid)->stack, number = held_new(w);

	w->held[number - 1].is_waker = true;
	w->held[number - 1].of = wait;
	w->held[wait - 1].waker = number;
	return number;
}

uint32_t waits_read(struct waits *w, uint32_t tid, uint64_t from, uint64_t until)
{
	struct wait_thread *t = find(w, tid);
	bool waits = t && (t->state == THREAD_UNSEEN ||
			   (t->state == THREAD_WAITS && t->reason == WAIT_OTHER));

	if (!waits || t->stack || t->since > from || !w->free_held)
		return 0;
	bare_remove(w, t);
	t->stack = held_new(w);
	w->held[t->stack - 1].read_until = until;
	return t->stack;
}

bool waits_wants(struct waits *w, struct process *process, uint32_t tid)
{
	const struct wait_thread *t = thread_of(w, process, tid, w->start);

	return t && t->state != THREAD_GONE && !t->sampled && w->free_held;
}

uint32_t waits_sampled(struct waits *w, uint32_t tid)
{
	struct wait_thread *t = find(w, tid);

	t->sampled = held_new(w);
	return t->sampled;
}

uint64_t waits_run(struct waits *w, struct process *process, uint32_t tid, uint64_t time)
{
	struct wait_thread *t = thread_of(w, process, tid, w->start);
	uint64_t ran;

	if (!t)
		return 0;
	if (t->state == THREAD_UNSEEN) {
		bare_remove(w, t);
		t->state = THREAD_RUNS;
	}
	if (t->state == THREAD_RUNS)
		add_run(w, t, time);
	ran = t->ran;
	t->ran = 0;
	return ran;
}

int waits_finish(struct waits *w, uint64_t time)
{
	int r = 0;

	/* One time for all, behind every record: the sums of a CPU grow in order of time. */
	table_for_each (&w->threads, slot)
		time = max_u64(time, ((struct wait_thread *)(uintptr_t)slot->value)->since);
	table_for_each (&w->threads, slot) {
		struct wait_thread *t = (struct wait_thread *)(uintptr_t)slot->value;

		if (t->state != THREAD_GONE && r >= 0)
			r = thread_end(w, t, time);
	}
	return r < 0 ? trace(r) : 0;
}

/* ---- life cycle ---- */

int waits_new(const struct waits_options *options, const struct waits_context *context,
	      struct waits **ret_waits)
{
	struct waits *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return fail(-ENOMEM);
	w->options = *options;
	w->c = *context;
	w->n_held = WAITS_STACK_BYTES / PARK_PAGE / 2;
	w->held = calloc(w->n_held, sizeof(*w->held));
	r = w->held ? park_init(&w->park, WAITS_STACK_BYTES) : -ENOMEM;
	if (r < 0) {
		(void)waits_free(w);
		return fail(r);
	}
	for (uint32_t i = w->n_held; i > 0; i--) {
		w->held[i - 1].next_free = w->free_held;
		w->free_held = i;
	}
	*ret_waits = w;
	return 0;
}

struct waits *waits_free(struct waits *w)
{
	if (!w)
		return NULL;
	for (uint32_t i = 0; w->held && i < w->n_held; i++) {
		const struct outcome *o = w->held[i].outcome;

		if (!o)
			continue;
		(void)uw_space_unref(o->info.space);
		(void)process_unref(o->info.process);
	}
	table_for_each (&w->threads, slot) {
		struct wait_thread *t = (struct wait_thread *)(uintptr_t)slot->value;

		(void)process_unref(t->process);
		free(t);
	}
	table_deinit(&w->threads);
	park_deinit(&w->park);
	free(w->held);
	free(w);
	return NULL;
}

enum { USER_BITS = 47, PAGE_0 = 4096 }; /* addresses of user code on x86-64 */

static uint64_t word_at(const uint8_t *stack, size_t at)
{
	uint64_t word;

	memcpy(&word, stack + at, sizeof(word));
	return word;
}

static bool is_code(uint64_t address, uint64_t sp, size_t len)
{
	return address >= PAGE_0 && address < 1ull << USER_BITS && address - sp >= len;
}

uint64_t wait_stack_fp(const uint8_t *stack, size_t len, uint64_t sp)
{
	for (size_t at = 0; at + 16 <= len; at += 8) {
		uint64_t up = word_at(stack, at), to = up - sp;

		if (up % 8 || to <= at + 8 || to + 16 > len)
			continue;
		if (is_code(word_at(stack, at + 8), sp, len) &&
		    is_code(word_at(stack, to + 8), sp, len))
			return sp + at;
	}
	return 0;
}

bool wait_stack_entry(const struct load_answer *a, uint64_t *regs, struct entry *ret_entry)
{
	size_t len = a->stack_len & ~(size_t)7;

	if (UW_ARCH_HOST != UW_ARCH_X86_64 || !len || a->wait.sp % 8)
		return false;
	memset(regs, 0, UW_X86_COUNT * sizeof(*regs));
	regs[UW_X86_SP] = a->wait.sp;
	regs[UW_X86_IP] = a->wait.pc;
	regs[UW_X86_BP] = wait_stack_fp(a->stack, len, a->wait.sp);
	*ret_entry = (struct entry){
		.kind = ENTRY_SAMPLE,
		.user_state = true,
		.stack_full = len == LOAD_STACK_MAX,
		.arch = UW_ARCH_X86_64,
		.regs = regs,
		.stack = a->stack,
		.info =
			{
				.time = a->wait_until,
				.pid = a->request.pid,
				.tid = a->request.tag,
				.stack_len = (uint32_t)len,
				.cpu_mode = 2, /* PERF_RECORD_MISC_USER */
				.reason = (uint8_t)wait_reason_of_call(
					a->wait.number,
					a->wait.is_pipe ? WAIT_FILE_PIPE : WAIT_FILE_OTHER),
				.guessed = true,
			},
	};
	return true;
}

enum { STACKS_IN_FLIGHT = 16 }; /* a request takes 50 us of a helper */

int wait_reader_record(struct scope *s, uint32_t ring, const struct record_event *e)
{
	struct process *process;

	if (!s->c.waits || !e->pid ||
	    perf_source_is_inherited_double(s->c.source, e->id, (pid_t)e->tid))
		return 0;
	process = process_get(s->c.processes, e->pid);
	if (!process)
		return fail(-ENOMEM);
	if (scope_skips_process(s, process))
		return 0;
	return waits_record(s->c.waits, process, perf_source_ring(s->c.source, ring)->cpu, e);
}

/* The fields of sched:sched_waking: 8 bytes that all tracepoints have, char comm[16], pid_t pid (the thread), ... */
enum { WAKING_TID = 24 };

/* 0: none. */
static uint32_t woken_tid(const struct record_sample *sample)
{
	uint32_t tid = 0;

	if (sample->raw && sample->raw_len >= WAKING_TID + sizeof(tid))
		memcpy(&tid, sample->raw + WAKING_TID, sizeof(tid));
	return tid;
}

int wait_reader_woken(struct scope *s, const struct record_layout *layout,
		      const struct perf_event_header *record)
{
	struct record_sample sample;
	int r = record_parse_sample(layout, record, &sample);

	if (r < 0)
		return trace(r);
	if (s->c.waits && woken_tid(&sample))
		waits_woken(s->c.waits, woken_tid(&sample), sample.time);
	return 0;
}

bool wait_reader_wants_waker(struct scope *s, const struct record_sample *sample)
{
	return s->c.waits && waits_wants_waker(s->c.waits, woken_tid(sample), sample->time);
}

uint32_t wait_reader_waker(struct scope *s, const struct record_sample *sample)
{
	return waits_waker(s->c.waits, woken_tid(sample));
}

bool wait_reader_wants(struct scope *s, const struct record_sample *sample, struct process *process)
{
	return !perf_source_is_switch(s->c.source, sample->id) ||
	       (s->c.waits && waits_wants(s->c.waits, process, sample->tid));
}

uint64_t wait_reader_weigh(struct scope *s, const struct record_sample *sample,
			   struct process *process, uint32_t *ret_wait)
{
	*ret_wait = 0;
	if (!s->c.waits)
		return sample->period;
	if (perf_source_is_switch(s->c.source, sample->id))
		*ret_wait = waits_sampled(s->c.waits, sample->tid);
	else if (s->c.running)
		return waits_run(s->c.waits, process, sample->tid, sample->time);
	return *ret_wait ? 0 : sample->period;
}

void wait_reader_ask(struct scope *s, uint64_t before)
{
	while (s->c.waits && s->stacks_in_flight < STACKS_IN_FLIGHT) {
		uint32_t tid;
		struct process *process = waits_next_bare(s->c.waits, before, &tid);
		struct load_request request = {.kind = LOAD_WAIT};

		if (!process)
			break;
		request.tag = tid;
		request.pid = process->pid;
		request.process = process_ref(process);
		request.vaddr = (uint64_t)s->options.clock;
		request.closed = !scope_may_open(s, process);
		if (loader_ask(s->c.loader, &request))
			s->stacks_in_flight++;
		else
			(void)process_unref(process);
	}
}

bool wait_reader_answer(struct scope *s, struct park *park, const struct load_answer *a,
			struct entry *e)
{
	uint64_t regs[UW_X86_COUNT];

	s->stacks_in_flight--;
	if (a->error || a->request.process->replaced || !wait_stack_entry(a, regs, e))
		return false;
	e->block = park_alloc(park, (uintptr_t)a->request.process, entry_bytes(e));
	if (!e->block)
		return false;
	e->info.wait = waits_read(s->c.waits, a->request.tag, a->wait_from, a->wait_until);
	if (!e->info.wait) {
		park_free(park, (uintptr_t)a->request.process, e->block, entry_bytes(e));
		return false;
	}
	entry_copy(e, e->block);
	e->info.process = process_ref(a->request.process);
	s->c.account->received++;
	s->c.account->queued++;
	s->enqueued_bytes += e->info.stack_len;
	return true;
}
