/* loader.c - see loader.h.
 *
 * Two classes of work: urgent (samples wait for it: mappings, unwind halves) and later (names).  Each turn
 * takes all requests in, then does one piece of urgent work, or else one of later work.  A module's file stays
 * open between its unwind half and its names, so that a binary that is deleted meanwhile is still named. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/stage/loader.h"

enum { KEPT_FILES = 512, /* open for names and lines, and no more than an eighth of the descriptors */
       PATH_ROOM = 4096 + 64, LOADER_QUEUE = 16384, LOADER_NICE = 5, LINES_MAX = 64 };

struct work_list {
	struct load_request *items;
	size_t n, first, room;
};

struct loader {
	char *root;
	struct slot_queue asked, answered;
	struct waker wake;
	struct waker *answers;
	pthread_t thread;
	bool started;
	_Atomic bool stop;
	_Atomic uint64_t n_pending;
	struct work_list urgent, later;
	struct table files; /* module serial -> fd + 1 */
	size_t max_files;
	struct uw_module *lined; /* the module whose DWARF is open; a reference */
};

static int work_push(struct work_list *list, const struct load_request *request)
{
	if (list->first == list->n)
		list->first = list->n = 0;
	if (list->n == list->room) {
		size_t room = list->room ? list->room * 2 : 64;
		struct load_request *more = reallocarray(list->items, room, sizeof(*more));

		if (!more)
			return fail(-ENOMEM);
		list->items = more;
		list->room = room;
	}
	list->items[list->n++] = *request;
	return 0;
}

void load_answer_deinit(struct load_answer *answer)
{
	free(answer->maps);
	free(answer->cmdline);
	free(answer->mapping.path);
	free(answer->threads);
	(void)procfs_memory_free(answer->memory);
	for (size_t i = 0; i < answer->n_lines; i++) {
		free(answer->lines[i].function);
		free(answer->lines[i].file);
	}
	free(answer->lines);
	*answer = (struct load_answer){0};
}

/* The references that a request carries, of one that main will not hear of.  After LOAD_UNWIND that on the module goes
 * on with LOAD_SYMBOLS. */
static void release(const struct load_request *request, bool answered)
{
	(void)process_unref(request->process);
	if (!answered || request->kind != LOAD_UNWIND)
		(void)uw_module_unref(request->module);
}

static void deliver(struct loader *l, struct load_answer *answer)
{
	struct load_answer *slot;

	while (!(slot = slot_queue_push(&l->answered))) {
		waker_wake(l->answers);
		if (atomic_load(&l->stop)) {
			release(&answer->request, true);
			load_answer_deinit(answer);
			return;
		}
		(void)usleep(500);
	}
	*slot = *answer;
	slot_queue_publish(&l->answered);
	waker_wake(l->answers);
}

/* ---- processes ---- */

/* Where the process can be read: a main thread that has ended (pthread_exit) leaves others that run, but its own
 * /proc files are empty.  /proc/TID is there for every thread. */
static uint32_t readable_task(struct loader *l, uint32_t pid)
{
	_cleanup_(freep) uint32_t *tids = NULL;
	struct procfs_status status;
	size_t n = 0;

	if (procfs_status(l->root, pid, &status) < 0 || !status.zombie ||
	    procfs_threads(l->root, pid, &tids, &n) < 0)
		return pid;
	for (size_t i = 0; i < n; i++) {
		if (tids[i] != pid && procfs_status(l->root, tids[i], &status) >= 0 && !status.zombie)
			return tids[i];
	}
	return pid;
}

static void load_thread_names(struct loader *l, struct load_answer *a)
{
	_cleanup_(freep) uint32_t *tids = NULL;
	size_t n = 0;

	if (procfs_threads(l->root, a->request.pid, &tids, &n) < 0 || !n)
		return;
	a->threads = calloc(n, sizeof(*a->threads));
	for (size_t i = 0; i < n && a->threads; i++) {
		struct load_thread *thread = &a->threads[a->n_threads];

		thread->tid = tids[i];
		if (procfs_thread_comm(l->root, a->request.pid, tids[i], thread->comm) >= 0)
			a->n_threads++;
	}
}

static void load_process(struct loader *l, struct load_answer *a)
{
	uint32_t pid = a->request.pid;
	int r = procfs_status(l->root, pid, &a->status);

	if (r < 0) {
		a->error = r;
		return;
	}
	(void)procfs_cmdline(l->root, pid, &a->cmdline, &a->cmdline_len);
	pid = readable_task(l, pid);
	(void)procfs_memory_new(l->root, pid, &a->memory);
	if (a->request.kind != LOAD_PROCESS)
		return;
	load_thread_names(l, a);
	a->error = procfs_maps(l->root, pid, &a->maps, &a->maps_len);
}

