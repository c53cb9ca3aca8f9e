/* load-role.c - see load-role.h.
 *
 *   request   struct wire_request, path of the module
 *   answer    struct wire_answer; blocks: maps, command line, cgroup, threads, path of the mapping; and what
 *             pw-parse answers about the module (load-parse.c)
 *
 * Both ends are one program, so structs travel as they are, but no pointer in them is used. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/caps.h"
#include "base/error.h"
#include "proc/procmem.h"
#include "session/loader/load-parse.h"
#include "session/loader/load-role.h"

enum {
	COPY_MAX = 512 << 20, /* of a file, for an engine */
	THREADS_BYTES_MAX = 1 << 20,
};
#define ROOM (1ull << 29)

struct wire_request {
	struct load_request request;
	struct load_devices devices;
	uint64_t has_module, kind, serial, wants_separate;
	struct uw_build_id build_id;
};

struct wire_answer {
	int64_t error;
	struct procfs_status status;
	struct load_mapping mapping; /* but its path */
	uint64_t proved, from_memory, denied, is_parsed, has_memory;
};

/* ---- the asker: out ---- */

ssize_t load_request_pack(const struct load_request *request, const struct load_devices *devices,
			  uint8_t to[static HELPER_REQUEST_MAX])
{
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
	packer_put(&p, &wire, sizeof(wire));
	if (request->module)
		packer_put(&p, uw_module_path(request->module),
			   strlen(uw_module_path(request->module)) + 1);
	return p.bad ? fail(-EMSGSIZE) : (ssize_t)p.len;
}

/* ---- the helper process ---- */

struct kept {
	struct load_worker worker;
	struct load_partner partner;
	uint32_t stray; /* a module whose file pw-parse has, and no more is asked about; 0: none */
	bool is_parsed; /* pw-parse has an answer about the module */
};

/* Files of others, mappings and memory of others, the files behind mappings; root's two to read as another user would
 * (open-file.h) and its way back from a low priority. */
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
	struct kept *k = container_of(worker, struct kept, worker);

	k->is_parsed |=
		load_parse_elsewhere(&k->partner, worker->serial, work) >= 0 && work->module;
}

static void forget(struct load_worker *worker, uint32_t serial)
{
	load_parse_forget(&container_of(worker, struct kept, worker)->partner, serial);
}

static void *begin(const void *data)
{
	const struct load_role_arg *arg = data;
	struct kept *k = calloc(1, sizeof(*k));

	if (!k || !narrow() || load_worker_init(&k->worker, arg->root) < 0)
		return NULL;
	k->worker.copies = arg->copies;
	k->worker.parse = parse;
	k->worker.forget = forget;
	return k;
}

/* A copy that no file system can take back, of a module's file. */
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
	wire.is_parsed = is_parsed;
	wire.has_memory = a->memory != NULL;
	packer_put(p, &wire, sizeof(wire));
	packer_block(p, a->maps, a->maps ? a->maps_len : 0);
	packer_block(p, a->cmdline, a->cmdline ? a->cmdline_len : 0);
	packer_block(p, a->cgroup, a->cgroup ? strlen(a->cgroup) : 0);
	packer_block(p, a->threads, a->n_threads * sizeof(*a->threads));
	packer_block(p, a->mapping.path, a->mapping.path ? strlen(a->mapping.path) : 0);
}

static bool answer_call(struct kept *k, struct helper_call *call, struct load_answer *a)
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

/* It is a name and an id here; what is read of it is with pw-parse, by its number. */
static struct uw_module *module_of(const struct wire_request *wire, const char *path)
{
	struct uw_module *module;

	if (uw_module_new((enum uw_module_kind)wire->kind, path, &wire->build_id, &module) < 0)
		return NULL;
	if (wire->wants_separate)
		uw_module_want_separate(module);
	return module;
}

static void serve(void *kept, struct helper_call *call)
{
	struct kept *k = kept;
	const char *path = (const char *)call->request + sizeof(struct wire_request);
	struct load_answer a = {0};
	struct wire_request wire;

	if (call->request_len < sizeof(wire))
		return;
	memcpy(&wire, call->request, sizeof(wire));
	k->partner.call = call;
	k->is_parsed = false;
	k->worker.mark = call->mark;
	k->worker.devices = wire.devices;
	if (k->stray && wire.has_module) {
		load_parse_forget(&k->partner, k->stray);
		k->stray = 0;
	}
	k->worker.serial = (uint32_t)wire.serial;
	a.request = wire.request;
	a.request.process = NULL;
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
	/* a perf map, or of another build id than was looked for */
	if (a.request.module && load_worker_file(&k->worker) < 0)
		k->stray = k->worker.serial;
	(void)uw_module_unref(a.request.module);
	load_answer_deinit(&a);
}

const struct helper_role load_role = {
	.name = "pw-files",
	.room = ROOM,
	/* For narrow() to choose from: the kernel shows a process without SYS_PTRACE only to who has every
	 * right that it has. */
	.rights = CAPS_ALL,
	.calls = CHILD_CALLS_OPEN,
	.partner = &load_parse_role,
	.begin = begin,
	.serve = serve,
};

/* ---- the asker: in ---- */

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
	r = unpack_text(from, &a->maps, &a->maps_len);
	if (r >= 0)
		r = unpack_text(from, &a->cmdline, &a->cmdline_len);
	if (r >= 0)
		r = unpack_text(from, &a->cgroup, NULL);
	if (r >= 0)
		r = unpack_threads(a, from);
	if (r >= 0)
		r = unpack_text(from, &a->mapping.path, NULL);
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
			    ? load_parsed_unpack(a, reply->parsed, reply->parsed_len, take_fd(fd))
			    : fail(-EBADMSG);
	return trace(r);
}
