/* record-ask.c - see record-ask.h.  Thread: main. */
#include <errno.h>
#include <string.h>

#include "trace/late-sink.h"
#include "cli/record-ask.h"
#include "cli/verdict.h"
#include "base/error.h"

static void fill_request(struct record_ask *a)
{
	const struct record_args *args = a->args;
	Pb__ControlRequest *q = &a->request;

	q->has_version = q->has_machine = q->has_children = q->has_frequency = q->has_period =
		q->has_stack_bytes = q->has_code = q->has_idle = q->has_clock = q->has_engine =
			q->has_command = q->has_max_cpu_ppm = true;
	q->version = CONTROL_VERSION;
	q->machine = args->all;
	q->command = a->pid != 0 && !args->stop_watch;
	q->pids = q->command ? &a->pid : (uint32_t *)(uintptr_t)args->pids;
	q->n_pids = q->command ? 1 : args->n_pids;
	q->children = args->children || q->command;
	q->event = (char *)(uintptr_t)args->event;
	q->filter = (char *)(uintptr_t)args->filter;
	q->frequency = args->frequency;
	q->period = args->period;
	q->stack_bytes = args->stack_bytes;
	q->code = record_code(args);
	q->idle = args->idle;
	q->clock = (uint32_t)record_clock(args);
	q->cpus = (char *)(uintptr_t)args->cpus;
	q->engine = args->unwinder;
	q->max_cpu_ppm = args->max_cpu_ppm;
}

int record_ask_open(struct record_ask *a, const struct record_args *args, struct job *job,
		    const char *lacks, bool kernel)
{
	int r = 0;

	*a = (struct record_ask){.args = args, .request = PB__CONTROL_REQUEST__INIT};
	a->run = (struct ask_run){.socket = args->socket,
				  .request = &a->request,
				  .job = job,
				  .duration = args->duration,
				  .live = job->live};
	a->run.loop.epoll_fd = a->run.end.source.fd = a->run.next.source.fd = -1;
	if (!job->spawn.pid)
		r = job_hold(job);
	a->pid = (uint32_t)job->spawn.pid;
	fill_request(a);
	a->request.note = (char *)(uintptr_t)lacks;
	a->request.has_kernel_needed = true;
	a->request.kernel_needed = kernel;
	if (r >= 0)
		r = late_sink_new(args->output, args->plain, &a->run.sink);
	if (r < 0)
		(void)snprintf(a->run.why, sizeof(a->run.why), "cannot record: %s", strerror(-r));
	if (r < 0)
		return trace(r);
	late_sink_behind(a->run.sink, SESSION_BEHIND_MS + ASK_RUN_BEHIND_MS);
	return ask_run_open(&a->run);
}

static void show_verdict(struct record_ask *a)
{
	const struct record_args *args = a->args;
	struct session_summary *summary = malloc(sizeof(*summary)); /* too large for a stack */
	struct verdict verdict = {.summary = summary,
				  .file = args->output,
				  .event = ask_event(a->run.ask),
				  .frequency = args->frequency,
				  .period = args->period};

	if (!summary)
		return;
	control_summary_read(ask_summary(a->run.ask), summary);
	summary->bytes = a->run.sink->bytes;
	verdict.unwritten = verdict_unwritten(summary, a->run.sink, 0);
	verdict.complete = a->run.complete;
	verdict_show(&verdict, args->json);
	free(summary);
}

int record_ask_run(struct record_ask *a)
{
	int status = ask_run(&a->run);

	/* else nothing was made */
	if (ask_summary(a->run.ask) && !a->run.not_run && (!status || a->run.sink->bytes))
		show_verdict(a);
	return status;
}

void record_ask_deinit(struct record_ask *a)
{
	ask_run_deinit(&a->run);
	(void)sink_free(a->run.sink);
}
