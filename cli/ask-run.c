/* ask-run.c - see ask-run.h.  Thread: main. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/ask-run.h"
#include "trace/late-sink.h"
#include "cli/verdict.h"
#include "base/error.h"

enum { ANSWER_S = 20 }; /* the daemon opens all events before it answers */

static void stop(void *arg)
{
	struct ask_run *run = arg;

	if (run->ask)
		ask_stop(run->ask);
}

static void ended(void *arg)
{
	struct ask_run *run = arg;

	run->ended = true;
}

static void set_timer(struct loop_timer *timer, double seconds)
{
	(void)loop_timer_set(timer, (uint64_t)(seconds * 1e9), 0);
}

/* The duration starts here: opening the events of a machine takes time. */
static void accepted(void *arg)
{
	struct ask_run *run = arg;

	run->started = true;
	/* Opens the file: a trace that cannot be created must not start the command. */
	if (!run->waits && run->sink->write(run->sink, "", 0) < 0) {
		run->status = 1;
		if (!late_sink_report(run->sink))
			log_error("the trace cannot be written");
		ask_stop(run->ask);
		return;
	}
	set_timer(&run->end, run->duration);
	if (run->interval > 0)
		set_timer(&run->next, run->interval);
	run->status = job_go(run->job);
	if (!run->status)
		return;
	run->not_run = true;
	late_sink_discard(run->sink);
	ask_stop(run->ask);
}

static void progress(void *arg, const Pb__ControlSummary *m)
{
	struct ask_run *run = arg;
	struct session_summary *s;

	/* A perfwind that is killed loses only packets since the last flush. */
	if (run->sink->flush(run->sink) < 0)
		ask_stop(run->ask);
	if (!run->live || m->has_n_sources)
		return;
	s = malloc(sizeof(*s));
	if (!s)
		return;
	control_summary_read(m, s);
	s->bytes = run->sink->bytes;
	verdict_print_live(s, stderr);
	free(s);
}

void ask_run_stop(struct ask_run *run)
{
	run->job->ended_by_us = true;
	ask_stop(run->ask);
}

static void triggered(void *arg, int verdict)
{
	struct ask_run *run = arg;

	if (run->triggered)
		run->triggered(run->arg, verdict);
}

static void show(struct ask_run *run, const Pb__ControlSummary *m)
{
	if (!run->shown || run->failed < 0)
		return;
	run->failed = run->shown(run->arg, m);
	if (run->failed < 0)
		ask_stop(run->ask);
}

static void renewed(void *arg, const Pb__ControlSummary *m)
{
	struct ask_run *run = arg;

	show(run, m);
	set_timer(&run->next, run->interval);
}

static int end_tick(struct loop_timer *timer)
{
	struct ask_run *run = container_of(timer, struct ask_run, end);

	if (!run->started) {
		run->ended = true;
		return 0;
	}
	if (!run->job->interrupted) /* else it has been stopped already */
		ask_run_stop(run);
	return 0;
}

static int next_tick(struct loop_timer *timer)
{
	struct ask_run *run = container_of(timer, struct ask_run, next);

	ask_renew(run->ask);
	return 0;
}

static int begin(struct ask_run *run)
{
	struct ask_options options = {
		.socket = run->socket,
		.request = run->request,
		.sink = run->sink,
		.accepted = accepted,
		.ended = ended,
		.progress = progress,
		.renewed = renewed,
		.triggered = triggered,
		.arg = run,
	};
	int r = loop_init(&run->loop);

	if (r >= 0)
		r = job_watch(run->job, &run->loop, stop, run);
	if (r >= 0)
		r = loop_timer_add(&run->loop, &run->end, ANSWER_S * NSEC_PER_SEC, 0, end_tick);
	if (r >= 0)
		r = loop_timer_add(&run->loop, &run->next, 0, 0, next_tick);
	if (r >= 0)
		r = ask_new(&options, &run->loop, &run->ask, run->why, sizeof(run->why));
	return r < 0 ? trace(r) : 0;
}

int ask_run_open(struct ask_run *run)
{
	const char *why = "the daemon does not answer";
	int r;

	run->loop.epoll_fd = run->end.source.fd = run->next.source.fd = -1;
	r = begin(run);
	while (r >= 0 && !run->started && !run->ended)
		r = loop_run_once(&run->loop, -1);
	if (r >= 0 && run->started)
		return 0;
	if (r >= 0) {
		r = ask_error(run->ask, NULL) < 0 ? ask_error(run->ask, &why) : -ETIMEDOUT;
		(void)snprintf(run->why, sizeof(run->why), "%s", why);
		if (ask_denied(run->ask))
			return ASK_RUN_DENIED;
	}
	if (!*run->why)
		(void)snprintf(run->why, sizeof(run->why), "the daemon cannot be asked: %s",
			       strerror(-r));
	return trace(r);
}

int ask_run_refused(const struct ask_run *run, const char *lacks, bool kernel)
{
	if (kernel) {
		log_verbose("no kernel frames from the daemon: %s", run->why);
		return -EPERM;
	}
	if (*lacks)
		log_error("%s; the daemon's answer: %s", lacks, run->why);
	else
		log_error("%s", run->why);
	return 1;
}

int ask_run(struct ask_run *run)
{
	const char *why = NULL, *task = "waiting for the daemon";
	char failure[128];
	int r = 0;

	while (r >= 0 && !run->ended)
		r = loop_run_once(&run->loop, -1);
	if (r >= 0) {
		task = "writing the trace";
		r = run->sink->flush(run->sink);
	}
	if (r >= 0 && ask_summary(run->ask)) {
		r = late_sink_end(run->sink, ask_summary(run->ask)->full);
		run->complete = r == 0;
	}
	(void)snprintf(failure, sizeof(failure), "%s: %s", task, strerror(r < 0 ? -r : 0));
	if (run->live)
		fprintf(stderr, "\r\033[K");
	if (ask_summary(run->ask))
		show(run, ask_summary(run->ask));
	if (run->status)
		return run->status;
	if (ask_error(run->ask, &why) >= 0)
		why = r < 0 ? failure : NULL;
	job_await(run->job, !why && run->failed < 0 ? "the table cannot be shown" : why);
	if (why && !late_sink_report(run->sink))
		log_error("%s", why);
	return job_exit_status(run->job, why || run->failed < 0);
}

void ask_run_deinit(struct ask_run *run)
{
	run->ask = ask_free(run->ask);
	loop_timer_remove(&run->loop, &run->end);
	loop_timer_remove(&run->loop, &run->next);
	job_watch_no_more(run->job);
	loop_deinit(&run->loop);
}
