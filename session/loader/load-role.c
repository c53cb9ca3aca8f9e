/* load-role.c - see load-role.h.
 *
 *   main and pw-files      request   struct wire_request, addresses, path of the module, path of its jitdump; a descriptor
 *                                    that the target sent
 *                          answer    struct wire_answer; blocks: maps, command line, cgroup, threads, path of the mapping,
 *                                    stack
 *   pw-files and pw-parse  request   struct wire_parse, addresses, path of the module; the module's file
 *                          question  struct wire_question, paths
 *                          reply     i64 result; a descriptor, or the bytes
 *   pw-parse to main       answer    struct wire_parsed; the module (symbols/module.c); lines (each u64 line and
 *                                    kind, block function, block file; an empty file: none)
 *
 * All are one program, so structs travel as they are; pointers in them are not used.
 *
 * pw-files answers a question only if it is about the module or image in hand: its debug files (uw_source.open refuses
 * others), the memory of that image.  pw-parse keeps a module's file until pw-files has it close the file. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/caps.h"
#include "base/error.h"
#include "proc/open-file.h"
#include "proc/procmem.h"
#include "session/loader/load-role.h"

enum {
	COPY_MAX = 512 << 20, /* of a file, for an engine */
	THREADS_BYTES_MAX = 1 << 20,
	READ_MAX = 64 << 10,
	REQUEST_ROOM = HELPER_REQUEST_MAX,
};
#define ANSWER_ROOM (1ull << 29)

struct wire_request {
	struct load_request request;
	struct load_devices devices;
	uint64_t has_module, kind, serial, wants_separate;
	struct uw_build_id build_id;
	uint64_t has_jitdump, jitdump_start, jitdump_end;
	struct uw_file_id jitdump;
};

struct wire_answer {
	int64_t error;
	struct procfs_status status;
	struct load_mapping mapping; /* but its path */
	uint64_t proved, from_memory, denied, is_parsed, has_memory, has_file;
	struct load_file file;
	int64_t vm_error;
	struct wait_place wait;
	uint64_t wait_from, wait_until;
};

struct wire_parse {
	uint64_t kind, urgent, n_vaddrs, spans, has_module, module_kind, wants_separate, serial;
	uint64_t has_file, has_memory, start, end, later, vm;
	struct uw_reading reading;
	struct uw_build_id build_id;
};

enum wire_ask { ASK_OPEN, ASK_READ, SEND_BUILD_ID };
struct wire_question {
	uint64_t ask, address, len;
	struct uw_build_id build_id;
};

struct wire_reply {
	int64_t result;
	uint8_t bytes[READ_MAX];
};

struct wire_parsed {
	int64_t error;
	uint64_t n_lines, n_spans, cpu_ns;
};

/* ---- pw-parse: questions to pw-files ---- */

static ssize_t ask_for(struct helper_call *call, const struct wire_question *q,
		       const char *const *paths, size_t n_paths, struct wire_reply *reply,
		       int *ret_fd)
{
	uint8_t bytes[REQUEST_ROOM];
	struct packer p = {.data = bytes, .room = sizeof(bytes)};
	ssize_t n;

	packer_put(&p, q, sizeof(*q));
	for (size_t i = 0; i < n_paths; i++)
		packer_put(&p, paths[i], strlen(paths[i]) + 1);
	*ret_fd = -1;
	if (p.bad)
		return fail(-EMSGSIZE);
	n = helper_ask_back(call, bytes, p.len, reply, sizeof(*reply), ret_fd);
	if (n < (ssize_t)sizeof(reply->result))
		return fail(-EBADMSG);
	return reply->result < 0 ? reply->result : n - (ssize_t)sizeof(reply->result);
}

int load_ask_open(struct helper_call *call, const char *const *paths, size_t n, size_t *ret_index)
{
	const struct wire_question q = {.ask = ASK_OPEN};
	struct wire_reply reply;
	int fd;
	ssize_t r = ask_for(call, &q, paths, n, &reply, &fd);

	if (r >= 0)
		*ret_index = (size_t)reply.result;
	return r < 0 ? (int)r : fd;
}

ssize_t load_ask_read(struct helper_call *call, uint64_t address, void *to, size_t len)
{
	struct wire_reply reply;
	size_t done = 0;

	while (done < len) {
		const struct wire_question q = {
			.ask = ASK_READ, .address = address + done, .len = len - done};
		int fd;
		ssize_t n = ask_for(call, &q, NULL, 0, &reply, &fd);

		if (n < 0 && !done)
			return n;
		if (n <= 0)
			break;
		n = (ssize_t)min_u64((uint64_t)n, len - done);
		memcpy((uint8_t *)to + done, reply.bytes, (size_t)n);
		done += (size_t)n;
	}
	return (ssize_t)done;
}

