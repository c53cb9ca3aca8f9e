/* unwind.c - the unwinder (unwind.h).
 *
 *   in ──► take_batch() ──► uw_unwind_batch() ──► settle() ──► out
 *                             ▲                      │ must wait: mappings, a module, a second look
 *                             └──── retry() ◄── parked[]
 *
 * A parked sample waits for one thing: the mappings of its process, or one module.  The entry that
 * ends the wait comes through the same queue.  The deadline is absolute, so a sample that waits
 * twice does not wait twice as long. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/error.h"
#include "session/pipeline/unwind.h"
#include "symbols/module.h"
#include "unwinder/unwinder.h"

enum { MAX_PARKED = 8192 };
enum {
	MAIN_ENTRIES = 512, /* that main answers itself, */
	MAIN_NS = 2000000,  /* ... in a turn of about this time */
	SKIP_SHIFT_MAX = 6,
};
enum { SHORT_STACK = 16 << 10 }; /* bytes that are kept of one where the park is nearly full */

struct parked {
	uint64_t number;    /* ascending, in order of parking */
	struct entry entry; /* pointers go into the block */
	void *block;
	size_t len;
	uint64_t deadline;
	struct uw_module *module; /* waited for; NULL: the process's mappings */
	bool looked_again;	  /* its mappings were requested a second time */
	uint32_t renewal; /* of `module` (struct uw_renewal): settled from this one on; 0: not */
};

struct flush {
	uint64_t number, deadline;
	uint64_t parked; /* waits for all samples parked up to this number */
};

struct unwind_stage {
	struct unwind_options options;
	struct slot_queue *in;
	struct byte_queue *out;
	struct waker *in_waker, *out_waker;
	struct uw_engine *engine;
	pthread_t thread;
	bool started, draining;
	int error;
	_Atomic bool stop, hurry;
	_Atomic uint64_t n_parked_ever;
	/* main's: turns in a row that a read of memory ended, and how many of the next ones are the thread's for that */
	uint32_t given_back, skip;

	struct park park;
	uint64_t trim_at; /* CLOCK_MONOTONIC */
	struct parked *parked;
	size_t n_parked;
	uint64_t last_parked; /* number */
	struct flush flushes[UNWIND_FLUSHES];
	size_t n_flushes;

	uint64_t frames[UW_BATCH][UW_MAX_FRAMES];
	struct uw_result results[UW_BATCH];
};

/* ---- outcomes ---- */

/* Room for an outcome.  Waits for main while the queue is full; main never waits for this thread
 * except at the end of the session, when NULL is returned. */
static struct outcome *reserve_outcome(struct unwind_stage *s, size_t n_frames)
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

static void commit_outcome(struct unwind_stage *s, const struct outcome *o)
{
	byte_queue_commit(s->out, sizeof(*o) + (o->n_kernel + o->n_user) * sizeof(uint64_t));
}

/* Sends an outcome that is not a sample.  False only at the end of the session, when no thread
 * takes it. */
static bool send_control(struct unwind_stage *s, enum outcome_kind kind,
			 const struct sample_info *info, struct uw_module *module,
			 const struct uw_result *why)
{
	struct outcome *o = reserve_outcome(s, 0);

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
	commit_outcome(s, o);
	return true;
}

/* An entry that stays unanswered: the session ends, and main waits for this thread. */
static void drop(struct unwind_stage *s, const struct entry *e)
{
	if (s->options.drop)
		s->options.drop(e);
}

/* One outcome for a sample. */
static void answer(struct unwind_stage *s, const struct entry *e, const struct uw_result *r,
		   enum skip_reason skipped)
{
	struct outcome *o = reserve_outcome(s, OUTCOME_KERNEL_FRAMES + (r ? r->n_frames : 0));

	if (!o) {
		drop(s, e);
		return;
	}
	outcome_fill(o, e, r, skipped);
	commit_outcome(s, o);
}

/* ---- unwinding ---- */

/* Did the walk end in JIT code that could not be read?  The memory of a process is opened after its
 * first sample. */
static bool wants_code(const struct uw_space *space, const struct uw_result *r)
{
	const struct uw_map *map = uw_space_find(space, r->stopped_at);

	return r->reason == UW_NO_UNWIND_INFO && !space->memory && map &&
	       (!map->module || uw_module_kind(map->module) == UW_MODULE_JIT);
}

/* Could newer mappings change this outcome, or the memory of the process, which comes with them? */
static bool suspects_maps(const struct entry *e, const struct uw_result *r)
{
	if (r->outcome != UW_FAILED)
		return false;
	return r->reason == UW_NO_MODULE || r->reason == UW_BAD_RETURN ||
	       r->reason == UW_UNREADABLE || wants_code(e->info.space, r);
}

