/* recording.c - see recording.h.  Thread: main.
 *
 * A pid may come to mean another process between the check and the opening of its events, so it is checked
 * before and after that.  Later changes of a target are watched by the kernel and by the session: an exec of a
 * set-user-ID program ends inherited events (fs/exec.c), and each process is judged again and again
 * (policy_owns(), by session_options.allowed).  No path that a client names is opened. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "perf/spec-list.h"
#include "base/error.h"
#include "config/perf-config.h"
#include "daemon/control/recording.h"
#include "proc/procfs.h"

enum {
	RESERVED_PART = 8
}; /* one recording in so many is for requesters that may record everything */

/* -EPERM, and the line in @error. */
_printf_(3, 4) static int denied(char *error, size_t size, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(error, size, format, ap);
	va_end(ap);
	return fail(-EPERM);
}

static int denied_kernel(char *error, size_t size)
{
	return denied(error, size,
		      "you may not record kernel code: see all-groups in /etc/perfwind.conf");
}

static bool is_root(const struct recording *rec)
{
	return !rec->requester->ids.uid;
}

/* ---- turns: the main thread's time, by person ----
 *
 * The limits below bound what is open at one time, not how often one user opens and closes: each time takes tens of ms of the
 * main thread, or hundreds for many processes, and the rings of all other users fill meanwhile.  A person's recordings may
 * use one part in TURN_SHARE of the time, after TURN_AHEAD_NS at once. */

enum { TURN_SHARE = 5, TURN_AHEAD_NS = 1000000000 };

/* The person's, or the one that ended first. */
static struct recording_turn *turn_of(struct recordings *all, uint32_t person)
{
	struct recording_turn *best = &all->turns[0];

	for (size_t i = 0; i < ARRAY_SIZE(all->turns); i++) {
		if (all->turns[i].from && all->turns[i].person == person)
			return &all->turns[i];
		if (all->turns[i].from < best->from)
			best = &all->turns[i];
	}
	return best;
}

bool recording_may_open(const struct recording *rec)
{
	const struct recording_turn *t = turn_of(rec->all, rec->requester->person);

	return is_root(rec) || t->person != rec->requester->person ||
	       t->from <= clock_ns(CLOCK_MONOTONIC) + TURN_AHEAD_NS;
}

/* The main thread has worked for it since @from. */
static void charge(const struct recording *rec, uint64_t from)
{
	struct recording_turn *t = turn_of(rec->all, rec->requester->person);
	uint64_t took = clock_ns(CLOCK_MONOTONIC) - from;

	if (t->person != rec->requester->person)
		*t = (struct recording_turn){.person = rec->requester->person};
	t->from = max_u64(t->from, from) + took * TURN_SHARE;
}

/* ---- limits: by person, root has none but max-recordings ----
 *
 * Recordings and samples a second are counted over all recordings of a person; each data source of a trace
 * config counts as one.  Memory, processes and descriptors are divided: one recording may use the part of
 * user-recordings, whatever the others use. */

static uint32_t share(const struct recording *rec, uint32_t of_all)
{
	return (uint32_t)max_u64(of_all / max_u64(rec->all->policy.user_recordings, 1), 1);
}

static uint64_t memory_share(const struct recording *rec)
{
	return share(rec, rec->all->policy.user_memory);
}

struct in_use {
	uint64_t all, own; /* sessions */
	uint64_t rate;	   /* of the person's */
};

/* With the sessions that @rec has so far. */
static struct in_use in_use(const struct recording *rec)
{
	struct in_use use = {rec->sessions, rec->sessions, rec->rate};

	for (const struct recording *o = rec->all->first; o; o = o->next) {
		bool own = o->requester->person == rec->requester->person;

		if (o == rec)
			continue;
		use.all += max_u64(o->sessions, 1);
		use.own += own ? max_u64(o->sessions, 1) : 0;
		use.rate += own ? o->rate : 0;
	}
	return use;
}

static int check_sessions(const struct recording *rec, char *error, size_t size)
{
	const struct policy *p = &rec->all->policy;
	struct in_use use = in_use(rec);
	uint32_t reserved = rec->requester->trusted ? 0 : p->recordings / RESERVED_PART;

	if (use.all >= p->recordings - reserved)
		return denied(error, size, "%lu recordings are running (max-recordings)", use.all);
	if (!is_root(rec) && use.own >= p->user_recordings)
		return denied(error, size,
			      "you have %lu recordings running (user-recordings = %u; each data "
			      "source of a trace is one)",
			      use.own, p->user_recordings);
	return 0;
}