/* ---- pw-parse: requests ---- */

/* A source that pw-files opens and reads. */
struct asked_source {
	struct uw_source source;
	struct uw_memory memory;
	struct helper_call *call;
};

struct parser_process {
	struct load_parser parser;
	struct asked_source asked;
	struct table files; /* serial of a module in main -> fd */
	int nice;	    /* now */
	int base, later;    /* for urgent requests, for the others; may be equal */
};

static int ask_open(struct uw_source *source, const char *const *paths, size_t n, size_t *ret_index)
{
	return load_ask_open(container_of(source, struct asked_source, source)->call, paths, n,
			     ret_index);
}

static ssize_t ask_read(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	return load_ask_read(container_of(memory, struct asked_source, memory)->call, address, to,
			     len);
}

static void answer_build_id(struct helper_call *call, const struct uw_build_id *id)
{
	struct wire_question q;

	memset(&q, 0, sizeof(q));
	q.ask = SEND_BUILD_ID;
	q.build_id = *id;
	helper_send_back(call, &q, sizeof(q));
}

static void *parser_begin(const void *data)
{
	const struct load_role_arg *arg = data;
	struct parser_process *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	k->asked = (struct asked_source){
		.source = {.open_first = ask_open, .no_duplicate = true, .live = true},
		.memory = {.read = ask_read},
	};
	k->base = k->nice = arg->nice;
	k->later = arg->nice_later;
	return k;
}

/* A request that is not urgent runs behind the profiled programs; with autogroups (sched(7)) not behind those of other sessions. */
static void set_priority(struct parser_process *k, bool urgent)
{
	int wanted = urgent ? k->base : k->later;

	if (wanted != k->nice && setpriority(PRIO_PROCESS, 0, wanted) == 0)
		k->nice = wanted;
}

static void close_file(struct parser_process *k, uint32_t serial)
{
	uint64_t fd;

	if (table_get(&k->files, serial, &fd)) {
		(void)fd_close((int)fd);
		(void)table_remove(&k->files, serial);
	}
}

/* The module's file, borrowed: the one that came with the request, or the one kept; -1: none. */
static int file_of(struct parser_process *k, const struct wire_parse *wire,
		   struct helper_call *call)
{
	uint64_t fd;

	if (call->fd >= 0) {
		close_file(k, (uint32_t)wire->serial);
		if (table_put(&k->files, wire->serial, (uint64_t)call->fd) < 0)
			return call->fd;
		return take_fd(call->fd);
	}
	return wire->has_file && table_get(&k->files, wire->serial, &fd) ? (int)fd : -1;
}

static void pack_lines(const struct load_answer *a, struct packer *p)
{
	for (size_t i = 0; i < a->n_lines; i++) {
		const struct load_line *line = &a->lines[i];

		packer_u64(p, line->address);
		packer_u64(p, line->line | (uint64_t)line->kind << 32);
		packer_block(p, line->function, strlen(line->function));
		packer_block(p, line->file ? line->file : "", line->file ? strlen(line->file) : 0);
	}
}

static void pack_parsed(const struct load_parse *w, struct helper_call *call)
{
	struct packer p = {.data = call->answer, .room = call->room};
	struct wire_parsed wire = {
		.error = w->error,
		.n_lines = w->answer->n_lines,
		.n_spans = w->answer->n_spans,
		.cpu_ns = w->answer->cpu_ns,
	};

	packer_put(&p, &wire, sizeof(wire));
	uw_module_pack(w->module, &p);
	packer_put(&p, w->answer->spans, w->answer->n_spans * sizeof(*w->answer->spans));
	pack_lines(w->answer, &p);
	if (p.bad) {
		p = (struct packer){.data = call->answer, .room = call->room};
		wire = (struct wire_parsed){.error = -EFBIG};
		packer_put(&p, &wire, sizeof(wire));
	}
	call->answer_len = p.len;
}

static void parse_module(struct parser_process *k, struct load_parse *w, struct helper_call *call)
{
	load_parse(&k->parser, w);
	pack_parsed(w, call);
	uw_module_drop_unwind(w->module); /* the answer holds them */
	uw_module_drop_symbols(w->module);
	load_answer_deinit(w->answer);
}

