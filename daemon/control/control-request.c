/* control-request.c - from a client's request to a running session, or a reason why not.
 * Thread: main.
 *
 *   words ──► checked, looked up ──► policy ──► limits ──► session opened ──► targets checked again ──► started
 *
 * A pid may have come to mean another process between the check and the opening of its events, so
 * it is checked on both sides of that.  What a target becomes later is the kernel's and the
 * session's to watch: an exec of a program with rights ends inherited events (fs/exec.c), and each
 * process is judged again and again (policy_owns, by session_options.allowed).  No path that a
 * client names is opened. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "daemon/control/control-private.h"
#include "config/perf-config.h"
#include "proc/procfs.h"

int control_denied(char *error, size_t size, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(error, size, format, ap);
	va_end(ap);
	return fail(-EPERM);
}

/* ---- what is asked for ---- */

static int check_numbers(const Pb__ControlRequest *q, char *error, size_t size)
{
	static const int clocks[] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME,
				     CLOCK_REALTIME};
	bool clock = false;

	for (size_t i = 0; i < ARRAY_SIZE(clocks); i++)
		clock |= q->clock == (uint32_t)clocks[i];
	if (q->machine == (q->n_pids > 0))
		return control_denied(error, size,
				      "either the machine or processes can be asked for");
	if (!q->frequency == !q->period)
		return control_denied(error, size,
				      "either a frequency or a period can be asked for");
	if (q->command && q->n_pids != 1)
		return control_denied(error, size, "a command is one process");
	if (!clock || q->engine >= UW_ENGINE_COUNT || q->stack_bytes > 65528 ||
	    q->stack_bytes % 8 || (q->user_only && q->kernel_only))
		return control_denied(error, size, "an option has a value that it cannot have");
	for (size_t i = 0; i < q->n_pids; i++)
		if (!q->pids[i] || q->pids[i] > INT32_MAX)
			return control_denied(error, size, "%u is no process id", q->pids[i]);
	return 0;
}

static int choose_event(struct client *c, const char **ret_note, char *error, size_t size)
{
	const struct perf_spec_env env = {""};
	const Pb__ControlRequest *q = c->request;
	const char *event = q->event && *q->event ? q->event : NULL;
	int r;

	*ret_note = NULL;
	if (event && !policy_event_words(event, error, size))
		return fail(-EPERM);
	if (!event)
		event = perf_spec_default(ret_note);
	r = perf_spec_parse(&env, event, c->specs, ARRAY_SIZE(c->specs), &c->n_specs, error, size);
	if (r < 0)
		return trace(r);
	for (size_t i = 0; i < c->n_specs; i++)
		if (!policy_event(c->scope, "all-groups", &c->specs[i], error, size))
			return fail(-EPERM);
	if ((q->user_only && c->specs[0].exclude_user) ||
	    (q->kernel_only && c->specs[0].exclude_kernel))
		return control_denied(error, size, "nothing is left to sample");
	if (!q->filter || !*q->filter)
		return 0;
	if (!c->specs[0].tracepoint[0])
		return control_denied(error, size, "--filter is for tracepoints");
	c->specs[0].filter = strdup(q->filter);
	return c->specs[0].filter ? 0 : fail(-ENOMEM);
}

/* ---- whose ---- */

/* Whoever made it may look into what runs there (the kernel's user_namespaces(7)), and has capabilities
 * and other users' ids there himself.  Who that is only tells an ioctl, of a file that needs ptrace. */
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

static int check_pid(const struct client *c, uint32_t pid, char *error, size_t size)
{
	struct procfs_status status;

	if (procfs_status("", pid, &status) < 0)
		return control_denied(error, size, "no process %u", pid);
	if (c->scope == POLICY_ALL || policy_owns("", &c->asker, pid))
		return 0;
	if (in_user_namespace(pid))
		return control_denied(error, size,
				      "process %u is in a user namespace (a rootless container?), "
				      "whose maker is not "
				      "known here: if that is you, record it by your own rights "
				      "(--no-daemon); else "
				      "only root and members of a group in all-groups "
				      "(/etc/perfwind.conf: %s) may",
				      pid, c->control->options.settings.all_groups);
	if (status.uid == c->asker.uid)
		return control_denied(
			error, size,
			"process %u has rights or groups that are not yours, or protects itself: "
			"only root and "
			"members of a group in all-groups (/etc/perfwind.conf: %s) may record it",
			pid, c->control->options.settings.all_groups);
	return control_denied(
		error, size,
		"process %u is another user's (%u, you are %u): you may record your own; root "
		"and members of a group in all-groups (/etc/perfwind.conf: %s) may record all",
		pid, status.uid, c->asker.uid, c->control->options.settings.all_groups);
}

