/* session-poll.c - counters read by the clock instead of samples.  Thread: main.
 * The events are a source without rings; a timer reads each CPU's group and writes one packet. */
#include <time.h>

#include "base/error.h"
#include "session/session-private.h"

static int poll_cpu(struct session *s, size_t index)
{
	uint64_t counts[1 + PERF_MAX_FOLLOWERS];
	struct writer_sample sample = {.counts_only = true};
	size_t n;
	int r = perf_source_read_group(s->source, index, counts, &n, &sample.cpu);

	if (r < 0)
		return 0;	     /* a CPU that is off for now has nothing to tell */
	r = writer_renew(s->writer); /* there is nothing else to be told again */
	sample.time = clock_ns(CLOCK_BOOTTIME);
	sample.count = counts[0];
	sample.follower_counts = counts + 1;
	sample.n_follower_counts = n - 1;
	s->account.received++;
	if (r >= 0)
		r = writer_sample(s->writer, &sample);
	if (r < 0)
		s->account.skipped[SKIP_OUTPUT]++;
	else
		s->account.emitted++;
	return r < 0 ? trace(r) : 0;
}

int session_poll_counters(struct session *s)
{
	int r = 0;

	for (size_t i = 0; i < perf_source_options(s->source)->n_cpus && r >= 0; i++)
		r = poll_cpu(s, i);
	return r;
}

static int poll_tick(struct loop_timer *timer)
{
	struct session *s = container_of(timer, struct session, poll);
	int r = s->state == SESSION_RUNNING ? session_poll_counters(s) : 0;

	if (r < 0)
		session_fail(s, r, "writing the trace");
	return 0;
}

int session_poll_start(struct session *s)
{
	uint64_t period = s->options.poll_ms * NSEC_PER_MSEC;

	return loop_timer_add(s->loop, &s->poll, period, period, poll_tick);
}
