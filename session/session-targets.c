/* session-targets.c - the events of a session's targets.  Thread: main.
 *
 * Tasks get inherited events per (task, CPU).  The target may start threads while its threads are
 * listed and opened: passes are repeated, up to a bound, until one finds no new thread (a thread
 * that starts after the events of its parent were opened inherits them).  Where threads x CPUs
 * would take half of the descriptors, CPU-wide events and a filter are used instead.
 *
 * A requester of the daemon decides which processes are looked up, and all other requesters wait
 * for that: a pass costs no more than the requested processes or one look at each of the machine
 * (procfs_families()), and the owner of the session sets limits on processes and descriptors.
 *
 * Own processes (options.machine with options.tasks_only): events for all processes that the
 * requester may record, and for no CPU.
 *
 *   /proc ─ OWN_LOOKS pids a turn ─► covered? ─ wanted()? allowed()? ─► inherited events
 *     ▲                                 │                           allowed() again, else withdrawn
 *     └── OWN_PAUSE ── end of the walk ◄┘
 *
 * The first turn is before the start, the others are in the ticks of the session.  Each has a
 * bound in time, as all other sessions wait for main.  Descendants inherit the events.  A process
 * that was started outside of the recorded ones (a login, a service) is found by a later walk.  A
 * walk takes a process as covered if the process table has it.  The table learns of a process that
 * inherited from its FORK record, which lies in a ring for one read period at most, so a process
 * younger than OWN_MIN_AGE_MS is left to the next walk.  A process that gets events although it
 * inherited some is sampled twice, and perf_source_is_inherited_double() drops the second samples.
 *
 * A descriptor is kept until the session ends (perf_source_fds_per_task()).  When no more are
 * allowed the walks end, and a note gives the number of processes that are not recorded. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "perf/gate.h"
#include "proc/procfs.h"
#include "session/session-private.h"

enum {
	MAX_PASSES = 8,	 /* main is held for these */
	LIMIT_SHARE = 8, /* of the process's descriptors: one requester does not take them all */
	OWN_LOOKS = 512,
	OWN_FIRST_MS = 50, /* the first turn */
	RING_STACKS = 128,
	OWN_TURN_MS = 5,
	OWN_PAUSE_MS = 1000,
	OWN_MIN_AGE_MS = 1000,
	OWN_PASSES = 8,
};

/* ---- options of the events ---- */

static uint64_t ring_budget(const struct session_options *so)
{
	return so->ring_budget ? so->ring_budget : SESSION_RINGS_BYTES;
}

/* 125 ms of the largest copies, which are those of the first second: a page of a ring takes a microsecond to make. */
uint64_t session_ring_of_tasks(uint64_t frequency)
{
	return round_up_power_of_two(frequency * ADAPT_MAX / 8 + 1);
}

/* Where stack copies can grow to 64 KiB the rings are made for that from the start, within the
 * budget; 0: the default of the events. */
static uint64_t adapting_ring(const struct session *s, bool tasks)
{
	const struct session_options *so = &s->options;
	uint64_t wanted, share = (ring_budget(so) / max_u64(so->n_cpus, 1)) * 3 / 4;

	if (so->stack_bytes || !so->frequency || so->engine == UW_ENGINE_FP ||
	    !(session_frames(s) & FRAMES_USER))
		return 0;
	if (tasks)
		return so->waits ? 0 : session_ring_of_tasks(so->frequency);
	/* 250 ms, and at low rates up to a second: on a machine with many busy threads main waits that long for a CPU. */
	wanted = round_up_power_of_two(
		max_u64(so->frequency / 4, min_u64(so->frequency, RING_STACKS)) * ADAPT_MAX + 1);
	while (wanted > share)
		wanted /= 2;
	return wanted > so->frequency * ADAPT_FIRST / 4 ? wanted : 0;
}

/* The frames that the kernel finds: its own, and user frames for the engine that takes them from
 * it. */
static unsigned callchain_of(const struct session *s)
{
	unsigned frames = session_frames(s);

	if (!(s->options.code & FRAMES_KERNEL) || s->options.poll_ms)
		frames &= FRAMES_USER;
	if (s->options.engine != UW_ENGINE_FP)
		frames &= FRAMES_KERNEL;
	return frames;
}