/* Copies the addresses behind a request's struct of @size bytes.  Returns what follows them; NULL: it is too short. */
static const char *addresses_of(const struct helper_call *call, size_t size, uint64_t n,
				uint64_t to[static LOAD_VADDRS_MAX])
{
	if (n > LOAD_VADDRS_MAX || call->request_len - size < n * sizeof(*to))
		return NULL;
	memcpy(to, call->request + size, n * sizeof(*to));
	return (const char *)call->request + size + n * sizeof(*to);
}

static void parser_serve(void *kept, struct helper_call *call)
{
	struct parser_process *k = kept;
	uint64_t vaddrs[LOAD_VADDRS_MAX];
	struct uw_source *source = &k->asked.source;
	struct load_answer answer = {0};
	struct load_parse work = {.source = source, .answer = &answer};
	struct wire_parse wire;
	const char *path;

	if (call->request_len < sizeof(wire))
		return;
	memcpy(&wire, call->request, sizeof(wire));
	path = addresses_of(call, sizeof(wire), wire.n_vaddrs, vaddrs);
	if (!path)
		return;
	work.kind = (enum load_parse_kind)wire.kind;
	work.vaddrs = vaddrs;
	work.n_vaddrs = wire.n_vaddrs;
	work.spans = wire.spans;
	k->asked.call = call;
	source->fd = file_of(k, &wire, call);
	source->memory = wire.has_memory ? &k->asked.memory : NULL;
	source->start = wire.start;
	source->end = wire.end;
	source->later = wire.later;
	source->reading = wire.reading;
	source->vm = wire.vm;
	set_priority(k, wire.urgent);
	work.module = wire.has_module ? load_parser_module(&k->parser, (uint32_t)wire.serial,
							   (enum uw_module_kind)wire.module_kind,
							   path, &wire.build_id)
				      : NULL;
	if (work.module && wire.wants_separate)
		uw_module_want_separate(work.module);
	if (work.module) {
		parse_module(k, &work, call);
		load_parser_keep_small(&k->parser);
	} else if (work.kind == LOAD_PARSE_FORGET) {
		close_file(k, (uint32_t)wire.serial);
	} else if (!wire.has_module) {
		load_parse(&k->parser, &work);
		if (work.kind == LOAD_PARSE_BUILD_ID && work.error >= 0)
			answer_build_id(call, &work.build_id);
	}
}

const struct helper_role load_parse_role = {
	.name = "pw-parse",
	.room = ANSWER_ROOM,
	.calls = CHILD_CALLS_GIVEN,
	.other_user = true,
	.from_spare = true,
	.arg_size = sizeof(struct load_role_arg),
	.begin = parser_begin,
	.serve = parser_serve,
};

/* ---- pw-files: its partner ---- */

struct handed {
	uint64_t device, inode;
};

/* Which files pw-parse has. */
struct partner {
	struct helper_call *call; /* in hand */
	struct table handed;	  /* serial of a module -> struct handed * */
};

static bool is_elf(int fd)
{
	char magic[4];

	return pread(fd, magic, sizeof(magic), 0) == sizeof(magic) &&
	       !memcmp(magic, "\177ELF", sizeof(magic));
}

/* The first of @paths (each with its NUL) that may be opened and is an ELF image.  No other file is passed on, whatever
 * path led to it; pw-parse does not ask for perf maps. */
static int open_asked(struct uw_source *source, const char *paths, const char *end,
		      int64_t *ret_index)
{
	int r = source->open ? -ENOENT : fail(-EACCES);

	for (int64_t i = 0; source->open && paths < end; i++, paths += strlen(paths) + 1) {
		int fd = source->open(source, paths);

		if (fd >= 0 && is_elf(fd)) {
			*ret_index = i;
			return fd;
		}
		r = fd < 0 ? fd : fail(-ENOEXEC);
		(void)fd_close(fd);
	}
	return r;
}

static int reply_open(struct helper_call *call, struct uw_source *source, const char *paths,
		      const char *end)
{
	int64_t result = 0;
	_cleanup_(fd_closep) int fd = open_asked(source, paths, end, &result);

	if (fd < 0)
		result = fd;
	return helper_partner_reply(call, &result, sizeof(result), fd);
}

