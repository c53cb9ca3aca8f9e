/* emit.h - from outcomes to packets: the last stage.  Thread: main.
 *
 * Addresses become frame ids through one cache keyed by (space key, address), so a frame seen
 * before costs one load.  For a new frame its module, its ELF address and, if the symbols of the
 * module are loaded, its name are looked up.  A name that arrives later is written as
 * ModuleSymbols. */
#pragma once

#include "trace/writer.h"
#include "proc/process.h"
#include "session/pipeline/account.h"
#include "session/loader/loader.h"
#include "symbols/modules.h"
#include "symbols/kernel-names.h"

struct emit_context { /* all borrowed */
	struct writer *writer;
	struct loader *loader;
	struct uw_modules *modules;
	struct uw_kernel_names *kernel_names; /* NULL: kernel frames without symbols */
	struct account *account;
	int clock;	   /* CLOCK_* of the samples' times; -1: not known */
	bool no_lines;	   /* no inlined calls, no source lines */
	bool lines_at_end; /* ... none before emit_ask_names() */
	bool addresses;	   /* kernel frames have their address */
	bool past;	   /* an import: packets carry the time of their sample, not the present */
};

struct emit;
int emit_new(const struct emit_context *context, struct emit **ret_emit);
struct emit *emit_free(struct emit *emit);

/* The kernel's symbols, if read later: before the first outcome with kernel frames. */
void emit_set_kernel_names(struct emit *emit, struct uw_kernel_names *names);

/* Writes one OUTCOME_SAMPLE, and releases its references on the process and the space. */
int emit_outcome(struct emit *emit, const struct outcome *outcome);
/* The same outcome is the next one: what it needs is loaded from memory meanwhile. */
void emit_prefetch(const struct emit *emit, const struct outcome *outcome);
/* Writes a sample that was not sent to the unwinder; borrows all of it.  It is not counted here. */
int emit_skipped(struct emit *emit, const struct sample_info *info, enum skip_reason why);
/* Writes info->weight, which no sample has, as a sample with the stack that the process of @info had last in the trace, or without
 * frames (thinned) where it had none.  It is counted here. */
int emit_owed(struct emit *emit, const struct sample_info *info);
/* Takes LOAD_UNWIND, LOAD_SYMBOLS, LOAD_LINES; releases the request's reference on the module. */
int emit_answer(struct emit *emit, struct load_answer *answer);
/* Readers have lost the processes and threads: each is written again before its next sample. */
void emit_announce_again(struct emit *emit);
/* Once a second: writes late names, has grown perf maps read again, and requests lines where many
 * addresses wait. */
int emit_tick(struct emit *emit);
/* Has grown jitdumps read on, 10 times a second: they show which code is at an address by now.  @now: CLOCK_MONOTONIC
 * ns; @awaited: samples wait for it, so up to 50 times a second. */
void emit_read_dumps(struct emit *emit, uint64_t now, bool awaited);
/* Is the code at the time of a sample not known before its process's jitdump is read on? */
bool emit_must_wait(const struct emit *emit, const struct sample_info *info);
/* At the end, once: requests the names that are still missing.  Some JIT compilers write their map
 * when the program exits. */
void emit_ask_names(struct emit *emit);
/* At the end: requests the lines of all addresses, as many as may be in flight. */
void emit_ask(struct emit *emit);
/* Modules that are remembered: EMIT_MODULES_MAX at most, then most are forgotten. */
enum { EMIT_MODULES_MAX = 16384 };
size_t emit_n_modules(const struct emit *emit);
/* Will modules soon be forgotten, or no more lines be requested?  A caller that wants all lines has
 * them looked up now, and then calls emit_renew() to start over (frames keep their ids). */
bool emit_is_full(const struct emit *emit);
void emit_renew(struct emit *emit);
/* Is there a jitdump with code that was loaded over other code, while the samples' clock is not the dump's?  Names are
 * those of the last load then. */
bool emit_lacks_times(const struct emit *emit);
/* The path of a jitdump with code that was loaded over other code, and times of a clock of the processor.  Names are those of
 * the last load then.  NULL: none; borrowed until the next answer. */
const char *emit_timeless_dump(const struct emit *emit);
#define EMIT_TIMELESS_NOTE                                                                       \
	"%s has code that was loaded over other code, and times of the processor's counter: at " \
	"these addresses all samples have the name of the last load; hint: let the runtime "     \
	"write CLOCK_MONOTONIC (unset JITDUMP_USE_ARCH_TIMESTAMP)"
/* Addresses of lines that were not looked up yet (requested or not). */
uint64_t emit_lines_left(const struct emit *emit);

/* Seconds (emit_tick calls) since a frame of @module was looked up in its tables.  Frames in the
 * cache do not count: emit_note_uses() empties it some time before this is called. */
uint32_t emit_idle_seconds(const struct emit *emit, const struct uw_module *module);
void emit_note_uses(struct emit *emit);

struct emit_unsymbolized {
	const char *path; /* borrowed */
	struct uw_build_id build_id;
	uint64_t samples; /* with at least one frame in it without a symbol */
	const char *hint; /* how to get names; NULL: none is known */
};
/* Modules that had frames without symbols, most samples first.  Returns new memory. */
int emit_unsymbolized(struct emit *emit, struct emit_unsymbolized **ret_list, size_t *ret_n);
