/* control-output.c - the descriptor that a client sends for its packets, from its connection's queue
 * to main (ipc/output.h has the why).  Thread: main.
 *
 *   CLIENT_WAITS ──► one at a time: helper looks ─┬─ good ──────────────────► the client's
 *                                                 └─ bad: denied ─► helper closes it ─► the next one
 *
 * The answer comes before the closing, so a client is told in any case.  A helper that does not come
 * back from closing is abandoned and its sender blamed: whoever has done that is not looked at for a
 * while, twice as long each time.  When OUTPUT_LEFT of them are held by files that never answer,
 * nobody is served until one is let go; who may record everything is not kept waiting by others: looked at
 * first, and by OUTPUT_KEPT that are not lost to anybody else. */
#include <errno.h>
#include <time.h>

#include "base/child.h"
#include "base/error.h"
#include "daemon/control/control-private.h"

enum {
	LOOK_MS = 1000,
	CLOSE_MS = 250,
	RUNS_MS = 30000, /* while it runs, or wants to, it is not stuck */
	TRIES = 3,	 /* helpers that ended over one client */
	OUTPUT_LEFT = 64,
	OUTPUT_KEPT = 16,
	BLAME_MS = 2000, /* the first time */
	BLAME_DOUBLED = 7,
};

const char control_not_looked_at[] = "the descriptor for the packets cannot be looked at now";

/* ---- blame ---- */

/* @person's, or the one that has been of no use for longest. */
static struct output_blame *blame_of(struct control_outputs *o, uint32_t person)
{
	struct output_blame *best = &o->blames[0];

	for (size_t i = 0; i < ARRAY_SIZE(o->blames); i++) {
		if (o->blames[i].times && o->blames[i].person == person)
			return &o->blames[i];
		if (o->blames[i].until < best->until)
			best = &o->blames[i];
	}
	return best;
}

static void blame(struct control_outputs *o, uint32_t person)
{
	struct output_blame *b = blame_of(o, person);
	uint64_t now = control_now_ms();

	if (b->person != person || now > b->until + (BLAME_MS << BLAME_DOUBLED))
		*b = (struct output_blame){.person = person};
	b->until = now + ((uint64_t)BLAME_MS << min_u64(b->times++, BLAME_DOUBLED));
}

static bool is_blamed(struct control_outputs *o, uint32_t person)
{
	const struct output_blame *b = blame_of(o, person);

	return b->times && b->person == person && control_now_ms() < b->until;
}

/* ---- the helper ---- */

static void abandon(struct control *ctl)
{
	struct control_outputs *o = &ctl->outputs;

	loop_remove(ctl->loop, &o->source);
	o->helper = helper_abandon(o->helper);
	o->state = OUTPUTS_IDLE;
}

static int answered(struct loop_source *source, uint32_t events);

static int ask(struct control *ctl, uint8_t what, int fd)
{
	struct control_outputs *o = &ctl->outputs;
	int r = 0;

	if (!o->helper)
		r = helper_new(&output_role, NULL, &o->helper);
	if (r >= 0 && o->source.fd < 0)
		r = loop_add(ctl->loop, &o->source, helper_fd(o->helper), EPOLLIN, answered);
	if (r >= 0)
		r = helper_ask(o->helper, &what, 1, fd);
	if (r < 0) {
		abandon(ctl);
		return trace(r);
	}
	o->state = what == OUTPUT_LOOK ? OUTPUTS_LOOKS : OUTPUTS_CLOSES;
	o->deadline = control_now_ms() + (what == OUTPUT_LOOK ? LOOK_MS : CLOSE_MS);
	return 0;
}

static bool is_before(const struct client *a, const struct client *b)
{
	return a->trusted != b->trusted ? a->trusted : a->deadline <= b->deadline;
}

/* Who has waited longest; first those who may record everything. */
static struct client *first_waiting(const struct control *ctl)
{
	struct client *best = NULL;

	for (struct client *c = ctl->clients; c; c = c->next)
		if (c->awaits == CLIENT_WAITS && (!best || is_before(c, best)))
			best = c;
	return best;
}

