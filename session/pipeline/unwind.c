/* unwind.c - see unwind.h.
 *
 *   in ──► collect() ──► uw_unwind_batch() ──► settle() ──► out
 *                             ▲                   │ waits: mappings, module, a second look
 *                             └──── retry() ◄── parked[]
 *
 * A parked sample waits for one thing: its process's mappings, or one module.  What ends the wait
 * comes as an entry in the same queue.  The deadline is absolute, so a sample that waits twice does
 * not wait twice as long. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/error.h"
#include "session/pipeline/unwind-private.h"
#include "symbols/module.h"
#include "unwinder/unwinder.h"

/* ---- out ---- */

/* Room for an outcome; waits for main when the queue is full (main never waits for us, so it ends).
 */
static struct outcome *outcome_reserve(struct unwind_stage *s, size_t n_frames)
{
	size_t len = sizeof(struct outcome) + n_frames * sizeof(uint64_t);
	struct outcome *o;

	while (!(o = byte_queue_reserve(s->out, len))) {
		byte_queue_publish(s->out);
		waker_wake(s->out_waker);
		if (atomic_load(&s->stop))
			return NULL;
		(void)usleep(200);
	}
	*o = (struct outcome){0};
	return o;
}

static void outcome_commit(struct unwind_stage *s, const struct outcome *o)
{
	byte_queue_commit(s->out, sizeof(*o) + (o->n_kernel + o->n_user) * sizeof(uint64_t));
}

/* False only at the session's end: nobody takes it any more. */
bool unwind_control(struct unwind_stage *s, enum outcome_kind kind, const struct sample_info *info,
		    struct uw_module *module, const struct uw_result *why)
{
	struct outcome *o = outcome_reserve(s, 0);

	if (!o)
		return false;
	o->kind = (uint8_t)kind;
	if (info)
		o->info = *info;
	o->module = module;
	if (why) {
		o->reason = why->reason;
		o->stopped_at = why->stopped_at;
	}
	outcome_commit(s, o);
	return true;
}

/* An entry that nobody will hear of: the session is at its end, main waits for this thread. */
static void drop(struct unwind_stage *s, const struct entry *e)
{
	if (s->options.drop)
		s->options.drop(e);
}

void unwind_answer(struct unwind_stage *s, const struct entry *e, const struct uw_result *r,
		   enum skip_reason skipped)
{
	struct outcome *o = outcome_reserve(s, OUTCOME_KERNEL_FRAMES + (r ? r->n_frames : 0));

	if (!o) {
		drop(s, e);
		return;
	}
	outcome_fill(o, e, r, skipped);
	outcome_commit(s, o);
}

/* Would newer mappings change this outcome? */
static bool suspects_maps(const struct uw_result *r)
{
	return r->outcome == UW_FAILED &&
	       (r->reason == UW_NO_MODULE || r->reason == UW_BAD_RETURN ||
		r->reason == UW_UNREADABLE);
}

/* What a sample has to wait for, if anything; orders it. */
bool unwind_must_wait(struct unwind_stage *s, const struct entry *e, const struct uw_result *r,
		      bool looked_again, const struct uw_module **ret_module)
{
	*ret_module = NULL;
	if (e->undecided)
		return true;
	if (r && r->outcome == UW_PENDING) {
		*ret_module = r->pending;
		uw_engine_renew(s->engine, r->pending);
		if (uw_module_want_unwind(r->pending))
			(void)unwind_control(s, OUTCOME_WANT_MODULE, &e->info, r->pending, NULL);
		return true;
	}
	if (!e->info.space)
		return s->options.user_frames && e->user_state;
	if (r && suspects_maps(r) && !looked_again) {
		(void)unwind_control(s, OUTCOME_WANT_MAPS, &e->info, NULL, r);
		return true;
	}
	return false;
}

/* ---- unwinding ---- */

/* Unwinds @n entries (<= UW_BATCH); results[i] is NULL-like (no frames, WHOLE) for those with no
 * user part. */
int unwind_entries(struct unwind_stage *s, struct entry *const *entries, size_t n)
{
	size_t index[UW_BATCH], n_user = 0;
	struct uw_result packed[UW_BATCH];
	int r;

	for (size_t i = 0; i < n; i++) {
		s->results[i] =
			(struct uw_result){.frames = s->frames[i], .max_frames = UW_MAX_FRAMES};
		if (!s->options.user_frames || !entries[i]->user_state || entries[i]->undecided ||
		    !entries[i]->info.space)
			continue;
		entry_snapshot(entries[i], &s->snapshots[n_user]);
		packed[n_user] = s->results[i];
		index[n_user++] = i;
	}
	r = n_user ? uw_unwind_batch(s->engine, s->snapshots, n_user, packed) : 0;
	if (r < 0)
		return trace(r);
	for (size_t i = 0; i < n_user; i++) {
		if (s->options.engine == UW_ENGINE_FP || s->options.engine == UW_ENGINE_FP_COPY)
			entry_need_modules(&s->snapshots[i], &packed[i]);
		s->results[index[i]] = packed[i];
	}
	return 0;
}

/* A sample that is still in the ring: answered, or copied into the park. */
static void settle(struct unwind_stage *s, const struct entry *e, const struct uw_result *r,
		   uint64_t now)
{
	const struct uw_module *module;

	if (!unwind_must_wait(s, e, r, false, &module)) {
		unwind_answer(s, e, r, SKIP_NONE);
		return;
	}
	if (!unwind_park(s, e, module, r && suspects_maps(r), now))
		unwind_answer(s, e, NULL, SKIP_PARK_FULL);
}

