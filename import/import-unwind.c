/* import-unwind.c - the stacks of an import, in groups.  Thread: main, and pw-unwind.
 *
 *   main ──► group of 128 ──► pw-unwind: what can be unwound with the modules that are loaded
 *    ▲  writes the group before meanwhile            │
 *    └── takes it back, loads what is missing ◄──────┘
 *
 * There are two groups, exchanged at fixed places in the file, so the result does not depend on the
 * speed of either thread.  While the thread has a group, main loads no module; while main unwinds the
 * stacks that waited for a module, the thread has no group: the engine is used by one of them at a
 * time.  Other engines than native (their libraries keep state per thread) and callchains, which
 * need no engine, are handled by main at once. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/sem.h"
#include "import/import-private.h"
#include "symbols/module.h"
#include "unwinder/unwinder.h"

enum { AT_ONCE = 16 }; /* modules of a stack that are loaded before others go */

/* There is no file at its path today; the first path is kept for a note. */
static void note_gone(struct import *im, const struct uw_module *module)
{
	const char *path = uw_module_path(module);

	if (access(path, F_OK) == 0 || errno != ENOENT)
		return;
	if (!im->gone++)
		im->first_gone = strdup(path);
}

static void note_module(struct import *im, const struct load_answer *a)
{
	const struct uw_module *module = a->request.module;
	bool file = uw_module_kind(module) == UW_MODULE_FILE;
	bool unopened = a->error == -EMFILE || a->error == -ENFILE;

	if (a->error)
		log_verbose("%s: cannot be read, or is not the file that was mapped",
			    uw_module_path(module));
	else if (file && !a->proved)
		log_verbose("%s: not verified to be the file that was mapped",
			    uw_module_path(module));
	im->unopened += unopened;
	if (file && a->error && !unopened) {
		im->unfound++;
		note_gone(im, module);
	}
	im->unproved += file && !a->error && !a->proved;
}

/* Runs all requests to the loader. */
static int serve(struct import *im)
{
	struct load_answer a;
	int r = 0;

	while (r >= 0 && loader_answer(im->loader, &a)) {
		if (a.request.kind == LOAD_UNWIND)
			note_module(im, &a);
		/* Counting the bytes held visits each module: not after a load that failed. */
		im->loaded |= uw_module_bytes(a.request.module) != 0;
		r = emit_answer(im->emit, &a);
		load_answer_deinit(&a);
	}
	return r < 0 ? trace(r) : 0;
}

static int drop_unwind(struct uw_module *module, void *arg)
{
	const struct import *im = arg;

	uw_engine_drop(im->engine, module);
	return 0;
}

/* Drops modules until they take at most @bytes. */
static int shrink(struct import *im, size_t bytes)
{
	int r;

	im->result->most_cached = max_u64(im->result->most_cached, uw_modules_bytes(im->modules));
	r = uw_modules_keep_small(im->modules, &(struct uw_modules_limit){
						       .bytes = bytes,
						       .files = share_of_files(IMPORT_FILES),
						       .drop_unwind = drop_unwind,
						       .arg = im,
					       });
	uw_modules_count(im->modules, &im->held);
	return r;
}

static size_t cache_bytes(const struct import *im)
{
	return im->options.cache_bytes ? im->options.cache_bytes : UW_MODULES_BYTES;
}

/* Not while the thread has a group. */
static int keep_small(struct import *im)
{
	if (!im->loaded)
		return 0;
	im->loaded = false;
	return shrink(im, cache_bytes(im));
}

/* Reads requested names of modules that were dropped; other symbols are dropped for them.  The thread may use a module's
 * unwind data at any time: main may drop symbols only. */
static int name(struct import *im)
{
	size_t bytes = cache_bytes(im);
	int r;

	if (!loader_pending(im->loader))
		return 0;
	r = serve(im);
	im->result->most_cached = max_u64(im->result->most_cached, uw_modules_bytes(im->modules));
	return r < 0 ? trace(r)
		     : uw_modules_keep_small(
			       im->modules,
			       &(struct uw_modules_limit){
				       .bytes = bytes - min_u64(im->held.unwind, bytes),
				       .files = SIZE_MAX,
			       });
}

/* The map of a JIT compiler is named by a pid.  A map written after the recording may belong to
 * another process: its names are not taken.  (A pipe ends now, so no map is newer.) */
