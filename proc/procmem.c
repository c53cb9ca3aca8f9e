/* procmem.c - see procmem.h.
 *
 * pread on an open descriptor takes about 1.1 us, less than process_vm_readv, and needs no privilege
 * at read time.  The descriptor belongs to the address space that was there when it was opened:
 * after exec or exit it reads 0 bytes, without an error, and never another process's memory.
 *
 * A read through the guard takes about ten microseconds more.  It is for the few stacks that go on
 * beyond their copy, and for code bytes, which are read once per address. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/helper.h"
#include "proc/procfs.h"
#include "proc/procmem.h"

/* As many bytes as can be read of [@address, @address + @len). */
static ssize_t read_memory(int fd, uint64_t address, void *to, size_t len)
{
	size_t done = 0;

	while (done < len) {
		uint64_t at;
		ssize_t n;

		/* offsets are signed: the upper half of the addresses is the kernel's anyway */
		if (__builtin_add_overflow(address, done, &at) || at > INT64_MAX)
			break;
		n = pread(fd, (char *)to + done, len - done, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && !done && errno != EIO &&
		    errno != EFAULT) /* EIO: nothing is mapped there */
			return -errno;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

/* ---- the guard ---- */

enum {
	READ_MAX = 1 << 20,
	WAITS_MAX = 25, /* for a helper that only waits for a CPU, of a deadline each */
	CPU_READS = 64, /* the helper's CPU time is looked at once in so many reads */
	AGAIN_MS = 100, /* after a helper that could not be made */
	PAUSE_MS = 500, /* after a read that timed out; twice that each further time, */
	PAUSES_MAX = 8, /* ... so often: 64 s */
};

struct memory_guard {
	struct helper *helper;
	uint64_t deadline_ns, not_before, past_cpu_ns, n_reads, read_at;
	_Atomic uint64_t refused, replaced, cpu_ns;
};

/* A request is one range, or several ranges (read_ranges()). */
struct read_answer {
	int64_t result; /* bytes that follow, or < 0 */
	uint64_t at;	/* CLOCK_MONOTONIC: when they had been read */
};

/* The ranges' bytes, one behind the other; 0 for what cannot be read.  -EINVAL: they are more than UW_RANGES_BYTES. */
static ssize_t read_ranges(int fd, const struct uw_range *ranges, size_t n, uint8_t *to)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		size_t len = ranges[i].len;
		ssize_t got;

		if (len > UW_RANGES_BYTES - at)
			return -EINVAL;
		got = read_memory(fd, ranges[i].address, to + at, len);
		got = got < 0 ? 0 : got;
		memset(to + at + got, 0, len - (size_t)got);
		at += len;
	}
	return (ssize_t)at;
}

static void serve(void *kept, struct helper_call *call)
{
	struct read_answer answer;
	struct uw_range ranges[UW_RANGES_MAX];
	size_t n = call->request_len / sizeof(*ranges);
	uint8_t *to = call->answer + sizeof(answer);

	(void)kept;
	if (!n || n > UW_RANGES_MAX || call->request_len % sizeof(*ranges) ||
	    call->room < sizeof(answer) + READ_MAX)
		return;
	memcpy(ranges, call->request, n * sizeof(*ranges));
	answer.result = n > 1 ? read_ranges(call->fd, ranges, n, to)
			      : read_memory(call->fd, ranges[0].address, to,
					    min_u64(ranges[0].len, READ_MAX));
	answer.at = clock_ns(CLOCK_MONOTONIC);
	memcpy(call->answer, &answer, sizeof(answer));
	call->answer_len = sizeof(answer) + (size_t)(answer.result > 0 ? answer.result : 0);
}

static const struct helper_role memory_role = {
	.name = "pw-memory",
	.room = sizeof(struct read_answer) + READ_MAX,
	.calls = CHILD_CALLS_GIVEN,
	.from_spare = true,
	.serve = serve,
};

