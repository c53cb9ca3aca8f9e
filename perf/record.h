/* record.h - perf records into structs, within bounds.  Thread: main.
 * Layouts: linux/perf_event.h, enum perf_event_type; perf_event_open(2).  Nothing is copied:
 * pointers go into the record, which must lie 8-aligned, as it does in a ring. */
#pragma once

#include "perf/uapi.h"

/* What one event's samples (and sample_id trailers) hold. */
struct record_layout {
	uint64_t sample_type, read_format;
	uint64_t regs_mask; /* sample_regs_user */
	bool sample_id_all;
	uint64_t period; /* of each sample, where samples have no period field */
	bool build_id;	 /* attr.build_id: only then MISC_MMAP_BUILD_ID is trusted, see record.c */
	/* perf.data files only: for stepping over fields that we never request */
	uint64_t regs_intr_mask;     /* sample_regs_intr */
	uint64_t branch_sample_type; /* PERF_SAMPLE_BRANCH_*: HW_INDEX and COUNTERS add words */
};

struct record_sample {
	uint64_t id, ip, time, period;
	uint32_t pid, tid, cpu;
	uint8_t cpu_mode; /* misc & 7: 1 kernel, 2 user ... */
	/* READ: the leader's value first, then the followers'; one value without PERF_FORMAT_GROUP;
	 * of a larger group the first 8.  counts[n_counts...] are not set. */
	uint64_t counts[8];
	uint32_t n_counts;
	/* The same of PERF_FORMAT_GROUP, whole: n_group times value [id] [lost]; else NULL, 0. */
	const uint64_t *group;
	uint64_t n_group;
	uint64_t enabled_ns, running_ns; /* of the group, 0 without PERF_FORMAT_TOTAL_TIME_* */
	uint64_t cgroup;
	const uint64_t *chain; /* PERF_CONTEXT_* marks and addresses, as the kernel wrote them */
	uint64_t n_chain;
	const uint8_t *raw; /* of a tracepoint: its fields, raw_len bytes; NULL: none */
	uint32_t raw_len;
	uint64_t regs_abi; /* 0 none, 1 32-bit, 2 64-bit */
	const uint64_t
		*regs; /* one a bit of regs_mask, lowest bit first; NULL when regs_abi is 0 */
	const uint8_t *stack; /* NULL when stack_room is 0 */
	uint32_t stack_len;   /* dyn_size */
	uint32_t stack_room;  /* the size asked for, as the record has it */
};

enum { RECORD_UNKNOWN = 1 };

/* @record is a PERF_RECORD_SAMPLE, header.size bytes of it can be read.  Fields that the layout
 * lacks are 0. -EBADMSG when the fields do not fit the record; *ret_sample is half written then,
 * because a sample is not worth a copy.  -EOPNOTSUPP: sample_type has a bit that is not known here.
 * Words behind the last field are allowed. */
int record_parse_sample(const struct record_layout *layout, const struct perf_event_header *record,
			struct record_sample *ret_sample);

/* Bytes from the begin of a sample to its copy of the stack, and of the copy; the word with the copy's length in use follows. */
struct record_stack {
	uint32_t at, room;
};
/* The same record, of which only the first @have bytes can be read; header.size holds all the same.  false: it has no copy,
 * or what is before the copy ends behind @have or does not fit. */
bool record_find_stack(const struct record_layout *layout, const struct perf_event_header *record,
		       size_t have, struct record_stack *ret_stack);

/* Everything that is not a sample. */
struct record_event {
	uint32_t type; /* PERF_RECORD_* */
	uint16_t misc;
	uint64_t time, id; /* of the sample_id trailer; without one of the body where it has them;
			      else 0 */
	uint32_t cpu;
	uint32_t pid, tid; /* of the body, of the trailer where the body has none */
	union {
		struct {
			const char *name;
			bool exec;
		} comm;
		struct {
			uint32_t ppid, ptid;
		} task; /* FORK, EXIT */
		struct {
			uint64_t start, len, offset;
			uint32_t prot, major, minor; /* prot of MMAP, which has none: as in misc,
							exec or data */
			uint64_t inode, generation;
			uint8_t build_id_len; /* 0: major ... generation hold */
			uint8_t build_id[20];
			const char *path;
		} mmap; /* MMAP and MMAP2 */
		struct {
			uint64_t id, count;
		} lost; /* LOST; LOST_SAMPLES (id 0) */
		struct {
			uint64_t id;
			bool on; /* THROTTLE: samples stop; false: UNTHROTTLE */
		} throttle;
		struct {
			uint64_t start;
			uint32_t len;
			bool unregister;
			const char *name;
		} ksymbol;
		struct {
			uint64_t id;
			const char *path;
		} cgroup;
		struct {
			bool out;	/* the task leaves its CPU; false: it begins to run */
			bool preempted; /* ... although it could run on */
		} switched; /* SWITCH and SWITCH_CPU_WIDE; the task is that of the trailer */
	};
};
/* 0; RECORD_UNKNOWN (skip it; header and trailer fields are set); -EBADMSG.  Strings end inside the
 * record. */
int record_parse_event(const struct record_layout *layout, const struct perf_event_header *record,
		       struct record_event *ret_event);

/* Only the time of a record, for merging; false when it has none or is too short for it. */
bool record_time(const struct record_layout *layout, const struct perf_event_header *record,
		 uint64_t *ret_time);