static void load_query(struct loader *l, struct load_answer *a)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[PATH_ROOM], file[4096] = "";
	struct load_mapping *m = &a->mapping;
	struct procfs_map map;

	(void)snprintf(path, sizeof(path), "%s/proc/%u/maps", l->root, readable_task(l, a->request.pid));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	a->error = fd < 0 ? -errno : procfs_query(fd, a->request.vaddr, &map, &m->id.build_id, file, sizeof(file));
	if (!a->error && !map.exec)
		a->error = -ENOENT;
	if (a->error)
		return;
	m->start = map.start;
	m->end = map.end;
	m->offset = map.offset;
	m->id.major = map.major;
	m->id.minor = map.minor;
	m->id.inode = map.inode;
	m->path = strdup(file);
	a->error = m->path ? 0 : -ENOMEM;
}

/* ---- modules ---- */

/* Opens a file as the target sees it (its root), else as we do. */
static int open_in_root(struct loader *l, uint32_t pid, const char *path)
{
	char inside[PATH_ROOM];
	int fd;

	(void)snprintf(inside, sizeof(inside), "%s/proc/%u/root%s", l->root, pid, path);
	fd = open(inside, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	return fd;
}

struct target_source {
	struct uw_source source;
	struct loader *loader;
	uint32_t pid;
};

static int target_open(struct uw_source *source, const char *path)
{
	struct target_source *t = container_of(source, struct target_source, source);

	return open_in_root(t->loader, t->pid, path);
}

static struct target_source source_of(struct loader *l, const struct load_request *request, int fd)
{
	return (struct target_source){
		.source = {.fd = fd, .open = target_open},
		.loader = l,
		.pid = request->pid,
	};
}

/* Closes kept files down to @n.  Whose names did not come yet is opened again by its path, or goes without. */
static void drop_files(struct loader *l, size_t n)
{
	while (l->files.n_used > n) {
		table_for_each(&l->files, slot)
		{
			(void)fd_close((int)slot->value - 1);
			(void)table_remove(&l->files, slot->key);
			break;
		}
	}
}

static void keep_file(struct loader *l, const struct uw_module *module, int fd)
{
	uint32_t serial = uw_module_serial(module);
	uint64_t old;

	if (table_get(&l->files, serial, &old))
		(void)fd_close((int)old - 1);
	else
		drop_files(l, l->max_files - 1);
	if (table_put(&l->files, serial, (uint64_t)fd + 1) < 0) {
		(void)table_remove(&l->files, serial); /* the one that was closed just now */
		(void)fd_close(fd);
	}
}

static int kept_file(const struct loader *l, const struct uw_module *module)
{
	uint64_t v;

	return table_get(&l->files, uw_module_serial(module), &v) ? (int)v - 1 : -1;
}

/* Where the image of a file that cannot be opened begins in memory: the mapping of the same path at offset 0. */
static uint64_t image_start(struct loader *l, const struct load_request *request)
{
	_cleanup_(freep) char *text = NULL;
	const char *path = uw_module_path(request->module), *p;
	struct procfs_map map;
	size_t len;
	int r;

	if (procfs_maps(l->root, readable_task(l, request->pid), &text, &len) < 0)
		return request->start - request->offset;
	p = text;
	while ((r = procfs_maps_next(&p, text + len, &map)) != PROCFS_MAPS_END) {
		if (r < 0 || map.offset != 0 || map.start > request->start)
			continue;
		if (map.path_len >= strlen(path) && !strncmp(map.path, path, strlen(path)))
			return map.start;
	}
	return request->start - request->offset;
}

static int load_from_memory(struct loader *l, struct load_answer *a)
{
	const struct load_request *request = &a->request;
	struct target_source t = source_of(l, request, -1);
	bool vdso = !strcmp(uw_module_path(request->module), "[vdso]");
	struct uw_memory *memory = NULL;
	int r;

	/* Every 64-bit process has the same vDSO: ours is at hand and does not exit. */
	r = procfs_memory_new(vdso ? "" : l->root, vdso ? (uint32_t)getpid() : readable_task(l, request->pid), &memory);
	if (r < 0)
		return trace(r);
	t.source.memory = memory;
	t.source.start = vdso ? getauxval(AT_SYSINFO_EHDR) : image_start(l, request);
	t.source.end = vdso ? t.source.start + (request->end - request->start) : UINT64_MAX;
	a->from_memory = true;
	r = uw_module_load_unwind(request->module, &t.source);
	/* Names too, while the process is there. */
	if (r >= 0 && uw_module_want_symbols(request->module))
		(void)uw_module_load_symbols(request->module, &t.source);
	(void)procfs_memory_free(memory);
	return r;
}

static int open_module(struct loader *l, const struct load_request *request, bool *ret_proved)
{
	int fd = -1, r;

	r = procfs_open_mapped(l->root, readable_task(l, request->pid), request->start, request->end,
			       uw_module_path(request->module), &request->id, &fd, ret_proved);
	return r < 0 ? r : fd;
}

static void load_unwind(struct loader *l, struct load_answer *a)
{
	struct uw_module *module = a->request.module;
	int fd = -1;

	if (uw_module_kind(module) == UW_MODULE_FILE)
		fd = open_module(l, &a->request, &a->proved);
	if (fd == -EMFILE || fd == -ENFILE) {
		drop_files(l, 0);
		fd = open_module(l, &a->request, &a->proved);
	}
	if (fd >= 0) {
		struct target_source t = source_of(l, &a->request, fd);

		a->error = uw_module_load_unwind(module, &t.source);
		keep_file(l, module, fd);
	} else if (uw_module_kind(module) == UW_MODULE_JIT) {
		struct target_source t = source_of(l, &a->request, -1);

		a->error = uw_module_load_unwind(module, &t.source); /* nothing to read: frame pointers */
	} else {
		a->error = load_from_memory(l, a);
	}
	if (a->error < 0)
		uw_module_set_unreadable(module);
}

static void load_symbols(struct loader *l, struct load_answer *a)
{
	struct uw_module *module = a->request.module;
	struct target_source t = source_of(l, &a->request, kept_file(l, module));
	_cleanup_(fd_closep) int fd = -1;

	(void)uw_module_want_symbols(module);
	if (uw_module_symbol_state(module) != UW_MODULE_WANTED)
		return; /* came with the unwind half, or cannot be had */
	if (uw_module_kind(module) == UW_MODULE_JIT)
		t.source.fd = fd = open_in_root(l, a->request.pid, uw_module_path(module));
	a->error = t.source.fd < 0 ? -ENOENT : uw_module_load_symbols(module, &t.source);
	if (a->error < 0)
		uw_module_set_unreadable(module);
}

static void add_line(void *arg, const char *function, const char *file, uint32_t line)
{
	struct load_answer *a = arg;
	struct load_line *to = &a->lines[a->n_lines];

	if (a->n_lines == LINES_MAX)
		return;
	to->function = strdup(function);
	to->file = file ? strdup(file) : NULL;
	to->line = line;
	if (to->function)
		a->n_lines++;
	else
		free(take(to->file));
}

/* One module's DWARF at a time: it may be as large as all other memory together. */
static void open_lines_of(struct loader *l, struct uw_module *module)
{
	if (l->lined == module)
		return;
	if (l->lined) {
		uw_module_drop_lines(l->lined);
		(void)uw_module_unref(l->lined);
	}
	l->lined = module ? uw_module_ref(module) : NULL;
}

static void load_lines(struct loader *l, struct load_answer *a)
{
	struct target_source t = source_of(l, &a->request, kept_file(l, a->request.module));
	uint64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	int r;

	if (t.source.fd < 0)
		return;
	a->lines = calloc(LINES_MAX, sizeof(*a->lines));
	if (!a->lines)
		return;
	open_lines_of(l, a->request.module);
	r = uw_module_lines(a->request.module, &t.source, a->request.vaddr, add_line, a);
	a->error = r < 0 ? r : 0;
	a->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
}

/* ---- thread ---- */

static void serve(struct loader *l, const struct load_request *request);

/* Each request is answered, as its asker counts on it: where there is no memory to put it off, it is served now. */
static void put_off(struct loader *l, struct work_list *list, const struct load_request *request)
{
	if (work_push(list, request) < 0)
		serve(l, request);
}

static void serve(struct loader *l, const struct load_request *request)
{
	struct load_request symbols = *request;
	struct load_answer a = {.request = *request};

	switch (request->kind) {
	case LOAD_PROCESS:
	case LOAD_NAMES:
		load_process(l, &a);
		break;
	case LOAD_QUERY:
		load_query(l, &a);
		break;
	case LOAD_UNWIND:
		load_unwind(l, &a);
		break;
	case LOAD_SYMBOLS:
		load_symbols(l, &a);
		break;
	case LOAD_LINES:
		load_lines(l, &a);
		break;
	}
	deliver(l, &a);
	if (request->kind == LOAD_UNWIND) {
		symbols.kind = LOAD_SYMBOLS;
		atomic_fetch_add(&l->n_pending, 1);
		put_off(l, &l->later, &symbols);
	}
	atomic_fetch_sub(&l->n_pending, 1);
}

static void take_requests(struct loader *l)
{
	for (uint64_t n = slot_queue_ready(&l->asked); n; n--) {
		struct load_request request =
			*(struct load_request *)slot_queue_at(&l->asked, slot_queue_consumed(&l->asked));
		bool urgent = request.kind != LOAD_SYMBOLS && request.kind != LOAD_LINES;

		slot_queue_pop(&l->asked, 1);
		put_off(l, urgent ? &l->urgent : &l->later, &request);
	}
}

static void sleep_until_asked(struct loader *l)
{
	struct pollfd pfd = {.fd = l->wake.fd, .events = POLLIN};
	int n = 0;

	waker_prepare(&l->wake);
	if (!slot_queue_ready(&l->asked) && !atomic_load(&l->stop))
		n = poll(&pfd, 1, -1);
	waker_awake(&l->wake, n > 0);
}

/* Names can wait: the profiled programs go first.  Only who may lower his nice value again raises it (on Linux it is
 * a thread's own). */
static void make_way(bool later, int *nice)
{
	int wanted = later ? LOADER_NICE : 0;

	if (*nice == wanted || geteuid() != 0)
		return;
	if (setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), wanted) == 0)
		*nice = wanted;
}

