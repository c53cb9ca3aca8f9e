/* sink-threaded.c - see sink_threaded_new() in sink.h.
 *
 *   main ──► piece, piece, piece, piece (a ring) ──► pw-write: inner->write()
 *            ▲ `free` counts those to be filled       │ `full` those to be written
 *            └────────────────────────────────────────┘
 *
 * The semaphores are all that the two share apart from the pieces; a piece belongs to one thread
 * at a time.  A flush takes all pieces back, so that the inner sink is main's while it lasts. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/error.h"
#include "base/sem.h"
#include "trace/sink.h"

enum { PIECES = 4, PIECE_BYTES = 64 << 10 };

struct piece {
	uint8_t *data; /* NULL: the end */
	size_t len, room;
};

struct sink_threaded {
	struct sink sink;
	struct sink *inner;
	pthread_t thread;
	sem_t free, full;
	struct piece pieces[PIECES];
	size_t at;	     /* main: the one that is filled, once it is ours */
	bool filling;	     /* it is */
	int error;	     /* the thread's, the first; main looks at it with all pieces in hand */
	_Atomic bool failed; /* there is one */
};

static void *write_pieces(void *arg)
{
	struct sink_threaded *b = arg;

	(void)pthread_setname_np(pthread_self(), "pw-write");
	for (size_t at = 0;; at = (at + 1) % PIECES) {
		const struct piece *p = &b->pieces[at];

		sem_take(&b->full);
		if (!p->data)
			return NULL;
		if (!b->failed) {
			b->error = b->inner->write(b->inner, p->data, p->len);
			b->failed = b->error < 0;
		}
		(void)sem_post(&b->free);
	}
}

/* The piece under way is the thread's. */
static void hand_over(struct sink_threaded *b)
{
	if (!b->filling)
		return;
	b->filling = false;
	b->at = (b->at + 1) % PIECES;
	(void)sem_post(&b->full);
}

/* A piece of our own with room for @len bytes more; NULL: no memory. */
static struct piece *piece_for(struct sink_threaded *b, size_t len)
{
	struct piece *p = &b->pieces[b->at];
	uint8_t *more;

	if (b->filling && p->len + len > PIECE_BYTES) {
		hand_over(b);
		p = &b->pieces[b->at];
	}
	if (!b->filling) {
		sem_take(&b->free);
		b->filling = true;
		p->len = 0;
	}
	if (p->room >= p->len + len)
		return p;
	more = realloc(p->data, max_u64(len, PIECE_BYTES));
	if (!more) {
		b->filling = false; /* handed over without data, it would be the thread's end */
		(void)sem_post(&b->free);
		return NULL;
	}
	p->data = more;
	p->room = max_u64(len, PIECE_BYTES);
	return p;
}

/* All that was given has been written: everything is ours until let_go(). */
static void take_all(struct sink_threaded *b)
{
	hand_over(b);
	for (size_t i = 0; i < PIECES; i++)
		sem_take(&b->free);
}

static void let_go(struct sink_threaded *b)
{
	for (size_t i = 0; i < PIECES; i++)
		(void)sem_post(&b->free);
}

static int threaded_flush(struct sink *sink)
{
	struct sink_threaded *b = container_of(sink, struct sink_threaded, sink);
	int r;

	take_all(b);
	r = b->error;
	if (r >= 0)
		r = b->inner->flush(b->inner);
	sink->bytes = b->inner->bytes;
	sink->written = b->inner->written;
	let_go(b);
	return r < 0 ? trace(r) : 0;
}

static int threaded_write(struct sink *sink, const void *data, size_t len)
{
	struct sink_threaded *b = container_of(sink, struct sink_threaded, sink);
	struct piece *p;

	if (b->failed)
		return threaded_flush(sink); /* returns the error */
	if (!len)
		return 0;
	p = piece_for(b, len);
	if (!p)
		return fail(-ENOMEM);
	memcpy(p->data + p->len, data, len);
	p->len += len;
	return 0;
}

static void threaded_free(struct sink *sink)
{
	struct sink_threaded *b = container_of(sink, struct sink_threaded, sink);

	take_all(b);
	free(take(b->pieces[b->at].data)); /* where the thread looks next: its end */
	(void)sem_post(&b->full);
	(void)pthread_join(b->thread, NULL);
	for (size_t i = 0; i < PIECES; i++)
		free(b->pieces[i].data);
	(void)sem_destroy(&b->free);
	(void)sem_destroy(&b->full);
	(void)sink_free(b->inner);
	free(b);
}

int sink_threaded_new(struct sink *inner, struct sink **ret_sink)
{
	struct sink_threaded *b = calloc(1, sizeof(*b));

	if (b) {
		b->sink = (struct sink){
			.write = threaded_write, .flush = threaded_flush, .free = threaded_free};
		b->inner = inner;
		(void)sem_init(&b->free, 0, PIECES);
		(void)sem_init(&b->full, 0, 0);
	}
	if (!b || pthread_create(&b->thread, NULL, write_pieces, b) != 0) {
		free(b);
		(void)sink_free(inner);
		return fail(-ENOMEM);
	}
	*ret_sink = &b->sink;
	return 0;
}