static int reply_read(struct helper_call *call, struct uw_source *source, uint64_t address,
		      uint64_t len)
{
	struct wire_reply reply;
	struct uw_memory *memory = source->memory;

	reply.result = -EACCES;
	if (memory && address >= source->start && address < source->end) {
		len = min_u64(min_u64(len, READ_MAX), source->end - address);
		reply.result = memory->read(memory, address, reply.bytes, len);
	}
	return helper_partner_reply(
		call, &reply, sizeof(reply.result) + (size_t)(reply.result > 0 ? reply.result : 0),
		-1);
}

/* Answers a question of @len bytes and a NUL. */
static int reply_to(struct helper_call *call, struct load_parse *w, const uint8_t *bytes,
		    size_t len)
{
	const char *paths = (const char *)bytes + sizeof(struct wire_question);
	struct wire_question q;

	if (len < sizeof(q) || !w->source)
		return fail(-EBADMSG);
	memcpy(&q, bytes, sizeof(q));
	switch (q.ask) {
	case ASK_OPEN:
		return reply_open(call, w->source, paths, (const char *)bytes + len);
	case ASK_READ:
		return reply_read(call, w->source, q.address, q.len);
	case SEND_BUILD_ID:
		w->build_id = q.build_id;
		w->build_id.len = (uint8_t)min_u64(w->build_id.len, UW_BUILD_ID_MAX);
		return 0;
	default:
		return fail(-EBADMSG);
	}
}

static void pack_work(const struct load_parse *w, uint32_t serial, struct packer *to)
{
	struct wire_parse wire;

	memset(&wire, 0, sizeof(wire));
	wire.kind = w->kind;
	wire.urgent = w->urgent;
	wire.n_vaddrs = w->n_vaddrs;
	wire.spans = w->spans;
	wire.serial = serial;
	if (w->source) {
		wire.has_file = w->source->fd >= 0;
		wire.has_memory = w->source->memory != NULL;
		wire.start = w->source->start;
		wire.end = w->source->end;
		wire.later = w->source->later;
		wire.reading = w->source->reading;
		wire.vm = w->source->vm;
	}
	wire.has_module = w->module != NULL;
	if (w->module) {
		wire.module_kind = uw_module_kind(w->module);
		wire.wants_separate = uw_module_wants_separate(w->module);
		wire.build_id = *uw_module_build_id(w->module);
	}
	packer_put(to, &wire, sizeof(wire));
	packer_put(to, w->vaddrs, w->n_vaddrs * sizeof(*w->vaddrs));
	if (w->module)
		packer_put(to, uw_module_path(w->module), strlen(uw_module_path(w->module)) + 1);
}

/* Has pw-parse serve one request, and answers its questions meanwhile. */
static int pass_on(struct partner *partner, uint32_t serial, struct load_parse *w, int fd)
{
	struct helper_call *call = partner->call;
	uint8_t bytes[REQUEST_ROOM + 1];
	struct packer p = {.data = bytes, .room = REQUEST_ROOM};
	size_t len;
	int r;

	pack_work(w, serial, &p);
	if (p.bad)
		return fail(-EMSGSIZE);
	r = helper_partner_ask(call, bytes, p.len, fd);
	while (r >= 0) {
		r = helper_partner_receive(call, bytes, REQUEST_ROOM, &len);
		if (r != HELPER_ASKED)
			break;
		bytes[len] = 0;
		r = reply_to(call, w, bytes, len);
		call->partner_lost |=
			r < 0; /* not a question that our code asks: pw-parse was taken over */
	}
	return trace(r);
}

/* Has pw-parse close the module's file, if it has it.  The close asks the file system, hence the mark. */
static void forget_file(struct partner *partner, uint32_t serial)
{
	struct handed *handed = table_pointer(&partner->handed, serial);
	struct load_parse close = {.kind = LOAD_PARSE_FORGET};
	_Atomic uint64_t *mark = partner->call->mark;
	uint64_t before = atomic_load(mark);
	size_t answered = partner->call->partner_len;

	if (!handed)
		return;
	atomic_store(mark, LOAD_MARK_CLOSING | handed->device);
	(void)pass_on(partner, serial, &close, -1);
	partner->call->partner_len = answered; /* the answer to the request in hand */
	atomic_store(mark, before);
	(void)table_remove(&partner->handed, serial);
	free(handed);
}

static struct handed handed_of(int fd)
{
	struct statx stx = {.stx_ino = 0};

	if (fd < 0)
		return (struct handed){.inode = 0};
	(void)statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &stx);
	return (struct handed){.device = procfs_device(fd), .inode = stx.stx_ino};
}