static int check_pids(const struct client *c, char *error, size_t size)
{
	const Pb__ControlRequest *q = c->request;
	uint32_t most = client_share(c, c->control->policy.user_processes);
	struct procfs_status status;
	int r = 0;

	/* Before any of them is looked at. */
	if (c->asker.uid && q->n_pids > most)
		return control_denied(
			error, size,
			"%zu processes are asked for, a recording may have %u (user-processes)",
			q->n_pids, most);
	/* In a container process ids mean others. */
	if (q->n_pids &&
	    (procfs_status("", c->asker.pid, &status) < 0 || status.ns_pid != c->asker.pid))
		return control_denied(error, size,
				      "you are in a container with process ids of its own: ask "
				      "from outside, by the ids that are seen there");
	for (size_t i = 0; i < q->n_pids && r >= 0; i++)
		r = check_pid(c, q->pids[i], error, size);
	return r;
}

static bool is_own(void *client, uint32_t pid)
{
	const struct client *c = client;

	return policy_owns("", &c->asker, pid);
}

/* The kernel's own rule for a user: user code only, processes that are theirs.  Events of whole CPUs would
 * cost the processes of all others, at the rate that this user chooses. */
static void narrow(struct client *c, struct session_options *so)
{
	if (c->scope == POLICY_ALL)
		return;
	so->user_only = so->no_kernel_frames = true;
	so->tasks_only = true;
	so->ignore_open_failure = false;
	so->idle = false;
	so->allowed = is_own;
	so->allowed_arg = c;
}

/* ---- a recording ---- */

static int open_session(struct client *c, char *error, size_t size)
{
	const Pb__ControlRequest *q = c->request;
	struct session_options so = {
		.machine = q->machine,
		.pids = q->pids,
		.n_pids = q->command ? 0 : q->n_pids,
		.child = q->command ? q->pids[0] : 0,
		.children = q->children,
		.specs = c->specs,
		.n_specs = c->n_specs,
		.period = q->period,
		.frequency = q->frequency,
		.stack_bytes = q->stack_bytes,
		.user_only = q->user_only,
		.kernel_only = q->kernel_only,
		.idle = q->idle,
		.clock = (int)q->clock,
		.cpus = c->cpus,
		.engine = (enum uw_engine_kind)q->engine,
		.features = c->control->options.features,
		.proc_root = "",
		.shared = c->control->options.shared,
		.note = c->step,
		.noted = client_noted,
		.noted_arg = c,
		.done = client_done,
		.done_arg = c,
	};
	int r = 0;

	if (q->no_build_ids)
		so.features.has[FEATURE_BUILD_ID] = false;
	if (q->cpus && *q->cpus && perf_parse_cpu_list(q->cpus, &c->cpus, &so.n_cpus) < 0)
		return control_denied(error, size, "'%.64s' is no list of CPUs", q->cpus);
	so.cpus = c->cpus;
	if (c->scope != POLICY_ALL && q->kernel_only)
		return control_denied(error, size, "kernel code is not for everyone (all-groups)");
	narrow(c, &so);
	client_own(c, &so);
	client_limit(c, &so);
	r = session_new(&so, &c->sink, c->control->loop, &c->session, error, size);
	if (r >= 0)
		r = check_pids(c, error, size);
	return r < 0 ? trace(r) : 0;
}

static int open_record(struct client *c, char *error, size_t size)
{
	const Pb__ControlRequest *q = c->request;
	const char *event_note;
	int r = check_numbers(q, error, size);

	if (r >= 0)
		r = choose_event(c, &event_note, error, size);
	if (r >= 0)
		r = client_add_session(c, policy_rate(&c->specs[0], q->frequency, q->period), error,
				       size);
	if (r >= 0)
		r = check_pids(c, error, size);
	if (r >= 0)
		r = open_session(c, error, size);
	if (r < 0)
		return trace(r);
	if (event_note)
		session_note(c->session, "%s", event_note);
	r = control_queue(&c->stream, CONTROL_ACCEPTED, c->specs[0].name, strlen(c->specs[0].name));
	return r >= 0 ? session_start(c->session) : trace(r);
}

/* ---- a trace config ---- */

