/* session-shared.c - what the sessions of one process share: the kernel's symbols, the memory
 * limit. Thread: main, but for read_names().
 *
 * Kernel symbols: while a session runs, KSYMBOL records keep them fresh.  Changes while no session ran
 * are missed, so symbols without users are valid for a minute.  A thread reads them, and outcomes with kernel frames wait for it.
 *
 * Memory: the kernel counts it by process, and sessions of several users may share this process.
 * So the session that ends is the largest one of the user with sessions that together hold most; the
 * others wait until that is gone.  The size of a session is the size of its parts that can grow:
 * its modules, and the memory that its owner keeps for it.  A limit of its own
 * (max_daemon_memory_kb of a config) applies to the process, and ends the session that has it.
 *
 * Before that a session gives back what can be had again: the tables of the trace (a new generation of ids, so what is in use is
 * written once more), modules, and processes that have ended.  The unwinder drops its half of a module in its own time, so the
 * free memory goes back to the kernel a second later.  A command that records for hours does the same where its memory has
 * grown, by programs that have ended meanwhile: at most every five minutes.
 *
 * A memory cgroup may be filled by others, too, and the kernel then kills a process of it: after our helper processes maybe a
 * target.  So a session gives back what it can where little is left, and ends where that does not help, without the names
 * that it lacks: the helper that reads them would fill the rest. */
#include <errno.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cache-dir.h"
#include "base/child.h"
#include "base/error.h"
#include "base/memory-left.h"
#include "perf/gate.h"
#include "session/session-private.h"

enum {
	KEPT_S = 60,	       /* kernel symbols without users */
	FIXED_BYTES = 4 << 20, /* queues, tables, the rule cache: about the same for each session */
	RELIEF_S = 20,	       /* between two reliefs */
	RELIEF_WORKS_S = 3,
	RELIEF_TRIM_S = 2,
	RELIEF_SHARE =
		8, /* of the limit: it begins so much below, and may take so much more until it works */
	SETTLED_S = 60,	 /* after the start, or a relief, what is in use has been read */
	GROWN_S = 300,	 /* ... and it is looked at whether memory has grown since SETTLED_S by */
	GROWN_SHARE = 4, /* so much of it, and GROWN_KB */
	GROWN_KB = 16 << 10,
	CGROUP_SHARE = 8, /* of what a memory cgroup has left at the start: that is little */
	CGROUP_NEAR = 2,  /* times as much: it is looked at each CGROUP_MS */
	CGROUP_MS = 50,
};

/* Bytes: what is little, at least and at most; of more than CGROUP_MOST there is no limit. */
static const uint64_t CGROUP_LOW_LEAST = 4 << 20, CGROUP_LOW_MOST = 48 << 20,
		      CGROUP_MOST = 1ull << 40;

int session_shared_new(struct session_shared **ret_shared)
{
	struct session_shared *shared = calloc(1, sizeof(*shared));

	if (!shared)
		return fail(-ENOMEM);
	*ret_shared = shared;
	return 0;
}

static bool names_read(struct session_shared *shared, bool wait)
{
	if (shared->reads_names)
		shared->reads_names = wait ? pthread_join(shared->names_reader, NULL)
					   : pthread_tryjoin_np(shared->names_reader, NULL);
	return !shared->reads_names;
}

static void free_shared_names(struct session_shared *shared)
{
	(void)names_read(shared, true);
	shared->kernel_names = uw_kernel_names_free(shared->kernel_names);
}

struct session_shared *session_shared_free(struct session_shared *shared)
{
	if (!shared)
		return NULL;
	free_shared_names(shared);
	free(shared);
	return NULL;
}

void session_shared_set_consent(struct session_shared *shared, struct consent *consent)
{
	shared->consent = consent;
}

struct consent *session_consent(const struct session *s)
{
	const struct session_options *so = &s->options;

	if (*so->proc_root) /* its processes cannot be asked */
		return NULL;
	return so->consent || !so->shared ? so->consent : so->shared->consent;
}

/* ---- the kernel's symbols ---- */

