/* cmd-top.c - `perfwind top`: the functions that time goes to now, again each interval.  Thread: main.
 *
 *   session ──► memory ── each interval: flush, read as a trace, print (top.c) ──► begins empty
 *
 * Where your privileges do not suffice the session is the daemon's (top.c, as are the keys). */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/command.h"
#include "cli/common-options.h"
#include "cli/own-session.h"
#include "cli/pid-list.h"
#include "cli/top.h"
#include "base/error.h"
#include "daemon/control/control-protocol.h"
#include "perf/gate.h"
#include "perf/probe.h"
#include "perf/spec-list.h"
#include "session/rights.h"
#include "session/consent/consent.h"
#include "session/session.h"

enum { DEFAULT_HZ = 999, WATCH_MS = 100 };

struct top {
	struct top_args args;
	struct job job;
	const char *note;
	struct perf_spec specs[1 + PERF_MAX_FOLLOWERS];
	size_t n_specs;
	struct loop loop;
	struct loop_timer interval, watch;
	struct at_sample *at_sample;
	struct consent *consent;
	struct session *session;
	struct top_view view;
	struct top_keys keys;
	struct own_session own;
	int error; /* of showing it; reported */
};

static int add_pids(void *to, const char *value)
{
	struct top_args *args = to;

	return pid_list_add(value, args->pids, &args->n_pids, TOP_PIDS);
}

#define AT(member) .offset = offsetof(struct top_args, member)
static const struct option_def defs[] = {
	FLAG("all", 'a', all, "the whole machine"),
	CALL("pid", 'p', "PID[,PID]", add_pids, "these processes, with all their threads"),
	FLAG("children", 0, children, "with -p: their children too (a command's always are)"),
	TEXT("event", 'e', "EVENT", event, "the event to sample, as for `perfwind record`"),
	NUMBER("frequency", 'F', OPTION_U64, "HZ", frequency, 0,
	       "samples a second of CPU time (default 999)"),
	TIME("interval", 'i', "s", "SECONDS", interval, 3600,
	     "the interval of the tables (default 2)"),
	OPTION_BY(by),
	NUMBER("limit", 'n', OPTION_U32, "N", limit, 0,
	       "at most N rows, 0: all (default: what fits on the terminal, else 20)"),
	FLAG("user-only", 0, user_only, "user code only"),
	FLAG("once", 0, once, "one interval, then exit"),
	OPTION_HOOK_SOCKET(hook_socket),
	OPTION_UNDER_SECCOMP(under_seccomp),
	OPTION_DAEMON(ask, "sample"),
	OPTION_NO_DAEMON(no_ask),
	OPTION_CONTROL_SOCKET(socket),
	{0},
};

/* perf top's. */
static const struct option_def foreign[] = {
	IGNORED("g", 'g', NULL, NULL), /* stacks are always recorded */
	IGNORED("call-graph", 0, "MODE", NULL),
	{.name = "delay",
	 .letter = 'd',
	 .type = OPTION_TIME,
	 .unit = "s",
	 .argument = "SECONDS",
	 .max = 3600,
	 AT(interval)},
	{.name = "hide_kernel_symbols", .letter = 'K', .type = OPTION_FLAG, AT(user_only)},
	REFUSED("sort", 's', "KEY", "key t sorts, key s and --by KIND choose the rows"),
	REFUSED("cpu", 'C', "LIST",
		"`perfwind record -a -C LIST` and `perfwind report` show chosen CPUs"),
	REFUSED("tid", 't', "TID",
		"`perfwind record -t TID` and `perfwind report` show one thread"),
	REFUSED("uid", 'u', "USER",
		"`perfwind record -u USER` and `perfwind report` show one user"),
	{0},
};

static const struct options options = {
	.command = "top",
	.usage = "[OPTIONS] -a | -p PID[,PID] | [--] COMMAND [ARGUMENTS]",
	.description = "Shows where time goes now: one table for each interval, until Ctrl-C.  On "
		       "a terminal\neach table replaces the previous one (redirect the output of a "
		       "command); otherwise\nthe tables follow each other as plain text.  Keys on "
		       "a terminal, without a command:\nq quits, space freezes the table, arrows "
		       "mark a row and Enter shows its callers, / filters,\nt sorts, s changes the "
		       "kind of the rows, h lists the keys.  Behind the last of several tables\nis "
		       "the table of the whole run.  Once the processes of -p have ended the last "
		       "table with samples\nstays, "
		       "and a line states their end.  ` ?` behind a name: a guess, as in "
		       "perfwind-report(1).",
	.defs = defs,
	.foreign = foreign,
	.examples = "# the whole machine, a table every 2 seconds\n"
		    "sudo perfwind top -a\n\n"
		    "# the threads of one process, every second\n"
		    "perfwind top -p 1234 -i 1 --by thread\n\n"
		    "# one table for a script\n"
		    "perfwind top -p 1234 --once -n 10",
	.max_arguments = -1,
	.stop_at_argument = true,
};

