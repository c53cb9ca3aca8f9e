/* symbolize.h - names, inlined calls and lines for the frames of a trace, out of the files on this
 * machine.  Thread: main.
 *
 * Files of a debuginfod server (places->fetched) are foreign: each is parsed by a process of its own, pw-parse, that
 * opens nothing, has no network and no privilege; what it answers is checked. */
#pragma once

#include "base/bytes.h"
#include "proc/file-places.h"
#include "profile/profile.h"

struct symbolize_result {
	size_t modules, found; /* with frames that lack names or lines; with a file here */
	size_t addresses, named, lined;
	char missing[5][512]; /* paths of modules without a file */
	size_t n_missing;
};

/* Appends packets with what the frames of @profile lack to @packets.  A file is trusted if it has the
 * build id of the module; without one only if the user gave a folder with copies (places->symfs).
 * -ENOMEM. */
/* The build ids of up to @max modules that have frames without names or lines, and no debug file here. */
size_t symbolize_missing(const struct profile *profile, const struct file_places *places,
			 struct uw_build_id *ids, size_t max);
int symbolize(const struct profile *profile, const struct file_places *places,
	      struct buffer *packets, struct symbolize_result *ret);
