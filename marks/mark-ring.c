/* mark-ring.c - see mark-ring.h.
 *
 * For each slot with news: [position, head) is copied, then the head is read again: what the target has overwritten during
 * the copy is dropped.  From there the marks are taken one after another.
 *
 *   word 0 has its own position   a whole mark
 *   else, at the end              being written: the next call begins here
 *   else, with a mark behind it   a signal handler's marks lie behind the one that it interrupted.  They wait for it
 *                                 STUCK_CALLS: a handler may have left it by longjmp()
 *
 * After a gap the next whole mark is looked for word by word.  The numbers of the marks show how many were lost. */
#include "marks/mark-ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

enum {
	STUCK_CALLS = 20,
	MASK = MARKS_RING_WORDS - 1,
	COPY_MAX = 16 * MARKS_RING_WORDS, /* of one call */
	WORDS_MAX = MARKS_MARK_WORDS + MARKS_NAME_MAX / 8,
	HEAD_PAGE = 4096,
};

/* What is known of one slot. */
struct slot {
	uint32_t position; /* in words: the next to read */
	uint32_t number;   /* of the next mark */
	uint32_t stuck;	   /* calls that have waited at position */
};

struct mark_ring {
	int fd;
	uint32_t claimed_pid;
	struct marks_head *head; /* the page that is written here */
	struct mark_ring_counts counts;
	uint64_t lost_seen; /* marks_head.lost */
	uint32_t next;	    /* the slot to begin with */
	size_t copied;	    /* words, in this call */
	struct slot slots[MARKS_SLOTS];
	bool ended;
	uint64_t last[MARKS_SLOTS];  /* ended: the heads, beyond which nothing is read */
	struct mark_ring_room *room; /* words: the index is the position */
};

static bool is_ours(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 &&
	       (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) == (F_SEAL_SHRINK | F_SEAL_GROW);
}

static bool read_slot(const struct mark_ring *ring, size_t i, struct marks_slot *ret)
{
	return read_fd_at(ring->fd, ret, sizeof(*ret), MARKS_SLOTS_AT + i * sizeof(*ret)) ==
	       sizeof(*ret);
}

int mark_ring_new(int fd, struct mark_ring_room *room, struct mark_ring **ret_ring)
{
	_cleanup_(fd_closep) int own = -1;
	struct mark_ring *ring;
	struct marks_slot slot;
	struct marks_head head;
	struct stat st;

	if (!is_ours(fd))
		return fail(-EXDEV);
	own = fd;
	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size != MARKS_BYTES ||
	    read_fd_at(fd, &head, sizeof(head), 0) != sizeof(head) || head.magic != MARKS_MAGIC ||
	    head.version != MARKS_VERSION)
		return fail(-EBADMSG);
	ring = calloc(1, sizeof(*ring));
	if (!ring)
		return fail(-ENOMEM);
	ring->head = mmap(NULL, HEAD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring->head == MAP_FAILED) {
		free(ring);
		return fail(-errno);
	}
	ring->fd = take_fd(own);
	for (size_t i = 0; i < MARKS_SLOTS; i++)
		if (read_slot(ring, i, &slot))
			ring->slots[i] = (struct slot){.position = (uint32_t)slot.begin,
						       .number = (uint32_t)(slot.begin >> 32)};
	ring->room = room;
	ring->claimed_pid = head.pid;
	*ret_ring = ring;
	return 0;
}

struct mark_ring *mark_ring_free(struct mark_ring *ring)
{
	if (!ring)
		return NULL;
	(void)munmap(ring->head, HEAD_PAGE);
	(void)fd_close(ring->fd);
	free(ring);
	return NULL;
}

uint32_t mark_ring_claimed_pid(const struct mark_ring *ring)
{
	return ring->claimed_pid;
}

void mark_ring_switch(struct mark_ring *ring, uint64_t mask, uint64_t until)
{
	__atomic_store_n(&ring->head->until, until, __ATOMIC_RELAXED);
	__atomic_store_n(&ring->head->mask, mask, __ATOMIC_RELEASE);
}

void mark_ring_counts(const struct mark_ring *ring, struct mark_ring_counts *ret_counts)
{
	*ret_counts = ring->counts;
}

/* ---- one slot ---- */

