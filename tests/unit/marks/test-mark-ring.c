/* test-mark-ring.c - the reader of a target's ring: whole marks, gaps, marks in progress, and what a hostile target writes. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "marks/mark-ring.h"
#include "tests/unit/cmocka.h"

enum { MASK = MARKS_RING_WORDS - 1 };

struct target {
	int fd;
	char *memory;
};

static struct mark_ring_room room;

static struct target new_target(int seals, uint64_t bytes)
{
	struct target t = {.fd = memfd_create(MARKS_MEMFD, MFD_CLOEXEC | MFD_ALLOW_SEALING)};
	struct marks_head *head;

	assert_true(t.fd >= 0);
	assert_int_equal(ftruncate(t.fd, (off_t)bytes), 0);
	t.memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, t.fd, 0);
	assert_true(t.memory != MAP_FAILED);
	head = (void *)t.memory;
	head->magic = MARKS_MAGIC;
	head->version = MARKS_VERSION;
	head->pid = 42;
	assert_int_equal(fcntl(t.fd, F_ADD_SEALS, seals), 0);
	return t;
}

static struct target usual_target(void)
{
	return new_target(F_SEAL_SHRINK | F_SEAL_GROW, MARKS_BYTES);
}

static struct mark_ring *reader_of(const struct target *t)
{
	struct mark_ring *ring;

	assert_int_equal(mark_ring_new(dup(t->fd), &room, &ring), 0);
	return ring;
}

static void end(struct target *t, struct mark_ring *ring)
{
	assert_null(mark_ring_free(ring));
	(void)munmap(t->memory, MARKS_BYTES);
	(void)close(t->fd);
}

static struct marks_slot *slot_of(const struct target *t, size_t i)
{
	return (struct marks_slot *)(void *)(t->memory + MARKS_SLOTS_AT) + i;
}

static uint64_t *words_of(const struct target *t, size_t i)
{
	return (uint64_t *)(void *)(t->memory + MARKS_DATA_AT + i * MARKS_RING_BYTES);
}

/* Reserves room as the library does; the position. */
static uint32_t reserve(const struct target *t, size_t i, uint32_t words)
{
	uint64_t *head = &slot_of(t, i)->head, was = *head;

	*head = ((was >> 32) + 1) << 32 | (uint32_t)((uint32_t)was + words);
	return (uint32_t)was;
}

static void fill(const struct target *t, size_t i, uint32_t at, uint32_t number, int kind,
		 const char *name)
{
	uint64_t *words = words_of(t, i);
	uint32_t n = MARKS_MARK_WORDS + (uint32_t)(strlen(name) + 7) / 8;

	words[(at + 1) & MASK] = 1000 + number;
	words[(at + 2) & MASK] = (uint64_t)number << 32 | 77;
	words[(at + 3) & MASK] = number * 10;
	words[(at + 4) & MASK] = 5;
	for (uint32_t k = 0; k < n - MARKS_MARK_WORDS; k++) {
		uint64_t w = 0;

		memcpy(&w, name + k * 8, strnlen(name + k * 8, 8));
		words[(at + MARKS_MARK_WORDS + k) & MASK] = w;
	}
	words[at & MASK] = at | (uint64_t)n << 32 | (uint64_t)kind << 48;
}

static void put(const struct target *t, size_t i, int kind, const char *name)
{
	uint32_t number = (uint32_t)(slot_of(t, i)->head >> 32);
	uint32_t at = reserve(t, i, MARKS_MARK_WORDS + (uint32_t)(strlen(name) + 7) / 8);

	fill(t, i, at, number, kind, name);
}

struct seen {
	size_t n;
	char names[64][32];
	uint64_t times[64];
	uint32_t tid, gaps;
};

static int see(void *arg, const struct mark_ring_mark *mark)
{
	struct seen *s = arg;

	if (s->n < 64) {
		(void)snprintf(s->names[s->n], sizeof(s->names[0]), "%.*s", (int)mark->len,
			       mark->name);
		s->times[s->n] = mark->time;
	}
	s->tid = mark->tid;
	s->gaps += mark->gap;
	s->n++;
	return 0;
}

static struct seen read_all(struct mark_ring *ring)
{
	struct seen s = {0};

	assert_int_equal(mark_ring_read(ring, SIZE_MAX, see, &s), 0);
	return s;
}

static struct mark_ring_counts counts(const struct mark_ring *ring)
{
	struct mark_ring_counts c;

	mark_ring_counts(ring, &c);
	return c;
}

