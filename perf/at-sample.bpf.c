/* at-sample.bpf.c - runs in the kernel at each sample, in the interrupt that takes it, before its record is published.
 *
 *   deep stacks: is the thread's stack longer than the kernel's copy? ─► whole pages from the stack pointer up, as many as
 *     its class allows or the stack has ─► deep_ring
 *   CPython: a process with a known interpreter ─► its thread states ─► the one of the sampled thread ─► its frames,
 *     innermost first ─► python_ring; the same for PHP and Ruby, and for the stacks of Haskell and Go in the heap
 *
 * Compiled for BPF and built into perfwind; bpf.c loads it.  It reads memory of the sampled task only: a read that fails ends
 * the copy, each loop has a bound. */
#include <linux/bpf.h>

#include <linux/bpf_perf_event.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "base/go-layout.h"
#include "base/php-generator.h"
#include "base/python-sign.h"
#include "base/sign-mix.h"
#include "perf/at-sample-records.h"

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef _Bool bool;

char program_license[] SEC("license") = "Dual BSD/GPL"; /* bpf_probe_read_user() asks for it */

const volatile struct at_sample_settings settings = {};

#define TABLE(name, type_of)                       \
	struct {                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);  \
		__uint(map_flags, BPF_F_MMAPABLE); \
		__uint(max_entries, 1);            \
		__type(key, u32);                  \
		__type(value, type_of);            \
	} name SEC(".maps")
#define RING(name)                                  \
	struct {                                    \
		__uint(type, BPF_MAP_TYPE_RINGBUF); \
		__uint(max_entries, 4096);          \
	} name SEC(".maps")

TABLE(deep_table, struct deep_table);
RING(deep_ring);
TABLE(python_table, struct python_table);
RING(python_ring);

/* ---- the sampled thread ---- */

struct thread {
	u32 tgid, tid;
	u64 pc, sp, bp; /* of its user side */
	u64 r14;	/* x86-64 */
};

/* asm/ptrace.h: the word that has the mode. */
#if defined(__TARGET_ARCH_x86)
#define MODE(regs) (regs)->cs
#define R14(regs) (regs)->r14
enum { MODE_MASK = 3, MODE_USER = 3 };
#elif defined(__TARGET_ARCH_arm64)
#define MODE(regs) ((const struct user_pt_regs *)(regs))->pstate
#define R14(regs) 0
enum { MODE_MASK = 15, MODE_USER = 0 };
#endif

/* false: it has no user side, or is in the kernel and this is not known there. */
static __always_inline bool look(struct bpf_perf_event_data *ctx, struct thread *t)
{
	u64 ids = bpf_get_current_pid_tgid();

	t->tgid = ids >> 32;
	t->tid = (u32)ids;
	if ((MODE(&ctx->regs) & MODE_MASK) == MODE_USER) {
		t->pc = PT_REGS_IP(&ctx->regs);
		t->sp = PT_REGS_SP(&ctx->regs);
		t->bp = PT_REGS_FP(&ctx->regs);
		t->r14 = R14(&ctx->regs);
		barrier(); /* keeps the loads apart from the ones below: an instruction has one kind of pointer */
		return 1;
	}
	if (settings.in_kernel) {
		const struct pt_regs *regs =
			(const void *)bpf_task_pt_regs(bpf_get_current_task_btf());

		/* 16 bits: newer kernels have a union of that size there. */
		if ((*(const volatile u16 *)&MODE(regs) & MODE_MASK) != MODE_USER)
			return 0;
		t->pc = PT_REGS_IP(regs);
		t->sp = PT_REGS_SP(regs);
		t->bp = PT_REGS_FP(regs);
		t->r14 = R14(regs);
		return 1;
	}
	return 0;
}

/* ---- stacks ---- */

enum { PIECE = 64 << 10 };

