/* spec-list.h - the events of this machine, and what a person means by an event's text.  Thread: main. */
#pragma once

#include "perf/spec.h"

/* @event as it was given; the default event in place of NULL and of hardware cycles that this machine lacks (with
 * their modifiers and followers, in @to); then *ret_note is a line for the user (else NULL). */
enum { SPEC_EVENT_MAX = 1024 };
const char *perf_spec_or_default(const char *event, char to[SPEC_EVENT_MAX], const char **ret_note);
/* Is the first event of @event a tracepoint, a probe or an event that the kernel counts in software (page-faults, not a clock):
 * something of which each occurrence matters, and which is too rare or too irregular for a rate? */
bool perf_spec_is_point(const char *event);

enum perf_kind {
	PERF_KIND_HARDWARE,
	PERF_KIND_SOFTWARE,
	PERF_KIND_CACHE,
	PERF_KIND_PMU,
	PERF_KIND_TRACEPOINT
};
/* Calls @each with all names that perf_spec_parse() takes, but for probes and raw numbers.  0; -ENOENT: tracefs is not
 * mounted; -EACCES: it is closed to this user; -ENOMEM, -EMFILE: not all were listed. */
int perf_spec_list(const struct perf_spec_env *env,
		   void (*each)(void *arg, enum perf_kind kind, const char *name), void *arg);
/* The lines "field:TYPE NAME" of a tracepoint ("GROUP:NAME"), without offsets; new memory.  -ENOENT, -EACCES. */
int perf_spec_fields(const struct perf_spec_env *env, const char *tracepoint, char **ret_text);
/* Where the integer field @name lies in the raw bytes of a sample of a tracepoint: 1, 2, 4 or 8 bytes.  -ENOENT: there is no
 * tracepoint or field of this name; -EINVAL: it is not an integer; -EACCES. */
int perf_spec_field(const struct perf_spec_env *env, const char *tracepoint, const char *name,
		    uint32_t *ret_offset, uint32_t *ret_size);
