/* session-writer.c - the writer of a session's packets, from its events.  Thread: main. */
#include <time.h>

#include "session/session-private.h"

static void writer_event_of(const struct perf_spec *spec, struct writer_event *event)
{
	*event = (struct writer_event){
		.name = spec->unnamed ? NULL : spec->name,
		.counter = spec->counter,
		.tracepoint = spec->tracepoint[0] ? spec->tracepoint : NULL,
		.filter = spec->filter,
		.raw_type = spec->type,
		.raw_config = spec->config,
		.raw_config1 = spec->config1,
		.raw_config2 = spec->config2,
		.modifiers = spec->code == FRAMES_ALL ? 0 : spec->code,
	};
}

int session_make_writer(struct session *s)
{
	const struct perf_options *o = perf_source_options(s->source);
	struct writer_options wo = {
		.followers = s->followers,
		.n_followers = o->n_followers,
		.period = o->period,
		.frequency = o->frequency,
		.poll_ms = s->options.poll_ms,
		.shard_count = s->options.shard_count,
		.shard = s->options.shard,
		.clock = s->options.poll_ms ? CLOCK_BOOTTIME : s->options.clock,
		.sequence_id = s->options.producer   ? 0
			       : s->options.sequence ? s->options.sequence
						     : 1,
		.tool = "perfwind " PERFWIND_VERSION,
	};

	writer_event_of(&o->leader, &wo.leader);
	for (size_t i = 0; i < o->n_followers; i++)
		writer_event_of(&o->followers[i], &s->followers[i]);
	return writer_new(&wo, s->sink, &s->writer);
}
