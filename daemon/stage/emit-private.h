/* emit-private.h - the parts of the emitter; shared by emit*.c only. */
#pragma once

#include "daemon/stage/emit.h"

enum {
	CACHE_SLOTS = 1 << 16,
	NAME_MAX_LEN = 1024,
	LINES_IN_FLIGHT = 64,
	MAX_IDS = UW_MAX_FRAMES + 512 + 1,
	MAX_LIVES = 8192, /* remembered; then all are named once more */
};
#define NAMELESS (1u << 31)

struct cached_frame {
	uint64_t frame; /* 0: free */
	uint32_t space_key;
	uint32_t id;
};

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
	uint32_t mapping;         /* writer's */
	bool has_mapping, no_lines;
	struct table frames; /* ELF address -> frame id, marked where nameless */
	struct late_list unnamed, unlined;
	size_t unlined_asked;
	uint64_t nameless_samples, last_sample;
	uint32_t pid; /* of a process that has it mapped */
};

struct emit {
	struct emit_context c;
	struct cached_frame *cache;
	struct emit_module **modules; /* by order of arrival */
	size_t n_modules, modules_room;
	struct table by_serial; /* module serial -> index + 1 */
	struct table frame_module; /* marked frame id -> module serial */
	struct table life_by_pid; /* the life that the trace's last entry of a pid told of */
	uint32_t unknown_mapping, end_mapping;
	bool has_unknown_mapping;
	uint32_t lines_in_flight;
	uint64_t n_samples;
	uint32_t generation; /* of the writer's ids */
	uint32_t ids[MAX_IDS];
};

/* emit-frame.c */
int emit_late_push(struct late_list *list, uint64_t vaddr);
/* The symbol's name at @vaddr, demangled into @name; false: none (yet). */
bool emit_name_of(const struct emit_module *m, uint64_t vaddr, char name[NAME_MAX_LEN]);
/* The id of one frame, by the cache; marked NAMELESS where it has no name. */
int emit_frame_id(struct emit *em, const struct sample_info *info, uint64_t frame, bool kernel, uint32_t *ret_id);
/* Orders a perf map's names (a file's symbols follow its unwind half by themselves). */
void emit_want_symbols(struct emit *em, struct emit_module *m);
