/* deep.c - see deep.h.
 *
 *   words   [0, DEEP_THREADS)   tid << 32 | class, at tid % DEEP_THREADS
 *           DEEP_SETTINGS       class of other threads << 32 | bytes of the smallest copy
 *           DEEP_LOST           stacks that found no room in the ring
 *
 *   record  struct deep_record, then pages from the one of the stack pointer on
 *
 * bpf_probe_read_user() gives a range as a whole or zeroes, so it is read in pieces, the last ones as small as a
 * page, up to the first page that is not there.  They begin at a page, so no page of the stack's end is lost by a
 * piece that crosses it. */
#include "perf/deep.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"

enum {
	DEEP_THREADS = 4096,
	DEEP_SETTINGS = DEEP_THREADS,
	DEEP_LOST,
	DEEP_WORDS,
	DEEP_PAGE = 4096, /* the smallest there is; larger pages are read in pieces */
	DEEP_CALM = 8,	  /* stacks in a row that fit their copies: class 0 */
	DEEP_LOWER = 64,  /* ... that fit a smaller class */
	DEEP_WAITING = 1024,
	DEEP_NEAR_MS = 5, /* between a record and its sample */
};

static const uint32_t deep_bytes[] = {0,	 64 << 10,  128 << 10, 256 << 10,
				      384 << 10, 512 << 10, 768 << 10, DEEP_MAX};

struct deep_record {
	uint64_t time;
	uint32_t tid, cpu;
	uint64_t sp;
	uint32_t len; /* bytes behind, from the page of sp */
	uint32_t room;
};
_Static_assert(sizeof(struct deep_record) == 32, "as the program writes it");

struct deep_thread {
	uint32_t tid;
	uint16_t calm;
	uint8_t class;
	bool known; /* has a class of its own */
};

struct deep {
	struct bpf_ring *ring;
	struct bpf_words words;
	int clock;
	uint8_t first; /* class of a thread that was not seen yet */
	int broken;
	struct deep_thread threads[DEEP_THREADS];
	/* Records without a sample so far, oldest first. */
	struct bpf_ring_record waiting[DEEP_WAITING];
	size_t n_waiting;
	struct deep_counts counts;
};

/* ---- the program ---- */

enum { DEEP_DATA = sizeof(struct deep_record), DEEP_PIECE = 64 << 10 };

/* Reads @bytes at r8 + r9 into the record at r7; r9 goes on. */
static void emit_piece(struct bpf_code *c, int32_t bytes, int failed)
{
	bpf_move(c, 1, 7);
	bpf_math(c, BPF_ADD, 1, DEEP_DATA);
	bpf_math_reg(c, BPF_ADD, 1, 9);
	bpf_set(c, 2, bytes);
	bpf_move(c, 3, 8);
	bpf_math_reg(c, BPF_ADD, 3, 9);
	bpf_call(c, BPF_CALL_READ_USER);
	bpf_jump(c, BPF_JNE, 0, 0, failed);
	bpf_math(c, BPF_ADD, 9, bytes);
}

/* Whole pieces, and of the last one halves down to a page.  Straight code: the verifier follows each turn of a
 * loop, and compares it with all earlier ones, which took it 40 ms. */
static void emit_pieces(struct bpf_code *c, int32_t bytes)
{
	int last = bpf_label(c), done = bpf_label(c);

	bpf_set(c, 9, 0);
	for (int32_t at = 0; at < bytes; at += DEEP_PIECE)
		emit_piece(c, DEEP_PIECE, last);
	bpf_jump(c, BPF_JA, 0, 0, done);
	bpf_here(c, last);
	/* Through memory: it becomes a number within bounds, so the verifier sees the rest once. */
	bpf_store(c, BPF_W, 7, offsetof(struct deep_record, len), 9);
	bpf_load(c, BPF_W, 9, 7, offsetof(struct deep_record, len));
	bpf_jump(c, BPF_JGT, 9, bytes - DEEP_PIECE, done);
	for (int32_t part = DEEP_PIECE / 2; part >= DEEP_PAGE; part /= 2) {
		int less = bpf_label(c);

		emit_piece(c, part, less);
		bpf_here(c, less);
	}
	bpf_here(c, done);
	bpf_store(c, BPF_W, 7, offsetof(struct deep_record, len), 9);
}