static int check_args(struct top *top)
{
	struct top_args *args = &top->args;
	int targets = args->all + (args->n_pids > 0) + (top->job.command != NULL);

	if (targets != 1) {
		log_error(targets ? "-a, -p and a command exclude each other"
				  : "top needs a target: -a (the machine), -p PID, or a command");
		return -EINVAL;
	}
	if (!args->frequency) {
		log_error("-F takes a number of at least 1");
		return -EINVAL;
	}
	if (args->ask && args->no_ask) {
		log_error("--daemon and --no-daemon exclude each other");
		return -EINVAL;
	}
	if (!args->socket)
		args->socket = CONTROL_SOCKET;
	top->own.socket = args->socket;
	top->own.may_ask = !args->no_ask;
	if (args->interval < 0.01) {
		log_error("--interval takes at least 0.01 seconds");
		return -EINVAL;
	}
	return 0;
}

/* ---- an interval ---- */

static int show(struct top *top)
{
	struct session_summary *summary = malloc(sizeof(*summary)); /* too large for a stack */
	struct top_state state = {.event = top->specs[0].name};

	if (!summary)
		return fail(-ENOMEM);
	(void)session_summary(top->session, summary);
	state.duration_s = summary->duration_s;
	state.lost = summary->counts.lost_samples;
	free(summary);
	return top_view_show(&top->view, &state);
}

static void give_up(struct top *top, int r)
{
	top_view_failed(r);
	top->error = r;
	session_stop(top->session);
}

static void interval_flushed(void *arg)
{
	struct top *top = arg;
	int r;

	if (session_state(top->session) != SESSION_RUNNING)
		return; /* the rest is shown when it is over */
	r = show(top);
	if (r >= 0)
		r = session_clear_incremental_state(top->session);
	if (r >= 0)
		r = loop_timer_set(&top->interval, (uint64_t)(top->args.interval * 1e9), 0);
	if (r < 0)
		give_up(top, r);
}

static int interval_over(struct loop_timer *timer)
{
	struct top *top = container_of(timer, struct top, interval);
	int r;

	if (top->args.once) {
		top->job.ended_by_us = true;
		session_stop(top->session);
		return 0;
	}
	r = session_flush(top->session, interval_flushed, top);
	return r < 0 ? trace(r) : 0;
}

/* ---- its end ---- */

static int watch_tick(struct loop_timer *timer)
{
	struct top *top = container_of(timer, struct top, watch);

	if (top->args.n_pids && session_targets_gone(top->session))
		session_stop(top->session);
	return 0;
}

static void stop(void *arg)
{
	struct top *top = arg;

	session_stop(top->session);
}

static void quit(void *arg)
{
	struct top *top = arg;

	top->job.ended_by_us = true;
	session_stop(top->session);
}

/* ---- its beginning ---- */

static int choose_event(struct top *top)
{
	const struct perf_spec_env env = {""};
	char text[SPEC_EVENT_MAX];
	const char *event = perf_spec_or_default(top->args.event, text, &top->note);
	int r = perf_spec_parse(&env, event, top->specs, ARRAY_SIZE(top->specs), &top->n_specs,
				top->own.lacks, sizeof(top->own.lacks));
	return r < 0 ? own_session_refused(&top->own, r) : 0;
}

static int open_session(struct top *top)
{
	const struct top_args *args = &top->args;
	struct session_options so = {
		.machine = args->all,
		.pids = args->pids,
		.n_pids = args->n_pids,
		.child = top->job.command ? (uint32_t)top->job.spawn.pid : 0,
		.children = args->children || top->job.command,
		.specs = top->specs,
		.n_specs = top->n_specs,
		.frequency = args->frequency,
		.frames = FRAMES_ALL,
		.code = args->user_only ? FRAMES_USER : FRAMES_ALL,
		.clock = CLOCK_MONOTONIC,
		.proc_root = "",
		.note = top->note,
		.note_brief = gate_brief(GATE_CYCLES),
		.noted = own_session_noted,
		.noted_arg = &top->own,
	};
	char *lacks = top->own.lacks;
	int r = probe_features(&so.features, lacks, sizeof(top->own.lacks));

	if (r >= 0)
		r = own_session_at_sample(&so.features, &top->at_sample);
	so.at_sample = top->at_sample;
	own_session_give_up(&so.features, perf_has_kernel_probe(top->specs, top->n_specs));
	if (r >= 0)
		r = own_session_consent(args->hook_socket, args->under_seccomp, &so.features,
					&top->loop, &top->consent);
	so.consent = top->consent;
	if (r >= 0)
		r = session_new(&so, top->view.sink, &top->loop, &top->session, lacks,
				sizeof(top->own.lacks));
	if (r < 0)
		return own_session_refused(&top->own, r);
	return own_session_enough(&top->own, session_kernel_refused(top->session));
}