/* No timer while they sleep (session-pace.c): not for waits, which are looked at while they last, and not in a
 * daemon, which looks after its clients each 100 ms or so. */
static bool may_sleep(const struct session_options *so)
{
	enum perf_weight weight = so->specs[0].weight;

	return !so->waits && !so->raw && !so->poll_ms && !so->shared &&
	       (weight == PERF_WEIGHT_TIME || weight == PERF_WEIGHT_CYCLES);
}

static void perf_options_of(struct session *s, struct perf_options *o, bool tasks)
{
	const struct session_options *so = &s->options;
	bool copies = so->engine != UW_ENGINE_FP && session_frames(s) & FRAMES_USER;

	*o = (struct perf_options){
		.leader = so->specs[0],
		.n_followers = min_u64(so->n_specs - 1, PERF_MAX_FOLLOWERS),
		.period = so->period,
		.frequency = so->frequency,
		.stack_bytes = !copies		 ? 0
			       : so->stack_bytes ? so->stack_bytes
			       : tasks		 ? ADAPT_MAX
						 : ADAPT_FIRST,
		.data_mappings = so->raw != NULL,
		.kernel_build_ids = so->kernel_build_ids,
		.chain_field = so->raw != NULL,
		.callchain = callchain_of(s),
		.clock = so->clock,
		.cpus = so->cpus,
		.n_cpus = so->n_cpus,
		.tasks = tasks,
		.watch = tasks && !s->own.wanted && may_sleep(so),
		/* In a daemon descriptors of tasks are counted by user. */
		.soon = copies && !(tasks && (s->own.wanted || so->shared)) &&
			session_may_read_soon(so),
		.sizes = tasks && copies && !s->own.wanted && !so->shared && so->n_specs == 1 &&
			 so->engine == UW_ENGINE_NATIVE && session_may_choose_copies(so),
		.rates = tasks && so->max_cpu_ppm && so->frequency && !s->own.wanted &&
			 so->n_specs == 1 && !so->waits && !so->raw,
		.poll = so->poll_ms != 0,
		.ignore_open_failure = so->ignore_open_failure,
		.children = so->children,
		.alone = so->n_tids > 0,
		.enable_on_exec = so->child != 0,
		.ring_bytes = so->ring_bytes ? so->ring_bytes : adapting_ring(s, tasks),
		.ring_budget = ring_budget(so),
		.n_sources = so->n_sources,
		.switches = so->waits != SESSION_WAITS_NONE,
		.waking = so->waits ? so->waking : 0,
		.wakers = so->waits && so->waking && so->wakers,
		.features = so->features,
		/* the program learns from stacks that are unwound from copies */
		.at_sample = so->engine == UW_ENGINE_NATIVE ? so->at_sample : NULL,
		.note = session_limit,
		.note_arg = s,
	};
	o->leader.code &= so->code;
	for (size_t i = 0; i < o->n_followers; i++)
		o->followers[i] = so->specs[i + 1];
}

static const char *clock_name(int clock)
{
	return clock == CLOCK_MONOTONIC	      ? "monotonic"
	       : clock == CLOCK_MONOTONIC_RAW ? "monotonic_raw"
	       : clock == CLOCK_BOOTTIME      ? "boottime"
	       : clock == CLOCK_REALTIME      ? "realtime"
					      : "?";
}

/* With -v: the chosen events, and what the fallbacks left of each. */
static void log_choices(const struct session *s)
{
	const struct perf_options *o = perf_source_options(s->source);

	log_verbose("event: %s, %s %lu, of %s on %zu CPUs; %s; clock %s", o->leader.name,
		    o->frequency ? "Hz" : "one each", o->frequency ? o->frequency : o->period,
		    o->tasks ? "threads" : "whole CPUs", o->n_cpus,
		    o->leader.code & FRAMES_KERNEL ? "user and kernel code" : "user code only",
		    clock_name(o->clock));
	if (o->stack_bytes)
		log_verbose("stacks: %zu registers and %u bytes of each; unwound by %s",
			    uw_arch_regs(UW_ARCH_HOST), o->stack_bytes,
			    uw_engine_name(s->options.engine));
	else
		log_verbose("stacks: %s", o->callchain & FRAMES_USER
						  ? "the kernel's callchain, by frame pointers"
					  : o->callchain ? "kernel frames only"
							 : "none");
}

