/* perfdata-ahead.c - a thread that reads the next blocks of a file (perfdata-private.h).
 *
 * Copying a recording out of the page cache takes longer than unwinding it.  The thread fills the blocks that it is given, in
 * order; two semaphores hand them back and forth, and nothing else is shared.  A pipe is not read ahead: a read from it may
 * block for any time.
 *
 * Nearly all bytes of a recording with copies of stacks are behind the part of a copy that is in use (dyn_size), and nothing
 * reads them.  So the thread leaves them out: the record keeps its size and its place in the block, with a hole.
 *
 *   block   [header .. registers][size][stack in use ][ hole            ][dyn_size ..][header ..
 *   reads   ────── HEAD ─────►         ──────────────►                   ─────── HEAD ────────►
 *                                      2: once dyn_size is known          1: and so on
 *
 * Its pieces then are whole records.  It follows the records only as long as they are plain: behind damage, AUXTRACE and
 * further events it reads all bytes, and the consumer, which checks the same records, finds the same. */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "base/error.h"
#include "base/sem.h"
#include "perf/perfdata/perfdata-private.h"

enum {
	AHEAD = 4,
	HEAD = 4 << 10,	 /* the end of a record with a hole and the begin of the next one */
	WIDE = 64 << 10, /* while records are small */
	LARGE = 16 << 10,
};

struct perfdata_ahead {
	int fd;
	size_t piece;
	/* The thread's. */
	uint64_t at, left; /* where the next piece begins; bytes from there on */
	bool holes;	   /* pieces begin with a record, and its copy of a stack may have a hole */
	bool large;	   /* a large record was met */
	struct record_layout layout; /* of the records with copies */

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

/* A piece that is being read. */
struct piece {
	uint8_t *to;
	size_t room, have; /* bytes; those before `have` are read, or in a hole */
	size_t record;	   /* where the first record begins that is not whole */
};

/* ---- the thread ---- */

static ssize_t read_at(const struct perfdata_ahead *a, uint64_t at, void *to, size_t len)
{
	ssize_t n;

	do
		n = pread(a->fd, to, len, (off_t)at);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* Reads what is in use of the copy in the record at the end, and goes on behind the rest of it.  false: the file ends there, or
 * cannot be read. */
static bool leave_hole(const struct perfdata_ahead *a, struct piece *p)
{
	const uint8_t *record = p->to + p->record;
	struct record_stack stack;
	uint64_t used;
	size_t behind, end;

	if ((uintptr_t)record % 8 ||
	    !record_find_stack(&a->layout, (const struct perf_event_header *)(const void *)record,
			       p->have - p->record, &stack))
		return true; /* its begin is longer than usual */
	behind = p->record + stack.at + stack.room;
	if (p->have >= behind)
		return true;
	if (read_at(a, a->at + behind, &used, sizeof(used)) != sizeof(used))
		return false;
	end = p->record + stack.at + (min_u64(used, stack.room) + 7) / 8 * 8;
	while (p->have < end) {
		ssize_t n = read_at(a, a->at + p->have, p->to + p->have, end - p->have);

		if (n <= 0)
			return false;
		p->have += (size_t)n;
	}
	p->have = behind;
	return true;
}

static bool is_followed(const struct perf_event_header *header)
{
	return perfdata_is_possible(header) && header->type != PERFDATA_HEADER_ATTR &&
	       header->type != PERFDATA_HEADER_TRACING_DATA && header->type != PERFDATA_AUXTRACE;
}

/* Passes the records that are whole.  false: the piece ends with them. */
static bool pass_records(struct perfdata_ahead *a, struct piece *p)
{
	struct perf_event_header header;

	while (p->have - p->record >= sizeof(header)) {
		memcpy(&header, p->to + p->record, sizeof(header));
		a->holes &= is_followed(&header);
		if (!a->holes || p->record + header.size > p->room)
			return false;
		a->large |= header.size >= LARGE;
		if (p->record + header.size > p->have) {
			if (header.type == PERF_RECORD_SAMPLE && header.size >= LARGE)
				a->holes &= leave_hole(a, p);
			return a->holes;
		}
		p->record += header.size;
	}
	return p->have < p->room;
}

/* The bytes of the next piece, 0 at the end, or -errno. */
static ssize_t read_piece(struct perfdata_ahead *a, uint8_t *to)
{
	struct piece p = {.to = to, .room = min_u64(a->piece, a->left)};
	ssize_t n = 1;

	while (a->holes && n > 0) {
		n = read_at(a, a->at + p.have, to + p.have,
			    min_u64(a->large ? HEAD : WIDE, p.room - p.have));
		if (n <= 0)
			break;
		p.have += (size_t)n;
		if (!pass_records(a, &p))
			break;
	}
	if (p.record)
		return (ssize_t)p.record;
	a->holes = false; /* a record is longer than a piece, or the file ends */
	return read_at(a, a->at, to, p.room);
}

static void *read_pieces(void *arg)
{
	struct perfdata_ahead *a = arg;
	ssize_t n = 1;

	(void)pthread_setname_np(pthread_self(), "pw-read");
	for (uint64_t i = 0; n > 0; i++) {
		struct slot *slot = &a->slots[i % AHEAD];

		sem_take(&a->empty);
		if (a->stop)
			break;
		n = read_piece(a, slot->to);
		slot->n = n;
		a->at += n > 0 ? (uint64_t)n : 0;
		a->left -= n > 0 ? (uint64_t)n : 0;
		(void)sem_post(&a->full);
	}
	return NULL;
}

/* ---- the consumer ---- */

static bool is_dummy(const struct perf_event_attr *attr)
{
	return attr->type == PERF_TYPE_SOFTWARE && attr->config == PERF_COUNT_SW_DUMMY;
}

/* Do all events that sample have copies of stacks, at the same place? */
static bool find_layout(const struct perfdata_info *info, struct record_layout *ret_layout)
{
	const struct record_layout *first = NULL;

	for (size_t i = 0; i < info->n_events; i++) {
		const struct record_layout *l = &info->events[i].layout;

		if (is_dummy(&info->events[i].attr))
			continue;
		first = first ? first : l;
		if (!(l->sample_type & PERF_SAMPLE_STACK_USER) ||
		    l->sample_type != first->sample_type || l->read_format != first->read_format ||
		    l->regs_mask != first->regs_mask ||
		    l->branch_sample_type != first->branch_sample_type)
			return false;
	}
	if (first)
		*ret_layout = *first;
	return first;
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

	if (pd->data_at < 0 || pd->data_left == UINT64_MAX || pd->data_left < pd->limits.ahead)
		return;
	a = calloc(1, sizeof(*a));
	if (!a)
		return;
	a->fd = pd->fd;
	a->piece = pd->limits.piece;
	a->at = (uint64_t)pd->data_at;
	a->left = pd->data_left;
	a->holes = find_layout(&pd->info, &a->layout);
	a->last = 1;
	(void)sem_init(&a->empty, 0, 0);
	(void)sem_init(&a->full, 0, 0);
	if (pthread_create(&a->thread, NULL, read_pieces, a) != 0)
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
		sem_take(&a->full);
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