/* Counts one session more, of @rate samples a second. */
static int add_session(struct recording *rec, uint64_t rate, char *error, size_t size)
{
	uint64_t limit = rec->all->policy.user_rate, used = in_use(rec).rate;
	int r = check_sessions(rec, error, size);

	if (r < 0)
		return trace(r);
	if (!is_root(rec) && (used > limit || rate > limit - used))
		return denied(error, size,
			      "%lu samples a second of a CPU are asked for in all, %lu are allowed "
			      "(user-rate)",
			      rate < UINT64_MAX - used ? used + rate : UINT64_MAX, limit);
	rec->sessions++;
	rec->rate += is_root(rec) ? 0 : rate;
	return 0;
}

static uint64_t buffers_kb(const struct recording *rec)
{
	const Pb__TraceConfig *m = rec->config->message;
	uint64_t kb = 0;

	for (size_t i = 0; i < m->n_buffers; i++)
		kb += m->buffers[i]->size_kb;
	return kb;
}

static int check_buffers(const struct recording *rec, char *error, size_t size)
{
	uint64_t kb = buffers_kb(rec), most = memory_share(rec) / 4 >> 10;

	if (is_root(rec) || kb <= most)
		return 0;
	return denied(error, size,
		      "buffers of %lu KiB are asked for, a recording may have %lu (user-memory)",
		      kb, most);
}

/* Bytes that the daemon keeps for the requester outside of the session; of one of its sessions. */
static uint64_t held(void *recording)
{
	const struct recording *rec = recording;
	uint64_t buffers = rec->config ? buffers_kb(rec) << 10 : 0;

	return (rec->holds(rec->owner) + buffers) / max_u64(rec->sessions, 1);
}

static bool is_own(void *recording, uint32_t pid)
{
	const struct recording *rec = recording;

	return policy_owns("", &rec->requester->ids, pid);
}

/* Each session gets the same part of what its user may use, whatever the others use, or less as requested; 0: no limit. */
static uint32_t max_cpu_ppm(const struct recording *rec)
{
	const struct policy *p = &rec->all->policy;
	uint64_t ppm = (uint64_t)p->recording_max_cpu * 10000;
	uint64_t part = (uint64_t)p->user_max_cpu * 10000 / max_u64(p->user_recordings, 1);

	if (!is_root(rec) && p->user_max_cpu)
		ppm = ppm ? min_u64(ppm, part) : max_u64(part, 1);
	if (rec->request && rec->request->max_cpu_ppm)
		ppm = ppm ? min_u64(ppm, rec->request->max_cpu_ppm) : rec->request->max_cpu_ppm;
	return (uint32_t)ppm;
}

/* What a session may see and use. */
static void limit_session(struct recording *rec, struct session_options *so)
{
	so->shared = rec->all->shared;
	so->note = rec->step;
	so->owner = rec->requester->person;
	so->holds = held;
	so->holds_arg = rec;
	so->max_cpu_ppm = max_cpu_ppm(rec);
	if (!is_root(rec)) {
		so->max_processes = share(rec, rec->all->policy.user_processes);
		so->max_descriptors = share(rec, rec->all->policy.user_descriptors);
	}
	if (rec->scope == POLICY_ALL)
		return;
	/* The kernel's own rule for a user: user code of the user's processes.  Events of whole CPUs would
	 * interrupt the processes of all others, at the rate that this user chooses. */
	so->code &= FRAMES_USER;
	so->frames &= FRAMES_USER;
	so->tasks_only = true;
	so->ignore_open_failure = false;
	so->idle = false;
	so->allowed = is_own;
	so->allowed_arg = rec;
}

/* ---- the fields of a request ---- */

static int check_numbers(const Pb__ControlRequest *q, char *error, size_t size)
{
	static const int clocks[] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME,
				     CLOCK_REALTIME};
	bool clock = false;

	for (size_t i = 0; i < ARRAY_SIZE(clocks); i++)
		clock |= q->clock == (uint32_t)clocks[i];
	if (q->machine == (q->n_pids > 0))
		return denied(error, size, "request either the machine or processes");
	if (!q->frequency == !q->period)
		return denied(error, size, "request either a frequency or a period");
	if (q->command && q->n_pids != 1)
		return denied(error, size, "a command is one process");
	if (!clock || q->engine >= UW_ENGINE_COUNT || q->stack_bytes > 65528 ||
	    q->stack_bytes % 8 || !q->code || q->code & ~(uint32_t)FRAMES_ALL)
		return denied(error, size, "an option has an invalid value");
	for (size_t i = 0; i < q->n_pids; i++)
		if (!q->pids[i] || q->pids[i] > INT32_MAX)
			return denied(error, size, "%u is not a process id", q->pids[i]);
	return 0;
}