static void note_hidden(struct session *s)
{
	struct gate_text text;
	char line[512];

	text = gate_own_kernel_names();
	(void)snprintf(line, sizeof(line), "kernel frames will have no symbols: %s; hint: %s",
		       text.cause, text.hint);
	session_limit(s, "kernel frames without symbols", line);
}

/* A service may write no files. */
int session_cache(const struct session *s)
{
	return s->options.shared ? -1 : cache_dir_open();
}

static int open_names(struct session *s, struct uw_kernel_names **ret_names)
{
	int r = uw_kernel_names_new("", session_cache(s), ret_names);

	if (r == UW_KERNEL_HIDDEN)
		note_hidden(s);
	else if (r < 0)
		session_note(s, "kernel frames will have no symbols (/proc/kallsyms: %s)",
			     strerror(-r));
	return r;
}

static bool is_fresh(const struct session_shared *shared)
{
	return shared->n_users ||
	       clock_ns(CLOCK_MONOTONIC) - shared->left_at < KEPT_S * NSEC_PER_SEC;
}

/* The 100 ms that main would take are longer than the rings of another session last. */
static void *read_names(void *names)
{
	(void)pthread_setname_np(pthread_self(), "pw-kallsyms");
	uw_kernel_names_read(names);
	return NULL;
}

bool session_kernel_names_read(struct session *s, bool wait)
{
	return !s->options.shared || names_read(s->options.shared, wait);
}

void session_open_kernel_names(struct session *s)
{
	struct session_shared *shared = s->options.shared;

	if (!(session_code(s) & s->options.frames & FRAMES_KERNEL) || s->options.poll_ms)
		return;
	if (!shared) {
		(void)open_names(s, &s->kernel_names);
		return;
	}
	if (shared->kernel_names && !is_fresh(shared))
		free_shared_names(shared);
	if (!shared->kernel_names) {
		if (open_names(s, &shared->kernel_names) != 0)
			return;
		shared->reads_names = pthread_create(&shared->names_reader, NULL, read_names,
						     shared->kernel_names) == 0;
	}
	s->kernel_names = shared->kernel_names;
	shared->n_users++;
}

void session_check_kernel_names(struct session *s)
{
	char line[160];
	int r;

	if (!session_kernel_names_read(s, s->state != SESSION_RUNNING))
		return;
	r = s->kernel_names ? uw_kernel_names_error(s->kernel_names) : 0;
	(void)snprintf(line, sizeof(line), "kernel frames have no symbols (/proc/kallsyms: %s)",
		       strerror(-r));
	if (r < 0 && !session_has_note(s, line))
		session_note(s, "%s", line);
}

static void drop_kernel_names(struct session *s)
{
	struct session_shared *shared = s->options.shared;

	if (!shared) {
		(void)uw_kernel_names_free(s->kernel_names);
	} else if (s->kernel_names) {
		shared->n_users--;
		shared->left_at = clock_ns(CLOCK_MONOTONIC);
	}
	s->kernel_names = NULL;
}

/* ---- the memory limit ---- */

static bool status_kb(const char *text, const char *key, uint64_t *ret_kb)
{
	const char *at = strstr(text, key);
	char *end;

	if (!at)
		return false;
	*ret_kb = strtoull(at + strlen(key), &end, 10);
	return end > at + strlen(key);
}

uint64_t session_status_memory_kb(const char *text)
{
	uint64_t resident, swapped;

	return status_kb(text, "\nRssAnon:", &resident) && status_kb(text, "\nVmSwap:", &swapped)
		       ? resident + swapped
		       : 0;
}

/* Own anonymous memory, kB, in swap too; 0 when it cannot be read. */
static uint64_t own_memory_kb(void)
{
	_cleanup_(freep) char *text = NULL;

	if (read_file("/proc/self/status", 65536, &text, NULL) < 0)
		return 0;
	return session_status_memory_kb(text);
}

static uint64_t held_by(const struct session *s)
{
	const struct session_options *so = &s->options;

	return FIXED_BYTES + uw_modules_bytes(s->modules) +
	       (so->holds ? so->holds(so->holds_arg) : 0);
}

