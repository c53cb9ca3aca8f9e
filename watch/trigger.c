/* trigger.c - see trigger.h. */
#include "watch/trigger.h"

#define DAY (86400 * NSEC_PER_SEC)

static void add_value(struct trigger *t, uint64_t now, double value, uint32_t pid)
{
	t->weighted += value * (double)(now - t->last);
	t->end = now;
	if (value >= t->peak) {
		t->peak = value;
		t->peak_pid = pid;
	}
}

static enum trigger_event fire(struct trigger *t, const struct watch_rule *rule, uint64_t now)
{
	if (!t->day || now - t->day >= DAY) {
		t->day = now;
		t->n_of_day = 0;
	}
	if (now < t->cooldown_until || t->n_of_day >= rule->per_day) {
		enum trigger_event event = t->suppressed ? TRIGGER_NOTHING : TRIGGER_SUPPRESSED;

		t->suppressed = true;
		return event;
	}
	t->n_of_day++;
	t->state = TRIGGER_HIGH;
	t->calm_since = 0;
	t->calm_weighted = 0;
	return TRIGGER_FIRED;
}

static enum trigger_event step_low(struct trigger *t, const struct watch_rule *rule, uint64_t now,
				   double value, uint32_t pid)
{
	if (t->state == TRIGGER_CALM && value >= rule->above) {
		/* The value is of the time since the last step. */
		t->since = t->last ? t->last : now;
		t->weighted = t->peak = 0;
		t->peak_pid = pid;
		t->suppressed = false;
		t->state = TRIGGER_RISING;
	}
	if (t->state != TRIGGER_RISING)
		return TRIGGER_NOTHING;
	if (value < rule->below) {
		t->state = TRIGGER_CALM;
		return TRIGGER_NOTHING;
	}
	add_value(t, now, value, pid);
	return now - t->since >= rule->hold_ns ? fire(t, rule, now) : TRIGGER_NOTHING;
}

/* An episode that is over is written `after` later. */
static enum trigger_event step_high(struct trigger *t, const struct watch_rule *rule, uint64_t now,
				    double value, uint32_t pid)
{
	bool low = value < rule->below;

	if (low) {
		t->calm_since = t->calm_since ? t->calm_since : t->last;
		t->calm_weighted += value * (double)(now - t->last);
	} else {
		t->weighted += t->calm_weighted;
		t->calm_since = 0;
		t->calm_weighted = 0;
		add_value(t, now, value, pid);
	}
	if ((low && now - t->calm_since >= rule->calm_ns) || now - t->since >= rule->longest_ns)
		t->state = TRIGGER_AFTER;
	return TRIGGER_NOTHING;
}

static enum trigger_event step_after(struct trigger *t, const struct watch_rule *rule, uint64_t now)
{
	if (now - t->end < rule->after_ns)
		return TRIGGER_NOTHING;
	return trigger_stop(t, rule, now);
}

enum trigger_event trigger_step(struct trigger *t, const struct watch_rule *rule, uint64_t now,
				double value, uint32_t pid)
{
	enum trigger_event event = TRIGGER_NOTHING;

	if (!t->last)
		t->last = now;
	if (t->state == TRIGGER_CALM || t->state == TRIGGER_RISING)
		event = step_low(t, rule, now, value, pid);
	else if (t->state == TRIGGER_HIGH)
		event = step_high(t, rule, now, value, pid);
	if (t->state == TRIGGER_AFTER)
		event = step_after(t, rule, now);
	t->last = now;
	return event;
}

enum trigger_event trigger_stop(struct trigger *t, const struct watch_rule *rule, uint64_t now)
{
	bool was = t->state == TRIGGER_HIGH || t->state == TRIGGER_AFTER;

	t->state = TRIGGER_CALM;
	if (was)
		t->cooldown_until = now + rule->cooldown_ns;
	return was ? TRIGGER_ENDED : TRIGGER_NOTHING;
}

void trigger_retry(struct trigger *t, uint64_t until)
{
	t->cooldown_until = min_u64(t->cooldown_until, until);
	t->n_of_day -= t->n_of_day > 0;
	t->suppressed = false; /* the shorter one is reported */
}

struct trigger_episode trigger_episode(const struct trigger *t)
{
	uint64_t lasting = t->end - t->since;

	return (struct trigger_episode){
		.start = t->since,
		.end = t->end,
		.average = lasting ? t->weighted / (double)lasting : t->peak,
		.peak = t->peak,
		.pid = t->peak_pid,
	};
}
