/* emit.h - from outcomes to packets: the last stage.  Thread: main.
 *
 * Addresses become frame ids through one cache keyed by (space key, address), so that a frame seen
 * before costs a load; a new frame finds its module, its ELF address and, when the module's symbols
 * are there, its name.  A name that comes later follows as ModuleSymbols. */
#pragma once

#include "trace/writer.h"
#include "proc/process.h"
#include "session/pipeline/account.h"
#include "session/loader/loader.h"
#include "symbols/modules.h"
#include "symbols/names.h"

struct emit_context { /* all borrowed */
	struct writer *writer;
	struct loader *loader;
	struct uw_modules *modules;
	struct uw_kallsyms *kallsyms; /* NULL: kernel frames have no names */
	struct account *account;
	bool no_lines; /* inlined calls and source lines are not looked up */
	bool past;     /* a recording made before: packets have their sample's time, not now's */
};

struct emit;
int emit_new(const struct emit_context *context, struct emit **ret_emit);
struct emit *emit_free(struct emit *emit);

/* The kernel's names, when they come later: before the first outcome with kernel frames. */
void emit_set_kallsyms(struct emit *emit, struct uw_kallsyms *kallsyms);

/* Writes one OUTCOME_SAMPLE.  Gives back the outcome's references on its process and space. */
int emit_outcome(struct emit *emit, const struct outcome *outcome);
/* A sample that never got to the unwinder, and why; all is borrowed.  It is not counted here. */
int emit_left_out(struct emit *emit, const struct sample_info *info, enum skip_reason why);
/* LOAD_UNWIND, LOAD_SYMBOLS, LOAD_LINES.  Gives back the request's reference on its module. */
int emit_answer(struct emit *emit, struct load_answer *answer);
/* Processes and threads are told anew, each before its next sample: readers have forgotten them. */
void emit_tell_again(struct emit *emit);
/* Once a second: names that came late are sent, grown perf maps read again; lines asked for where
 * many wait. */
int emit_tick(struct emit *emit);
/* Asks for the lines of all addresses, as many as may be under way: for the end. */
void emit_ask(struct emit *emit);
/* Is it about to forget modules, or to ask for no more lines?  Who wants all lines has them looked
 * up then, and has it begin anew (frames keep their ids). */
bool emit_is_full(const struct emit *emit);
void emit_renew(struct emit *emit);
/* Addresses whose lines were not looked up (asked or not) when it ended. */
uint64_t emit_lines_left(const struct emit *emit);

/* Seconds (emit_tick calls) since a frame of @module was looked up in its tables.  Frames that the
 * cache knows do not count, so the cache is emptied first by emit_note_uses(), for those who are
 * going to ask. */
uint32_t emit_idle_seconds(const struct emit *emit, const struct uw_module *module);
void emit_note_uses(struct emit *emit);

struct emit_nameless {
	const char *path; /* borrowed */
	struct uw_build_id build_id;
	uint64_t samples; /* with at least one frame there that has no name */
};
/* Modules with nameless frames, most samples first.  Returns new memory. */
int emit_nameless(struct emit *emit, struct emit_nameless **ret_list, size_t *ret_n);
