/* python-stack.c - see python-stack.h.
 *
 *   words   [0, PROCESSES)  tgid << 32 | minor version, at tgid % PROCESSES
 *           .. + PROCESSES  address of _PyRuntime.interpreters.main
 *           .. + PROCESSES  offsets: threads, next, native id, frame; 16 bits each
 *           .. + THREADS    the thread state of the last sample, at tid % THREADS: tried first
 *
 *   interpreter ─► threads.head ─► thread state ─► next ..      the one with native_thread_id == tid
 *   3.11, 3.12: thread state ─► _PyCFrame ─► current_frame      3.13: thread state ─► current_frame
 *
 * The offsets of a frame are those of symbols/python.c.  All pointers are the process's: a read that fails ends the
 * stack, and each loop has a bound. */
#include "perf/python-stack.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/error.h"

enum {
	PROCESSES = 512,
	THREADS = 4096,
	MAIN_AT = PROCESSES,
	OFFSETS_AT = 2 * PROCESSES,
	THREADS_AT = 3 * PROCESSES,
	WORDS = THREADS_AT + THREADS,
	SEARCH_MAX = 256, /* thread states of a process */
	FRAME_BYTES = 8 * PYTHON_STACK_WORDS,
	FRAME_SIZE = 72, /* up to the locals */
	WAITING = 2048,
	NEAR_MS = 5, /* between a record and its sample */
	/* on the program's stack; bpf_word() has the first word */
	AT_TGID = -16,
	AT_SP = -24,
	AT_MINOR = -32,
	AT_MAIN = -40,
	AT_OFFSETS = -48,
	AT_WORD = -56,
	AT_STATE = -64, /* a thread state */
	AT_FOUND = -72, /* is it the thread's? */
	AT_TID = -80,
	AT_NEXT = -88,	 /* the next frame */
	AT_RECORD = -96, /* of the ring */
	AT_LEN = -104,	 /* of the frames in it */
	/* on the stack of a loop's body */
	AT_VALUE = -8,
	AT_FRAME = -80,
};

struct python_record {
	uint64_t time, sp;
	uint32_t tid;
	uint32_t len; /* bytes of frames behind */
};
_Static_assert(sizeof(struct python_record) == 24, "as the program writes it");

struct python_stacks {
	struct bpf_ring *ring;
	struct bpf_words words;
	int clock;
	bool broken;
	/* Records without a sample so far, oldest first. */
	struct bpf_ring_record waiting[WAITING];
	size_t n_waiting;
};

/* ---- the program ---- */

enum { FIELD_THREADS, FIELD_NEXT, FIELD_NATIVE, FIELD_FRAME };

/* Reads @bytes of the process at the address in r3 to [r10 + @at]; jumps to @none where they are not there. */
static void read_user(struct bpf_code *c, int at, int bytes, int none)
{
	bpf_move(c, 1, 10);
	bpf_math(c, BPF_ADD, 1, at);
	bpf_set(c, 2, bytes);
	bpf_call(c, BPF_CALL_READ_USER);
	bpf_jump(c, BPF_JNE, 0, 0, none);
}

/* r7 = the word of the process at r7 + offset number @field; @frame: the register with the program's r10. */
static void follow(struct bpf_code *c, int frame, int field, int none)
{
	bpf_load(c, BPF_DW, 3, frame, AT_OFFSETS);
	bpf_math(c, BPF_RSH, 3, 16 * field);
	bpf_math(c, BPF_AND, 3, 0xffff);
	bpf_math_reg(c, BPF_ADD, 3, 7);
	read_user(c, frame == 10 ? AT_WORD : AT_VALUE, 8, none);
	bpf_load(c, BPF_DW, 7, 10, frame == 10 ? AT_WORD : AT_VALUE);
}

/* r7 = word @base + r1 % @n of the table; r1 is kept nowhere. */
static void table_word(struct bpf_code *c, const struct python_stacks *s, int base, int n, int none)
{
	bpf_math(c, BPF_AND, 1, n - 1);
	bpf_math(c, BPF_ADD, 1, base);
	bpf_word_reg(c, &s->words, 1, none);
	bpf_load(c, BPF_DW, 7, 0, 0);
}