/* ---- limits ---- */

/* For the events of all tasks. */
static uint64_t max_descriptors(const struct session *s)
{
	struct rlimit limit = {1024, 1024};
	uint64_t most = s->options.max_descriptors;

	(void)getrlimit(RLIMIT_NOFILE, &limit);
	return most ? min_u64(most, limit.rlim_max / LIMIT_SHARE) : limit.rlim_max;
}

static int refuse_threads(const struct session *s, uint64_t n, char *error, size_t error_size)
{
	(void)snprintf(
		error, error_size,
		"%lu threads on %zu CPUs need more descriptors for events than the limit of %lu "
		"for a recording (%s); hint: name fewer processes (-p) or CPUs (--cpu)",
		n, s->options.n_cpus, max_descriptors(s),
		s->options.max_descriptors ? "user-descriptors" : "limit of open files");
	return fail(-EMFILE);
}

/* ---- processes that were requested ---- */

/* The requested processes, with their descendants where wanted; each once. */
static int list_processes(struct session *s, char *error, size_t error_size)
{
	const struct session_options *so = &s->options;
	_cleanup_(freep) uint32_t *pids = NULL;
	size_t n = so->n_pids;
	int r = 0;

	if (so->children) {
		r = procfs_families(so->proc_root, so->pids, so->n_pids, so->max_processes, &pids,
				    &n);
	} else {
		pids = reallocarray(NULL, n + 1, sizeof(*pids));
		r = pids ? 0 : fail(-ENOMEM);
		for (size_t i = 0; i < n && r >= 0; i++)
			pids[i] = so->pids[i];
		n = r >= 0 ? sort_unique_u32(pids, n) : 0;
	}
	if (r < 0)
		return trace(r);
	if (so->max_processes && n > so->max_processes) {
		(void)snprintf(
			error, error_size,
			"%s%zu processes%s are requested, but the limit of a recording is %u "
			"(user-processes)",
			so->children ? "at least " : "", n,
			so->children ? " with their children" : "", so->max_processes);
		return fail(-E2BIG);
	}
	free(s->scope_pids);
	s->scope_pids = take(pids);
	s->n_scope_pids = n;
	return 0;
}

static uint64_t count_threads(const struct session *s)
{
	uint64_t sum = 0;

	if (s->options.n_tids) /* whole CPUs cannot stand in for threads */
		return 0;
	for (size_t i = 0; i < s->n_scope_pids; i++) {
		_cleanup_(freep) uint32_t *tids = NULL;
		size_t n = 0;

		if (procfs_threads(s->options.proc_root, s->scope_pids[i], &tids, &n) >= 0)
			sum += n;
	}
	return sum;
}

static int check_pids(struct session *s, char *error, size_t error_size)
{
	for (size_t i = 0; i < s->options.n_pids; i++) {
		struct procfs_status status;

		if (procfs_status(s->options.proc_root, s->options.pids[i], &status) >= 0)
			continue;
		/* The kernel has one that /proc does not show: another user's. */
		if (!*s->options.proc_root && getpgid((pid_t)s->options.pids[i]) > 0)
			(void)snprintf(
				error, error_size,
				"no permission to see process %u: this /proc shows the user's own "
				"processes (hidepid); hint: sudo perfwind record -p %u",
				s->options.pids[i], s->options.pids[i]);
		else
			(void)snprintf(error, error_size,
				       "no process %u; hint: pgrep NAME prints ids",
				       s->options.pids[i]);
		return fail(-ESRCH);
	}
	return 0;
}

static int all_exited(const struct session *s, char *error, size_t error_size)
{
	(void)snprintf(error, error_size, "no process %u (it has exited)", s->options.pids[0]);
	return fail(-ESRCH);
}

