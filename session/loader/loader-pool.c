/* loader-pool.c - see loader-pool.h. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "session/loader/loader-pool.h"

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
