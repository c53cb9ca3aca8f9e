/* session-flush.c - "all from before is in the sink", and the callbacks to the session's owner.
 * Thread: main.
 *
 *   asked ─► the reader's round that begins after it has ended ─► ENTRY_FLUSH through the unwinder
 *         ─► OUTCOME_FLUSHED (behind the outcomes of all samples from before) ─► sink ─► callback
 *
 * The entry says until when parked samples may hold it up.  Callbacks are due() first and called
 * last, from the loop, because each may free the session. */
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "session/session-private.h"

/* An unwinder that does not answer in time would be a fault of ours; nobody hangs on it. */
enum { GIVE_UP_MS = 1000 };

int session_flush(struct session *s, void (*flushed)(void *arg), void *arg)
{
	struct session_flushes *list = &s->flushes;
	struct session_flush *flush;

	if (list->n == list->room) {
		size_t room = list->room ? list->room * 2 : 8;
		struct session_flush *more = reallocarray(list->items, room, sizeof(*more));

		if (!more)
			return fail(-ENOMEM);
		list->items = more;
		list->room = room;
	}
	flush = &list->items[list->n++];
	*flush = (struct session_flush){
		.flushed = flushed,
		.arg = arg,
		.number = ++list->last,
		.asked_at = clock_ns(CLOCK_MONOTONIC),
		.round = s->reader ? reader_rounds(s->reader) + 1 : 0,
	};
	session_wake(s);
	return 0;
}

void session_wake(struct session *s)
{
	const uint64_t one = 1;

	(void)!write(s->main_waker.fd, &one, sizeof(one));
}

int session_flush_send(struct session *s, bool all_read)
{
	struct session_flushes *list = &s->flushes;

	for (; list->n_sent < list->n && list->sent - list->answered < UNWIND_FLUSHES;
	     list->n_sent++) {
		const struct session_flush *flush = &list->items[list->n_sent];
		uint64_t deadline = flush->asked_at + SESSION_FLUSH_MS * NSEC_PER_MSEC;
		int r;

		if (!all_read || (session_reads(s) && reader_rounds(s->reader) < flush->round))
			return 0;
		r = reader_flush(s->reader, flush->number, deadline);
		if (r < 0)
			return trace(r);
		list->sent = flush->number;
	}
	return 0;
}

void session_flush_answered(struct session *s, uint64_t number)
{
	s->flushes.answered = number;
}

/* Those that have come through or are waited for no longer. */
static size_t n_through(const struct session *s)
{
	const struct session_flushes *list = &s->flushes;
	uint64_t now = list->n ? clock_ns(CLOCK_MONOTONIC) : 0;
	size_t n = 0;

	while (n < list->n && (s->state == SESSION_READY || s->state == SESSION_DONE ||
			       list->items[n].number <= list->answered ||
			       now > list->items[n].asked_at + GIVE_UP_MS * NSEC_PER_MSEC))
		n++;
	return n;
}

int session_flush_sink(struct session *s)
{
	size_t n = n_through(s);
	int r = 0, flushed;

	if (n <= s->flushes.n_due)
		return 0;
	s->flushes.n_due = n;
	if (s->state != SESSION_READY)
		r = writer_symbols_flush(s->writer);
	flushed = s->sink->flush(s->sink);
	return r < 0 ? trace(r) : trace(flushed);
}

/* One callback; false: none is due. */
static bool report_one(struct session *s)
{
	struct session_flushes *list = &s->flushes;
	struct session_flush flush;

	if (list->n_due) {
		flush = list->items[0];
		list->n_due--;
		list->n_sent -= list->n_sent > 0;
		memmove(list->items, list->items + 1, --list->n * sizeof(*list->items));
		flush.flushed(flush.arg);
		return true;
	}
	if (s->state != SESSION_DONE || s->told_done)
		return false;
	s->told_done = true;
	session_leave_loop(s);
	if (s->options.done)
		s->options.done(s->options.done_arg);
	return true;
}

void session_report(struct session *s)
{
	s->reporting = true;
	while (!s->freed && report_one(s))
		;
	s->reporting = false;
	if (s->freed)
		free(s);
}

int session_clear_incremental_state(struct session *s)
{
	int r;

	if (s->state == SESSION_READY || s->state == SESSION_DONE)
		return 0; /* all is new; nothing follows */
	r = writer_clear_incremental_state(s->writer);
	emit_announce_again(s->emit);
	return r < 0 ? trace(r) : 0;
}