static void *run(void *arg)
{
	struct loader *l = arg;
	int nice = 0;

	(void)pthread_setname_np(pthread_self(), "pw-loader");
	while (!atomic_load(&l->stop)) {
		struct work_list *list;

		take_requests(l);
		list = l->urgent.first < l->urgent.n ? &l->urgent : &l->later;
		make_way(list == &l->later, &nice);
		if (list->first < list->n) {
			struct load_request request = list->items[list->first++];

			serve(l, &request);
			continue;
		}
		sleep_until_asked(l);
	}
	return NULL;
}

int loader_new(const char *root, struct waker *answers, struct loader **ret_loader)
{
	struct loader *l = calloc(1, sizeof(*l));
	struct rlimit limit = {1024, 1024};
	int r;

	if (!l)
		return fail(-ENOMEM);
	l->answers = answers;
	(void)getrlimit(RLIMIT_NOFILE, &limit);
	l->max_files = max_u64(min_u64(KEPT_FILES, limit.rlim_cur / 8), 1);
	l->wake.fd = -1;
	l->root = strdup(root);
	r = l->root ? slot_queue_init(&l->asked, LOADER_QUEUE, sizeof(struct load_request)) : -ENOMEM;
	if (r >= 0)
		r = slot_queue_init(&l->answered, 1024, sizeof(struct load_answer));
	if (r >= 0)
		r = waker_init(&l->wake);
	if (r >= 0)
		r = -pthread_create(&l->thread, NULL, run, l);
	if (r < 0) {
		(void)loader_free(l);
		return fail(r);
	}
	l->started = true;
	*ret_loader = l;
	return 0;
}

