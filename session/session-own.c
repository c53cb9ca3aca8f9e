/* session-own.c - events for all processes that the requester may record, and for no CPU.  Thread: main.
 *
 *   /proc ── OWN_LOOKS pids a turn ──► covered? ── wanted()? allowed()? ──► inherited events for each thread
 *     ▲                                                                          allowed() again, else withdrawn
 *     └── OWN_PAUSE ── end of the walk ◄──┘
 *
 * The first turn is before the start, the others are in the session's ticks: each has a bound in time, as every
 * other session waits for main.  Descendants inherit the events.  A process that begins outside of the recorded
 * ones (a login, a service) is found by a later walk.  That walk takes a process as covered if the process
 * table has it: the table learns of a process that inherited by its FORK record, which lies in a ring for a read
 * period at most, so a process younger than OWN_MIN_AGE is left to the next walk.  A process that gets events
 * although it inherited some is sampled twice, and perf_source_is_inherited_double() drops the doubles.
 *
 * A descriptor is kept until the session ends (perf_source_fds_per_task()).  When no more are allowed the walks
 * end, and a note gives the number of processes that are left out. */
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "proc/procfs.h"
#include "session/session-private.h"

enum {
	OWN_LOOKS = 512,
	OWN_FIRST_MS = 50, /* the first turn */
	OWN_TURN_MS = 5,
	OWN_PAUSE_MS = 1000,
	OWN_MIN_AGE_MS = 1000,
	OWN_PASSES = 8,
};

/* What came of a process. */
enum { OWN_OPENED, OWN_SKIPPED, OWN_FULL };

static bool is_covered(const struct session *s, uint32_t pid)
{
	const struct process *process = process_find(s->processes, pid);

	return (process && !process->exited) || perf_source_has_task(s->source, (pid_t)pid);
}

static bool is_young(const struct session *s, uint32_t pid)
{
	uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK), now = clock_ns(CLOCK_BOOTTIME), start;
	struct procfs_status status;

	if (!s->own.n_walks || procfs_status(s->options.proc_root, pid, &status) < 0)
		return false;
	start = status.start_ticks * (NSEC_PER_SEC / hz);
	return now < start + OWN_MIN_AGE_MS * NSEC_PER_MSEC;
}

static bool is_wanted(const struct session *s, uint32_t pid)
{
	const struct session_options *so = &s->options;

	if (so->wanted && !so->wanted_by_cmdline && !so->wanted(so->wanted_arg, pid, NULL, 0))
		return false;
	return so->allowed(so->allowed_arg, pid);
}

static bool has_room(const struct session *s)
{
	size_t each = perf_source_fds_per_task(perf_source_options(s->source));

	return (perf_source_n_tasks(s->source) + 1) * each <= session_descriptors(s);
}

/* Those that are not yet in the source.  OWN_OPENED: there was one at least. */
static int open_new_threads(struct session *s, uint32_t pid, enum perf_gate *gate, char *error,
			    size_t error_size)
{
	_cleanup_(freep) uint32_t *tids = NULL;
	int r, result = OWN_SKIPPED;
	size_t n = 0;

	if (procfs_threads(s->options.proc_root, pid, &tids, &n) < 0)
		return OWN_SKIPPED; /* gone */
	for (size_t i = 0; i < n; i++) {
		if (perf_source_has_task(s->source, (pid_t)tids[i]))
			continue;
		if (!has_room(s))
			return OWN_FULL;
		r = perf_source_add_task(s->source, (pid_t)tids[i], gate, error, error_size);
		if (r < 0)
			return *gate == PERF_GATE_FILES ? OWN_FULL : trace(r);
		if (r == 0)
			result = OWN_OPENED;
	}
	return result;
}

/* All of its threads or none.  < 0: @error has the line. */
static int open_process(struct session *s, uint32_t pid, char *error, size_t error_size)
{
	size_t before = perf_source_n_tasks(s->source);
	enum perf_gate gate = PERF_GATE_NONE;
	int r = OWN_OPENED;

	for (int i = 0; i < OWN_PASSES && r == OWN_OPENED; i++)
		r = open_new_threads(s, pid, &gate, error, error_size);
	if (r == OWN_OPENED)
		r = OWN_SKIPPED; /* it starts threads all the time: those inherit */
	/* The pid may have changed hands, or the process its rights. */
	if (r == OWN_SKIPPED && s->options.allowed(s->options.allowed_arg, pid))
		return perf_source_n_tasks(s->source) > before ? OWN_OPENED : OWN_SKIPPED;
	perf_source_withdraw_tasks(s->source, before);
	if (r < 0 && (gate == PERF_GATE_PTRACE || gate == PERF_GATE_MODULE))
		r = OWN_SKIPPED; /* of this process; others may be open to us */
	return r;
}