/* Reads pieces of the stack at @from into @data, and of the last one halves down to a page: bpf_probe_read_user() gives a
 * range as a whole or not at all.  When the time is over and there is more than the kernel's copy has, no further piece begins.
 * Straight code: the verifier follows each turn of a loop and compares it with all earlier ones. */
static __always_inline void read_pieces(const struct deep_table *table, struct at_sample_record *r,
					u64 from, const u32 bytes)
{
	volatile u32 *len = &r->len;
	u8 *data = (u8 *)(r + 1);
	u32 at;

	r->goes_on = 1;
#pragma clang loop unroll(full)
	for (at = 0; at < bytes; at += PIECE) {
		*len = at;
		if (at >= table->room + DEEP_PAGE && bpf_ktime_get_ns() - r->time >= table->most_ns)
			return;
		if (bpf_probe_read_user(data + at, PIECE, (const void *)(from + at)))
			goto less;
	}
	*len = bytes;
	return;
less:
	r->goes_on = 0;
	/* Through memory: a number within bounds, so the verifier sees the rest once. */
	at = *len;
	if (at > bytes - PIECE)
		return;
#pragma clang loop unroll(full)
	for (u32 part = PIECE / 2; part >= DEEP_PAGE; part /= 2)
		if (!bpf_probe_read_user(data + at, part, (const void *)(from + at)))
			at += part;
	*len = at;
}

/* Wakes main where the ring fills up, or the class is too small. */
static __always_inline u64 wake_up(u32 len, u32 bytes)
{
	if ((len >= bytes && bytes < DEEP_KIB_7 << 10) ||
	    bpf_ringbuf_query(&deep_ring, BPF_RB_AVAIL_DATA) >= settings.deep_ring_bytes / 4)
		return BPF_RB_FORCE_WAKEUP;
	return BPF_RB_NO_WAKEUP;
}

static __always_inline void copy_stack(struct deep_table *table, const struct thread *t,
				       const u32 bytes)
{
	struct at_sample_record *r = bpf_ringbuf_reserve(&deep_ring, sizeof(*r) + bytes, 0);

	if (!r) {
		__sync_fetch_and_add(&table->lost, 1);
		return;
	}
	r->time = bpf_ktime_get_ns();
	r->sp = t->sp;
	r->tid = t->tid;
	/* They begin at a page, so no page of the stack's end is lost by a piece that crosses it. */
	read_pieces(table, r, t->sp & -(u64)DEEP_PAGE, bytes);
	/* The stack ends within the kernel's copy, and another mapping lies behind it.  A thread that main knows nothing of is
	 * one without deep stacks then: main learns from copies that are full. */
	if (*(volatile u32 *)&r->len <= (t->sp & (DEEP_PAGE - 1)) + table->room) {
		u64 *entry = &table->threads[t->tid & (DEEP_THREADS - 1)];

		if (*entry >> 32 != t->tid)
			*entry = (u64)t->tid << 32;
		bpf_ringbuf_discard(r, BPF_RB_NO_WAKEUP);
		return;
	}
	bpf_ringbuf_submit(r, wake_up(*(volatile u32 *)&r->len, bytes));
}

