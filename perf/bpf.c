/* bpf.c - see bpf.h: the program, tables, rings. */
#include "perf/bpf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef HAVE_BPF
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#endif

#include "base/error.h"

/* ---- libbpf: loads programs and makes maps ---- */

#ifdef HAVE_BPF
/* The compiled at-sample.bpf.c. */
__asm__("	.section .rodata\n"
	"	.balign 8\n"
	"bpf_object: .incbin \"" BPF_OBJECT "\"\n"
	"bpf_object_end: .byte 0\n"
	"	.previous\n");
extern const char bpf_object[], bpf_object_end[];

/* Returns the descriptor of a new map (BPF_MAP_TYPE_*), or -errno. */
static int bpf_map_new(uint32_t type, uint32_t key, uint32_t value, uint32_t entries,
		       uint32_t flags)
{
	const struct bpf_map_create_opts options = {.sz = sizeof(options), .map_flags = flags};

	/* Below 0 it is an answer for the probe, too: not yet a failure. */
	return bpf_map_create(type, "perfwind", key, value, entries, &options);
}

static int set_maps(struct bpf_object *object, const struct bpf_map_of *maps, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(object, maps[i].name);
		int r = map ? 0 : -ENOENT;

		if (r >= 0 && maps[i].fd >= 0)
			r = bpf_map__reuse_fd(map, maps[i].fd);
		if (r < 0)
			return fail(r);
	}
	return 0;
}

static int set_settings(struct bpf_object *object, const void *settings, size_t size)
{
	struct bpf_map *constants = bpf_object__find_map_by_name(object, ".rodata");

	return constants ? trace(bpf_map__set_initial_value(constants, settings, size))
			 : fail(-ENOENT);
}

/* One program of the object. */
static int choose(struct bpf_object *object, const char *name, struct bpf_program **ret_program)
{
	struct bpf_program *each;

	*ret_program = NULL;
	bpf_object__for_each_program(each, object)
	{
		bool wanted = strcmp(bpf_program__name(each), name) == 0;

		if (wanted)
			*ret_program = each;
		(void)bpf_program__set_autoload(each, wanted);
	}
	return *ret_program ? 0 : fail(-ENOENT);
}

static int no_output(enum libbpf_print_level level, const char *format, va_list args)
{
	(void)level, (void)format, (void)args;
	return 0;
}

static int load(const char *name, const void *settings, size_t settings_size,
		const struct bpf_map_of *maps, size_t n_maps, char *log, size_t log_size)
{
	const struct bpf_object_open_opts options = {
		.sz = sizeof(options),
		.object_name = "perfwind",
		.kernel_log_buf = log,
		.kernel_log_size = log_size,
	};
	struct bpf_object *object;
	struct bpf_program *program;
	int r;

	(void)libbpf_set_print(no_output);
	object = bpf_object__open_mem(bpf_object, (uintptr_t)bpf_object_end - (uintptr_t)bpf_object,
				      &options);
	if (!object)
		return -errno;
	r = choose(object, name, &program);
	if (r >= 0)
		r = set_maps(object, maps, n_maps);
	if (r >= 0)
		r = set_settings(object, settings, settings_size);
	if (r >= 0)
		r = bpf_object__load(object);
	if (r >= 0)
		r = fcntl(bpf_program__fd(program), F_DUPFD_CLOEXEC, 0);
	bpf_object__close(object);
	return r;
}

static int load_insns(const struct bpf_insn *insns, size_t n)
{
	int fd =
		bpf_prog_load(BPF_PROG_TYPE_PERF_EVENT, "perfwind", "Dual BSD/GPL", insns, n, NULL);

	return fd < 0 ? -errno : fd;
}

/* One that does nothing. */
static int load_empty(void)
{
	const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1},
		{.code = BPF_JMP | BPF_EXIT},
	};

	return load_insns(insns, ARRAY_SIZE(insns));
}

/* bpf_tail_call(context, array, 0), which returns only where the place is empty; 1: the sample is kept. */
int bpf_jump_new(int array)
{
	const struct bpf_insn insns[] = {
		{.code = BPF_LD | BPF_DW | BPF_IMM,
		 .dst_reg = BPF_REG_2,
		 .src_reg = BPF_PSEUDO_MAP_FD,
		 .imm = array},
		{.code = 0},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_3, .imm = 0},
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_tail_call},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1},
		{.code = BPF_JMP | BPF_EXIT},
	};

	return load_insns(insns, ARRAY_SIZE(insns));
}

