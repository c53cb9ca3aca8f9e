/* loader.c - see loader.h.
 *
 * Three classes of work: urgent (samples wait for it: mappings, unwind halves), names of scripts (in the memory of a process that
 * may end), and later (names).  Each turn takes all requests in, then hands out urgent work, and where there is none one piece
 * of each of the others, in turn: a script has as many functions as it likes.  Symbols of files may have a pace
 * (loader_pace()): the CPU time of one decides how long the next one waits.
 *
 *   asked ──► urgent, scripts, later ──► pool (helper processes) ──► answered
 *                  ▲                        │ wait: for the helper that has the file, or for the process
 *                  └── waiting ◄────────────┤
 *                  └── held ◄───────────────┘ the device that it needs is slept over: 50 ms
 *
 * The inline loader has load_worker_serve() in the pool's place. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/error.h"
#include "session/loader/line-cache.h"
#include "session/loader/loader.h"

#define FIRST_REFUSAL_NS (2 * NSEC_PER_SEC)
#define LAST_REFUSAL_NS (256 * NSEC_PER_SEC)
enum {
	LOOK_MS = 50,
	BLOCKED_MS =
		100, /* without progress: its device is not used until the deadline has decided */
	AGAIN_MS = 100,
};

/* ---- refusals ---- */

static uint64_t key_of_process(uint32_t pid)
{
	return LOAD_MARK_PROCESS | pid;
}

static bool refused(const struct load_pool *pool, uint64_t key, uint64_t now)
{
	for (size_t i = 0; i < POOL_REFUSALS; i++)
		if (pool->refusals[i].key == key && now < pool->refusals[i].until)
			return true;
	return false;
}

static void refuse(struct load_pool *pool, uint64_t key, uint64_t now)
{
	struct load_refusal *entry = &pool->refusals[0];

	for (size_t i = 0; i < POOL_REFUSALS && entry->key != key; i++) {
		struct load_refusal *other = &pool->refusals[i];

		if (other->key == key || other->until < entry->until)
			entry = other;
	}
	entry->period =
		entry->key == key ? min_u64(entry->period * 2, LAST_REFUSAL_NS) : FIRST_REFUSAL_NS;
	entry->key = key;
	entry->until = now + entry->period;
}

static bool is_blocked(const struct load_slot *slot, uint64_t now)
{
	return slot->busy && now - slot->progress_at >= BLOCKED_MS * NSEC_PER_MSEC;
}

static void list_devices(const struct load_pool *pool, uint64_t now, struct load_devices *devices)
{
	for (size_t i = 0; i < POOL_SLOTS; i++) {
		const struct load_slot *slot = &pool->slots[i];
		uint64_t mark = is_blocked(slot, now) ? helper_mark(slot->helper) : 0;

		mark &= ~LOAD_MARK_CLOSING;
		if (mark && !(mark & LOAD_MARK_PROCESS))
			devices->held[devices->n_held++] = mark;
	}
	for (size_t i = 0; i < POOL_REFUSALS; i++) {
		const struct load_refusal *entry = &pool->refusals[i];

		if (entry->key && !(entry->key & LOAD_MARK_PROCESS) && now < entry->until &&
		    devices->n_refused < ARRAY_SIZE(devices->refused))
			devices->refused[devices->n_refused++] = entry->key;
	}
}

/* ---- slots ---- */

static int make_helper(struct load_pool *pool, struct load_slot *slot, uint64_t now)
{
	int r;

	if (now < pool->not_before)
		return -EAGAIN;
	r = helper_new(pool->options.role, &pool->options.arg, &slot->helper);
	if (r < 0) {
		pool->not_before = now + AGAIN_MS * NSEC_PER_MSEC;
		pool->n_unmade++;
		return trace(r);
	}
	slot->generation = ++pool->last_generation;
	slot->busy = false;
	slot->cpu_ns = 0;
	return 0;
}

static void drop_helper(struct load_pool *pool, struct load_slot *slot)
{
	if (slot->helper)
		pool->past_cpu_ns += helper_cpu_ns(slot->helper);
	slot->helper = helper_free(slot->helper);
	slot->busy = false;
	slot->generation = 0;
}

