/* control-limits.c - what the recordings of one user may cost together.  Thread: main.
 *
 * Recordings, samples a second and memory are counted over all that is a user's; each data source of
 * a trace is a recording.  What one recording may take of memory, processes and descriptors is its part of what all
 * of theirs may (user-recordings), so that none depends on what the others happen to use.  Root is
 * bounded by max-recordings alone.
 *
 * A user's are those of all users that they can be (policy_person()).  As that is not always known, what
 * all have together can be used up by one; so a part of it is kept for those who may record everything: of
 * connections, of recordings, and of the processes that look at outputs (control-output.c). */
#include <errno.h>
#include <time.h>

#include "base/error.h"
#include "daemon/control/control-private.h"

enum { KEPT_RECORDINGS = 8 }; /* one of so many */

bool client_has_place(const struct client *c)
{
	size_t most = CONTROL_CLIENTS - (c->trusted ? 0 : CONTROL_KEPT_CLIENTS), n = 0;

	for (const struct client *o = c->control->clients; o; o = o->next)
		n += o->person == c->person;
	return n < CONTROL_USER_CLIENTS && c->control->n_clients < most;
}

/* ---- time of main, which everybody waits for ----
 *
 * To open and to close a recording takes tens of ms, or hundreds where many processes are asked for, and the
 * rings of all others fill meanwhile.  A person's turns take one part in TURN_SHARE of the time, after
 * TURN_AHEAD_NS at once. */

enum { TURN_SHARE = 5, TURN_AHEAD_NS = 1000000000 };

/* @person's, or the one that is over for longest. */
static struct control_turn *turn_of(struct control *ctl, uint32_t person)
{
	struct control_turn *best = &ctl->turns[0];

	for (size_t i = 0; i < ARRAY_SIZE(ctl->turns); i++) {
		if (ctl->turns[i].from && ctl->turns[i].person == person)
			return &ctl->turns[i];
		if (ctl->turns[i].from < best->from)
			best = &ctl->turns[i];
	}
	return best;
}

bool client_may_open(const struct client *c)
{
	const struct control_turn *t = turn_of(c->control, c->person);

	return !c->asker.uid || t->person != c->person ||
	       t->from <= clock_ns(CLOCK_MONOTONIC) + TURN_AHEAD_NS;
}

void client_charge(struct client *c, uint64_t from)
{
	struct control_turn *t = turn_of(c->control, c->person);
	uint64_t took = clock_ns(CLOCK_MONOTONIC) - from;

	if (t->person != c->person)
		*t = (struct control_turn){.person = c->person};
	t->from = max_u64(t->from, from) + took * TURN_SHARE;
}

/* What one recording of a user may take of what all of theirs may. */
uint32_t client_share(const struct client *c, uint32_t of_all)
{
	return (uint32_t)max_u64(of_all / max_u64(c->control->policy.user_recordings, 1), 1);
}

struct in_use {
	uint64_t all, own; /* sessions */
	uint64_t rate;	   /* of the user's */
};

/* With those that @c has so far. */
static struct in_use in_use(const struct client *c)
{
	struct in_use use = {c->sessions, c->sessions, c->rate};

	for (const struct client *o = c->control->clients; o; o = o->next) {
		bool own = o->person == c->person;

		if (o->state != CLIENT_RUNNING)
			continue;
		use.all += max_u64(o->sessions, 1);
		use.own += own ? max_u64(o->sessions, 1) : 0;
		use.rate += own ? o->rate : 0;
	}
	return use;
}

/* May it have one more? */
int client_check_sessions(const struct client *c, char *error, size_t size)
{
	const struct policy *p = &c->control->policy;
	struct in_use use = in_use(c);
	uint32_t kept = c->trusted ? 0 : p->recordings / KEPT_RECORDINGS;

	if (use.all >= p->recordings - kept)
		return control_denied(error, size, "%lu recordings are running (max-recordings)",
				      use.all);
	if (c->asker.uid && use.own >= p->user_recordings)
		return control_denied(
			error, size,
			"you have %lu recordings running (user-recordings = %u; each data "
			"source of a trace is one)",
			use.own, p->user_recordings);
	return 0;
}

/* One more, of @rate. */
int client_add_session(struct client *c, uint64_t rate, char *error, size_t size)
{
	uint64_t limit = c->control->policy.user_rate, used = in_use(c).rate;
	int r = client_check_sessions(c, error, size);

	if (r < 0)
		return trace(r);
	if (c->asker.uid && (used > limit || rate > limit - used))
		return control_denied(
			error, size,
			"%lu samples a second of a CPU are asked for in all, %lu are allowed "
			"(user-rate)",
			rate < UINT64_MAX - used ? used + rate : UINT64_MAX, limit);
	c->sessions++;
	c->rate += c->asker.uid ? rate : 0;
	return 0;
}

uint64_t client_memory_share(const struct client *c)
{
	return client_share(c, c->control->policy.user_memory);
}

void client_limit_targets(const struct client *c, struct session_options *so)
{
	if (!c->asker.uid)
		return;
	so->max_processes = client_share(c, c->control->policy.user_processes);
	so->max_descriptors = client_share(c, c->control->policy.user_descriptors);
}

/* A quarter for packets that wait, the rest for rings. */
void client_limit(struct client *c, struct session_options *so)
{
	client_sink_init(c, client_memory_share(c) / 4);
	client_limit_targets(c, so);
	if (c->asker.uid)
		so->ring_budget = client_memory_share(c) / 4 * 3;
}

uint64_t client_buffers_kb(const struct client *c)
{
	const Pb__TraceConfig *m = c->config->message;
	uint64_t kb = 0;

	for (size_t i = 0; i < m->n_buffers; i++)
		kb += m->buffers[i]->size_kb;
	return kb;
}

/* What we keep for it: packets that wait, with us and in the kernel, and the buffers of a trace; a part for each
 * session. */
static uint64_t kept(void *client)
{
	const struct client *c = client;
	uint64_t buffers = c->config ? client_buffers_kb(c) << 10 : 0;

	return (client_waiting(c) + control_unread(&c->output) + buffers) / max_u64(c->sessions, 1);
}

void client_own(struct client *c, struct session_options *so)
{
	so->owner = c->person;
	so->holds = kept;
	so->holds_arg = c;
}

int client_check_buffers(const struct client *c, char *error, size_t size)
{
	uint64_t kb = client_buffers_kb(c);

	if (!c->asker.uid || kb <= client_memory_share(c) / 4 >> 10)
		return 0;
	return control_denied(
		error, size,
		"buffers of %lu KiB are asked for, a recording may have %lu (user-memory)", kb,
		client_memory_share(c) / 4 >> 10);
}
