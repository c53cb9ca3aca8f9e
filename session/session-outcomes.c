/* session-outcomes.c - what the unwinder has answered becomes packets, in order.
 *
 * Code of a jitdump is known until the dump was read, so outcomes of later samples wait in the queue, with all that stands behind
 * them, for the next reading (emit_must_wait()):
 *
 *   taken ──► sample of 10.30 │ module wanted │ sample of 10.35 │ flushed      the dump was read at 10.29, and is read now
 *                              └─ at once
 *
 * Outcomes with kernel frames wait, as long as it takes, for the thread that reads the kernel's symbols for all sessions.
 *
 * Those of jitdumps cause this reading, and main wakes up when it is there.  They wait for HOLD_MS at most, and until a quarter of the queue is
 * in use, so the unwinder never waits for them.  Requests do not wait: other samples depend on them.  A flush waits, as it covers
 * the samples before it. */
#include <errno.h>
#include <time.h>

#include "base/error.h"
#include "session/session-private.h"

enum {
	MAX_OUTCOMES = 4096,
	HOLD_MS =
		1000, /* the first reading of 500,000 functions, or all unwinding information of as many */
};

static int take_outcome(struct session *s, const struct outcome *o)
{
	switch (o->kind) {
	case OUTCOME_SAMPLE:
		if (!o->counted)
			reader_answered(s->reader, &o->info, (enum skip_reason)o->skipped);
		return session_parts_outcome(s, o);
	case OUTCOME_WANT_MODULE:
		return reader_want_module(s->reader, o->info.process, o->module);
	case OUTCOME_WANT_MAPS:
		return reader_want_maps(s->reader, o->info.process,
					o->reason == UW_NO_MODULE ? o->stopped_at : 0);
	case OUTCOME_EVICTED:
		(void)uw_module_unref(o->module);
		return 0;
	case OUTCOME_FLUSHED:
		s->flushes.answered = o->info.count;
		return 0;
	case OUTCOME_DRAINED:
		s->drained = true;
		return 0;
	case OUTCOME_TAKEN:
		return 0;
	default:
		return fail(-EINVAL);
	}
}

/* Of outcomes that wait: takes requests, and gives the samples' shares of the stages back. */
static int look_ahead(struct session *s)
{
	struct outcome *o;
	int r = 0;

	s->hold.looked = max_u64(s->hold.looked, s->outcomes.taken);
	while (r >= 0 && (o = byte_queue_look(&s->outcomes, &s->hold.looked))) {
		if (o->kind == OUTCOME_SAMPLE) {
			reader_answered(s->reader, &o->info, (enum skip_reason)o->skipped);
			o->counted = true;
		} else if (o->kind == OUTCOME_WANT_MODULE || o->kind == OUTCOME_WANT_MAPS) {
			r = take_outcome(s, o);
			o->kind = OUTCOME_TAKEN;
		}
	}
	return r < 0 ? trace(r) : 0;
}

/* Does the next outcome wait? */
static bool holds(struct session *s, const struct outcome *next)
{
	struct session_hold *hold = &s->hold;
	uint64_t now;

	if (next->kind == OUTCOME_SAMPLE && next->n_kernel &&
	    !session_kernel_names_read(s, s->state != SESSION_RUNNING)) {
		hold->since = clock_ns(CLOCK_MONOTONIC);
		return true;
	}
	if (next->kind != OUTCOME_SAMPLE || s->outcomes.taken < hold->given_up ||
	    !emit_must_wait(s->emit, &next->info))
		return false;
	now = clock_ns(CLOCK_MONOTONIC);
	hold->since = hold->since ? hold->since : now;
	if (now - hold->since < HOLD_MS * NSEC_PER_MSEC &&
	    byte_queue_ready(&s->outcomes) < s->outcomes.size / 4) {
		emit_read_dumps(s->emit, now, true);
		return true;
	}
	hold->given_up = s->outcomes.taken + byte_queue_ready(&s->outcomes);
	return false;
}

int session_take_outcomes(struct session *s, size_t *ret_n)
{
	uint64_t at = s->outcomes.taken, following;
	const struct outcome *o, *next;
	size_t len, n = 0;
	int r = 0, first = 0;

	while (n < MAX_OUTCOMES && (o = byte_queue_look(&s->outcomes, &at)) && !holds(s, o)) {
		s->hold.since = s->hold.looked = 0;
		(void)byte_queue_next(&s->outcomes, &len);
		following = at;
		next = byte_queue_look(&s->outcomes, &following);
		if (next && next->kind == OUTCOME_SAMPLE)
			emit_prefetch(s->emit, next);
		r = take_outcome(s, o);
		first = first ? first : r;
		n++;
	}
	if (!o)
		s->hold.given_up = 0;
	else if (s->hold.since)
		r = look_ahead(s);
	byte_queue_release(&s->outcomes);
	*ret_n = n;
	return first ? first : r;
}