/* What is known of the process into the stack; r0 has tgid and tid. */
static void emit_process(struct bpf_code *c, const struct python_stacks *s, int end)
{
	bpf_math(c, BPF_RSH, 0, 32);
	bpf_store(c, BPF_DW, 10, AT_TGID, 0);
	bpf_move(c, 1, 0);
	table_word(c, s, 0, PROCESSES, end);
	bpf_move(c, 1, 7);
	bpf_math(c, BPF_RSH, 1, 32);
	bpf_load(c, BPF_DW, 2, 10, AT_TGID);
	bpf_jump_reg(c, BPF_JNE, 1, 2, end);
	bpf_math(c, BPF_AND, 7, 0xff);
	bpf_store(c, BPF_DW, 10, AT_MINOR, 7);
	bpf_move(c, 1, 2);
	table_word(c, s, MAIN_AT, PROCESSES, end);
	bpf_store(c, BPF_DW, 10, AT_MAIN, 7);
	bpf_load(c, BPF_DW, 1, 10, AT_TGID);
	table_word(c, s, OFFSETS_AT, PROCESSES, end);
	bpf_store(c, BPF_DW, 10, AT_OFFSETS, 7);
}

/* A turn of the search: is the thread state at AT_STATE the one of AT_TID?  Else the next one. */
static void search_turn(struct bpf_code *c, const void *arg)
{
	int end = bpf_label(c), next = bpf_label(c);

	(void)arg;
	bpf_move(c, 6, 2);
	bpf_load(c, BPF_DW, 8, 6, AT_STATE);
	bpf_jump(c, BPF_JEQ, 8, 0, end);
	bpf_move(c, 7, 8);
	follow(c, 6, FIELD_NATIVE, end);
	bpf_load(c, BPF_DW, 1, 6, AT_TID);
	bpf_jump_reg(c, BPF_JNE, 7, 1, next);
	bpf_store_imm(c, BPF_DW, 6, AT_FOUND, 1);
	bpf_return(c, 1);
	bpf_here(c, next);
	bpf_move(c, 7, 8);
	follow(c, 6, FIELD_NEXT, end);
	bpf_store(c, BPF_DW, 6, AT_STATE, 7);
	bpf_return(c, 0);
	bpf_here(c, end);
	bpf_return(c, 1);
}

/* r7 = the thread state of the thread in r9.  Uses r8. */
static void emit_thread(struct bpf_code *c, const struct python_stacks *s, int end)
{
	int search = bpf_label(c), keep = bpf_label(c);

	bpf_move(c, 1, 9);
	table_word(c, s, THREADS_AT, THREADS, end);
	bpf_move(c, 8, 7);
	bpf_jump(c, BPF_JEQ, 7, 0, search);
	follow(c, 10, FIELD_NATIVE, search);
	bpf_jump_reg(c, BPF_JEQ, 7, 9, keep);
	bpf_here(c, search);
	bpf_load(c, BPF_DW, 3, 10, AT_MAIN);
	read_user(c, AT_WORD, 8, end);
	bpf_load(c, BPF_DW, 7, 10, AT_WORD);
	follow(c, 10, FIELD_THREADS, end);
	bpf_store(c, BPF_DW, 10, AT_STATE, 7);
	bpf_store(c, BPF_DW, 10, AT_TID, 9);
	bpf_store_imm(c, BPF_DW, 10, AT_FOUND, 0);
	bpf_repeat(c, SEARCH_MAX, search_turn, NULL);
	bpf_load(c, BPF_DW, 1, 10, AT_FOUND);
	bpf_jump(c, BPF_JEQ, 1, 0, end);
	bpf_move(c, 1, 9);
	table_word(c, s, THREADS_AT, THREADS, end);
	bpf_load(c, BPF_DW, 8, 10, AT_STATE);
	bpf_store(c, BPF_DW, 0, 0, 8);
	bpf_here(c, keep);
	bpf_move(c, 7, 8);
}

/* r7: the innermost frame, of the thread state in r7. */
static void emit_innermost(struct bpf_code *c, int end)
{
	int last = bpf_label(c), old = bpf_label(c);

	follow(c, 10, FIELD_FRAME, end);
	bpf_load(c, BPF_DW, 1, 10, AT_MINOR);
	bpf_jump(c, BPF_JGE, 1, 13, last);
	bpf_move(
		c, 3,
		7); /* _PyCFrame: current_frame is its first word, behind use_tracing before 3.12 */
	bpf_jump(c, BPF_JGE, 1, 12, old);
	bpf_math(c, BPF_ADD, 3, 8);
	bpf_here(c, old);
	read_user(c, AT_WORD, 8, end);
	bpf_load(c, BPF_DW, 7, 10, AT_WORD);
	bpf_here(c, last);
}