/* Copies up to @bytes; r7 is free, r8 the stack pointer, r9 the thread. */
static void emit_copy(struct bpf_code *c, const struct deep *d, uint32_t bytes, int end)
{
	int lost = bpf_label(c), submit = bpf_label(c);

	bpf_map(c, 1, bpf_ring_fd(d->ring));
	bpf_set(c, 2, (int32_t)(DEEP_DATA + bytes));
	bpf_set(c, 3, 0);
	bpf_call(c, BPF_CALL_RING_RESERVE);
	bpf_jump(c, BPF_JEQ, 0, 0, lost);
	bpf_move(c, 7, 0);
	bpf_store(c, BPF_W, 7, offsetof(struct deep_record, tid), 9);
	bpf_store(c, BPF_DW, 7, offsetof(struct deep_record, sp), 8);
	bpf_store_imm(c, BPF_W, 7, offsetof(struct deep_record, room), (int32_t)bytes);
	bpf_call(c, d->clock == CLOCK_BOOTTIME ? BPF_CALL_KTIME_BOOT_NS : BPF_CALL_KTIME_NS);
	bpf_store(c, BPF_DW, 7, offsetof(struct deep_record, time), 0);
	bpf_call(c, BPF_CALL_CPU);
	bpf_store(c, BPF_W, 7, offsetof(struct deep_record, cpu), 0);
	bpf_math(c, BPF_AND, 8, -DEEP_PAGE);
	emit_pieces(c, (int32_t)bytes);
	/* wakes the reader where the ring fills up, or the class is too small */
	bpf_set(c, 2, 2); /* BPF_RB_FORCE_WAKEUP */
	bpf_jump(c, BPF_JGE, 9, (int32_t)bytes, submit);
	bpf_map(c, 1, bpf_ring_fd(d->ring));
	bpf_set(c, 2, 0); /* BPF_RB_AVAIL_DATA */
	bpf_call(c, BPF_CALL_RING_QUERY);
	bpf_set(c, 2, 2);
	bpf_jump(c, BPF_JGE, 0, (int32_t)(bpf_ring_bytes(d->ring) / 4), submit);
	bpf_set(c, 2, 1); /* BPF_RB_NO_WAKEUP */
	bpf_here(c, submit);
	bpf_move(c, 1, 7);
	bpf_call(c, BPF_CALL_RING_SUBMIT);
	bpf_jump(c, BPF_JA, 0, 0, end);
	bpf_here(c, lost);
	bpf_word(c, &d->words, DEEP_LOST, end);
	bpf_set(c, 1, 1);
	bpf_add_atomic(c, 0, 0, 1);
	bpf_jump(c, BPF_JA, 0, 0, end);
}

static void low_half(struct bpf_code *c, int reg)
{
	bpf_math(c, BPF_LSH, reg, 32);
	bpf_math(c, BPF_RSH, reg, 32);
}

static void emit_part(struct bpf_code *c, void *arg, bool in_kernel)
{
	const struct deep *d = arg;
	int end = bpf_label(c), known = bpf_label(c), chosen = bpf_label(c);

	bpf_user_regs(c, 7, 8, in_kernel, end);
	bpf_move(c, 1, 8);
	bpf_math(c, BPF_AND, 1, 7);
	bpf_jump(c, BPF_JNE, 1, 0, end);
	bpf_call(c, BPF_CALL_PID_TGID);
	bpf_move(c, 9, 0);
	low_half(c, 9);
	/* r7: the class of the thread */
	bpf_move(c, 1, 9);
	bpf_math(c, BPF_AND, 1, DEEP_THREADS - 1);
	bpf_word_reg(c, &d->words, 1, end);
	bpf_load(c, BPF_DW, 7, 0, 0);
	bpf_move(c, 1, 7);
	bpf_math(c, BPF_RSH, 1, 32);
	bpf_jump_reg(c, BPF_JEQ, 1, 9, known);
	bpf_word(c, &d->words, DEEP_SETTINGS, end);
	bpf_load(c, BPF_DW, 7, 0, 0);
	bpf_math(c, BPF_RSH, 7, 32);
	bpf_jump(c, BPF_JA, 0, 0, chosen);
	bpf_here(c, known);
	low_half(c, 7);
	bpf_here(c, chosen);
	bpf_jump(c, BPF_JEQ, 7, 0, end);
	/* Is there stack behind the copy? */
	bpf_word(c, &d->words, DEEP_SETTINGS, end);
	bpf_load(c, BPF_DW, 3, 0, 0);
	low_half(c, 3);
	bpf_math_reg(c, BPF_ADD, 3, 8);
	bpf_move(c, 1, 10);
	bpf_math(c, BPF_ADD, 1, -16);
	bpf_set(c, 2, 8);
	bpf_call(c, BPF_CALL_READ_USER);
	bpf_jump(c, BPF_JNE, 0, 0, end);
	for (int i = 1; i < (int)ARRAY_SIZE(deep_bytes); i++) {
		int other = bpf_label(c);

		bpf_jump(c, BPF_JNE, 7, i, other);
		emit_copy(c, d, deep_bytes[i], end);
		bpf_here(c, other);
	}
	bpf_here(c, end);
}

struct bpf_part deep_part(struct deep *d)
{
	return (struct bpf_part){.name = "deep stacks", .emit = emit_part, .arg = d};
}

/* ---- records ---- */

static void drop_waiting(struct deep *d, size_t n)
{
	for (size_t i = 0; i < n; i++)
		bpf_ring_put(d->ring, d->waiting[i].position);
	d->counts.unused += n;
	d->n_waiting -= n;
	memmove(d->waiting, d->waiting + n, d->n_waiting * sizeof(d->waiting[0]));
}

