/* filter.h - which processes a data source wants: by pid, by name pattern, by share.  Thread: main.
 *
 * First that applies: excluded by name, excluded by pid; wanted by name, wanted by pid; no scope
 * configured at all; its share (pid modulo count); one of the first N command lines seen.
 *
 * A pattern is a shell's, in which '*' covers slashes too and a backslash is a letter; one that
 * begins with '/' is held against argv[0], any other against what follows the last slash of it. */
#pragma once

#include "base/util.h"

enum { FILTER_CMDLINE = 511 }; /* bytes of a command line that count */

/* Arrays and strings are borrowed as long as the filter exists. */
struct filter_scope {
	const char *const *target_cmdlines, *const *exclude_cmdlines;
	size_t n_target_cmdlines, n_exclude_cmdlines;
	const int32_t *target_pids, *exclude_pids;
	size_t n_target_pids, n_exclude_pids;
	uint32_t additional_cmdlines;
	uint32_t shard_count, shard; /* shard_count 0: no sharding */
};

struct filter;

int filter_new(const struct filter_scope *scope, struct filter **ret_filter);
struct filter *filter_free(struct filter *filter);
/* Does a verdict need command lines? */
bool filter_by_cmdline(const struct filter *filter);
/* Is anything left out at all? */
bool filter_is_empty(const struct filter *filter);
/* @filter is a struct filter; as session_options.wanted has it.  @cmdline: NUL-separated, with or
 * without a NUL at the end; NULL: none known (a kernel thread). */
bool filter_wanted(void *filter, uint32_t pid, const char *cmdline, size_t len);
/* How many of the additional command lines have been taken. */
size_t filter_n_additional(const struct filter *filter);

/* Is @pattern (see above) met by this command line? */
bool filter_match(const char *pattern, const char *cmdline, size_t len);
