/* ask_run.c - see ask_run.h.  Thread: main. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/ask_run.h"
#include "cli/signals.h"
#include "cli/verdict.h"
#include "daemon/base/error.h"

static void ended(void *arg)
{
	struct ask_run *run = arg;

	run->ended = true;
}

/* Its time begins: to open a machine's events takes a while. */
static void accepted(void *arg)
{
	struct ask_run *run = arg;

	if (run->duration > 0)
		(void)loop_timer_set(&run->end, (uint64_t)(run->duration * 1e9), 0);
}

static void progress(void *arg, const Pb__ControlSummary *m)
{
	struct ask_run *run = arg;
	struct session_summary *s;

	/* Killed, it has lost no more than what came since the last time. */
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

static int signal_ready(struct loop_source *source, uint32_t events)
{
	struct ask_run *run = container_of(source, struct ask_run, signals);
	int sig;

	(void)events;
	while ((sig = signals_next(source))) {
		if (run->interrupted)
			_exit(128 + sig);
		run->interrupted = true;
		ask_stop(run->ask);
	}
	return 0;
}

static int end_tick(struct loop_timer *timer)
{
	struct ask_run *run = container_of(timer, struct ask_run, end);

	ask_stop(run->ask);
	return 0;
}

static int begin(struct ask_run *run, char *error, size_t size)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	struct ask_options options = {
		.socket = run->socket,
		.request = run->request,
		.sink = run->sink,
		.accepted = accepted,
		.ended = ended,
		.progress = progress,
		.arg = run,
	};
	int r = loop_init(&run->loop);

	if (r >= 0)
		r = signals_watch(&run->loop, &run->signals, signals, ARRAY_SIZE(signals),
				  signal_ready);
	if (r >= 0)
		r = ask_new(&options, &run->loop, &run->ask, error, size);
	if (r >= 0)
		r = loop_timer_add(&run->loop, &run->end, 0, 0, end_tick);
	return r < 0 ? trace(r) : 0;
}

int ask_run(struct ask_run *run)
{
	char error[512] = "";
	const char *why;
	int r;

	run->loop.epoll_fd = run->signals.fd = run->end.source.fd = -1;
	r = begin(run, error, sizeof(error));
	while (r >= 0 && !run->ended)
		r = loop_run_once(&run->loop, -1);
	if (r >= 0)
		r = run->sink->flush(run->sink);
	if (run->live)
		fprintf(stderr, "\r\033[K");
	if (run->ask && ask_error(run->ask, &why) < 0) {
		log_error("%s", why);
		return 1;
	}
	if (r < 0)
		log_error("%s", *error ? error : strerror(-r));
	return r < 0;
}

void ask_run_deinit(struct ask_run *run)
{
	run->ask = ask_free(run->ask);
	loop_timer_remove(&run->loop, &run->end);
	signals_unwatch(&run->loop, &run->signals);
	loop_deinit(&run->loop);
}