struct pass {
	struct table seen; /* tid -> 1 */
	size_t n_new, n_open;
	uint64_t most; /* may be open */
	int error;
	enum perf_gate gate;
};

/* Not one of the other threads of its process? */
static bool is_requested(const struct session_options *so, uint32_t tid)
{
	for (size_t i = 0; i < so->n_tids; i++)
		if (so->tids[i] == tid)
			return true;
	return !so->n_tids;
}

static int open_threads_of(struct session *s, uint32_t pid, struct pass *pass, char *error,
			   size_t error_size)
{
	_cleanup_(freep) uint32_t *tids = NULL;
	size_t n = 0;
	uint64_t v;
	int r = procfs_threads(s->options.proc_root, pid, &tids, &n);

	if (r < 0)
		return 0; /* it has exited; reported below if none is left */
	for (size_t i = 0; i < n; i++) {
		if (!is_requested(&s->options, tids[i]) || table_get(&pass->seen, tids[i], &v))
			continue;
		r = table_put(&pass->seen, tids[i], 1);
		if (r < 0)
			return trace(r);
		pass->n_new++;
		if (pass->n_open >= pass->most)
			return refuse_threads(s, pass->n_open + 1, error, error_size);
		r = perf_source_add_task(s->source, (pid_t)tids[i], &pass->gate, error, error_size);
		if (r < 0)
			return r;
		pass->n_open += r == 0;
	}
	return 0;
}

static int open_all_threads(struct session *s, char *error, size_t error_size)
{
	struct pass pass = {
		.most = s->options.max_descriptors
				? max_descriptors(s) /
					  perf_source_fds_per_task(perf_source_options(s->source))
				: UINT64_MAX,
	};
	int r = 0;

	for (int i = 0; i < MAX_PASSES && r >= 0; i++) {
		pass.n_new = 0;
		if (i)
			r = list_processes(s, error, error_size);
		for (size_t j = 0; j < s->n_scope_pids && r >= 0; j++)
			r = open_threads_of(s, s->scope_pids[j], &pass, error, error_size);
		if (r >= 0 && !pass.n_new)
			break;
	}
	table_deinit(&pass.seen);
	if (r >= 0 && !pass.n_open)
		return all_exited(s, error, error_size);
	return r < 0 ? trace(r) : 0;
}

static int open_child(struct session *s, enum perf_gate *gate, char *error, size_t error_size)
{
	uint32_t *pids = malloc(sizeof(*pids));

	if (!pids)
		return fail(-ENOMEM);
	*pids = s->options.child;
	s->scope_pids = pids;
	s->n_scope_pids = 1;
	return perf_source_add_task(s->source, (pid_t)*pids, gate, error, error_size);
}

/* ---- CPUs ---- */

static bool is_online(const uint32_t *online, size_t n, uint32_t cpu)
{
	for (size_t i = 0; i < n; i++) {
		if (online[i] == cpu)
			return true;
	}
	return false;
}

/* A data source takes the CPUs of its list that are online. */
static int keep_online(struct session *s, size_t n_online, char *error, size_t error_size)
{
	size_t n = 0;

	for (size_t i = 0; i < n_online; i++) { /* own_cpus is the list from here on */
		if (is_online(s->options.cpus, s->options.n_cpus, s->own_cpus[i]))
			s->own_cpus[n++] = s->own_cpus[i];
	}
	s->options.cpus = s->own_cpus;
	s->options.n_cpus = n;
	if (n)
		return 0;
	(void)snprintf(error, error_size, "none of the requested CPUs is online");
	return fail(-ENODEV);
}

/* All CPUs that are online, or the requested ones: each must be online. */
static int choose_cpus(struct session *s, char *error, size_t error_size)
{
	size_t n_online;
	int r = perf_online_cpus(&s->own_cpus, &n_online);

	if (r < 0)
		return trace(r);
	if (!s->options.cpus) {
		s->options.cpus = s->own_cpus;
		s->options.n_cpus = n_online;
	}
	if (s->options.producer)
		return keep_online(s, n_online, error, error_size);
	for (size_t i = 0; i < s->options.n_cpus; i++) {
		if (is_online(s->own_cpus, n_online, s->options.cpus[i]))
			continue;
		(void)snprintf(error, error_size, "CPU %u does not exist or is not online",
			       s->options.cpus[i]);
		return fail(-ENODEV);
	}
	return 0;
}

