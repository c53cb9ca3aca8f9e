/* job.c - see job.h.  Thread: main. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/job.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "base/error.h"

enum { SAME_REQUEST_MS = 300 };

void job_init(struct job *c, char *const *command)
{
	*c = (struct job){
		.spawn = {.go_fd = -1, .error_fd = -1},
		.command = command,
		.status = -1,
		.signals.fd = -1,
	};
}

void job_deinit(struct job *c)
{
	job_watch_no_more(c);
	spawn_deinit(&c->spawn);
}

int job_check(const struct job *c)
{
	int e = c->command ? spawn_check(c->command[0]) : 0;

	return e ? spawn_cannot_run(c->command[0], e, true) : 0;
}

int job_hold(struct job *c)
{
	int r = c->command ? spawn_new(c->command, c->aside, &c->spawn) : 0;

	return r < 0 ? trace(r) : 0;
}

static void reap(struct job *c)
{
	if (spawn_reap(&c->spawn, &c->status) < 0)
		log_error("the exit status of %s is unknown", c->command[0]);
}

/* One request of timeout(1) and of others that signal a process and its group. */
static bool is_same_request(const struct job *c, const struct job_request *request)
{
	return request->pid && request->pid == c->first.pid && request->signal == c->first.signal &&
	       request->at < c->first.at + SAME_REQUEST_MS * NSEC_PER_MSEC;
}

static _Noreturn void leave(const struct job *c, int sig)
{
	if (c->live)
		fprintf(stderr, "\r\033[K");
	terminal_restore();
	if (c->leave)
		c->leave(c->leave_arg);
	_exit(128 + sig);
}

static void interrupt(struct job *c, const struct job_request *request)
{
	if (c->interrupted && is_same_request(c, request))
		return;
	if (c->interrupted)
		leave(c, request->signal);
	c->interrupted = true;
	c->first = *request;
	/* The terminal sends Ctrl-C to the command too, which decides for itself; the other signals reach only
	 * perfwind. */
	c->ended_by_us |= request->signal != SIGINT;
}

static int signal_ready(struct loop_source *source, uint32_t events)
{
	struct job *c = container_of(source, struct job, signals);
	struct job_request request = {.at = clock_ns(CLOCK_MONOTONIC)};

	(void)events;
	while ((request.signal = signals_next_from(source, &request.pid))) {
		if (request.signal == SIGCHLD)
			reap(c);
		else
			interrupt(c, &request);
	}
	if (c->interrupted || c->status >= 0)
		c->over(c->arg);
	return 0;
}

int job_watch(struct job *c, struct loop *loop, void (*over)(void *arg), void *arg)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};
	const struct sigaction usual = {.sa_handler = SIG_DFL};

	job_watch_no_more(c);
	c->loop = loop;
	c->over = over;
	c->arg = arg;
	/* Some supervisors leave SIGCHLD ignored: the kernel would then discard the exit status. */
	(void)sigaction(SIGCHLD, &usual, NULL);
	return signals_watch(loop, &c->signals, signals, ARRAY_SIZE(signals), signal_ready);
}

void job_watch_no_more(struct job *c)
{
	if (c->loop)
		signals_unwatch(c->loop, &c->signals);
	c->loop = NULL;
}

int job_go(struct job *c)
{
	int e = c->command ? spawn_go(&c->spawn) : 0;

	return e ? spawn_cannot_run(c->command[0], e, true) : 0;
}

/* Without a loop: the signals have their default actions, so Ctrl-C ends perfwind at once. */
static void await_without_loop(struct job *c)
{
	sigset_t none;

	job_watch_no_more(c);
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	while (waitpid(c->spawn.pid, &c->status, 0) < 0)
		if (errno != EINTR) {
			c->status = W_EXITCODE(1, 0);
			return;
		}
}

/* Has the command had the time to end with the same Ctrl-C? */
static bool is_over(const struct job *c)
{
	return clock_ns(CLOCK_MONOTONIC) >= c->first.at + SAME_REQUEST_MS * NSEC_PER_MSEC;
}

void job_await(struct job *c, const char *failed)
{
	bool terminated = false, warned = false;

	if (!c->command || c->spawn.go_fd >= 0) /* no command, or never started */
		return;
	reap(c);
	if (c->status < 0 && failed)
		log_info("the recording has ended early: %s; %s goes on", failed, c->command[0]);
	while (c->status < 0) {
		int timeout_ms = -1;

		if (c->ended_by_us && !terminated) {
			(void)kill(c->spawn.pid, SIGTERM);
			terminated = true;
		} else if (c->interrupted && !terminated && !warned && !is_over(c)) {
			timeout_ms = SAME_REQUEST_MS; /* most commands end */
		} else if (c->interrupted && !terminated && !warned) {
			log_info("the recording has ended, %s goes on (Ctrl-C again stops waiting "
				 "for it)",
				 c->command[0]);
			warned = true;
		}
		if (loop_run_once(c->loop, timeout_ms) < 0)
			await_without_loop(c);
	}
	if (WIFSIGNALED(c->status) && !c->ended_by_us &&
	    !(c->interrupted && WTERMSIG(c->status) == SIGINT))
		log_info("%s: %s%s", c->command[0], strsignal(WTERMSIG(c->status)),
			 WCOREDUMP(c->status) ? " (core dumped)" : "");
}

int job_exit_status(const struct job *c, bool failed)
{
	int status = 0;

	if (c->command && !c->ended_by_us && c->status >= 0)
		status = spawn_exit_status(c->status);
	return status ? status : failed;
}
