/* import-records.c - a file of `perf record` as the reader's source of records (record-source.h): the samples of the event that
 * is imported, in the registers of the engines, and mappings with their build ids; and their stacks.  Thread: main.
 *
 * What is due between two records is done when the next one is asked for: a full group is unwound, and memory kept small. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/sem.h"
#include "import/import-private.h"
#include "proc/open-file.h"
#include "proc/procfs.h"
#include "symbols/module.h"
#include "unwinder/unwinder.h"

/* ---- to which mappings a path's build id applies ----
 *
 * perf makes its table of build ids (HEADER_BUILD_ID) at the end of the recording, from the files at
 * each path then.  One path may have had several files: a file was replaced while it ran, or a
 * container has another file there.  So the build id of a path applies to
 *
 *   the file at the path now                if device, inode and generation are the mapping's
 *   a path with one file in the recording   on the machine of the recording, if inode and generation
 *                                           are the mapping's, or the file at the path is newer than
 *                                           the recording; on another machine, where inodes mean
 *                                           nothing, always
 *
 * and to no other mapping: that one is identified by its inode, which matches no other file.  A
 * record with its own build id (--buildid-mmap) needs none of this.
 *
 * The number of files of a path is known after a look at all mappings of the recording.  That is
 * done in advance, but only when needed: not while each mapped file is the one at its path.  A pipe
 * can be read only once: a build id that was applied to a path's first file, before a second one
 * appeared, is counted and reported. */

/* The files mapped under a path of the table; as many as the table has. */
struct import_path {
	struct uw_file_id file; /* the first */
	bool several;
	bool looked;		       /* `sameness` is known */
	bool trusted;		       /* the build id was applied to the first */
	enum procfs_sameness sameness; /* of the first */
};

static struct uw_file_id file_of(const struct record_event *e)
{
	return (struct uw_file_id){
		.major = e->mmap.major,
		.minor = e->mmap.minor,
		.inode = e->mmap.inode,
		.generation = e->mmap.generation,
	};
}

/* Records of mappings from before the recording have no generation (0). */
static bool is_same_file(const struct uw_file_id *a, const struct uw_file_id *b)
{
	return a->major == b->major && a->minor == b->minor && a->inode == b->inode &&
	       (!a->generation || !b->generation || a->generation == b->generation);
}

static struct import_path *path_new(struct import *im, uint64_t hash)
{
	struct import_path *paths;

	if (im->paths.n_used == PERFDATA_MAX_BUILD_IDS)
		return NULL;
	if (is_power_of_two(im->paths.n_used + 1)) {
		paths = reallocarray(im->path_files, (im->paths.n_used + 1) * 2, sizeof(*paths));
		if (!paths)
			return NULL;
		im->path_files = paths;
	}
	if (table_put(&im->paths, hash, im->paths.n_used) < 0)
		return NULL;
	paths = &im->path_files[im->paths.n_used - 1];
	*paths = (struct import_path){0};
	return paths;
}

/* The entry of the mapping's path, with its file counted; NULL: no memory. */
static struct import_path *path_of(struct import *im, const struct record_event *e)
{
	const struct uw_file_id file = file_of(e);
	uint64_t hash = hash_bytes(e->mmap.path, strlen(e->mmap.path)), index;
	struct import_path *p =
		table_get(&im->paths, hash, &index) ? &im->path_files[index] : path_new(im, hash);

	if (!p || e->mmap.build_id_len)
		return p;
	if (!p->file.inode)
		p->file = file;
	else if (!is_same_file(&p->file, &file) && !p->several) {
		p->several = true;
		im->trusted_early += p->trusted && p->sameness != PROCFS_SAME;
	}
	if (!p->file.generation && !p->several)
		p->file.generation = file.generation;
	return p;
}

static enum procfs_sameness look(const struct record_event *e)
{
	const struct uw_file_id file = file_of(e);

	return procfs_compare(e->mmap.path, &file);
}

/* Is the file at the path newer than the recording, or gone?  (Built again, or removed: as on another
 * machine, only the build id identifies what was mapped.) */