int bpf_array_put(int array, int program)
{
	const uint32_t place = 0;
	const int value = program;

	return bpf_map_update_elem(array, &place, &value, BPF_ANY) < 0 ? -errno : 0;
}
#else
static int bpf_map_new(uint32_t type, uint32_t key, uint32_t value, uint32_t entries,
		       uint32_t flags)
{
	(void)type, (void)key, (void)value, (void)entries, (void)flags;
	return -ENOPKG;
}

static int load(const char *name, const void *settings, size_t settings_size,
		const struct bpf_map_of *maps, size_t n_maps, char *log, size_t log_size)
{
	(void)name, (void)settings, (void)settings_size, (void)maps, (void)n_maps;
	(void)log, (void)log_size;
	return -ENOPKG;
}

static int load_empty(void)
{
	return -ENOPKG;
}

int bpf_jump_new(int array)
{
	(void)array;
	return -ENOPKG;
}

int bpf_array_put(int array, int program)
{
	(void)array, (void)program;
	return -ENOPKG;
}
#endif

int bpf_array_new(void)
{
	return bpf_map_new(BPF_MAP_TYPE_PROG_ARRAY, sizeof(uint32_t), sizeof(uint32_t), 1, 0);
}

/* ---- the program ---- */

static const char *refusal(int r)
{
	switch (-r) {
	case EPERM:
	case EACCES:
		return "the kernel permits BPF programs to root, or with CAP_BPF and CAP_PERFMON";
	case ENOPKG:
		return "perfwind was built without libbpf or a compiler for BPF (clang)";
	case ENOSYS:
		return "this kernel or container has no bpf()";
	default:
		return strerror(-r);
	}
}

/* The verifier's reason: the last line but the one that counts instructions. */
static void last_reason(char *log, char *why, size_t size)
{
	char *line = log, *reason = log;

	for (char *next; *line; line = next) {
		next = strchr(line, '\n');
		if (!next)
			break;
		*next++ = 0;
		if (*line && strncmp(line, "processed ", 10))
			reason = line;
	}
	(void)snprintf(why, size, "the kernel's verifier refuses it: %s", reason);
}

int bpf_program_new(const char *program, const void *settings, size_t settings_size,
		    const struct bpf_map_of *maps, size_t n_maps, char *why, size_t why_size)
{
	enum { LOG_BYTES = 1 << 20 };
	/* libbpf asks for the verifier's reasons only where it refused. */
	char *log = calloc(1, LOG_BYTES);
	int r = log ? load(program, settings, settings_size, maps, n_maps, log, LOG_BYTES)
		    : -ENOMEM;

	if (r < 0) {
		(void)snprintf(why, why_size, "%s", refusal(r));
		if (log && *log && (r == -EINVAL || r == -EACCES))
			last_reason(log, why, why_size);
	}
	free(log);
	return r < 0 ? fail(r) : r;
}

int bpf_try(void)
{
	_cleanup_(fd_closep) int ring = -1, program = load_empty();

	if (program < 0)
		return program;
	ring = bpf_ring_map((size_t)sysconf(_SC_PAGESIZE));
	return ring < 0 ? ring : 0;
}

/* ---- tables ---- */

int bpf_memory_map(size_t bytes)
{
	return bpf_map_new(BPF_MAP_TYPE_ARRAY, sizeof(uint32_t), (uint32_t)bytes, 1,
			   BPF_F_MMAPABLE);
}

int bpf_memory_open(int map, size_t bytes, struct bpf_memory *ret_memory)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), mapped = (bytes + page - 1) / page * page;
	_cleanup_(fd_closep) int fd = map;
	void *at = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		return fail(-errno);
	(void)madvise(at, mapped, MADV_DONTFORK); /* no helper process has it */
	*ret_memory = (struct bpf_memory){.fd = take_fd(fd), .at = at, .mapped = mapped};
	return 0;
}

void bpf_memory_deinit(struct bpf_memory *m)
{
	if (m->at)
		(void)munmap(m->at, m->mapped);
	m->at = NULL;
	m->fd = fd_close(m->fd);
}