/* *ret_fd: the descriptor to send, -1: pw-parse has the file already. */
static int hand_over(struct partner *partner, uint32_t serial, int fd, int *ret_fd)
{
	const struct handed now = handed_of(fd);
	struct handed *handed = table_pointer(&partner->handed, serial);
	int r;

	*ret_fd = -1;
	if (handed && fd >= 0 && handed->device == now.device && handed->inode == now.inode)
		return 0;
	forget_file(partner, serial);
	if (fd < 0)
		return 0;
	handed = malloc(sizeof(*handed));
	if (!handed)
		return fail(-ENOMEM);
	*handed = now;
	r = table_put(&partner->handed, serial, (uint64_t)(uintptr_t)handed);
	if (r < 0) {
		free(handed);
		return trace(r);
	}
	*ret_fd = fd;
	return 0;
}

/* Has pw-parse do @w for the module @serial.  < 0 and w->error: it has not. */
static int parse_elsewhere(struct partner *partner, uint32_t serial, struct load_parse *w)
{
	int fd = w->source ? w->source->fd : -1, new_fd = -1, r = 0;

	w->error = 0;
	if (fd >= 0 && !(w->module && uw_module_kind(w->module) == UW_MODULE_JIT) && !is_elf(fd))
		return w->error = fail(-ENOEXEC);
	if (w->source)
		r = hand_over(partner, serial, fd, &new_fd);
	if (r >= 0)
		r = pass_on(partner, serial, w, new_fd);
	if (r >= 0 && w->kind == LOAD_PARSE_BUILD_ID && !w->build_id.len)
		r = fail(-ENODATA);
	w->error = r;
	return r;
}

/* ---- pw-files ---- */

struct opener_process {
	struct load_worker worker;
	struct partner partner;
	uint32_t
		stray; /* a module of a file that pw-parse has and no later request needs; 0: none */
	bool is_parsed; /* pw-parse has an answer about the module */
};

/* Files of others; mappings and memory of others; files behind mappings; of root's session: reading as another user would
 * (open-file.h), and returning from a low priority. */
#define RIGHTS                                                                               \
	(CAPS_BIT(CAP_DAC_READ_SEARCH) | CAPS_BIT(CAP_PERFMON) | CAPS_BIT(CAP_SYS_PTRACE) |  \
	 CAPS_BIT(CAP_CHECKPOINT_RESTORE) | CAPS_BIT(CAP_SYS_ADMIN) | CAPS_BIT(CAP_SETUID) | \
	 CAPS_BIT(CAP_SETGID) | CAPS_BIT(CAP_SYS_NICE))

static bool narrow(void)
{
	struct caps caps;

	if (caps_get(&caps) < 0)
		return false;
	return !(caps.effective & CAPS_BIT(CAP_SYS_PTRACE)) || caps_keep(RIGHTS) >= 0;
}

static void parse(struct load_worker *worker, struct load_parse *work)
{
	struct opener_process *k = container_of(worker, struct opener_process, worker);

	k->is_parsed |= parse_elsewhere(&k->partner, worker->serial, work) >= 0 && work->module;
}

static void forget_module(struct load_worker *worker, uint32_t serial)
{
	forget_file(&container_of(worker, struct opener_process, worker)->partner, serial);
}

static void *opener_begin(const void *data)
{
	const struct load_role_arg *arg = data;
	struct opener_process *k = calloc(1, sizeof(*k));

	if (!k || !narrow() || load_worker_init(&k->worker, arg->root) < 0)
		return NULL;
	k->worker.copies = arg->copies;
	k->worker.parse = parse;
	k->worker.forget = forget_module;
	return k;
}

/* A copy of a module's file, in memory: no file system can withdraw it. */
static int copy_of(int fd)
{
	_cleanup_(fd_closep) int copy = -1;
	struct stat st;
	off_t at = 0;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > COPY_MAX)
		return -1;
	copy = memfd_create("module", MFD_CLOEXEC);
	while (copy >= 0 && at < st.st_size) {
		ssize_t n = sendfile(copy, fd, &at, (size_t)(st.st_size - at));

		if (n <= 0)
			return -1;
	}
	return take_fd(copy);
}

