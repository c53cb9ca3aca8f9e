/* cmd-symbolize.h - names, inlined calls and lines for the frames of a trace, out of the files on this
 * machine.  Thread: main.
 *
 * Files of a debuginfod server (places->fetched) and of an archive (places->archive) are foreign: each is parsed by a
 * process of its own, pw-parse, that opens nothing, has no network and no privilege; what it answers is checked. */
#pragma once

#include "base/bytes.h"
#include "proc/file-places.h"
#include "profile/profile.h"

enum symbolize_why {
	SYMBOLIZE_NO_FILE,
	SYMBOLIZE_OTHER_BUILD,
	SYMBOLIZE_NO_BUILD_ID,
	SYMBOLIZE_STRIPPED, /* there is a file, and it lacks names of frames */
};

struct symbolize_missing {
	char path[512], build_id[2 * UW_BUILD_ID_MAX + 1];
	enum symbolize_why why;
};

struct symbolize_result {
	size_t modules, found; /* with frames that lack names or lines; with a file here */
	size_t addresses, named, lined, unnamed;
	struct symbolize_missing
		missing[5]; /* the first modules without a file, or without names */
	size_t n_missing;   /* may exceed the array */
};

/* The build ids of up to @max modules that have frames without names or lines, and no debug file here.  First come those
 * without names, by the weight of their samples. */
size_t symbolize_missing(const struct profile *profile, const struct file_places *places,
			 struct uw_build_id *ids, size_t max);
/* Appends packets with what the frames of @profile lack to @packets.  A file is trusted if it has the
 * build id of the module; without one only if the user gave a folder with copies (places->symfs).
 * -ENOMEM, -EMFILE. */
int symbolize(const struct profile *profile, const struct file_places *places,
	      struct buffer *packets, struct symbolize_result *ret);
