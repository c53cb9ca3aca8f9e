/* session-deep.c - stacks beyond the kernel's copies, Python frames: the session's side of perf/at-sample.h.  Thread: main. */
#include "session/pipeline/python-entry.h"
#include "session/session-private.h"

struct deep *session_deep(const struct session *s)
{
	return s->options.at_sample ? s->options.at_sample->deep : NULL;
}

struct python_stacks *session_python(const struct session *s)
{
	return s->options.at_sample ? s->options.at_sample->python : NULL;
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

void session_python_answer(struct session *s, const struct load_answer *a)
{
	if (a->request.kind == LOAD_UNWIND && uw_module_is_python(a->request.module))
		python_entry_add(session_python(s), a->request.pid, a->request.module);
}
