/* loader.h - everything slow, away from the samples.  Thread: main creates and frees it, sends requests
 * and receives answers; a thread of its own passes the requests on.
 *
 * It reads /proc, opens the files behind mappings, loads unwind sections, symbol tables and lines.
 * For a session, helper processes with a deadline do this (thread: loader): a target's files and
 * memory may never answer.  The request then fails: error -ETIMEDOUT, or -EBUSY for another file on
 * the same device, and the module is UNREADABLE and uw_module_unresponsive().
 *
 * Of the helper processes usually one does all the work.  While it does not answer, others take the remaining requests, up to
 * POOL_SLOTS.  A helper that has slept over one request for `deadline_ns` is given up, and two things
 * are refused:
 *
 *   the device (st_dev) of the file in use     2 s, twice that at each repetition, 256 s at most
 *   the process of the request                 the same
 *
 * The module is not refused: its identity (a build id) is the target's word, and a hostile target could
 * have libc refused for all others.  No refusal is permanent: a slow disk is not an attack.
 *
 * A helper sleeps if it neither uses nor wants CPU time, so a large DWARF or a loaded machine is not
 * taken for a file system that does not answer.  `total_ns` bounds one that answers a byte at a time. */
#pragma once

#include <poll.h>

#include "base/queue.h"
#include "proc/file-places.h"
#include "session/loader/load-request.h"
#include "session/loader/load-role.h"

struct loader;
struct tsc_conversion;
struct memory_guard;
struct loader_options {
	const char *root;	     /* "" or the folder of a fake proc/ */
	struct waker *answers;	     /* main's */
	struct memory_guard *memory; /* what answers' memory is read through; may be NULL */
	bool copies; /* an engine reads the modules' files itself: they come as copies */
	int cache;   /* a folder for lines (base/cache-dir.h); consumed, -1: none */
};
/* Starts a helper process and the thread. */
int loader_new(const struct loader_options *options, struct loader **ret_loader);
/* Without either, for files that are our own user's: what is asked is done by the loader_answer()
 * that takes its answer, in a fixed order. */
int loader_new_inline(const char *root, struct loader **ret_loader);
/* Further places of files, for one without helper processes.  Borrows @places. */
void loader_set_places(struct loader *loader, const struct file_places *places);
/* How samples get their times from the processor's counter, for one without helper processes.  Borrows @conversion. */
void loader_set_conversion(struct loader *loader, const struct tsc_conversion *conversion);
/* Does not wait for requests in hand. */
struct loader *loader_free(struct loader *loader);
/* false: too many are waiting. */
bool loader_ask(struct loader *loader, const struct load_request *request);
/* The next answer (the caller deinits it); false: none now. */
bool loader_answer(struct loader *loader, struct load_answer *ret_answer);
/* LOAD_UNWIND of @module with where @process has it mapped; borrows both.  The result is to be
 * deinited where it is not asked. */
struct load_request loader_module_request(const struct process *process, struct uw_module *module);
/* Requests not answered yet (symbols that follow a module included). */
uint64_t loader_pending(const struct loader *loader);

/* Symbols of files are read one at a time, with waits in between that let it use @ppm millionths of a CPU; 0: no waits, as at the
 * start.  One file is read whole; no wait is longer than 60 s.  Not for a loader without helper processes. */
void loader_pace(struct loader *loader, uint32_t ppm);

/* Helper processes that were given up, that ended by themselves, that could not be made; CPU time of all (any thread, a
 * snapshot). */
struct loader_counts {
	uint64_t stuck, ended, unmade, cpu_ns;
};
void loader_count(const struct loader *loader, struct loader_counts *ret_counts);

/* ---- the helper processes: for tests ---- */

enum { POOL_SLOTS = 4, POOL_TRIES = 3, POOL_REFUSALS = 64 };

struct load_pool_options {
	const struct helper_role *role; /* NULL: load_role */
	struct load_role_arg arg;
	struct memory_guard *guard; /* for the memory of processes; may be NULL */
	uint64_t
		slow_ns; /* a helper that sleeps after this time, or has then used as much CPU: another one takes the others */
	uint64_t deadline_ns, total_ns;
};

struct load_work {
	struct load_request request;
	uint32_t tries; /* helpers that it has cost */
};

struct load_slot {
	struct helper *helper;
	bool busy;
	struct load_work work;
	uint64_t asked_at, progress_at, seen_at, cpu_ns;
	bool slow;
	uint64_t slow_at,
		slow_cpu_ns; /* the last look whether it is slow, 0: none; its CPU time at the first one */
	uint64_t generation;
};

/* A device or process that is refused until a time. */
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

/* Starts the first helper.  If that fails it is tried again when a request needs one; until then requests fail (-EAGAIN). */
void load_pool_init(struct load_pool *pool, const struct load_pool_options *options);
/* Ends the helpers; @drop is called for the requests in hand. */
void load_pool_deinit(struct load_pool *pool, void (*drop)(struct load_request *request));

/* Passes a request to a helper.  POOL_FULL: none is free now.  POOL_WAITS: this request has to wait,
 * others need not.  -ETIMEDOUT: refused.  < 0: it cannot be passed on. */
enum { POOL_FULL = 1, POOL_WAITS };
int load_pool_ask(struct load_pool *pool, const struct load_work *work, uint64_t now);
/* A finished request with its answer (the caller deinits it), also one that was given up: error -ETIMEDOUT.
 * POOL_NONE: none.  POOL_AGAIN: the request has to be passed on again (`tries` counts). */
enum { POOL_NONE = 1, POOL_AGAIN };
int load_pool_answer(struct load_pool *pool, uint64_t now, struct load_work *ret_work,
		     struct load_answer *ret_answer);
/* What to poll for answers; returns how many.  *ret_due: when to look again all the same, in
 * nanoseconds from @now; UINT64_MAX: never. */
size_t load_pool_poll(const struct load_pool *pool, uint64_t now, struct pollfd *ret_fds,
		      uint64_t *ret_due);
/* CPU time of all helpers so far. */
uint64_t load_pool_cpu_ns(const struct load_pool *pool);
