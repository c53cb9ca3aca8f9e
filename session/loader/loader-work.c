/* loader-work.c - see loader-work.h.
 *
 * A module's file stays open between its unwind half and its names, so that a binary that is
 * deleted meanwhile is still named. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "proc/open-file.h"
#include "proc/procmem.h"
#include "session/loader/loader-work.h"

enum {
	KEPT_FILES =
		512, /* open for names and lines, and no more than an eighth of the descriptors */
	PATH_ROOM = 4096 + 64,
	IMAGE_PAGES = 4096,	  /* looked at for an image's start */
	IMAGE_BEHIND = 128 << 20, /* readable after the text of an image without known mappings */
	THREADS_MAX = 4096,	  /* read one by one, 20 us each; records name the others */
	FOREIGN_MAX = 65536,
};

/* ---- the mark: what the call in hand touches ---- */

static void set_mark(struct load_worker *w, uint64_t mark)
{
	if (w->mark)
		atomic_store(w->mark, mark);
}

static int enter_device(struct procfs_gate *gate, uint64_t device)
{
	struct load_worker *w = container_of(gate, struct load_worker, gate);

	set_mark(w, device ? device : LOAD_MARK_PROCESS);
	for (uint32_t i = 0; i < w->devices.n_refused; i++)
		if (device && w->devices.refused[i] == device)
			return w->gate_error = -EBUSY;
	for (uint32_t i = 0; i < w->devices.n_held; i++)
		if (device && w->devices.held[i] == device)
			return w->gate_error = -EAGAIN;
	return 0;
}

static int build_id_of(struct procfs_gate *gate, int fd, struct uw_build_id *ret_id)
{
	struct load_worker *w = container_of(gate, struct load_worker, gate);
	struct uw_source source = {.fd = fd};
	struct load_parse work = {.kind = LOAD_PARSE_BUILD_ID, .urgent = true, .source = &source};

	w->parse(w, &work);
	*ret_id = work.build_id;
	return work.error;
}

/* A file that stayed open since an earlier request.  close() asks some file systems (FLUSH). */
static void close_kept(struct load_worker *w, int fd)
{
	if (w->mark)
		set_mark(w, LOAD_MARK_CLOSING | procfs_device(fd));
	(void)fd_close(fd);
	set_mark(w, LOAD_MARK_PROCESS);
}

/* ---- processes ---- */

/* Where the process can be read: a main thread that has ended (pthread_exit) leaves others that
 * run, but its own /proc files are empty.  /proc/TID is there for every thread. */
static uint32_t readable_task(struct load_worker *w, uint32_t pid)
{
	_cleanup_(freep) uint32_t *tids = NULL;
	struct procfs_status status;
	size_t n = 0;

	if (procfs_status(w->root, pid, &status) < 0 || !status.zombie ||
	    procfs_threads(w->root, pid, &tids, &n) < 0)
		return pid;
	for (size_t i = 0; i < n; i++) {
		if (tids[i] != pid && procfs_status(w->root, tids[i], &status) >= 0 &&
		    !status.zombie)
			return tids[i];
	}
	return pid;
}

static void load_thread_names(struct load_worker *w, struct load_answer *a)
{
	_cleanup_(freep) uint32_t *tids = NULL;
	size_t n = 0;
	int r;

	a->error = procfs_threads(w->root, a->request.pid, &tids, &n);
	if (a->error < 0 || !n)
		return;
	n = min_u64(n, THREADS_MAX);
	a->threads = calloc(n, sizeof(*a->threads));
	a->error = a->threads ? 0 : -ENOMEM;
	for (size_t i = 0; i < n && a->threads; i++) {
		struct load_thread *thread = &a->threads[a->n_threads];

		thread->tid = tids[i];
		r = procfs_thread_comm(w->root, a->request.pid, tids[i], thread->comm);
		if (r >= 0)
			a->n_threads++;
		else if (r != -ENOENT && r != -ESRCH) /* it has not ended */
			a->error = r;
	}
}

