/* loader-pool.h - the helper processes that serve the loader's requests.  Thread: loader.
 *
 * One does all the work, usually.  While its call is not answered another takes the other requests,
 * up to POOL_SLOTS; a helper that has slept over one call for `deadline_ns` is given up, and what it
 * slept over is refused:
 *
 *   the device (st_dev) of the file that it touched   for a time that doubles, as long as it goes on:
 *   the process through which it was asked            2 s to 256 s
 *
 * Not the module: its identity (a build id) is what a target says, and a hostile one could have
 * libc refused for all others.  And not for ever: a disk that was woken up is no enemy.
 *
 * Sleeping is using no CPU time and not wanting any, so that neither a large DWARF nor a machine
 * under load is taken for a file system that does not answer; `total_ns` bounds one that answers a
 * byte at a time. */
#pragma once

#include <poll.h>

#include "session/loader/load-role.h"

enum { POOL_SLOTS = 4, POOL_TRIES = 3, POOL_REFUSALS = 64 };

struct load_pool_options {
	const struct helper_role *role; /* NULL: load_role */
	struct load_role_arg arg;
	struct memory_guard *guard; /* for the memory of processes; may be NULL */
	uint64_t slow_ns;	    /* a call this long: others go on in another helper */
	uint64_t deadline_ns, total_ns;
};

struct load_work {
	struct load_request request;
	uint32_t tries; /* helpers that were lost over it */
};

struct load_slot {
	struct helper *helper;
	bool busy;
	struct load_work work;
	uint64_t asked_at, progress_at, seen_at, cpu_ns;
	uint64_t generation;
};

/* What did not answer, until when. */
struct load_refusal {
	uint64_t key, until, period;
};

struct load_pool {
	struct load_pool_options options;
	struct load_slot slots[POOL_SLOTS];
	struct table owners; /* module serial -> generation of the slot that opened its file */
	struct load_refusal refusals[POOL_REFUSALS];
	uint64_t last_generation, past_cpu_ns;
	/* helpers given up; those that ended by themselves; those that could not be made */
	uint64_t n_stuck, n_ended, n_unmade;
	uint64_t not_before; /* after one that could not be made */
};

/* Makes the first helper.  What fails then is tried again on need, and each request fails (-EAGAIN)
 * for as long as there is none. */
void load_pool_init(struct load_pool *pool, const struct load_pool_options *options);
/* Ends the helpers; @drop is called for the requests in hand. */
void load_pool_deinit(struct load_pool *pool, void (*drop)(struct load_request *request));

/* Hands a piece of work to a helper.  POOL_FULL: none is free now.  POOL_WAITS: this one has to wait,
 * others need not.  -ETIMEDOUT: refused.  < 0: it cannot be asked. */
enum { POOL_FULL = 1, POOL_WAITS };
int load_pool_ask(struct load_pool *pool, const struct load_work *work, uint64_t now);
/* One that is through, with its answer (the caller's), also one that was given up: error -ETIMEDOUT.
 * POOL_NONE: none.  POOL_AGAIN: to be asked again (tries counts). */
enum { POOL_NONE = 1, POOL_AGAIN };
int load_pool_answer(struct load_pool *pool, uint64_t now, struct load_work *ret_work,
		     struct load_answer *ret_answer);
/* What to poll for answers; returns how many.  *ret_due: when to look again all the same, in
 * nanoseconds from @now; UINT64_MAX: never. */
size_t load_pool_poll(const struct load_pool *pool, uint64_t now, struct pollfd *ret_fds,
		      uint64_t *ret_due);
/* CPU time of all helpers so far. */
uint64_t load_pool_cpu_ns(const struct load_pool *pool);