static int choose_event(struct recording *rec, const char **ret_note, char *error, size_t size)
{
	const struct perf_spec_env env = {""};
	const Pb__ControlRequest *q = rec->request;
	const char *event = q->event && *q->event ? q->event : NULL;
	char text[SPEC_EVENT_MAX];
	int r;

	*ret_note = NULL;
	if (event && !policy_event_words(event, error, size))
		return fail(-EPERM);
	event = perf_spec_or_default(event, text, ret_note);
	r = perf_spec_parse(&env, event, rec->specs, ARRAY_SIZE(rec->specs), &rec->n_specs, error,
			    size);
	if (r < 0)
		return trace(r);
	for (size_t i = 0; i < rec->n_specs; i++)
		if (!policy_event(rec->scope, "all-groups", &rec->specs[i], error, size))
			return fail(-EPERM);
	if (!(q->code & rec->specs[0].code))
		return denied(error, size, "the event and the options exclude all samples");
	if (!q->filter || !*q->filter)
		return 0;
	if (!rec->specs[0].tracepoint[0])
		return denied(error, size, "--filter is for tracepoints");
	rec->specs[0].filter = strdup(q->filter);
	return rec->specs[0].filter ? 0 : fail(-ENOMEM);
}

/* ---- targets ---- */

/* The creator of a user namespace may trace every process in it (user_namespaces(7)), and has capabilities and
 * other users' ids there.  Only an ioctl of a file that needs ptrace names the creator. */
static bool in_user_namespace(uint32_t pid)
{
	_cleanup_(freep) char *theirs = NULL, *ours = NULL;
	char path[PROCFS_PATH_MAX];
	int r = procfs_path(path, "", pid, "uid_map");

	if (r >= 0)
		r = read_file(path, 65536, &theirs, NULL);
	if (r >= 0)
		r = read_file("/proc/self/uid_map", 65536, &ours, NULL);
	return r >= 0 && strcmp(theirs, ours) != 0;
}

static int check_pid(const struct recording *rec, uint32_t pid, char *error, size_t size)
{
	const char *groups = rec->all->settings.all_groups;
	const struct policy_requester *ids = &rec->requester->ids;
	struct procfs_status status;

	if (procfs_status("", pid, &status) < 0)
		return denied(error, size, "no process %u", pid);
	if (rec->scope == POLICY_ALL || policy_owns("", ids, pid))
		return 0;
	if (in_user_namespace(pid))
		return denied(error, size,
			      "process %u is in a user namespace (a rootless container?), and the "
			      "daemon cannot see its owner: if you own it, record it with your "
			      "own privileges (--no-daemon); otherwise only root and members of a "
			      "group in all-groups (/etc/perfwind.conf: %s) may",
			      pid, groups);
	if (status.uid == ids->uid)
		return denied(error, size,
			      "process %u has capabilities or groups that you do not have, or is "
			      "not dumpable: only root and members of a group in all-groups "
			      "(/etc/perfwind.conf: %s) may record it",
			      pid, groups);
	return denied(error, size,
		      "process %u is another user's (%u, you are %u): you may record your own; "
		      "root and members of a group in all-groups (/etc/perfwind.conf: %s) may "
		      "record all",
		      pid, status.uid, ids->uid, groups);
}

static int check_pids(const struct recording *rec, char *error, size_t size)
{
	const Pb__ControlRequest *q = rec->request;
	uint32_t most = share(rec, rec->all->policy.user_processes);
	uint32_t requester = rec->requester->ids.pid;
	struct procfs_status status;
	int r = 0;

	/* Before /proc is read for each. */
	if (!is_root(rec) && q->n_pids > most)
		return denied(error, size,
			      "%zu processes are asked for, a recording may have %u "
			      "(user-processes)",
			      q->n_pids, most);
	if (q->n_pids && (procfs_status("", requester, &status) < 0 || status.ns_pid != requester))
		return denied(
			error, size,
			"you are in a container with its own process ids: record from outside "
			"of it, with the process ids that are seen there");
	for (size_t i = 0; i < q->n_pids && r >= 0; i++)
		r = check_pid(rec, q->pids[i], error, size);
	return r;
}

/* ---- a session ---- */

