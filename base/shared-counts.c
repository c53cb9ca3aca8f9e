/* shared-counts.c - see shared-counts.h.
 *
 *	u64 magic | SHARED_COUNTS slots: { u32 len, u32 origin, u64 count, char name[] }
 *
 * A slot is in use while len is not 0: the name is written before len, and len is cleared before the name changes.  A reader
 * that still compares the name before has at worst one addition too many, in a slot that is just given away. */
#include "base/shared-counts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

#define MAGIC 0x73746e7573657764ull
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

struct slot {
	_Atomic uint32_t len;
	_Atomic uint32_t origin;
	_Atomic uint64_t count;
	char name[SHARED_COUNT_NAME];
};

struct memory {
	_Atomic uint64_t magic;
	struct slot slots[SHARED_COUNTS];
};

struct shared_counts {
	struct memory *memory;
	int fd;			      /* the owner's */
	uint64_t from[SHARED_COUNTS]; /* of count, at shared_counts_want() */
};

/* Consumes @fd. */
static int map(int fd, struct shared_counts **ret_counts)
{
	struct shared_counts *c = calloc(1, sizeof(*c));
	void *memory = MAP_FAILED;
	int r = -ENOMEM;

	if (c) {
		memory = mmap(NULL, sizeof(struct memory), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			      0);
		r = memory == MAP_FAILED ? -errno : 0;
	}
	if (r < 0) {
		free(c);
		(void)fd_close(fd);
		return fail(r);
	}
	(void)madvise(memory, sizeof(struct memory), MADV_DONTFORK); /* helpers do without */
	c->memory = memory;
	c->fd = fd;
	*ret_counts = c;
	return 0;
}

int shared_counts_new(struct shared_counts **ret_counts)
{
	_cleanup_(fd_closep) int fd = memfd_create("counts", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r;

	if (fd < 0 || ftruncate(fd, sizeof(struct memory)) < 0 || fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		return fail(-errno);
	r = map(take_fd(fd), ret_counts);
	if (r < 0)
		return trace(r);
	atomic_store(&(*ret_counts)->memory->magic, MAGIC);
	return 0;
}

struct shared_counts *shared_counts_free(struct shared_counts *c)
{
	if (!c)
		return NULL;
	(void)munmap(c->memory, sizeof(*c->memory));
	(void)fd_close(c->fd);
	free(c);
	return NULL;
}

int shared_counts_fd(const struct shared_counts *c)
{
	return c->fd;
}

int shared_counts_want(struct shared_counts *c, const char *name, size_t *ret_slot)
{
	size_t len = strlen(name), i = 0;

	if (!len || len >= SHARED_COUNT_NAME)
		return fail(-EINVAL);
	while (i < SHARED_COUNTS && atomic_load(&c->memory->slots[i].len))
		i++;
	if (i == SHARED_COUNTS)
		return fail(-ENOSPC);
	c->from[i] = atomic_load(&c->memory->slots[i].count);
	atomic_store(&c->memory->slots[i].origin, 0);
	memcpy(c->memory->slots[i].name, name, len);
	atomic_store(&c->memory->slots[i].len, (uint32_t)len);
	*ret_slot = i;
	return 0;
}

void shared_counts_forget(struct shared_counts *c, size_t slot)
{
	atomic_store(&c->memory->slots[slot].len, 0);
}

uint64_t shared_counts_read(const struct shared_counts *c, size_t slot, uint32_t *ret_origin)
{
	const struct slot *s = &c->memory->slots[slot];
	uint64_t count = atomic_load(&s->count);

	*ret_origin = atomic_load(&s->origin);
	return count - c->from[slot];
}

int shared_counts_take(int fd, struct shared_counts **ret_counts)
{
	struct shared_counts *c;
	struct stat st;
	int seals, r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return fail(-EINVAL);
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & SEALS) != SEALS || st.st_size != sizeof(struct memory)) {
		(void)fd_close(fd);
		return fail(-EINVAL);
	}
	r = map(fd, &c);
	if (r < 0)
		return trace(r);
	if (atomic_load(&c->memory->magic) != MAGIC) {
		(void)shared_counts_free(c);
		return fail(-EINVAL);
	}
	c->fd = fd_close(c->fd); /* the memory is enough */
	*ret_counts = c;
	return 0;
}

void shared_counts_add(struct shared_counts *c, const char *name, size_t len, uint32_t origin)
{
	if (!len || len >= SHARED_COUNT_NAME)
		return;
	for (size_t i = 0; i < SHARED_COUNTS; i++) {
		struct slot *s = &c->memory->slots[i];

		if (atomic_load(&s->len) != len || memcmp(s->name, name, len) != 0)
			continue;
		atomic_store(&s->origin, origin);
		atomic_fetch_add(&s->count, 1);
	}
}