static void read_records(struct deep *d)
{
	struct bpf_ring_record record;

	while (!d->broken) {
		int r = bpf_ring_next(d->ring, &record);

		if (r < 0)
			d->broken = r;
		if (r != 0)
			break;
		if (record.len < sizeof(struct deep_record)) {
			bpf_ring_put(d->ring, record.position);
			continue;
		}
		if (d->n_waiting == DEEP_WAITING)
			drop_waiting(d, 1);
		d->waiting[d->n_waiting++] = record;
	}
}

static const struct deep_record *record_of(const struct bpf_ring_record *record)
{
	return record->data;
}

/* The ends of the copy are the same, and its stack pointer: the record is of this sample. */
static bool is_of(const struct bpf_ring_record *record, const struct deep_sample *s,
		  struct deep_stack *ret)
{
	enum { COMPARED = 256 };
	const struct deep_record *head = record_of(record);
	uint64_t apart = head->time < s->time ? s->time - head->time : head->time - s->time;
	uint32_t before = (uint32_t)(s->sp & (DEEP_PAGE - 1)), len = head->len, n;
	const uint8_t *stack = (const uint8_t *)(head + 1) + before;

	if (head->tid != s->tid || head->sp != s->sp || apart > DEEP_NEAR_MS * NSEC_PER_MSEC ||
	    len > record->len - sizeof(*head) || len < before || len - before <= s->copy_len)
		return false;
	n = (uint32_t)min_u64(s->copy_len, COMPARED);
	if (memcmp(stack, s->copy, n) ||
	    memcmp(stack + s->copy_len - n, s->copy + s->copy_len - n, n))
		return false;
	*ret = (struct deep_stack){
		.stack = stack,
		.len = len - before,
		.full = len == head->room,
		.position = record->position,
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
	atomic_store_explicit(&d->words.at[t->tid % DEEP_THREADS], (uint64_t)t->tid << 32 | class,
			      memory_order_relaxed);
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
	read_records(d);
	for (size_t i = 0; i < d->n_waiting; i++) {
		const struct bpf_ring_record found = d->waiting[i];

		if (!is_of(&found, s, ret))
			continue;
		d->n_waiting--;
		memmove(d->waiting + i, d->waiting + i + 1,
			(d->n_waiting - i) * sizeof(d->waiting[0]));
		d->counts.copied++;
		if (ret->full)
			outgrown(d, s->tid, record_of(&found)->room);
		return true;
	}
	return false;
}

void deep_put(struct deep *d, uint64_t position)
{
	bpf_ring_put(d->ring, position);
}

int deep_expire(struct deep *d, uint64_t now)
{
	size_t n = 0;

	read_records(d);
	while (n < d->n_waiting &&
	       record_of(&d->waiting[n])->time + DEEP_KEEP_MS * NSEC_PER_MSEC < now)
		n++;
	if (n)
		drop_waiting(d, n);
	return d->broken;
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
	if (whole && used <= room / 2) {
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
	atomic_store_explicit(&d->words.at[DEEP_SETTINGS], (uint64_t)d->first << 32 | bytes,
			      memory_order_relaxed);
}

void deep_count(const struct deep *d, struct deep_counts *ret_counts)
{
	*ret_counts = d->counts;
	ret_counts->lost = atomic_load_explicit(&d->words.at[DEEP_LOST], memory_order_relaxed);
}

/* ---- life cycle ---- */

/* The inode is a constant: PROC_PID_INIT_INO, the kernel's include/linux/proc_ns.h. */
static bool in_first_pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) < 0 || st.st_ino == 0xeffffffc;
}

int deep_new(int clock, size_t n_cpus, struct deep **ret_deep)
{
	enum { PER_CPU = 4 << 20, LEAST = 16 << 20, MOST = 64 << 20 };
	struct deep *d;
	int r;

	if (clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME)
		return fail(-EINVAL);
	if (!in_first_pid_namespace())
		return fail(-EXDEV);
	d = calloc(1, sizeof(*d));
	if (!d)
		return fail(-ENOMEM);
	d->words.fd = -1;
	d->clock = clock;
	r = bpf_ring_new(min_u64(max_u64(n_cpus * PER_CPU, LEAST), MOST), &d->ring);
	if (r >= 0)
		r = bpf_words_new(DEEP_WORDS, &d->words);
	if (r < 0) {
		(void)deep_free(d);
		return fail(r);
	}
	deep_set_room(d, 65528);
	*ret_deep = d;
	return 0;
}

struct deep *deep_free(struct deep *d)
{
	if (!d)
		return NULL;
	if (d->words.at) {
		struct deep_counts counts;

		deep_count(d, &counts);
		log_verbose("deep stacks: %lu copied at the sample, %lu without room in the ring, "
			    "%lu without a sample",
			    counts.copied, counts.lost, counts.unused);
	}
	d->ring = bpf_ring_free(d->ring);
	bpf_words_deinit(&d->words);
	free(d);
	return NULL;
}

int deep_fd(const struct deep *d)
{
	return bpf_ring_fd(d->ring);
}
