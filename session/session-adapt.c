/* session-adapt.c - the size of stack copies while a session runs (pipeline/adapt.h, perf_source_set_stack_bytes()).  Thread: main.
 *
 * Each outcome has the bytes of its copy that were needed.  The tick changes the events where another size was chosen. */
#include <errno.h>

#include "base/error.h"
#include "session/session-private.h"

/* A guess for a stack that went on beyond its copy and was not completed. */
enum { CUT_TIMES = 4 };

bool session_may_choose_copies(const struct session_options *so)
{
	return !so->stack_bytes && !so->waits && !so->poll_ms && !so->raw;
}

int session_adapt_start(struct session *s)
{
	const struct perf_options *o = perf_source_options(s->source);

	if (!session_may_choose_copies(&s->options) || !o->stack_bytes || (o->tasks && !o->sizes))
		return 0;
	s->adapt = calloc(o->n_cpus, sizeof(*s->adapt));
	if (!s->adapt)
		return fail(-ENOMEM);
	s->n_adapt = o->n_cpus;
	for (size_t i = 0; i < s->n_adapt; i++)
		s->adapt[i] = (struct adapt){
			.bytes = o->stack_bytes,
			.stride = o->tasks ? 2 : 1,
		};
	return 0;
}

static uint64_t bytes_needed(const struct session *s, const struct outcome *o)
{
	uint64_t full = o->info.full_copy;

	/* The others have no count of used bytes. */
	if (s->options.engine != UW_ENGINE_NATIVE)
		return full ? CUT_TIMES * full : o->info.stack_len;
	if (full && o->stack_used <= full && o->result == UW_CUT && o->reason != UW_TOO_DEEP)
		return CUT_TIMES * full;
	return o->stack_used;
}

void session_adapt_count(struct session *s, const struct outcome *o)
{
	const struct perf_options *options;
	size_t i = 0;

	if (!s->n_adapt || o->skipped || !o->info.stack_len || o->info.wait)
		return;
	options = perf_source_options(s->source);
	while (i < s->n_adapt && options->cpus[i] != o->info.cpu)
		i++;
	if (i < s->n_adapt)
		(void)adapt_count(&s->adapt[i], bytes_needed(s, o));
}

void session_adapt_save(struct session *s, bool on)
{
	for (size_t i = 0; i < s->n_adapt; i++)
		adapt_save(&s->adapt[i], on);
}

void session_adapt_tick(struct session *s)
{
	const struct perf_options *o = perf_source_options(s->source);
	bool changed = perf_source_settle(s->source);

	for (size_t i = 0; i < s->n_adapt && s->state == SESSION_RUNNING; i++) {
		uint32_t before = perf_source_stack_bytes(s->source, o->cpus[i]);
		uint32_t after = s->adapt[i].bytes;
		int r;

		if (after == before)
			continue;
		r = perf_source_set_stack_bytes(s->source, o->cpus[i], after);
		if (r == -EAGAIN)
			continue;
		if (r < 0) {
			s->adapt[i].bytes = before;
			continue;
		}
		log_verbose("cpu %u: stack copies of %u bytes (were %u)", o->cpus[i], after,
			    before);
		changed = true;
	}
	if (changed)
		session_deep_begin(s);
}
