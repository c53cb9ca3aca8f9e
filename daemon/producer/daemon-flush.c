/* daemon-flush.c - which flushes are under way, and answering them in order.  Thread: main.
 *
 * Numbers grow by one; the queue is a ring of DAEMON_FLUSHES.  A service waits some seconds for an
 * answer and has a thousand flushes under way at most, so a full ring is a service gone mad: its
 * oldest flush is answered before its time. */
#include "daemon/producer/daemon-private.h"

static struct flush *flush_at(struct daemon *d, uint64_t number)
{
	return &d->flushes[number % DAEMON_FLUSHES];
}

/* Answers those at the front that are through. */
static void answer(struct daemon *d)
{
	for (; d->first_flush < d->next_flush; d->first_flush++) {
		struct flush *f = flush_at(d, d->first_flush);

		if (f->left)
			break;
		producer_commit(d->producer, NULL, 0, f->request, false);
	}
}

void flush_through(struct daemon *d, uint64_t number)
{
	if (number < d->first_flush) /* answered before its time */
		return;
	flush_at(d, number)->left--;
	answer(d);
}

static void session_through(void *arg)
{
	struct instance *in = arg;

	if (in->n_through < in->n_flushes)
		in->n_through++;
	instance_settle(in);
}

/* false: it has nothing that is to be waited for. */
static bool flush_instance(struct instance *in, uint64_t number)
{
	if (in->n_flushes == DAEMON_FLUSHES ||
	    (in->n_flushes && in->flushes[in->n_flushes - 1] == number)) /* named twice */
		return false;
	if (in->state == INSTANCE_READY || in->state == INSTANCE_ENDED)
		return false;
	if (in->session && session_flush(in->session, session_through, in) < 0)
		return false;
	in->flushes[in->n_flushes++] = number;
	return true;
}

void flush_begin(struct daemon *d, uint64_t request, const uint64_t *ids, size_t n)
{
	uint64_t number = d->next_flush;

	if (number - d->first_flush == DAEMON_FLUSHES) {
		flush_at(d, d->first_flush)->left = 0;
		answer(d);
	}
	/* One is kept back until all are asked: some are through at once. */
	*flush_at(d, number) = (struct flush){.request = request, .left = 1};
	d->next_flush++;
	for (size_t i = 0; i < n; i++) {
		struct instance *in = instance_find(d, ids[i]);

		if (!in || !flush_instance(in, number))
			continue;
		flush_at(d, number)->left++;
		if (in->session)
			continue;
		if (in->kind == INSTANCE_METATRACE)
			instance_write_metatrace(in);
		in->n_through = in->n_flushes;
		instance_settle(in);
	}
	flush_through(d, number);
}
