/* import-private.h - the parts of an import; shared by import*.c only. */
#pragma once

#include <pthread.h>
#include <semaphore.h>

#include "base/bytes.h"
#include "import/import.h"
#include "trace/writer.h"
#include "perf/perfdata/perfdata.h"
#include "session/pipeline/emit.h"

enum {
	IMPORT_PROCESSES = 65536,
	IMPORT_REGS = 64,
	IMPORT_CPUS = 1 << 16,	 /* no kernel can be built for so many */
	IMPORT_HELD = 128 << 20, /* bytes of all processes, their mappings, threads and modules */
	IMPORT_GROUP_MAPS = 1 << 20, /* in the snapshots of a group's samples */
	IMPORT_GROUP = 8 * UW_BATCH,
	IMPORT_FILES = 8,    /* of how many descriptors images may keep one */
	IMPORT_RELEASE = 64, /* groups: what ended processes hold is given back */
};

/* What is made of the event's samples. */
enum import_kind {
	IMPORT_STACKS,	  /* registers and a copy of the stack */
	IMPORT_CHAINS,	  /* the kernel's callchain */
	IMPORT_ADDRESSES, /* where it was, no more */
};

/* A sample that waits for its group; what it points to lies in a block of the file. */
struct import_sample {
	struct entry entry;
	uint32_t block;
	uint64_t chain[2];	    /* IMPORT_ADDRESSES: a mark and the address */
	uint64_t regs[IMPORT_REGS]; /* when the file has more registers than the engines take */
};

struct import_group {
	size_t n;
	size_t n_maps; /* in snapshots that were made for it */
	int r;	       /* of unwinding it */
	struct import_sample samples[IMPORT_GROUP];
	struct uw_snapshot snapshots[UW_BATCH]; /* of those that are unwound side by side */
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
	uint64_t grouped;   /* samples of a group's leader (:S) with counts of nobody known */
	uint64_t bad;	    /* records that do not fit their layout */
	uint64_t unproved;  /* modules whose file may be another than the one that ran */
	uint64_t unfound;   /* modules whose file is another, or not there */
	uint64_t gone;	    /* of these, where nothing stands at the path */
	char *first_gone;   /* its path */
	uint64_t late_maps; /* perf-PID.map that were written after the recording */
	uint64_t unopened;  /* no descriptor was left for them */
	uint64_t forgotten; /* processes that went, as all together took too much memory */
	bool has_build_ids;
	int64_t written_at;    /* CLOCK_REALTIME seconds; INT64_MAX: a pipe */
	struct table paths;    /* hash of a path with a build id -> index into path_files */
	struct table replaced; /* hashes of files that another one stands for today */
	struct import_path *path_files; /* import-file.c */
	bool looked_over;		/* all mappings, beforehand */
	uint64_t believed_early;	/* files whose path had another one later, in a pipe */

	struct uw_modules *modules;
	struct process_table *processes;
	struct loader *loader;
	struct uw_engine *engine;
	bool loaded;		     /* anything since the caches were last looked at */
	struct uw_modules_held held; /* then */
	struct sink *sink;
	struct writer *writer;
	struct writer_past past;
	struct emit *emit;
	struct account account;
	struct perf_counts counts;
	struct table cpu_counts, throttled; /* cpu -> running sum of weights; -> since when */
	struct table group_values;	/* of a group's members: as last told (import-group.c) */
	uint64_t first_time, last_time; /* of samples */
	uint64_t cpu_at_start;

	bool same_kernel;     /* it runs here: its vDSO is ours */
	uint64_t kernel_text; /* where the record of its mapping says it began; 0: not told */
	uint64_t text_today;  /* the same of the kernel that runs */
	pthread_t kernel_reader;
	bool kernel_started, kernel_done;
	int kernel_error;
	int kernel_copy;    /* perf's copy of the names; -1: none */
	bool copy_started;  /* `kernel_reader` reads it into `kallsyms` */
	bool kernel_copied; /* `kallsyms` is made of that, and has no modules */
	struct uw_kallsyms *kallsyms, *names_today;
	struct import_ksymbol { /* what came before the names were there */
		uint64_t start;
		uint64_t behind; /* so many outcomes that waited then */
		uint32_t len;
		char name[128]; /* "": it went */
	} * ksymbols;
	size_t n_ksymbols, ksymbols_done;
	struct import_lag {
		bool on;
		struct buffer outcomes; /* one behind the other; from `at` on not yet written */
		size_t at;
		uint64_t n, n_spaces, n_maps;
		const struct uw_space *last_space; /* to compare with only */
	} lag;

	struct import_group groups[2];
	uint64_t groups_written;
	size_t filling; /* the one that takes samples; the other waits for the thread, or is empty */
	struct import_unwind {
		bool started;
		pthread_t thread;
		sem_t given, done;
		struct import_group *group; /* the thread's between `given` and `done` */
	} unwind;
	struct outcome *outcome; /* with room for the longest */
};

void import_note(struct import *im, const char *format, ...) _printf_(2, 3);

/* import-file.c: the build id that the file tells for the mapping's path, if it is the mapping's. */
void import_file_id(struct import *im, struct record_event *mmap);

/* import-group.c */
/* The sample has the counts of all its group (:S). */
static inline bool import_is_grouped(const struct record_layout *layout)
{
	return layout->sample_type & PERF_SAMPLE_READ && layout->read_format & PERF_FORMAT_GROUP;
}

/* import-sample.c */
/* Writes a group that is unwound; @r: how that went. */
int import_write_group(struct import *im, struct import_group *group, int r);

/* import-unwind.c */
void import_unwind_start(struct import *im);
/* The group that is filled is on its way, the one before is written. */
int import_flush(struct import *im);
/* All that waits is unwound and written. */
int import_drain(struct import *im);
/* Processes used least recently are forgotten where all take more than IMPORT_HELD. */
int import_keep_small(struct import *im);
bool import_waits(const struct import *im);
/* All that the loader has to do. */
int import_serve(struct import *im);
/* The names that were asked for, of modules that were dropped; others' go for them. */
int import_name(struct import *im);
/* When all is unwound and named. */
int import_drop_modules(struct import *im);
void import_unwind_deinit(struct import *im);

/* import-lag.c */
/* Writes the outcome, now or when the kernel's names are there. */
int import_emit(struct import *im, const struct outcome *o);
/* Writes what waits. */
int import_lag_end(struct import *im);
/* Before a record that names a thread. */
int import_lag_comm(struct import *im, const struct record_event *event);
void import_lag_deinit(struct import *im);

/* import-kernel.c */
/* Starts reading the kernel's names, when the recording is of the kernel that runs. */
void import_kernel_start(struct import *im);
/* Waits for them.  Before the first frame of the kernel is written. */
void import_kernel_names(struct import *im);
/* The same for an outcome with frames of the kernel; when a module is among them, once more. */
void import_kernel_frames(struct import *im, const struct outcome *o);
/* What came and went of the kernel's symbols before the first @n outcomes that waited. */
void import_kernel_catch_up(struct import *im, uint64_t n);
void import_kernel_mmap(struct import *im, const struct record_event *event);
int import_kernel_ksymbol(struct import *im, const struct record_event *event);
void import_kernel_deinit(struct import *im);
