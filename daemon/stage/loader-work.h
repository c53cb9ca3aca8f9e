/* loader-work.h - the work behind loader.h, one request at a time.  Thread: loader.
 *
 * Every system call that a target's file system could stall is made below this line.  A session's
 * requests are served so in a helper process (load-role.h), an import's in place. */
#pragma once

#include "daemon/base/table.h"
#include "daemon/stage/loader.h"

/* What load_worker.mark says of the call in hand: st_dev of the file that is read, else one of
 * these. */
#define LOAD_MARK_PROCESS (1ull << 63) /* /proc of the process, or the walk along a path */
#define LOAD_MARK_CLOSING (1ull << 62) /* and the device: a file of an earlier request is closed */

/* Devices that are not to be touched. */
struct load_devices {
	uint64_t held[8], refused[16]; /* now: -EAGAIN, ask again; at all: -EBUSY */
	uint32_t n_held, n_refused;
};

struct load_worker {
	char *root;	    /* "" or the folder of a fake proc/ */
	struct table files; /* module serial -> number of its last use << 32 | fd */
	size_t max_files;
	uint32_t file_uses;
	struct uw_module *lined; /* the module whose DWARF is open; a reference */
	int nice;
	bool own_files;		/* what is named is our user's: an import */
	bool copies;		/* engines read modules' files: the images keep descriptors */
	_Atomic uint64_t *mark; /* for who waits; NULL: nobody does */
	struct load_devices devices;
	struct procfs_gate gate;
	int gate_error; /* of the request in hand */
};

int load_worker_init(struct load_worker *worker, const char *root);
void load_worker_deinit(struct load_worker *worker);
/* Fills in the answer to answer->request. */
void load_worker_serve(struct load_worker *worker, struct load_answer *answer);
/* Names can wait: the profiled programs go first.  Of the calling thread. */
void load_worker_make_way(struct load_worker *worker, enum load_kind kind);
/* Forgets what is kept for a module, or for all (NULL). */
void load_worker_forget(struct load_worker *worker, const struct uw_module *module);