static int open_session(struct recording *rec, char *error, size_t size)
{
	const Pb__ControlRequest *q = rec->request;
	struct session_options so = {
		.machine = q->machine,
		.pids = q->pids,
		.n_pids = q->command ? 0 : q->n_pids,
		.child = q->command ? q->pids[0] : 0,
		.children = q->children,
		.specs = rec->specs,
		.n_specs = rec->n_specs,
		.period = q->period,
		.frequency = q->frequency,
		.stack_bytes = q->stack_bytes,
		.frames = q->code & FRAMES_USER ? FRAMES_ALL : FRAMES_KERNEL,
		.code = q->code,
		.idle = q->idle,
		.clock = (int)q->clock,
		.engine = (enum uw_engine_kind)q->engine,
		.features = rec->all->features,
		.proc_root = "",
		.noted = rec->noted,
		.noted_arg = rec->owner,
		.done = rec->done,
		.done_arg = rec->owner,
	};
	int r;

	if (q->cpus && *q->cpus && perf_parse_cpu_list(q->cpus, &rec->cpus, &so.n_cpus) < 0)
		return denied(error, size, "'%.64s' is not a list of CPUs", q->cpus);
	so.cpus = rec->cpus;
	if (rec->scope != POLICY_ALL && !(q->code & FRAMES_USER))
		return denied_kernel(error, size);
	limit_session(rec, &so);
	/* A quarter for packets that wait, the rest for rings. */
	rec->max_waiting = memory_share(rec) / 4;
	if (!is_root(rec))
		so.ring_budget = memory_share(rec) / 4 * 3;
	r = session_new(&so, rec->sink, rec->all->loop, &rec->session, error, size);
	if (r >= 0)
		r = check_pids(rec, error, size);
	return r < 0 ? trace(r) : 0;
}

static int open_record(struct recording *rec, char *error, size_t size)
{
	const Pb__ControlRequest *q = rec->request;
	const char *event_note;
	int r = check_numbers(q, error, size);

	if (r >= 0)
		r = choose_event(rec, &event_note, error, size);
	if (r >= 0)
		r = add_session(rec, policy_rate(&rec->specs[0], q->frequency, q->period), error,
				size);
	if (r >= 0)
		r = check_pids(rec, error, size);
	if (r >= 0)
		r = open_session(rec, error, size);
	if (r < 0)
		return trace(r);
	if (event_note)
		session_note(rec->session, "%s", event_note);
	return 0;
}

/* ---- a trace session ---- */

/* The session of each data source, before it is opened. */
static int check_source(void *recording, struct session_options *so, char *error, size_t size)
{
	struct recording *rec = recording;
	int r;

	for (size_t i = 0; i < so->n_specs; i++)
		if (!policy_event(rec->scope, "all-groups", &so->specs[i], error, size))
			return fail(-EPERM);
	/* The number of a PMU may be that of probes, and a probe's config an address in our memory. */
	for (size_t i = 0; i < so->n_specs; i++)
		if (so->specs[i].type >= PERF_TYPE_MAX)
			return denied(error, size, "the daemon opens no PMU by its number");
	if (rec->scope != POLICY_ALL &&
	    (so->poll_ms || so->realtime || !(so->specs[0].code & FRAMES_USER)))
		return denied(error, size,
			      "you may not have counters of whole CPUs, kernel code or real-time "
			      "priority: see all-groups in /etc/perfwind.conf");
	r = add_session(rec, policy_session_rate(so, 0), error, size);
	if (r < 0)
		return trace(r);
	limit_session(rec, so);
	if (!is_root(rec))
		so->ring_budget =
			memory_share(rec) / 4 / max_u64(rec->config->message->n_data_sources, 1);
	return 0;
}

static int open_trace(struct recording *rec, char *error, size_t size)
{
	const ProtobufCBinaryData *config = &rec->request->trace_config;
	struct trace_session_options to = {
		.features = rec->all->features,
		.root = "",
		.tool = "Perfetto v58-compatible, perfwind " PERFWIND_VERSION,
		.out = rec->sink,
		.check = check_source,
		.check_arg = rec,
		.noted = rec->noted,
		.noted_arg = rec->owner,
	};
	int r = config_read("the config", config->data, config->len, CONFIG_BINARY, &rec->config,
			    error, size);

	if (r >= 0)
		r = check_sessions(rec, error, size);
	if (r >= 0)
		r = check_buffers(rec, error, size);
	if (r < 0)
		return trace(r);
	to.config = rec->config;
	/* At least twice the buffers, which are read while they fill.  Root's may be larger than a share. */
	rec->max_waiting = max_u64(memory_share(rec) / 2, buffers_kb(rec) << 11);
	r = trace_session_new(&to, rec->all->loop, &rec->trace, error, size);
	return r < 0 ? trace(r) : 0;
}

/* ---- a recording ---- */

