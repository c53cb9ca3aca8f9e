/* loader-work.h - serves one request: opens files and /proc.  Thread: loader.
 *
 * Every system call that a target's file system could stall is made here or in load-parse.h, which reads the opened
 * files.  A session's requests are served in helper processes (load-role.h), an import's in place. */
#pragma once

#include "base/table.h"
#include "proc/file-places.h"
#include "proc/open-file.h"
#include "session/loader/load-parse.h"

/* load_worker.mark, about the call in progress: st_dev of the file that is read, else one of these. */
#define LOAD_MARK_PROCESS (1ull << 63) /* /proc of the process, or the walk along a path */
#define LOAD_MARK_CLOSING (1ull << 62) /* with the device: a file of an earlier request is closed */

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
	uint32_t serial;	   /* of the module in hand */
	uint32_t lined;		   /* of the module with its DWARF open; 0: none */
	struct load_parser parser; /* in place */
	void (*parse)(struct load_worker *worker, struct load_parse *work);
	/* Called when the file of a module is closed; NULL: no other process has it. */
	void (*forget)(struct load_worker *worker, uint32_t serial);
	bool own_files;				 /* what is named is our user's: an import */
	const struct file_places *places;	 /* further places of files; borrowed; NULL: none */
	const struct tsc_conversion *conversion; /* uw_source.conversion */
	bool copies;		/* engines read modules' files: the images keep descriptors */
	_Atomic uint64_t *mark; /* seen by the process that waits; NULL: none does */
	struct load_devices devices;
	struct table
		foreign; /* serials of modules with a debug file that may not belong to their file */
	struct procfs_gate gate;
	int gate_error; /* of the request in hand */
};

int load_worker_init(struct load_worker *worker, const char *root);
void load_worker_deinit(struct load_worker *worker);
/* Fills in the answer to answer->request. */
void load_worker_serve(struct load_worker *worker, struct load_answer *answer);
/* Is @path a place where debug files of the module at @module are looked for? */
bool load_is_debug_path(const char *module, const char *path);
/* The kept file of the module in hand, borrowed; -1: there is none. */
int load_worker_file(struct load_worker *worker);