/* The words of the frame at AT_FRAME: r2 its code, r3 its caller's frame, r4 owner and is_entry.  r6: the program's r10. */
static void emit_words(struct bpf_code *c)
{
	int newer = bpf_label(c), done = bpf_label(c);

	bpf_load(c, BPF_DW, 1, 6, AT_MINOR);
	bpf_jump(c, BPF_JGE, 1, 12, newer);
	bpf_load(c, BPF_DW, 2, 10, AT_FRAME + 32);
	bpf_load(c, BPF_DW, 3, 10, AT_FRAME + 48);
	bpf_load(c, BPF_H, 4, 10, AT_FRAME + 68);
	bpf_jump(c, BPF_JA, 0, 0, done);
	bpf_here(c, newer);
	bpf_load(c, BPF_DW, 2, 10, AT_FRAME);
	bpf_load(c, BPF_DW, 3, 10, AT_FRAME + 8);
	bpf_load(c, BPF_B, 4, 10, AT_FRAME + 70);
	bpf_math(c, BPF_LSH, 4, 8);
	bpf_here(c, done);
	bpf_math(c, BPF_LSH, 4, 48);
	bpf_math(c, BPF_LSH, 3, 16);
	bpf_math(c, BPF_RSH, 3, 16);
}

enum { RECORD = sizeof(struct python_record), FRAMES_BYTES = PYTHON_STACK_MAX * FRAME_BYTES };

/* A turn: the frame at AT_NEXT into the record. */
static void frame_turn(struct bpf_code *c, const void *arg)
{
	int end = bpf_label(c);

	(void)arg;
	bpf_move(c, 6, 2);
	bpf_move(c, 9, 1);
	bpf_jump(c, BPF_JGE, 9, PYTHON_STACK_MAX, end);
	bpf_math(c, BPF_MUL, 9, FRAME_BYTES);
	bpf_load(c, BPF_DW, 7, 6, AT_NEXT);
	bpf_jump(c, BPF_JEQ, 7, 0, end);
	bpf_move(c, 3, 7);
	read_user(c, AT_FRAME, FRAME_SIZE, end);
	emit_words(c);
	bpf_load(c, BPF_DW, 1, 6, AT_RECORD);
	bpf_math_reg(c, BPF_ADD, 1, 9);
	bpf_store(c, BPF_DW, 1, RECORD, 7);
	bpf_store(c, BPF_DW, 1, RECORD + 8, 2);
	bpf_store(c, BPF_DW, 6, AT_NEXT, 3);
	bpf_math_reg(c, BPF_OR, 3, 4);
	bpf_store(c, BPF_DW, 1, RECORD + 16, 3);
	bpf_math(c, BPF_ADD, 9, FRAME_BYTES);
	bpf_store(c, BPF_DW, 6, AT_LEN, 9);
	bpf_return(c, 0);
	bpf_here(c, end);
	bpf_return(c, 1);
}

/* The frames from r7 on, of the thread in r9. */
static void emit_frames(struct bpf_code *c, const struct python_stacks *s, int end)
{
	bpf_map(c, 1, bpf_ring_fd(s->ring));
	bpf_set(c, 2, RECORD + FRAMES_BYTES);
	bpf_set(c, 3, 0);
	bpf_call(c, BPF_CALL_RING_RESERVE);
	bpf_jump(c, BPF_JEQ, 0, 0, end);
	bpf_move(c, 8, 0);
	bpf_store(c, BPF_W, 8, offsetof(struct python_record, tid), 9);
	bpf_load(c, BPF_DW, 1, 10, AT_SP);
	bpf_store(c, BPF_DW, 8, offsetof(struct python_record, sp), 1);
	bpf_call(c, s->clock == CLOCK_BOOTTIME ? BPF_CALL_KTIME_BOOT_NS : BPF_CALL_KTIME_NS);
	bpf_store(c, BPF_DW, 8, offsetof(struct python_record, time), 0);
	bpf_store(c, BPF_DW, 10, AT_NEXT, 7);
	bpf_store(c, BPF_DW, 10, AT_RECORD, 8);
	bpf_store_imm(c, BPF_DW, 10, AT_LEN, 0);
	bpf_repeat(c, PYTHON_STACK_MAX, frame_turn, NULL);
	bpf_load(c, BPF_DW, 1, 10, AT_LEN);
	bpf_store(c, BPF_W, 8, offsetof(struct python_record, len), 1);
	bpf_move(c, 1, 8);
	bpf_set(c, 2, 1); /* BPF_RB_NO_WAKEUP: the sample's ring wakes the reader */
	bpf_call(c, BPF_CALL_RING_SUBMIT);
}

static void emit_part(struct bpf_code *c, void *arg, bool in_kernel)
{
	const struct python_stacks *s = arg;
	int end = bpf_label(c);

	bpf_user_regs(c, 7, 8, in_kernel, end);
	bpf_store(c, BPF_DW, 10, AT_SP, 8);
	bpf_call(c, BPF_CALL_PID_TGID);
	bpf_move(c, 9, 0);
	bpf_math(c, BPF_LSH, 9, 32);
	bpf_math(c, BPF_RSH, 9, 32);
	emit_process(c, s, end);
	emit_thread(c, s, end);
	emit_innermost(c, end);
	emit_frames(c, s, end);
	bpf_here(c, end);
}

