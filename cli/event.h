/* event.h - what of a trace is wanted, for the commands that read one: --event NAME, and whether there
 * is anything of what --pid and --cgroup ask for, and of the file.  Thread: main. */
#pragma once

#include "profile/profile.h"

#define EVENT_OPTION_HELP                                                                  \
	"the event to show, of a trace with several (default: the first time event, else " \
	"the\nfirst)"

/* NULL: as the profile is.  -ENOENT: said. */
int event_choose(struct profile *profile, const char *command, const char *name);
/* On standard error, where what is written has no place for it. */
void event_tell_others(const struct profile *profile, const char *command);
/* On standard error, what of the file @input is missing. */
void event_tell_damage(const struct profile *profile, const char *command, const char *input);
/* Not one sample is left of a damaged file: reported, and an error. */
bool event_none_left(const struct profile *profile, const char *command, const char *input);
/* On standard error, when there are samples and none is of what was asked for. */
void event_tell_nothing(const struct profile *profile, const struct profile_filter *only,
			const char *command);