static void check_map_age(struct import *im, struct uw_module *module)
{
	struct stat st;

	if (uw_module_kind(module) != UW_MODULE_JIT ||
	    uw_module_symbol_state(module) == UW_MODULE_UNREADABLE ||
	    stat(uw_module_path(module), &st) < 0 || st.st_mtim.tv_sec <= im->written_at)
		return;
	log_verbose("%s: written after the recording", uw_module_path(module));
	uw_module_set_no_symbols(module);
	im->late_maps++;
}

static int load(struct import *im, struct uw_module *module, struct process *process)
{
	int r;

	uw_engine_renew(im->engine, module);
	check_map_age(im, module);
	if (!uw_module_want_unwind(module))
		return 0;
	uw_modules_touch(im->modules, module);
	/* Our vDSO is the one of the running kernel. */
	if (uw_module_kind(module) == UW_MODULE_MEMORY && !im->same_kernel) {
		uw_module_set_unreadable(module);
		return 0;
	}
	r = reader_want_module(im->reader, process, module);
	return r < 0 ? trace(r) : serve(im);
}

/* The result without a user part: complete if there are kernel frames, else no stack. */
static struct uw_result result_of_kernel(const struct entry *e, uint64_t *frames)
{
	uint32_t n;
	bool kernel = entry_chain_part(e, CHAIN_KERNEL, &n) && n;

	return (struct uw_result){
		.frames = frames,
		.outcome = kernel ? UW_WHOLE : UW_FAILED,
		.reason = kernel ? UW_OK : UW_NO_USER_STATE,
	};
}

static struct entry *entry_at(const struct import *im, const struct import_group *g, size_t i)
{
	return slot_queue_at(&im->entries, g->first + i);
}

static int unwind_group(const struct import *im, struct import_group *g)
{
	struct entry *entries[IMPORT_GROUP];

	for (size_t i = 0; i < g->n; i++) {
		entries[i] = entry_at(im, g, i);
		g->results[i] = result_of_kernel(entries[i], g->frames[i]);
	}
	return entries_unwind(im->engine, im->engine_kind, entries, g->n, g->results);
}

/* Loads the modules that stack @i waits for, and unwinds it again.  Each pass loads one module, or
 * finds that it cannot be loaded; a stack has at most UW_MAX_FRAMES. */
static int unwind_waiting(struct import *im, struct import_group *g, size_t i)
{
	struct entry *e = entry_at(im, g, i);
	int r = 0;

	for (size_t passes = 1;
	     g->results[i].outcome == UW_PENDING && passes <= UW_MAX_FRAMES && r >= 0; passes++) {
		r = load(im, g->results[i].pending, e->info.process);
		if (r >= 0)
			r = entries_unwind(im->engine, im->engine_kind, &e, 1, &g->results[i]);
		/* It may need several at a time: the last ones used stay. */
		if (r >= 0 && passes % AT_ONCE == 0)
			r = keep_small(im);
	}
	return r < 0 ? trace(r) : 0;
}

/* Stack by stack: modules loaded for one may be dropped for the next. */
static int finish_group(struct import *im, struct import_group *g)
{
	int r = g->r;

	if (r >= 0)
		r = keep_small(im);
	for (size_t i = 0; i < g->n && r >= 0; i++) {
		if (g->results[i].outcome != UW_PENDING)
			continue;
		r = unwind_waiting(im, g, i);
		if (r >= 0)
			r = keep_small(im);
	}
	return r < 0 ? trace(r) : 0;
}

/* ---- the thread ---- */

static void *unwind_groups(void *arg)
{
	struct import *im = arg;

	(void)pthread_setname_np(pthread_self(), "pw-unwind");
	for (;;) {
		sem_take(&im->unwind.given);
		if (!im->unwind.group)
			return NULL;
		im->unwind.group->r = unwind_group(im, im->unwind.group);
		(void)sem_post(&im->unwind.done);
	}
}

void import_unwind_start(struct import *im)
{
	if (im->engine_kind != UW_ENGINE_NATIVE)
		return;
	(void)sem_init(&im->unwind.given, 0, 0);
	(void)sem_init(&im->unwind.done, 0, 0);
	im->unwind.started = pthread_create(&im->unwind.thread, NULL, unwind_groups, im) == 0;
}