/* ---- own processes ---- */

/* Outcomes for one process. */
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

	return (perf_source_n_tasks(s->source) + 1) * each <= max_descriptors(s);
}

/* Threads that are not yet in the source.  OWN_OPENED: at least one. */
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

/* All threads of the process or none.  < 0: *error has the line for the user. */
static int open_process(struct session *s, uint32_t pid, char *error, size_t error_size)
{
	size_t before = perf_source_n_tasks(s->source);
	enum perf_gate gate = PERF_GATE_NONE;
	int r = OWN_OPENED;

	for (int i = 0; i < OWN_PASSES && r == OWN_OPENED; i++)
		r = open_new_threads(s, pid, &gate, error, error_size);
	if (r == OWN_OPENED)
		r = OWN_SKIPPED; /* it keeps starting threads, which inherit */
	/* Another process may have the pid now, or the process other privileges. */
	if (r == OWN_SKIPPED && s->options.allowed(s->options.allowed_arg, pid))
		return perf_source_n_tasks(s->source) > before ? OWN_OPENED : OWN_SKIPPED;
	perf_source_withdraw_tasks(s->source, before);
	if (r < 0 && (gate == PERF_GATE_PTRACE || gate == PERF_GATE_MODULE))
		r = OWN_SKIPPED; /* this process is closed to us; others may not be */
	return r;
}

/* The process is in the table from now on, and its mappings are requested before it is sampled. */
static int opened(struct session *s, uint32_t pid)
{
	struct session_own *own = &s->own;

	if (!process_get(s->processes, pid))
		return fail(-ENOMEM);
	if (own->n_scan == own->scan_room && !array_grow(own->scan, own->scan_room, 64))
		return fail(-ENOMEM);
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
		log_verbose("process %u is not recorded: %s", pid, error);
		r = OWN_SKIPPED;
	}
	own->full |= r == OWN_FULL;
	own->n_unrecorded += own->full;
	if (r == OWN_OPENED)
		r = opened(s, pid);
	return r < 0 ? trace(r) : 0;
}

static void note_unrecorded(struct session *s)
{
	const struct session_own *own = &s->own;

	if (own->n_unrecorded && own->n_processes && own->n_walks > 1)
		session_note(s,
			     "processes that were started later are not recorded: the limit of a "
			     "recording is %lu descriptors for events (user-descriptors)",
			     max_descriptors(s));
	else if (own->n_unrecorded && own->n_processes)
		session_note(
			s,
			"%zu of your %zu processes are not recorded: the limit of a recording is "
			"%lu descriptors for events (user-descriptors); hint: name processes (-p) "
			"or fewer CPUs (--cpu)",
			own->n_unrecorded, own->n_processes + own->n_unrecorded,
			max_descriptors(s));
}

static void end_walk(struct session *s)
{
	s->own.walk = procfs_pids_free(s->own.walk);
	s->own.n_walks++;
	s->own.next_at = clock_ns(CLOCK_MONOTONIC) + OWN_PAUSE_MS * NSEC_PER_MSEC;
	note_unrecorded(s);
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
			"none of your processes can be recorded within the limit of %lu "
			"descriptors for events (user-descriptors); hint: name fewer CPUs (--cpu)",
			max_descriptors(s));
	else if (!*error)
		(void)snprintf(
			error, error_size,
			"none of %s can be recorded: a process must have no privileges or groups "
			"that you lack, and must not be protected from ptrace",
			s->options.wanted ? "the requested processes is yours and"
					  : "your processes");
	return fail(s->own.full ? -EMFILE : -ESRCH);
}

static int open_own(struct session *s, char *error, size_t error_size)
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
		s, "a process that is started outside of the recorded ones (a login, a service) is "
		   "recorded from a few seconds after its start");
	return 0;
}

