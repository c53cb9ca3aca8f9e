/* top.c - `perfwind top`: the functions that time goes to now, again each interval.  Thread: main.
 *
 *   session ──► memory ── each interval: flush, read as a trace, print ──► begins empty
 *
 * An interval is a trace of its own: its packets are read by what reads files (profile/), and then
 * they are forgotten and the incremental state begins anew.  So memory is that of one interval
 * however long it runs, and what one interval cannot name the next one can. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/defaults.h"
#include "cli/signals.h"
#include "cli/spawn.h"
#include "cli/terminal.h"
#include "daemon/base/error.h"
#include "daemon/probe.h"
#include "daemon/session.h"
#include "profile/export.h"
#include "profile/text.h"

enum { DEFAULT_HZ = 999, DEFAULT_ROWS = 20, MAX_PIDS = 4096, WATCH_MS = 100 };
enum { HEAD_ROWS = 4 };		 /* around the table on a terminal */
enum { MAX_PACKETS = 64 << 20 }; /* bytes of one interval; what comes then is lost, and said */

struct top_args {
	bool all, children, user_only, once;
	const char *event;
	uint64_t frequency;
	double interval;
	enum report_by by;
	uint32_t limit;
	uint32_t pids[MAX_PIDS];
	size_t n_pids;
};

struct top {
	struct top_args args;
	char *const *command; /* NULL: none */
	const char *note;
	struct perf_spec specs[1 + PERF_MAX_FOLLOWERS];
	size_t n_specs;
	struct loop loop;
	struct loop_source signals;
	struct loop_timer interval, watch;
	struct sink *sink;
	struct session *session;
	struct spawn child;
	int child_status;
	bool interrupted, ended_by_us; /* ended_by_us: the command is terminated too */
	bool printed;
	int error;		/* of showing it; told */
	double shown_s;		/* of the session's duration, up to the interval before */
	uint64_t lost, dropped; /* up to the interval before */
};

static int add_pids(void *to, const char *value)
{
	struct top_args *args = to;

	return pid_list_add(value, args->pids, &args->n_pids, MAX_PIDS);
}

#define AT(member) .offset = offsetof(struct top_args, member)
static const struct option_def defs[] = {
	{.name = "all", .letter = 'a', .type = OPTION_FLAG, AT(all), .help = "the whole machine"},
	{.name = "pid",
	 .letter = 'p',
	 .type = OPTION_CALL,
	 .argument = "PID[,PID]",
	 .call = add_pids,
	 .help = "these processes, with all their threads"},
	{.name = "children",
	 .type = OPTION_FLAG,
	 AT(children),
	 .help = "with -p: their children too (a command's always are)"},
	{.name = "event",
	 .letter = 'e',
	 .type = OPTION_STRING,
	 .argument = "EVENT",
	 AT(event),
	 .help = "what to sample by, as for `perfwind record`"},
	{.name = "frequency",
	 .letter = 'F',
	 .type = OPTION_U64,
	 .argument = "HZ",
	 AT(frequency),
	 .help = "samples a second of CPU time (default 999)"},
	{.name = "interval",
	 .letter = 'i',
	 .type = OPTION_DOUBLE,
	 .argument = "SECONDS",
	 .max = 3600,
	 AT(interval),
	 .help = "how often it is shown, and over what time (default 2)"},
	{.name = "by",
	 .letter = 'b',
	 .type = OPTION_CHOICE,
	 .argument = "WHAT",
	 .choices = report_by_names,
	 AT(by),
	 .help = "rows: function (default), process, thread, module or cgroup"},
	{.name = "limit",
	 .letter = 'n',
	 .type = OPTION_U32,
	 .argument = "N",
	 AT(limit),
	 .help = "at most N rows, 0: all (default: what fits on the terminal, else 20)"},
	{.name = "user-only", .type = OPTION_FLAG, AT(user_only), .help = "user code only"},
	{.name = "once", .type = OPTION_FLAG, AT(once), .help = "one interval, then it ends"},
	{0},
};

static const struct options options = {
	.command = "top",
	.usage = "[OPTIONS] -a | -p PID[,PID] | [--] COMMAND [ARGUMENTS]",
	.description =
		"Shows where time goes now: a table each interval, of that interval, until\n"
		"Ctrl-C.  On a terminal each replaces the one before (a command had better write\n"
		"elsewhere); else they follow one another as plain text.",
	.defs = defs,
	.max_arguments = -1,
	.stop_at_argument = true,
};

