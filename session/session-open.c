/* session-open.c - the events of a session's targets.  Thread: main.
 *
 * Tasks get inherited events per (task, CPU).  Listing threads and opening events is a race with
 * the target, which may start threads meanwhile: passes are made until two agree (a thread that
 * starts after its parent's events are open inherits them), and no more than a few.  Where threads
 * x CPUs would eat half of the descriptors, CPU-wide events and a filter stand in.
 *
 * Who asks a daemon decides what it looks for, and everybody waits meanwhile: a pass costs no
 * more than the processes asked for or a look at each of the machine (procfs_families()), and the
 * owner of the session sets limits on processes and descriptors. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "base/error.h"
#include "proc/procfs.h"
#include "session/session-private.h"

enum { MAX_PASSES = 8 }; /* main is held meanwhile */

static uint64_t ring_budget(const struct session_options *so)
{
	return so->ring_budget ? so->ring_budget : SESSION_RINGS_BYTES;
}

/* Where copies may widen to 64 KiB the rings are made for that from the start, as far as the budget
 * goes; 0: the events' own choice. */
static uint64_t adapting_ring(const struct session *s, bool tasks)
{
	const struct session_options *so = &s->options;
	uint64_t wanted, share = (ring_budget(so) / max_u64(so->n_cpus, 1)) * 3 / 4;

	if (tasks || so->stack_bytes || !so->frequency || so->engine == UW_ENGINE_FP ||
	    !(session_frames(s) & FRAMES_USER))
		return 0;
	wanted = round_up_power_of_two(so->frequency * ADAPT_MAX / 4 + 1);
	while (wanted > share)
		wanted /= 2;
	return wanted > so->frequency * ADAPT_FIRST / 4 ? wanted : 0;
}

/* The frames that the kernel is to find: its own, and those of the engine that takes them from it. */
static unsigned callchain_of(const struct session *s)
{
	unsigned frames = session_frames(s);

	if (s->options.user_only || s->options.poll_ms)
		frames &= FRAMES_USER;
	if (s->options.engine != UW_ENGINE_FP)
		frames &= FRAMES_KERNEL;
	return frames;
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
		.chain_field = so->raw != NULL,
		.callchain = callchain_of(s),
		.clock = so->clock,
		.cpus = so->cpus,
		.n_cpus = so->n_cpus,
		.tasks = tasks,
		.poll = so->poll_ms != 0,
		.ignore_open_failure = so->ignore_open_failure,
		.children = so->children,
		.enable_on_exec = so->child != 0,
		.ring_bytes = so->ring_bytes ? so->ring_bytes : adapting_ring(s, tasks),
		.ring_budget = ring_budget(so),
		.features = so->features,
		.note = session_note_line,
		.note_arg = s,
	};
	o->leader.exclude_kernel |= so->user_only;
	o->leader.exclude_user |= so->kernel_only;
	for (size_t i = 0; i < o->n_followers; i++)
		o->followers[i] = so->specs[i + 1];
}

/* The processes asked for, with their descendants where wanted; each once. */
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
		(void)snprintf(error, error_size,
			       "%s%zu processes%s are asked for, a recording may have %u "
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

enum { LIMIT_SHARE = 8 }; /* of the process's descriptors: one requester does not take them all */

uint64_t session_descriptors(const struct session *s)
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
		"%lu threads on %zu CPUs need more descriptors for events than the %lu that a "
		"recording may have (%s): name fewer processes (-p) or CPUs (--cpu)",
		n, s->options.n_cpus, session_descriptors(s),
		s->options.max_descriptors ? "user-descriptors" : "limit of open files");
	return fail(-EMFILE);
}

struct pass {
	struct table seen; /* tid -> 1 */
	size_t n_new, n_open;
	uint64_t most; /* may be open */
	int error;
	enum perf_gate gate;
};