/* One step of the walk for new processes. */
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

/* ---- all of it ---- */

/* CPU-wide events and a filter instead of the tasks' own events.  false: not permitted to this
 * user; the caller then reports that there are too few descriptors. */
static bool stand_in(struct session *s)
{
	enum perf_gate gate = PERF_GATE_NONE;
	struct perf_options o;
	char error[512];

	if (s->options.tasks_only)
		return false;
	perf_options_of(s, &o, false);
	if (perf_source_new(&o, &s->source, &gate, error, sizeof(error)) < 0)
		return false;
	s->stood_in = true;
	session_note(s, "too many threads for events of their own (limit of open files): whole "
			"CPUs are sampled, and samples of other processes are skipped");
	return true;
}

/* The events of @o; whole CPUs where events for each thread on each CPU would leave less than half
 * of the descriptors. */
static int open_source(struct session *s, const struct perf_options *o, enum perf_gate *gate,
		       char *error, size_t error_size)
{
	uint64_t n_threads = o->tasks && !s->options.child ? count_threads(s) : 0;
	uint64_t most = max_descriptors(s) / (s->options.tasks_only ? 1 : 2);
	struct perf_options fewer = *o;
	int r;

	fewer.rates = false;
	if (n_threads * perf_source_fds_per_task(o) > most && o->rates)
		return open_source(s, &fewer, gate, error, error_size);
	if (n_threads * perf_source_fds_per_task(o) > most) {
		if (stand_in(s))
			return 0;
		if (s->options.max_descriptors)
			return refuse_threads(s, n_threads, error, error_size);
	}
	r = perf_source_new(o, &s->source, gate, error, error_size);
	return r < 0 ? trace(r) : 0;
}

static void note_namespace(struct session *s)
{
	struct gate_text text;

	text = gate_text(GATE_PID_NAMESPACE, 0, 0);
	session_note(s, "%s; hint: %s", text.cause, text.hint);
}

static int open_targets(struct session *s, char *error, size_t error_size)
{
	const struct session_options *so = &s->options;
	enum perf_gate gate = PERF_GATE_NONE;
	struct perf_options o;
	int r = check_pids(s, error, error_size);

	if (r < 0)
		return r;
	r = choose_cpus(s, error, error_size);
	if (r >= 0 && !so->machine && !so->child && !s->own.wanted)
		r = list_processes(s, error, error_size);
	if (r < 0)
		return r;
	perf_options_of(s, &o, !so->machine);
	r = open_source(s, &o, &gate, error, error_size);
	if (r < 0)
		return r;
	if ((so->machine || s->own.wanted) && !gate_first_pid_namespace())
		note_namespace(s);
	if (so->machine)
		return 0;
	if (s->own.wanted)
		return open_own(s, error, error_size);
	if (so->child)
		return open_child(s, &gate, error, error_size);
	if (!s->stood_in)
		return open_all_threads(s, error, error_size);
	/* Processes older than the FORK records.  An empty list would mean all processes. */
	r = list_processes(s, error, error_size);
	if (r >= 0 && !s->n_scope_pids)
		r = all_exited(s, error, error_size);
	return r;
}

int session_open_targets(struct session *s, char *error, size_t error_size)
{
	int r = open_targets(s, error, error_size);

	if (r >= 0)
		log_choices(s);
	return r < 0 ? trace(r) : 0;
}

bool session_targets_gone(struct session *s)
{
	if (!s->stood_in)
		return perf_source_tasks_gone(s->source);
	for (size_t i = 0; i < s->n_scope_pids; i++) {
		struct procfs_status status;

		if (procfs_status(s->options.proc_root, s->scope_pids[s->living], &status) >= 0 &&
		    !status.zombie)
			return false;
		s->living = (s->living + 1) % s->n_scope_pids;
	}
	return s->n_scope_pids > 0;
}

void session_targets_deinit(struct session *s)
{
	free(s->own_cpus);
	free(s->scope_pids);
	(void)procfs_pids_free(s->own.walk);
	free(s->own.scan);
}