static bool may_look(const struct client *c)
{
	return child_left(OUTPUT_NAME) < OUTPUT_LEFT - (c->trusted ? 0 : OUTPUT_KEPT);
}

static void next(struct control *ctl)
{
	struct control_outputs *o = &ctl->outputs;
	struct client *c;

	while (o->state == OUTPUTS_IDLE && (c = first_waiting(ctl))) {
		const char *why = NULL;

		if (is_blamed(o, c->person))
			why = "a descriptor that you sent could not be closed: not now";
		else if (c->tries++ >= TRIES || !may_look(c) ||
			 ask(ctl, OUTPUT_LOOK, c->stream.fd) < 0)
			why = control_not_looked_at;
		c->awaits = why ? CLIENT_AWAITS_NOTHING : CLIENT_LOOKED_AT;
		if (why)
			client_deny(c, why);
		else
			o->client = c;
	}
}

/* It ended, or is stuck. */
static void lose(struct control *ctl)
{
	struct control_outputs *o = &ctl->outputs;

	if (o->client)
		o->client->awaits = CLIENT_WAITS; /* again */
	o->client = NULL;
	abandon(ctl);
}

static void take_verdict(struct control *ctl, enum output_verdict verdict, int fd)
{
	struct control_outputs *o = &ctl->outputs;
	struct client *c = o->client;

	o->client = NULL;
	o->state = OUTPUTS_IDLE;
	o->person = c ? c->person : o->person;
	if (verdict == OUTPUT_GOOD && fd < 0)
		verdict = OUTPUT_NOT_RECEIVED;
	if (verdict != OUTPUT_GOOD)
		(void)ask(ctl, OUTPUT_LET_GO, -1);
	if (c) {
		c->awaits = CLIENT_AWAITS_NOTHING;
		client_output(c, verdict, fd);
	} else if (fd >= 0) {
		closer_pass(&ctl->closer, fd);
	}
}

static int answered(struct loop_source *source, uint32_t events)
{
	struct control_outputs *o = container_of(source, struct control_outputs, source);
	struct control *ctl = container_of(o, struct control, outputs);
	const uint8_t *answer;
	size_t len;
	int fd = -1, r = helper_answer(o->helper, &answer, &len, &fd);

	(void)events;
	if (r == HELPER_WAITING)
		return 0;
	if (r < 0)
		lose(ctl);
	else if (o->state == OUTPUTS_LOOKS)
		take_verdict(ctl, len ? answer[0] : OUTPUT_NONE, fd);
	else
		o->state = OUTPUTS_IDLE;
	next(ctl);
	return 0;
}

/* ---- for control.c ---- */

void client_output_look(struct client *c)
{
	struct control *ctl = c->control;

	c->awaits = CLIENT_WAITS;
	(void)loop_change(ctl->loop, &c->source, 0); /* its end is told all the same */
	control_outputs_tick(ctl, control_now_ms());
	next(ctl);
}

void control_outputs_forget(struct client *c)
{
	struct control_outputs *o = &c->control->outputs;

	c->awaits = CLIENT_AWAITS_NOTHING;
	if (o->client != c)
		return;
	o->person = c->person;
	o->client = NULL;
}

void control_outputs_tick(struct control *ctl, uint64_t now)
{
	struct control_outputs *o = &ctl->outputs;

	if (o->state == OUTPUTS_IDLE || now < o->deadline)
		return;
	(void)answered(&o->source, 0);
	if (o->state == OUTPUTS_IDLE || now < o->deadline)
		return;
	if (now < o->deadline + RUNS_MS && helper_runnable(o->helper))
		return;
	if (o->state == OUTPUTS_CLOSES) {
		log_verbose("control socket: a descriptor that user %u sent cannot be closed",
			    o->person);
		blame(o, o->person);
	}
	lose(ctl);
	next(ctl);
}

void control_outputs_init(struct control *ctl)
{
	ctl->outputs = (struct control_outputs){.source.fd = -1};
}

void control_outputs_deinit(struct control *ctl)
{
	abandon(ctl);
}
