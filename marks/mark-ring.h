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
	uint64_t damaged; /* places that are no mark and were passed over */
};

/* Room for one call, which all rings may share. */
struct mark_ring_room {
	uint64_t words[MARKS_RING_WORDS];
	uint64_t name[MARKS_NAME_MAX / 8];
};

struct mark_ring;
/* Consumes @fd, which a target has sent, in any case but -EXDEV.  -EXDEV: it is no memfd that is sealed against shrinking
 * and growing, so that even closing it could take forever: the caller passes it to base/closer.  -EBADMSG: another size or
 * form. */
int mark_ring_new(int fd, struct mark_ring_room *room /* borrowed */, struct mark_ring **ret_ring);
struct mark_ring *mark_ring_free(struct mark_ring *ring);
/* The pid that the target claims: its own view, in its pid namespace. */
uint32_t mark_ring_claimed_pid(const struct mark_ring *ring);

/* Calls @mark for up to about @most new marks, marks of one thread in order.  < 0: @mark's, which ends it. */
int mark_ring_read(struct mark_ring *ring, size_t most,
		   int (*mark)(void *arg, const struct mark_ring_mark *mark), void *arg);
/* Switches the target's categories, and lets it know that the recording lives until @until (the session's clock, ns). */
void mark_ring_switch(struct mark_ring *ring, uint64_t mask, uint64_t until);
void mark_ring_counts(const struct mark_ring *ring, struct mark_ring_counts *ret_counts);
