/* symbolize.h - names, inlined calls and lines for the frames of a trace, out of the files on this
 * machine.  Thread: main. */
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
int symbolize(const struct profile *profile, const struct file_places *places,
	      struct buffer *packets, struct symbolize_result *ret);
