/* emit-module.h - a module as the last stage knows it: its frames, and the names and lines that are
 * still missing.  Thread: main. */
#pragma once

#include "base/table.h"
#include "session/loader/loader.h"
#include "session/pipeline/entry.h"
#include "session/pipeline/jit-epochs.h"
#include "trace/writer.h"

/* ELF addresses of frames without names or lines yet. */
struct late_list {
	uint64_t *vaddrs;
	size_t n, room;
};
/* -ENOMEM. */
int late_list_push(struct late_list *list, uint64_t vaddr);

/* A reading of a jitdump is put off so long for each byte that the one before added to the index; one of its unwinding information,
 * which comes whole, for each byte of that and of the index: 5 % of a CPU. */
enum { DUMP_BYTE_NS = 64 };

struct emit_module {
	struct uw_module *module; /* a reference */
	uint32_t index;		  /* in emit->modules */
	uint32_t mapping;	  /* id of the writer, */
	uint64_t offset;	  /* ... and the offset in the file that it was made with */
	bool has_mapping, no_lines;
	bool has_dump; /* of JIT code: a jitdump was seen; all modules are asked at each tick */
	struct table frames; /* ELF address -> frame id, or an index marked UNSYMBOLIZED */
	struct late_list unnamed, unlined;
	uint32_t *
		lined; /* addresses that were in `unlined` before frames were forgotten; ascending */
	size_t n_lined;
	size_t unlined_asked, unlined_due; /* of unlined: requested; to be requested now */
	uint64_t unsymbolized_samples, last_sample;
	uint32_t pid, owner;	       /* a process that has mapped it, */
	struct process_mapping mapped; /* ... and where: the way to open the file again */
	uint64_t vm;		       /* of a JIT module: as in struct load_request */
	uint32_t last_use;	       /* em->seconds */
	const char *hint;	       /* of a JIT module: jit_hint() */
	/* Of a JIT module: seconds until its map is read again, and how many at the last time. */
	uint32_t again_in, again_after;
	struct jit_epochs
		epochs;	 /* of JIT code that can have a jitdump: in the addresses of its frames */
	bool last_asked; /* emit-forget.c: what is missing of its names was requested a last time */
	bool dump_asked, dump_again; /* again: once more when the answer is there */
	uint64_t dump_asked_at;	     /* CLOCK_MONOTONIC: or its symbols, at first */
	uint64_t dump_more_at;	     /* ... when an answer with more was there */
	uint64_t dump_bytes,
		dump_added; /* of its index then; added by this answer, if it was not the first */
	uint64_t
		dump_unwound_at; /* CLOCK_MONOTONIC: when all unwinding information was requested */
	struct table functions;	 /* CPython, PHP, Ruby: place without position -> has a name? */
};

/* NULL: no memory. */
struct emit_module *emit_module_new(struct uw_module *module, const struct sample_info *info);
void emit_module_free(struct emit_module *m);
/* Can a name still arrive?  The symbols of an evicted module are read again; a perf map grows. */
bool emit_module_names_to_come(const struct emit_module *m);
/* Requests the symbols that no other stage requests: of a perf map, and of a file with symbols that were
 * dropped.  (Symbols are loaded with the unwind half of a file, but that may not be loaded again:
 * the engine keeps its rules.) */
void emit_module_ask_symbols(struct emit_module *m, struct loader *loader);
/* Requests the lines of the next addresses that are due, each distinct one once.  How many; 0: none can be
 * requested now. */
size_t emit_module_ask_lines(struct emit_module *m, struct loader *loader);
/* The writer forgets all ids.  Frames that come again do not get their lines again. */
void emit_module_forget_frames(struct emit_module *m);
/* Were the lines of @vaddr listed before frames were forgotten? */
bool emit_module_had_lines(const struct emit_module *m, uint64_t vaddr);
/* Lines of frames that come again are requested again. */
void emit_module_forget_lines(struct emit_module *m);
/* All its lines were requested: the list begins again. */
void emit_module_forget_lined(struct emit_module *m);
/* Was the name of the function at @place asked for?  One that was not there has a name where another place in it, or the function
 * that declares it, was named since. */
bool emit_module_was_asked(const struct emit_module *m, uint64_t place);
/* Names of an interpreter's functions have come.  Returns how many more functions have none, as they were not there any more when they
 * were asked for.  (Of JavaScript 0: no name has other reasons there.) */
int64_t emit_module_count_freed(struct emit_module *m, const struct load_answer *a);
/* For frames that wait for names: the symbols once more.  @at_end: of a map that may have grown
 * since, too, as that of a Java VM, which is written when the VM exits. */
void emit_module_ask_again(struct emit_module *m, struct loader *loader, bool at_end);
/* Once more what was written into its jitdump meanwhile, if it has one, and no request is in progress. */
void emit_module_ask_dump(struct emit_module *m, struct loader *loader);
/* Are its frames' addresses those of jit-epochs.h? */
bool emit_module_has_epochs(const struct emit_module *m);
/* The symbol at @vaddr, an address of a frame; of JIT code as of its first sample.  false: none (yet). */
bool emit_module_symbol(const struct emit_module *m, uint64_t vaddr, struct uw_symbol *ret_symbol);
/* Do names come with the lines?  They are requested at once: the process may end, and reuse the place of code. */
bool emit_module_names_by_lines(const struct uw_module *module);
/* The mapping of a user frame; NULL: none.  *script is for frames that have none in the process. */
const struct uw_map *emit_map_of_frame(const struct uw_space *space, uint64_t frame,
				       struct uw_map *script);
/* The key of a user frame in caches.  Spaces share a key where they agree on code; a fork's child has Python functions of
 * its own. */
uint32_t emit_frame_key(const struct uw_space *space, uint64_t frame);