static uint64_t held_by_user(const struct session_shared *shared, uint32_t owner)
{
	uint64_t sum = 0;

	for (const struct session *s = shared->sessions; s; s = s->next_shared)
		sum += s->options.owner == owner ? held_by(s) : 0;
	return sum;
}

bool session_holds_most(const struct session *s)
{
	const struct session_shared *shared = s->options.shared;
	uint64_t most_of_user = 0, most = 0;
	const struct session *first = s;

	for (const struct session *o = shared ? shared->sessions : NULL; o; o = o->next_shared) {
		uint64_t user = held_by_user(shared, o->options.owner), own = held_by(o);

		if (user < most_of_user || (user == most_of_user && own <= most))
			continue;
		most_of_user = user;
		most = own;
		first = o;
	}
	return first == s;
}

static int relieve(struct session *s, uint64_t now)
{
	int r = writer_forget(s->writer);

	s->relief.at = now;
	s->relief.times++;
	s->relief.next = RELIEF_MODULES;
	s->relief.settled_kb = 0;
	emit_note_uses(s->emit);
	process_table_release_ended(s->processes, 0);
	return r < 0 ? trace(r) : 0;
}

static void trim(struct session *s, uint64_t now)
{
	uint64_t at = max_u64(s->relief.at, s->relief.grown_at);

	if (s->relief.next != RELIEF_TRIM || now - at < RELIEF_TRIM_S * NSEC_PER_SEC)
		return;
	s->relief.next = RELIEF_NONE;
#ifdef __GLIBC__
	(void)malloc_trim(0);
#endif
}

static int end_at_limit(struct session *s, uint64_t kb, uint64_t limit)
{
	bool own = s->options.memory_kb;
	int r;

	session_note(s, "own memory reached %lu KiB, the limit is %lu KiB: the recording ends here",
		     kb, limit);
	if (!own && !s->error) { /* the built-in limit, not a configured one: this is an error */
		s->error = fail(-ENOMEM);
		(void)snprintf(s->why, sizeof(s->why),
			       "perfwind's memory reached its limit of %lu KiB", limit);
	}
	r = writer_guardrail(s->writer, clock_ns(CLOCK_BOOTTIME));
	session_stop(s);
	return r < 0 ? trace(r) : 0;
}

enum session_cgroup session_cgroup_step(uint64_t left, uint64_t low, uint64_t since_relief)
{
	if (left >= low)
		return SESSION_CGROUP_FITS;
	if (left < low / 2) /* it fills up faster than a relief works */
		return SESSION_CGROUP_END;
	if (since_relief >= RELIEF_S * NSEC_PER_SEC)
		return SESSION_CGROUP_RELIEVE;
	return since_relief < RELIEF_WORKS_S * NSEC_PER_SEC ? SESSION_CGROUP_FITS
							    : SESSION_CGROUP_END;
}

static int end_with_cgroup(struct session *s, uint64_t left)
{
	if (!s->error) {
		s->error = fail(-ENOMEM);
		(void)snprintf(s->why, sizeof(s->why),
			       "the memory cgroup has only %lu MiB left, and the kernel would kill "
			       "processes of it: the recording ends here (hint: raise memory.max)",
			       left >> 20);
		session_note(s, "%s", s->why);
	}
	s->relief.full = true;
	session_stop(s);
	return 0;
}

/* Names of files can be read later; those of JIT code and scripts are lost. */
static void end_names(struct session *s, uint64_t left, uint64_t now)
{
	session_note(s,
		     "no further names are read: the memory cgroup has only %lu MiB left (hint: "
		     "`perfwind symbolize FILE` adds the names of files)",
		     left >> 20);
	s->relief.full = true;
	s->deadline = now;
}

int session_keep_cgroup(struct session *s)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC), low = s->relief.cgroup_low, left;
	bool names = s->state == SESSION_NAMING && !s->relief.full;

	if (!low || (s->state != SESSION_RUNNING && !names) ||
	    now - s->relief.looked < CGROUP_MS * NSEC_PER_MSEC)
		return 0;
	s->relief.looked = now;
	left = memory_left("");
	if (names) {
		if (left < low / 2)
			end_names(s, left, now);
		return 0;
	}
	s->relief.near = left < CGROUP_NEAR * low;
	switch (session_cgroup_step(left, low, s->relief.at ? now - s->relief.at : UINT64_MAX)) {
	case SESSION_CGROUP_RELIEVE:
		return trace(relieve(s, now));
	case SESSION_CGROUP_END: /* (the sessions of a daemon one after the other) */
		return s->options.goes_on || !session_holds_most(s) ? 0 : end_with_cgroup(s, left);
	default:
		return 0;
	}
}