static void give(struct import *im, struct import_group *g)
{
	im->unwind.group = g;
	if (im->unwind.started)
		(void)sem_post(&im->unwind.given);
	else
		g->r = unwind_group(im, g);
}

/* The group that the thread had, ready to be written; NULL: it had none. */
static struct import_group *take_back(struct import *im, int *ret_result)
{
	struct import_group *g = im->unwind.group;

	if (!g)
		return NULL;
	if (im->unwind.started)
		sem_take(&im->unwind.done);
	im->unwind.group = NULL;
	*ret_result = finish_group(im, g);
	return g;
}

/* ---- writing ---- */

static int look_up_lines(struct import *im)
{
	int r = 0;

	while (!im->options.no_inline && r >= 0 && emit_lines_left(im->emit)) {
		emit_ask(im->emit);
		r = serve(im);
	}
	return r < 0 ? trace(r) : 0;
}

int import_look_up_rest(struct import *im)
{
	/* Everything has names: the memory is free for DWARF. */
	int r = shrink(im, 0);

	return r < 0 ? trace(r) : look_up_lines(im);
}

/* Writes a group that is unwound; @r: the result of the unwind. */
static int write_group(struct import *im, struct import_group *g, int r)
{
	for (size_t i = 0; i < g->n; i++) {
		const struct uw_result *result = &g->results[i];
		const struct entry *e = entry_at(im, g, i);
		bool waits = r == -ENOMEM || result->outcome == UW_PENDING;
		int w;

		reader_answered(im->reader, &e->info, SKIP_NONE);
		outcome_fill(im->outcome, e, waits ? NULL : result,
			     waits ? SKIP_MODULE_TIMEOUT : SKIP_NONE);
		import_kernel_frames(im, im->outcome);
		w = emit_outcome(im->emit, im->outcome);
		r = r < 0 ? r : w;
		if (r >= 0)
			r = name(im);
	}
	slot_queue_pop(&im->entries, g->n);
	reader_reclaim(im->reader);
	if (r >= 0 && im->emit && emit_is_full(im->emit)) {
		r = look_up_lines(im);
		emit_renew(im->emit);
	}
	if (++im->groups_written % IMPORT_RELEASE == 0)
		process_table_release_ended(im->processes, SIZE_MAX);
	return r < 0 ? trace(r) : 0;
}

size_t import_filling(const struct import *im)
{
	return im->entries.filled - im->grouped_entries;
}

int import_flush(struct import *im)
{
	struct import_group *ready, *next = &im->groups[im->filling];
	int r = 0;

	ready = take_back(im, &r);
	next->first = im->grouped_entries;
	next->n = import_filling(im);
	im->grouped_entries += next->n;
	if (next->n) {
		give(im, next);
		im->filling = !im->filling;
	}
	return ready ? write_group(im, ready, r) : 0;
}

int import_drain(struct import *im)
{
	int r = 0;

	while (r >= 0 && (import_filling(im) || im->unwind.group))
		r = import_flush(im);
	return r < 0 ? trace(r) : 0;
}

static size_t held(const struct import *im)
{
	return process_bytes_held() + uw_modules_set_bytes(im->modules);
}

/* Past the limit down to three quarters, a quarter of the processes at a time: modules go when no process has them any
 * more.  What waits goes first: it holds what its processes had mapped. */
int import_keep_small(struct import *im)
{
	const size_t limit = im->options.held_bytes, now = held(im);
	int r;

	im->result->most_held = max_u64(im->result->most_held, now);
	if (now <= limit)
		return 0;
	r = import_drain(im);
	while (r >= 0 && held(im) > limit / 4 * 3 && process_table_count(im->processes)) {
		size_t n = process_table_count(im->processes) / 4 + 1;

		for (; n && held(im) > limit / 4 * 3; n--) {
			(void)process_table_forget_one(im->processes, NULL);
			im->forgotten++;
		}
		(void)uw_modules_forget_unused(im->modules, NULL, NULL); /* cannot fail */
	}
	return r < 0 ? trace(r) : 0;
}

void import_unwind_deinit(struct import *im)
{
	if (im->unwind.started) {
		if (im->unwind.group)
			sem_take(&im->unwind.done);
		im->unwind.group = NULL;
		(void)sem_post(&im->unwind.given);
		(void)pthread_join(im->unwind.thread, NULL);
		(void)sem_destroy(&im->unwind.given);
		(void)sem_destroy(&im->unwind.done);
	}
}
