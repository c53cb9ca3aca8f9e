/* symbolize-later.h - `--debuginfod` of record and import: `perfwind symbolize --debuginfod` on the finished trace.  Thread:
 * main.
 *
 * A recording may not start programs or use the network once it runs (rights-filter.h).  So a process is made before, which
 * waits for the trace's name, and then becomes that command. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct symbolize_later {
	pid_t pid; /* 0: none */
	int go;
};

/* @option: --debuginfod was given; else the setting decides (debuginfod_wanted()), and an @output "-" gets no names.  Logs why
 * what the option asks for is not possible (no server is set, @output is "-"): -EINVAL.  -EAGAIN and others: logged, too. */
int symbolize_later_start(struct symbolize_later *later, bool option, const char *output);
/* Has names added to the trace @output, and waits for it; NULL: there is no trace.  A failure was logged by it. */
void symbolize_later_end(struct symbolize_later *later, const char *output);