int memory_guard_new(uint64_t deadline_ns, struct memory_guard **ret_guard)
{
	struct memory_guard *g = calloc(1, sizeof(*g));

	if (!g)
		return fail(-ENOMEM);
	g->deadline_ns = deadline_ns;
	*ret_guard = g;
	return 0;
}

static void drop_helper(struct memory_guard *g)
{
	if (g->helper)
		g->past_cpu_ns += helper_cpu_ns(g->helper);
	g->helper = helper_free(g->helper);
}

struct memory_guard *memory_guard_free(struct memory_guard *g)
{
	if (!g)
		return NULL;
	drop_helper(g);
	free(g);
	return NULL;
}

static int need_helper(struct memory_guard *g)
{
	uint64_t now;
	int r;

	if (g->helper)
		return 0;
	now = clock_ns(CLOCK_MONOTONIC);
	if (now < g->not_before)
		return -EAGAIN;
	r = helper_new(&memory_role, NULL, &g->helper);
	if (r < 0)
		g->not_before = now + AGAIN_MS * NSEC_PER_MSEC;
	return r < 0 ? trace(r) : 0;
}

/* Asks and waits.  -EPIPE: the helper is gone; -ETIMEDOUT: it sleeps. */
static ssize_t read_once(struct memory_guard *g, int fd, const struct uw_range *ranges, size_t n,
			 void *to, size_t room)
{
	const uint8_t *data = NULL;
	struct read_answer answer;
	size_t len = 0;
	int unused = -1, r;

	r = helper_ask(g->helper, ranges, n * sizeof(*ranges), fd);
	if (r < 0)
		return trace(r);
	for (int i = 0; i < WAITS_MAX; i++) {
		r = helper_wait(g->helper, g->deadline_ns, &data, &len, &unused);
		if (r != HELPER_WAITING || !helper_runnable(g->helper))
			break;
	}
	if (r == HELPER_WAITING)
		return fail(-ETIMEDOUT);
	if (r < 0)
		return trace(r);
	(void)fd_close(unused);
	if (len < sizeof(answer))
		return fail(-EBADMSG);
	memcpy(&answer, data, sizeof(answer));
	g->read_at = answer.at;
	if (answer.result <= 0)
		return (ssize_t)answer.result;
	len = min_u64(min_u64((uint64_t)answer.result, room), len - sizeof(answer));
	memcpy(to, data + sizeof(answer), len);
	return (ssize_t)len;
}

/* At most @room bytes. */
static ssize_t ask(struct memory_guard *g, int fd, const struct uw_range *ranges, size_t n_ranges,
		   void *to, size_t room)
{
	ssize_t n = -EPIPE;

	for (int tries = 0; tries < 2 && n == -EPIPE; tries++) {
		int r = need_helper(g);

		if (r < 0)
			return r;
		n = read_once(g, fd, ranges, n_ranges, to, room);
		if (n == -ETIMEDOUT)
			atomic_fetch_add(&g->refused, 1);
		if (n == -EPIPE)
			atomic_fetch_add(&g->replaced, 1);
		if (n == -ETIMEDOUT || n == -EPIPE)
			drop_helper(g);
	}
	if (g->n_reads++ % CPU_READS == 0) /* two system calls */
		atomic_store(&g->cpu_ns,
			     g->past_cpu_ns + (g->helper ? helper_cpu_ns(g->helper) : 0));
	return n;
}

ssize_t memory_guard_read(struct memory_guard *g, int fd, uint64_t address, void *to, size_t len)
{
	const struct uw_range range = {address, min_u64(len, READ_MAX)};

	return ask(g, fd, &range, 1, to, range.len);
}

void memory_guard_count(const struct memory_guard *g, struct memory_guard_counts *ret_counts)
{
	*ret_counts = (struct memory_guard_counts){
		.refused = atomic_load(&g->refused),
		.replaced = atomic_load(&g->replaced),
		.cpu_ns = atomic_load(&g->cpu_ns),
	};
}