/* ---- code of a Java VM, or with unwinding information in a jitdump, that grows ----
 *
 * The module is read again while its samples continue by the earlier reading.  A sample that needs the next one waits
 * for a reading that begins after it. */

enum { RENEWAL_MIN_MS = 50, RENEWAL_MAX_MS = 250, RENEWAL_SHARE = 5 };

static bool is_renewal(const struct uw_module *module)
{
	return (uw_module_is_vm(module) || uw_module_has_jit_cfi(module)) &&
	       uw_module_unwind_state(module) == UW_MODULE_READY;
}

/* Requests the module again if that was not done shortly before. */
static void ask_renewal(struct unwind_stage *s, const struct entry *e, struct uw_module *module,
			uint64_t now)
{
	struct uw_renewal *renewal = uw_module_renewal(module);

	if (renewal->asked || now < renewal->not_before)
		return;
	renewal->asked = send_control(s, OUTCOME_WANT_MODULE, &e->info, module, NULL);
	renewal->asked_at = now;
}

/* The number of the first reading that begins after now. */
static uint32_t next_renewal(struct uw_module *module)
{
	const struct uw_renewal *renewal = uw_module_renewal(module);

	return renewal->done + (renewal->asked ? 2 : 1);
}

/* A reading takes the time that a compiler needs for some methods: at most a sixth of the time goes into it. */
static void note_renewal(struct unwind_stage *s, struct uw_module *module, uint64_t now)
{
	struct uw_renewal *renewal = uw_module_renewal(module);
	uint64_t wait = (now - renewal->asked_at) * RENEWAL_SHARE;

	uw_engine_adopt(s->engine, module);
	if (!renewal->asked)
		return;
	renewal->asked = false;
	renewal->done++;
	wait = max_u64(min_u64(wait, RENEWAL_MAX_MS * NSEC_PER_MSEC),
		       RENEWAL_MIN_MS * NSEC_PER_MSEC);
	renewal->not_before = now + wait;
}

/* Must the sample wait?  Requests what it waits for.  *ret_module: the module; NULL: the mappings
 * of its process. */
static bool must_wait(struct unwind_stage *s, const struct entry *e, const struct uw_result *r,
		      bool looked_again, uint64_t now, struct uw_module **ret_module)
{
	*ret_module = NULL;
	if (e->undecided)
		return true;
	if (r && r->outcome == UW_PENDING) {
		*ret_module = r->pending;
		if (is_renewal(r->pending)) {
			ask_renewal(s, e, r->pending, now);
			return true;
		}
		uw_engine_renew(s->engine, r->pending);
		if (uw_module_want_unwind(r->pending))
			(void)send_control(s, OUTCOME_WANT_MODULE, &e->info, r->pending, NULL);
		return true;
	}
	if (!e->info.space)
		return s->options.frames & FRAMES_USER && e->user_state;
	if (r && suspects_maps(e, r) && !looked_again) {
		(void)send_control(s, OUTCOME_WANT_MAPS, &e->info, NULL, r);
		return true;
	}
	return false;
}

/* Unwinds @n entries (<= UW_BATCH) into s->results.  The result of an entry without a user part is
 * WHOLE and has no frames. */
static int unwind_entries(struct unwind_stage *s, struct entry *const *entries, size_t n)
{
	for (size_t i = 0; i < n; i++)
		s->results[i] = (struct uw_result){.frames = s->frames[i]};
	if (!(s->options.frames & FRAMES_USER))
		return 0;
	return entries_unwind(s->engine, s->options.engine, entries, n, s->results);
}

/* ---- samples that wait ---- */

/* Its process, for the park. */
static uint64_t owner_of(const struct entry *e)
{
	return (uintptr_t)e->info.process;
}

/* Copies a sample that must wait out of the ring.  False: no room, or not for this process. */
static bool park_sample(struct unwind_stage *s, const struct entry *e, struct uw_module *module,
			bool looked_again, uint64_t now)
{
	struct parked *p = &s->parked[s->n_parked];

	if (s->n_parked == MAX_PARKED)
		return false;
	p->entry = *e;
	/* Deep stacks, of 64 KiB and more, would leave no room for other samples. */
	if (!park_has_plenty(&s->park, owner_of(e), entry_bytes(e)))
		entry_shorten(&p->entry, SHORT_STACK);
	p->len = entry_bytes(&p->entry);
	p->block = park_alloc(&s->park, owner_of(e), p->len);
	if (!p->block)
		return false;
	entry_copy(&p->entry, p->block);
	atomic_fetch_add_explicit(&s->n_parked_ever, 1, memory_order_relaxed);
	p->number = ++s->last_parked;
	p->module = module;
	p->looked_again = looked_again;
	p->renewal = module && is_renewal(module) ? next_renewal(module) : 0;
	p->deadline = now + (module ? s->options.module_wait_ns : s->options.maps_wait_ns);
	s->n_parked++;
	return true;
}

