/* emit-private.h - the last stage, for emit*.c only.  Thread: main.
 *
 *   emit.c          frames: caches of ids, names, lines that arrive later
 *   emit-sample.c   samples: processes and threads, the stack, the packet
 *   emit-dumps.c    jitdumps that grow
 *   emit-forget.c   modules that no process has any more */
#pragma once

#include "base/table.h"
#include "session/pipeline/emit-module.h"
#include "session/pipeline/emit.h"
#include "symbols/kernel-names.h"

enum { WAIT_WAKER_IDS = 256 }; /* of outcome.waker, at most */
enum { EMIT_IDS = UW_MAX_FRAMES + 512 + 2 + WAIT_WAKER_IDS };

/* A frame without a symbol. */
struct unsymbolized_frame {
	uint32_t id;
	uint32_t module;  /* index into emit->modules */
	uint32_t looked;  /* for its caller, or for its name: so often */
	uint64_t samples; /* its share of the module's unsymbolized_samples */
};

/* A frame without a name is in one more sample.  The function of a script may be there again, of which the memory was another one's when the
 * name was read (a closure that each call makes): it is asked for again after 1, 2, 4, 8 ... samples. */
void emit_name_again(struct emit *em, struct emit_module *m, struct unsymbolized_frame *frame);

enum { EMIT_UNLINED_MAX = 1 << 20 }; /* addresses of all modules: no more lines are requested */
/* Of unsymbolized_frame.module: it was forgotten. */
#define EMIT_NO_MODULE UINT32_MAX

/* What the trace has of processes and threads. */
struct announcer {
	uint32_t round;		   /* of announcements; starts at 1 */
	struct table incarnations; /* pid -> the incarnation in its last announcement */
};

struct emit {
	struct emit_context c;
	struct emit_tables *tables; /* of which these are parts */
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
	char *timeless;		/* the path of one with times that are not known; NULL: none */
	uint64_t slices_at; /* of the samples' clock: when slices of dumps that are late are due */
	uint32_t lines_in_flight, seconds; /* requests of lines */
	uint64_t vaddrs_in_flight;	   /* their addresses */
	uint64_t lines_cpu_ns, started_at; /* CLOCK_MONOTONIC */
	uint64_t n_samples;
	struct table unwritten; /* CPU -> weight of samples that are not in the trace */
	struct emit_unsymbolized *forgotten; /* of modules that were forgotten; the paths are own */
	size_t n_forgotten, forgotten_room;
	uint32_t generation;	    /* of the writer's ids */
	uint32_t kernel_generation; /* of the kernel's names */
	struct announcer announcer;
	uint32_t ids[EMIT_IDS], waker_ids[WAIT_WAKER_IDS];
};

/* Drops all ids if the writer has cleared its tables.  Before any id is used. */
void emit_check_ids(struct emit *em);
/* A frame of JIT code is looked up, or its names have come: notes whether a jitdump is there. */
void emit_note_dump(struct emit *em, struct emit_module *m);
/* An answer with more of its jitdump is there. */
void emit_note_reading(struct emit_module *m);
/* Before the frames of a sample: drops what caches have of code that other code replaced in between; begins slices of
 * addresses for code of dumps that were read long before the sample. */
void emit_enter_time(struct emit *em, const struct sample_info *info);
/* Writes the frame ids of an outcome into em->ids, innermost first. */
int emit_stack_ids(struct emit *em, const struct outcome *o, size_t *ret_n);
/* Modules that nothing needs any more are forgotten: no process has them mapped, they had no frame for two minutes, and the names and
 * lines of their frames are written (else these are requested).  Each second.  Their samples without symbols stay in the list. */
void emit_forget_modules(struct emit *em);
/* Requests the lines of @m that are due, as many as may be in flight. */
void emit_request_lines(struct emit *em, struct emit_module *m);
/* Have lines taken less than their share of the CPU time while recording? */
bool emit_has_time_for_lines(const struct emit *em);
/* Marked ids have changed: caches and recent stacks are without them. */
void emit_forget_unsymbolized(struct emit *em);

/* Of a sample with info.reason: writes the slice on the track of its thread, if it stands for one wait (info.began), and returns
 * the frame of WAIT_MODULE that is the innermost one of the sample's stack.  @names may be NULL.  Errors: -ENOMEM; the sink's. */
int wait_emit(struct writer *writer, const struct outcome *outcome, struct uw_kernel_names *names,
	      uint32_t *ret_frame);
/* The part that outcome.waker adds to a stack: @ids, *@n frames of @waker, innermost first, become WAIT_WAKER_IDS at most: the
 * innermost frames and "[woken by COMM]" outside of them.  Errors as above. */
int wait_emit_waker(struct writer *writer, const struct outcome *waker, uint32_t *ids, size_t *n);
