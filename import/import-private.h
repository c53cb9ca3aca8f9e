/* import-private.h - the parts of an import; shared by import*.c only. */
#pragma once

#include <pthread.h>
#include <semaphore.h>

#include "import/import.h"
#include "perf/perfdata/perfdata.h"
#include "session/pipeline/emit.h"
#include "session/pipeline/reader.h"
#include "trace/writer.h"

enum {
	IMPORT_PROCESSES = 65536,
	IMPORT_REGS = 64,
	IMPORT_CPUS = 1 << 16,	 /* no kernel can be built for so many */
	IMPORT_HELD = 128 << 20, /* held_bytes of the options */
	IMPORT_GROUP = 8 * UW_BATCH,
	IMPORT_FILES = 8,    /* of how many descriptors images may keep one */
	IMPORT_RELEASE = 64, /* groups: what ended processes hold is given back */
};

/* Where the event's stacks come from. */
enum import_kind {
	IMPORT_STACKS,	  /* registers and a copy of the stack */
	IMPORT_CHAINS,	  /* the kernel's callchain */
	IMPORT_ADDRESSES, /* the instruction pointer only */
};

/* Of a sample that waits, what is not in its block of the file. */
struct import_place {
	uint64_t chain[2];	    /* IMPORT_ADDRESSES: a mark and the address */
	uint64_t regs[IMPORT_REGS]; /* when the file has more registers than the engines take */
};

/* A run of the entry queue. */
struct import_group {
	uint64_t first;
	size_t n;
	int r; /* of the unwind */
	struct uw_result results[IMPORT_GROUP];
	uint64_t frames[IMPORT_GROUP][UW_MAX_FRAMES];
};

struct import {
	struct import_options options;
	struct perfdata *file;
	struct import_result *result;
	const struct perfdata_event
		*event; /* the one that is imported; NULL before the first record */
	uint32_t event_index;
	enum import_kind kind;
	enum uw_arch arch;  /* of the machine that it was recorded on */
	uint64_t *others;   /* samples of each event that is not imported */
	uint64_t guests;    /* samples of virtual machines */
	uint64_t grouped;   /* samples of a group's leader (:S) with counts of unknown events */
	uint64_t bad;	    /* records that do not match their layout */
	uint64_t unproved;  /* modules with a file that may not be the one that ran */
	uint64_t unfound;   /* modules with another file, or none */
	uint64_t gone;	    /* modules with no file at their path */
	char *first_gone;   /* path of the first */
	uint64_t late_maps; /* perf-PID.map that were written after the recording */
	uint64_t unopened;  /* modules not read, as no descriptor was free */
	uint64_t forgotten; /* processes that went, as all together took too much memory */
	bool has_build_ids;
	int64_t written_at;    /* CLOCK_REALTIME seconds; INT64_MAX: a pipe */
	struct table paths;    /* hash of a path with a build id -> index into path_files */
	struct table replaced; /* hashes of files that another file has replaced */
	struct import_path *path_files; /* import-records.c */
	bool looked_over;		/* all mappings were read in advance */
	uint64_t trusted_early;		/* paths in a pipe that had a second file later */

	struct uw_modules *modules;
	struct process_table *processes;
	struct loader *loader;
	struct uw_engine *engine;
	enum uw_engine_kind engine_kind;
	bool loaded;		     /* anything since the caches were last looked at */
	struct uw_modules_held held; /* then */
	struct sink *sink;
	struct writer *writer;
	struct writer_past past;
	struct emit *emit;
	struct account account;
	struct perf_counts counts;
	struct table group_values;	/* last counts of a group's members */
	uint64_t first_time, last_time; /* of samples */
	uint64_t cpu_at_start;

	bool same_kernel;     /* of the running kernel: its vDSO is ours */
	uint64_t kernel_text; /* start according to the record of its mapping; 0: not known */
	uint64_t text_today;  /* the same of the running kernel */
	pthread_t kernel_reader;
	bool kernel_started, kernel_done;
	int kernel_error;
	int kernel_copy;	  /* perf's copy of the names; -1: none */
	int copy_error;		  /* < 0: no memory or descriptor for the copy */
	bool copy_started;	  /* `kernel_reader` reads it into `copy` */
	bool kernel_copied;	  /* `names` are of that copy, without modules */
	struct uw_kallsyms *copy; /* owned by `names`, once they are there */
	struct uw_kernel_names *names, *names_today;
	struct import_ksymbol { /* changes before the names were read */
		uint64_t start;
		uint32_t len;
		char name[128]; /* "": removed */
	} * ksymbols;
	size_t n_ksymbols;

	struct reader *reader;
	struct perfdata_item first; /* read before the choice of the event; record NULL: taken */
	int unreadable;		    /* < 0: why perfdata_next() failed */
	struct waker awake;	    /* never sleeps: this thread empties the queue, too */
	struct slot_queue entries;
	struct import_place places[2 * IMPORT_GROUP]; /* of the slots of `entries` */
	uint64_t grouped_entries;		      /* entries before are in a group, or gone */

	struct import_group groups[2];
	uint64_t groups_written;
	size_t filling; /* the next one; the other waits for the thread, or is empty */
	struct import_unwind {
		bool started;
		pthread_t thread;
		sem_t given, done;
		struct import_group *group; /* owned by the thread between `given` and `done` */
	} unwind;
	struct outcome *outcome; /* with room for the longest */
};

/* import.c: the writer and the emitter, as the event wants them. */
int import_start_trace(struct import *im, uint64_t first_time);

/* import-records.c */
struct record_source import_records(struct import *im);

void import_unwind_start(struct import *im);
/* Unwinds and writes all waiting samples. */
int import_drain(struct import *im);
/* The last names and lines: everything is unwound, and all modules are dropped first. */
int import_look_up_rest(struct import *im);
void import_unwind_deinit(struct import *im);

/* import.c: the kernel's names. */
/* Before an outcome is written: waits for the names if it has kernel frames, and reads the running
 * kernel's if one of them is in a module. */
void import_kernel_frames(struct import *im, const struct outcome *o);
void import_kernel_mmap(struct import *im, const struct record_event *event);
int import_kernel_ksymbol(struct import *im, const struct record_event *event);
/* Opens perf's copy of /proc/kallsyms.  -ENOENT and the like: there is none.  Any user may have written the file: its content
 * must be checked. */
int kernel_copy_open(const struct file_places *places, const uint8_t *build_id, size_t len,
		     int *ret_fd);
