/* cmd-trace.c - `perfwind trace`: a Perfetto TraceConfig run inside this process.  Thread: main.
 *
 *   config (file or standard input) ──► trace session ──► loop ──► file
 *
 * It ends with duration_ms, with Ctrl-C (or TERM), or when the file is full; what was recorded
 * until then is in the file.  A second Ctrl-C leaves at once. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/listen-fds.h"
#include "base/peer.h"
#include "cli/ask.h"
#include "cli/cmd-trace.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "cli/common-options.h"
#include "trace/late-sink.h"
#include "cli/own-session.h"
#include "cli/snapshot-file.h"
#include "cli/trigger-socket.h"
#include "cli/verdict.h"
#include "base/error.h"
#include "daemon/control/control-protocol.h"
#include "perf/probe.h"
#include "profile/profile-text.h"
#include "profile/trace-text.h"
#include "session/rights.h"
#include "session/consent/consent.h"
#include "tracing/trace-session.h"

/* The abstract name: no file, no cleanup. */
static int name_of(const char *name, char to[static 128])
{
	_Static_assert(TRACE_NAME_MAX + sizeof("@perfwind/4294967295/") <= 108, "of sun_path");
	if (strlen(name) > TRACE_NAME_MAX)
		return fail(-ENAMETOOLONG);
	(void)snprintf(to, 128, "@perfwind/%u/%s", (unsigned)getuid(), name);
	return 0;
}

int trace_name_take(const char *name, int *ret_fd)
{
	char socket[128];
	int r = name_of(name, socket);

	return r < 0 ? trace(r) : trace(listen_at(socket, 0, ret_fd));
}

/* The listening process, if it belongs to this user: another user may have bound the name. */
static int find_owner(const char *name, pid_t *ret_pid)
{
	_cleanup_(fd_closep) int fd = -1;
	char socket[128];
	struct ucred owner;
	int r = name_of(name, socket);

	if (r < 0)
		return trace(r);
	r = unix_connect(socket, 0, 0, &owner, &fd);
	if (r < 0)
		return r == -ECONNREFUSED ? -ENOENT : fail(r);
	if (owner.uid != getuid() || owner.pid <= 0)
		return fail(-EPERM);
	*ret_pid = owner.pid;
	return 0;
}

int trace_name_start(const char *name)
{
	pid_t pid;
	int r = find_owner(name, &pid);

	if (r >= 0)
		r = trigger_socket_send(geteuid(), (uint32_t)pid, NULL);
	if (r < 0)
		return r == -ESRCH ? -EALREADY : r; /* it does not listen: it was not deferred */
	return r == TRIGGER_STARTED ? 0 : -EALREADY;
}

int trace_name_stop(const char *name)
{
	_cleanup_(fd_closep) int pidfd = -1;
	struct pollfd gone;
	pid_t pid;
	int r = find_owner(name, &pid);

	if (r < 0)
		return r;
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0)
		return fail(-errno);
	if (syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, NULL, 0) < 0)
		return errno == ESRCH ? 0 : fail(-errno);
	gone = (struct pollfd){.fd = pidfd, .events = POLLIN};
	while (poll(&gone, 1, -1) < 0)
		if (errno != EINTR)
			return fail(-errno);
	return 0;
}

struct trace_args {
	const char *config, *output, *start, *stop, *dump, *socket, *hook_socket;
	bool text, background, ask, no_ask, under_seccomp;
};

struct trace_run {
	struct trace_args args;
	struct config *config;
	struct loop loop;
	struct sink *sink;
	struct trace_session *trace;
	struct trigger_socket *triggers; /* NULL: the config waits for none */
	struct at_sample *at_sample;
	struct consent *consent;
	struct own_session own;
	struct job job; /* none: its signals */
	bool complete;	/* the file has its end mark */
	int name_fd;	/* holds unique_session_name; -1: none */
	int parent_fd;	/* in the background: the process that waits for the start; -1: none */
};

