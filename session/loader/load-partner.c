/* load-partner.c - pw-files' end of the pair: see load-parse.h.
 *
 * pw-files answers questions only within what its request is about: the debug files of that module
 * (uw_source.open says no to all others), the memory of that image. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "proc/open-file.h"
#include "session/loader/load-parse-private.h"

static bool is_elf(int fd)
{
	char magic[4];

	return pread(fd, magic, sizeof(magic), 0) == sizeof(magic) &&
	       !memcmp(magic, "\177ELF", sizeof(magic));
}

/* The first of @paths (each with its NUL) that may be opened and is an ELF image: whatever led to it, no other file is handed
 * on (but a perf map, which is not asked for). */
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
	return helper_partner_tell(call, &result, sizeof(result), fd);
}

static int reply_read(struct helper_call *call, struct uw_source *source, uint64_t address,
		      uint64_t len)
{
	struct wire_reply reply;
	struct uw_memory *memory = source->memory;

	reply.result = -EACCES;
	if (memory && address >= source->start && address < source->end) {
		len = min_u64(min_u64(len, PARSE_READ_MAX), source->end - address);
		reply.result = memory->read(memory, address, reply.bytes, len);
	}
	return helper_partner_tell(
		call, &reply, sizeof(reply.result) + (size_t)(reply.result > 0 ? reply.result : 0),
		-1);
}

/* @len bytes and a NUL. */
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
	case TELL_BUILD_ID:
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
	wire.vaddr = w->vaddr;
	wire.serial = serial;
	if (w->source) {
		wire.has_file = w->source->fd >= 0;
		wire.has_memory = w->source->memory != NULL;
		wire.start = w->source->start;
		wire.end = w->source->end;
		wire.later = w->source->later;
	}
	wire.has_module = w->module != NULL;
	if (w->module) {
		wire.module_kind = uw_module_kind(w->module);
		wire.wants_separate = uw_module_wants_separate(w->module);
		wire.build_id = *uw_module_build_id(w->module);
	}
	packer_put(to, &wire, sizeof(wire));
	if (w->module)
		packer_put(to, uw_module_path(w->module), strlen(uw_module_path(w->module)) + 1);
}

/* One request, with its questions. */
static int hand_on(struct load_partner *partner, uint32_t serial, struct load_parse *w, int fd)
{
	struct helper_call *call = partner->call;
	uint8_t bytes[PARSE_ROOM + 1];
	struct packer p = {.data = bytes, .room = PARSE_ROOM};
	size_t len;
	int r;

	pack_work(w, serial, &p);
	if (p.bad)
		return fail(-EMSGSIZE);
	r = helper_partner_ask(call, bytes, p.len, fd);
	while (r >= 0) {
		r = helper_partner_hear(call, bytes, PARSE_ROOM, &len);
		if (r != HELPER_ASKED)
			break;
		bytes[len] = 0;
		r = reply_to(call, w, bytes, len);
		call->partner_lost |= r < 0; /* no question of ours: it is not what it was */
	}
	return trace(r);
}

struct handed {
	uint64_t device, inode;
};

void load_parse_forget(struct load_partner *partner, uint32_t serial)
{
	struct handed *handed = table_pointer(&partner->handed, serial);
	struct load_parse close = {.kind = LOAD_PARSE_FORGET};
	_Atomic uint64_t *mark = partner->call->mark;
	uint64_t before = atomic_load(mark);
	size_t answered = partner->call->partner_len;

	if (!handed)
		return;
	atomic_store(mark, LOAD_MARK_CLOSING | handed->device);
	(void)hand_on(partner, serial, &close, -1);
	partner->call->partner_len = answered; /* as it stands there */
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

/* *ret_fd: what has to go along, -1: it has it. */
static int hand_over(struct load_partner *partner, uint32_t serial, int fd, int *ret_fd)
{
	const struct handed now = handed_of(fd);
	struct handed *handed = table_pointer(&partner->handed, serial);
	int r;

	*ret_fd = -1;
	if (handed && fd >= 0 && handed->device == now.device && handed->inode == now.inode)
		return 0;
	load_parse_forget(partner, serial);
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

int load_parse_elsewhere(struct load_partner *partner, uint32_t serial, struct load_parse *w)
{
	int fd = w->source ? w->source->fd : -1, new_fd = -1, r = 0;

	w->error = 0;
	if (fd >= 0 && !(w->module && uw_module_kind(w->module) == UW_MODULE_JIT) && !is_elf(fd))
		return w->error = fail(-ENOEXEC);
	if (w->source)
		r = hand_over(partner, serial, fd, &new_fd);
	if (r >= 0)
		r = hand_on(partner, serial, w, new_fd);
	if (r >= 0 && w->kind == LOAD_PARSE_BUILD_ID && !w->build_id.len)
		r = fail(-ENODATA);
	w->error = r;
	return r;
}
