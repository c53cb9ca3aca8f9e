/* symbolize-later.h - `--debuginfod` of record and import: `perfwind symbolize --debuginfod` on the finished trace.  Thread:
 * main.
 *
 * A recording may not start programs or use the network once it runs (rights-filter.h).  So a process is made before, which
 * fetches debug files by build id while the recording runs, waits for the trace's name, and then becomes that command. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "cli/debuginfod.h"

struct symbolize_later {
	pid_t pid; /* 0: none */
	int go;
	/* private */
	uint64_t known[DEBUGINFOD_FILES_MAX]; /* of the build ids: hashes */
	size_t n_known;
};

/* @option: --debuginfod was given; else the setting decides (debuginfod_wanted()), and an @output "-" gets no names.  Logs why
 * what the option asks for is not possible (no server is set, @output is "-"): -EINVAL.  -EAGAIN and others: logged, too. */
int symbolize_later_start(struct symbolize_later *later, bool option, const char *output);
/* The file of a build id (hexadecimal) lacks names: it is fetched in the background.  Does nothing for one that is known, or
 * where no process was made; makes one write(2) else. */
void symbolize_later_wants(struct symbolize_later *later, const char *build_id);
/* Has names added to the trace @output, and waits for it; NULL: there is no trace.  A failure was logged by it. */
void symbolize_later_end(struct symbolize_later *later, const char *output);