/* The note of the request, which names the privileges that the client lacks, is for the client's own trace. */
static void describe_step(struct recording *rec)
{
	const Pb__ControlRequest *q = rec->request;
	bool machine = q->machine || q->has_trace_config;
	size_t len;

	(void)snprintf(rec->step, sizeof(rec->step),
		       "recorded by the perfwind daemon for user %u%s", rec->requester->ids.uid,
		       rec->scope == POLICY_ALL ? ""
		       : machine ? ": only this user's own processes, and user code only"
				 : ": user code only");
	if (!q->note || !*q->note)
		return;
	len = strlen(rec->step);
	(void)snprintf(rec->step + len, sizeof(rec->step) - len, " (own privileges: %.300s)",
		       q->note);
	for (char *p = rec->step + len; *p; p++)
		if (iscntrl((unsigned char)*p))
			*p = '?';
}

/* The client's own command is confined like the client: its recording shows nothing new. */
static bool leaves_sandbox(const struct recording *rec)
{
	const struct requester *from = rec->requester;
	const Pb__ControlRequest *q = rec->request;

	return *from->confined && !rec->all->settings.confined_requesters &&
	       (q->has_trace_config || q->machine || !q->command || q->n_pids != 1 ||
		!policy_shares_sandbox("", from->ids.pid, from->confined, q->pids[0]));
}

static int open_request(struct recording *rec, char *error, size_t size)
{
	Pb__ControlRequest *q = rec->request;

	if (leaves_sandbox(rec))
		return denied(
			error, size,
			"you are confined (%s) and may record the command that you start, not what "
			"runs outside; record from outside, or set confined-requesters = yes in "
			"/etc/perfwind.conf, then systemctl reload perfwind",
			rec->requester->confined);
	q->n_pids = sort_unique_u32(q->pids, q->n_pids);
	rec->scope = policy_scope(&rec->all->policy, &rec->requester->ids);
	if (rec->scope == POLICY_NOTHING)
		return denied(error, size,
			      "you may not record through the daemon: see own-processes and "
			      "all-groups in /etc/perfwind.conf");
	if (rec->scope != POLICY_ALL && q->kernel_needed)
		return denied_kernel(error, size);
	describe_step(rec);
	return q->has_trace_config ? open_trace(rec, error, size) : open_record(rec, error, size);
}

int recording_open(struct recording *rec, Pb__ControlRequest *request, char *error, size_t size)
{
	uint64_t from = clock_ns(CLOCK_MONOTONIC);
	int r;

	*error = 0;
	rec->request = request;
	r = open_request(rec, error, size);
	charge(rec, from);
	if (r < 0)
		return trace(r);
	rec->next = rec->all->first;
	rec->all->first = rec;
	rec->listed = true;
	return 0;
}

int recording_start(struct recording *rec)
{
	uint64_t from = clock_ns(CLOCK_MONOTONIC);
	int r = rec->session ? session_start(rec->session) : trace_session_start(rec->trace);

	charge(rec, from);
	return r < 0 ? trace(r) : 0;
}

int recording_trigger(struct recording *rec, const void *data, size_t len)
{
	uint64_t from = clock_ns(CLOCK_MONOTONIC);
	struct cursor c = cursor_of(data, len);
	uint32_t uid = cursor_u32(&c);
	char name[TRIGGER_NAME_MAX + 1];
	size_t n = cursor_left(&c);
	int verdict;

	if (c.bad || n > TRIGGER_NAME_MAX || memchr(c.p, 0, n) || !rec->trace)
		return fail(-EBADMSG);
	memcpy(name, c.p, n);
	name[n] = 0;
	if (n)
		verdict = (int)trace_session_trigger(rec->trace, name, uid);
	else
		verdict = trace_session_begin(rec->trace) == 0 ? TRIGGER_STARTED : TRIGGER_REFUSED;
	charge(rec, from);
	return verdict;
}

void recording_close(struct recording *rec)
{
	uint64_t from = clock_ns(CLOCK_MONOTONIC);
	bool held_main = rec->session || rec->trace;

	if (rec->listed)
		for (struct recording **at = &rec->all->first; *at; at = &(*at)->next)
			if (*at == rec) {
				*at = rec->next;
				break;
			}
	rec->listed = false;
	rec->session = session_free(rec->session);
	rec->trace = trace_session_free(rec->trace);
	rec->config = config_free(rec->config);
	for (size_t i = 0; i < rec->n_specs; i++)
		perf_spec_deinit(&rec->specs[i]);
	rec->n_specs = 0;
	free(rec->cpus);
	rec->cpus = NULL;
	if (rec->request)
		pb__control_request__free_unpacked(rec->request, NULL);
	rec->request = NULL;
	rec->rate = 0;
	rec->sessions = 0;
	if (held_main)
		charge(rec, from);
}
