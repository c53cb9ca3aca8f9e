/* fuzz-mark-ring.c - a target's ring with any bytes in it: the reader, and the functions that its marks begin and end.
 *
 * Input: two bytes of flags and slot, then for each round eight bytes that are added to the slot's head, two of place and as
 * many bytes as the first byte's low half has words.  Whatever comes, a call gives at most what a ring holds, of known kinds
 * and bounded lengths; a mark that is put off comes again; after the target's end each call reads something, until all is read. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "marks/mark-functions.h"
#include "marks/mark-ring.h"
#include "marks/mark-text.h"

enum { MOST = 5000, ROUNDS = 32 };

#define CHECK(ok) ((ok) ? (void)0 : abort()) /* assert() may be compiled out */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct mark_ring_room room;

struct work {
	size_t n, put_off;
	struct mark_functions *functions;
};

static int slice(void *arg, const struct mark_function_slice *s)
{
	(void)arg;
	CHECK(s->begin <= s->end);
	return 0;
}

static int take_mark(void *arg, const struct mark_ring_mark *m)
{
	struct work *w = arg;
	struct mark_function at = {.tid = m->tid % 4,
				   .time = m->time,
				   .address = m->value % 8,
				   .site = m->flags % 3,
				   .sp = m->extra % 64,
				   .frame = m->flags % 64,
				   .tail = m->flags & MARKS_TAIL};
	struct mark parsed = {0};

	CHECK(m->kind > 0 && m->kind < MARKS_KINDS && m->len <= MARKS_NAME_MAX);
	if (m->flags & 1 && w->put_off) {
		w->put_off--;
		return MARK_RING_LATER;
	}
	w->n++;
	if (m->kind == MARKS_LINE)
		(void)mark_text_parse(m->name, m->len, &parsed);
	else if (m->kind == MARKS_ENTER)
		CHECK(mark_functions_enter(w->functions, &at) == 0);
	else if (m->kind == MARKS_LEAVE)
		CHECK(mark_functions_leave(w->functions, &at) == 0);
	else if (m->kind == MARKS_STACK)
		CHECK(mark_functions_stack(w->functions, m->value, m->extra) == 0);
	else if (m->kind == MARKS_THREAD_END)
		CHECK(mark_functions_thread_end(w->functions, at.tid, m->time) == 0);
	return 0;
}

static int new_memory(char **ret)
{
	int fd = memfd_create(MARKS_MEMFD, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct marks_head *head;

	CHECK(fd >= 0 && ftruncate(fd, (off_t)MARKS_BYTES) == 0);
	*ret = mmap(NULL, MARKS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(*ret != MAP_FAILED && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
	head = (void *)*ret;
	head->magic = MARKS_MAGIC;
	head->version = MARKS_VERSION;
	return fd;
}

/* One round; what is left of the input. */
static size_t change(char *memory, size_t slot, size_t words, const uint8_t *data, size_t size)
{
	struct marks_slot *s = (struct marks_slot *)(void *)(memory + MARKS_SLOTS_AT) + slot;
	char *ring = memory + MARKS_DATA_AT + slot * MARKS_RING_BYTES;
	uint64_t step;
	uint16_t place;
	size_t n = words * 8;

	if (size < sizeof(step) + sizeof(place))
		return 0;
	memcpy(&step, data, sizeof(step));
	memcpy(&place, data + sizeof(step), sizeof(place));
	data += sizeof(step) + sizeof(place);
	size -= sizeof(step) + sizeof(place);
	n = n < size ? n : size;
	/* 0xffff: where the next mark is expected. */
	if (place == 0xffff)
		place = (uint16_t)(s->head % MARKS_RING_WORDS);
	place = (uint16_t)(place % (MARKS_RING_WORDS - 64));
	memcpy(ring + place * 8u, data, n);
	s->head += step;
	return size - n;
}

/* The target has ended. */
static void read_rest(struct mark_ring *ring, struct work *w, char *memory)
{
	struct mark_ring_counts before, after;

	w->put_off = 0;
	mark_ring_end(ring);
	mark_ring_counts(ring, &before);
	while (mark_ring_has_news(ring)) {
		/* Another process still writes there. */
		((struct marks_slot *)(void *)(memory + MARKS_SLOTS_AT))->head += 77;
		CHECK(mark_ring_read(ring, 3, take_mark, w) == 0);
		mark_ring_counts(ring, &after);
		CHECK(after.words > before.words && after.marks - before.marks <= 3);
		before = after;
	}
	mark_ring_lose(ring);
	mark_ring_counts(ring, &after);
	CHECK(after.lost == before.lost && after.marks == w->n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t rooms = 0;
	const struct mark_functions_options options = {.slice = slice, .rooms = &rooms};
	struct work w = {.put_off = 3};
	struct mark_ring_counts counts;
	struct mark_ring *ring;
	char *memory;
	size_t slot, words, at = 2;

	if (size < 2)
		return 0;
	slot = data[1] % MARKS_SLOTS;
	words = data[0] % 16u + 1;
	CHECK(mark_ring_new(new_memory(&memory), &room, &ring) == 0);
	CHECK(mark_functions_new(&options, &w.functions) == 0);
	for (int i = 0; i < ROUNDS && at < size; i++) {
		size_t before = w.n;

		at = size - change(memory, slot, words, data + at, size - at);
		CHECK(mark_ring_read(ring, MOST, take_mark, &w) == 0);
		CHECK(w.n - before <= MOST);
	}
	mark_ring_counts(ring, &counts);
	CHECK(counts.marks == w.n);
	read_rest(ring, &w, memory);
	CHECK(mark_functions_end(w.functions) == 0);
	CHECK(rooms == 0);
	(void)mark_functions_free(w.functions);
	(void)mark_ring_free(ring);
	(void)munmap(memory, MARKS_BYTES);
	return 0;
}