#define AT(member) .offset = offsetof(struct trace_args, member)
static const struct option_def defs[] = {
	TEXT("config", 'c', "FILE", config,
	     "the TraceConfig, as text or in binary form; -: standard input"),
	TEXT("output", 'o', "FILE", output,
	     "the trace (default: output_path of the config, else " DEFAULT_TRACE ";\n"
	     "an existing one becomes FILE.old)"),
	FLAG("txt", 0, text, "read the config as text"),
	FLAG("background", 'd', background,
	     "go on in the background once it runs, and print the process id"),
	TEXT("start", 0, "NAME", start,
	     "start the trace with this unique_session_name and deferred_start"),
	TEXT("stop", 0, "NAME", stop,
	     "end the trace that has this unique_session_name in its config, and wait for its "
	     "file"),
	TEXT("dump", 0, "FILE", dump,
	     "print a trace as text, one packet a paragraph; -: standard input"),
	OPTION_DAEMON(ask, "record"),
	OPTION_NO_DAEMON(no_ask),
	OPTION_CONTROL_SOCKET(socket),
	OPTION_HOOK_SOCKET(hook_socket),
	OPTION_UNDER_SECCOMP(under_seccomp),
	{0},
};

static const struct options options = {
	.command = "trace",
	.usage = "-c CONFIG [-o FILE] [--txt] [--background] | --start NAME | --stop NAME | --dump "
		 "FILE",
	.description = "Runs a Perfetto TraceConfig without a tracing service: its linux.perf data "
		       "sources, its\nbuffers, its end.  Other data sources are left out with a "
		       "warning; a field that cannot be\nserved is refused by name.",
	.details = {"With trigger_config the session waits for `perfwind trigger NAME`: "
		    "START_TRACING begins with it, STOP_TRACING ends after it, and nothing is kept "
		    "without it.  CLONE_SNAPSHOT writes what its buffers hold to FILE-1, FILE-2 "
		    "(of trace.pftrace: trace-1.pftrace), one for each trigger, and goes on until "
		    "trigger_timeout_ms; FILE itself is not made.  Where the daemon records, the "
		    "first "
		    "two and deferred_start work in the same way, and CLONE_SNAPSHOT is refused."},
	.defs = defs,
	.examples = "# run a config, then show its losses\n"
		    "perfwind trace -c config.pbtxt -o trace.pftrace\n"
		    "perfwind losses trace.pftrace\n\n"
		    "# in the background, until it is stopped by the unique_session_name of its "
		    "config\n"
		    "perfwind trace --background -c config.pbtxt -o trace.pftrace\n"
		    "perfwind trace --stop NAME\n\n"
		    "# the packets of a trace, as text\n"
		    "perfwind trace --dump trace.pftrace | less",
};

static int read_config(struct trace_run *run)
{
	bool is_stdin = !strcmp(run->args.config, "-");
	const char *name = is_stdin ? "standard input" : run->args.config;
	_cleanup_(fd_closep) int fd = -1;
	_cleanup_(freep) char *data = NULL;
	char error[CONFIG_ERROR_SIZE];
	size_t len;
	int r;

	if (!is_stdin)
		fd = open(run->args.config, O_RDONLY | O_CLOEXEC);
	r = !is_stdin && fd < 0 ? -errno
				: read_fd(is_stdin ? STDIN_FILENO : fd, CONFIG_MAX, &data, &len);
	if (r < 0) {
		log_error("%s: %s", name, strerror(-r));
		return fail(r);
	}
	r = config_read(name, data, len, run->args.text ? CONFIG_TEXT : CONFIG_EITHER, &run->config,
			error, sizeof(error));
	if (r < 0)
		log_error("%s", error);
	return r;
}

static bool wants_deflate(const Pb__TraceConfig *m)
{
	return m->compression
		       ? m->compression->deflate != NULL
		       : m->compression_type ==
				 PB__TRACE_CONFIG__COMPRESSION_TYPE__COMPRESSION_TYPE_DEFLATE;
}

static void choose_output(struct trace_run *run)
{
	const char *configured = run->config->message->output_path;

	if (!run->args.output)
		run->args.output = configured && *configured ? configured : DEFAULT_TRACE;
}

static void stop(void *arg)
{
	struct trace_run *run = arg;

	trace_session_stop(run->trace);
}

/* Two sessions of one name cannot be. */
static int take_name(struct trace_run *run)
{
	const char *name = run->config->message->unique_session_name;
	int r = name && *name ? trace_name_take(name, &run->name_fd) : 0;

	if (r == -EADDRINUSE)
		log_error("unique_session_name: a session called '%.80s' is running", name);
	else if (r == -ENAMETOOLONG)
		log_error("unique_session_name: more than %d bytes", TRACE_NAME_MAX);
	else if (r < 0)
		log_error("unique_session_name: %s", strerror(-r));
	return r;
}

/* ---- in the background ---- */