static void pack_answer(const struct load_answer *a, bool is_parsed, struct packer *p)
{
	struct wire_answer wire;

	memset(&wire, 0, sizeof(wire));
	wire.error = a->error;
	wire.status = a->status;
	wire.mapping = a->mapping;
	wire.proved = a->proved;
	wire.from_memory = a->from_memory;
	wire.denied = a->memory_denied;
	wire.vm_error = a->vm_error;
	wire.is_parsed = is_parsed;
	wire.has_memory = a->memory != NULL;
	wire.wait = a->wait;
	wire.wait_from = a->wait_from;
	wire.wait_until = a->wait_until;
	wire.has_file = a->has_file;
	wire.file = a->file;
	packer_put(p, &wire, sizeof(wire));
	packer_block(p, a->maps, a->maps ? a->maps_len : 0);
	packer_block(p, a->cmdline, a->cmdline ? a->cmdline_len : 0);
	packer_block(p, a->cgroup, a->cgroup ? strlen(a->cgroup) : 0);
	packer_block(p, a->threads, a->n_threads * sizeof(*a->threads));
	packer_block(p, a->mapping.path, a->mapping.path ? strlen(a->mapping.path) : 0);
	packer_block(p, a->stack, a->stack_len);
}

static bool answer_call(struct opener_process *k, struct helper_call *call, struct load_answer *a)
{
	struct packer p = {.data = call->answer, .room = call->room};

	pack_answer(a, k->is_parsed, &p);
	call->answer_len = p.len;
	if (a->memory)
		call->answer_fd = fcntl(procfs_memory_fd(a->memory), F_DUPFD_CLOEXEC, 3);
	else if (k->worker.copies && k->is_parsed && a->request.kind == LOAD_UNWIND)
		call->answer_fd = copy_of(load_worker_file(&k->worker));
	return !p.bad;
}

/* Here a module is a path and a build id.  pw-parse has the rest, by the serial. */
static struct uw_module *module_of(const struct wire_request *wire, const char *path)
{
	const char *jitdump = path + strlen(path) + 1;
	struct uw_module *module;

	if (uw_module_new((enum uw_module_kind)wire->kind, path, &wire->build_id, &module) < 0)
		return NULL;
	if (wire->wants_separate)
		uw_module_want_separate(module);
	if (wire->has_jitdump && uw_module_set_jitdump(module, jitdump, wire->jitdump_start,
						       wire->jitdump_end, &wire->jitdump) < 0)
		return uw_module_unref(module);
	return module;
}

static void opener_serve(void *kept, struct helper_call *call)
{
	struct opener_process *k = kept;
	uint64_t vaddrs[LOAD_VADDRS_MAX];
	struct load_answer a = {0};
	struct wire_request wire;
	const char *path;

	if (call->request_len < sizeof(wire))
		return;
	memcpy(&wire, call->request, sizeof(wire));
	path = addresses_of(call, sizeof(wire), wire.request.n_vaddrs, vaddrs);
	if (!path)
		return;
	k->partner.call = call;
	k->is_parsed = false;
	k->worker.mark = call->mark;
	k->worker.devices = wire.devices;
	if (k->stray && wire.has_module) {
		forget_file(&k->partner, k->stray);
		k->stray = 0;
	}
	k->worker.serial = (uint32_t)wire.serial;
	a.request = wire.request;
	a.request.process = NULL;
	a.request.vaddrs = vaddrs;
	a.request.given = (uint32_t)(take_fd(call->fd) + 1);
	a.request.module = wire.has_module ? module_of(&wire, path) : NULL;
	if (wire.has_module && !a.request.module)
		a.error = -ENOMEM;
	else
		load_worker_serve(&k->worker, &a);
	if (!answer_call(k, call, &a)) {
		struct load_answer none = {.request = a.request, .error = -EFBIG};

		k->is_parsed = false;
		(void)answer_call(k, call, &none);
	}
	/* a perf map, or a file with another build id */
	if (a.request.module && load_worker_file(&k->worker) < 0)
		k->stray = k->worker.serial;
	(void)uw_module_unref(a.request.module);
	a.request.vaddrs = NULL;
	load_answer_deinit(&a);
}

const struct helper_role load_role = {
	.name = "pw-files",
	.room = ANSWER_ROOM,
	/* narrow() chooses: without SYS_PTRACE, the kernel shows a process only to one that holds all capabilities that
	 * the process holds. */
	.rights = CAPS_ALL,
	.calls = CHILD_CALLS_OPEN,
	.partner = &load_parse_role,
	.from_spare = true,
	.arg_size = sizeof(struct load_role_arg),
	.begin = opener_begin,
	.serve = opener_serve,
};

