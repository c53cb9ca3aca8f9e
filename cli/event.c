/* event.c - see event.h. */
#include <inttypes.h>

#include "cli/event.h"
#include "base/error.h"
#include "base/log.h"

void event_tell_others(const struct profile *p, const char *command)
{
	for (size_t i = 0; i < p->n_events; i++)
		if (i != p->event)
			log_info("%s: of %s; %" PRIu64 " samples of %s are left out (--event %s "
				 "takes them)",
				 command, p->event_name, p->events[i].n_samples, p->events[i].name,
				 p->events[i].name);
}

int event_choose(struct profile *profile, const char *command, const char *name)
{
	char error[512] = "";
	int r = profile_choose_event(profile, name, error, sizeof(error));

	if (r < 0)
		log_error("%s: %s", command, error);
	return r < 0 ? trace(r) : 0;
}

void event_tell_damage(const struct profile *p, const char *command, const char *input)
{
	char end[200];

	if (p->truncated_at)
		log_info("%s: %s: damaged or cut off at byte %" PRIu64, command, input,
			 p->truncated_at);
	if (profile_end_text(p, end, sizeof(end)))
		log_info("%s: %s: %s", command, input, end);
}

bool event_none_left(const struct profile *p, const char *command, const char *input)
{
	if (!profile_is_damaged(p) || p->n_samples || p->n_all_samples)
		return false;
	log_error("%s: %s is damaged or cut off, and no sample is left in it", command, input);
	return true;
}

void event_tell_nothing(const struct profile *p, const struct profile_filter *only,
			const char *command)
{
	for (size_t i = 0; i < p->n_samples; i++)
		if (profile_process_wanted(p, profile_sample_process(p, &p->samples[i]), only))
			return;
	if (p->n_samples)
		log_info("%s: no sample of %zu matches the options", command, p->n_samples);
}
