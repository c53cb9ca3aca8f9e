/* profile-choose.c - the events of a trace, and which of them is looked at.
 *
 * A trace has a session for each data source, which may count different things: page faults and
 * nanoseconds have no sum.  Sessions of one name and unit are one event (several producers, or one
 * event in several scopes).  A profile is of one event; the others' samples are kept aside. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "profile/profile-reader.h"

static uint8_t event_of(struct profile *p, const struct reader_event *event)
{
	struct profile_event *new = &p->events[p->n_events];

	for (size_t i = 0; i < p->n_events; i++)
		if (!strcmp(p->events[i].name, event->name) &&
		    !strcmp(p->events[i].unit, event->unit))
			return (uint8_t)i;
	memcpy(new->name, event->name, sizeof(new->name));
	memcpy(new->unit, event->unit, sizeof(new->unit));
	return (uint8_t)p->n_events++;
}

static void set_events(const struct reader *r)
{
	struct profile *p = r->profile;
	uint64_t n[256] = {0}; /* samples of each session */
	uint8_t events[256] = {0};

	for (size_t i = 0; i < p->n_samples; i++)
		n[p->samples[i].session]++;
	for (size_t i = 0; i < r->n_sessions; i++) {
		if (!n[i])
			continue;
		events[i] = event_of(p, &r->events[i]);
		p->events[events[i]].n_samples += n[i];
	}
	for (size_t i = 0; i < p->n_samples; i++)
		p->samples[i].event = events[p->samples[i].session];
}

/* Those of the chosen event, out of all. */
static void choose(struct profile *p, uint8_t event)
{
	p->event = event;
	memcpy(p->event_name, p->events[event].name, sizeof(p->event_name));
	memcpy(p->weight_unit, p->events[event].unit, sizeof(p->weight_unit));
	if (!p->all_samples)
		return;
	p->samples = p->all_samples;
	for (uint8_t i = 0; i < event; i++)
		p->samples += p->events[i].n_samples;
	p->n_samples = p->events[event].n_samples;
}

/* What most ask for is where the time went. */
static uint8_t usual_event(const struct profile *p)
{
	for (size_t i = 0; i < p->n_events; i++)
		if (!strcmp(p->events[i].unit, "ns"))
			return (uint8_t)i;
	return 0;
}

int reader_find_events(struct reader *r)
{
	r->profile->events = calloc(r->n_sessions + 1, sizeof(*r->profile->events));
	if (!r->profile->events)
		return fail(-ENOMEM);
	set_events(r);
	return 0;
}

static int compare_events(const void *a, const void *b, void *samples)
{
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	uint8_t x = ((struct profile_sample *)samples)[i].event,
		y = ((struct profile_sample *)samples)[k].event;

	if (x != y)
		return x < y ? -1 : 1;
	return i < k ? -1 : i > k; /* by time, as they are */
}

int reader_choose_events(struct reader *r)
{
	struct profile *p = r->profile;
	int e;

	if (p->n_events > 1) {
		e = reader_sort_samples(r, compare_events);
		if (e < 0)
			return trace(e);
		p->all_samples = p->samples;
		p->n_all_samples = p->n_samples;
	}
	if (p->n_events)
		choose(p, usual_event(p));
	return 0;
}

static bool is_called(const struct profile_event *event, const char *name, bool whole)
{
	size_t len = strlen(name);

	if (strncmp(event->name, name, len))
		return false;
	return !event->name[len] || (!whole && event->name[len] == ':');
}

static int no_event(const struct profile *p, const char *name, char *error, size_t size)
{
	int n = snprintf(error, size, "the trace has no event %.100s; it has:", name);

	for (size_t i = 0; i < p->n_events && n > 0 && (size_t)n < size; i++)
		n += snprintf(error + n, size - (size_t)n, " %s", p->events[i].name);
	if (!p->n_events && n > 0 && (size_t)n < size)
		(void)snprintf(error + n, size - (size_t)n, " no samples");
	return fail(-ENOENT);
}

int profile_choose_event(struct profile *p, const char *name, char *error, size_t error_size)
{
	if (!name)
		return 0;
	for (int whole = 1; whole >= 0; whole--) {
		for (size_t i = 0; i < p->n_events; i++) {
			if (!is_called(&p->events[i], name, whole))
				continue;
			choose(p, (uint8_t)i);
			return 0;
		}
	}
	return no_event(p, name, error, error_size);
}
