/* event.h - --event NAME of the commands that read a trace.  Thread: main. */
#pragma once

#include "profile/profile.h"

#define EVENT_OPTION_HELP                                                                       \
	"of a trace with several events: this one (default: the first that is time, else the\n" \
	"first)"

/* NULL: as the profile is.  -ENOENT: said. */
int event_choose(struct profile *profile, const char *command, const char *name);
/* On standard error, where what is written has no place for it. */
void event_tell_others(const struct profile *profile, const char *command);
