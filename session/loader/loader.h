/* loader.h - everything slow, away from the samples.  Thread: main creates and frees it, sends requests
 * and receives answers; a thread of its own passes the requests on.
 *
 * It reads /proc, opens the files behind mappings, loads unwind sections, symbol tables and lines.
 * For a session, helper processes with a deadline do this (loader-pool.h): a target's files and
 * memory may never answer.  The request then fails: error -ETIMEDOUT, or -EBUSY for another file on
 * the same device, and the module is UNREADABLE and uw_module_unresponsive(). */
#pragma once

#include "base/queue.h"
#include "proc/file-places.h"
#include "session/loader/load-request.h"

struct loader;
struct tsc_conversion;
struct memory_guard;
struct loader_options {
	const char *root;	     /* "" or the folder of a fake proc/ */
	struct waker *answers;	     /* main's */
	struct memory_guard *memory; /* what answers' memory is read through; may be NULL */
	bool copies; /* an engine reads the modules' files itself: they come as copies */
	int cache;   /* a folder for lines (base/cache-dir.h); consumed, -1: none */
};
/* Starts a helper process and the thread. */
int loader_new(const struct loader_options *options, struct loader **ret_loader);
/* Without either, for files that are our own user's: what is asked is done by the loader_answer()
 * that takes its answer, in a fixed order. */
int loader_new_inline(const char *root, struct loader **ret_loader);
/* Further places of files, for one without helper processes.  Borrows @places. */
void loader_set_places(struct loader *loader, const struct file_places *places);
/* How samples get their times from the processor's counter, for one without helper processes.  Borrows @conversion. */
void loader_set_conversion(struct loader *loader, const struct tsc_conversion *conversion);
/* Does not wait for requests in hand. */
struct loader *loader_free(struct loader *loader);
/* false: too many are waiting. */
bool loader_ask(struct loader *loader, const struct load_request *request);
/* The next answer (the caller deinits it); false: none now. */
bool loader_answer(struct loader *loader, struct load_answer *ret_answer);
/* LOAD_UNWIND of @module with where @process has it mapped; borrows both.  The result is to be
 * deinited where it is not asked. */
struct load_request loader_module_request(const struct process *process, struct uw_module *module);
/* Requests not answered yet (symbols that follow a module included). */
uint64_t loader_pending(const struct loader *loader);

/* Symbols of files are read one at a time, with waits in between that let it use @ppm millionths of a CPU; 0: no waits, as at the
 * start.  One file is read whole; no wait is longer than 60 s.  Not for a loader without helper processes. */
void loader_pace(struct loader *loader, uint32_t ppm);

/* Helper processes that were given up, that ended by themselves, that could not be made; CPU time of all (any thread, a
 * snapshot). */
struct loader_counts {
	uint64_t stuck, ended, unmade, cpu_ns;
};
void loader_count(const struct loader *loader, struct loader_counts *ret_counts);