static int obey(struct unwind_stage *s, struct entry *e, uint64_t now)
{
	switch (e->kind) {
	case ENTRY_SPACE:
		unwind_wake_process(s, e, now);
		return 0;
	case ENTRY_MODULE:
		unwind_wake_module(s, e->module, now);
		return 0;
	case ENTRY_EVICT:
		uw_engine_drop(s->engine, e->module);
		if (!unwind_control(s, OUTCOME_EVICTED, NULL, e->module, NULL))
			drop(s, e);
		return 0;
	case ENTRY_FLUSH:
		if (s->n_flushes == UNWIND_FLUSHES)
			return fail(-EINVAL);
		s->flushes[s->n_flushes++] =
			(struct flush){e->info.count, e->info.time, s->last_parked};
		return 0;
	case ENTRY_DRAIN:
		s->draining = true;
		return 0;
	default:
		return fail(-EINVAL);
	}
}

/* ---- thread ---- */

/* The next run of samples (up to UW_BATCH), or one control entry. */
static int take_batch(struct unwind_stage *s, uint64_t now)
{
	uint64_t first = slot_queue_consumed(s->in);
	uint64_t ready = min_u64(slot_queue_ready(s->in), UW_BATCH);
	struct entry *entries[UW_BATCH];
	size_t n = 0;
	int r;

	while (n < ready) {
		entries[n] = slot_queue_at(s->in, first + n);
		if (entries[n]->kind != ENTRY_SAMPLE)
			break;
		n++;
	}
	if (!n) {
		r = obey(s, entries[0], now);
		slot_queue_pop(s->in, 1);
		return r;
	}
	r = unwind_entries(s, entries, n);
	for (size_t i = 0; i < n; i++) {
		if (r < 0)
			unwind_answer(s, entries[i], NULL, SKIP_NO_MEMORY);
		else
			settle(s, entries[i], &s->results[i], now);
	}
	slot_queue_pop(s->in, n);
	return 0;
}

static void publish(struct unwind_stage *s, bool wake)
{
	byte_queue_publish(s->out);
	/* Main looks at its next tick or watermark anyway; it is woken when something waits for it.
	 */
	if (wake || byte_queue_used(s->out) > s->out->size / 2)
		waker_wake(s->out_waker);
}

static void sleep_until_work(struct unwind_stage *s)
{
	struct pollfd pfd = {.fd = s->in_waker->fd, .events = POLLIN};
	int n = 0;

	waker_prepare(s->in_waker);
	if (!slot_queue_ready(s->in) && !atomic_load(&s->stop))
		n = poll(&pfd, 1, s->n_parked ? 5 : -1);
	waker_awake(s->in_waker, n > 0);
}

static void *run(void *arg)
{
	struct unwind_stage *s = arg;
	int r = 0;

	(void)pthread_setname_np(pthread_self(), "pw-unwind");
	/* Where it is refused it goes on as it is; main tells of it. */
	if (s->options.realtime)
		(void)sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK,
					 &(struct sched_param){.sched_priority = 1});
	else if (s->options.nice)
		(void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), s->options.nice);
	(void)caps_keep(0); /* it follows what targets wrote */
	while (!atomic_load(&s->stop) && r >= 0) {
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		bool urgent;

		while (r >= 0 && slot_queue_ready(s->in))
			r = take_batch(s, now);
		if (s->n_parked)
			unwind_expire(s, now);
		urgent = unwind_answer_flushes(s, now) || s->n_parked || s->draining;
		if (s->draining && !s->n_parked) {
			s->draining = false;
			(void)unwind_control(s, OUTCOME_DRAINED, NULL, NULL, NULL);
		}
		publish(s, urgent);
		sleep_until_work(s);
	}
	if (r < 0)
		log_error("unwinder: %s", strerror(-r));
	return NULL;
}

int unwind_stage_new(const struct unwind_options *options, struct slot_queue *in,
		     struct waker *in_waker, struct byte_queue *out, struct waker *out_waker,
		     struct unwind_stage **ret_stage)
{
	struct unwind_stage *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return fail(-ENOMEM);
	s->options = *options;
	s->in = in;
	s->in_waker = in_waker;
	s->out = out;
	s->out_waker = out_waker;
	s->parked = calloc(MAX_PARKED + 1, sizeof(*s->parked));
	r = s->parked ? park_init(&s->park, options->park_bytes) : -ENOMEM;
	if (r >= 0)
		r = uw_engine_new(options->engine, &s->engine);
	if (r >= 0)
		r = -pthread_create(&s->thread, NULL, run, s);
	if (r < 0) {
		(void)unwind_stage_free(s);
		return fail(r);
	}
	s->started = true;
	*ret_stage = s;
	return 0;
}

struct unwind_stage *unwind_stage_free(struct unwind_stage *s)
{
	const uint64_t one = 1;

	if (!s)
		return NULL;
	if (s->started) {
		atomic_store(&s->stop, true);
		(void)!write(s->in_waker->fd, &one, sizeof(one));
		(void)pthread_join(s->thread, NULL);
	}
	for (size_t i = 0; i < s->n_parked; i++)
		drop(s, &s->parked[i].entry);
	(void)uw_engine_free(s->engine);
	park_deinit(&s->park);
	free(s->parked);
	free(s);
	return NULL;
}

uint64_t unwind_stage_cpu_ns(const struct unwind_stage *s)
{
	clockid_t clock;
	struct timespec ts;

	if (pthread_getcpuclockid(s->thread, &clock) || clock_gettime(clock, &ts) < 0)
		return 0;
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t unwind_stage_parked(const struct unwind_stage *s)
{
	return atomic_load_explicit(&s->n_parked_ever, memory_order_relaxed);
}
