/* session-deep.c - stacks beyond the kernel's copies: the session's side of perf/deep.h.  Thread: main. */
#include "session/session-private.h"

struct deep *session_deep(const struct session *s)
{
	return s->options.at_sample ? s->options.at_sample->deep : NULL;
}

void session_deep_begin(struct session *s)
{
	if (session_deep(s))
		deep_set_room(session_deep(s), perf_source_options(s->source)->stack_bytes);
}

void session_deep_learn(struct session *s, const struct outcome *o)
{
	if (session_deep(s) && o->info.full_copy && !o->skipped && o->info.space)
		deep_learn(session_deep(s), o->info.tid, o->stack_used, o->info.full_copy,
			   o->result == UW_WHOLE || o->reason == UW_TOO_DEEP);
}
