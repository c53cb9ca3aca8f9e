/* emit-private.h - the last stage, for emit*.c only.  Thread: main.
 *
 *   emit.c          frames: caches of ids, names, lines that arrive later
 *   emit-sample.c   samples: processes and threads, the stack, the packet
 *   emit-dumps.c    jitdumps that grow */
#pragma once

#include "base/table.h"
#include "session/pipeline/emit-module.h"
#include "session/pipeline/emit.h"
#include "session/pipeline/wait-emit.h"

enum { EMIT_IDS = UW_MAX_FRAMES + 512 + 2 + WAIT_WAKER_IDS };

/* What the trace has of processes and threads. */
struct announcer {
	uint32_t round;		   /* of announcements; starts at 1 */
	struct table incarnations; /* pid -> the incarnation in its last announcement */
};

struct emit {
	struct emit_context c;
	struct cached_frame *cache;
	struct named_symbol *named;
	struct recent_stack *recent;
	struct unsymbolized_frame *unsymbolized;
	size_t n_unsymbolized, unsymbolized_room;
	struct emit_module **modules; /* in order of arrival */
	size_t n_modules, modules_room, n_unlined;
	struct table by_serial; /* module serial -> index + 1 */
	uint32_t unknown_mapping;
	bool has_unknown_mapping, lines_blocked, has_dumps;
	bool at_end;		/* emit_ask_names(): every sample is written */
	uint64_t dumps_read_at; /* CLOCK_MONOTONIC: emit_read_dumps() */
	bool has_reuse;		/* a jitdump has code that was loaded over other code */
	uint64_t slices_at; /* of the samples' clock: when slices of dumps that are late are due */
	uint32_t lines_in_flight, seconds; /* requests of lines */
	uint64_t vaddrs_in_flight;	   /* their addresses */
	uint64_t lines_cpu_ns, started_at; /* CLOCK_MONOTONIC */
	uint64_t n_samples;
	uint32_t generation;	    /* of the writer's ids */
	uint32_t kernel_generation; /* of the kernel's names */
	struct announcer announcer;
	uint32_t ids[EMIT_IDS], waker_ids[WAIT_WAKER_IDS];
};

/* Drops all ids if the writer has cleared its tables.  Before any id is used. */
void emit_check_ids(struct emit *em);
/* A frame of JIT code is looked up, or its names have come: notes whether a jitdump is there. */
void emit_note_dump(struct emit *em, struct emit_module *m);
/* Before the frames of a sample: drops what caches have of code that other code replaced in between; begins slices of
 * addresses for code of dumps that were read long before the sample. */
void emit_enter_time(struct emit *em, const struct sample_info *info);
/* Writes the frame ids of an outcome into em->ids, innermost first. */
int emit_stack_ids(struct emit *em, const struct outcome *o, size_t *ret_n);