static void drop_all(struct loader *l)
{
	struct load_answer answer;

	while (slot_queue_ready(&l->asked)) {
		release(slot_queue_at(&l->asked, slot_queue_consumed(&l->asked)), false);
		slot_queue_pop(&l->asked, 1);
	}
	for (; l->urgent.first < l->urgent.n; l->urgent.first++)
		release(&l->urgent.items[l->urgent.first], false);
	for (; l->later.first < l->later.n; l->later.first++)
		release(&l->later.items[l->later.first], false);
	while (loader_answer(l, &answer)) {
		release(&answer.request, true);
		load_answer_deinit(&answer);
	}
}

struct loader *loader_free(struct loader *l)
{
	const uint64_t one = 1;

	if (!l)
		return NULL;
	if (l->started) {
		atomic_store(&l->stop, true);
		(void)!write(l->wake.fd, &one, sizeof(one));
		(void)pthread_join(l->thread, NULL);
	}
	drop_all(l);
	open_lines_of(l, NULL);
	table_for_each(&l->files, slot)
	{
		(void)fd_close((int)slot->value - 1);
	}
	table_deinit(&l->files);
	slot_queue_deinit(&l->asked);
	slot_queue_deinit(&l->answered);
	waker_deinit(&l->wake);
	free(l->urgent.items);
	free(l->later.items);
	free(l->root);
	free(l);
	return NULL;
}

bool loader_ask(struct loader *l, const struct load_request *request)
{
	struct load_request *slot = slot_queue_push(&l->asked);

	if (!slot)
		return false;
	*slot = *request;
	atomic_fetch_add(&l->n_pending, 1);
	slot_queue_publish(&l->asked);
	waker_wake(&l->wake);
	return true;
}

bool loader_answer(struct loader *l, struct load_answer *ret_answer)
{
	if (!slot_queue_ready(&l->answered))
		return false;
	*ret_answer = *(struct load_answer *)slot_queue_at(&l->answered, slot_queue_consumed(&l->answered));
	slot_queue_pop(&l->answered, 1);
	return true;
}

uint64_t loader_pending(const struct loader *l)
{
	return atomic_load(&l->n_pending);
}