/* A part of a ring into words[]; the index is the position. */
static bool copy_words(struct mark_ring *ring, size_t slot, uint32_t from, uint32_t n)
{
	uint64_t base = (uint64_t)MARKS_DATA_AT + slot * (uint64_t)MARKS_RING_BYTES;

	while (n) {
		uint32_t at = from & MASK;
		uint32_t some = n < MARKS_RING_WORDS - at ? n : MARKS_RING_WORDS - at;

		if (read_fd_at(ring->fd, &ring->room->words[at], some * 8u, base + at * 8u) !=
		    some * 8)
			return false;
		from += some;
		n -= some;
	}
	return true;
}

static uint64_t word(const struct mark_ring *ring, uint32_t position)
{
	return ring->room->words[position & MASK];
}

/* The words of the mark at @position, of @left; 0: there is no whole mark. */
static uint32_t mark_words(const struct mark_ring *ring, uint32_t position, uint32_t left)
{
	uint64_t w = word(ring, position);
	uint32_t words = (uint32_t)(w >> 32 & 0xffff), kind = (uint32_t)(w >> 48 & 0xff);

	if ((uint32_t)w != position || words < MARKS_MARK_WORDS || words > WORDS_MAX ||
	    words > left || !kind || kind >= MARKS_KINDS)
		return 0;
	return words;
}

/* The first whole mark in [@from, @to), or @to. */
static uint32_t find_mark(const struct mark_ring *ring, uint32_t from, uint32_t to)
{
	while (from != to && !mark_words(ring, from, to - from))
		from++;
	return from;
}

/* Up to mark number @number.  Is there one? */
static bool count_gap(struct mark_ring *ring, struct slot *s, uint32_t number)
{
	uint32_t gap = number - s->number;

	if (gap >= UINT32_MAX / 2) /* behind: a claim that makes no sense */
		return false;
	ring->counts.lost += gap;
	s->number = number;
	return gap;
}

static int give(struct mark_ring *ring, struct slot *s, uint32_t at, uint32_t words,
		int (*mark)(void *arg, const struct mark_ring_mark *mark), void *arg)
{
	uint32_t n = words - MARKS_MARK_WORDS;
	const struct mark_ring_counts counts = ring->counts;
	const struct slot before = *s;
	int r;
	struct mark_ring_mark m = {
		.kind = (enum marks_kind)(word(ring, at) >> 48 & 0xff),
		.flags = (uint8_t)(word(ring, at) >> 56),
		.time = word(ring, at + 1),
		.tid = (uint32_t)word(ring, at + 2),
		.value = word(ring, at + 3),
		.extra = word(ring, at + 4),
		.name = (const char *)ring->room->name,
	};

	for (uint32_t i = 0; i < n; i++)
		ring->room->name[i] = word(ring, at + MARKS_MARK_WORDS + i);
	/* Two functions have 8 bytes that are not text. */
	m.len = m.kind == MARKS_ENTER || m.kind == MARKS_LEAVE ? n * 8 : strnlen(m.name, n * 8);
	m.gap = count_gap(ring, s, (uint32_t)(word(ring, at + 2) >> 32));
	s->number++;
	ring->counts.marks++;
	r = mark(arg, &m);
	if (r == MARK_RING_LATER) {
		ring->counts = counts;
		*s = before;
	}
	return r;
}

/* Nothing whole at @at.  Where to go on; @at: wait there. */
static uint32_t pass_over(struct mark_ring *ring, struct slot *s, uint32_t at, uint32_t head)
{
	if (!ring->ended && s->position == at && ++s->stuck < STUCK_CALLS)
		return at;
	if (!ring->ended && s->position != at) {
		s->stuck = 0;
		return at;
	}
	s->stuck = 0;
	at = find_mark(ring, at + 1, head);
	/* The last mark of a target that was killed is not damaged: it is lost. */
	ring->counts.damaged += !ring->ended || at != head;
	return at;
}

/* What lies before @head is lost. */
static void skip_to(struct mark_ring *ring, struct slot *s, uint64_t head)
{
	(void)count_gap(ring, s, (uint32_t)(head >> 32));
	s->position = (uint32_t)head;
	s->stuck = 0;
}

