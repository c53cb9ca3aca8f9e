/* pair.h - the time from one tracepoint to another one with the same key, on all CPUs.  Thread: main.
 *
 *   FROM  sched:sched_waking  pid ───────► key ─► time          (PAIR_KEYS at most)
 *   TO    sched:sched_switch  next_pid ──► the same key: a latency
 *
 * Both events go to one ring a CPU and are joined in order of time across CPUs.  No stack is taken. */
#pragma once

#include "perf/spec.h"

enum {
	PAIR_KEYS = 65536,
	PAIR_RING_BYTES = 1 << 20, /* a CPU: some 10,000 records between two reads */
};

struct pair_end {
	const char *event, *field; /* "GROUP:NAME", and an integer of it */
};

struct pair_options {
	const char *root; /* before /sys: "" on a machine */
	struct pair_end from, to;
	const uint32_t *cpus; /* online CPUs */
	size_t n_cpus;
};

/* Since the read before. */
struct pair_result {
	uint64_t longest_ns, n; /* of the pairs; 0: there was none */
	uint64_t key;		/* of the longest */
	uint64_t
		lost; /* records that a full ring did not take: pairs are missing, none is too long */
};

struct pair;
/* Opens and starts both events; borrows nothing.  < 0: one line in @error: an event or a field that does not exist, a refusal of
 * the kernel, no memory. */
int pair_new(const struct pair_options *options, struct pair **ret_pair, char *error,
	     size_t error_size);
struct pair *pair_free(struct pair *pair);
/* < 0: a ring is damaged. */
int pair_read(struct pair *pair, struct pair_result *ret_result);

/* ---- for tests ---- */
/* One record in order of time: FROM, TO with @key at @time (ns).  @drop: a key that no longer waits (TO is a switch, and this
 * thread has just run), or no key: PAIR_NO_KEY. */
enum pair_kind { PAIR_FROM = 1, PAIR_TO };
#define PAIR_NO_KEY UINT64_MAX
int pair_take(struct pair *pair, enum pair_kind kind, uint64_t key, uint64_t drop, uint64_t time,
	      struct pair_result *result);
/* Without events. */
struct pair *pair_new_empty(void);
