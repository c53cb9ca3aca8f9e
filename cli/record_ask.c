/* record_ask.c - `perfwind record` where own rights do not do: the options as a request.
 * Thread: main.  The output file is opened here, by the user's own rights. */
#include <errno.h>
#include <string.h>

#include "cli/ask_run.h"
#include "cli/late_sink.h"
#include "cli/record_options.h"
#include "cli/verdict.h"
#include "daemon/base/error.h"

static void fill_request(const struct record_args *args, Pb__ControlRequest *q)
{
	q->has_version = q->has_machine = q->has_children = q->has_frequency = q->has_period =
		q->has_stack_bytes = q->has_user_only = q->has_kernel_only = q->has_idle =
			q->has_clock = q->has_engine = true;
	q->version = CONTROL_VERSION;
	q->machine = args->all;
	q->pids = (uint32_t *)(uintptr_t)args->pids;
	q->n_pids = args->n_pids;
	q->children = args->children;
	q->event = (char *)(uintptr_t)args->event;
	q->filter = (char *)(uintptr_t)args->filter;
	q->frequency = args->frequency;
	q->period = args->period;
	q->stack_bytes = args->stack_bytes;
	q->user_only = args->user_only;
	q->kernel_only = args->kernel_only;
	q->idle = args->idle;
	q->clock = (uint32_t)record_clock(args);
	q->cpus = (char *)(uintptr_t)args->cpus;
	q->engine = args->unwinder;
}

int record_ask(const struct record_args *args, bool live)
{
	Pb__ControlRequest request = PB__CONTROL_REQUEST__INIT;
	struct ask_run asked = {.socket = args->socket,
				.request = &request,
				.duration = args->duration,
				.live = live};
	struct session_summary *summary = malloc(sizeof(*summary));
	struct verdict verdict = {.summary = summary,
				  .file = args->output,
				  .frequency = args->frequency,
				  .period = args->period};
	struct sink *sink = NULL;
	int r, status = 1;

	fill_request(args, &request);
	r = summary ? late_sink_new(args->output, args->plain, &sink) : -ENOMEM;
	asked.sink = sink;
	if (r >= 0)
		status = ask_run(&asked);
	else
		log_error("cannot record: %s", strerror(-r));
	if (asked.ask && ask_summary(asked.ask)) {
		control_summary_read(ask_summary(asked.ask), summary);
		summary->bytes = sink->bytes;
		verdict.event = ask_event(asked.ask);
		verdict_show(&verdict, args->json);
	}
	if (r >= 0)
		ask_run_deinit(&asked);
	(void)sink_free(sink);
	free(summary);
	return status;
}
