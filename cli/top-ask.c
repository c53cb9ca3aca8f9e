/* top-ask.c - `perfwind top` where own rights do not do: the daemon samples, and each interval it
 * lets what follows begin anew.  Thread: main. */
#include <time.h>

#include "cli/ask-run.h"
#include "cli/top-private.h"
#include "base/error.h"

struct top_asked {
	struct top_view *view;
	struct ask_run run;
	uint32_t pid; /* of the command */
};

static void fill_request(struct top_asked *a, Pb__ControlRequest *q)
{
	const struct top_args *args = a->view->args;

	q->has_version = q->has_machine = q->has_children = q->has_frequency = q->has_user_only =
		q->has_clock = q->has_command = q->has_kernel_needed = true;
	q->version = CONTROL_VERSION;
	q->machine = args->all;
	q->command = a->pid != 0;
	q->pids = q->command ? &a->pid : (uint32_t *)(uintptr_t)args->pids;
	q->n_pids = q->command ? 1 : args->n_pids;
	q->children = args->children || q->command;
	q->event = (char *)(uintptr_t)args->event;
	q->frequency = args->frequency;
	q->user_only = args->user_only;
	q->clock = CLOCK_MONOTONIC;
}

static int shown(void *arg, const Pb__ControlSummary *m)
{
	struct top_asked *a = arg;
	const struct top_state state = {
		.event = ask_event(a->run.ask),
		.duration_s = m->duration_s,
		.lost = m->lost_samples,
		.dropped = m->lost_packets,
	};
	int r = top_view_show(a->view, &state);

	if (r < 0)
		top_view_failed(r);
	return r;
}

static void quit(void *arg)
{
	struct top_asked *a = arg;

	ask_run_stop(&a->run);
}

int top_ask(struct top_view *view, struct top_keys *keys, struct job *job, const char *lacks,
	    bool kernel, struct session **own)
{
	Pb__ControlRequest request = PB__CONTROL_REQUEST__INIT;
	struct top_asked a = {.view = view, .pid = (uint32_t)job->spawn.pid};
	int r;

	a.run = (struct ask_run){.socket = view->args->socket,
				 .request = &request,
				 .sink = view->sink,
				 .job = job,
				 .shown = shown,
				 .arg = &a};
	*(view->args->once ? &a.run.duration : &a.run.interval) = view->args->interval;
	fill_request(&a, &request);
	request.note = (char *)(uintptr_t)lacks;
	request.kernel_needed = kernel;
	r = ask_run_open(&a.run);
	if (r == 0)
		*own = session_free(*own);
	if (r == 0 && !view->args->once && !job->command)
		(void)top_keys_watch(keys, view, &a.run.loop, quit, &a);
	r = r ? ask_run_refused(&a.run, lacks, kernel) : ask_run(&a.run);
	top_keys_unwatch(keys);
	ask_run_deinit(&a.run);
	return r;
}