/* ---- main: requests ---- */

ssize_t load_request_pack(const struct load_request *request, const struct load_devices *devices,
			  uint8_t to[static HELPER_REQUEST_MAX])
{
	const struct uw_jitdump *jitdump =
		request->module ? uw_module_jitdump(request->module) : NULL;
	struct packer p = {.data = to, .room = HELPER_REQUEST_MAX};
	struct wire_request wire;

	memset(&wire, 0, sizeof(wire));
	wire.request = *request;
	wire.devices = *devices;
	wire.has_module = request->module != NULL;
	if (request->module) {
		wire.kind = uw_module_kind(request->module);
		wire.serial = uw_module_serial(request->module);
		wire.wants_separate = uw_module_wants_separate(request->module);
		wire.build_id = *uw_module_build_id(request->module);
	}
	if (jitdump) {
		wire.has_jitdump = 1;
		wire.jitdump_start = jitdump->start;
		wire.jitdump_end = jitdump->end;
		wire.jitdump = jitdump->id;
	}
	packer_put(&p, &wire, sizeof(wire));
	packer_put(&p, request->vaddrs, request->n_vaddrs * sizeof(*request->vaddrs));
	if (request->module)
		packer_put(&p, uw_module_path(request->module),
			   strlen(uw_module_path(request->module)) + 1);
	if (jitdump)
		packer_put(&p, jitdump->path, strlen(jitdump->path) + 1);
	return p.bad ? fail(-EMSGSIZE) : (ssize_t)p.len;
}

/* ---- main: answers ---- */

/* A block as new memory with a NUL behind; NULL when it is empty. */
static int unpack_text(struct cursor *from, char **ret_text, size_t *ret_len)
{
	size_t len;
	const void *p = cursor_block(from, &len);

	if (!p)
		return fail(-EBADMSG);
	if (!len)
		return 0;
	*ret_text = malloc(len + 1);
	if (!*ret_text)
		return fail(-ENOMEM);
	memcpy(*ret_text, p, len);
	(*ret_text)[len] = 0;
	if (ret_len)
		*ret_len = len;
	return 0;
}

static int unpack_lines(struct load_answer *a, struct cursor *from, uint64_t n)
{
	uint64_t address = 0, addresses = max_u64(a->request.n_vaddrs, a->n_spans);

	if (n > addresses * LOAD_LINES_MAX)
		return fail(-EBADMSG);
	a->lines = n ? calloc(n, sizeof(*a->lines)) : NULL;
	if (n && !a->lines)
		return fail(-ENOMEM);
	for (uint64_t i = 0; i < n; i++) {
		struct load_line *line = &a->lines[a->n_lines++];
		uint64_t before = address, number;
		int r;

		address = cursor_u64(from);
		if (address < before || address >= addresses)
			return fail(-EBADMSG);
		line->address = (uint32_t)address;
		number = cursor_u64(from);
		line->line = (uint32_t)number;
		line->kind =
			number >> 32 < FRAME_KINDS ? (enum frame_kind)(number >> 32) : FRAME_NATIVE;
		r = unpack_text(from, &line->function, NULL);
		if (r >= 0)
			r = unpack_text(from, &line->file, NULL);
		if (r >= 0 && !line->function)
			r = fail(-EBADMSG);
		if (r < 0)
			return trace(r);
	}
	return 0;
}

static int unpack_spans(struct load_answer *a, struct cursor *from, uint64_t n)
{
	const void *spans;

	if (!n)
		return 0;
	if (!a->request.spans || n < a->request.n_vaddrs ||
	    n > a->request.n_vaddrs + LOAD_SPANS_MAX)
		return fail(-EBADMSG);
	spans = cursor_bytes(from, n * sizeof(*a->spans));
	a->spans = spans ? calloc(n, sizeof(*a->spans)) : NULL;
	if (!a->spans)
		return fail(spans ? -ENOMEM : -EBADMSG);
	memcpy(a->spans, spans, n * sizeof(*a->spans));
	a->n_spans = n;
	return 0;
}