static void unpark(struct unwind_stage *s, size_t index)
{
	struct parked *p = &s->parked[index];

	park_free(&s->park, owner_of(&p->entry), p->block, p->len);
	*p = s->parked[--s->n_parked];
}

/* Unwinds parked sample @index again.  True: it was answered and is removed. */
static bool retry(struct unwind_stage *s, size_t index, uint64_t now)
{
	struct parked *p = &s->parked[index];
	struct entry *e = &p->entry;
	struct uw_module *module;
	int r = unwind_entries(s, &e, 1);

	if (r < 0 || !must_wait(s, e, &s->results[0], p->looked_again, now, &module)) {
		answer(s, e, r < 0 ? NULL : &s->results[0], r < 0 ? SKIP_NO_MEMORY : SKIP_NONE);
		unpark(s, index);
		return true;
	}
	if (module && !p->module)
		p->deadline = now + s->options.module_wait_ns;
	if (module != p->module || !p->renewal)
		p->renewal = module && is_renewal(module) ? next_renewal(module) : 0;
	p->looked_again |= !module && e->info.space;
	p->module = module;
	return false;
}

/* The mappings of a process were read (again), or it was decided whether the process is recorded:
 * its samples continue. */
static void wake_process(struct unwind_stage *s, const struct entry *control_entry, uint64_t now)
{
	const struct sample_info *info = &control_entry->info;

	for (size_t i = 0; i < s->n_parked;) {
		struct parked *p = &s->parked[i];
		bool gone = true;

		if (p->module || p->entry.info.process != info->process) {
			i++;
			continue;
		}
		if (control_entry->skip) {
			answer(s, &p->entry, NULL, (enum skip_reason)control_entry->skip);
			unpark(s, i);
			continue;
		}
		if (p->entry.undecided && control_entry->undecided) {
			i++;
			continue;
		}
		p->entry.undecided = false;
		if (info->space) {
			(void)uw_space_unref(p->entry.info.space);
			p->entry.info.space = uw_space_ref(info->space);
			gone = retry(s, i, now);
		} else {
			answer(s, &p->entry, NULL, SKIP_MAPS_TIMEOUT);
			unpark(s, i);
		}
		i += !gone;
	}
}

static void wake_module(struct unwind_stage *s, struct uw_module *module, uint64_t now)
{
	uint32_t done = uw_module_renewal(module)->done;

	for (size_t i = 0; i < s->n_parked;) {
		struct parked *p = &s->parked[i];

		if (p->module == module && p->renewal && p->renewal <= done)
			p->entry.settled = true;
		i += p->module != module || !retry(s, i, now);
	}
}

/* Requests for which it was too early. */
static void ask_renewals(struct unwind_stage *s, uint64_t now)
{
	for (size_t i = 0; i < s->n_parked; i++)
		if (s->parked[i].renewal)
			ask_renewal(s, &s->parked[i].entry, s->parked[i].module, now);
}

/* Answers the samples with a deadline that has passed. */
static void expire(struct unwind_stage *s, uint64_t now)
{
	for (size_t i = 0; i < s->n_parked;) {
		struct parked *p = &s->parked[i];

		if (now < p->deadline) {
			i++;
			continue;
		}
		/* The second look at the mappings, or at the code of a Java VM, came too late: the first
		 * result stands. */
		if ((!p->module && p->looked_again) || p->renewal) {
			struct entry *e = &p->entry;

			e->settled |= p->renewal != 0;
			if (unwind_entries(s, &e, 1) == 0 && s->results[0].outcome != UW_PENDING)
				answer(s, e, &s->results[0], SKIP_NONE);
			else
				answer(s, e, NULL,
				       p->module ? SKIP_MODULE_TIMEOUT : SKIP_MAPS_TIMEOUT);
		} else {
			answer(s, &p->entry, NULL,
			       p->module ? SKIP_MODULE_TIMEOUT : SKIP_MAPS_TIMEOUT);
		}
		unpark(s, i);
	}
}

