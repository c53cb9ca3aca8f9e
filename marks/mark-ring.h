/* mark-ring.h - reads the marks of one process out of the memory that it shares (libmarks/marks-ring.h).  Thread: main.
 *
 * The memory is the target's, which may write anything at any time: it is read by pread(), never mapped but for the page
 * that the recording writes, every position and length is checked, and the work of one call is bounded.  A target can only
 * spoil its own marks.  The process is known from the kernel (SO_PEERCRED); the thread is the target's
 * claim, which the caller checks. */
#pragma once

#include "base/util.h"
#include "libmarks/marks-ring.h"

/* As the target wrote it; @name is valid during the call, @len bytes, and may hold anything. */
struct mark_ring_mark {
	enum marks_kind kind;
	uint8_t flags;
	bool gap; /* marks of this thread were lost before it */
	uint64_t time;
	uint32_t tid;
	uint64_t value, extra;
	const char *name;
	size_t len;
};

struct mark_ring_counts {
	uint64_t marks;	  /* read */
	uint64_t lost;	  /* overwritten before they were read, or of a thread that found no slot */
	uint64_t damaged; /* places that are not a mark and were passed over */
	uint64_t words;	  /* copied to look for marks: the work */
};

/* Room for one call, which all rings may share. */
struct mark_ring_room {
	uint64_t words[MARKS_RING_WORDS];
	uint64_t name[MARKS_NAME_MAX / 8];
};

struct mark_ring;
/* Consumes @fd, which a target has sent, in any case but -EXDEV.  -EXDEV: it is not a memfd that is sealed against shrinking
 * and growing, so that even closing it could take forever: the caller passes it to base/closer.  -EBADMSG: another size or
 * form. */
int mark_ring_new(int fd, struct mark_ring_room *room /* borrowed */, struct mark_ring **ret_ring);
struct mark_ring *mark_ring_free(struct mark_ring *ring);
/* The pid that the target claims: its own view, in its pid namespace. */
uint32_t mark_ring_claimed_pid(const struct mark_ring *ring);

/* Calls @mark for up to about @most new marks, marks of one thread in order.  @mark returns 0; MARK_RING_LATER: the next call
 * begins with the same mark, and goes on with other threads; < 0 ends it and is returned. */
enum { MARK_RING_LATER = 1 };
int mark_ring_read(struct mark_ring *ring, size_t most,
		   int (*mark)(void *arg, const struct mark_ring_mark *mark), void *arg);
/* The target has ended: what it has written so far is all that will be read, even if another process holds the memory.  No call
 * waits, so each one reads something while unread marks remain. */
void mark_ring_end(struct mark_ring *ring);
/* Only of a ring that has ended: is there a part that was not read? */
bool mark_ring_has_news(const struct mark_ring *ring);
/* What was not read so far counts as lost. */
void mark_ring_lose(struct mark_ring *ring);
/* Switches the target's categories, and lets it know that the recording lives until @until (the session's clock, ns). */
void mark_ring_switch(struct mark_ring *ring, uint64_t mask, uint64_t until);
void mark_ring_counts(const struct mark_ring *ring, struct mark_ring_counts *ret_counts);