/* ---- the reader ---- */

struct procmem {
	struct uw_memory memory;
	int fd;
	struct memory_guard *guard;
	/* The reader's.  A process that maps memory all the time on a busy machine may be slow once; one that never answers
	 * costs the deadline and a helper each time. */
	uint64_t refused_until; /* CLOCK_MONOTONIC; 0: it has answered so far */
	unsigned refusals;
};

/* By the helper, if it was not refused a short time ago. */
static ssize_t ask_again(struct procmem *m, const struct uw_range *ranges, size_t n_ranges,
			 void *to, size_t room)
{
	uint64_t now, pause;
	ssize_t n;

	if (m->refused_until && clock_ns(CLOCK_MONOTONIC) < m->refused_until)
		return -ETIMEDOUT;
	m->memory.n_reads++;
	n = ask(m->guard, m->fd, ranges, n_ranges, to, room);
	if (n > 0)
		m->memory.read_at = m->guard->read_at;
	if (n != -ETIMEDOUT)
		return n;
	now = clock_ns(CLOCK_MONOTONIC);
	if (now - m->refused_until > PAUSE_MS * NSEC_PER_MSEC << PAUSES_MAX)
		m->refusals = 0; /* it has answered for long */
	pause = (PAUSE_MS * NSEC_PER_MSEC) << min_u64(m->refusals++, PAUSES_MAX - 1);
	m->refused_until = now + pause;
	return n;
}

/* uw_memory.later */
static bool is_put_off(struct uw_memory *memory)
{
	memory->wanted |= memory->later;
	return memory->later;
}

static ssize_t procmem_read(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	struct procmem *m = container_of(memory, struct procmem, memory);
	const struct uw_range range = {address, min_u64(len, READ_MAX)};

	if (is_put_off(memory))
		return -EAGAIN;
	return m->guard ? ask_again(m, &range, 1, to, range.len)
			: read_memory(m->fd, address, to, len);
}

static bool procmem_read_ranges(struct uw_memory *memory, const struct uw_range *ranges, size_t n,
				void *to)
{
	struct procmem *m = container_of(memory, struct procmem, memory);
	size_t len = 0;

	for (size_t i = 0; i < n && len <= UW_RANGES_BYTES; i++)
		len = ranges[i].len > UW_RANGES_BYTES ? SIZE_MAX : len + ranges[i].len;
	if (!n || n > UW_RANGES_MAX || len > UW_RANGES_BYTES || is_put_off(memory))
		return false;
	return (m->guard ? ask_again(m, ranges, n, to, len) : read_ranges(m->fd, ranges, n, to)) ==
	       (ssize_t)len;
}

int procfs_memory_of_fd(int fd, struct memory_guard *guard, struct uw_memory **ret_memory)
{
	struct procmem *m = calloc(1, sizeof(*m));

	if (!m) {
		(void)fd_close(fd);
		return fail(-ENOMEM);
	}
	m->memory.read = procmem_read;
	m->memory.read_ranges = procmem_read_ranges;
	m->fd = fd;
	m->guard = guard;
	*ret_memory = &m->memory;
	return 0;
}

int procfs_memory_new(const char *root, uint32_t pid, struct uw_memory **ret_memory)
{
	char path[PROCFS_PATH_MAX];
	int fd, r = procfs_path(path, root, pid, "mem");

	if (r < 0)
		return trace(r);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return fail(errno == ENOENT ? -ESRCH : -errno);
	return procfs_memory_of_fd(fd, NULL, ret_memory);
}

int procfs_memory_fd(const struct uw_memory *memory)
{
	return container_of(memory, struct procmem, memory)->fd;
}

struct uw_memory *procfs_memory_free(struct uw_memory *memory)
{
	struct procmem *m;

	if (!memory)
		return NULL;
	m = container_of(memory, struct procmem, memory);
	(void)fd_close(m->fd);
	free(m);
	return NULL;
}