static bool came_later(const struct import *im, const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return errno == ENOENT || errno == ENOTDIR;
	return st.st_ctim.tv_sec > im->written_at;
}

/* The first file of a path, the only one so far. */
static enum procfs_sameness look_first(const struct import *im, const struct record_event *e)
{
	enum procfs_sameness sameness;

	if (!im->same_kernel)
		return PROCFS_SAME_INODE;
	sameness = look(e);
	return sameness == PROCFS_OTHER && came_later(im, e->mmap.path) ? PROCFS_SAME_INODE
									: sameness;
}

/* Called for each mapping of the recording. */
static void count_file(void *arg, const struct record_event *e)
{
	const struct perfdata_build_id *id;
	struct import *im = arg;
	struct import_path *p;

	if (!e->mmap.inode && !e->mmap.build_id_len)
		return;
	id = perfdata_build_id(im->file, e->mmap.path);
	if (!id || id->several)
		return;
	p = path_of(im, e);
	if (p && e->mmap.build_id_len)
		p->several |= e->mmap.build_id_len != id->len ||
			      memcmp(e->mmap.build_id, id->bytes, id->len) != 0;
}

/* Once.  If the file cannot be read now it is treated as a pipe. */
static void look_over(struct import *im)
{
	int r;

	if (im->looked_over)
		return;
	im->looked_over = true;
	r = perfdata_scan(im->file, count_file, im);
	if (r < 0)
		log_verbose("its mappings could not be read in advance: %s", strerror(-r));
}

static bool is_of_mapping(struct import *im, const struct perfdata_build_id *id,
			  const struct record_event *e)
{
	struct import_path *p;

	if (!e->mmap.inode)
		return true; /* not known: only the path identifies it */
	p = path_of(im, e);
	if (p && !p->several && !p->looked) {
		p->sameness = look_first(im, e);
		p->looked = true;
		if (p->sameness != PROCFS_SAME && !id->several) {
			look_over(im);
			p = path_of(im, e); /* it may have moved */
		}
	}
	if (!p || p->several || id->several)
		return look(e) == PROCFS_SAME;
	p->trusted = p->sameness != PROCFS_OTHER;
	return p->trusted;
}

/* Counts the files that another file has replaced, for a note. */
static void note_replaced(struct import *im, const struct record_event *e)
{
	const uint64_t words[] = {(uint64_t)e->mmap.major << 32 | e->mmap.minor, e->mmap.inode,
				  e->mmap.generation};
	uint64_t file = hash_bytes(words, sizeof(words)), there;

	if (!(e->mmap.prot & PROT_EXEC) || im->replaced.n_used == PERFDATA_MAX_BUILD_IDS ||
	    table_get(&im->replaced, file, &there) || access(e->mmap.path, F_OK) != 0)
		return;
	log_verbose("%s: the file at this path is not the one that was mapped", e->mmap.path);
	(void)table_put(&im->replaced, file, 1);
}

/* `perf inject --jit` writes mappings of files that it made of a jitdump's code, with a generation that is not the file's (1;
 * tools/perf/util/jitdump.c): jitted-PID-NUMBER.so. */
static bool is_injected(const struct record_event *e)
{
	static const char digits[] = "0123456789";
	const char *slash = strrchr(e->mmap.path, '/'), *name = slash ? slash + 1 : "";
	size_t n;

	if (e->mmap.generation != 1 || strncmp(name, "jitted-", 7) != 0)
		return false;
	n = strspn(name += 7, digits);
	if (!n || name[n] != '-')
		return false;
	name += n + 1;
	n = strspn(name, digits);
	return n && !strcmp(name + n, ".so");
}