/* ---- rings: BPF_MAP_TYPE_RINGBUF (kernel/bpf/ringbuf.c) ----
 *
 *   map:   [consumer page, ours][producer page][data][data again]    a record never wraps
 *   record: u32 length and two flags, u32 the kernel's, then the bytes, padded to 8
 *
 *   data:  ....[ back ][ out ][ busy ][ out ]  unread  ......
 *              ^ consumer                     ^ read    ^ producer
 *
 * As in ring.c the consumer's position moves over all records that came back without a gap.  Lengths
 * come from the kernel; they are checked against the producer's position all the same. */

/* uapi linux/bpf.h */
#define RING_BUSY (1u << 31)
#define RING_DISCARD (1u << 30)
enum { RING_HEADER = 8 };

enum out_state { OUT_BUSY, OUT_GIVEN, OUT_BACK };

struct ring_out {
	uint64_t position;
	uint32_t len; /* of the bytes */
	enum out_state state;
};

struct bpf_ring {
	int fd;
	_Atomic uint64_t *consumer;
	const _Atomic uint64_t *producer;
	const uint8_t *data;
	size_t size, page;
	uint64_t read;	/* records before it are in out[], or were put */
	uint64_t until; /* the producer's position of this scan */
	struct ring_out *out;
	size_t out_room, out_first, out_count; /* room: a power of two */
	size_t n_busy;
};

static struct ring_out *out_at(const struct bpf_ring *r, size_t index)
{
	return &r->out[(r->out_first + index) & (r->out_room - 1)];
}

struct bpf_ring *bpf_ring_free(struct bpf_ring *r)
{
	if (!r)
		return NULL;
	if (r->page) {
		if (r->consumer)
			(void)munmap((void *)r->consumer, r->page);
		if (r->producer)
			(void)munmap((void *)(uintptr_t)r->producer, r->page + 2 * r->size);
	}
	(void)fd_close(r->fd);
	free(r->out);
	free(r);
	return NULL;
}

static struct bpf_ring *ring_alloc(size_t size)
{
	struct bpf_ring *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->fd = -1;
	r->size = size;
	r->out_room = 64;
	r->out = malloc(r->out_room * sizeof(*r->out));
	return r->out ? r : bpf_ring_free(r);
}

int bpf_ring_of(_Atomic uint64_t *consumer, const _Atomic uint64_t *producer, const uint8_t *data,
		size_t size, struct bpf_ring **ret_ring)
{
	struct bpf_ring *r = ring_alloc(size);

	if (!r)
		return fail(-ENOMEM);
	r->consumer = consumer;
	r->producer = producer;
	r->data = data;
	r->read = r->until = atomic_load(consumer);
	*ret_ring = r;
	return 0;
}

