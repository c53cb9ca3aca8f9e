/* perfdata-out.h - records as the kernel wrote them, in a file that stock perf reads.  Thread: main.
 *
 *   header │ records, a FINISHED_ROUND behind each round │ feature sections │ attributes, ids
 *
 * Ids and sizes are known at the end only: until perfdata_out_finish() the header is empty, and no
 * perf reads the file.  Ids are taken from the records (PERF_SAMPLE_IDENTIFIER), so
 * an event without records has none. */
#pragma once

#include "perf/uapi.h"

enum { PERFDATA_OUT_EVENTS = 2 };

struct perfdata_out;

/* Consumes @fd: seekable and empty. */
int perfdata_out_new(int fd, struct perfdata_out **ret_out);
/* Frees it; the file stays as it is. */
struct perfdata_out *perfdata_out_free(struct perfdata_out *out);

/* In any order, before the first record of @event (0, 1).  The attribute has
 * PERF_SAMPLE_IDENTIFIER and sample_id_all. */
int perfdata_out_event(struct perfdata_out *out, uint32_t event, const struct perf_event_attr *attr,
		       const char *name);
/* A record of the kernel's.  < 0: it could not be written, nor will anything more. */
int perfdata_out_record(struct perfdata_out *out, uint32_t event,
			const struct perf_event_header *record);
int perfdata_out_round(struct perfdata_out *out);

/* What was there before the events, as records without a time. */
int perfdata_out_comm(struct perfdata_out *out, uint32_t pid, uint32_t tid, const char *comm);
struct perfdata_out_mmap {
	uint32_t pid; /* UINT32_MAX: the kernel */
	uint64_t start, len, offset, inode;
	uint32_t major, minor, prot; /* PROT_*; not of the kernel's */
	const char *path;
	size_t path_len;
};
int perfdata_out_mmap(struct perfdata_out *out, const struct perfdata_out_mmap *mmap);

/* Feature sections, attributes, the header.  @command: what perf shows as its command line. */
int perfdata_out_finish(struct perfdata_out *out, const char *tool, char *const *command);
uint64_t perfdata_out_samples(const struct perfdata_out *out);
