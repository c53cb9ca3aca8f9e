/* procmem.c - /proc/PID/mem as a memory reader.
 *
 * pread on an open descriptor takes about 1.1 us, less than process_vm_readv, and needs no right at
 * read time. The descriptor belongs to the address space that was there when it was opened: after
 * exec or exit it reads 0 bytes, without an error, and never another process's memory. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "proc/memory-guard.h"
#include "proc/procfs.h"

struct procmem {
	struct uw_memory memory;
	int fd;
	struct memory_guard *guard;
	bool refused; /* the reader's: it did not answer once */
};

ssize_t memory_read_fd(int fd, uint64_t address, void *to, size_t len)
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

static ssize_t procmem_read(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	struct procmem *m = container_of(memory, struct procmem, memory);
	ssize_t n;

	if (m->refused)
		return -ETIMEDOUT;
	if (!m->guard)
		return memory_read_fd(m->fd, address, to, len);
	n = memory_guard_read(m->guard, m->fd, address, to, len);
	m->refused = n == -ETIMEDOUT;
	return n;
}

int procfs_memory_of_fd(int fd, struct memory_guard *guard, struct uw_memory **ret_memory)
{
	struct procmem *m = calloc(1, sizeof(*m));

	if (!m) {
		(void)fd_close(fd);
		return fail(-ENOMEM);
	}
	m->memory.read = procmem_read;
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