/* It is in the table from now on, and its mappings are asked for before it is sampled. */
static int opened(struct session *s, uint32_t pid)
{
	struct session_own *own = &s->own;

	if (!process_get(s->processes, pid))
		return fail(-ENOMEM);
	if (own->n_scan == own->scan_room) {
		size_t room = own->scan_room ? 2 * own->scan_room : 64;
		uint32_t *more = reallocarray(own->scan, room, sizeof(*more));

		if (!more)
			return fail(-ENOMEM);
		own->scan = more;
		own->scan_room = room;
	}
	own->scan[own->n_scan++] = pid;
	own->n_processes++;
	return 0;
}

static int look_at(struct session *s, uint32_t pid, char *error, size_t error_size)
{
	struct session_own *own = &s->own;
	int r = OWN_SKIPPED;

	if (is_covered(s, pid) || !is_wanted(s, pid) || is_young(s, pid))
		return 0;
	if (!own->full)
		r = open_process(s, pid, error, error_size);
	if (r < 0 && own->n_processes) {
		log_verbose("process %u is left out: %s", pid, error);
		r = OWN_SKIPPED;
	}
	own->full |= r == OWN_FULL;
	own->n_left_out += own->full;
	if (r == OWN_OPENED)
		r = opened(s, pid);
	return r < 0 ? trace(r) : 0;
}

static void note_left_out(struct session *s)
{
	const struct session_own *own = &s->own;

	if (own->n_left_out && own->n_processes && own->n_walks > 1)
		session_note(s,
			     "processes that began later are left out: a recording may have %lu "
			     "descriptors for events (user-descriptors)",
			     session_descriptors(s));
	else if (own->n_left_out && own->n_processes)
		session_note(
			s,
			"%zu of your %zu processes are left out: a recording may have %lu "
			"descriptors for events (user-descriptors); name processes (-p) or fewer "
			"CPUs (--cpu)",
			own->n_left_out, own->n_processes + own->n_left_out,
			session_descriptors(s));
}

static void end_walk(struct session *s)
{
	s->own.walk = procfs_pids_free(s->own.walk);
	s->own.n_walks++;
	s->own.next_at = clock_ns(CLOCK_MONOTONIC) + OWN_PAUSE_MS * NSEC_PER_MSEC;
	note_left_out(s);
}

static int walk_on(struct session *s, uint64_t until, char *error, size_t error_size)
{
	uint32_t pids[32];
	int r = 0;

	for (size_t looks = 0; r >= 0 && s->own.walk && looks < OWN_LOOKS;
	     looks += ARRAY_SIZE(pids)) {
		size_t n = procfs_pids_next(s->own.walk, pids, ARRAY_SIZE(pids));

		for (size_t i = 0; i < n && r >= 0; i++)
			r = look_at(s, pids[i], error, error_size);
		if (!n)
			end_walk(s);
		if (clock_ns(CLOCK_MONOTONIC) >= until)
			break;
	}
	return r < 0 ? trace(r) : 0;
}

static int refuse(const struct session *s, char *error, size_t error_size)
{
	if (s->own.full)
		(void)snprintf(
			error, error_size,
			"none of your processes fits: a recording may have %lu descriptors for "
			"events (user-descriptors); fewer CPUs (--cpu) need fewer",
			session_descriptors(s));
	else if (!*error)
		(void)snprintf(
			error, error_size,
			"none of %s can be recorded: a process must have no rights or groups "
			"that are not yours, and not protect itself",
			s->options.wanted ? "the processes asked for is yours and"
					  : "your processes");
	return fail(s->own.full ? -EMFILE : -ESRCH);
}

int session_own_open(struct session *s, char *error, size_t error_size)
{
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + OWN_FIRST_MS * NSEC_PER_MSEC;
	int r = procfs_pids_open(s->options.proc_root, &s->own.walk);

	while (r >= 0 && s->own.walk && (!s->own.n_processes || clock_ns(CLOCK_MONOTONIC) < until))
		r = walk_on(s, until, error, error_size);
	if (r < 0)
		return trace(r);
	if (!s->own.n_processes)
		return refuse(s, error, error_size);
	session_note(
		s,
		"a process that you start outside of those that are recorded (a login, a service) "
		"is recorded from a few seconds after its start");
	return 0;
}

int session_own_turn(struct session *s)
{
	struct session_own *own = &s->own;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	char error[256] = "";
	int r = 0;

	if (!own->wanted)
		return 0;
	if (!own->walk && !own->full && now >= own->next_at &&
	    procfs_pids_open(s->options.proc_root, &own->walk) < 0)
		own->next_at = now + OWN_PAUSE_MS * NSEC_PER_MSEC; /* no descriptor now */
	if (own->walk)
		r = walk_on(s, now + OWN_TURN_MS * NSEC_PER_MSEC, error, sizeof(error));
	if (r >= 0 && own->n_scan && reader_scanned(s->reader)) {
		r = reader_scan(s->reader, own->scan, own->n_scan);
		own->n_scan = 0;
	}
	return r < 0 ? trace(r) : 0;
}

void session_own_deinit(struct session *s)
{
	(void)procfs_pids_free(s->own.walk);
	free(s->own.scan);
}
