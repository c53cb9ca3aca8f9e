/* perfdata.h - a file of `perf record`: its events and, one by one in time order, its records.
 * Thread: any, one; a thread of its own reads the next blocks of a large file.
 *
 *   file ──► blocks (256 KiB) ──► records in place ──► waiting list ──► perfdata_next()
 *              ▲      └─ compressed records are unpacked into blocks of their own     │
 *              └──────────────── given back once all its records are ◄── perfdata_put()
 *
 * File mode (header, attributes, data, feature sections) and pipe mode (`perf record -o -`: all of
 * it as records).  Nothing is mapped and no record is copied, but one that crosses the end of a
 * block.  In a large file what is not in use of a stack's copy may be left out: the record is that of a smaller copy,
 * which is filled only if it was.  perf wrote the records ring by ring, and FINISHED_ROUND after each round over all rings: no
 * later record can precede one that is older than the newest of the round before (perf's own rule,
 * tools/perf/util/ordered-events.c).  The content is checked; reading ends at damage, and the bytes
 * behind it are counted. */
#pragma once

#include "base/tsc.h"
#include "perf/record.h"

enum {
	PERFDATA_MAX_EVENTS = 1024,
	PERFDATA_MAX_IDS = 1 << 20, /* of all events: events x CPUs x threads */
	PERFDATA_MAX_BUILD_IDS = 1 << 16,
};

struct perfdata_event {
	struct perf_event_attr attr; /* what the file has of it; the rest is 0 */
	struct record_layout layout;
	char *name; /* as perf called it; never NULL */
};

struct perfdata_build_id {
	char *path;
	bool several; /* others have this path too: they may be of different files */
	uint8_t len, bytes[20];
};

/* Strings are NULL and numbers 0 where the file does not have them. */
struct perfdata_info {
	bool pipe;
	bool unfinished;   /* perf record did not get to write its end: no feature sections */
	bool features_cut; /* or the file ends before theirs: what is below may be missing */
	struct perfdata_event *events;
	size_t n_events;
	char *hostname, *os_release, *perf_version, *arch, *cpu_desc, *cmdline;
	uint32_t cpus_available, cpus_online;
	uint64_t total_memory_kb;
	int clock; /* CLOCK_* of all times; -1: the scheduler's clock, perf's default */
	/* How that clock follows from the processor's counter, where perf record noted it (TIME_CONV). */
	bool has_conversion;
	struct tsc_conversion conversion;
	bool has_wall_clock;
	uint64_t wall_clock_ns, wall_clock_at; /* CLOCK_REALTIME when `clock` was wall_clock_at */
	uint64_t first_time, last_time;	       /* of the samples; file mode only */
	struct perfdata_build_id *build_ids;   /* of files that had samples */
	size_t n_build_ids;
};

struct perfdata_item {
	const struct perf_event_header *record;
	const struct record_layout *layout;
	uint64_t time;	/* 0: it has none */
	uint32_t event; /* index into the events */
	uint32_t block; /* for perfdata_put */
};

struct perfdata_counts {
	uint64_t bytes, records, samples;
	uint64_t bad_records; /* left out: they do not fit their own layout, or no event has their
				 id */
	uint64_t foreign_records; /* of types that are not records of the kernel: left out */
	uint64_t rounds;
	uint64_t early;	       /* released before their round ended, as memory was full */
	uint64_t disordered;   /* came after a later one was released */
	uint64_t unread_bytes; /* behind the damage, or missing at the end */
	const char *damage;    /* what ended the reading early; NULL: the end of the file */
};

struct perfdata;

/* Of each 0 is the default. */
struct perfdata_limits {
	size_t hold;	/* bytes of records that may wait for the end of their round: 256 MiB */
	uint64_t ahead; /* a file with so many bytes of records is read ahead: 4 MiB */
	size_t piece;	/* ... in pieces of so many bytes: 192 KiB, which is also the most */
};

/* Borrows @fd, from its present position on (file mode: it must be seekable).  @limits may be NULL.
 * < 0: *error has what is wrong, without the file's name. */
int perfdata_new(int fd, const struct perfdata_limits *limits, struct perfdata **ret_perfdata,
		 char *error, size_t error_size);
struct perfdata *perfdata_free(struct perfdata *perfdata);
static inline void perfdata_freep(struct perfdata **perfdata)
{
	*perfdata = perfdata_free(*perfdata);
}

/* In pipe mode events and their names come as the reading goes: all that samples need are there before
 * them, and none changes behind the first record of the kernel's. */
const struct perfdata_info *perfdata_info(const struct perfdata *perfdata);
const struct perfdata_counts *perfdata_counts(const struct perfdata *perfdata);

enum { PERFDATA_END = 1 };
/* 0 and the next record (a kernel's one, checked for its size only); PERFDATA_END, again and again.
 * < 0: it cannot be read (-EIO ...) or no memory.  The record stays where it is until
 * perfdata_put().
 */
int perfdata_next(struct perfdata *perfdata, struct perfdata_item *ret_item);
/* The index of the event that has this id; false: none. */
bool perfdata_event_of_id(const struct perfdata *perfdata, uint64_t id, uint32_t *ret_event);
/* Gives a record back, in any order; each once. */
void perfdata_put(struct perfdata *perfdata, uint32_t block);
/* Bytes of blocks in use: for callers that hold many records. */
size_t perfdata_held(const struct perfdata *perfdata);
/* Calls @mapped for all mappings in the file, in file order, independently of perfdata_next() (but
 * after its first record).  @mapping is valid within the call.  Mappings behind damage are left out:
 * perfdata_next() does not get there either, and those in a zstd stream with a window that has no room within
 * limits.hold.  PERFDATA_END; PERFDATA_PIPE: it can be read only once.
 * < 0: it cannot be read. */
enum { PERFDATA_PIPE = 2 };
int perfdata_scan(const struct perfdata *perfdata,
		  void (*mapped)(void *arg, const struct record_event *mapping), void *arg);
/* The build id that the file has for @path; NULL: none. */
const struct perfdata_build_id *perfdata_build_id(struct perfdata *perfdata, const char *path);
