/* loader-work.h - the work behind loader.h, one request at a time.  Thread: loader.
 *
 * Every system call that a target's file system could stall is made below this line, and what goes
 * in and out is plain data: whoever serves requests elsewhere needs this and nothing else. */
#pragma once

#include "daemon/base/table.h"
#include "daemon/stage/loader.h"

struct load_worker {
	char *root;	    /* "" or the folder of a fake proc/ */
	struct table files; /* module serial -> fd + 1 */
	size_t max_files;
	struct uw_module *lined; /* the module whose DWARF is open; a reference */
};

int load_worker_init(struct load_worker *worker, const char *root);
void load_worker_deinit(struct load_worker *worker);
/* Fills in the answer to answer->request. */
void load_worker_serve(struct load_worker *worker, struct load_answer *answer);