static void load_process(struct load_worker *w, struct load_answer *a)
{
	uint32_t pid = a->request.pid;
	int r = procfs_status(w->root, pid, &a->status);

	if (r < 0) {
		a->error = r;
		return;
	}
	(void)procfs_cmdline(w->root, pid, &a->cmdline, &a->cmdline_len);
	(void)procfs_cgroup(w->root, pid, &a->cgroup);
	pid = readable_task(w, pid);
	if (!a->request.given && !a->request.closed)
		r = procfs_memory_new(w->root, pid, &a->memory);
	a->memory_denied = r == -EACCES || r == -EPERM;
	if (a->request.kind != LOAD_PROCESS)
		return;
	if (a->status.n_threads <= LOAD_THREADS_AT_ONCE)
		load_thread_names(w, a);
	if (a->request.given)
		a->error = procfs_maps_of_fd(load_given(&a->request), &a->maps, &a->maps_len);
	else
		a->error = a->request.closed ? -EACCES
					     : procfs_maps(w->root, pid, &a->maps, &a->maps_len);
}

static int take_given(struct load_request *request)
{
	int fd = load_given(request);

	request->given = 0;
	return fd;
}

static void load_query(struct load_worker *w, struct load_answer *a)
{
	_cleanup_(fd_closep) int fd = take_given(&a->request);
	char path[PATH_ROOM], file[4096] = "";
	struct load_mapping *m = &a->mapping;
	struct procfs_map map;

	if (fd < 0 && a->request.closed) {
		errno = EACCES;
	} else if (fd < 0) {
		(void)snprintf(path, sizeof(path), "%s/proc/%u/maps", w->root,
			       readable_task(w, a->request.pid));
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	a->error = fd < 0 ? -errno
			  : procfs_query(fd, a->request.vaddr, &map, &m->id.build_id, file,
					 sizeof(file));
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

static bool same_place(const struct wait_place *a, const struct wait_place *b)
{
	return a->number == b->number && a->sp == b->sp && a->pc == b->pc;
}

/* The place is read again behind the stack: if it changed, the stack is of neither. */
static int read_wait(struct load_worker *w, struct load_answer *a, uint8_t *stack)
{
	const struct load_request *request = &a->request;
	struct wait_place again;
	ssize_t n;
	int r;

	a->wait_from = clock_ns((int)request->vaddr);
	r = wait_place_read(w->root, request->pid, request->tag, &a->wait);
	if (r < 0)
		return r;
	n = wait_place_stack(w->root, request->pid, a->wait.sp, stack, LOAD_STACK_MAX);
	if (n < 0)
		return (int)n;
	r = wait_place_read(w->root, request->pid, request->tag, &again);
	a->wait_until = clock_ns((int)request->vaddr);
	if (r < 0 || !same_place(&a->wait, &again))
		return r < 0 ? r : -EAGAIN;
	wait_place_find_file(w->root, request->pid, &a->wait);
	a->stack_len = (size_t)n;
	return 0;
}

static void load_wait(struct load_worker *w, struct load_answer *a)
{
	a->stack = malloc(LOAD_STACK_MAX);
	a->error = a->request.closed ? -EACCES : a->stack ? read_wait(w, a, a->stack) : -ENOMEM;
}

/* ---- modules ---- */

/* The user that chose the names of files: that of the process when it was first seen.  By now a program with other privileges
 * may run there. */
static uint32_t owner_of(struct load_worker *w, const struct load_request *request)
{
	struct procfs_status status;

	if (w->own_files)
		return geteuid();
	if (request->owner == PROCFS_NO_OWNER && procfs_status(w->root, request->pid, &status) >= 0)
		return status.owner;
	return request->owner;
}

/* ---- debug files ---- */

#define DEBUG_FILES "/usr/lib/debug"

/* The name of a file: no folder, and none above. */
static bool is_file_name(const char *name)
{
	return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static const char *behind(const char *path, const char *start, size_t len)
{
	return strncmp(path, start, len) == 0 ? path + len : "";
}

/* FF/FF...FF.debug */
static bool is_build_id_name(const char *name)
{
	static const char hex[] = "0123456789abcdef";
	size_t n;

	if (strspn(name, hex) != 2 || name[2] != '/')
		return false;
	n = strspn(name + 3, hex);
	return n && n <= 2 * (UW_BUILD_ID_MAX - 1) && !strcmp(name + 3 + n, ".debug");
}

/* The places of GDB's convention, and of DWARF that several modules share (dwz).  The question may come from a parser that a
 * file has taken over, so no other path is opened, even one that any user could read. */
bool load_is_debug_path(const char *module, const char *path)
{
	const char *slash = strrchr(module, '/'), *name;
	size_t folder = slash ? (size_t)(slash - module) + 1 : 0;

	if (is_build_id_name(behind(path, DEBUG_FILES "/.build-id/", sizeof(DEBUG_FILES) + 10)))
		return true;
	name = behind(path, DEBUG_FILES "/.dwz/", sizeof(DEBUG_FILES) + 5);
	if (*name)
		return !strstr(name, "/../") && strncmp(name, "../", 3) != 0;
	if (!folder || module[0] != '/')
		return false;
	name = behind(path, module, folder);
	if (is_file_name(name) || is_file_name(behind(name, ".debug/", 7)))
		return true;
	name = behind(path, DEBUG_FILES, sizeof(DEBUG_FILES) - 1);
	return is_file_name(behind(name, module, folder));
}

struct target_source {
	struct uw_source source;
	struct load_worker *worker;
	const char *module; /* its path; of a request without one "" */
	uint32_t pid, owner;
};

/* What distinguishes a file from all others, at any time. */
static bool identify(int fd, struct load_file *ret_file, bool *ret_shared)
{
	struct statx stx;

	if (fd < 0 ||
	    statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &stx) < 0)
		return false;
	*ret_file = (struct load_file){
		.device = procfs_device(fd),
		.inode = stx.stx_ino,
		.bytes = stx.stx_size,
		.changed_ns = (uint64_t)stx.stx_mtime.tv_sec * NSEC_PER_SEC + stx.stx_mtime.tv_nsec,
		.status_changed_ns =
			(uint64_t)stx.stx_ctime.tv_sec * NSEC_PER_SEC + stx.stx_ctime.tv_nsec,
		.owner = stx.stx_uid,
	};
	*ret_shared = stx.stx_mode & (S_IWGRP | S_IWOTH);
	return true;
}

/* Notes a debug file that could be of another maker than the module's file. */
static void judge_debug_file(struct load_worker *w, int module_fd, int fd)
{
	struct load_file file, of;
	bool is_shared, is_module_shared;

	if (identify(module_fd, &of, &is_module_shared) && identify(fd, &file, &is_shared) &&
	    file.device == of.device && !is_shared && (file.owner == 0 || file.owner == of.owner))
		return;
	if (w->foreign.n_used >= FOREIGN_MAX)
		table_clear(&w->foreign);
	(void)table_put(&w->foreign, w->serial, 1);
}

static int target_open(struct uw_source *source, const char *path)
{
	struct target_source *t = container_of(source, struct target_source, source);

	const struct file_places *places = t->worker->places;
	int fd = -ENOENT;

	if (!load_is_debug_path(t->module, path))
		return fail(-EACCES);
	if (places)
		fd = file_places_open_debug(places, path);
	if (fd >= 0 || is_shortage(fd))
		return fd;
	fd = procfs_open_named(
		t->worker->root, t->pid,
		&(struct procfs_named){.path = path, .owner = t->owner, .gate = &t->worker->gate});
	if (fd >= 0)
		judge_debug_file(t->worker, source->fd, fd);
	return fd;
}

static struct target_source source_of(struct load_worker *w, const struct load_request *request,
				      int fd)
{
	return (struct target_source){
		.source = {.fd = fd,
			   .open = target_open,
			   .no_duplicate = !w->copies,
			   .later = true,
			   .reading = request->reading,
			   .conversion = w->conversion},
		.worker = w,
		.module = uw_module_path(request->module),
		.pid = request->pid,
		.owner = owner_of(w, request),
	};
}

static uint64_t used_now(struct load_worker *w, int fd)
{
	return (uint64_t)++w->file_uses << 32 | (uint32_t)fd;
}

/* Of the module in hand. */
static bool find_file(struct load_worker *w, int *ret_fd)
{
	uint64_t v;

	if (!table_get(&w->files, w->serial, &v))
		return false;
	*ret_fd = (int)(uint32_t)v;
	(void)table_put(&w->files, w->serial, used_now(w, *ret_fd)); /* replaces: never fails */
	return true;
}

int load_worker_file(struct load_worker *w)
{
	int fd;

	return find_file(w, &fd) ? fd : -1;
}

static void drop_file(struct load_worker *w, uint64_t serial, uint64_t value)
{
	if (w->forget)
		w->forget(w, (uint32_t)serial);
	close_kept(w, (int)(uint32_t)value);
	(void)table_remove(&w->files, serial);
}

/* Closes kept files until @n are left, the least recently used first.  A module without symbols yet is opened again by its
 * path. */
static void drop_files(struct load_worker *w, size_t n)
{
	while (w->files.n_used > n) {
		uint64_t serial = 0, oldest = UINT64_MAX;

		table_for_each (&w->files, slot) {
			if (slot->value < oldest) {
				oldest = slot->value;
				serial = slot->key;
			}
		}
		drop_file(w, serial, oldest);
	}
}

/* For the module in hand.  Consumes @fd. */
static void keep_file(struct load_worker *w, int fd)
{
	uint64_t old;

	if (table_get(&w->files, w->serial, &old))
		drop_file(w, w->serial, old);
	drop_files(w, w->max_files - 1);
	if (table_put(&w->files, w->serial, used_now(w, fd)) < 0)
		(void)fd_close(fd);
}

static bool out_of_files(int r)
{
	return r == -EMFILE || r == -ENFILE;
}

/* The file of the module in another place than its path. */
static int open_elsewhere(struct load_worker *w, const struct load_request *request,
			  const struct uw_build_id *id, bool copies, bool *ret_proved)
{
	int fd;

	if (!w->places)
		return -ENOENT;
	if (copies)
		return file_places_open_copy(w->places, uw_module_path(request->module), id,
					     ret_proved);
	fd = file_places_open_cached(w->places, id);
	if (fd >= 0)
		*ret_proved = true;
	return fd;
}

/* A descriptor of the module's file. */
static int open_mapped(struct load_worker *w, const struct load_request *request, uint32_t task,
		       const struct uw_file_id *id, bool *ret_proved)
{
	int fd = open_elsewhere(w, request, &id->build_id, true, ret_proved), r = -EMFILE;

	if (fd >= 0)
		return fd;
	for (int tries = 0; tries < 2 && out_of_files(r); tries++) {
		if (tries)
			drop_files(w, 0);
		r = procfs_open_mapped(w->root, task, request->start, request->end,
				       uw_module_path(request->module), id, owner_of(w, request),
				       &w->gate, &fd, ret_proved);
	}
	if (r >= 0)
		return fd;
	fd = out_of_files(r) ? r : open_elsewhere(w, request, &id->build_id, false, ret_proved);
	return fd >= 0 ? fd : r;
}

/* The file of a module that was loaded before; where it is not at hand any more (others were used
 * since, or another process had it), opened again, where its path leads to the same one.  Where
 * neither build id nor inode can prove that, the layout does: data of another file is refused. */
static int kept_file(struct load_worker *w, const struct load_request *request)
{
	struct uw_module *module = request->module;
	struct uw_file_id id = request->id;
	bool proved;
	int fd;

	if (find_file(w, &fd))
		return enter_device(&w->gate, procfs_device(fd)) < 0 ? -1 : fd;
	if (uw_module_kind(module) != UW_MODULE_FILE)
		return -1;
	if (uw_module_build_id(module)->len)
		id.build_id = *uw_module_build_id(module);
	fd = open_mapped(w, request, request->pid, &id, &proved);
	if (fd < 0)
		return -1;
	keep_file(w, fd);
	return find_file(w, &fd) ? fd : -1;
}

/* Its path, or that and " (deleted)". */
static bool is_of(const struct procfs_map *map, const char *path)
{
	size_t len = strlen(path);

	return map->path_len >= len && !memcmp(map->path, path, len) &&
	       (map->path_len == len || map->path[len] == ' ');
}

/* The memory that may be read as the image of a file that cannot be opened: the mappings of the same path, from the one at
 * offset 0 on. */
static void image_range(struct load_worker *w, const struct load_request *request,
			uint64_t *ret_start, uint64_t *ret_end)
{
	_cleanup_(freep) char *text = NULL;
	const char *path = uw_module_path(request->module), *p;
	struct procfs_map map;
	bool found = false;
	size_t len;
	int r;

	*ret_start = request->start - request->offset;
	*ret_end = request->end;
	if (procfs_maps(w->root, readable_task(w, request->pid), &text, &len) < 0)
		return;
	p = text;
	while ((r = procfs_maps_next(&p, text + len, &map)) != PROCFS_MAPS_END) {
		if (r < 0 || !is_of(&map, path))
			continue;
		if (map.start > request->start && !map.offset)
			return; /* a second image of the same file */
		if (!map.offset && !found)
			*ret_start = map.start;
		found |= !map.offset;
		*ret_end = max_u64(*ret_end, map.end);
	}
}

/* The same without its mappings: a text segment follows the image's start at its offset, or some
 * pages later. */
static uint64_t image_start_below(struct uw_memory *memory, const struct load_request *request)
{
	uint64_t highest = request->start - request->offset, page = (uint64_t)sysconf(_SC_PAGESIZE);
	char magic[4];

	for (uint64_t at = highest, i = 0; i < IMAGE_PAGES && at >= page; at -= page, i++) {
		if (memory->read(memory, at, magic, sizeof(magic)) == sizeof(magic) &&
		    !memcmp(magic, "\177ELF", sizeof(magic)))
			return at;
	}
	return highest;
}

static int open_memory(struct load_worker *w, struct load_request *request,
		       struct uw_memory **ret_memory)
{
	if (request->given)
		return procfs_memory_of_fd(take_given(request), NULL, ret_memory);
	return procfs_memory_new(w->root, readable_task(w, request->pid), ret_memory);
}

/* Has it parsed. */
static int parse(struct load_worker *w, enum load_parse_kind kind, struct uw_source *source,
		 struct load_answer *a)
{
	struct load_parse work = {
		.kind = kind,
		.urgent = load_is_urgent(&a->request) || load_is_script(&a->request),
		.vaddrs = a->request.vaddrs,
		.n_vaddrs = a->request.n_vaddrs,
		.spans = a->request.spans,
		.module = a->request.module,
		.source = source,
		.answer = a,
	};

	w->parse(w, &work);
	return work.error;
}

static int load_from_memory(struct load_worker *w, struct load_answer *a)
{
	struct load_request *request = &a->request;
	struct target_source t = source_of(w, request, -1);
	bool vdso = !strcmp(uw_module_path(request->module), "[vdso]"), given = request->given;
	struct uw_memory *memory = NULL;
	int r;

	/* Every 64-bit process has the same vDSO: ours is at hand and does not exit. */
	r = vdso ? procfs_memory_new("", (uint32_t)getpid(), &memory)
		 : open_memory(w, request, &memory);
	if (r < 0)
		return trace(r);
	t.source.memory = memory;
	if (vdso) {
		t.source.start = getauxval(AT_SYSINFO_EHDR);
		t.source.end = t.source.start + (request->end - request->start);
	} else if (given) {
		t.source.start = image_start_below(memory, request);
		t.source.end = request->end + IMAGE_BEHIND;
	} else {
		image_range(w, request, &t.source.start, &t.source.end);
	}
	a->from_memory = true;
	/* Names too, while the process is there. */
	r = parse(w, LOAD_PARSE_BOTH, &t.source, a);
	(void)procfs_memory_free(memory);
	return r;
}

/* The code of a Java VM, as the VM describes it.  Only of a process that runs here. */
static int load_vm(struct load_worker *w, struct load_answer *a, enum load_parse_kind kind)
{
	struct load_request *request = &a->request;
	struct target_source t = source_of(w, request, -1);
	char path[PATH_ROOM];
	int fd;

	if (!request->vm || w->own_files)
		return -ENOENT;
	if (find_file(w, &fd)) {
		set_mark(w, LOAD_MARK_PROCESS);
	} else if (request->given) {
		fd = take_given(request);
	} else {
		(void)snprintf(path, sizeof(path), "%s/proc/%u/mem", w->root,
			       readable_task(w, request->pid));
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (fd < 0)
		return request->closed ? -EACCES : -errno;
	if (load_worker_file(w) < 0)
		keep_file(w, fd); /* each address of its code is asked for */
	t.source.fd = load_worker_file(w);
	t.source.vm = request->vm;
	return t.source.fd < 0 ? -EMFILE : parse(w, kind, &t.source, a);
}

/* The jitdump, which the program has mapped, or the perf map. */
static int open_jit(struct load_worker *w, const struct load_request *request)
{
	const struct uw_jitdump *dump = uw_module_jitdump(request->module);
	const struct procfs_named map = {
		.path = uw_module_path(request->module),
		.owner = owner_of(w, request),
		.made = true,
		.gate = &w->gate,
	};

	int fd = -1;
	bool proved;

	if (dump && procfs_open_mapped(w->root, request->pid, dump->start, dump->end, dump->path,
				       &dump->id, map.owner, &w->gate, &fd, &proved) >= 0)
		return fd;
	if (uw_module_language(request->module)) /* it has names, but no file */
		return -ENOENT;
	return procfs_open_named(w->root, request->pid, &map);
}

static void load_jit(struct load_worker *w, struct load_answer *a)
{
	struct target_source t = source_of(w, &a->request, -1);
	_cleanup_(fd_closep) int fd = -1;
	int r = load_vm(w, a, LOAD_PARSE_BOTH);

	a->error = 0;
	if (r >= 0)
		return;
	a->vm_error = r == -ENOENT ? 0 : r;
	if (uw_module_jitdump(a->request.module))
		t.source.fd = fd = open_jit(w, &a->request);
	/* without it there is nothing to read: frame pointers */
	a->error = parse(w, fd >= 0 ? LOAD_PARSE_BOTH : LOAD_PARSE_UNWIND, &t.source, a);
}

static void load_unwind(struct load_worker *w, struct load_answer *a)
{
	struct uw_module *module = a->request.module;
	bool is_shared;
	int fd = -1;

	if (uw_module_kind(module) == UW_MODULE_FILE)
		fd = open_mapped(w, &a->request, readable_task(w, a->request.pid), &a->request.id,
				 &a->proved);
	if (fd >= 0) {
		struct target_source t = source_of(w, &a->request, fd);

		a->error = parse(w, LOAD_PARSE_UNWIND, &t.source, a);
		keep_file(w, fd);
		a->has_file = identify(load_worker_file(w), &a->file, &is_shared);
	} else if (uw_module_kind(module) == UW_MODULE_JIT) {
		load_jit(w, a);
	} else if (out_of_files(fd)) {
		a->error = fd;
	} else {
		/* what maps a file that does not answer does not answer either */
		a->error = w->gate_error ? w->gate_error : load_from_memory(w, a);
	}
	if (a->error < 0)
		uw_module_set_unreadable(module);
}

static void load_symbols(struct load_worker *w, struct load_answer *a)
{
	struct uw_module *module = a->request.module;
	struct target_source t = source_of(w, &a->request, kept_file(w, &a->request));
	_cleanup_(fd_closep) int fd = -1;

	(void)uw_module_want_symbols(module);
	if (uw_module_symbol_state(module) != UW_MODULE_WANTED)
		return; /* came with the unwind half, or cannot be had */
	if (uw_module_kind(module) == UW_MODULE_JIT)
		t.source.fd = fd = open_jit(w, &a->request);
	if (t.source.fd >= 0)
		a->error = parse(w, LOAD_PARSE_SYMBOLS, &t.source, a);
	else /* -EXDEV, -EACCES: the user learns why */
		a->error = t.source.fd == -EXDEV || t.source.fd == -EACCES ? t.source.fd : -ENOENT;
	if (a->error < 0)
		uw_module_set_no_symbols(module);
}

static void close_lines(struct load_worker *w)
{
	struct load_parse close = {.kind = LOAD_PARSE_CLOSE};

	if (!w->lined)
		return;
	set_mark(w, LOAD_MARK_CLOSING);
	w->parse(w, &close);
	w->lined = 0;
}

static void load_lines(struct load_worker *w, struct load_answer *a)
{
	struct target_source t;
	uint64_t foreign;
	bool is_shared;

	if (w->lined != w->serial)
		close_lines(w);
	if (uw_module_kind(a->request.module) == UW_MODULE_JIT) {
		(void)load_vm(w, a, LOAD_PARSE_LINES);
		return;
	}
	t = source_of(w, &a->request, kept_file(w, &a->request));
	if (t.source.fd < 0)
		return;
	w->lined = w->serial;
	a->error = parse(w, LOAD_PARSE_LINES, &t.source, a);
	a->has_file = !table_get(&w->foreign, w->serial, &foreign) &&
		      identify(t.source.fd, &a->file, &is_shared);
}

/* ---- all ---- */

static void parse_in_place(struct load_worker *w, struct load_parse *work)
{
	load_parse(&w->parser, work);
}

void load_worker_serve(struct load_worker *w, struct load_answer *answer)
{
	w->gate_error = 0;
	if (w->parse == parse_in_place && answer->request.module)
		w->serial = uw_module_serial(answer->request.module);
	set_mark(w, LOAD_MARK_PROCESS);
	switch (answer->request.kind) {
	case LOAD_PROCESS:
	case LOAD_NAMES:
		load_process(w, answer);
		break;
	case LOAD_THREADS:
		load_thread_names(w, answer);
		break;
	case LOAD_QUERY:
		load_query(w, answer);
		break;
	case LOAD_WAIT:
		load_wait(w, answer);
		break;
	case LOAD_UNWIND:
		load_unwind(w, answer);
		break;
	case LOAD_SYMBOLS:
		load_symbols(w, answer);
		break;
	case LOAD_LINES:
		load_lines(w, answer);
		break;
	}
	if (w->gate_error)
		answer->error = w->gate_error;
}

int load_worker_init(struct load_worker *w, const char *root)
{
	*w = (struct load_worker){
		.root = strdup(root),
		.copies = true,
		.parse = parse_in_place,
		.gate = {.enter = enter_device, .build_id = build_id_of},
	};
	if (!w->root)
		return fail(-ENOMEM);
	w->max_files = min_u64(KEPT_FILES, share_of_files(8));
	return 0;
}

void load_worker_deinit(struct load_worker *w)
{
	if (w->parse)
		close_lines(w);
	table_for_each (&w->files, slot) {
		(void)fd_close((int)(uint32_t)slot->value);
	}
	table_deinit(&w->files);
	table_deinit(&w->foreign);
	free(w->root);
	*w = (struct load_worker){0};
}