static uint64_t oldest_parked(const struct unwind_stage *s)
{
	uint64_t oldest = UINT64_MAX;

	for (size_t i = 0; i < s->n_parked; i++)
		oldest = min_u64(oldest, s->parked[i].number);
	return oldest;
}

/* Answers the flushes that no parked sample delays.  True: at least one. */
static bool answer_flushes(struct unwind_stage *s, uint64_t now)
{
	uint64_t oldest = s->n_flushes ? oldest_parked(s) : 0;
	size_t n = 0;

	while (n < s->n_flushes &&
	       (s->flushes[n].parked < oldest || now >= s->flushes[n].deadline)) {
		const struct sample_info info = {.count = s->flushes[n++].number};

		(void)send_control(s, OUTCOME_FLUSHED, &info, NULL, NULL);
	}
	s->n_flushes -= n;
	memmove(s->flushes, s->flushes + n, s->n_flushes * sizeof(s->flushes[0]));
	return n > 0;
}

/* ---- the thread ---- */

/* A sample that is still in the ring: answered, or copied into the park. */
static void settle(struct unwind_stage *s, const struct entry *e, const struct uw_result *r,
		   uint64_t now)
{
	struct uw_module *module;

	if (!must_wait(s, e, r, false, now, &module)) {
		answer(s, e, r, SKIP_NONE);
		return;
	}
	if (!park_sample(s, e, module, r && e->info.space && suspects_maps(e, r), now))
		answer(s, e, NULL, SKIP_PARK_FULL);
}

/* Executes a control entry. */
static int obey(struct unwind_stage *s, struct entry *e, uint64_t now)
{
	switch (e->kind) {
	case ENTRY_SPACE:
		wake_process(s, e, now);
		return 0;
	case ENTRY_MODULE:
		note_renewal(s, e->module, now);
		wake_module(s, e->module, now);
		return 0;
	case ENTRY_EVICT:
		uw_engine_drop(s->engine, e->module);
		if (!send_control(s, OUTCOME_EVICTED, NULL, e->module, NULL))
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

/* Has main the room for the outcomes of a batch, for which the thread would wait? */
static bool has_room(const struct unwind_stage *s)
{
	const size_t most =
		sizeof(struct outcome) + (OUTCOME_KERNEL_FRAMES + UW_MAX_FRAMES) * sizeof(uint64_t);

	/* and as many requests */
	return s->out->size - byte_queue_used(s->out) >=
	       UW_BATCH * (most + sizeof(struct outcome) + 64);
}

static struct uw_memory *memory_of(const struct entry *e)
{
	return e->info.space ? e->info.space->memory : NULL;
}

/* Main does not wait for the process that reads memory (uw_memory.later). */
static void set_later(struct entry *const *entries, size_t n, bool later)
{
	for (size_t i = 0; i < n; i++) {
		struct uw_memory *memory = memory_of(entries[i]);

		if (memory)
			memory->later = later;
		if (memory && !later)
			memory->wanted = false;
	}
}

/* As unwind_entries(), without a read of memory.  GIVEN_BACK: one is needed, and the results are void. */
enum { GIVEN_BACK = 1 };
static int unwind_in_main(struct unwind_stage *s, struct entry *const *entries, size_t n)
{
	bool wanted = false;
	int r;

	set_later(entries, n, true);
	r = unwind_entries(s, entries, n);
	for (size_t i = 0; i < n; i++)
		wanted |= uw_memory_wanted(memory_of(entries[i]));
	set_later(entries, n, false);
	return wanted ? GIVEN_BACK : r;
}

/* Takes the next run of samples (up to UW_BATCH), or one control entry.  GIVEN_BACK: nothing was taken. */
static int take_batch(struct unwind_stage *s, uint64_t now, bool in_main)
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
	r = in_main ? unwind_in_main(s, entries, n) : unwind_entries(s, entries, n);
	if (r == GIVEN_BACK)
		return r;
	for (size_t i = 0; i < n; i++) {
		if (r < 0)
			answer(s, entries[i], NULL, SKIP_NO_MEMORY);
		else
			settle(s, entries[i], &s->results[i], now);
	}
	slot_queue_pop(s->in, n);
	return 0;
}

static void publish(struct unwind_stage *s, bool wake)
{
	byte_queue_publish(s->out);
	/* Main reads the queue at its next tick or watermark anyway; it is woken early only when a
	 * request or a half-full queue needs it, or before the next sample comes. */
	wake |= atomic_load_explicit(&s->hurry, memory_order_relaxed) && byte_queue_used(s->out);
	if (wake || byte_queue_used(s->out) > s->out->size / 2)
		waker_wake(s->out_waker);
}

static void sleep_until_work(struct unwind_stage *s)
{
	struct pollfd pfd = {.fd = s->in_waker->fd, .events = POLLIN};
	int n = 0, timeout = s->n_parked ? 5 : -1; /* from here on the state may be main's */
	bool again;

	waker_prepare(s->in_waker);
	again = slot_queue_ready(s->in) || atomic_load(&s->stop);
	do {
		if (!again)
			n = poll(&pfd, 1, timeout);
		again = false;
	} while (!waker_awake(s->in_waker, n > 0));
}

/* After the entries: what is due.  True: main is to be woken. */
static bool settle_up(struct unwind_stage *s, uint64_t now)
{
	bool urgent;

	if (s->n_parked) {
		ask_renewals(s, now);
		expire(s, now);
	}
	if (!s->n_parked && now > s->trim_at) {
		s->trim_at = now + NSEC_PER_SEC;
		park_trim(&s->park);
	}
	urgent = answer_flushes(s, now) || s->n_parked || s->draining;
	if (s->draining && !s->n_parked) {
		s->draining = false;
		(void)send_control(s, OUTCOME_DRAINED, NULL, NULL, NULL);
	}
	return urgent;
}

static void *run(void *arg)
{
	struct unwind_stage *s = arg;

	(void)pthread_setname_np(pthread_self(), "pw-unwind");
	/* Refused: the thread keeps its priority, and main reports that. */
	if (s->options.realtime)
		(void)sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK,
					 &(struct sched_param){.sched_priority = 1});
	(void)caps_keep(0); /* this thread interprets data that targets wrote */
	while (!atomic_load(&s->stop) && s->error >= 0) {
		uint64_t now = clock_ns(CLOCK_MONOTONIC);

		while (s->error >= 0 && slot_queue_ready(s->in))
			s->error = take_batch(s, now, false);
		publish(s, settle_up(s, now));
		sleep_until_work(s);
	}
	if (s->error < 0)
		log_error("unwinder: %s", strerror(-s->error));
	return NULL;
}