void load_pool_init(struct load_pool *pool, const struct load_pool_options *options)
{
	*pool = (struct load_pool){.options = *options};
	if (!pool->options.role)
		pool->options.role = &load_role;
	(void)make_helper(pool, &pool->slots[0], 0);
	pool->not_before = 0;
}

void load_pool_deinit(struct load_pool *pool, void (*drop)(struct load_request *request))
{
	for (size_t i = 0; i < POOL_SLOTS; i++) {
		if (pool->slots[i].busy)
			drop(&pool->slots[i].work.request);
		drop_helper(pool, &pool->slots[i]);
	}
	table_deinit(&pool->owners);
}

/* The slot of the helper that has the module's file open. */
static struct load_slot *owner_of(struct load_pool *pool, const struct load_request *request)
{
	uint64_t generation;

	if (!request->module ||
	    !table_get(&pool->owners, uw_module_serial(request->module), &generation))
		return NULL;
	for (size_t i = 0; i < POOL_SLOTS; i++)
		if (pool->slots[i].helper && pool->slots[i].generation == generation)
			return &pool->slots[i];
	return NULL;
}

/* Has it been busy for slow_ns, asleep or computing?  A helper that waits for a CPU is not slow: another one would wait too. */
static bool is_slow(const struct load_pool *pool, struct load_slot *slot, uint64_t now)
{
	uint64_t cpu_ns, slow_ns = pool->options.slow_ns;

	if (now - slot->asked_at < slow_ns)
		return false;
	if (slot->slow || (slot->slow_at && now - slot->slow_at < slow_ns))
		return slot->slow;
	cpu_ns = helper_cpu_ns(slot->helper);
	if (!slot->slow_at)
		slot->slow_cpu_ns = cpu_ns;
	slot->slow_at = now;
	slot->slow = cpu_ns - slot->slow_cpu_ns >= slow_ns || !helper_runnable(slot->helper);
	return slot->slow;
}

/* A free helper; another one is made only when all are slow. */
static struct load_slot *free_slot(struct load_pool *pool, uint64_t now)
{
	struct load_slot *room = NULL;
	bool slow = true;

	for (size_t i = 0; i < POOL_SLOTS; i++) {
		struct load_slot *slot = &pool->slots[i];

		if (!slot->helper) {
			room = room ? room : slot;
			continue;
		}
		if (!slot->busy)
			return slot;
		slow &= is_slow(pool, slot, now);
	}
	return room && slow && make_helper(pool, room, now) >= 0 ? room : NULL;
}

static bool has_helper(const struct load_pool *pool)
{
	for (size_t i = 0; i < POOL_SLOTS; i++)
		if (pool->slots[i].helper)
			return true;
	return false;
}

/* Does a helper sleep over a request about the same process? */
static bool has_to_wait(const struct load_pool *pool, const struct load_request *request,
			uint64_t now)
{
	for (size_t i = 0; i < POOL_SLOTS; i++)
		if (is_blocked(&pool->slots[i], now) &&
		    pool->slots[i].work.request.pid == request->pid)
			return true;
	return false;
}

static void note_owner(struct load_pool *pool, const struct load_slot *slot)
{
	const struct uw_module *module = slot->work.request.module;

	if (pool->owners.n_used > 65536) /* their files were closed long ago */
		table_clear(&pool->owners);
	if (module)
		(void)table_put(&pool->owners, uw_module_serial(module), slot->generation);
}