static int check_args(struct top *top)
{
	struct top_args *args = &top->args;
	int targets = args->all + (args->n_pids > 0) + (top->command != NULL);

	if (targets != 1) {
		log_error(targets ? "-a, -p and a command exclude each other"
				  : "top of what? -a (the machine), -p PID, or a command");
		return -EINVAL;
	}
	if (!args->frequency) {
		log_error("-F takes a number of at least 1");
		return -EINVAL;
	}
	if (args->interval < 0.01) {
		log_error("--interval takes at least 0.01 seconds");
		return -EINVAL;
	}
	return 0;
}

/* ---- an interval ---- */

static uint32_t rows_wanted(const struct top *top)
{
	int rows = terminal_rows();

	if (top->args.limit != UINT32_MAX)
		return top->args.limit;
	if (!rows)
		return DEFAULT_ROWS;
	return rows > HEAD_ROWS ? (uint32_t)(rows - HEAD_ROWS) : 1;
}

static void print_head(struct top *top, size_t n_samples)
{
	struct session_summary summary;
	char number[32];

	if (terminal_rows())
		(void)fputs("\033[H\033[2J", stdout);
	else if (top->printed)
		(void)putchar('\n');
	(void)session_summary(top->session, &summary);
	(void)printf("%s samples in %.1f s (%s)", text_count(n_samples, number),
		     summary.duration_s - top->shown_s, top->specs[0].name);
	if (summary.counts.lost_samples > top->lost)
		(void)printf(", %s lost in the kernel's rings",
			     text_count(summary.counts.lost_samples - top->lost, number));
	if (top->sink->dropped > top->dropped)
		(void)printf(", more than there is room for: %s packets left out",
			     text_count(top->sink->dropped - top->dropped, number));
	(void)putchar('\n');
	top->lost = summary.counts.lost_samples;
	top->dropped = top->sink->dropped;
	top->shown_s = summary.duration_s;
	top->printed = true;
}

/* Shows what was sampled since the call before, and forgets it. */
static int show(struct top *top)
{
	const struct report_options how = {
		.by = top->args.by,
		.no_summary = true,
		.limit = rows_wanted(top),
		.width = terminal_columns(),
		.colour = terminal_colour(),
	};
	_cleanup_(profile_deinit) struct profile profile = {0};
	char error[256] = "";
	const void *data;
	size_t len;
	int r = 0;

	data = sink_memory_data(top->sink, &len);
	if (len)
		r = profile_parse(data, len, &profile, error, sizeof(error));
	sink_memory_clear(top->sink);
	if (r < 0)
		return trace(r);
	print_head(top, profile.n_samples);
	r = profile.n_samples ? report_write(&profile, &how, stdout) : export_finish(stdout);
	return r < 0 ? trace(r) : 0;
}

/* Whoever read our output has seen enough (head): no failure worth a line. */
static bool reader_gone(void)
{
	struct pollfd p = {.fd = STDOUT_FILENO};

	return poll(&p, 1, 0) == 1 && (p.revents & POLLERR);
}