static __attribute__((noinline)) void deep_stack(const struct thread *t)
{
	struct deep_table *table;
	u32 zero = 0, class;
	u64 entry, word;

	if (t->pc & t->sp & 1ull << 63)
		return;
	table = bpf_map_lookup_elem(&deep_table, &zero);
	if (!table)
		return;
	entry = table->threads[t->tid & (DEEP_THREADS - 1)];
	class = entry >> 32 == t->tid ? (u32)entry : table->first;
	/* Is there stack behind the copy? */
	if (!class || bpf_probe_read_user(&word, sizeof(word), (const void *)(t->sp + table->room)))
		return;
	switch (class) {
#define CLASS(n)                                          \
	case n:                                           \
		copy_stack(table, t, DEEP_KIB_##n << 10); \
		break;
		CLASS(1)
		CLASS(2)
		CLASS(3)
		CLASS(4)
		CLASS(5)
		CLASS(6)
		CLASS(7)
	}
}

/* ---- CPython ---- */

static __always_inline bool read_word(u64 at, u64 *word)
{
	return bpf_probe_read_user(word, sizeof(*word), (const void *)at) == 0;
}

struct search {
	u64 state; /* a thread state; 0: the end */
	u64 native;
	u16 next, native_at, through;
	u32 tid, found;
};

/* The kernel's id of the thread @state; 0: none.  @through: where the pointer to it is, 0: it is in @state. */
static __always_inline u64 native_of(u64 state, u16 through, u16 native_at)
{
	u64 word = state;

	if (through && !read_word(state + through, &word))
		return 0;
	return read_word(word + native_at, &word) ? word : 0;
}

static long search_turn(u64 turn, struct search *s)
{
	(void)turn;
	if (!s->state)
		return 1;
	s->native = native_of(s->state, s->through, s->native_at);
	if ((u32)s->native == s->tid) { /* Ruby's has 32 bits */
		s->found = 1;
		return 1;
	}
	return !read_word(s->state + s->next, &s->state);
}

/* The thread state of @t, or 0.  Of Ruby the main thread is the first, also where a container has ids of its own. */
static __always_inline u64 state_of(struct python_table *table, const struct python_process *p,
				    const struct thread *t)
{
	enum { STATES_MAX = 256 };
	u64 *known = &table->states[t->tid & (PYTHON_THREADS - 1)], interpreter;
	struct search s = {
		.next = p->next, .native_at = p->native, .through = p->through, .tid = t->tid};
	u64 last = *known;

	if (last && (u32)native_of(last, p->through, p->native) == t->tid)
		return last;
	if (!read_word(p->interpreter, &interpreter) ||
	    !read_word(interpreter + p->threads, &s.state))
		return 0;
	if (p->key & PYTHON_IS_RUBY && (t->tid == t->tgid || !p->native))
		return t->tid == t->tgid ? s.state : 0;
	bpf_loop(STATES_MAX, search_turn, &s, 0);
	if (!s.found)
		return 0;
	*known = s.state;
	return s.state;
}

struct walk {
	struct python_record *record;
	u64 next;
	u32 n, kind;	     /* kind: PYTHON_IS_* and the version */
	u16 len_at, file_at; /* PHP */
	u64 code_type;	     /* Python */
	u64 last, sign;	     /* the function that was signed last */
	u32 tgid, n_new;     /* n_new: functions that were in no sample before */
	u64 generator;	     /* PHP: one that may wait for another one; 0: none */
	u64 outer;	     /* ... the frame behind these */
};

/* ---- signs of functions: the words of symbols/script-sign.c; of Python base/python-sign.h ---- */

static __always_inline bool mix(u64 *hash, u64 at, const u32 n)
{
	u64 words[4];

	if (bpf_probe_read_user(words, 8 * n, (const void *)at))
		return 0;
#pragma clang loop unroll(full)
	for (u32 i = 0; i < n; i++)
		*hash = sign_mix(*hash, words[i]);
	return 1;
}

static __always_inline bool mix_end(u64 *hash, u64 text, u64 len)
{
	return len < 8 || len > 1 << 24 || mix(hash, text + len - 8, 1);
}

static __always_inline bool mix_string(u64 *hash, u64 string)
{
	u64 len;

	return !string || (read_word(string + 16, &len) && mix(hash, string + 16, 2) &&
			   mix_end(hash, string + 24, len));
}

static __attribute__((noinline)) u64 sign_php(u64 function, u32 len_at, u32 file_at)
{
	u64 head[3], class, file = 0, hash = 0;

	if (bpf_probe_read_user(head, sizeof(head), (const void *)function))
		return 0;
	hash = sign_mix(sign_mix(0, head[1]), head[2]);
	if ((head[0] & 0xff) != 1 &&
	    (!mix(&hash, function + len_at, 2) || !read_word(function + file_at, &file) ||
	     !mix(&hash, function + file_at, 2)))
		return 0;
	if (!mix_string(&hash, head[1] ? head[1] : file))
		return 0;
	if (head[2] && (!read_word(head[2] + 8, &class) || !mix(&hash, head[2] + 8, 1) ||
			!mix_string(&hash, class)))
		return 0;
	return sign_end(hash);
}

static __attribute__((noinline)) u64 sign_ruby(u64 function, u32 sizes)
{
	u64 head[3], location[4], label[5], hash = 0; /* label: flags, class, .. */

	if (bpf_probe_read_user(head, sizeof(head), (const void *)function))
		return 0;
	if ((head[0] >> 12 & 15) == 6) /* a method entry */
		return mix(&hash, function + 16, 3) ? sign_end(hash) : 0;
	hash = sign_mix(0, head[2]);
	if (!mix(&hash, head[2], 2) ||
	    bpf_probe_read_user(location, sizeof(location), (const void *)(head[2] + 64)) ||
	    bpf_probe_read_user(label, sizeof(label), (const void *)location[2]))
		return 0;
#pragma clang loop unroll(full)
	for (u32 i = 0; i < 4; i++)
		hash = sign_mix(hash, location[i]);
#pragma clang loop unroll(full)
	for (u32 i = 2; i < 5; i++)
		hash = sign_mix(hash, label[i]);
	if (label[0] & 1 << 13 ? !mix_end(&hash, label[3], label[2])
			       : sizes && !mix_end(&hash, location[2] + 24, label[2]))
		return 0;
	return sign_end(hash);
}

/* With PYTHON_HIDDEN, where its file and its name are one text (_Py_InitCleanup).  0: it is none, or cannot be read. */
static __attribute__((noinline)) u64 sign_python(u64 code, u64 type, u32 minor)
{
	enum { WORDS_AT = 8 };
	u64 words[16]; /* from the type up to the qualified name */
	struct python_name name;
	struct python_content content = {};
	u64 tail;

	if (bpf_probe_read_user(words, sizeof(words), (const void *)(code + WORDS_AT)) ||
	    words[0] != type ||
	    bpf_probe_read_user(&name, sizeof(name), (const void *)(words[15] + PYTHON_NAME_AT)))
		return 0;
	content.units = words[1];
	content.line = minor < 12 ? (u32)words[8] : words[7] >> 32;
	content.filename = words[13];
	content.length = name.length;
	content.head = python_name_head(&name, minor);
	tail = python_name_tail(&name, minor, words[15]);
	if (tail && !read_word(tail, &content.tail))
		return 0;
	return python_sign(&content) | (words[13] == words[15] ? PYTHON_HIDDEN : 0);
}

/* Notes the function.  Is it in a sample for the first time?  The table forgets where four others have its places. */
static __attribute__((noinline)) u32 is_new(u64 place, u64 tgid)
{
	u64 hash = sign_mix(sign_mix(0, place), tgid) | 1, *known;
	u32 first = hash >> 32 & (PYTHON_FUNCTIONS - PYTHON_FUNCTION_PLACES), zero = 0;
	struct python_table *table = bpf_map_lookup_elem(&python_table, &zero);

	if (!table)
		return 0;
	known = table->functions + first;
#pragma clang loop unroll(full)
	for (u32 i = 0; i < PYTHON_FUNCTION_PLACES; i++)
		if (known[i] == hash)
			return 0;
#pragma clang loop unroll(full)
	for (u32 i = PYTHON_FUNCTION_PLACES - 1; i > 0; i--)
		known[i] = known[i - 1];
	known[0] = hash;
	return 1;
}

/* Of the function @function; one that calls itself is signed once. */
static __always_inline u64 sign_of(struct walk *w, u64 function)
{
	if (function != w->last || !function) {
		w->last = function;
		w->sign = !function		    ? 0
			  : w->kind & PYTHON_IS_PHP ? sign_php(function, w->len_at, w->file_at)
			  : w->kind & PYTHON_IS_RUBY
				  ? sign_ruby(function, w->kind & PYTHON_HAS_SIZES)
				  : sign_python(function, w->code_type, w->kind & 0xff);
		if (w->sign)
			w->n_new += is_new(function | w->sign << 48, w->tgid);
	}
	return w->sign << 48;
}

/* The low 48 bits. */
static __always_inline u64 address_of(u64 word)
{
	return word << 16 >> 16;
}

/* PHP: a generator waits in `yield from` for another one.  The running one has a frame without a function behind it, which lies in the
 * outermost of those that wait (base/php-generator.h).  From this one inwards each has its parent. */
static __always_inline void find_generator(struct walk *w, const u64 words[10])
{
	u64 generator = address_of(words[4]);

	if (!words[3] && w->next == generator + PHP_GENERATOR_FAKE) {
		w->generator = generator;
		w->outer = address_of(words[6]);
	}
}

/* Is the next frame that of a generator that waits?  Else the one behind all of these is next. */
static __always_inline bool next_generator(struct walk *w)
{
	u64 frame, parent;

	if (read_word(w->generator + PHP_GENERATOR_FRAME, &frame) &&
	    read_word(w->generator + PHP_GENERATOR_PARENT, &parent) && frame && parent) {
		w->generator = address_of(parent);
		w->next = address_of(frame);
		return 1;
	}
	w->generator = 0;
	w->next = w->outer;
	return 0;
}

enum { OWNED_BY_C = 3 };

/* The offsets of a frame are from symbols/python.c. */
static long frame_turn(u64 turn, struct walk *w)
{
	u64 words[10] = {}, *frame; /* words: up to the locals */
	u32 len = (w->kind & 0xff) >= 14 ? 80 : 72;
	bool waits = w->generator && next_generator(w);
	u64 next, marks;

	if (turn >= PYTHON_STACK_MAX || !w->next ||
	    bpf_probe_read_user(words, len, (const void *)w->next))
		return 1;
	frame = w->record->frames[turn];
	frame[0] = w->next;
	if (w->kind & PYTHON_IS_PHP) { /* struct _zend_execute_data */
		frame[0] = address_of(w->next) | sign_of(w, address_of(words[3]));
		frame[1] = address_of(words[3]) | (words[5] >> 17 & 1) << 48 | (u64)waits << 49;
		frame[2] = words[0];
		find_generator(w, words);
		w->next = address_of(words[6]) | w->generator; /* (not the end) */
		w->n = turn + 1;
		return 0;
	}
	if ((w->kind & 0xff) >= 12) {
		frame[1] = words[0] & ~7ull; /* 3.14 on: a tag */
		next = words[1];
		marks = (len == 80 ? words[9] >> 8 : words[8] >> 40) & 0xff00;
	} else {
		frame[1] = words[4];
		next = words[6];
		marks = words[8] >> 32 & 0xffff;
	}
	/* One of the C stack has no function. */
	frame[0] = address_of(w->next) | (marks >> 8 < OWNED_BY_C ? sign_of(w, frame[1]) : 0);
	w->next = address_of(next);
	frame[2] = w->next | marks << 48;
	w->n = turn + 1;
	return 0;
}

/* The method entry of a method in C or in Ruby; else the iseq. @word: in front of the flags of an environment, which stand before a
 * method's own (struct vm_svar). */
static __always_inline u64 ruby_function(u64 flags, u64 word, u64 iseq)
{
	u64 head[2];

	if ((flags & 0x7fff0001) == 0x55550001)
		return word;
	if ((flags & 0x7fff0001) != 0x11110001 ||
	    bpf_probe_read_user(head, sizeof(head), (const void *)word))
		return iseq;
	if ((head[0] >> 12 & 15) == 2) {
		word = head[1];
		if (!read_word(word, &head[0]))
			return iseq;
	}
	return (head[0] & 0x1f) == 0x1a && (head[0] >> 12 & 15) == 6 ? word : iseq;
}

/* Ruby's frames lie one behind the other; the environment of each has its flags, and before them its method. */
static long ruby_turn(u64 turn, struct walk *w)
{
	u64 words[5], environment[3], *frame,
		function; /* rb_control_frame_t, up to ep; ep[-2] to ep[0] */

	if (turn >= PYTHON_STACK_MAX ||
	    bpf_probe_read_user(words, sizeof(words), (const void *)w->next) ||
	    bpf_probe_read_user(environment, sizeof(environment), (const void *)(words[4] - 16)))
		return 1;
	frame = w->record->frames[turn];
	function = address_of(ruby_function(environment[2], environment[0], words[2]));
	frame[0] = address_of(w->next) | sign_of(w, function);
	frame[1] = function | (environment[2] >> 5 & 1) << 48;
	frame[2] = words[0];
	w->next += w->kind & 0xff;
	w->n = turn + 1;
	return 0;
}

static __always_inline bool innermost_frame(const struct python_process *p, u64 state, u64 *frame)
{
	u32 minor = p->key & 0xff;
	u64 context;

	if (p->key & PYTHON_IS_RUBY)
		return read_word(state + p->context, &context) &&
		       read_word(context + p->frame, frame);
	if (!read_word(state + p->frame, frame))
		return 0;
	/* Before 3.13 that is a _PyCFrame: current_frame is its first word, behind use_tracing before 3.12. */
	return minor >= 13 || read_word(*frame + (minor < 12 ? 8 : 0), frame);
}

/* A stack in the heap, from @from up, behind @head words of a record: as many words as can be read.  Returns the bytes of both, whole
 * frames; 0: none can be read. */
static __always_inline u32 copy_words(u64 *to, const u32 head, u64 from)
{
#define WORDS(bytes)                                                                         \
	if (!bpf_probe_read_user(to + head, (bytes)-head * sizeof(*to), (const void *)from)) \
		return bytes;
	WORDS(7680)
	WORDS(3072)
	WORDS(1008)
	WORDS(240)
	return 0;
}

/* Haskell's, from rbp up: rbp, then the words. */
static __always_inline u32 stg_words(struct python_record *r, u64 bp)
{
	u64 *to = (u64 *)r->frames;

	if (bp & 7)
		return 0;
	to[0] = bp;
	return copy_words(to, 1, bp);
}

/* The thread's m: by r14, which has a g in Go's functions, or that of an earlier sample; its procid proves it. */
static __always_inline u64 go_m(struct python_table *table, const struct python_process *p,
				const struct thread *t)
{
	u64 *known = &table->states[t->tid & (PYTHON_THREADS - 1)];
	u64 m, tid;

	if (read_word(t->r14 + p->native, &m) && read_word(m + p->threads, &tid) && tid == t->tid)
		*known = m;
	m = *known;
	return m && read_word(m + p->threads, &tid) && tid == t->tid ? m : 0;
}

/* Where the goroutine's stack was left; false: the thread is on it, or has none. */
static __always_inline bool go_place(const struct python_process *p, const struct thread *t, u64 m,
				     u64 *to)
{
	u64 g;

	if (!m || !read_word(m + p->next, &g) || !g ||
	    bpf_probe_read_user(to + GO_COPY_LO, 16, (const void *)g) ||
	    (t->sp >= to[GO_COPY_LO] && t->sp < to[GO_COPY_HI]) ||
	    bpf_probe_read_user(to + GO_COPY_SP, 16, (const void *)(g + p->frame)))
		return 0;
	to[GO_COPY_M] = m;
	to[GO_COPY_G] = g;
	return 1;
}

static __always_inline void go_stack(struct python_table *table, const struct python_process *p,
				     const struct thread *t)
{
	struct python_record *r;
	u64 place[GO_COPY_HEAD] = {}, *to;
	u32 i;

	if (!go_place(p, t, go_m(table, p, t), place))
		return;
	r = bpf_ringbuf_reserve(&python_ring, sizeof(*r), 0);
	if (!r)
		return;
	to = (u64 *)r->frames;
#pragma clang loop unroll(full)
	for (i = 0; i < GO_COPY_HEAD; i++)
		to[i] = place[i];
	r->head = (struct at_sample_record){.time = bpf_ktime_get_ns(), .sp = t->sp, .tid = t->tid};
	r->head.len = copy_words(to, GO_COPY_HEAD, to[GO_COPY_SP]);
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

/* A function that is new may be freed soon: main is to read its name at once.  Else the sample's ring wakes main. */
static __always_inline u64 wake_for_new(struct python_table *table, u32 n_new)
{
	u64 now;

	if (n_new)
		table->unread = 1;
	if (!table->unread)
		return BPF_RB_NO_WAKEUP;
	now = bpf_ktime_get_ns();
	if (now - table->woken < PYTHON_WAKE_NS)
		return BPF_RB_NO_WAKEUP;
	table->woken = now;
	table->unread = 0;
	return BPF_RB_FORCE_WAKEUP;
}

static __always_inline void python_frames(const struct thread *t)
{
	struct python_process *p;
	struct python_table *table;
	struct walk w = {};
	u32 zero = 0;

	table = bpf_map_lookup_elem(&python_table, &zero);
	if (!table)
		return;
	p = &table->processes[t->tgid & (PYTHON_PROCESSES - 1)];
	if (p->key >> 32 != t->tgid)
		return;
	if (p->key & PYTHON_IS_GO) {
		go_stack(table, p, t);
		return;
	}
	w.kind = (u32)p->key;
	w.tgid = t->tgid;
	w.len_at = p->next;
	w.file_at = p->native;
	w.code_type = p->code_type;
	if (w.kind & PYTHON_IS_PHP) {
		if (!read_word(p->interpreter, &w.next))
			return;
	} else if (!(w.kind & PYTHON_IS_STG)) {
		u64 state = state_of(table, p, t);

		if (!state || !innermost_frame(p, state, &w.next))
			return;
	}
	w.record = bpf_ringbuf_reserve(&python_ring, sizeof(*w.record), 0);
	if (!w.record)
		return;
	w.record->head =
		(struct at_sample_record){.time = bpf_ktime_get_ns(), .sp = t->sp, .tid = t->tid};
	if (w.kind & PYTHON_IS_STG) {
		w.record->head.len = stg_words(w.record, t->bp);
		bpf_ringbuf_submit(w.record, BPF_RB_NO_WAKEUP);
		return;
	}
	if (w.kind & PYTHON_IS_RUBY)
		bpf_loop(PYTHON_STACK_MAX, ruby_turn, &w, 0);
	else
		bpf_loop(PYTHON_STACK_MAX, frame_turn, &w, 0);
	w.record->head.len = w.n * sizeof(w.record->frames[0]);
	bpf_ringbuf_submit(w.record, wake_for_new(table, w.n_new));
}

/* ---- programs: one is loaded ---- */

SEC("perf_event")
int at_sample(struct bpf_perf_event_data *ctx)
{
	struct thread t;

	if (look(ctx, &t)) {
		if (settings.deep)
			deep_stack(&t);
		if (settings.python)
			python_frames(&t);
	}
	return 1; /* 0 would drop the sample */
}

/* Without bpf_loop(), which Linux 5.17 has; loaded in a third of the time. */
SEC("perf_event")
int at_sample_deep(struct bpf_perf_event_data *ctx)
{
	struct thread t;

	if (look(ctx, &t))
		deep_stack(&t);
	return 1;
}
