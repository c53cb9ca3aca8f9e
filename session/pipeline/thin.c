/* thin.c - see thin.h. */
#include "session/pipeline/thin.h"

#include <stdatomic.h>

#include "proc/process.h"

enum {
	THIN_BITS = 16,
	THIN_ONE = 1 << THIN_BITS,
	FILL_ROUNDS = 16,
	PRESSED_MIN = 64,
	AFFORD_STEP = 4,
	AFFORD_LEAST = 10
};

void thin_init(struct thin *t, void (*settle)(void *arg, struct process *process, uint64_t weight),
	       void *arg)
{
	*t = (struct thin){
		.random = 88172645463325252ull, .window = 1, .settle = settle, .arg = arg};
}

static void forget(struct process *process)
{
	process->share = (struct process_share){.sent = process->share.sent};
	(void)process_unref(process);
}

static void settle(struct thin *t, struct process *process)
{
	uint64_t weight = process->share.weight;

	process->share.weight = 0;
	if (weight)
		t->settle(t->arg, process, weight);
}

void thin_settle(struct thin *t)
{
	for (struct process *p = t->seen; p; p = p->share.next)
		settle(t, p);
}

void thin_deinit(struct thin *t)
{
	for (struct process *p; (p = t->seen);) {
		t->seen = p->share.next;
		forget(p);
	}
}

/* xorshift: where the first kept sample of a process lies must not depend on the process. */
static uint32_t random_credit(struct thin *t)
{
	t->random ^= t->random << 13;
	t->random ^= t->random >> 7;
	t->random ^= t->random << 17;
	return (uint32_t)(t->random >> 40) % THIN_ONE;
}

static bool is_active(const struct thin *t, const struct process *process)
{
	return process->share.window + 1 >= t->window;
}

size_t thin_n_active(const struct thin *t)
{
	size_t n = 0;

	for (const struct process *p = t->seen; p; p = p->share.next)
		n += is_active(t, p);
	return n;
}

/* The cap at which the counts of the window that ends, cut to it, sum up to @allowed. */
static uint64_t cap_for(const struct thin *t, uint64_t allowed)
{
	uint64_t cap = 0;

	for (int i = 0; i < FILL_ROUNDS; i++) {
		uint64_t left = allowed, next;
		size_t above = 0, n = 0;

		for (const struct process *p = t->seen; p; p = p->share.next) {
			const struct process_share *share = &p->share;

			if (share->window != t->window)
				continue;
			n++;
			if ((uint64_t)share->count << THIN_BITS <= cap)
				left -= min_u64(left, share->count);
			else
				above++;
		}
		if (!above)
			return cap + (left << THIN_BITS) / max_u64(n, 1);
		next = (left << THIN_BITS) / above;
		if (next <= cap)
			break;
		cap = next;
	}
	return max_u64(cap, 1);
}

/* It has no more samples: it has ended, or is not in the table of processes any more. */
static bool is_gone(const struct process *process)
{
	return process->exited || atomic_load(&process->refs) == 1;
}

/* May a later sample take its weight, or one in the stages behind have a stack that is shown with it? */
static bool waits(const struct thin *t, const struct process *process)
{
	const struct process_share *share = &process->share;

	return share->sent || (!is_gone(process) && share->window + THIN_QUIET >= t->window);
}

/* Processes without a sample in the window that ends, or (@all) all, but for those with weight that waits. */
static void drop(struct thin *t, bool all)
{
	for (struct process **at = &t->seen, *process; (process = *at);) {
		const struct process_share *share = &process->share;

		if (!waits(t, process))
			settle(t, process);
		if ((!all && share->window == t->window) || share->weight) {
			at = &process->share.next;
			continue;
		}
		*at = share->next;
		forget(process);
	}
}

/* Down by a quarter while a ring fills up, and slowly up again. */
static void press(struct thin *t, bool pressed)
{
	if (pressed)
		t->pressed = max_u64(t->kept - t->kept / 4, PRESSED_MIN);
	else if (t->pressed)
		t->pressed += t->pressed / 8 + 1;
	/* A process alone takes from no other: what it loses is counted by the kernel. */
	if ((!pressed && t->pressed > 2 * t->received) || (t->on && thin_n_active(t) < 2))
		t->pressed = 0;
}