/* Sets the build id that the file has for the mapping's path, if it applies. */
static void set_build_id(struct import *im, struct record_event *e)
{
	const struct perfdata_build_id *id;

	if (is_injected(e))
		e->mmap.generation = 0; /* not known */
	im->has_build_ids |= e->mmap.build_id_len != 0;
	if (e->mmap.build_id_len || !(id = perfdata_build_id(im->file, e->mmap.path)))
		return;
	im->has_build_ids = true;
	if (!is_of_mapping(im, id, e)) {
		note_replaced(im, e);
		return;
	}
	e->mmap.build_id_len = id->len;
	memcpy(e->mmap.build_id, id->bytes, sizeof(e->mmap.build_id));
}

/* ---- the stacks, in groups.  Thread: main, and pw-unwind ----
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

/* Samples that wait for the next group. */
static size_t filling(const struct import *im)
{
	return im->entries.filled - im->grouped_entries;
}

/* Hands these to the thread and writes the group before. */
static int flush(struct import *im)
{
	struct import_group *ready, *next = &im->groups[im->filling];
	int r = 0;

	ready = take_back(im, &r);
	next->first = im->grouped_entries;
	next->n = filling(im);
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

	while (r >= 0 && (filling(im) || im->unwind.group))
		r = flush(im);
	return r < 0 ? trace(r) : 0;
}

static size_t held(const struct import *im)
{
	return process_bytes_held() + uw_modules_set_bytes(im->modules);
}

/* Processes used least recently are forgotten where all take more than held_bytes.  Past the limit down to three quarters, a quarter of the processes at a time: modules go when no process has them any
 * more.  What waits goes first: it holds what its processes had mapped. */
static int keep_processes_small(struct import *im)
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

/* ---- the records ---- */

/* A sample of an event that is not imported. */
static void leave_out(struct import *im, uint32_t event)
{
	im->account.received++;
	im->account.skipped[SKIP_NOT_IN_SCOPE]++;
	im->others[event]++;
}

/* ---- groups of events: `perf record -e '{a,b}:S'` ----
 *
 * Only the leader has samples; each contains the counts of all members at that time.  As in `perf
 * script`, a member with a count that has grown since the leader's previous sample gets a sample too, with
 * the leader's stack and the growth as its weight.
 *
 * An id belongs to an event on one CPU or of one task, so the last count is kept by id.  Where
 * children inherited the event (Linux 6.12) all have its id and count separately: the last count is
 * kept by id and thread. */

enum { VALUE, ID }; /* words of a member */
enum { SKIPPED = 1 };

static uint64_t stream_of(const struct import *im, const struct perfdata_item *item,
			  const struct record_sample *sample, uint64_t id)
{
	const struct perfdata_event *leader = &perfdata_info(im->file)->events[item->event];

	return leader->attr.inherit ? id << 32 ^ sample->tid : id;
}

/* A value that fell is damaged or out of order: the highest one counts.  -E2BIG: no recording has so
 * many threads. */
static int grow(struct table *values, uint64_t stream, uint64_t value, uint64_t *ret_by)
{
	uint64_t last = 0;

	*ret_by = 0;
	if (!table_get(values, stream, &last) && values->n_used >= PERFDATA_MAX_IDS)
		return fail(-E2BIG);
	if (value <= last)
		return 0;
	*ret_by = value - last;
	return table_put(values, stream, value);
}

/* By how much the event that is imported grew since the sample before, where it is another one of
 * the group; what the others grew by is counted as left out. */
static int take_members(struct import *im, const struct perfdata_item *item,
			const struct record_sample *sample, uint64_t *ret_weight)
{
	const uint64_t format = item->layout->read_format;
	const size_t words = format & PERFWIND_FORMAT_LOST ? 3 : 2; /* value id [lost] */
	const uint64_t n = format & PERF_FORMAT_ID ? sample->n_group : 0;
	bool strange = n < sample->n_group;

	*ret_weight = 0;
	for (uint64_t i = 0; i < n; i++) {
		const uint64_t *member = sample->group + i * words;
		uint32_t event;
		uint64_t by;
		int r;

		if (!perfdata_event_of_id(im->file, member[ID], &event)) {
			strange = true;
			continue;
		}
		if (event == item->event)
			continue; /* it has the sample itself */
		r = grow(&im->group_values, stream_of(im, item, sample, member[ID]), member[VALUE],
			 &by);
		if (r < 0 && r != -E2BIG)
			return trace(r);
		strange |= r < 0;
		if (by && event == im->event_index)
			*ret_weight += by;
		else if (by)
			leave_out(im, event);
	}
	im->grouped += strange;
	return 0;
}