static void whole_marks(void **state)
{
	struct target t = usual_target();
	struct mark_ring *ring = reader_of(&t);
	struct seen s;

	(void)state;
	assert_int_equal(mark_ring_claimed_pid(ring), 42);
	put(&t, 0, MARKS_BEGIN, "a name of 26 bytes, no more");
	put(&t, 0, MARKS_END, "");
	put(&t, 127, MARKS_INSTANT, "eight by");
	s = read_all(ring);
	assert_int_equal(s.n, 3);
	assert_string_equal(s.names[0], "a name of 26 bytes, no more");
	assert_string_equal(s.names[1], "");
	assert_string_equal(s.names[2], "eight by");
	assert_int_equal(s.times[1], 1001);
	assert_int_equal(s.tid, 77);
	assert_int_equal(read_all(ring).n, 0);
	assert_int_equal(counts(ring).marks, 3);
	assert_int_equal(counts(ring).lost, 0);
	mark_ring_switch(ring, 5, 99);
	assert_int_equal(((struct marks_head *)(void *)t.memory)->mask, 5);
	assert_int_equal(((struct marks_head *)(void *)t.memory)->until, 99);
	end(&t, ring);
}

/* Around the end of the ring, many times: none is lost while it is read in time. */
static void goes_round(void **state)
{
	struct target t = usual_target();
	struct mark_ring *ring = reader_of(&t);
	size_t n = 0;

	(void)state;
	for (int round = 0; round < 300; round++) {
		for (int i = 0; i < 400; i++)
			put(&t, 3, MARKS_INSTANT, "seven is odd");
		n += read_all(ring).n;
	}
	assert_int_equal(n, 300 * 400);
	assert_int_equal(counts(ring).lost, 0);
	assert_int_equal(counts(ring).damaged, 0);
	end(&t, ring);
}

/* What was overwritten is counted, one by one. */
static void overwritten(void **state)
{
	struct target t = usual_target();
	struct mark_ring *ring = reader_of(&t);
	struct seen s;
	size_t n;

	(void)state;
	put(&t, 0, MARKS_INSTANT, "x");
	assert_int_equal(read_all(ring).n, 1);
	for (int i = 0; i < 3 * MARKS_RING_WORDS / 6 + 5; i++)
		put(&t, 0, MARKS_INSTANT, "x");
	s = read_all(ring);
	n = s.n;
	assert_int_equal(s.gaps, 1);
	assert_true(n <= MARKS_RING_WORDS / 6 && n >= MARKS_RING_WORDS / 6 - 1);
	assert_int_equal(counts(ring).lost + n, 3 * MARKS_RING_WORDS / 6 + 5);
	((struct marks_head *)(void *)t.memory)->lost = 7;
	put(&t, 0, MARKS_INSTANT, "x");
	assert_int_equal(read_all(ring).n, 1);
	assert_int_equal(counts(ring).lost + n + 1, 3 * MARKS_RING_WORDS / 6 + 5 + 1 + 7);
	end(&t, ring);
}

/* A signal handler's marks come after the one that it has interrupted. */
static void in_progress(void **state)
{
	struct target t = usual_target();
	struct mark_ring *ring = reader_of(&t);
	struct seen s;
	uint32_t at;

	(void)state;
	at = reserve(&t, 0, 6);
	put(&t, 0, MARKS_INSTANT, "handler");
	for (int i = 0; i < 10; i++)
		assert_int_equal(read_all(ring).n, 0);
	fill(&t, 0, at, 0, MARKS_INSTANT, "outer");
	s = read_all(ring);
	assert_int_equal(s.n, 2);
	assert_string_equal(s.names[0], "outer");
	/* One that is never finished is passed over in the end. */
	(void)reserve(&t, 0, 6);
	put(&t, 0, MARKS_INSTANT, "behind");
	for (int i = 0; i < 100 && (s = read_all(ring)).n == 0; i++)
		;
	assert_int_equal(s.n, 1);
	assert_string_equal(s.names[0], "behind");
	assert_int_equal(counts(ring).damaged, 1);
	assert_int_equal(counts(ring).lost, 1);
	end(&t, ring);
}

/* Marks of an earlier recording are not of this one. */
static void begins_where_it_was_handed_over(void **state)
{
	struct target t = usual_target();
	struct mark_ring *ring;

	(void)state;
	put(&t, 0, MARKS_INSTANT, "old");
	slot_of(&t, 0)->begin = slot_of(&t, 0)->head;
	put(&t, 0, MARKS_INSTANT, "new");
	ring = reader_of(&t);
	assert_string_equal(read_all(ring).names[0], "new");
	assert_int_equal(counts(ring).lost, 0);
	end(&t, ring);
}