static void give_up(struct top *top, int r)
{
	if (!reader_gone())
		log_error("top: %s", strerror(-r));
	top->error = r;
	top->ended_by_us = true;
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
		top->ended_by_us = true;
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

static int signal_ready(struct loop_source *source, uint32_t events)
{
	struct top *top = container_of(source, struct top, signals);
	int sig;

	(void)events;
	while ((sig = signals_next(source))) {
		if (sig == SIGCHLD) {
			if (spawn_reap(&top->child, &top->child_status) < 0)
				log_error("how %s ended is not known", top->command[0]);
			continue;
		}
		if (top->interrupted)
			_exit(128 + sig);
		top->interrupted = true;
		top->ended_by_us |= sig != SIGINT; /* the terminal's Ctrl-C reaches the command */
	}
	if (top->interrupted || top->child_status >= 0)
		session_stop(top->session);
	return 0;
}

static int await_child(struct top *top)
{
	int r = 0;

	if (!top->command || top->child_status >= 0)
		return 0;
	if (top->ended_by_us || session_error(top->session, NULL) < 0)
		(void)kill(top->child.pid, SIGTERM);
	while (top->child_status < 0 && r >= 0)
		r = loop_run_once(&top->loop, -1);
	return r < 0 ? trace(r) : 0;
}

/* ---- its beginning ---- */

static int choose_event(struct top *top)
{
	const struct perf_spec_env env = {""};
	const char *event = top->args.event;
	char error[512] = "";
	int r;

	if (!event)
		event = default_event(&top->note);
	r = perf_spec_parse(&env, event, top->specs, ARRAY_SIZE(top->specs), &top->n_specs, error,
			    sizeof(error));
	if (r < 0)
		log_error("%s", error);
	return r;
}

static int open_session(struct top *top)
{
	const struct top_args *args = &top->args;
	struct session_options so = {
		.machine = args->all,
		.pids = args->pids,
		.n_pids = args->n_pids,
		.child = top->command ? (uint32_t)top->child.pid : 0,
		.children = args->children || top->command,
		.specs = top->specs,
		.n_specs = top->n_specs,
		.frequency = args->frequency,
		.user_only = args->user_only,
		.clock = CLOCK_MONOTONIC,
		.proc_root = "",
		.note = top->note,
	};
	char error[512] = "";
	int r = probe_features(&so.features, error, sizeof(error));

	if (r >= 0)
		r = session_new(&so, top->sink, &top->loop, &top->session, error, sizeof(error));
	if (r < 0)
		log_error("%s", *error ? error : strerror(-r));
	return r;
}

static int make_parts(struct top *top)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};
	const struct sigaction usual = {.sa_handler = SIG_DFL};
	const uint64_t watch = WATCH_MS * NSEC_PER_MSEC;
	int r = loop_init(&top->loop);

	if (r >= 0)
		r = sink_memory_new(&top->sink);
	if (r >= 0 && top->command)
		r = spawn_new(top->command, &top->child);
	/* Inherited as ignored the kernel would not tell of the command's end. */
	(void)sigaction(SIGCHLD, &usual, NULL);
	if (r >= 0)
		r = signals_watch(&top->loop, &top->signals, signals, ARRAY_SIZE(signals),
				  signal_ready);
	if (r >= 0)
		r = loop_timer_add(&top->loop, &top->watch, watch, watch, watch_tick);
	if (r < 0) {
		log_error("top: %s", strerror(-r));
		return trace(r);
	}
	sink_memory_limit(top->sink, MAX_PACKETS);
	return 0;
}

/* > 0: the exit status for a command that cannot be run. */
static int start(struct top *top)
{
	int r = session_start(top->session), e;

	if (r >= 0)
		r = loop_timer_add(&top->loop, &top->interval, (uint64_t)(top->args.interval * 1e9),
				   0, interval_over);
	if (r < 0) {
		log_error("top: %s", strerror(-r));
		return r;
	}
	e = top->command ? spawn_go(&top->child) : 0;
	if (!e)
		return 0;
	log_error("%s: %s", top->command[0], strerror(e));
	return e == ENOENT ? 127 : 126;
}

/* Returns the exit status. */
static int run(struct top *top)
{
	const char *why;
	int r = 0;

	while (r >= 0 && session_state(top->session) != SESSION_DONE)
		r = loop_run_once(&top->loop, -1);
	if (r < 0)
		give_up(top, r);
	r = top->error < 0 ? 0 : show(top);
	if (r < 0)
		give_up(top, r);
	r = await_child(top);
	if (r < 0)
		give_up(top, r);
	if (session_error(top->session, &why) < 0) {
		log_error("%s", why);
		return 1;
	}
	if (top->error < 0)
		return 1;
	if (!top->command || top->ended_by_us ||
	    (top->interrupted && WIFSIGNALED(top->child_status)))
		return 0;
	return spawn_exit_status(top->child_status);
}

static void top_free(struct top *top)
{
	(void)session_free(top->session);
	(void)sink_free(top->sink);
	spawn_deinit(&top->child);
	for (size_t i = 0; i < top->n_specs; i++)
		perf_spec_deinit(&top->specs[i]);
	loop_timer_remove(&top->loop, &top->interval);
	loop_timer_remove(&top->loop, &top->watch);
	signals_unwatch(&top->loop, &top->signals);
	loop_deinit(&top->loop);
	free(top);
}

static int top_all(struct top *top)
{
	int e = top->command ? spawn_check(top->command[0]) : 0, r;

	if (e) {
		log_error("%s: %s", top->command[0], strerror(e));
		return e == ENOENT ? 127 : 126;
	}
	if (choose_event(top) < 0 || make_parts(top) < 0 || open_session(top) < 0)
		return 1;
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
	top->child = (struct spawn){.go_fd = -1, .error_fd = -1};
	top->child_status = -1;
	top->loop.epoll_fd = top->signals.fd = -1;
	top->interval.source.fd = top->watch.source.fd = -1;
	r = options_parse(&options, argc, argv, &top->args, &n);
	if (r != 0) {
		r = options_exit_status(r);
	} else {
		top->command = n ? argv : NULL;
		r = check_args(top) < 0 ? 2 : top_all(top);
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