int load_pool_ask(struct load_pool *pool, const struct load_work *work, uint64_t now)
{
	uint8_t bytes[HELPER_REQUEST_MAX];
	struct load_devices devices = {0};
	struct load_slot *slot;
	ssize_t len;
	int r;

	if (refused(pool, key_of_process(work->request.pid), now))
		return -ETIMEDOUT;
	if (has_to_wait(pool, &work->request, now))
		return POOL_WAITS;
	slot = owner_of(pool, &work->request);
	if (slot && slot->busy && !is_blocked(slot, now))
		return POOL_WAITS;
	if (!slot || slot->busy)
		slot = free_slot(pool, now);
	if (!slot)
		return has_helper(pool) ? POOL_FULL : fail(-EAGAIN);
	list_devices(pool, now, &devices);
	len = load_request_pack(&work->request, &devices, bytes);
	if (len < 0)
		return trace((int)len);
	r = helper_ask(slot->helper, bytes, (size_t)len, load_given(&work->request));
	if (r < 0) {
		pool->n_ended += r == -EPIPE;
		drop_helper(pool, slot);
		return r == -EPIPE ? POOL_FULL : trace(r);
	}
	slot->busy = true;
	slot->work = *work;
	slot->asked_at = slot->progress_at = slot->seen_at = now;
	slot->slow = false;
	slot->slow_at = 0;
	note_owner(pool, slot);
	return 0;
}

/* ---- answers ---- */

/* Does the helper sleep over its call for too long? */
static bool is_stuck(struct load_pool *pool, struct load_slot *slot, uint64_t now)
{
	uint64_t cpu_ns, deadline = pool->options.deadline_ns;

	if (now - slot->seen_at < LOOK_MS * NSEC_PER_MSEC / 2)
		return false;
	slot->seen_at = now;
	cpu_ns = helper_cpu_ns(slot->helper);
	if (cpu_ns != slot->cpu_ns || helper_runnable(slot->helper))
		slot->progress_at = now;
	slot->cpu_ns = cpu_ns;
	/* A file that only has to be closed is not a loss, and another request waits for it. */
	if (helper_mark(slot->helper) & LOAD_MARK_CLOSING)
		deadline = min_u64(deadline, BLOCKED_MS * NSEC_PER_MSEC);
	return now - slot->progress_at >= deadline ||
	       now - slot->asked_at >= pool->options.total_ns;
}

/* Refuses the device that the helper slept over.  POOL_AGAIN: this request did not ask for that device. */
static int give_up(struct load_pool *pool, struct load_slot *slot, uint64_t now)
{
	uint64_t mark = helper_mark(slot->helper), device = mark & ~LOAD_MARK_CLOSING;
	bool closing = mark & LOAD_MARK_CLOSING;

	pool->n_stuck++;
	drop_helper(pool, slot);
	if (device && !(device & LOAD_MARK_PROCESS))
		refuse(pool, device, now);
	if (closing && ++slot->work.tries < POOL_TRIES)
		return POOL_AGAIN;
	refuse(pool, key_of_process(slot->work.request.pid), now);
	return -ETIMEDOUT;
}

static int take_answer(struct load_pool *pool, struct load_slot *slot, struct load_answer *a)
{
	struct load_reply reply = {.fd = -1};
	int r = helper_answer(slot->helper, &reply.data, &reply.len, &reply.fd);

	if (r == HELPER_WAITING)
		return POOL_NONE;
	slot->busy = false;
	if (r < 0) { /* killed, or crashed by a file */
		pool->n_ended++;
		drop_helper(pool, slot);
		return ++slot->work.tries < POOL_TRIES ? POOL_AGAIN : fail(-EIO);
	}
	reply.parsed = helper_partner_answer(slot->helper, &reply.parsed_len);
	r = load_answer_unpack(a, &reply, pool->options.guard);
	helper_done(slot->helper);
	return r;
}

int load_pool_answer(struct load_pool *pool, uint64_t now, struct load_work *ret_work,
		     struct load_answer *ret_answer)
{
	for (size_t i = 0; i < POOL_SLOTS; i++) {
		struct load_slot *slot = &pool->slots[i];
		struct load_answer a = {.request = slot->work.request};
		int r;

		if (!slot->busy)
			continue;
		r = take_answer(pool, slot, &a);
		if (r == POOL_NONE && is_stuck(pool, slot, now))
			r = give_up(pool, slot, now);
		if (r == POOL_NONE)
			continue;
		*ret_work = slot->work;
		if (r == POOL_AGAIN || (r == 0 && a.error == -EAGAIN)) {
			a.request.given = 0; /* stays with the work, as vaddrs */
			a.request.vaddrs = NULL;
			load_answer_deinit(&a);
			return POOL_AGAIN;
		}
		if (r < 0)
			a.error = r;
		*ret_answer = a;
		return 0;
	}
	return POOL_NONE;
}