static void at_most(void **state)
{
	struct target t = usual_target();
	struct mark_ring *ring = reader_of(&t);
	struct seen s = {0};

	(void)state;
	for (size_t i = 0; i < 50; i++)
		put(&t, i % 4, MARKS_INSTANT, "x");
	assert_int_equal(mark_ring_read(ring, 20, see, &s), 0);
	assert_int_equal(s.n, 20);
	assert_int_equal(mark_ring_read(ring, 100, see, &s), 0);
	assert_int_equal(s.n, 50);
	assert_int_equal(counts(ring).lost, 0);
	end(&t, ring);
}

static void hostile(void **state)
{
	struct target t = usual_target();
	struct mark_ring *ring = reader_of(&t);
	uint64_t seed = 1;

	(void)state;
	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < 2000; i++) {
			seed = hash_u64(seed);
			words_of(&t, 0)[seed & MASK] = seed >> 3;
			/* A mark that seems whole, of any length and kind. */
			if (i % 16 == 0)
				words_of(&t, 0)[i & MASK] = (uint64_t)i | (seed & 0xff) << 32 |
							    (seed >> 8 & 0xff) << 48;
		}
		slot_of(&t, 0)->head = hash_u64(seed + 1);
		slot_of(&t, seed % MARKS_SLOTS)->head = hash_u64(seed + 2);
		((struct marks_head *)(void *)t.memory)->lost = hash_u64(seed + 3);
		((struct marks_head *)(void *)t.memory)->magic = seed;
		(void)read_all(ring);
	}
	end(&t, ring);
}

static void rejected(void **state)
{
	struct mark_ring *ring;
	struct target t;
	int pair[2];

	(void)state;
	/* Not sealed; no memfd: nothing but fcntl() is called on it, and it is not closed. */
	t = new_target(F_SEAL_SHRINK, MARKS_BYTES);
	assert_int_equal(mark_ring_new(t.fd, &room, &ring), -EXDEV);
	assert_true(fcntl(t.fd, F_GETFD) >= 0);
	(void)close(t.fd);
	(void)munmap(t.memory, MARKS_BYTES);
	assert_int_equal(pipe(pair), 0);
	assert_int_equal(mark_ring_new(pair[0], &room, &ring), -EXDEV);
	(void)close(pair[0]);
	(void)close(pair[1]);
	/* Another size, another form. */
	t = new_target(F_SEAL_SHRINK | F_SEAL_GROW, MARKS_BYTES + 4096);
	assert_int_equal(mark_ring_new(t.fd, &room, &ring), -EBADMSG);
	(void)munmap(t.memory, MARKS_BYTES + 4096);
	t = usual_target();
	((struct marks_head *)(void *)t.memory)->version = 2;
	assert_int_equal(mark_ring_new(t.fd, &room, &ring), -EBADMSG);
	(void)munmap(t.memory, MARKS_BYTES);
}

static bool name_is_known;

static int see_later(void *arg, const struct mark_ring_mark *mark)
{
	if (mark->len == 3 && !memcmp(mark->name, "who", 3) && !name_is_known)
		return MARK_RING_LATER;
	return see(arg, mark);
}

/* A mark that is put off keeps all marks of its thread back, and its gap; other threads go on. */
static void put_off(void **state)
{
	struct target t = usual_target();
	struct mark_ring *ring = reader_of(&t);
	struct seen s = {0};

	(void)state;
	put(&t, 0, MARKS_INSTANT, "first");
	fill(&t, 0, reserve(&t, 0, MARKS_MARK_WORDS), 3, MARKS_INSTANT, "");
	slot_of(&t, 0)->head = 4ull << 32 | (uint32_t)slot_of(&t, 0)->head;
	put(&t, 0, MARKS_INSTANT, "who");
	put(&t, 0, MARKS_INSTANT, "behind");
	put(&t, 3, MARKS_INSTANT, "other");
	for (int i = 0; i < 30; i++) /* more than the reader waits for a mark in progress */
		assert_int_equal(mark_ring_read(ring, SIZE_MAX, see_later, &s), 0);
	assert_int_equal(s.n, 3);
	assert_string_equal(s.names[1], "");
	assert_string_equal(s.names[2], "other");
	assert_int_equal(s.gaps, 1);
	assert_int_equal(counts(ring).marks, 3);
	assert_int_equal(counts(ring).lost, 2);
	name_is_known = true;
	assert_int_equal(mark_ring_read(ring, SIZE_MAX, see_later, &s), 0);
	assert_int_equal(s.n, 5);
	assert_string_equal(s.names[3], "who");
	assert_string_equal(s.names[4], "behind");
	assert_int_equal(counts(ring).lost, 2);
	assert_int_equal(counts(ring).damaged, 0);
	end(&t, ring);
}