struct bpf_part python_stacks_part(struct python_stacks *s)
{
	return (struct bpf_part){.name = "Python frames", .emit = emit_part, .arg = s};
}

/* ---- records ---- */

static void drop_waiting(struct python_stacks *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		bpf_ring_put(s->ring, s->waiting[i].position);
	s->n_waiting -= n;
	memmove(s->waiting, s->waiting + n, s->n_waiting * sizeof(s->waiting[0]));
}

static void read_records(struct python_stacks *s)
{
	struct bpf_ring_record record;

	while (!s->broken) {
		int r = bpf_ring_next(s->ring, &record);

		s->broken = r < 0;
		if (r != 0)
			break;
		if (record.len < sizeof(struct python_record)) {
			bpf_ring_put(s->ring, record.position);
			continue;
		}
		if (s->n_waiting == WAITING)
			drop_waiting(s, 1);
		s->waiting[s->n_waiting++] = record;
	}
}

static const struct python_record *record_of(const struct bpf_ring_record *record)
{
	return record->data;
}

bool python_stacks_find(struct python_stacks *s, uint32_t tid, uint64_t sp, uint64_t time,
			struct python_stack *ret)
{
	read_records(s);
	for (size_t i = 0; i < s->n_waiting; i++) {
		const struct bpf_ring_record found = s->waiting[i];
		const struct python_record *head = record_of(&found);
		uint64_t apart = head->time < time ? time - head->time : head->time - time;

		if (head->tid != tid || head->sp != sp || apart > NEAR_MS * NSEC_PER_MSEC ||
		    head->len > found.len - sizeof(*head) || head->len % FRAME_BYTES)
			continue;
		*ret = (struct python_stack){(const uint64_t *)(head + 1), head->len / FRAME_BYTES,
					     found.position};
		s->n_waiting--;
		memmove(s->waiting + i, s->waiting + i + 1,
			(s->n_waiting - i) * sizeof(s->waiting[0]));
		return true;
	}
	return false;
}

void python_stacks_put(struct python_stacks *s, uint64_t position)
{
	bpf_ring_put(s->ring, position);
}

void python_stacks_expire(struct python_stacks *s, uint64_t now)
{
	size_t n = 0;

	read_records(s);
	while (n < s->n_waiting &&
	       record_of(&s->waiting[n])->time + PYTHON_STACK_KEEP_MS * NSEC_PER_MSEC < now)
		n++;
	if (n)
		drop_waiting(s, n);
}

/* ---- processes ---- */

static void set_word(struct python_stacks *s, size_t index, uint64_t value)
{
	atomic_store_explicit(&s->words.at[index], value, memory_order_release);
}

void python_stacks_add(struct python_stacks *s, uint32_t tgid, const struct python_threads *t)
{
	size_t at = tgid % PROCESSES;

	set_word(s, at, 0); /* no sample sees half of it */
	set_word(s, MAIN_AT + at, t->interpreter);
	set_word(s, OFFSETS_AT + at,
		 t->threads | (uint64_t)t->next << 16 | (uint64_t)t->native << 32 |
			 (uint64_t)t->frame << 48);
	set_word(s, at, (uint64_t)tgid << 32 | (t->minor & 0xff));
}

/* ---- life cycle ---- */

/* The inode is a constant: PROC_PID_INIT_INO, the kernel's include/linux/proc_ns.h. */
static bool in_first_pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) < 0 || st.st_ino == 0xeffffffc;
}

int python_stacks_new(int clock, size_t n_cpus, struct python_stacks **ret_stacks)
{
	enum { PER_CPU = 1 << 20, LEAST = 4 << 20, MOST = 32 << 20 };
	struct python_stacks *s;
	int r;

	if (clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME)
		return fail(-EINVAL);
	if (!in_first_pid_namespace())
		return fail(-EXDEV);
	s = calloc(1, sizeof(*s));
	if (!s)
		return fail(-ENOMEM);
	s->words.fd = -1;
	s->clock = clock;
	r = bpf_ring_new(min_u64(max_u64(n_cpus * PER_CPU, LEAST), MOST), &s->ring);
	if (r >= 0)
		r = bpf_words_new(WORDS, &s->words);
	if (r < 0) {
		(void)python_stacks_free(s);
		return fail(r);
	}
	*ret_stacks = s;
	return 0;
}

struct python_stacks *python_stacks_free(struct python_stacks *s)
{
	if (!s)
		return NULL;
	s->ring = bpf_ring_free(s->ring);
	bpf_words_deinit(&s->words);
	free(s);
	return NULL;
}