size_t load_pool_poll(const struct load_pool *pool, uint64_t now, struct pollfd *ret_fds,
		      uint64_t *ret_due)
{
	size_t n = 0;

	*ret_due = UINT64_MAX;
	for (size_t i = 0; i < POOL_SLOTS; i++) {
		const struct load_slot *slot = &pool->slots[i];
		uint64_t slow = slot->asked_at + pool->options.slow_ns;

		if (!slot->busy)
			continue;
		ret_fds[n++] = (struct pollfd){helper_fd(slot->helper), POLLIN, 0};
		*ret_due = min_u64(*ret_due, LOOK_MS * NSEC_PER_MSEC);
		if (slow > now)
			*ret_due = min_u64(*ret_due, slow - now);
	}
	return n;
}

uint64_t load_pool_cpu_ns(const struct load_pool *pool)
{
	uint64_t ns = pool->past_cpu_ns;

	for (size_t i = 0; i < POOL_SLOTS; i++)
		if (pool->slots[i].helper)
			ns += helper_cpu_ns(pool->slots[i].helper);
	return ns;
}

enum {
	LOADER_QUEUE = 16384,
	LATER_NICE = 5,
	HELD_MS = 50,
	SLOW_MS = 30,
	DEADLINE_MS = 1000,
	TOTAL_MS = 30000,
	PACE_MOST_S = 60, /* the longest wait */
};

struct work_list {
	struct load_work *items;
	size_t n, first, room;
};

struct loader {
	struct slot_queue asked, answered;
	struct waker wake;
	struct waker *answers;
	pthread_t thread;
	bool started;
	_Atomic bool stop;
	_Atomic uint64_t n_pending;
	struct work_list urgent, scripts, later, paced, waiting, held;
	uint64_t held_until, paced_until;
	uint64_t paced_from; /* all_cpu_ns() when the last of these was handed out */
	_Atomic uint32_t pace_ppm;
	size_t scripts_in_hand, later_in_hand;
	bool script_last;	   /* of these two */
	struct load_worker worker; /* inline */
	struct load_pool pool;	   /* else */
	struct line_cache *lines;  /* of earlier recordings; NULL: none */
	_Atomic uint64_t n_stuck, n_ended, n_unmade, cpu_ns;
};

static int work_push(struct work_list *list, const struct load_work *work)
{
	if (list->first == list->n)
		list->first = list->n = 0;
	if (list->n == list->room && !array_grow(list->items, list->room, 64))
		return fail(-ENOMEM);
	list->items[list->n++] = *work;
	return 0;
}

/* The references that a request carries, of one that main will not hear of.  After LOAD_UNWIND that
 * on the module goes on with LOAD_SYMBOLS. */
static void release(struct load_request *request, bool answered)
{
	if (!answered)
		load_request_deinit(request);
	(void)process_unref(request->process);
	if (!answered || request->kind != LOAD_UNWIND)
		(void)uw_module_unref(request->module);
}

static void deliver(struct loader *l, struct load_answer *answer)
{
	struct load_answer *slot;

	while (!(slot = slot_queue_push(&l->answered))) {
		waker_wake(l->answers);
		if (atomic_load(&l->stop)) {
			release(&answer->request, true);
			load_answer_deinit(answer);
			return;
		}
		(void)usleep(500);
	}
	*slot = *answer;
	slot_queue_publish(&l->answered);
}

/* ---- work ---- */

static void finish(struct loader *l, struct load_answer *a);

/* Each request is answered, as its asker counts on it: where there is no memory to put it off, it
 * fails. */
static void put_off(struct loader *l, struct work_list *list, const struct load_work *work)
{
	struct load_answer a = {.request = work->request, .error = -ENOMEM};

	if (work_push(list, work) < 0)
		finish(l, &a);
}