/* The parent's part: 0 when the child runs, else its exit status. */
static int await_start(pid_t child, int fd)
{
	char byte;
	int status;

	if (read(fd, &byte, 1) == 1) {
		printf("%d\n", (int)child);
		return 0;
	}
	if (waitpid(child, &status, 0) < 0)
		return 1;
	return spawn_exit_status(status);
}

/* 0 in the child, which goes on; else the process is the parent, *ret_status its exit status. */
static int go_to_background(struct trace_run *run, int *ret_status)
{
	int fds[2];
	pid_t child;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return fail(-errno);
	child = fork();
	if (child == 0) {
		(void)fd_close(fds[0]);
		run->parent_fd = fds[1];
		(void)setsid();
		return 0;
	}
	(void)fd_close(fds[1]);
	if (child > 0)
		*ret_status = await_start(child, fds[0]);
	(void)fd_close(fds[0]);
	return child < 0 ? fail(-EAGAIN) : 1;
}

/* It runs: the terminal is no longer ours. */
static void leave_terminal(struct trace_run *run)
{
	_cleanup_(fd_closep) int null = -1;

	if (run->parent_fd < 0)
		return;
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (write(run->parent_fd, "", 1) == 1 && null >= 0)
		for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
			(void)dup2(null, fd);
	run->parent_fd = fd_close(run->parent_fd);
}

static int on_trigger(void *arg, const char *name, uint32_t uid)
{
	struct trace_run *run = arg;

	return (int)trace_session_trigger(run->trace, name, uid);
}

static int on_start(void *arg)
{
	struct trace_run *run = arg;

	return trace_session_begin(run->trace) == 0 ? TRIGGER_STARTED : TRIGGER_REFUSED;
}

static int open_snapshot(void *arg, char *name, size_t size)
{
	return snapshot_file_open(((struct trace_run *)arg)->args.output, name, size);
}

static void on_snapshot(void *arg, const char *name, const struct trace_clone_result *result)
{
	char samples[32], size[32];

	(void)arg;
	if (result->error)
		log_error("snapshot %s: %s", name, strerror(-result->error));
	else
		log_info("snapshot: %s samples, %s: %s",
			 text_count(result->written.samples, samples),
			 text_size(result->bytes, size), name);
}

/* To the daemon, which answers later. */
static int pass_trigger(void *arg, const char *name, uint32_t uid)
{
	const struct ask_run *asked = arg;

	ask_trigger(asked->ask, uid, name);
	return TRIGGER_LATER;
}

static int pass_start(void *asked)
{
	return pass_trigger(asked, NULL, geteuid());
}

static void answered(void *arg, int verdict)
{
	trigger_socket_answer(((struct trace_run *)arg)->triggers, verdict);
}

static bool waits(const struct trace_run *run)
{
	return triggers_wanted(run->config->message) || run->config->message->deferred_start;
}

/* < 0: reported. */
static int hear_triggers(struct trace_run *run, const struct trigger_events *events,
			 struct loop *loop)
{
	int r = 0;

	if (waits(run))
		r = trigger_socket_new(events, loop, &run->triggers);
	if (r < 0)
		log_error("the socket of triggers: %s", strerror(-r));
	return r;
}

/* All up to the start.  A failure was reported.  > 0: OWN_ASK and so on. */
static int prepare(struct trace_run *run)
{
	struct trace_session_options to = {
		.config = run->config,
		.root = "",
		/* Readers look at the version behind these words to know what a service does by
		 * itself (from v54: a flush before each write into the file). */
		.tool = "Perfetto v58-compatible, perfwind " PERFWIND_VERSION,
		.open_snapshot = open_snapshot,
		.snapshot = on_snapshot,
		.snapshot_arg = run,
		.deflated_out = wants_deflate(run->config->message),
		.noted = own_session_noted,
		.noted_arg = &run->own,
	};
	char *lacks = run->own.lacks;
	int r = probe_features(&to.features, lacks, sizeof(run->own.lacks));

	if (r >= 0)
		r = loop_init(&run->loop);
	if (r >= 0)
		r = late_sink_new(run->args.output, !to.deflated_out, &run->sink);
	if (r >= 0)
		late_sink_behind(run->sink, trace_session_behind_ms(run->config->message));
	if (r >= 0)
		r = job_watch(&run->job, &run->loop, stop, run);
	to.out = run->sink;
	if (r >= 0)
		r = own_session_at_sample(&to.features, &run->at_sample);
	to.at_sample = run->at_sample;
	own_session_give_up(&to.features, false); /* a config cannot name a probe */
	if (r >= 0)
		r = own_session_consent(run->args.hook_socket, run->args.under_seccomp,
					&to.features, &run->loop, &run->consent);
	to.consent = run->consent;
	if (r >= 0)
		r = trace_session_new(&to, &run->loop, &run->trace, lacks, sizeof(run->own.lacks));
	if (r < 0)
		return own_session_refused(&run->own, r);
	return own_session_enough(&run->own, trace_session_kernel_refused(run->trace));
}

