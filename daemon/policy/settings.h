/* settings.h - the daemon's own settings, from a file of `key = value` lines.  Thread: main.
 * Options of a trace session are in its config, not here. */
#pragma once

#include "base/util.h"

#define SETTINGS_FILE "/etc/perfwind.conf"

struct settings {
	uint32_t shmem_size, shmem_page; /* hints in bytes; 0: the service's choice */
	uint32_t waiting_size; /* bytes of one data source's packets that wait for free chunks */
	uint32_t max_sources;  /* instances at once; more are rejected */
	/* ---- recordings on request (policy.h) ---- */
	char all_users[256], all_groups[256]; /* names or ids, separated by commas or blanks */
	bool own_processes, confined_requesters;
	uint32_t max_recordings; /* on request, at once */
	/* of one user: at once, samples a second of a CPU, bytes */
	uint32_t user_recordings, user_rate, user_memory;
	uint32_t user_processes,
		user_descriptors; /* of one user: processes recorded, descriptors of events */
	uint32_t user_max_cpu,
		recording_max_cpu; /* percent of one CPU, of all recordings of a user, and of each; 0: no limit */
	/* ---- processes that a tracing service may see (policy.h) ---- */
	char traced_users[256], traced_groups[256]; /* as above; "*": every user */
	bool traced_kernel;
	bool traced_set; /* one of these three is set */
	/* ---- the tracing service itself ---- */
	char traced_service_users
		[256]; /* like all_users: users that may run it, besides root and the daemon's own */
	/* All its data sources together: samples a second of a CPU, and bytes of stacks in them. */
	uint32_t traced_rate, traced_stack_bytes;
	/* ---- the daemon's own flight recorder (control/standing.h); read at the start ---- */
	uint32_t recorder_size, recorder_rate; /* bytes, 0: none; samples a second of a CPU */
	char recorder_collect[256];	       /* tasks, system */
	char recorder_cgroups[256];	       /* with those below them; empty: all processes */
	/* ---- session/rights.h ---- */
	bool direct, system_call_filter;
	bool consent_under_seccomp; /* processes under a seccomp filter are asked, too */
};

/* The defaults. */
extern const struct settings settings_default;

/* Changes *settings by @text: a `key = value` a line, '#' begins a comment, sizes take K and M.  -EINVAL with a line in
 * @error (NAME:LINE: ...); *settings is then unchanged. */
int settings_parse(const char *name, const char *text, struct settings *settings, char *error,
		   size_t error_size);
/* The file at @path; NULL: SETTINGS_FILE, which may be missing.  Errors as above, and -errno. */
int settings_read(const char *path, struct settings *settings, char *error, size_t error_size);
/* One setting, as on the command line.  Errors as above, without NAME:LINE. */
int settings_set(struct settings *settings, const char *key, const char *value, char *error,
		 size_t error_size);
/* Checks settings against each other.  -EINVAL with a line. */
int settings_check(const struct settings *settings, char *error, size_t error_size);