/* Copies the news of slot @i.  The first position that is whole; *ret_head: behind the last.  false: nothing. */
static bool copy_news(struct mark_ring *ring, size_t i, const struct marks_slot *state,
		      uint32_t *ret_at, uint32_t *ret_head)
{
	struct slot *s = &ring->slots[i];
	uint32_t head = (uint32_t)state->head, at = s->position, overwritten;
	struct marks_slot after;

	if (head == at)
		return false;
	if (head - at > MARKS_RING_WORDS)
		at = head - MARKS_RING_WORDS;
	ring->copied += head - at;
	if (!copy_words(ring, i, at, head - at) || !read_slot(ring, i, &after)) {
		skip_to(ring, s, state->head);
		return false;
	}
	atomic_thread_fence(memory_order_acquire);
	overwritten = (uint32_t)after.head - MARKS_RING_WORDS;
	if (head - overwritten > MARKS_RING_WORDS) /* the whole ring, once more */
		overwritten = head;
	else if (head - overwritten > head - at)
		overwritten = at;
	if (overwritten != s->position) {
		at = find_mark(ring, overwritten, head);
		s->position = at;
		s->stuck = 0;
	}
	*ret_at = at;
	*ret_head = head;
	return true;
}

/* @most goes down with each mark. */
static int read_news(struct mark_ring *ring, size_t i, const struct marks_slot *state, size_t *most,
		     int (*mark)(void *arg, const struct mark_ring_mark *mark), void *arg)
{
	struct slot *s = &ring->slots[i];
	uint32_t at, head;
	int r = 0;

	if (!copy_news(ring, i, state, &at, &head))
		return 0;
	while (at != head && *most && r == 0) {
		uint32_t words = mark_words(ring, at, head - at);

		if (words) {
			r = give(ring, s, at, words, mark, arg);
			if (r == MARK_RING_LATER)
				break;
			at += words;
			--*most;
		} else {
			uint32_t next = pass_over(ring, s, at, head);

			if (next == at)
				break;
			at = next;
		}
	}
	if (s->position != at)
		s->stuck = 0;
	s->position = at;
	if (at == head)
		(void)count_gap(ring, s, (uint32_t)(state->head >> 32));
	return r < 0 ? trace(r) : 0;
}

/* The heads, and what the target itself has counted as lost. */
static bool read_state(struct mark_ring *ring, struct marks_slot slots[static MARKS_SLOTS])
{
	const size_t size = MARKS_SLOTS * sizeof(slots[0]);
	struct marks_head head;

	if (read_fd_at(ring->fd, slots, size, MARKS_SLOTS_AT) != (ssize_t)size ||
	    read_fd_at(ring->fd, &head, sizeof(head), 0) != sizeof(head))
		return false;
	for (size_t i = 0; i < MARKS_SLOTS && ring->ended; i++)
		slots[i].head = ring->last[i];
	if (head.lost > ring->lost_seen)
		ring->counts.lost += head.lost - ring->lost_seen;
	ring->lost_seen = head.lost;
	return true;
}

int mark_ring_read(struct mark_ring *ring, size_t most,
		   int (*mark)(void *arg, const struct mark_ring_mark *mark), void *arg)
{
	struct marks_slot slots[MARKS_SLOTS];
	int r = 0;

	if (!read_state(ring, slots))
		return 0;
	ring->copied = 0;
	for (size_t n = 0; n < MARKS_SLOTS && most && ring->copied < COPY_MAX && r >= 0; n++) {
		size_t i = ring->next;

		r = read_news(ring, i, &slots[i], &most, mark, arg);
		ring->next = (uint32_t)((i + 1) % MARKS_SLOTS);
	}
	ring->counts.words += ring->copied;
	return r < 0 ? trace(r) : 0;
}

void mark_ring_end(struct mark_ring *ring)
{
	struct marks_slot slots[MARKS_SLOTS];
	bool known;

	if (ring->ended)
		return;
	known = read_state(ring, slots);
	for (size_t i = 0; i < MARKS_SLOTS; i++)
		ring->last[i] = known ? slots[i].head : ring->slots[i].position;
	ring->ended = true;
}

bool mark_ring_has_news(const struct mark_ring *ring)
{
	for (size_t i = 0; i < MARKS_SLOTS; i++)
		if (ring->slots[i].position != (uint32_t)ring->last[i])
			return true;
	return false;
}

void mark_ring_lose(struct mark_ring *ring)
{
	mark_ring_end(ring);
	for (size_t i = 0; i < MARKS_SLOTS; i++)
		if (ring->slots[i].position != (uint32_t)ring->last[i])
			skip_to(ring, &ring->slots[i], ring->last[i]);
}