static void show_asked(const struct trace_run *run, const struct ask_run *asked)
{
	struct trace_session_summary summary;

	if (!ask_summary(asked->ask) || log_level <= LOG_LEVEL_QUIET)
		return;
	control_summary_read_trace(ask_summary(asked->ask), &summary);
	if (summary.untriggered) {
		log_info("no trigger or start came: nothing was kept");
		return;
	}
	verdict_print_trace(&summary, run->args.output, asked->sink, asked->complete, stderr);
}

/* The recording is the daemon's, the file ours.  The exit status; < 0: your privileges suffice. */
static int ask_daemon(struct trace_run *run, bool for_kernel)
{
	Pb__ControlRequest request = PB__CONTROL_REQUEST__INIT;
	struct ask_run asked = {.socket = run->args.socket,
				.request = &request,
				.job = &run->job,
				.waits = waits(run),
				.triggered = answered,
				.arg = run};
	const struct trigger_events events = {pass_trigger, pass_start, &asked};
	uint32_t behind_ms;
	int r;

	request.has_version = request.has_trace_config = true;
	request.version = CONTROL_VERSION;
	request.trace_config.data = run->config->wire.data;
	request.trace_config.len = run->config->wire.len;
	request.note = run->own.lacks;
	request.has_kernel_needed = true;
	request.kernel_needed = for_kernel;
	if (run->config->wire.len > CONTROL_REQUEST_MAX / 2) {
		log_error("the config is too large for the daemon: at most %d bytes",
			  CONTROL_REQUEST_MAX / 2);
		return 1;
	}
	r = late_sink_new(run->args.output, !wants_deflate(run->config->message), &asked.sink);
	if (r < 0) {
		log_error("cannot record: %s", strerror(-r));
		return 1;
	}
	behind_ms = trace_session_behind_ms(run->config->message);
	late_sink_behind(asked.sink, behind_ms ? behind_ms + ASK_RUN_BEHIND_MS : 0);
	r = ask_run_open(&asked);
	if (r == 0) {
		run->trace = trace_session_free(run->trace);
		run->sink = sink_free(run->sink);
		r = hear_triggers(run, &events, &asked.loop) < 0 ? 1 : ask_run(&asked);
		show_asked(run, &asked);
	} else {
		r = ask_run_refused(&asked, run->own.lacks, for_kernel);
	}
	run->triggers = trigger_socket_free(run->triggers);
	ask_run_deinit(&asked);
	(void)sink_free(asked.sink);
	return r;
}

static int run_to_end(struct trace_run *run)
{
	const struct trigger_events events = {on_trigger, on_start, run};
	struct trace_session_summary summary;
	const char *why;
	int r = hear_triggers(run, &events, &run->loop);

	if (r < 0)
		return 1;
	r = trace_session_start(run->trace);
	if (r >= 0 && trace_session_state(run->trace) == TRACE_WAITING)
		leave_terminal(run);
	while (r >= 0 && trace_session_state(run->trace) == TRACE_WAITING)
		r = loop_run_once(&run->loop, -1);
	/* The file of a config that writes none meanwhile is made at the end. */
	rights_settle_session(true, false);
	if (r >= 0)
		leave_terminal(run);
	while (r >= 0 && trace_session_state(run->trace) != TRACE_DONE)
		r = loop_run_once(&run->loop, -1);
	if (r >= 0) {
		trace_session_summary(run->trace, &summary);
		r = late_sink_end(run->sink, summary.full);
		run->complete = r == 0;
	}
	if (trace_session_error(run->trace, &why) < 0) {
		log_error("%s", why);
		return 1;
	}
	if (r < 0 && !late_sink_report(run->sink))
		log_error("%s: %s", run->args.output, strerror(-r));
	if (r < 0)
		return 1;
	return 0;
}

/* As the tool of the service does: this config records nothing. */
static int activate_triggers(const Pb__TraceConfig *m)
{
	return trigger_send((const char *const *)m->activate_triggers, m->n_activate_triggers);
}

