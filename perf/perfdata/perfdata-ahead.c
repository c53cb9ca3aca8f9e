/* perfdata-ahead.c - the next blocks of a file, read by a thread of their own.
 *
 * Copying a recording out of the page cache takes as long as unwinding it.  The thread fills blocks
 * that it is given, in order; the semaphores say which are whose, and nothing else is shared.  A
 * pipe is not read ahead: nobody could say when the thread would come back. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "base/error.h"
#include "perf/perfdata/perfdata-private.h"

enum { AHEAD = 4 };

struct perfdata_ahead {
	int fd;
	size_t piece;
	uint64_t left; /* the thread's: bytes to read */
	pthread_t thread;
	sem_t empty, full;
	_Atomic bool stop;
	struct slot {
		uint8_t *to;
		uint32_t block;
		ssize_t n; /* bytes, 0 at the end, or -errno */
	} slots[AHEAD];
	uint64_t n_given, n_taken;
	ssize_t last; /* the `n` taken last; from <= 0 on there is no thread to wait for */
};

static void wait_for(sem_t *sem)
{
	while (sem_wait(sem) < 0 && errno == EINTR)
		;
}

static void *read_blocks(void *arg)
{
	struct perfdata_ahead *a = arg;
	ssize_t n = 1;

	(void)pthread_setname_np(pthread_self(), "pw-read");
	for (uint64_t i = 0; n > 0; i++) {
		struct slot *slot = &a->slots[i % AHEAD];

		wait_for(&a->empty);
		if (a->stop)
			break;
		do
			n = read(a->fd, slot->to, min_u64(a->piece, a->left));
		while (n < 0 && errno == EINTR);
		slot->n = n < 0 ? -errno : n;
		a->left -= n > 0 ? (uint64_t)n : 0;
		(void)sem_post(&a->full);
	}
	return NULL;
}

static int give(struct perfdata *pd)
{
	struct perfdata_ahead *a = pd->ahead;
	struct slot *slot = &a->slots[a->n_given % AHEAD];
	int r = perfdata_block_new(pd, &slot->block);

	if (r < 0)
		return trace(r);
	slot->to = pd->blocks[slot->block].data + BLOCK_HEAD;
	a->n_given++;
	(void)sem_post(&a->empty);
	return 0;
}

void perfdata_ahead_start(struct perfdata *pd)
{
	struct perfdata_ahead *a;

	if (pd->data_left == UINT64_MAX || pd->data_left < pd->limits.ahead)
		return;
	a = calloc(1, sizeof(*a));
	if (!a)
		return;
	a->fd = pd->fd;
	a->piece = pd->limits.piece;
	a->left = pd->data_left;
	a->last = 1;
	(void)sem_init(&a->empty, 0, 0);
	(void)sem_init(&a->full, 0, 0);
	if (pthread_create(&a->thread, NULL, read_blocks, a) != 0)
		free(a);
	else
		pd->ahead = a;
}

int perfdata_ahead_next(struct perfdata *pd, uint32_t *ret_block, size_t *ret_len)
{
	struct perfdata_ahead *a = pd->ahead;
	const struct slot *slot;
	int r = 0;

	if (a->last < 0)
		return fail((int)a->last);

	while (r >= 0 && a->n_given - a->n_taken < AHEAD)
		r = give(pd);
	if (a->n_given == a->n_taken)
		return trace(r);
	slot = &a->slots[a->n_taken % AHEAD];
	if (a->last > 0) {
		wait_for(&a->full);
		a->last = slot->n;
	}
	if (a->last < 0)
		return fail((int)a->last); /* the block stays here */
	a->n_taken++;
	*ret_block = slot->block;
	*ret_len = (size_t)a->last;
	return 0;
}

size_t perfdata_ahead_held(const struct perfdata *pd)
{
	return pd->ahead ? pd->ahead->n_given - pd->ahead->n_taken : 0;
}

void perfdata_ahead_end(struct perfdata *pd)
{
	struct perfdata_ahead *a = pd->ahead;

	if (!a)
		return;
	a->stop = true;
	(void)sem_post(&a->empty);
	(void)pthread_join(a->thread, NULL);
	(void)sem_destroy(&a->empty);
	(void)sem_destroy(&a->full);
	free(a);
	pd->ahead = NULL;
}