static int start(struct top *top)
{
	int r = session_start(top->session);

	rights_settle_session(false, perf_has_kernel_probe(top->specs, top->n_specs));
	if (r >= 0)
		r = loop_timer_add(&top->loop, &top->interval, (uint64_t)(top->args.interval * 1e9),
				   0, interval_over);
	if (r < 0) {
		log_error("top: %s", strerror(-r));
		return r;
	}
	return job_go(&top->job);
}

/* Returns the exit status. */
static int run(struct top *top)
{
	const char *why = NULL;
	int r = 0;

	while (r >= 0 && session_state(top->session) != SESSION_DONE)
		r = loop_run_once(&top->loop, -1);
	if (r < 0)
		give_up(top, r);
	r = top->error < 0 ? 0 : show(top);
	if (r < 0)
		give_up(top, r);
	if (session_error(top->session, &why) >= 0)
		why = NULL;
	if (!top->args.once)
		loop_timer_remove(&top->loop, &top->interval);
	job_await(&top->job, !why && top->error < 0 ? "the table cannot be shown" : why);
	if (why)
		log_error("%s", why);
	return job_exit_status(&top->job, why || top->error < 0);
}

static void top_free(struct top *top)
{
	top_keys_unwatch(&top->keys);
	(void)session_free(top->session);
	(void)at_sample_free(top->at_sample);
	(void)consent_free(top->consent);
	top_view_deinit(&top->view);
	job_deinit(&top->job);
	for (size_t i = 0; i < top->n_specs; i++)
		perf_spec_deinit(&top->specs[i]);
	loop_timer_remove(&top->loop, &top->interval);
	loop_timer_remove(&top->loop, &top->watch);
	loop_deinit(&top->loop);
	free(top);
}

/* The command waits.  A failure was reported. */
static int make_parts(struct top *top)
{
	int r = loop_init(&top->loop);

	if (r >= 0)
		r = top_view_init(&top->view, &top->args);
	if (r >= 0)
		r = job_hold(&top->job);
	if (r < 0)
		log_error("top: %s", strerror(-r));
	return r < 0 ? trace(r) : 0;
}

static int watch(struct top *top)
{
	const uint64_t period = WATCH_MS * NSEC_PER_MSEC;
	int r = job_watch(&top->job, &top->loop, stop, top);

	if (r >= 0 && top->watch.source.fd < 0)
		r = loop_timer_add(&top->loop, &top->watch, period, period, watch_tick);
	if (r >= 0 && !top->args.once && !top->job.command)
		r = top_keys_watch(&top->keys, &top->view, &top->loop, quit, top);
	if (r < 0)
		log_error("top: %s", strerror(-r));
	return r < 0 ? trace(r) : 0;
}

static int top_all(struct top *top)
{
	int r = job_check(&top->job);

	if (r > 0)
		return r;
	if (make_parts(top) < 0)
		return 1;
	r = top->args.ask ? OWN_ASK : choose_event(top);
	if (r == 0)
		r = watch(top);
	if (r == 0)
		r = open_session(top);
	if (r > 0) {
		r = top_ask(&top->view, &top->keys, &top->job, top->own.lacks,
			    r == OWN_ASK_FOR_KERNEL, &top->session);
		if (r >= 0)
			return r;
		r = watch(top);
	}
	if (r < 0)
		return 1;
	own_session_sure(&top->own);
	r = start(top);
	return r < 0 ? 1 : r > 0 ? r : run(top);
}

static int top_main(int argc, char **argv)
{
	struct top *top = calloc(1, sizeof(*top));
	int n, r;

	if (!top) {
		log_error("top: %s", strerror(ENOMEM));
		return 1;
	}
	top->args.frequency = DEFAULT_HZ;
	top->args.interval = 2;
	top->args.limit = UINT32_MAX;
	job_init(&top->job, NULL);
	top->loop.epoll_fd = -1;
	top->interval.source.fd = top->watch.source.fd = -1;
	r = options_parse(&options, argc, argv, &top->args, &n);
	if (r != 0) {
		r = options_exit_status(r);
	} else {
		top->job.command = n ? argv : NULL;
		r = check_args(top) < 0 ? 2 : top_all(top);
		if (top_view_end(&top->view) < 0)
			r = r ? r : 1;
	}
	top_free(top);
	return r;
}

const struct command command_top = {
	.name = "top",
	.summary = "show where time goes now, again each interval",
	.run = top_main,
	.options = &options,
};