static int trace_all(struct trace_run *run)
{
	struct trace_session_summary summary;
	int status;

	if (read_config(run) < 0)
		return 1;
	if (run->config->message->n_activate_triggers)
		return activate_triggers(run->config->message);
	choose_output(run);
	if (run->args.background) {
		int r = go_to_background(run, &status);

		if (r < 0)
			log_error("--background: %s", strerror(-r));
		if (r != 0)
			return r < 0 ? 1 : status;
	}
	if (take_name(run) < 0)
		return 1;
	run->own.socket = run->args.socket;
	run->own.may_ask = !run->args.no_ask && !run->args.background;
	status = run->args.ask ? OWN_ASK : prepare(run);
	if (status > 0) {
		status = ask_daemon(run, status == OWN_ASK_FOR_KERNEL);
		if (status >= 0)
			return status;
		status = job_watch(&run->job, &run->loop, stop, run);
		if (status < 0)
			log_error("cannot record: %s", strerror(-status));
	}
	if (status < 0)
		return 1;
	own_session_sure(&run->own);
	status = run_to_end(run);
	if (log_level > LOG_LEVEL_QUIET && trace_session_state(run->trace) == TRACE_DONE) {
		trace_session_summary(run->trace, &summary);
		if (summary.untriggered) {
			if (!summary.snapshots)
				log_info("no trigger or start came: nothing was kept");
			return status;
		}
		verdict_print_trace(&summary, run->args.output, run->sink, run->complete, stderr);
	}
	return status;
}

static int stop_by_name(const char *name)
{
	int r = trace_name_stop(name);

	if (r == -ENOENT)
		log_error("no trace session of yours is called '%.80s'", name);
	else if (r < 0)
		log_error("--stop %.80s: %s", name, strerror(-r));
	return r < 0 ? 1 : 0;
}

static int start_by_name(const char *name)
{
	int r = trace_name_start(name);

	if (r == -ENOENT)
		log_error("no trace session of yours is called '%.80s'", name);
	else if (r == -EALREADY)
		log_error("--start %.80s: it does not wait for a start", name);
	else if (r < 0)
		log_error("--start %.80s: %s", name, strerror(-r));
	return r < 0 ? 1 : 0;
}

static int dump(const char *path)
{
	bool is_stdin = !strcmp(path, "-");
	_cleanup_(fd_closep) int fd = -1;
	char error[256];

	if (!is_stdin) {
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
		if (fd < 0) {
			log_error("%s: %s", path, strerror(errno));
			return 1;
		}
	}
	if (trace_text(is_stdin ? STDIN_FILENO : fd, stdout, error, sizeof(error)) >= 0)
		return 0;
	log_error("%s: %s", is_stdin ? "standard input" : path, error);
	return 1;
}

static int trace_main(int argc, char **argv)
{
	struct trace_run run = {.loop = {.epoll_fd = -1}, .name_fd = -1, .parent_fd = -1};
	int n, r = options_parse(&options, argc, argv, &run.args, &n);

	job_init(&run.job, NULL);
	if (r != 0)
		return options_exit_status(r);
	if (run.args.dump)
		return dump(run.args.dump);
	if (run.args.start)
		return start_by_name(run.args.start);
	if (run.args.stop)
		return stop_by_name(run.args.stop);
	if (run.args.ask && (run.args.no_ask || run.args.background)) {
		log_error("--daemon excludes --no-daemon and --background");
		return 2;
	}
	if (!run.args.socket)
		run.args.socket = CONTROL_SOCKET;
	if (!run.args.config) {
		log_error("trace needs a config: -c FILE, or -c - for standard input");
		return 2;
	}
	if (run.args.background && run.args.output && !strcmp(run.args.output, "-")) {
		log_error("--background and -o - exclude each other");
		return 2;
	}
	if (terminal_refuses_output("trace", run.args.output))
		return 2;
	r = trace_all(&run);
	(void)trigger_socket_free(run.triggers);
	(void)trace_session_free(run.trace);
	(void)at_sample_free(run.at_sample);
	(void)consent_free(run.consent);
	(void)sink_free(run.sink);
	job_deinit(&run.job);
	loop_deinit(&run.loop);
	(void)config_free(run.config);
	(void)fd_close(run.parent_fd);
	(void)fd_close(run.name_fd); /* last: the file is whole */
	return r;
}

const struct command command_trace = {
	.name = "trace",
	.summary = "run a Perfetto trace config without a tracing service",
	.run = trace_main,
	.options = &options,
};