/* Samples wait for perf maps and jitdumps, which grow. */
static bool has_pace(struct loader *l, const struct load_request *request)
{
	return atomic_load(&l->pace_ppm) && request->kind == LOAD_SYMBOLS &&
	       !request->reading.again && uw_module_kind(request->module) == UW_MODULE_FILE;
}

static struct work_list *list_of(struct loader *l, const struct load_request *request)
{
	if (has_pace(l, request))
		return &l->paced;
	return load_is_urgent(request)	 ? &l->urgent
	       : load_is_script(request) ? &l->scripts
					 : &l->later;
}

/* Records the failure in the module, where samples look. */
static void settle_module(struct load_answer *a)
{
	struct uw_module *module = a->request.module;

	if (a->error >= 0 || a->error == -EALREADY || !module || a->request.kind == LOAD_LINES)
		return;
	if (a->request.kind == LOAD_SYMBOLS)
		uw_module_set_no_symbols(module);
	else if (a->error == -ETIMEDOUT || a->error == -EBUSY)
		uw_module_set_unresponsive(module);
	else
		uw_module_set_unreadable(module);
}

/* Delivers; the symbols of a module follow its unwind half.  Main is woken after the count has changed: at the end of a recording
 * it waits for 0, and would else look at the count before that and sleep. */
static void finish(struct loader *l, struct load_answer *a)
{
	struct load_work symbols = {.request = a->request};
	bool unwind = a->request.kind == LOAD_UNWIND;

	settle_module(a);
	if (l->lines)
		line_cache_finish(l->lines, a);
	deliver(l, a);
	if (unwind) {
		symbols.request.kind = LOAD_SYMBOLS;
		symbols.request.given = 0;
		symbols.request.reading = (struct uw_reading){.again = false}; /* all of it */
		atomic_fetch_add(&l->n_pending, 1);
		put_off(l, list_of(l, &symbols.request), &symbols);
	}
	atomic_fetch_sub(&l->n_pending, 1);
	if (l->answers)
		waker_wake(l->answers);
}

static void take_requests(struct loader *l)
{
	for (uint64_t n = slot_queue_ready(&l->asked); n; n--) {
		const struct load_work work = {
			.request = *(struct load_request *)slot_queue_at(
				&l->asked, slot_queue_consumed(&l->asked)),
		};

		slot_queue_pop(&l->asked, 1);
		put_off(l, list_of(l, &work.request), &work);
	}
}

/* Symbols that came with the unwind half, or cannot be had, are not work. */
static bool is_done(const struct load_request *request)
{
	if (request->kind == LOAD_LINES)
		return !request->n_vaddrs; /* all were known */
	if (request->kind != LOAD_SYMBOLS || request->reading.again)
		return false;
	(void)uw_module_want_symbols(request->module);
	return uw_module_symbol_state(request->module) != UW_MODULE_WANTED;
}

/* One piece of work in place; false: there is none. */
static bool serve_next(struct loader *l)
{
	struct work_list *list = l->urgent.first < l->urgent.n	   ? &l->urgent
				 : l->scripts.first < l->scripts.n ? &l->scripts
								   : &l->later;
	struct load_answer a = {0};

	if (list->first == list->n)
		return false;
	a.request = list->items[list->first++].request;
	load_worker_serve(&l->worker, &a);
	finish(l, &a);
	return true;
}

/* ---- thread ---- */

/* Back to where they are looked at, in order. */
static void bring_back(struct loader *l, struct work_list *list)
{
	while (list->first < list->n) {
		const struct load_work work = list->items[list->first++];

		put_off(l, list_of(l, &work.request), &work);
	}
}