/* ---- samples ---- */

/* An address in the page at 0, where nothing is mapped: memory found by a register that was not
 * recorded is in no stack and in no module. */
enum { REG_UNKNOWN = 1 };

/* The registers that the engines take, out of those recorded. */
static const uint64_t *choose_regs(struct import_place *to, const uint64_t *regs, uint64_t has,
				   uint64_t wanted)
{
	size_t n = 0, at = 0;

	if (has == wanted || !regs)
		return regs;
	for (unsigned bit = 0; bit < IMPORT_REGS; bit++) {
		bool there = has >> bit & 1;

		if (wanted >> bit & 1)
			to->regs[n++] = there ? regs[at] : REG_UNKNOWN;
		at += there;
	}
	return to->regs;
}

static bool is_guest(const struct record_sample *s)
{
	return s->cpu_mode == PERF_RECORD_MISC_GUEST_KERNEL ||
	       s->cpu_mode == PERF_RECORD_MISC_GUEST_USER;
}

/* One address as a callchain. */
static void chain_of_address(struct import_place *to, struct record_sample *s)
{
	to->chain[0] = s->cpu_mode == PERF_RECORD_MISC_KERNEL ? CHAIN_KERNEL : CHAIN_USER;
	to->chain[1] = s->ip;
	s->chain = to->chain;
	s->n_chain = 2;
}

/* The address is in no callchain: perf recorded none, or none for user code, which is in the copy. */
static bool lacks_address(const struct import *im, const struct record_sample *s)
{
	return im->kind == IMPORT_ADDRESSES ||
	       (!s->n_chain &&
		(im->kind == IMPORT_CHAINS || s->cpu_mode == PERF_RECORD_MISC_KERNEL));
}

/* The addresses are a virtual machine guest's: the host has other code there. */
static void drop_stack(struct import *im, struct record_sample *s)
{
	im->guests++;
	s->regs_abi = 0;
	s->stack_len = 0;
	s->n_chain = 0;
}

/* The sample has the counts of all its group (:S). */
static bool is_grouped(const struct record_layout *layout)
{
	return layout->sample_type & PERF_SAMPLE_READ && layout->read_format & PERF_FORMAT_GROUP;
}

/* False: the sample is not imported, and has been counted.  A sample of a group's leader is also one of
 * each member with a count that grew, even if the leader itself is not imported. */
static int is_wanted(struct import *im, const struct perfdata_item *item,
		     struct record_sample *ret_sample)
{
	const bool own = item->event == im->event_index, grouped = is_grouped(item->layout);
	uint64_t weight = 0;
	int r;

	if (!own)
		leave_out(im, item->event);
	if (!own && !grouped)
		return false;
	if (record_parse_sample(item->layout, item->record, ret_sample) < 0 ||
	    ret_sample->cpu >= IMPORT_CPUS) {
		im->bad++;
		return false;
	}
	r = grouped ? take_members(im, item, ret_sample, &weight) : 0;
	if (r < 0)
		return trace(r);
	if (!own)
		ret_sample->period = weight;
	return own || weight;
}

/* The time of the first sample goes into the head of the trace. */
static int first_sample(struct import *im, uint64_t time)
{
	int r = im->emit ? 0 : import_start_trace(im, time);

	im->first_time = im->first_time ? im->first_time : time;
	im->last_time = max_u64(im->last_time, time);
	return r;
}