/* The part of pw-parse, into the module of the request.  Consumes @file, for uw_module_unpack(). */
static int unpack_parsed(struct load_answer *a, const uint8_t *data, size_t len, int file_fd)
{
	_cleanup_(fd_closep) int file = file_fd;
	struct cursor from = cursor_of(data, len);
	struct wire_parsed wire;
	const void *head = cursor_bytes(&from, sizeof(wire));
	int r;

	if (!head)
		return fail(-EBADMSG);
	memcpy(&wire, head, sizeof(wire));
	if (wire.error == -EFBIG) {
		a->error = -EFBIG;
		return 0;
	}
	a->cpu_ns = wire.cpu_ns;
	if (!a->error && wire.error < 0 && wire.error > -4096)
		a->error = (int)wire.error;
	/* pw-files does not know it.  -ENOTSUP: a Java VM may not have started yet. */
	if (a->error == -EPROTONOSUPPORT ||
	    (a->error == -ENOTSUP && uw_module_language(a->request.module) != UW_LANGUAGE_NONE))
		a->vm_error = a->error;
	r = uw_module_unpack(a->request.module, &from, take_fd(file));
	if (r >= 0)
		r = unpack_spans(a, &from, wire.n_spans);
	return r < 0 ? trace(r) : trace(unpack_lines(a, &from, wire.n_lines));
}

static int unpack_threads(struct load_answer *a, struct cursor *from)
{
	size_t len;
	const void *p = cursor_block(from, &len);

	if (!p || len % sizeof(*a->threads) || len > THREADS_BYTES_MAX)
		return fail(-EBADMSG);
	a->threads = malloc(len + 1);
	if (!a->threads)
		return fail(-ENOMEM);
	memcpy(a->threads, p, len);
	a->n_threads = len / sizeof(*a->threads);
	for (size_t i = 0; i < a->n_threads; i++)
		a->threads[i].comm[sizeof(a->threads[i].comm) - 1] = 0;
	return 0;
}

static int unpack_stack(struct load_answer *a, struct cursor *from)
{
	size_t len;
	const void *p = cursor_block(from, &len);

	if (!p || len > LOAD_STACK_MAX)
		return fail(-EBADMSG);
	a->stack = len ? malloc(len) : NULL;
	if (len && !a->stack)
		return fail(-ENOMEM);
	if (len)
		memcpy(a->stack, p, len);
	a->stack_len = len;
	return 0;
}

static int unpack_fields(struct load_answer *a, const struct wire_answer *wire, struct cursor *from)
{
	int r;

	a->error = (int)wire->error;
	a->status = wire->status;
	a->status.comm[sizeof(a->status.comm) - 1] = 0;
	a->mapping = wire->mapping;
	a->mapping.path = NULL;
	a->mapping.id.build_id.len = (uint8_t)min_u64(a->mapping.id.build_id.len, UW_BUILD_ID_MAX);
	a->proved = wire->proved;
	a->from_memory = wire->from_memory;
	a->memory_denied = wire->denied;
	a->has_file = wire->has_file;
	a->file = wire->file;
	a->vm_error = (int)wire->vm_error;
	a->wait = wire->wait;
	a->wait_from = wire->wait_from;
	a->wait_until = wire->wait_until;
	r = unpack_text(from, &a->maps, &a->maps_len);
	if (r >= 0)
		r = unpack_text(from, &a->cmdline, &a->cmdline_len);
	if (r >= 0)
		r = unpack_text(from, &a->cgroup, NULL);
	if (r >= 0)
		r = unpack_threads(a, from);
	if (r >= 0)
		r = unpack_text(from, &a->mapping.path, NULL);
	if (r >= 0)
		r = unpack_stack(a, from);
	if (r >= 0 && a->request.kind == LOAD_QUERY && !a->error && !a->mapping.path) {
		a->mapping.path = strdup("");
		r = a->mapping.path ? 0 : fail(-ENOMEM);
	}
	return trace(r);
}

int load_answer_unpack(struct load_answer *a, const struct load_reply *reply,
		       struct memory_guard *guard)
{
	struct cursor from = cursor_of(reply->data, reply->len);
	_cleanup_(fd_closep) int fd = reply->fd;
	struct wire_answer wire;
	const void *head = cursor_bytes(&from, sizeof(wire));
	int r;

	if (!head)
		return fail(-EBADMSG);
	memcpy(&wire, head, sizeof(wire));
	r = unpack_fields(a, &wire, &from);
	if (r >= 0 && wire.has_memory && fd >= 0)
		r = procfs_memory_of_fd(take_fd(fd), guard, &a->memory);
	if (r >= 0 && wire.is_parsed)
		r = a->request.module
			    ? unpack_parsed(a, reply->parsed, reply->parsed_len, take_fd(fd))
			    : fail(-EBADMSG);
	return trace(r);
}