/* Hands out from the front of @list; false: no helper is free. */
static bool hand_out(struct loader *l, struct work_list *list, uint64_t now)
{
	struct load_work work = list->items[list->first];
	struct load_answer a = {0};
	int r;

	if (l->lines)
		line_cache_find(l->lines, &work.request);
	work.request.spans = l->lines;
	a.request = work.request;
	r = is_done(&work.request) ? -EALREADY : load_pool_ask(&l->pool, &work, now);
	if (r == POOL_FULL)
		return false;
	list->first++;
	if (r == POOL_WAITS) {
		put_off(l, &l->waiting, &work);
	} else if (r < 0) {
		a.error = r == -EALREADY ? 0 : r;
		finish(l, &a);
	} else if (load_is_script(&work.request)) {
		l->scripts_in_hand++;
		l->script_last = true;
	} else if (!load_is_urgent(&work.request)) {
		l->later_in_hand++;
		l->script_last = false;
	}
	return true;
}

/* Of the helper processes and this thread, which takes the answers apart. */
static uint64_t all_cpu_ns(struct loader *l)
{
	return load_pool_cpu_ns(&l->pool) + clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static bool is_too_soon(struct loader *l, uint64_t now)
{
	return now < l->paced_until && atomic_load(&l->pace_ppm);
}

/* The wait after one of the paced list, which @cpu_ns of CPU time was for. */
static uint64_t pace_ns(struct loader *l, uint64_t cpu_ns)
{
	uint32_t ppm = atomic_load(&l->pace_ppm);
	uint64_t most = PACE_MOST_S * NSEC_PER_SEC;

	return !ppm ? 0 : cpu_ns / ppm > most / 1000000 ? most : cpu_ns * 1000000 / ppm;
}

static bool hand_out_script(struct loader *l, uint64_t now)
{
	bool free = true;

	while (free && l->scripts.first < l->scripts.n && !l->scripts_in_hand)
		free = hand_out(l, &l->scripts, now);
	return free;
}

static bool hand_out_later(struct loader *l, uint64_t now)
{
	bool free = true;

	while (free && l->later.first < l->later.n && !l->later_in_hand)
		free = hand_out(l, &l->later, now);
	while (free && l->paced.first < l->paced.n && !l->later_in_hand && !is_too_soon(l, now)) {
		l->paced_from = all_cpu_ns(l);
		free = hand_out(l, &l->paced, now);
	}
	return free;
}

static void hand_out_all(struct loader *l, uint64_t now)
{
	bool free = true, script_first = !l->script_last;

	while (free && l->urgent.first < l->urgent.n)
		free = hand_out(l, &l->urgent, now);
	if (free && script_first)
		free = hand_out_script(l, now);
	if (free)
		free = hand_out_later(l, now);
	if (free && !script_first)
		(void)hand_out_script(l, now);
}

static void take_answers(struct loader *l, uint64_t now)
{
	struct load_work work;
	struct load_answer a;
	int r;

	while ((r = load_pool_answer(&l->pool, now, &work, &a)) != POOL_NONE) {
		if (load_is_script(&work.request))
			l->scripts_in_hand--;
		else if (!load_is_urgent(&work.request))
			l->later_in_hand--;
		if (has_pace(l, &work.request))
			l->paced_until = now + pace_ns(l, all_cpu_ns(l) - l->paced_from);
		if (r == POOL_AGAIN) {
			put_off(l, &l->held, &work);
			continue;
		}
		finish(l, &a);
		bring_back(l, &l->waiting);
	}
	if (now >= l->held_until) {
		l->held_until = now + HELD_MS * NSEC_PER_MSEC;
		bring_back(l, &l->waiting);
		bring_back(l, &l->held);
	}
	atomic_store(&l->n_stuck, l->pool.n_stuck);
	atomic_store(&l->n_ended, l->pool.n_ended);
	atomic_store(&l->n_unmade, l->pool.n_unmade);
	atomic_store(&l->cpu_ns, load_pool_cpu_ns(&l->pool));
}

static void sleep_until_asked(struct loader *l, uint64_t now)
{
	struct pollfd fds[1 + POOL_SLOTS] = {{.fd = l->wake.fd, .events = POLLIN}};
	uint64_t due;
	size_t n = 1 + load_pool_poll(&l->pool, now, fds + 1, &due);
	int r = 0;

	if (l->held.first < l->held.n || l->waiting.first < l->waiting.n ||
	    l->urgent.first < l->urgent.n)
		due = min_u64(due, HELD_MS * NSEC_PER_MSEC);
	if (l->paced.first < l->paced.n)
		due = min_u64(due, max_u64(l->paced_until, now + HELD_MS * NSEC_PER_MSEC) - now);
	waker_prepare(&l->wake);
	if (!slot_queue_ready(&l->asked) && !atomic_load(&l->stop))
		r = poll(fds, n, due == UINT64_MAX ? -1 : (int)(due / NSEC_PER_MSEC) + 1);
	waker_awake(&l->wake, r > 0 && fds[0].revents);
}

static void *run(void *arg)
{
	struct loader *l = arg;

	(void)pthread_setname_np(pthread_self(), "pw-loader");
	(void)caps_lay_aside(CAPS_BIT(CAP_KILL));
	while (!atomic_load(&l->stop)) {
		uint64_t now = clock_ns(CLOCK_MONOTONIC);

		take_requests(l);
		take_answers(l, now);
		hand_out_all(l, now);
		sleep_until_asked(l, now);
	}
	l->lines = line_cache_free(l->lines);
	return NULL;
}

static int start(struct loader *l)
{
	int r = waker_init(&l->wake);

	if (r >= 0)
		r = -pthread_create(&l->thread, NULL, run, l);
	l->started = r >= 0;
	return r;
}

static int loader_make(const char *root, struct waker *answers, struct loader **ret_loader)
{
	struct loader *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return fail(-ENOMEM);
	l->answers = answers;
	l->wake.fd = -1;
	r = load_worker_init(&l->worker, root);
	if (r >= 0)
		r = slot_queue_init(&l->asked, LOADER_QUEUE, sizeof(struct load_request));
	if (r >= 0)
		r = slot_queue_init(&l->answered, 1024, sizeof(struct load_answer));
	if (r < 0) {
		(void)loader_free(l);
		return fail(r);
	}
	*ret_loader = l;
	return 0;
}

/* Files that samples wait for are read with this process's priority.  Names can wait, and the profiled programs go first
 * (set_priority() in load-role.c): pw-parse has no right to come back from a low priority but by a limit. */
static struct load_role_arg role_arg(const char *root, bool copies)
{
	int nice = getpriority(PRIO_PROCESS, 0);
	struct rlimit limit = {0};
	bool may = getrlimit(RLIMIT_NICE, &limit) == 0 && limit.rlim_cur >= (rlim_t)(20 - nice);

	struct load_role_arg arg = {.copies = copies,
				    .nice = nice,
				    .nice_later = may ? (nice > 0 ? nice : 0) + LATER_NICE : nice};

	(void)snprintf(arg.root, sizeof(arg.root), "%s", root);
	return arg;
}

int loader_new(const struct loader_options *options, struct loader **ret_loader)
{
	struct loader *l;
	int r = strlen(options->root) < sizeof((struct load_role_arg){0}.root)
			? loader_make(options->root, options->answers, &l)
			: fail(-ENAMETOOLONG);

	if (r < 0) {
		(void)fd_close(options->cache);
		return trace(r);
	}
	if (options->cache >= 0)
		(void)line_cache_new(options->cache, &l->lines);
	load_pool_init(&l->pool, &(struct load_pool_options){
					 .arg = role_arg(l->worker.root, options->copies),
					 .guard = options->memory,
					 .slow_ns = SLOW_MS * NSEC_PER_MSEC,
					 .deadline_ns = DEADLINE_MS * NSEC_PER_MSEC,
					 .total_ns = TOTAL_MS * NSEC_PER_MSEC,
				 });
	r = start(l);
	if (r < 0) {
		(void)loader_free(l);
		return fail(r);
	}
	*ret_loader = l;
	return 0;
}

int loader_new_inline(const char *root, struct loader **ret_loader)
{
	int r = loader_make(root, NULL, ret_loader);

	if (r >= 0)
		(*ret_loader)->worker.own_files = true;
	return r;
}

void loader_set_conversion(struct loader *loader, const struct tsc_conversion *conversion)
{
	loader->worker.conversion = conversion;
}

void loader_set_places(struct loader *loader, const struct file_places *places)
{
	loader->worker.places = places;
}

static void drop_in_hand(struct load_request *request)
{
	release(request, false);
}

static void drop_list(struct work_list *list)
{
	for (; list->first < list->n; list->first++)
		release(&list->items[list->first].request, false);
	free(list->items);
}

static void drop_all(struct loader *l)
{
	struct load_answer answer;

	while (slot_queue_ready(&l->asked)) {
		release(slot_queue_at(&l->asked, slot_queue_consumed(&l->asked)), false);
		slot_queue_pop(&l->asked, 1);
	}
	load_pool_deinit(&l->pool, drop_in_hand);
	drop_list(&l->urgent);
	drop_list(&l->scripts);
	drop_list(&l->later);
	drop_list(&l->paced);
	drop_list(&l->waiting);
	drop_list(&l->held);
	while (slot_queue_ready(&l->answered) && loader_answer(l, &answer)) {
		release(&answer.request, true);
		load_answer_deinit(&answer);
	}
}

struct loader *loader_free(struct loader *l)
{
	const uint64_t one = 1;

	if (!l)
		return NULL;
	if (l->started) {
		atomic_store(&l->stop, true);
		(void)!write(l->wake.fd, &one, sizeof(one));
		(void)pthread_join(l->thread, NULL);
	}
	l->started = true; /* nothing is served in place any more */
	drop_all(l);
	(void)line_cache_free(l->lines);
	load_worker_deinit(&l->worker);
	slot_queue_deinit(&l->asked);
	slot_queue_deinit(&l->answered);
	waker_deinit(&l->wake);
	free(l);
	return NULL;
}

bool loader_ask(struct loader *l, const struct load_request *request)
{
	struct load_request *slot = slot_queue_push(&l->asked);

	if (!slot)
		return false;
	*slot = *request;
	atomic_fetch_add(&l->n_pending, 1);
	slot_queue_publish(&l->asked);
	if (l->started)
		waker_wake(&l->wake);
	return true;
}

struct load_request loader_module_request(const struct process *process, struct uw_module *module)
{
	struct load_request request = {
		.kind = LOAD_UNWIND,
		.pid = process->pid,
		.owner = process->owner,
		.module = module,
		.given = load_given_new(process->given_mem),
	};
	struct process_mapping mapping;

	if (process_mapping_of(process, module, &mapping)) {
		request.start = mapping.start;
		request.end = mapping.end;
		request.offset = mapping.offset;
		request.id = mapping.id;
	}
	if (uw_module_kind(module) == UW_MODULE_JIT)
		request.vm = process_vm_of_module(process, module);
	request.reading.known = uw_module_extent(module);
	request.reading.again = !request.vm && uw_module_has_jit_cfi(module) &&
				uw_module_unwind_state(module) == UW_MODULE_READY &&
				uw_module_symbol_state(module) == UW_MODULE_READY;
	return request;
}

bool loader_answer(struct loader *l, struct load_answer *ret_answer)
{
	if (!l->started && !slot_queue_ready(&l->answered)) {
		take_requests(l);
		(void)serve_next(l);
	}
	if (!slot_queue_ready(&l->answered))
		return false;
	*ret_answer = *(struct load_answer *)slot_queue_at(&l->answered,
							   slot_queue_consumed(&l->answered));
	slot_queue_pop(&l->answered, 1);
	return true;
}

uint64_t loader_pending(const struct loader *l)
{
	return atomic_load(&l->n_pending);
}

void loader_pace(struct loader *l, uint32_t ppm)
{
	atomic_store(&l->pace_ppm, ppm);
	if (l->started)
		waker_wake(&l->wake);
}

void loader_count(const struct loader *l, struct loader_counts *ret_counts)
{
	*ret_counts = (struct loader_counts){
		.stuck = atomic_load(&l->n_stuck),
		.ended = atomic_load(&l->n_ended),
		.unmade = atomic_load(&l->n_unmade),
		.cpu_ns = atomic_load(&l->cpu_ns),
	};
}