/* All rings are full: a bounded part in each call, and what the target's friends write after its end is not waited for. */
static void ended_full(void **state)
{
	struct target t = usual_target();
	struct mark_ring *ring = reader_of(&t);
	size_t each = MARKS_RING_WORDS / MARKS_MARK_WORDS, all = each * MARKS_SLOTS;
	struct seen s = {0};
	int calls = 0;

	(void)state;
	for (size_t i = 0; i < MARKS_SLOTS; i++)
		for (size_t k = 0; k < each; k++)
			put(&t, i, MARKS_INSTANT, "");
	mark_ring_end(ring);
	for (; mark_ring_has_news(ring); calls++) {
		size_t before = s.n;
		uint64_t words = counts(ring).words;

		assert_int_equal(mark_ring_read(ring, 10000, see, &s), 0);
		assert_true(s.n > before && s.n - before <= 10000);
		assert_true(counts(ring).words - words <= 17 * MARKS_RING_WORDS);
		put(&t, 5, MARKS_INSTANT, "");
	}
	/* The friend's marks have replaced some before they were read. */
	assert_int_equal(s.n + counts(ring).lost, all);
	assert_true(counts(ring).lost <= (uint64_t)calls + 1);
	assert_int_equal(counts(ring).damaged, 0);
	assert_int_equal(mark_ring_read(ring, 10000, see, &s), 0);
	assert_int_equal(s.n + counts(ring).lost, all);
	end(&t, ring);
}

/* No mark is whole, and the last one is half written: all calls find an end, and count it. */
static void ended_damaged(void **state)
{
	struct target t = usual_target();
	struct mark_ring *ring = reader_of(&t);
	struct seen s = {0};
	int calls = 0;

	(void)state;
	for (size_t i = 0; i < MARKS_SLOTS; i++) {
		memset(words_of(&t, i), 0xa5, MARKS_RING_BYTES);
		slot_of(&t, i)->head = 100ull << 32 | 0x7fffffff;
	}
	mark_ring_end(ring);
	for (; mark_ring_has_news(ring); calls++) {
		uint64_t words = counts(ring).words;

		assert_int_equal(mark_ring_read(ring, 1, see, &s), 0);
		assert_true(counts(ring).words > words);
	}
	assert_true(calls <= MARKS_SLOTS);
	assert_int_equal(s.n, 0);
	assert_int_equal(counts(ring).lost, 100 * MARKS_SLOTS);
	end(&t, ring);
	/* A target that was killed while it wrote. */
	t = usual_target();
	ring = reader_of(&t);
	put(&t, 1, MARKS_INSTANT, "whole");
	(void)reserve(&t, 1, MARKS_MARK_WORDS);
	mark_ring_end(ring);
	assert_int_equal(read_all(ring).n, 1);
	assert_false(mark_ring_has_news(ring));
	assert_int_equal(counts(ring).lost, 1);
	assert_int_equal(counts(ring).damaged, 0);
	end(&t, ring);
}

static void unread_is_lost(void **state)
{
	struct target t = usual_target();
	struct mark_ring *ring = reader_of(&t);
	struct seen s = {0};

	(void)state;
	for (int i = 0; i < 100; i++)
		put(&t, (size_t)i % 2, MARKS_INSTANT, "m");
	assert_int_equal(mark_ring_read(ring, 30, see, &s), 0);
	assert_int_equal(s.n, 30);
	mark_ring_lose(ring);
	assert_int_equal(counts(ring).lost, 70);
	assert_int_equal(read_all(ring).n, 0);
	mark_ring_lose(ring);
	assert_int_equal(counts(ring).lost, 70);
	end(&t, ring);
	/* A head that claims marks where there are no words. */
	t = usual_target();
	ring = reader_of(&t);
	put(&t, 0, MARKS_INSTANT, "m");
	assert_int_equal(read_all(ring).n, 1);
	slot_of(&t, 0)->head += 1000ull << 32;
	mark_ring_lose(ring);
	assert_int_equal(counts(ring).lost, 0);
	end(&t, ring);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_marks),
		cmocka_unit_test(goes_round),
		cmocka_unit_test(overwritten),
		cmocka_unit_test(in_progress),
		cmocka_unit_test(begins_where_it_was_handed_over),
		cmocka_unit_test(at_most),
		cmocka_unit_test(hostile),
		cmocka_unit_test(rejected),
		cmocka_unit_test(put_off),
		cmocka_unit_test(ended_full),
		cmocka_unit_test(ended_damaged),
		cmocka_unit_test(unread_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
