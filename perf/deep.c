/* deep.c - see deep.h. */
#include "perf/deep.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "perf/sample-records.h"

enum {
	DEEP_CALM = 8,	 /* stacks in a row that fit their copies: class 0 */
	DEEP_LOWER = 64, /* ... that fit a smaller class */
};

static const uint32_t deep_bytes[] = {0,
				      DEEP_KIB_1 << 10,
				      DEEP_KIB_2 << 10,
				      DEEP_KIB_3 << 10,
				      DEEP_KIB_4 << 10,
				      DEEP_KIB_5 << 10,
				      DEEP_KIB_6 << 10,
				      DEEP_MAX};
_Static_assert(DEEP_KIB_7 << 10 == DEEP_MAX, "the largest class");

struct deep_thread {
	uint32_t tid;
	uint16_t calm;
	uint8_t class;
	bool known; /* has a class of its own */
};

struct deep {
	struct sample_records records;
	struct bpf_memory memory;
	struct deep_table *table;    /* in it */
	struct deep_table own_table; /* before it */
	uint8_t first;		     /* class of a thread that was not seen yet */
	struct deep_thread threads[DEEP_THREADS];
	uint64_t copied;
};

/* ---- records ---- */

/* The ends of the copy are the same: it is the sample's.  @room: bytes that its class allows. */
static bool is_of(const struct at_sample_record *head, size_t room, const struct deep_sample *s,
		  struct deep_stack *ret)
{
	enum { COMPARED = 256 };
	uint32_t before = (uint32_t)(s->sp & (DEEP_PAGE - 1)), n;
	const uint8_t *stack = (const uint8_t *)(head + 1) + before;

	if (head->len < before || head->len - before <= s->copy_len)
		return false;
	n = (uint32_t)min_u64(s->copy_len, COMPARED);
	if (memcmp(stack, s->copy, n) ||
	    memcmp(stack + s->copy_len - n, s->copy + s->copy_len - n, n))
		return false;
	*ret = (struct deep_stack){
		.stack = stack,
		.len = head->len - before,
		.full = head->len == room,
	};
	return true;
}

static uint8_t class_of(uint64_t used)
{
	uint8_t class = 1;

	while (class + 1u < ARRAY_SIZE(deep_bytes) && deep_bytes[class] < used)
		class ++;
	return class;
}

static void set_class(struct deep *d, struct deep_thread *t, uint8_t class)
{
	t->class = class;
	t->known = true;
	t->calm = 0;
	__atomic_store_n(&d->table->threads[t->tid % DEEP_THREADS], (uint64_t)t->tid << 32 | class,
			 __ATOMIC_RELAXED);
}

/* Raises the class of a thread at once, before its stack is unwound. */
static void outgrown(struct deep *d, uint32_t tid, uint32_t room)
{
	struct deep_thread *t = &d->threads[tid % DEEP_THREADS];

	if (t->tid != tid)
		*t = (struct deep_thread){.tid = tid};
	if (room < DEEP_MAX && (!t->known || (t->class && deep_bytes[t->class] <= room)))
		set_class(d, t, (uint8_t)(class_of(room) + 1));
}

bool deep_find(struct deep *d, const struct deep_sample *s, struct deep_stack *ret)
{
	const struct sample_key key = {.tid = s->tid, .sp = s->sp, .time = s->time};
	const struct at_sample_record *head;

	for (size_t i = 0; (head = records_find(&d->records, &key, &i)); i++) {
		size_t room = d->records.waiting[i].len - sizeof(*head);

		if (!is_of(head, room, s, ret))
			continue;
		ret->position = records_take(&d->records, i);
		d->copied++;
		if (ret->full)
			outgrown(d, s->tid, (uint32_t)room);
		return true;
	}
	return false;
}

void deep_put(struct deep *d, uint64_t position)
{
	bpf_ring_put(d->records.ring, position);
}

int deep_expire(struct deep *d, uint64_t now)
{
	records_expire(&d->records, now - DEEP_KEEP_MS * NSEC_PER_MSEC);
	return d->records.broken;
}

/* ---- classes ---- */

void deep_learn(struct deep *d, uint32_t tid, uint64_t used, uint32_t room, bool whole)
{
	struct deep_thread *t = &d->threads[tid % DEEP_THREADS];
	uint8_t now, wanted;

	if (t->tid != tid)
		*t = (struct deep_thread){.tid = tid};
	now = t->known ? t->class : d->first;
	/* One that nearly fills its copies is about to grow beyond them. */
	if (whole && used <= room - room / 8) {
		if ((!t->known || now) && ++t->calm >= DEEP_CALM)
			set_class(d, t, 0);
		return;
	}
	/* a quarter more: the next stack may be deeper, and begins inside a page */
	wanted = class_of(max_u64(used, room) * 5 / 4 + DEEP_PAGE);
	if (!whole && now && wanted <= now && used >= deep_bytes[now] / 2)
		wanted = (uint8_t)min_u64(now + 1u, ARRAY_SIZE(deep_bytes) - 1);
	if (!t->known || wanted > now || ++t->calm >= DEEP_LOWER)
		set_class(d, t, wanted);
	else if (wanted == now)
		t->calm = 0;
}

void deep_set_room(struct deep *d, uint32_t bytes)
{
	d->first = class_of(4ull * bytes);
	__atomic_store_n(&d->table->room, bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&d->table->first, d->first, __ATOMIC_RELAXED);
}

void deep_count(const struct deep *d, struct deep_counts *ret_counts)
{
	*ret_counts = (struct deep_counts){
		.copied = d->copied,
		.lost = __atomic_load_n(&d->table->lost, __ATOMIC_RELAXED),
		.unused = d->records.unused,
	};
}

/* ---- life cycle ---- */

int deep_new(struct deep **ret_deep)
{
	struct deep *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return fail(-ENOMEM);
	d->memory.fd = -1;
	d->table = &d->own_table;
	r = records_init(&d->records);
	if (r < 0) {
		free(d);
		return trace(r);
	}
	deep_set_room(d, 65528);
	*ret_deep = d;
	return 0;
}

size_t deep_ring_bytes(size_t n_cpus)
{
	enum { PER_CPU = 4 << 20, LEAST = 16 << 20, MOST = 64 << 20 };

	return round_up_power_of_two(min_u64(max_u64(n_cpus * PER_CPU, LEAST), MOST));
}

int deep_begin(struct deep *d, int ring_fd, size_t ring_bytes, int table_fd)
{
	int r = bpf_memory_open(table_fd, sizeof(*d->table), &d->memory);

	if (r < 0) {
		(void)fd_close(ring_fd);
		return trace(r);
	}
	r = bpf_ring_open(ring_fd, ring_bytes, &d->records.ring);
	if (r < 0)
		return trace(r);
	d->table = d->memory.at;
	memcpy(d->table->threads, d->own_table.threads, sizeof(d->table->threads));
	deep_set_room(d, d->own_table.room);
	return 0;
}

struct deep *deep_free(struct deep *d)
{
	if (!d)
		return NULL;
	if (d->records.ring) {
		struct deep_counts counts;

		deep_count(d, &counts);
		log_verbose("deep stacks: %lu copied at the sample, %lu without room in the ring, "
			    "%lu without a sample",
			    counts.copied, counts.lost, counts.unused);
	}
	records_deinit(&d->records);
	bpf_memory_deinit(&d->memory);
	free(d);
	return NULL;
}

void deep_set_clock(struct deep *d, int clock)
{
	records_set_clock(&d->records, clock);
}

int deep_fd(const struct deep *d)
{
	return d->records.ring ? bpf_ring_fd(d->records.ring) : -1;
}
