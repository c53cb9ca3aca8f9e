/* debuginfod.h - debug files from the servers of DEBUGINFOD_URLS, only when the user asks for them.  Thread: main (of a
 * command).
 *
 *   command ── build ids ──► pw-debuginfod (processes, four at most): libdebuginfod, the only ones with network
 *                               └──► $XDG_CACHE_HOME/debuginfod_client/BUILD-ID/debuginfo
 *
 * The process has no capability, and is ended when the time for all files is over; files that came until then stay in
 * the cache, which gdb and others share.  A file of a server is not trusted: it is opened here, and parsed by another
 * process (cmd-symbolize.h).
 *
 * symbolize_later_*(): `--debuginfod` of record and import, `perfwind symbolize --debuginfod` on the finished trace.  A
 * recording may not start programs or use the network once it runs (rights-filter.h).  So a process is made before, which
 * fetches debug files by build id while the recording runs, waits for the trace's name, and then becomes that command. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "symbols/module.h"

enum {
	DEBUGINFOD_SECONDS = 60,    /* for all files, by default */
	DEBUGINFOD_FILES_MAX = 256, /* in one command */
};

/* Is it asked for: by the option, or by PERFWIND_DEBUGINFOD (yes, 1, on or true) where a server is set? */
bool debuginfod_wanted(bool option);
/* The reason why no server can be asked, with a hint; NULL: there is none. */
const char *debuginfod_refusal(void);
/* The folder of the cache; "" where there is none. */
void debuginfod_folder(char *to, size_t size);
struct debuginfod_result {
	size_t asked;	   /* files asked for before the time was over */
	size_t found;	   /* files in the cache afterwards */
	size_t unanswered; /* requests that no server answered */
};

/* Fetches the debug files of @ids into the cache, those that are there already aside, within @seconds.  < 0: libdebuginfod
 * is missing (-ENOENT), or no process could be made. */
int debuginfod_fetch(const struct uw_build_id *ids, size_t n, unsigned seconds,
		     struct debuginfod_result *ret);
/* The same while the build ids become known, in processes that are not waited for before the end. */
struct debuginfod_early {
	int to; /* a pipe of build ids; <= 0: no process yet */
	pid_t pid;
};
/* Does not block: one that finds no room is asked for by debuginfod_fetch() later. */
void debuginfod_early_ask(struct debuginfod_early *early, const struct uw_build_id *id);
/* Waits for what was asked for, @seconds at most.  Returns how many of them are left. */
unsigned debuginfod_early_end(struct debuginfod_early *early, unsigned seconds);
/* The file of @id in the cache at @folder: a descriptor of a regular file with unverified content; -ENOENT. */
int debuginfod_open(const char *folder, const struct uw_build_id *id);

/* ---- `perfwind symbolize` on a trace that is still recorded ---- */

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