/* Each data source's session, before it is opened. */
static int check_source(void *arg, struct session_options *so, char *error, size_t size)
{
	struct client *c = arg;
	uint64_t rate;
	int r;

	for (size_t i = 0; i < so->n_specs; i++)
		if (!policy_event(c->scope, "all-groups", &so->specs[i], error, size))
			return fail(-EPERM);
	/* By number too: the address of a probe's words would be one in our memory. */
	for (size_t i = 0; i < so->n_specs; i++) {
		if (so->specs[i].type >= PERF_TYPE_MAX)
			return control_denied(error, size,
					      "PMUs by number are not opened for others");
	}
	if (c->scope != POLICY_ALL && (so->poll_ms || so->realtime || so->specs[0].exclude_user))
		return control_denied(error, size,
				      "counters of whole CPUs, kernel code and real-time priority "
				      "are not for everyone (all-groups)");
	rate = so->poll_ms ? 1000 / so->poll_ms + 1
			   : policy_rate(&so->specs[0], so->frequency, so->period);
	r = client_add_session(c, rate, error, size);
	if (r < 0)
		return trace(r);
	narrow(c, so);
	client_own(c, so);
	client_limit_targets(c, so);
	if (c->asker.uid)
		so->ring_budget =
			client_memory_share(c) / 4 / max_u64(c->config->message->n_data_sources, 1);
	so->shared = c->control->options.shared;
	so->note = c->step;
	return 0;
}

static int open_trace(struct client *c, char *error, size_t size)
{
	const ProtobufCBinaryData *config = &c->request->trace_config;
	struct trace_session_options to = {
		.features = c->control->options.features,
		.root = "",
		.tool = "Perfetto v58-compatible, perfwind " PERFWIND_VERSION,
		.out = &c->sink,
		.check = check_source,
		.check_arg = c,
		.noted = client_noted,
		.noted_arg = c,
	};
	int r = config_read("the config", config->data, config->len, CONFIG_BINARY, &c->config,
			    error, size);

	if (r >= 0)
		r = client_check_sessions(c, error, size);
	if (r >= 0)
		r = client_check_buffers(c, error, size);
	if (r < 0)
		return trace(r);
	to.config = c->config;
	/* Twice the buffers at least: read out while they fill.  Root's may be larger. */
	client_sink_init(c, max_u64(client_memory_share(c) / 2, client_buffers_kb(c) << 11));
	r = trace_session_new(&to, c->control->loop, &c->trace, error, size);
	if (r >= 0)
		r = control_queue(&c->stream, CONTROL_ACCEPTED, "", 0);
	return r >= 0 ? trace_session_start(c->trace) : trace(r);
}

/* What the client says of its own rights is words for its own eyes. */
static void describe_step(struct client *c)
{
	const Pb__ControlRequest *q = c->request;
	bool machine = q->machine || q->has_trace_config;
	size_t len;

	(void)snprintf(c->step, sizeof(c->step), "recorded by the perfwind daemon for user %u%s",
		       c->asker.uid,
		       c->scope == POLICY_ALL ? ""
		       : machine ? ": only this user's own processes, and user code only"
				 : ": user code only");
	if (!q->note || !*q->note)
		return;
	len = strlen(c->step);
	(void)snprintf(c->step + len, sizeof(c->step) - len, " (own rights: %.300s)", q->note);
	for (char *p = c->step + len; *p; p++)
		if (iscntrl((unsigned char)*p))
			*p = '?';
}

/* Its own command is confined as it is, so a recording of that shows nothing new. */
static bool leaves_sandbox(const struct client *c)
{
	const Pb__ControlRequest *q = c->request;

	return *c->confined && !c->control->options.settings.confined_requesters &&
	       (q->has_trace_config || q->machine || !q->command || q->n_pids != 1 ||
		!policy_shares_sandbox("", c->asker.pid, c->confined, q->pids[0]));
}

int client_open(struct client *c, Pb__ControlRequest *request, char *error, size_t size)
{
	*error = 0;
	c->request = request;
	if (leaves_sandbox(c))
		return control_denied(
			error, size,
			"you are confined (%s) and may record the command that you start, not what "
			"runs outside; ask from outside, or set confined-requesters = yes in "
			"/etc/perfwind.conf, then systemctl reload perfwind",
			c->confined);
	request->n_pids = sort_unique_u32(request->pids, request->n_pids);
	c->scope = policy_scope(&c->control->policy, &c->asker);
	if (c->scope == POLICY_NOTHING)
		return control_denied(error, size,
				      "you may record nothing by asking: see own-processes and "
				      "all-groups in /etc/perfwind.conf");
	if (c->scope != POLICY_ALL && request->kernel_needed)
		return control_denied(error, size, "kernel code is not for everyone (all-groups)");
	describe_step(c);
	return request->has_trace_config ? open_trace(c, error, size) : open_record(c, error, size);
}

void client_close(struct client *c)
{
	c->session = session_free(c->session);
	c->trace = trace_session_free(c->trace);
	c->config = config_free(c->config);
	for (size_t i = 0; i < c->n_specs; i++)
		perf_spec_deinit(&c->specs[i]);
	c->n_specs = 0;
	free(c->cpus);
	c->cpus = NULL;
	if (c->request)
		pb__control_request__free_unpacked(c->request, NULL);
	c->request = NULL;
	c->rate = 0;
	c->sessions = 0;
}