bool session_memory_grown(uint64_t *settled_kb, uint64_t kb, uint64_t since)
{
	if (!*settled_kb && since >= SETTLED_S * NSEC_PER_SEC)
		*settled_kb = kb;
	return since >= GROWN_S * NSEC_PER_SEC &&
	       kb > *settled_kb + max_u64(*settled_kb / GROWN_SHARE, GROWN_KB);
}

/* In a daemon the memory of the process is that of several sessions. */
static int relieve_grown(struct session *s, uint64_t kb, uint64_t now)
{
	uint64_t tried = s->relief.at, last = max_u64(tried, s->relief.grown_at);
	int r;

	if (s->options.shared ||
	    !session_memory_grown(&s->relief.settled_kb, kb, now - max_u64(last, s->started_at)))
		return 0;
	r = relieve(s, now);
	s->relief.grown_at = now;
	s->relief.at = tried; /* of an attempt to stay below a limit */
	return r;
}

int session_keep_memory_small(struct session *s)
{
	uint64_t kb, now = clock_ns(CLOCK_MONOTONIC), own = s->options.memory_kb;
	uint64_t limit = own ? own : SESSION_MEMORY_KB, share = limit / RELIEF_SHARE;
	uint64_t since = s->relief.at ? now - s->relief.at : UINT64_MAX;

	trim(s, now);
	kb = own_memory_kb();
	s->loaded = 0;
	if (s->state != SESSION_RUNNING)
		return 0;
	if (kb <= limit - share)
		return relieve_grown(s, kb, now);
	if (kb <= limit + (own ? 0 : share)) {
		if (since >= RELIEF_S * NSEC_PER_SEC)
			return trace(relieve(s, now));
		if (kb <= limit || since < RELIEF_WORKS_S * NSEC_PER_SEC)
			return 0;
	}
	return own || session_holds_most(s) ? end_at_limit(s, kb, limit) : 0;
}

/* The kernel kills a process of a memory cgroup at its limit, and that may be main.  So a session takes half of what is left, at
 * most; the other half is for helper processes, which are killed first and replaced. */
int session_fit_memory(struct session *s, char *error, size_t error_size)
{
	uint64_t left = memory_left(""), *kb = &s->options.memory_kb;
	uint64_t need = s->options.machine ? SESSION_MACHINE_NEEDS : SESSION_TASKS_NEED;

	if (left < CGROUP_MOST)
		s->relief.cgroup_low =
			max_u64(min_u64(left / CGROUP_SHARE, CGROUP_LOW_MOST), CGROUP_LOW_LEAST);
	if (left == UINT64_MAX || left / 2048 >= SESSION_MEMORY_KB)
		return 0;
	if (left < need) {
		(void)snprintf(error, error_size,
			       "cannot record: the memory cgroup has %lu MiB left, this recording "
			       "needs %lu (hint: raise memory.max of the cgroup or of one above%s)",
			       left >> 20, need >> 20,
			       s->options.machine ? ", or record one process: -p PID" : "");
		return fail(-ENOMEM);
	}
	child_expendable(true);
	*kb = *kb ? min_u64(*kb, left / 2048) : left / 2048;
	return 0;
}

/* ---- the list of sessions ---- */

void session_share(struct session *s)
{
	struct session_shared *shared = s->options.shared;

	if (!shared)
		return;
	s->next_shared = shared->sessions;
	shared->sessions = s;
}

void session_unshare(struct session *s)
{
	struct session_shared *shared = s->options.shared;

	drop_kernel_names(s);
	if (!shared)
		return;
	for (struct session **at = &shared->sessions; *at; at = &(*at)->next_shared) {
		if (*at != s)
			continue;
		*at = s->next_shared;
		break;
	}
}
