/* emit-private.h - the parts of the emitter; shared by emit*.c only. */
#pragma once

#include "session/pipeline/emit.h"

enum {
	CACHE_SLOTS = 1 << 16,
	NAME_MAX_LEN = 1024,
	LINES_IN_FLIGHT = 64,
	LINES_BATCH =
		512, /* addresses that are worth opening a module's DWARF for while recording */
	LINES_SHARE = 100, /* ... as long as lines took less than 1/100 of one CPU */
	MAX_IDS = UW_MAX_FRAMES + 512 + 1,
	NAMED_SLOTS = 16384,
	MAX_LIVES = 8192,      /* remembered; then all are named once more */
	MAX_MODULES = 16384,   /* remembered; then most are forgotten */
	MAX_UNLINED = 1 << 20, /* addresses, of all modules: no more lines are asked for */
};
/* A mark: the other bits are an index into emit->nameless, not an id. */
#define NAMELESS (1u << 31)

struct cached_frame {
	uint64_t frame;
	uint32_t space_key;
	uint32_t id; /* or marked NAMELESS; 0: free */
};

/* A frame without a name. */
struct nameless_frame {
	uint32_t id;
	uint32_t module;  /* index into emit->modules */
	uint64_t samples; /* of its module's nameless_samples, those that are there for this one */
};

/* A function's name, which the next address in it has, too: to demangle it costs 4,000 instructions. */
struct named_symbol {
	uint64_t start;
	uint32_t module; /* emit_module's index + 1; 0: free */
	uint32_t name;	 /* the writer's */
};

struct recent_stack;

/* A frame whose name or lines are still to come. */
struct late_frame {
	uint64_t vaddr;
};
struct late_list {
	struct late_frame *items;
	size_t n, room;
};

struct emit_module {
	struct uw_module *module; /* a reference */
	uint32_t index;		  /* in emit->modules */
	uint32_t mapping;	  /* writer's */
	bool has_mapping, no_lines;
	struct table frames; /* ELF address -> frame id, or marked NAMELESS */
	struct late_list unnamed, unlined;
	size_t unlined_asked, unlined_due; /* how many were asked for; may be */
	uint64_t nameless_samples, last_sample;
	uint32_t pid, owner;	       /* of a process that has it mapped, */
	struct process_mapping mapped; /* ... and where: how the file is found again */
	uint32_t last_use;	       /* em->seconds */
};

struct emit {
	struct emit_context c;
	struct cached_frame *cache;
	struct named_symbol *named;
	struct recent_stack *recent;
	struct nameless_frame *nameless;
	size_t n_nameless, nameless_room;
	struct emit_module **modules; /* by order of arrival */
	size_t n_modules, modules_room, n_unlined;
	struct table by_serial;	  /* module serial -> index + 1 */
	struct table life_by_pid; /* the life that the trace's last entry of a pid told of */
	uint32_t unknown_mapping, end_mapping;
	bool has_unknown_mapping;
	uint32_t lines_in_flight, seconds;
	uint64_t lines_cpu_ns, started_at; /* CLOCK_MONOTONIC */
	uint64_t n_samples;
	uint32_t generation; /* of the writer's ids */
	uint32_t telling;    /* of processes and threads, from 1 */
	uint32_t ids[MAX_IDS];
};

/* emit.c: between two stacks only. */
void emit_forget_modules(struct emit *em);
/* No id is good any more if the writer started its tables anew.  Before any is used. */
void emit_check_ids(struct emit *em);

/* emit-frame.c */
int emit_late_push(struct late_list *list, uint64_t vaddr);
/* The symbol's name at @vaddr, demangled, as an id of the writer; 0: none (yet). */
int emit_name_of(struct emit *em, const struct emit_module *m, uint64_t vaddr, uint32_t *ret_name);
/* Orders the cache's line for a frame that is asked for soon. */
void emit_frame_prefetch(const struct emit *em, uint64_t frame, uint32_t space_key);
/* The id of one frame, by the cache; where it has no name, an index marked NAMELESS.
 * EMIT_UNMAPPED: no mapping covers it yet; one may come under the same key, so nothing is kept. */
enum { EMIT_UNMAPPED = 1 };
int emit_frame_id(struct emit *em, const struct sample_info *info, uint64_t frame, bool kernel,
		  uint32_t *ret_id);
/* The name of the frames at @vaddr has come, and follows as ModuleSymbols. */
void emit_set_named(const struct emit *em, struct emit_module *m, uint64_t vaddr);
/* Can a name still come?  An evicted module's symbols come again; a perf map grows. */
bool emit_names_to_come(const struct emit_module *m);
/* Of a module; the caller takes a reference on it for the request. */
struct load_request emit_request(const struct emit_module *m, enum load_kind kind);
/* Orders names where nothing else does: of a perf map, and of a file whose symbols were dropped
 * (they follow its unwind half by themselves, but that may not be needed again: its rules stay). */
void emit_want_symbols(struct emit *em, struct emit_module *m);

/* emit-stack.c */
int emit_recent_new(struct emit *em);
/* Marked ids are not what they were: no stack is recent any more. */
void emit_recent_forget(struct emit *em);
/* The ids of an outcome's frames into em->ids, innermost first, and how many; counts modules
 * without names. */
int emit_stack_ids(struct emit *em, const struct outcome *o, size_t *ret_n);