static int map_ring(struct bpf_ring *r)
{
	void *ours, *theirs;

	ours = mmap(NULL, r->page, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
	if (ours == MAP_FAILED)
		return fail(-errno);
	r->consumer = ours;
	theirs = mmap(NULL, r->page + 2 * r->size, PROT_READ, MAP_SHARED, r->fd, (off_t)r->page);
	if (theirs == MAP_FAILED)
		return fail(-errno);
	r->producer = theirs;
	r->data = (const uint8_t *)theirs + r->page;
	/* no helper process has it */
	(void)madvise(ours, r->page, MADV_DONTFORK);
	(void)madvise(theirs, r->page + 2 * r->size, MADV_DONTFORK);
	return 0;
}

int bpf_ring_map(size_t bytes)
{
	return bpf_map_new(BPF_MAP_TYPE_RINGBUF, 0, 0, (uint32_t)bytes, 0);
}

int bpf_ring_open(int fd, size_t bytes, struct bpf_ring **ret_ring)
{
	struct bpf_ring *ring = ring_alloc(bytes);
	int r;

	if (!ring) {
		(void)fd_close(fd);
		return fail(-ENOMEM);
	}
	ring->page = (size_t)sysconf(_SC_PAGESIZE);
	ring->fd = fd;
	r = map_ring(ring);
	if (r < 0) {
		(void)bpf_ring_free(ring);
		return fail(r);
	}
	*ret_ring = ring;
	return 0;
}

int bpf_ring_fd(const struct bpf_ring *r)
{
	return r->fd;
}

static uint32_t header_at(const struct bpf_ring *r, uint64_t position)
{
	const void *at = r->data + (position & (r->size - 1));

	/* acquire: the bytes were written before the kernel took the busy flag away */
	return atomic_load_explicit((const _Atomic uint32_t *)at, memory_order_acquire);
}

static uint64_t record_end(const struct ring_out *out)
{
	return out->position + RING_HEADER + ((out->len + 7ull) & ~7ull);
}

static int out_grow(struct bpf_ring *r)
{
	struct ring_out *more = malloc(2 * r->out_room * sizeof(*more));

	if (!more)
		return fail(-ENOMEM);
	for (size_t i = 0; i < r->out_count; i++)
		more[i] = *out_at(r, i);
	free(r->out);
	r->out = more;
	r->out_room *= 2;
	r->out_first = 0;
	return 0;
}

/* Moves the consumer's position over what came back. */
static void release(struct bpf_ring *r)
{
	uint64_t position = 0;

	if (!r->out_count || out_at(r, 0)->state != OUT_BACK)
		return;
	while (r->out_count && out_at(r, 0)->state == OUT_BACK) {
		position = record_end(out_at(r, 0));
		r->out_first = (r->out_first + 1) & (r->out_room - 1);
		r->out_count--;
	}
	atomic_store_explicit(r->consumer, position, memory_order_release);
}

/* A record that is not being written any more.  true: *ret is it; false: it was thrown away. */
static bool give(struct bpf_ring *r, struct ring_out *out, uint32_t header,
		 struct bpf_ring_record *ret)
{
	if (header & RING_DISCARD) {
		out->state = OUT_BACK;
		return false;
	}
	out->state = OUT_GIVEN;
	*ret = (struct bpf_ring_record){
		.data = r->data + (out->position & (r->size - 1)) + RING_HEADER,
		.len = out->len,
		.position = out->position,
	};
	return true;
}

/* The records that were passed over. */
static bool next_busy(struct bpf_ring *r, struct bpf_ring_record *ret)
{
	for (size_t i = 0; r->n_busy && i < r->out_count; i++) {
		struct ring_out *out = out_at(r, i);
		uint32_t header = out->state == OUT_BUSY ? header_at(r, out->position) : RING_BUSY;

		if (header & RING_BUSY)
			continue;
		r->n_busy--;
		if (give(r, out, header, ret))
			return true;
	}
	return false;
}

size_t bpf_ring_room(const struct bpf_ring *r)
{
	uint64_t used = atomic_load_explicit(r->producer, memory_order_relaxed) -
			atomic_load_explicit(r->consumer, memory_order_relaxed);

	return used < r->size ? r->size - (size_t)used : 0;
}

int bpf_ring_next(struct bpf_ring *r, struct bpf_ring_record *ret)
{
	if (r->read == r->until) {
		/* The position first: what is finished before it is seen to be finished. */
		r->until = atomic_load_explicit(r->producer, memory_order_acquire);
		if (next_busy(r, ret))
			return 0;
	}
	while (r->read != r->until) {
		uint64_t left = r->until - r->read;
		struct ring_out *out;
		uint32_t header;

		if (left < RING_HEADER || left > r->size || r->read % 8)
			return fail(-EBADMSG);
		if (r->out_count == r->out_room && out_grow(r) < 0)
			return -ENOMEM;
		header = header_at(r, r->read);
		out = out_at(r, r->out_count);
		*out = (struct ring_out){.position = r->read,
					 .len = header & ~(RING_BUSY | RING_DISCARD)};
		if (record_end(out) - r->read > left)
			return fail(-EBADMSG);
		r->out_count++;
		r->read = record_end(out);
		if (header & RING_BUSY)
			r->n_busy++;
		else if (give(r, out, header, ret))
			return 0;
	}
	release(r);
	return BPF_RING_EMPTY;
}

void bpf_ring_put(struct bpf_ring *r, uint64_t position)
{
	size_t low = 0, high = r->out_count;

	while (high - low > 1) {
		size_t mid = low + (high - low) / 2;

		if (out_at(r, mid)->position <= position)
			low = mid;
		else
			high = mid;
	}
	if (high == 0 || out_at(r, low)->position != position)
		return; /* not given: our own mistake, and harmless */
	out_at(r, low)->state = OUT_BACK;
	release(r);
}