static int take_sample(struct import *im, const struct perfdata_item *item, struct record_item *to)
{
	struct import_place *place = &im->places[im->entries.filled & im->entries.mask];
	struct record_sample *s = &to->sample;
	int r = is_wanted(im, item, s);

	if (r <= 0)
		return r < 0 ? trace(r) : SKIPPED;
	s->n_counts = 0;
	s->regs = choose_regs(place, s->regs_abi ? s->regs : NULL, item->layout->regs_mask,
			      uw_arch_regs_mask(im->arch));
	if (is_guest(s))
		drop_stack(im, s);
	else if (lacks_address(im, s))
		chain_of_address(place, s);
	to->kind = RECORD_SAMPLE;
	to->ring = to->cpu = s->cpu;
	return s->pid || im->options.idle ? first_sample(im, s->time) : 0;
}

/* ---- other records ---- */

/* The emitter remembers the last two names of a thread: before a third one, samples that wait are written. */
static int drain_before_comm(struct import *im, const struct record_event *e)
{
	const struct process *process = process_find(im->processes, e->pid);
	const struct process_thread *thread =
		process ? table_pointer(&process->threads, e->tid) : NULL;

	return thread && thread->renamed_at >= im->first_time ? import_drain(im) : 0;
}

/* SKIPPED: it is not for the reader. */
static int take_event(struct import *im, const struct perfdata_item *item, struct record_item *to)
{
	struct record_event *e = &to->event;
	int r = record_parse_event(item->layout, item->record, e);
	bool bad = r < 0;

	to->kind = RECORD_EVENT;
	if (r != 0) {
		im->bad += bad;
		return SKIPPED;
	}
	switch (e->type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		bad = strlen(e->mmap.path) >= PATH_MAX; /* none of the kernel's */
		if (!bad && e->pid == UINT32_MAX)
			import_kernel_mmap(im, e);
		else if (!bad)
			set_build_id(im, e);
		break;
	case PERFWIND_RECORD_LOST_SAMPLES:
		im->counts.lost_exact = true;
		if (item->event == im->event_index)
			im->counts.lost_samples += e->lost.count;
		return SKIPPED;
	case PERF_RECORD_LOST:
		e->time = item->time;
		break;
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE:
		bad = e->cpu >= IMPORT_CPUS;
		break;
	case PERFWIND_RECORD_KSYMBOL:
		r = import_drain(im); /* earlier samples use the earlier names */
		if (r >= 0)
			r = import_kernel_ksymbol(im, e);
		return r < 0 ? trace(r) : SKIPPED;
	case PERF_RECORD_COMM:
		r = e->comm.exec ? 0 : drain_before_comm(im, e);
		break;
	default:
		break;
	}
	im->bad += bad;
	to->cpu = e->cpu;
	to->ring = e->cpu < IMPORT_CPUS ? e->cpu : 0;
	return r < 0 ? trace(r) : bad ? SKIPPED : 0;
}

/* ---- the source ---- */

static int take_record(struct import *im, const struct perfdata_item *item, struct record_item *to)
{
	to->record = item->record;
	to->from = NULL;
	to->position = item->block;
	return item->record->type == PERF_RECORD_SAMPLE ? take_sample(im, item, to)
							: take_event(im, item, to);
}

/* What is due after a record. */
static int between(struct import *im)
{
	int r = filling(im) == IMPORT_GROUP ? flush(im) : 0;

	return r < 0 ? trace(r) : keep_processes_small(im);
}

static int next(void *arg, struct record_item *to)
{
	struct import *im = arg;
	struct perfdata_item item;
	int r;

	for (;;) {
		r = between(im);
		if (r < 0)
			return trace(r);
		item = im->first;
		r = item.record ? 0 : perfdata_next(im->file, &item);
		im->first.record = NULL;
		if (r != 0) {
			im->unreadable = r < 0 ? r : 0;
			return r < 0 ? trace(r) : RECORDS_DONE;
		}
		r = take_record(im, &item, to);
		if (r == 0)
			return 0;
		perfdata_put(im->file, item.block);
		if (r < 0)
			return trace(r);
	}
}

static void put(void *arg, uint32_t ring, uint64_t position)
{
	struct import *im = arg;

	(void)ring;
	perfdata_put(im->file, (uint32_t)position);
}

struct record_source import_records(struct import *im)
{
	return (struct record_source){.next = next, .put = put, .arg = im};
}