static int open_threads_of(struct session *s, uint32_t pid, struct pass *pass, char *error,
			   size_t error_size)
{
	_cleanup_(freep) uint32_t *tids = NULL;
	size_t n = 0;
	uint64_t v;
	int r = procfs_threads(s->options.proc_root, pid, &tids, &n);

	if (r < 0)
		return 0; /* gone: told below when nothing is left */
	for (size_t i = 0; i < n; i++) {
		if (table_get(&pass->seen, tids[i], &v))
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

static int all_exited(const struct session *s, char *error, size_t error_size)
{
	(void)snprintf(error, error_size, "no process %u (it has exited)", s->options.pids[0]);
	return fail(-ESRCH);
}

static int open_all_threads(struct session *s, char *error, size_t error_size)
{
	struct pass pass = {
		.most = s->options.max_descriptors
				? session_descriptors(s) /
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

static uint64_t count_threads(const struct session *s)
{
	uint64_t sum = 0;

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
		(void)snprintf(error, error_size, "no process %u", s->options.pids[i]);
		return fail(-ESRCH);
	}
	return 0;
}

static bool is_online(const uint32_t *online, size_t n, uint32_t cpu)
{
	for (size_t i = 0; i < n; i++) {
		if (online[i] == cpu)
			return true;
	}
	return false;
}

/* A data source takes those of its list that are online. */
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
	(void)snprintf(error, error_size, "none of the CPUs asked for is online");
	return fail(-ENODEV);
}

/* All that are online, or those asked for: each must be. */
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
		(void)snprintf(error, error_size, "CPU %u is not there or not online",
			       s->options.cpus[i]);
		return fail(-ENODEV);
	}
	return 0;
}

/* CPU-wide events and a filter in place of the tasks' own.  false: not permitted to this user, to
 * whom the words about too few descriptors will say more, if it comes to that. */
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
			"CPUs are sampled and other processes left out");
	return true;
}

/* Its inode is a constant: PROC_PID_INIT_INO, the kernel's include/linux/proc_ns.h. */
static bool in_first_pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) < 0 || st.st_ino == 0xeffffffc;
}

static const char *clock_name(int clock)
{
	return clock == CLOCK_MONOTONIC	      ? "monotonic"
	       : clock == CLOCK_MONOTONIC_RAW ? "monotonic_raw"
	       : clock == CLOCK_BOOTTIME      ? "boottime"
	       : clock == CLOCK_REALTIME      ? "realtime"
					      : "?";
}

/* With -v: what was chosen and what the ladder left of it. */
static void tell_choices(const struct session *s)
{
	const struct perf_options *o = perf_source_options(s->source);

	log_verbose("event: %s, %s %lu, of %s on %zu CPUs; %s; clock %s", o->leader.name,
		    o->frequency ? "Hz" : "one each", o->frequency ? o->frequency : o->period,
		    o->tasks ? "threads" : "whole CPUs", o->n_cpus,
		    o->leader.exclude_kernel ? "user code only" : "with the kernel's half",
		    clock_name(o->clock));
	if (o->stack_bytes)
		log_verbose("stacks: %zu registers and %u bytes of each; unwound by %s",
			    uw_arch_regs(UW_ARCH_HOST), o->stack_bytes,
			    uw_engine_name(s->options.engine));
	else
		log_verbose("stacks: %s", o->callchain & FRAMES_USER
						  ? "the kernel's chain of frame pointers"
					  : o->callchain ? "the kernel's half only"
							 : "none");
}

/* The events of @o; whole CPUs where events for each thread on each CPU would leave less than half
 * of the descriptors. */
static int open_source(struct session *s, const struct perf_options *o, enum perf_gate *gate,
		       char *error, size_t error_size)
{
	uint64_t n_threads = o->tasks && !s->options.child ? count_threads(s) : 0;
	uint64_t most = session_descriptors(s) / (s->options.tasks_only ? 1 : 2);
	int r;

	if (n_threads * perf_source_fds_per_task(o) > most) {
		if (stand_in(s))
			return 0;
		if (s->options.max_descriptors)
			return refuse_threads(s, n_threads, error, error_size);
	}
	r = perf_source_new(o, &s->source, gate, error, error_size);
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
	if ((so->machine || s->own.wanted) && !in_first_pid_namespace())
		session_note(s,
			     "a container with process ids of its own: what runs outside is left "
			     "out; hint: run it on the host (docker: --pid=host)");
	if (so->machine)
		return 0;
	if (s->own.wanted)
		return session_own_open(s, error, error_size);
	if (so->child)
		return open_child(s, &gate, error, error_size);
	if (!s->stood_in)
		return open_all_threads(s, error, error_size);
	/* Who was started before forks were told.  An empty list would be everyone. */
	r = list_processes(s, error, error_size);
	if (r >= 0 && !s->n_scope_pids)
		r = all_exited(s, error, error_size);
	return r;
}

int session_open_source(struct session *s, char *error, size_t error_size)
{
	int r = open_targets(s, error, error_size);

	if (r >= 0)
		tell_choices(s);
	return r < 0 ? trace(r) : 0;
}