/* ---- main ---- */

/* Where each batch reads memory, as for JavaScript's functions, few are tried. */
static bool is_for_main(struct unwind_stage *s)
{
	if (!s->options.in_main || atomic_load_explicit(&s->hurry, memory_order_relaxed) ||
	    slot_queue_ready(s->in) > MAIN_ENTRIES)
		return false;
	return !s->skip || !s->skip--;
}

static void note_turn(struct unwind_stage *s, bool given_back)
{
	s->given_back = given_back ? s->given_back + 1 : 0;
	/* One read now and then, of a function that is new, is not a reason to leave the next turn to the thread. */
	s->skip = s->given_back > 1 ? 1u << min_u64(s->given_back - 2, SKIP_SHIFT_MAX) : 0;
}

/* The thread's work, which is main's now.  True: the thread is to go on, with the rest or with the deadlines of samples that
 * wait. */
static bool main_turn(struct unwind_stage *s)
{
	uint64_t began = clock_ns(CLOCK_MONOTONIC), now = began;
	int r = 0;

	if (s->n_parked || s->error < 0)
		return true;
	byte_queue_rewind(s->out);
	while (slot_queue_ready(s->in) && r == 0 && now - began < MAIN_NS && has_room(s)) {
		r = take_batch(s, now, true);
		now = clock_ns(CLOCK_MONOTONIC);
	}
	note_turn(s, r == GIVEN_BACK);
	s->error = r < 0 ? r : s->error;
	(void)settle_up(s, now);
	byte_queue_publish(s->out);
	return slot_queue_ready(s->in) || s->n_parked || r < 0;
}

void unwind_stage_serve(struct unwind_stage *s, bool in_main)
{
	if (!slot_queue_ready(s->in))
		return;
	if (in_main && is_for_main(s) && waker_claim(s->in_waker))
		waker_return(s->in_waker, main_turn(s));
	else
		waker_wake(s->in_waker);
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
		uw_engine_set(s->engine, &options->settings);
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

void unwind_stage_hurry(struct unwind_stage *s, bool on)
{
	atomic_store_explicit(&s->hurry, on, memory_order_relaxed);
}

uint64_t unwind_stage_parked(const struct unwind_stage *s)
{
	return atomic_load_explicit(&s->n_parked_ever, memory_order_relaxed);
}

uint64_t unwind_stage_cpu_ns(const struct unwind_stage *s)
{
	clockid_t clock;

	return pthread_getcpuclockid(s->thread, &clock) ? 0 : clock_ns(clock);
}