void thin_next(struct thin *t, uint64_t allowed, bool pressed)
{
	press(t, pressed);
	if (t->pressed)
		allowed = min_u64(allowed, t->pressed);
	if (allowed == UINT64_MAX && !t->crowded) {
		drop(t, true);
		t->cap = UINT64_MAX;
		t->on = t->seen; /* the next samples of these take their weights */
	} else {
		if (t->on) {
			drop(t, false);
			t->cap = cap_for(t, min_u64(allowed, UINT32_MAX));
		} else {
			t->cap = UINT64_MAX; /* the counts of a window are needed first */
		}
		t->on = true;
	}
	t->window++;
	t->received = t->kept = 0;
	t->several_before = t->several;
	t->several = t->crowded = false;
}

static void enter(struct thin *t, struct process *process)
{
	struct process_share *share = &process->share;

	if (!share->listed) {
		share->next = t->seen;
		t->seen = process_ref(process);
		share->listed = true;
		share->credit = random_credit(t);
	}
	if (share->window != t->window) {
		share->before = share->window + 1 == t->window ? share->count : 0;
		share->count = 0;
		share->window = t->window;
	}
}

/* The weights are kept by process from now on, and in the next window. */
static void begin(struct thin *t)
{
	if (!t->on)
		t->cap = UINT64_MAX;
	t->on = t->crowded = true;
}

static void grant(struct thin *t, uint64_t *held, uint64_t *weight)
{
	int64_t most = (int64_t)min_u64(*weight, INT64_MAX);
	int64_t extra = t->owed > most ? most : t->owed < -most / 2 ? -most / 2 : t->owed;

	t->own = *weight;
	t->extra = extra;
	*weight += *held + (uint64_t)extra;
	*held = 0;
	t->owed -= extra;
	t->kept++;
}

/* Has the process more samples behind the reader than there is room for? */
static bool is_crowded(struct thin *t, const struct process *process, uint64_t room)
{
	t->several |= t->last && t->last != process->serial;
	t->last = process->serial;
	if (process->share.sent <= room || !(t->several || t->several_before))
		return false;
	begin(t);
	return true;
}

void thin_sent(struct process *process)
{
	process->share.sent++;
}

void thin_back(struct process *process)
{
	process->share.sent -= process->share.sent > 0;
}

bool thin_keeps(struct thin *t, struct process *process, uint64_t room, uint64_t *weight)
{
	struct process_share *share = &process->share;
	bool crowded = is_crowded(t, process, room);
	uint64_t none = 0, n;

	t->received++;
	t->sampled += *weight;
	if (!t->on) {
		grant(t, &none, weight);
		return true;
	}
	enter(t, process);
	share->count++;
	if (crowded) {
		share->weight += *weight;
		return false;
	}
	n = max_u64(share->before, share->count);
	share->credit += n << THIN_BITS <= t->cap ? THIN_ONE : (uint32_t)(t->cap / n);
	if (share->credit < THIN_ONE) {
		share->weight += *weight;
		return false;
	}
	share->credit -= THIN_ONE;
	grant(t, &share->weight, weight);
	return true;
}

void thin_passed(struct thin *t, uint64_t weight)
{
	t->sampled += weight;
}

void thin_return(struct thin *t, struct process *process, uint64_t weight)
{
	begin(t);
	enter(t, process);
	process->share.weight += weight;
}

void thin_owe(struct thin *t, int64_t weight)
{
	t->owed += weight;
}

void thin_again(struct thin *t, struct process *process, uint64_t weight)
{
	t->received--;
	t->kept--;
	t->sampled -= t->own;
	t->owed += t->extra;
	if (!t->on || !process->share.listed)
		return;
	process->share.count--;
	process->share.credit += THIN_ONE;
	process->share.weight += weight - t->own - (uint64_t)t->extra;
}

uint64_t thin_afford(uint64_t ns, uint64_t used_ns, uint64_t kept)
{
	uint64_t most = kept * AFFORD_STEP + AFFORD_LEAST;

	if (used_ns <= ns / AFFORD_STEP)
		return most;
	return max_u64(kept / AFFORD_STEP, min_u64(most, kept * ns / used_ns));
}
