/* trace-input.h - the trace of a command that reads one: the file (a perf.data file is imported), --event, and whether
 * anything of what the other options ask for is in it.  Thread: main. */
#pragma once

#include "profile/profile.h"

#define EVENT_OPTION_HELP                                                                  \
	"the event to show, of a trace with several (default: the first time event, else " \
	"the\nfirst)"

/* The recording of `perf record` in @input (a file, a folder of --kcore, "-"), and memory and descriptors for its import.
 * < 0: logged. */
int trace_input_open_recording(const char *input);

struct trace_input {
	const char *path;		   /* NULL: DEFAULT_TRACE */
	const char *event;		   /* --event; NULL: none */
	const struct profile_filter *only; /* may be NULL */
};
/* Reads the trace for the command @command ("report").  < 0: logged.  Notes what the options leave out. */
int trace_input_read(const struct trace_input *input, const char *command,
		     struct profile *ret_profile);
/* A hint where DEFAULT_TRACE is missing; "" for another file or error.  @imports: the command reads a perf.data too. */
const char *trace_input_hint(const char *path, int r, bool imports);
/* NULL: as the profile is.  -ENOENT: logged. */
int trace_input_choose(struct profile *profile, const char *command, const char *name);
/* On standard error, where what is written has no place for it. */
void trace_input_note_others(const struct profile *profile, const char *command);
/* On standard error, what of the file @input is missing. */
void trace_input_note_damage(const struct profile *profile, const char *command, const char *input);
/* Not one sample is left of a damaged file: reported, and an error. */
bool trace_input_none_left(const struct profile *profile, const char *command, const char *input);
/* The cgroup of @only is in the trace, or none is asked for; else logs those there are. */
bool trace_input_has_cgroup(const struct profile *profile, const struct profile_filter *only,
			    const char *command);
/* On standard error, when there are samples and none is of what was asked for. */
void trace_input_note_nothing(const struct profile *profile, const struct profile_filter *only,
			      const char *command);
